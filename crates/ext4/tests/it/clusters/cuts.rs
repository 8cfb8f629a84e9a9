//! The crash argument of clusters and of atomic writes in them, at random cuts (see `data_path` and
//! `atomic_writes`).

use super::{KIB, volume};
use crate::data_path::{MIB, Tear, judge, life_of};
use blockdev::Image;

fn start(mib: u64, cluster: u32) -> Image {
    volume(mib, cluster).blocks().into_iter().collect()
}

fn explore(seeds: std::ops::Range<u64>, cluster: u32, options: &str) {
    let (mib, tear) = (32, Tear::Blocks);
    let start = start(mib, cluster);
    let mut judged = 0;
    for seed in seeds {
        let cuts = life_of(seed, &start, mib * MIB, tear, options);
        for (n, cut) in cuts.iter().enumerate() {
            if let Err(why) = judge(cut, mib * MIB, tear, options) {
                panic!("seed {seed}, cut {n}, clusters of {cluster}, {options:?}: {why}");
            }
            judged += 1;
        }
    }
    assert!(judged > 50, "only {judged} cuts");
}

#[test]
fn contents_survive() {
    explore(0..6, 16 * KIB, "");
    explore(10..14, 64 * KIB, "discard");
    explore(20..24, 8 * KIB, "data=journal");
    explore(30..36, 32 * KIB, "scheme=emmc,small=64,commit-by=caller");
    explore(40..44, 64 * KIB, "scheme=coalition,small=16,discard");
}

#[test]
fn an_atomic_write_is_there_or_not() {
    use crate::atomic_writes::explore_on;
    for (seeds, cluster, options) in [
        (0..4, 64 * KIB, "scheme=jbd2"),
        (10..13, 16 * KIB, "scheme=emmc,small=64,commit-by=caller"),
        (20..23, 128 * KIB, "scheme=coalition"),
        (30..32, 32 * KIB, "data=journal"),
    ] {
        explore_on(&start(32, cluster), seeds, 32, Tear::Blocks, options);
    }
}
