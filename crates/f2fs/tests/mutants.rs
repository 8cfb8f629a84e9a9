//! The catalogue of `cargo xtask mutants` for guards of F2FS that its own histories reach. docs/measuring.md says what a line means.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

mod common;
mod pressure;

use base::Mutant;

/// Lives within which a mutant has to be noticed.
const LIVES: u64 = 6;
const CUTS: usize = 30;

struct Seen {
    cuts: usize,
    reached: u64,
    found: Option<String>,
}

fn explore(mutant: Option<Mutant>, options: &'static str) -> Seen {
    let mut seen = Seen {
        cuts: 0,
        reached: 0,
        found: None,
    };
    for seed in 10..10 + LIVES {
        let outcome = pressure::live(seed, options, 300, CUTS, mutant);
        let reached = mutant.and_then(|m| outcome.reached.get(&m).copied());
        seen.reached += reached.unwrap_or(0);
        if let Some(failure) = outcome.first_failure {
            seen.found = Some(format!("seed {seed}: {failure}"));
            return seen;
        }
        for (n, cut) in outcome.value.expect("cuts").iter().enumerate() {
            seen.cuts += 1;
            if let Err(why) = pressure::judge(cut, options) {
                seen.found = Some(format!("seed {seed}, cut {n}: {why}"));
                return seen;
            }
        }
    }
    seen
}

/// F1: what is freed is written again before the next checkpoint.
#[test]
fn f2fs_reuse_before_checkpoint() {
    let (mutant, options) = (Mutant::F2fsReuseBeforeCheckpoint, "cache=2,ipu_policy=0");
    let clean = explore(None, options);
    assert_eq!(clean.found, None, "the code with its guard");
    let broken = explore(Some(mutant), options);
    assert!(broken.reached > 0, "{mutant}: no one asked for its guard");
    let found = broken.found;
    let found = found.unwrap_or_else(|| panic!("{mutant}: not noticed in {} cuts", broken.cuts));
    println!("{mutant}: {found}");
    println!(
        "mutant|{mutant}|f2fs, {options}|{}|file system|{}|{}",
        broken.reached, broken.cuts, clean.cuts
    );
}
