//! What the file systems of this project may leave is legal by the book: each state of the models
//! `ext4` and `f2fs` is one of model `posix`. A state that is not is a fault of one of the two, so
//! this tests the soundness of both.

use crate::random::program;
use crate::script::{BOUND, states};
use base::Rng;
use varve_program::posix::{Grain, Posix};
use varve_program::replay::BlockModel;
use varve_program::tree::Tree;

/// All that show no content of other files. `data=writeback` shows what blocks held before, and so
/// does F2FS if the node of an fsync comes to the medium before its data
/// (`fsync_mode=posix`, before the fsync has ended); no book allows that.
const WORDS: &[&str] = &[
    "ext4",
    "ext4:data=journal",
    "ext4:scheme=emmc",
    "f2fs:fsync_mode=strict",
    "f2fs:noinline_data,fsync_mode=strict",
    "f2fs:scheme=f2fsj",
];

/// Explores random programs with these seeds; answers what is not legal, one line each, and the
/// number of states.
fn refused(seeds: std::ops::Range<u64>, calls: usize) -> (Vec<String>, usize) {
    let book = Posix::new(&[], Grain::Sector);
    let (mut refused, mut seen) = (Vec::new(), 0);
    for seed in seeds {
        let recording = program(&mut Rng::named(seed, "programs"), calls).recording();
        for word in WORDS {
            let model = BlockModel::parse(word).expect(word).expect("a file system");
            for state in states(&model, &recording, &BOUND) {
                seen += 1;
                let allowed = book.allows(&recording, state.calls, &state.tree);
                if let Err(why) = allowed {
                    let line = &state.line;
                    let calls = recording.calls.iter();
                    let calls = calls.map(|call| format!("{} {:.60?}", call.path, call.what));
                    let calls: Vec<String> = calls.take(state.calls).collect();
                    let names: Vec<String> = paths(&state.tree);
                    refused.push(format!("seed {seed}, {line}: {why}: {calls:?} {names:?}"));
                }
            }
        }
    }
    (refused, seen)
}

fn paths(tree: &Tree) -> Vec<String> {
    let mut paths = Vec::new();
    tree.walk(&mut |path, _, _| paths.push(String::from_utf8_lossy(path).into_owned()));
    paths
}

fn assert_included(seeds: std::ops::Range<u64>, calls: usize) {
    let programs = seeds.clone().count();
    let (refused, seen) = refused(seeds, calls);
    let lines = refused.join("\n");
    assert!(refused.is_empty(), "{} of {seen}:\n{lines}", refused.len());
    assert!(seen > 50 * programs, "{seen}");
}

#[test]
fn every_state_of_a_file_system_is_legal_by_the_book() {
    // Seed 6 has a sync that failed, and a later write into a page that it gave up.
    assert_included(0..8, 14);
}

#[test]
#[ignore = "minutes: as above with many seeds"]
#[allow(clippy::disallowed_methods)] // A test has no front end that could pass a seed down.
fn every_state_of_many_programs_is_legal_by_the_book() {
    let first = std::env::var("VARVE_SEED").map_or(100, |n| n.parse().expect("a number"));
    let last = std::env::var("VARVE_SEED").map_or(300, |_| first + 1);
    assert_included(first..last, 16);
}
