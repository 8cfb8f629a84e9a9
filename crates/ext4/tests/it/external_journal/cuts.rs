//! Both devices are cut at the same moment, each with losses of its own: every promise of fsync is
//! kept, and every volume is whole.

use crate::data_path::deaths::cuts_of_recoveries;
use crate::data_path::{Cut, MIB, Tear, judge, life_beside, new_pair, new_pair_of};
use blockdev::Image;
use std::ops::Range;

/// Cuts of these lives, judged.
pub fn explore(
    seeds: Range<u64>,
    mib: u64,
    tear: Tear,
    options: &str,
    judge: impl FnMut(&Cut) -> Result<(), String>,
) {
    explore_of(new_pair(mib), seeds, (mib, tear), options, judge);
}

/// As [`explore`], on another volume and log.
fn explore_of(
    (home, log): (Image, Image),
    seeds: Range<u64>,
    (mib, tear): (u64, Tear),
    options: &str,
    mut judge: impl FnMut(&Cut) -> Result<(), String>,
) {
    let mut judged = 0;
    for seed in seeds {
        let start = (&home, Some(&log));
        let outcome = life_beside(seed, start, (mib * MIB, tear), options, None);
        for (n, cut) in outcome.unwrap().iter().enumerate() {
            if let Err(why) = judge(cut) {
                panic!("seed {seed}, cut {n}, {tear:?}, {options:?}: {why}");
            }
            judged += 1;
        }
    }
    assert!(judged > 50, "only {judged} cuts");
    println!("{judged} cuts, {options}");
}

fn ours(seeds: Range<u64>, mib: u64, tear: Tear, options: &str) {
    let judge = |cut: &Cut| judge(cut, mib * MIB, tear, options);
    explore(seeds, mib, tear, options, judge);
}

#[test]
fn ordered() {
    ours(0..12, 16, Tear::Blocks, "scheme=jbd2");
    ours(12..16, 16, Tear::Blocks, "scheme=jbd2,discard");
}

/// With the options that the command line uses for mounts.
#[test]
fn commits_by_callers() {
    let options = "scheme=jbd2,small=64,commit-by=caller";
    ours(20..28, 16, Tear::Blocks, options);
}

#[test]
fn flushed_ahead() {
    ours(30..38, 16, Tear::Blocks, "scheme=flush-ahead");
}

#[test]
fn journaled_data() {
    ours(40..46, 16, Tear::Blocks, "scheme=jbd2,data=journal");
}

#[test]
fn reliable_homes() {
    ours(50..54, 16, Tear::Blocks, "scheme=jbd2,home=copy-reliable");
}

/// Sectors of cached writes in flight may be garbage; with one group the torn superblock has no
/// backup.
#[test]
fn torn_sectors() {
    ours(60..66, 16, Tear::Sectors, "scheme=jbd2");
    ours(66..70, 144, Tear::Sectors, "scheme=jbd2");
}

#[test]
fn small_blocks() {
    for (seeds, block_bytes, tear) in [
        (70..74, 1024, Tear::Blocks),
        (74..78, 1024, Tear::Sectors),
        (78..82, 2048, Tear::Blocks),
    ] {
        let judge = |cut: &Cut| judge(cut, 16 * MIB, tear, "scheme=jbd2");
        let pair = new_pair_of(16, block_bytes);
        explore_of(pair, seeds, (16, tear), "scheme=jbd2", judge);
    }
}

/// Run by hand, e.g. `FROM=1000 SEEDS=200 OPTIONS=scheme=jbd2`.
#[test]
#[ignore = "as many seeds as asked for"]
fn many() {
    let number = |key| std::env::var(key).ok().and_then(|s| s.parse().ok());
    let from = number("FROM").unwrap_or(1000);
    let options = std::env::var("OPTIONS").unwrap_or_else(|_| "scheme=jbd2".into());
    let to = from + number("SEEDS").unwrap_or(100);
    ours(from..to, 16, Tear::Blocks, &options);
}

/// The next mount replays a log of which parts are only in the cache of its device (devices-L7).
#[test]
fn recovery_of_what_is_in_the_cache_of_the_log() {
    let (home, log) = new_pair(16);
    let start = (&home, Some(&log));
    let seen = cuts_of_recoveries(start, "scheme=jbd2", 100..102, None);
    assert_eq!(seen.found, None);
    assert!(seen.cuts > 100, "only {} cuts", seen.cuts);
    println!("{} cuts of recoveries", seen.cuts);
}
