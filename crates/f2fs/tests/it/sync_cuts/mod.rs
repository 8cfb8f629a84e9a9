//! fsync and roll-forward under power cuts, in each mode.
#![allow(clippy::disallowed_macros)]

use testkit::Brief;
mod cuts;

use crate::common::{MIB, caps, fresh, judge, mount};
use base::{BLOCK_BYTES, Nanos};
use block::Queue;
use blockdev::{Image, SpecDisk};
use cuts::lives::{collapsed, renamed_away, revived, shared};
use cuts::{Setting, VOLUME_MIB, explore};
use fscore::FileSystem;
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_f2fs::{F2fs, MountOptions};

fn start() -> Image {
    fresh(VOLUME_MIB).blocks().into_iter().collect()
}

fn mode(options: &'static str, first: u64) {
    let setting = Setting {
        options,
        steps: 60,
        mutant: None,
    };
    let mut images = Vec::with_capacity(2);
    let search = explore(first, 60, &start(), setting, &mut images);
    assert_eq!(search.seen.found, None, "{options}");
    assert!(search.recovered > 20 && search.again > 3, "{search:?}");
    for image in images {
        judge(&Arc::new(image.to_ram(VOLUME_MIB * MIB)));
    }
    println!("{options}: {search:?}");
}

#[test]
fn posix_in_place() {
    mode("fsync_mode=posix", 100);
}

#[test]
fn posix_out_of_place() {
    mode("fsync_mode=posix,mode=lfs", 200);
}

#[test]
fn strict_out_of_place() {
    mode("fsync_mode=strict,mode=lfs", 300);
}

#[test]
fn strict_in_place() {
    mode("fsync_mode=strict", 400);
}

/// A file of four pages that a checkpoint knows is written over, out of place, and synced; what
/// cuts during the fsync, and after it was acknowledged, leave.
struct Overwritten {
    during: Vec<Image>,
    after: Vec<Image>,
}

const OLD: u8 = 0x11;
const NEW: u8 = 0x22;
const PAGES: usize = 4;

fn overwritten(options: &'static str, seed: u64) -> Overwritten {
    let content = start();
    let outcome = Sim::new(SimConfig::seeded(seed)).run(move || {
        let disk = SpecDisk::from_image(caps(VOLUME_MIB * MIB), content, seed);
        let options = MountOptions::parse(options).expect("options");
        let fs = F2fs::mount(Queue::new(disk.clone()), options).expect("mounts");
        let ino = fs.file("f");
        let page = |byte| vec![byte; PAGES * BLOCK_BYTES];
        fs.write(ino, 0, &page(OLD)).expect("writes");
        fs.sync().expect("checkpoint");
        fs.write(ino, 0, &page(NEW)).expect("writes");
        let syncing = {
            let fs = fs.clone();
            rt::spawn("fsync", move || fs.fsync(ino, false))
        };
        let mut during = Vec::new();
        while !syncing.is_finished() {
            during.extend((0..4).map(|n| disk.snapshot(seed * 100 + n)));
            rt::sleep(Nanos(40_000));
        }
        syncing.join().expect("no panic").expect("syncs");
        let after = (0..20).map(|n| disk.snapshot(seed * 100 + n)).collect();
        fs.unmount().expect("unmounts");
        Overwritten { during, after }
    });
    outcome.unwrap()
}

/// Content of the file after a cut: old, new, or something else; and whether roll-forward brought
/// its inode back.
fn left(image: &Image) -> (bool, Vec<u8>) {
    let fs = mount(&Arc::new(image.to_ram(VOLUME_MIB * MIB)), "");
    let ino = fs.find(b"f");
    let bytes = fs.content(ino);
    let back = fs.recovery().is_some_and(|r| r.inodes == 1);
    fs.unmount().expect("unmounts");
    (back, bytes)
}

fn is_whole(bytes: &[u8]) -> bool {
    bytes.len() == PAGES * BLOCK_BYTES
        && (bytes.iter().all(|&b| b == OLD) || bytes.iter().all(|&b| b == NEW))
}

/// Problem 3 of the F2FSJ talk: a new inode over old data. (`strict` has none of it.)
#[test]
fn new_inodes_over_old_data() {
    for (mode, may_during, may_after) in [
        ("mode=lfs,fsync_mode=posix", true, false),
        ("mode=lfs,fsync_mode=nobarrier", true, true),
        ("mode=lfs,fsync_mode=strict", false, false),
    ] {
        let (mut during, mut after, mut back) = (0, 0, 0);
        for seed in 1..7 {
            let cuts = overwritten(mode, seed);
            for image in &cuts.during {
                let (recovered, bytes) = left(image);
                back += u32::from(recovered);
                during += u32::from(recovered && !is_whole(&bytes));
            }
            for image in &cuts.after {
                let (recovered, bytes) = left(image);
                after += u32::from(recovered && !is_whole(&bytes));
                let new = bytes.iter().all(|&b| b == NEW);
                assert!(
                    may_after || new && recovered,
                    "{mode}: acknowledged, and lost"
                );
            }
        }
        println!("{mode}: {back} inodes back, over old data {during} during fsync, {after} after");
        assert!(back > 5, "{mode}: roll-forward had nothing to do");
        assert_eq!((during > 0, after > 0), (may_during, may_after), "{mode}");
    }
}

/// A range cut out of a file; a block that the chain gives to one file and the checkpoint to
/// another.
#[test]
fn blocks_that_moved() {
    for history in [collapsed, shared] {
        let outcome = Sim::new(SimConfig::seeded(5)).run(history);
        assert_eq!(outcome.unwrap(), Ok(()));
    }
}

/// A file that was renamed away survives the one that was made in its place.
#[test]
fn renamed_files_outlive_their_successors() {
    let outcome = Sim::new(SimConfig::seeded(7)).run(renamed_away);
    assert_eq!(outcome.unwrap(), Ok(()));
}

/// What an earlier life left behind the end of its chain stays dead.
#[test]
fn leftovers_of_an_earlier_life() {
    let outcome = Sim::new(SimConfig::seeded(6)).run(revived);
    assert_eq!(outcome.unwrap(), Ok(()));
}
