//! The catalogue of `cargo xtask mutants` for guards of ext4 that only its own histories reach. docs/measuring.md says what a line means.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

mod data_path;

use base::Mutant;
use blockdev::Image;
use data_path::deaths::cuts_of_recoveries;
use data_path::{MIB, Tear, judge, life_beside, life_with, new_pair, new_volume};
use std::ops::Range;

/// Cuts within which a mutant has to be noticed.
const CUTS: u64 = 400;
const FIRST: u64 = 500;
const MIB_OF_VOLUME: u64 = 16;
/// The history of two devices, as its line says it.
const ON_TWO: &str = "scheme=jbd2, two devices";

struct Seen {
    cuts: u64,
    reached: u64,
    found: Option<String>,
}

fn explore(mutant: Option<Mutant>, options: &str) -> Seen {
    let start = new_volume(MIB_OF_VOLUME);
    let mut seen = Seen {
        cuts: 0,
        reached: 0,
        found: None,
    };
    let bytes = MIB_OF_VOLUME * MIB;
    for seed in FIRST.. {
        let outcome = life_with(seed, &start, (bytes, Tear::Blocks), options, mutant);
        let reached = mutant.and_then(|m| outcome.reached.get(&m).copied());
        seen.reached += reached.unwrap_or(0);
        if let Some(failure) = outcome.first_failure {
            seen.found = Some(format!("seed {seed}: {failure}"));
            return seen;
        }
        for (n, cut) in outcome.value.expect("cuts").iter().enumerate() {
            seen.cuts += 1;
            if let Err(why) = judge(cut, bytes, Tear::Blocks, options) {
                seen.found = Some(format!("seed {seed}, cut {n}: {why}"));
                return seen;
            }
        }
        if seen.cuts >= CUTS {
            return seen;
        }
    }
    seen
}

/// R14: what is freed is discarded behind its next use.
#[test]
fn discard_late() {
    let (mutant, options) = (Mutant::DiscardLate, "scheme=jftl,data=journal,discard");
    let clean = explore(None, options);
    assert_eq!(clean.found, None, "the code with its guard");
    let broken = explore(Some(mutant), options);
    assert!(broken.reached > 0, "{mutant}: no one asked for its guard");
    let found = broken.found;
    let found = found.unwrap_or_else(|| panic!("{mutant}: not noticed in {} cuts", broken.cuts));
    println!("{mutant}: {found}");
    println!(
        "mutant|{mutant}|ext4, {options}|{}|file system|{}|{}",
        broken.reached, broken.cuts, clean.cuts
    );
}

/// Cuts of two devices at once, the log on one of them.
fn explore_pair(mutant: Option<Mutant>, options: &str) -> Seen {
    let (home, log) = new_pair(MIB_OF_VOLUME);
    let mut seen = Seen {
        cuts: 0,
        reached: 0,
        found: None,
    };
    let bytes = MIB_OF_VOLUME * MIB;
    for seed in FIRST.. {
        let start = (&home, Some(&log));
        let outcome = life_beside(seed, start, (bytes, Tear::Blocks), options, mutant);
        let reached = mutant.and_then(|m| outcome.reached.get(&m).copied());
        seen.reached += reached.unwrap_or(0);
        if let Some(failure) = outcome.first_failure {
            seen.found = Some(format!("seed {seed}: {failure}"));
            return seen;
        }
        for (n, cut) in outcome.value.expect("cuts").iter().enumerate() {
            seen.cuts += 1;
            if let Err(why) = judge(cut, bytes, Tear::Blocks, options) {
                seen.found = Some(format!("seed {seed}, cut {n}: {why}"));
                return seen;
            }
        }
        if seen.cuts >= CUTS {
            return seen;
        }
    }
    seen
}

fn caught(mutant: Mutant, history: &str, explore: impl Fn(Option<Mutant>) -> Seen) {
    let clean = explore(None);
    assert_eq!(clean.found, None, "the code with its guard");
    let broken = explore(Some(mutant));
    assert!(broken.reached > 0, "{mutant}: no one asked for its guard");
    let found = broken.found;
    let found = found.unwrap_or_else(|| panic!("{mutant}: not noticed in {} cuts", broken.cuts));
    println!("{mutant}: {found}");
    println!(
        "mutant|{mutant}|ext4, {history}|{}|file system|{}|{}",
        broken.reached, broken.cuts, clean.cuts
    );
}

/// H25 on the device of homes.
#[test]
fn home_device_unflushed() {
    let explore = |mutant| explore_pair(mutant, "scheme=jbd2");
    caught(Mutant::HomeDeviceUnflushed, ON_TWO, explore);
}

/// H25 on the device of the log.
#[test]
fn log_device_unflushed() {
    let explore = |mutant| explore_pair(mutant, "scheme=jbd2");
    caught(Mutant::LogDeviceUnflushed, ON_TWO, explore);
}

/// Cuts of the recoveries behind processes that died.
fn explore_recoveries(
    start: (&Image, Option<&Image>),
    seeds: Range<u64>,
    mutant: Option<Mutant>,
) -> Seen {
    let seen = cuts_of_recoveries(start, "scheme=jbd2", seeds, mutant);
    Seen {
        cuts: seen.judged,
        reached: seen.reached,
        found: seen.found,
    }
}

/// H26.
#[test]
fn replay_unflushed_log() {
    let volume = new_volume(MIB_OF_VOLUME);
    let explore = |mutant| explore_recoveries((&volume, None), 500..504, mutant);
    caught(Mutant::ReplayUnflushedLog, "scheme=jbd2", explore);
}

/// H26 with the log on a device of its own.
#[test]
fn replay_unflushed_log_beside() {
    let (home, log) = new_pair(MIB_OF_VOLUME);
    let explore = |mutant| explore_recoveries((&home, Some(&log)), 100..104, mutant);
    caught(Mutant::ReplayUnflushedLog, ON_TWO, explore);
}

/// By hand, e.g. `MUTANT=tail-unflushed`: whether two devices show a mistake that others show on one.
#[test]
#[ignore = "the mutant that is asked for"]
fn on_two_devices() {
    let mutant = std::env::var("MUTANT")
        .expect("MUTANT=word")
        .parse()
        .expect("a mutant");
    let options = std::env::var("OPTIONS").unwrap_or_else(|_| "scheme=jbd2".into());
    let history = format!("{options}, two devices");
    caught(mutant, &history, |mutant| explore_pair(mutant, &options));
}
