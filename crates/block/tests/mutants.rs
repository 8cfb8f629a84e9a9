//! The catalogue of `cargo xtask mutants` for the ordered plug and the schedulers: each guard,
//! removed, is noticed within 200 cuts, and the code with its guards passes the same cuts.
//! docs/design/testing.md says what a line means.

#[path = "it/plug.rs"]
mod plug;
#[path = "it/programs.rs"]
mod programs;

use base::{Mutant, Rng};
use blockdev::{Caps, PackOrder};
use plug::{Judged, packed};
use programs::{OWN, Step, TASKS};
use rt::{Outcome, SimConfig};
use varve_block::Scheduler;

/// Cuts within which a mutant has to be noticed.
const CUTS: u64 = 200;

/// Proves what the catalogue says of `mutant`, and says it. `run` makes the run of a seed, and `by`
/// names what notices.
fn noticed(
    mutant: Mutant,
    (workload, by): (&str, &str),
    run: impl Fn(u64, SimConfig) -> Outcome<Judged>,
) {
    let (mut cuts, mut clean, mut reached) = (0, 0, 0);
    for seed in 0.. {
        assert!(
            cuts < CUTS,
            "{mutant}: not noticed, reached {reached} times"
        );
        let whole = run(seed, SimConfig::random(seed));
        clean += whole
            .value
            .expect("it ran to its end")
            .unwrap_or_else(|(_, why)| panic!("the code with its guard, seed {seed}: {why}"));
        let config = SimConfig {
            mutant: Some(mutant),
            ..SimConfig::random(seed)
        };
        let broken = run(seed, config);
        reached += broken.reached.get(&mutant).copied().unwrap_or(0);
        match broken.value.expect("it ran to its end") {
            Ok(judged) => cuts += judged,
            Err((judged, why)) => {
                assert!(reached > 0, "{mutant}: no one asked for its guard");
                cuts += judged;
                println!("{mutant}: seed {seed}: {why}");
                println!("mutant|{mutant}|{workload}|{reached}|{by}|{cuts}|{clean}");
                return;
            }
        }
    }
}

/// A guard of the ordered plug.
fn plugged(mutant: Mutant, workload: &str, caps: &Caps) {
    noticed(mutant, (workload, "order of groups"), |seed, config| {
        plug::run(caps.clone(), seed, config)
    });
}

/// A guard of the schedulers: each of them misses it.
fn scheduled(mutant: Mutant) {
    for scheduler in [Scheduler::Cfq310, Scheduler::MqDeadline, Scheduler::Bfq] {
        let workload = format!("three tasks, {scheduler}");
        noticed(mutant, (&workload, "what flushes cover"), |seed, config| {
            let programs: Vec<Vec<Step>> = (0..TASKS).map(|task| program(seed, task)).collect();
            programs::run(&programs, (scheduler, 2), seed, config)
        });
    }
}

/// A random program.
fn program(seed: u64, task: u64) -> Vec<Step> {
    let mut rng = Rng::named(seed, &format!("program {task}"));
    let mut step = |_| match rng.below(12) {
        0..6 => Step::Write {
            slot: rng.below(OWN),
            background: rng.below(2) == 0,
            fua: rng.below(5) == 0,
        },
        6 => Step::Read {
            slot: rng.below(OWN),
        },
        7 | 8 => Step::Land,
        9 | 10 => Step::Flush,
        _ => Step::Sleep {
            us: rng.below(12_000),
        },
    };
    (0..30).map(&mut step).collect()
}

/// hazards-H28.
#[test]
fn scheduler_passes_flush() {
    scheduled(Mutant::SchedulerPassesFlush);
}

/// hazards-H29.
#[test]
fn scheduler_swaps() {
    scheduled(Mutant::SchedulerSwaps);
}

/// hazards-H8.
#[test]
fn pack_twice() {
    let caps = packed(PackOrder::Prefix, 60);
    plugged(Mutant::PackTwice, "ordered plug, prefix", &caps);
}

/// hazards-H20.
#[test]
fn pack_any_subset() {
    let caps = packed(PackOrder::AnySubset, 60);
    plugged(Mutant::PackAnySubset, "ordered plug, any subset", &caps);
}
