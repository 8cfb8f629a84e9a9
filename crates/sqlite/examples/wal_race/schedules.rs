//! The schedules of a search: one delay, random, PCT, stalls.

use crate::search::{Shape, search};
use rt::{DELAYS, Policy, SimConfig};
use std::ops::Range;

/// Damaged schedules of each kind that are told.
const TOLD_MAX: u64 = 3;
/// The kinds of schedules.
const KINDS: [&str; 7] = [
    "delay",
    "random",
    "pct-2",
    "pct-3",
    "pct-5",
    "stalls",
    "ten-stalls",
];
/// As long as SQLite waits for a lock, ns.
const STALL_BELOW: u64 = 5_000_000;

/// The size of a search.
pub struct Limits {
    /// Numbers of the workloads.
    pub workloads: Range<u64>,
    /// Schedules of each kind and workload; of one delay fewer if a run has fewer points.
    pub schedules: u64,
    /// Which of [`KINDS`].
    pub kinds: Vec<&'static str>,
}

/// The kinds that a list with commas names; all of them for `all`.
pub fn kinds(list: &str) -> Result<Vec<&'static str>, String> {
    if list == "all" {
        return Ok(KINDS.to_vec());
    }
    let one = |word| KINDS.into_iter().find(|kind| *kind == word).ok_or(word);
    let found: Result<Vec<_>, &str> = list.split(',').map(one).collect();
    found.map_err(|word| {
        format!(
            "{word:?} is no kind of schedule; there are {}",
            KINDS.join(", ")
        )
    })
}

/// Runs schedules of these workloads; answers how many runs were damaged.
pub fn search_all(limits: &Limits, shape: Shape) -> u64 {
    let mut tallies = vec![Tally::default(); limits.kinds.len()];
    for workload in limits.workloads.clone() {
        let points = points(workload, shape);
        for (kind, tally) in limits.kinds.iter().zip(&mut tallies) {
            if *kind == "delay" {
                one_delay(tally, workload, points, limits.schedules, shape);
                continue;
            }
            for run in 0..limits.schedules {
                tally.note(workload << 32 | run, policy(kind, points), shape);
            }
        }
    }
    for (tally, kind) in tallies.iter().zip(&limits.kinds) {
        // Random schedules count no points.
        let points = match tally.points / tally.runs.max(1) {
            0 => String::new(),
            points => format!(", {points} points a run"),
        };
        let (damaged, runs) = (tally.damaged, tally.runs);
        println!("{kind}: {damaged} of {runs} runs damaged{points}");
    }
    tallies.iter().map(|tally| tally.damaged).sum()
}

/// A schedule of a kind other than of one delay, for a run with about so many points.
fn policy(kind: &str, points: u64) -> Policy {
    let stalls = |one_in| Policy::Stalls {
        one_in,
        below: STALL_BELOW,
    };
    match kind {
        "random" => Policy::Random { yield_one_in: 8 },
        "pct-2" => Policy::Pct { depth: 2, points },
        "pct-3" => Policy::Pct { depth: 3, points },
        "pct-5" => Policy::Pct { depth: 5, points },
        "stalls" => stalls(100),
        _ => stalls((points / 10).max(1)),
    }
}

/// Points of a run in which nothing is put off.
fn points(workload: u64, shape: Shape) -> u64 {
    let policy = Policy::Delays([u64::MAX; DELAYS]);
    Tally::default().note(workload, policy, shape)
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
