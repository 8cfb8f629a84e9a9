//! Looks for races of SQLite's write-ahead log ([`search`]) under many schedules.
//!
//! `cargo xtask sqlite-race` builds it with the sources of another SQLite. SQLite is not patched:
//! a task gives way where SQLite calls its VFS, the calls included that have nothing to do here,
//! and nowhere else. SQLite's accesses to shared memory between two calls are no points of a
//! schedule, and neither are its mutexes, as no connection is shared.
#![allow(clippy::disallowed_macros)] // It prints.

mod search;

use rt::{Policy, SimConfig};
use search::{Shape, search};
use std::process::ExitCode;
use varve_sqlite::rusqlite;

/// Damaged schedules of each kind that are told.
const TOLD_MAX: u64 = 3;

/// `wal_race WORKLOADS FIRST` searches, `wal_race REPLAY-LINE` runs one schedule again.
fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let shape = Shape::default();
    println!(
        "SQLite {}: {} connections, {} steps each",
        rusqlite::version(),
        shape.connections,
        shape.steps
    );
    if let [line] = &args[..] {
        let config = match line.parse::<SimConfig>() {
            Ok(config) => config,
            Err(why) => {
                eprintln!("wal_race: {why}");
                return ExitCode::from(2);
            }
        };
        let (why, _) = search(config, shape);
        println!("{}", why.as_deref().unwrap_or("whole"));
        return ExitCode::from(u8::from(why.is_some()));
    }
    let number = |at: usize, default| args.get(at).map_or(Ok(default), |n| n.parse::<u64>());
    let (Ok(workloads), Ok(first)) = (number(0, 20), number(1, 1)) else {
        eprintln!("wal_race: two numbers, or one replay line in quotes");
        return ExitCode::from(2);
    };
    ExitCode::from(u8::from(search_all(first..first + workloads, shape) > 0))
}

/// Runs all kinds of schedules of these workloads; answers how many runs were damaged.
fn search_all(workloads: std::ops::Range<u64>, shape: Shape) -> u64 {
    let mut tallies = [Tally::default(); 5];
    for workload in workloads {
        // One delay at each point of a run in FIFO order; the first run has none.
        let points = rt::each_schedule(1, |policy| tallies[0].note(workload, policy, shape)) - 1;
        for run in 0..points {
            let others = [
                Policy::Random { yield_one_in: 8 },
                Policy::Pct { depth: 3, points },
                Policy::Pct { depth: 5, points },
                // As long as SQLite waits for a lock.
                Policy::Stalls {
                    one_in: 100,
                    below: 5_000_000,
                },
            ];
            for (tally, policy) in tallies[1..].iter_mut().zip(others) {
                tally.note(workload << 32 | run, policy, shape);
            }
        }
    }
    let names = ["one delay", "random", "PCT 3", "PCT 5", "stalls"];
    for (tally, name) in tallies.iter().zip(names) {
        println!("{name}: {} of {} runs damaged", tally.damaged, tally.runs);
    }
    tallies.iter().map(|tally| tally.damaged).sum()
}

/// What came of the schedules of one kind.
#[derive(Clone, Copy, Default)]
struct Tally {
    runs: u64,
    damaged: u64,
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
        if let Some(why) = why {
            self.damaged += 1;
            if self.damaged <= TOLD_MAX {
                println!("run {}: {why}\n  replay: '{config}'", self.runs);
            }
        }
        points
    }
}
