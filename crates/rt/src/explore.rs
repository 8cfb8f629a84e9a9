//! Schedules that look for rare interleavings, in three kinds: delay-bounded ones, all of which can
//! be run; those of PCT, each of which finds a bug of depth d with a known probability; and stalls.
//!
//! Delay bounding (Emmi, Qadeer, Rakamaric: "Delay-bounded scheduling", POPL 2011): tasks run in
//! FIFO order, but at up to n scheduling points the running task is put off behind all others. With
//! n = 0 there is one schedule; each further delay multiplies them by the points of a run. PCT
//! (Burckhardt et al., ASPLOS 2010): tasks have random priorities, the ready task with the highest
//! runs, and at d - 1 random points the running one falls below all others. Both choose among tasks
//! that are ready at one time; where tasks mostly wait, stalls bring them together.

use crate::task::TaskId;
use crate::{Policy, config::DELAYS};
use base::Rng;
use std::cell::{Cell, RefCell};

/// What a schedule of this kind remembers.
pub(crate) struct Explorer {
    policy: Policy,
    /// Scheduling points so far.
    pub(crate) points: Cell<u64>,
    pct: RefCell<Pct>,
    stalls: RefCell<Rng>,
}

#[derive(Default)]
struct Pct {
    rng: Option<Rng>,
    /// By task. Those that were lowered are below [`LOWERED`].
    priorities: Vec<u64>,
    changes: Vec<u64>,
    lowered: u64,
}

/// Priorities that tasks begin with are above this.
const LOWERED: u64 = 1 << 32;

impl Explorer {
    pub(crate) fn new(policy: Policy, seed: u64) -> Explorer {
        let mut pct = Pct::default();
        if let Policy::Pct { depth, points } = policy {
            let mut rng = Rng::named(seed, "rt/pct");
            pct.changes = (1..depth).map(|_| rng.below(points.max(1))).collect();
            pct.lowered = LOWERED;
            pct.rng = Some(rng);
        }
        Explorer {
            policy,
            points: Cell::new(0),
            pct: RefCell::new(pct),
            stalls: RefCell::new(Rng::named(seed, "rt/stalls")),
        }
    }

    /// Whether the running task gives way at this point, and for how long at least, ns.
    pub(crate) fn gives_way(&self, task: TaskId) -> Option<u64> {
        let point = self.points.replace(self.points.get() + 1);
        match self.policy {
            Policy::Delays(delays) => delays.contains(&point).then_some(0),
            Policy::Pct { .. } => {
                let mut pct = self.pct.borrow_mut();
                if pct.changes.contains(&point) {
                    pct.lowered -= 1;
                    let lowest = pct.lowered;
                    *pct.of(task) = lowest;
                }
                Some(0)
            }
            Policy::Stalls { one_in, below } => {
                let mut stalls = self.stalls.borrow_mut();
                let now = one_in > 0 && stalls.one_in(one_in);
                now.then(|| stalls.below(below.max(1)))
            }
            Policy::Fifo | Policy::Random { .. } => None,
        }
    }

    /// Which of the ready tasks runs.
    pub(crate) fn choose(&self, ready: impl Iterator<Item = TaskId>) -> usize {
        if !matches!(self.policy, Policy::Pct { .. }) {
            return 0;
        }
        let mut pct = self.pct.borrow_mut();
        let best = ready.enumerate().max_by_key(|(_, task)| *pct.of(*task));
        best.map_or(0, |(index, _)| index)
    }
}

impl Pct {
    fn of(&mut self, task: TaskId) -> &mut u64 {
        while self.priorities.len() <= task as usize {
            let drawn = self.rng.as_mut().map_or(0, |rng| rng.next_u64() >> 1);
            // Two tasks have one priority once in 2^63 times; then the later one wins, in every
            // run.
            self.priorities.push(LOWERED + drawn);
        }
        &mut self.priorities[task as usize]
    }
}

/// Calls `run` with every schedule of at most `delays` delays (at most 4); it answers how many
/// scheduling points its run had ([`crate::Outcome::points`]). Answers how many runs there were.
pub fn each_schedule(delays: usize, mut run: impl FnMut(Policy) -> u64) -> u64 {
    let mut at = [u64::MAX; DELAYS];
    deeper(&mut at, 0, delays.min(DELAYS), &mut run)
}

fn deeper(
    at: &mut [u64; DELAYS],
    used: usize,
    delays: usize,
    run: &mut impl FnMut(Policy) -> u64,
) -> u64 {
    let points = run(Policy::Delays(*at));
    let mut runs = 1;
    if used < delays {
        let first = if used == 0 { 0 } else { at[used - 1] + 1 };
        for point in first..points {
            at[used] = point;
            runs += deeper(at, used + 1, delays, run);
        }
        at[used] = u64::MAX;
    }
    runs
}
