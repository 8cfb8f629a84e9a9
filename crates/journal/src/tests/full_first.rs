//! Recovery of a log that was written under full-first (track-D2), on the device that it was
//! written for.

use super::*;
use crate::Preset;
use base::SECTORS_PER_BLOCK;
use block::Caps;
use blockdev::{Image, SpecDisk};
use rt::{Sim, SimConfig};

const FS: u64 = 80;
const LOG: u32 = 24;

/// Of a home write of several blocks a cut may leave garbage.
fn tearing() -> Caps {
    Caps {
        sectors: FS * SECTORS_PER_BLOCK,
        sector_bytes: 512,
        volatile_cache: true,
        fua: true,
        fua_flushes: false,
        reliable_granule: None,
        tear_granule: None,
        atomic_write_bytes: 4096,
        no_collateral: true,
        packed: None,
        cache_fifo: false,
        barrier: false,
        discard: false,
        remap: None,
        max_transfer_sectors: 2048,
    }
}

fn queue(image: &Image, seed: u64) -> (Arc<SpecDisk>, Arc<Queue>) {
    let disk = SpecDisk::from_image(tearing(), image.clone(), seed);
    let queue = Queue::new(disk.clone() as Arc<dyn BlockDevice>);
    (disk, queue)
}

/// One transaction that stores `byte` at `at` of each block.
fn store(journal: &Journal, blocks: &[u64], at: usize, byte: u8) {
    let mut handle = journal.start(blocks.len() as u32).expect("room");
    for &block in blocks {
        let stored = handle.write(BlockNo(block), at, &[byte]);
        stored.expect("credit");
    }
    let tid = handle.finish().expect("runs");
    journal.commit(tid).expect("commits");
}

/// A log with hardly any room left, with deltas of blocks that are home and whose full images the
/// tail has passed.
fn nearly_full(seed: u64) -> Image {
    let mut image = Image::new();
    image.set_block(1, empty_log(LOG));
    let (disk, queue) = queue(&image, seed);
    let device = queue.clone();
    let options = Options {
        scheme: Preset::Emmc.scheme(),
        ..quiet()
    };
    let Ok(Opened::Clean(log)) = open(queue, place(FS, LOG)) else {
        panic!("clean")
    };
    let journal = log.start(options).expect("starts");
    let many = [30, 31, 32, 33, 34, 35];
    store(&journal, &many, 0, 1);
    store(&journal, &[40], 0, 1);
    store(&journal, &[30, 31, 32, 33, 34, 35, 41], 8, 2);
    // The write-back passes over block 41: a transaction is working on it.
    let mut handle = journal.start(1).expect("room");
    handle.write(BlockNo(41), 16, &[3]).expect("credit");
    journal.write_back().expect("home");
    // home-M4: until then the tail stays.
    let flushed = device.ensure_flushed(device.mark());
    flushed.expect("flushes");
    let tid = handle.finish().expect("runs");
    journal.commit(tid).expect("commits");
    assert!(journal.stats().tail_updates > 0, "the tail has moved");
    for first in [50, 55, 60] {
        let blocks: Vec<u64> = (first..first + 5).collect();
        store(&journal, &blocks, 0, 4);
    }
    let fulls = journal.stats().fulls_logged;
    assert_eq!(fulls, 6 + 1 + 1 + 15, "the second store made deltas");
    let cut = disk.snapshot(seed);
    crash(&journal);
    cut
}

fn simulate<T>(seed: u64, body: impl FnOnce() -> T) -> T {
    Sim::new(SimConfig::seeded(seed)).run(body).unwrap()
}

#[test]
fn healthy_log_is_recovered_where_home_writes_tear() {
    simulate(1, || {
        let cut = nearly_full(1);
        let (disk, queue) = queue(&cut, 2);
        let Ok(Opened::NeedsRecovery(log)) = open(queue, place(FS, LOG)) else {
            panic!("dirty")
        };
        let (_, report) = log.recover().expect("a log of this device");
        // Six deltas have outlived their full images: their homes are read and found complete.
        assert_eq!((report.blocks_insured, report.home_reads), (0, 6));
        let after = disk.visible();
        for (block, at, byte) in [(30, 0, 1), (35, 8, 2), (41, 8, 2), (41, 16, 3), (64, 0, 4)] {
            assert_eq!(after.block(block)[at], byte, "block {block}");
        }
    });
}

/// Flushes and FUA commands of a checkpoint of six blocks that are no neighbours, with the tail
/// that moves behind it.
fn cost_of_checkpoint(caps: &Caps) -> [u64; 2] {
    simulate(1, || {
        let mut image = Image::new();
        image.set_block(1, empty_log(LOG));
        let disk = SpecDisk::from_image(caps.clone(), image, 1);
        let queue = Queue::new(disk as Arc<dyn BlockDevice>);
        let options = Options {
            scheme: Preset::Emmc.scheme(),
            ..quiet()
        };
        let Ok(Opened::Clean(log)) = open(queue.clone(), place(FS, LOG)) else {
            panic!("clean")
        };
        let journal = log.start(options).expect("starts");
        store(&journal, &[30, 33, 36, 39, 42, 45], 0, 1);
        let before = queue.stats();
        journal.checkpoint_all().expect("home");
        let after = queue.stats();
        assert!(journal.stats().tail_updates > 0, "the tail has moved");
        crash(&journal);
        [
            after.flushes - before.flushes,
            after.fua_commands - before.fua_commands,
        ]
    })
}

#[test]
fn m4_home_writes_have_fua_where_it_is_a_reliable_write_and_share_a_flush_elsewhere() {
    let reliable = Caps {
        reliable_granule: Some(512),
        ..tearing()
    };
    // One of the FUA commands is the superblock of the log.
    assert_eq!(cost_of_checkpoint(&reliable), [0, 7]);
    assert_eq!(cost_of_checkpoint(&tearing()), [1, 1]);
}
