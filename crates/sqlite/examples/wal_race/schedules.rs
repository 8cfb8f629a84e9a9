//! The schedules of a search: one delay, random, PCT, stalls.

use crate::search::{Shape, search};
use rt::{DELAYS, Policy, SimConfig};
use std::ops::Range;

/// Damaged schedules of each kind that are told.
const TOLD_MAX: u64 = 3;
/// The kinds of schedules, in the order of their tallies.
const NAMES: [&str; 6] = [
    "one delay",
    "random",
    "PCT 3",
    "PCT 5",
    "one stall in 100 points",
    "ten stalls a run",
];
/// As long as SQLite waits for a lock, ns.
const STALL_BELOW: u64 = 5_000_000;

/// The size of a search.
pub struct Limits {
    /// Numbers of the workloads.
    pub workloads: Range<u64>,
    /// Schedules of each kind and workload; of one delay fewer if a run has fewer points.
    pub schedules: u64,
}

/// Runs all kinds of schedules of these workloads; answers how many runs were damaged.
pub fn search_all(limits: &Limits, shape: Shape) -> u64 {
    let mut tallies = [Tally::default(); NAMES.len()];
    for workload in limits.workloads.clone() {
        let points = tallies[0].note(workload, Policy::Delays([u64::MAX; DELAYS]), shape);
        one_delay(&mut tallies[0], workload, points, limits.schedules, shape);
        for run in 0..limits.schedules {
            let stalls = |one_in| Policy::Stalls {
                one_in,
                below: STALL_BELOW,
            };
            let others = [
                Policy::Random { yield_one_in: 8 },
                Policy::Pct { depth: 3, points },
                Policy::Pct { depth: 5, points },
                stalls(100),
                stalls((points / 10).max(1)),
            ];
            for (tally, policy) in tallies[1..].iter_mut().zip(others) {
                tally.note(workload << 32 | run, policy, shape);
            }
        }
    }
    for (tally, name) in tallies.iter().zip(NAMES) {
        // Random schedules count none.
        let points = match tally.points / tally.runs.max(1) {
            0 => String::new(),
            points => format!(", {points} points a run"),
        };
        let (damaged, runs) = (tally.damaged, tally.runs);
        println!("{name}: {damaged} of {runs} runs damaged{points}");
    }
    tallies.iter().map(|tally| tally.damaged).sum()
}

/// One delay in FIFO order at each point of a run, or at so many evenly spread ones.
fn one_delay(tally: &mut Tally, workload: u64, points: u64, at_most: u64, shape: Shape) {
    let step = points.div_ceil(at_most.max(1)).max(1);
    for point in (0..points).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let mut at = [u64::MAX; DELAYS];
        at[0] = point;
        tally.note(workload, Policy::Delays(at), shape);
    }
}

/// What came of the schedules of one kind.
#[derive(Clone, Copy, Default)]
struct Tally {
    runs: u64,
    damaged: u64,
    points: u64,
}

impl Tally {
    /// Makes a run, tells of the first ones that are damaged, and answers how many points it had.
    fn note(&mut self, seed: u64, policy: Policy, shape: Shape) -> u64 {
        let config = SimConfig {
            policy,
            ..SimConfig::seeded(seed)
        };
        let (why, points) = search(config.clone(), shape);
        self.runs += 1;
        self.points += points;
        if let Some(why) = why {
            self.damaged += 1;
            if self.damaged <= TOLD_MAX {
                println!("run {}: {why}\n  replay: '{config}'", self.runs);
            }
        }
        points
    }
}
