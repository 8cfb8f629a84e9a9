//! The catalogue of `cargo xtask mutants` for guards of ext4 that only its own histories reach.
//! docs/design/testing.md explains the printed lines.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

#[path = "fast_commits/area.rs"]
#[allow(dead_code)] // tests/fast_commits also takes areas apart.
mod area;
#[path = "it/common/mod.rs"]
mod common;
#[path = "it/crowd.rs"]
mod crowd;
#[path = "it/data_path/mod.rs"]
mod data_path;
#[path = "it/fast_lives.rs"]
mod fast_lives;

use base::Mutant;
use blockdev::Image;
use data_path::deaths::cuts_of_recoveries;
use data_path::{Cut, MIB, Tear, judge, life_beside, new_pair, new_volume};
use fscore::{Creds, FallocateMode, FileSystem};
use testkit::Brief;
use testkit::mutants::{Seen, caught, cuts_of, missed};
use varve_ext4::mkfs::{JournalSize, MkfsOptions};

/// Cuts within which a mutant has to be noticed.
const CUTS: u64 = 400;
const FIRST: u64 = 500;
const MIB_OF_VOLUME: u64 = 16;
/// The name of the history with two devices in its line.
const ON_TWO: &str = "ext4, scheme=jbd2, two devices";

fn explore(mutant: Option<Mutant>, options: &str) -> Seen {
    explore_beside(mutant, (&new_volume(MIB_OF_VOLUME), None), options)
}

/// Cuts of two devices at once, the log on one of them.
fn explore_pair(mutant: Option<Mutant>, options: &str) -> Seen {
    let (home, log) = new_pair(MIB_OF_VOLUME);
    explore_beside(mutant, (&home, Some(&log)), options)
}

fn explore_beside(mutant: Option<Mutant>, start: (&Image, Option<&Image>), options: &str) -> Seen {
    let bytes = MIB_OF_VOLUME * MIB;
    let life = |seed| life_beside(seed, start, (bytes, Tear::Blocks), options, mutant);
    let judge = |cut: &Cut| judge(cut, bytes, Tear::Blocks, options);
    cuts_of(mutant, (FIRST.., CUTS), life, judge)
}

/// hazards-R14: a freed block is discarded after its next use.
#[test]
fn discard_late() {
    let (mutant, options) = (Mutant::DiscardLate, "scheme=jftl,data=journal,discard");
    let workload = format!("ext4, {options}");
    caught(mutant, &workload, |mutant| explore(mutant, options));
}

/// hazards-H25 on the device of homes.
#[test]
fn home_device_unflushed() {
    let explore = |mutant| explore_pair(mutant, "scheme=jbd2");
    caught(Mutant::HomeDeviceUnflushed, ON_TWO, explore);
}

/// hazards-H25 on the device of the log.
#[test]
fn log_device_unflushed() {
    let explore = |mutant| explore_pair(mutant, "scheme=jbd2");
    caught(Mutant::LogDeviceUnflushed, ON_TWO, explore);
}

/// hazards-H26.
#[test]
fn replay_unflushed_log() {
    let volume = new_volume(MIB_OF_VOLUME);
    let explore = |mutant| cuts_of_recoveries((&volume, None), "scheme=jbd2", 500..504, mutant);
    caught(Mutant::ReplayUnflushedLog, "ext4, scheme=jbd2", explore);
}

/// hazards-H26 with the log on a device of its own.
#[test]
fn replay_unflushed_log_beside() {
    let (home, log) = new_pair(MIB_OF_VOLUME);
    let start = (&home, Some(&log));
    let explore = |mutant| cuts_of_recoveries(start, "scheme=jbd2", 100..104, mutant);
    caught(Mutant::ReplayUnflushedLog, ON_TWO, explore);
}

/// hazards-H18 inside of a file: the cluster goes with a block of it, and another file gets it.
#[test]
fn cluster_freed_early() {
    let options = MkfsOptions {
        cluster_bytes: Some(32 << 10),
        journal: JournalSize::Blocks(1024),
        ..common::options_of(MIB_OF_VOLUME)
    };
    let start: Image = common::made(&options).blocks().into_iter().collect();
    let explore = |mutant| explore_beside(mutant, (&start, None), "");
    let mutant = Mutant::ClusterFreedEarly;
    caught(mutant, "ext4, clusters of 32 KiB", explore);
}

/// A block of which the log has an image leaves a file, and is written again in its cluster before
/// that is committed.
fn a_hole_over_a_logged_block() {
    let options = MkfsOptions {
        cluster_bytes: Some(64 << 10),
        ..common::options_of(48)
    };
    let ram = common::made(&options);
    let fs = common::mount(&ram, "commit=600");
    let ino = fs.file("a");
    fs.write(ino, 0, &[1; 65_536]).expect("room");
    let part = (4096, base::Bytes::from(vec![2; 8192]));
    fs.write_atomic(ino, &[part]).expect("taken");
    fs.fsync(ino, false).expect("synced");
    let punch = FallocateMode::PunchHole;
    fs.fallocate(ino, punch, 4096, 8192).expect("punched");
    fs.write(ino, 4096, &[3; 8192]).expect("room");
    fs.writeback(base::Time(u64::MAX)).expect("written");
    fs.fsync(ino, false).expect("synced");
    let cut = common::mount(&common::fork(&ram), "");
    assert!(cut.content(ino)[4096..12_288] == [3; 8192], "too old");
    cut.unmount().expect("clean");
    fs.unmount().expect("clean");
}

/// hazards-H6 inside of a file (cluster-C5).
#[test]
fn cluster_hole_direct() {
    let workload = "ext4, an atomic write, a hole and a write in one cluster";
    missed(Mutant::ClusterHoleDirect, workload, CROWDS, |_| {
        a_hole_over_a_logged_block();
    });
}

/// Run by hand, e.g. `MUTANT=tail-unflushed`: whether two devices show a mistake that others show
/// on one.
#[test]
#[ignore = "the mutant that is asked for"]
fn on_two_devices() {
    let mutant = std::env::var("MUTANT")
        .expect("MUTANT=word")
        .parse()
        .expect("a mutant");
    let options = std::env::var("OPTIONS").unwrap_or_else(|_| "scheme=jbd2".into());
    let history = format!("ext4, {options}, two devices");
    caught(mutant, &history, |mutant| explore_pair(mutant, &options));
}

/// Number of seeds of many tasks within which a mutant has to be noticed. The power stays on: what
/// is lost here is lost without a cut.
const CROWDS: u64 = 60;

fn missed_by_a_crowd(mutant: Mutant, options: &'static str, steps: usize) {
    let kind = varve_ext4::mkfs::Kind::Ext4;
    let what = format!("ext4, a crowd on a full volume, {options}");
    missed(mutant, &what, CROWDS, |seed| {
        crowd::together((kind, options), seed, steps);
    });
}

/// A page is dirty, `fallocate` fills the root of its tree, and every other block is taken: the
/// page must be written all the same.
fn a_dirty_page_beside_fallocate() {
    let ram = common::fresh(varve_ext4::mkfs::Kind::Ext4, 16);
    let fs = common::mount(&ram, "commit=600");
    let create = |name: &[u8]| fs.file(name);
    let (ino, big) = (create(b"f"), create(b"big"));
    let page = |index: u64| fs.write(ino, index * 4096, &[7; 4096]).expect("room");
    for index in [0, 10] {
        page(index);
        fs.fsync(ino, false).expect("room");
    }
    page(20);
    for index in [30, 40] {
        let keep = FallocateMode::KeepSize;
        (fs.fallocate(ino, keep, index * 4096, 4096)).expect("room");
    }
    let mut at = 0;
    for len in [65_536, 4096] {
        while let Ok(n) = fs.write(big, at, &vec![1; len]) {
            at += n as u64;
        }
    }
    // Takes the very last blocks, one by one.
    let link = |n: u32| {
        let name = format!("link{n}");
        fs.symlink(fs.root(), name.as_bytes(), &[b'x'; 100], Creds::default())
    };
    let _ = (0..).map(link).find(Result::is_err);
    fs.fsync(ino, false).expect("what was acknowledged fits");
    fs.unmount().expect("clean");
}

/// hazards-S1: a block that one page was promised is promised to the next as well.
#[test]
fn promise_twice() {
    missed_by_a_crowd(Mutant::PromiseTwice, "cache=2", 300);
}

/// hazards-S2: the tree of the file needs a block when its pages are written.
#[test]
fn no_tree_promise() {
    missed_by_a_crowd(Mutant::NoTreePromise, "cache=8", 400);
}

/// hazards-S2: `fallocate` takes the room that dirty pages count on.
#[test]
fn tree_unsettled() {
    let workload = "ext4, a dirty page on a full volume";
    missed(Mutant::TreeUnsettled, workload, CROWDS, |_| {
        a_dirty_page_beside_fallocate();
    });
}

/// hazards-S3: the blocks of a claim are in windows, or are freed behind the search.
#[test]
fn search_beside_others() {
    missed_by_a_crowd(Mutant::SearchBesideOthers, "cache=2", 400);
}

/// hazards-S3: the last free blocks become windows while the groups are taken one after the other.
#[test]
fn window_while_starving() {
    missed_by_a_crowd(Mutant::WindowWhileStarving, "cache=2", 400);
}
