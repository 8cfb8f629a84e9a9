//! Atomic writes, shifts, cuts, moves and overwrites of content, under power cuts.
#![allow(clippy::disallowed_methods)]

use crate::common;
mod cuts;

use crate::common::fresh;

const ROUNDS: u64 = 8;

fn explore(first: u64, seeds: u64, options: &str) {
    let start = fresh(cuts::VOLUME_MIB).blocks().into_iter().collect();
    let mut seen = 0;
    for seed in first..first + seeds {
        let lived = cuts::live(seed, &start, options, ROUNDS, None).unwrap();
        for (n, cut) in lived.iter().enumerate() {
            seen += 1;
            match cuts::judge(cut, options) {
                Err(why) => panic!("{options}: seed {seed}, cut {n}: {why}"),
                Ok(ram) if n == lived.len() / 2 => common::judge(&ram),
                Ok(_) => {}
            }
        }
    }
    assert!(seen > 10 * seeds, "{seen} cuts");
}

#[test]
fn in_place() {
    explore(0, 2, "");
}

#[test]
fn out_of_place() {
    explore(100, 2, "ipu_policy=0");
}

#[test]
fn log_structured_and_strict() {
    explore(200, 2, "mode=lfs,fsync_mode=strict");
}

/// By hand, e.g. `FROM=1000 SEEDS=200 OPTIONS=mode=lfs`.
#[test]
#[ignore = "as many seeds as asked for"]
fn many() {
    let number = |key| std::env::var(key).ok().and_then(|s| s.parse().ok());
    let options = std::env::var("OPTIONS").unwrap_or_default();
    explore(
        number("FROM").unwrap_or(1000),
        number("SEEDS").unwrap_or(20),
        &options,
    );
}
