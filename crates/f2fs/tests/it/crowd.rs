//! Several tasks that write to a small, full F2FS volume, and a check of what they left.
#![allow(dead_code, missing_docs)]

use crate::common::{MIB, Volume, end, fresh, made, mount, options_of, options_with_ring};
use blockdev::Ram;
use fscore::FileSystem;
use std::sync::Arc;
use testkit::Brief;
use testkit::full::{self, Plan};
use varve_f2fs::mkfs::Options;

const VOLUME_MIB: u64 = 64;

/// Blocks of the ring, and options.
pub type Mode = (u32, &'static str);

/// A volume with a ring of so many blocks behind it; 0: without a journal.
pub fn volume(ring: u32) -> Arc<Ram> {
    match ring {
        0 => fresh(VOLUME_MIB),
        _ => made(&options_with_ring(VOLUME_MIB, ring)),
    }
}

/// Runs the tasks, and looks at what they left. Answers how often there was no room.
pub fn together((ring, options): Mode, seed: u64, steps: usize) -> u64 {
    let plan = Plan {
        seed,
        tasks: 4,
        steps,
        moves: 4096,
        room: 2 << 20,
    };
    let what = format!("ring {ring}, {options}");
    full::together(&Volume::new(volume(ring), options), plan, &what)
}

pub const MODES: [Mode; 7] = [
    (0, "scheme=checkpoint-60"),
    (0, "scheme=checkpoint-1,fsync_mode=strict"),
    (0, "fsync_mode=nobarrier,background_gc=off"),
    (0, "mode=lfs"),
    (16, "scheme=f2fsj"),
    (64, "scheme=f2fsj"),
    (1024, "scheme=f2fsj"),
];

/// A volume that is shared in turns (full-F4).
pub fn shared((ring, options): Mode, seed: u64, steps: usize) {
    full::shared(&Volume::new(volume(ring), options), seed, steps);
}

/// Fills a volume that has little to spare with one file, writes all of it over in the cache, and
/// then to the device, twice.
pub fn overwritten() {
    let ram = made(&Options {
        overprovision_percent: Some(10.0),
        ..options_of(128 * MIB)
    });
    let fs = mount(&ram, "cache=512,ipu_policy=0");
    let ino = fs.file("f");
    let pages = fs.statfs().expect("statfs").blocks_available - 16;
    for round in 1..4_u8 {
        let page = vec![round; 64 * 4096];
        for n in 0..pages / 64 {
            let wrote = fs.write(ino, n * 64 * 4096, &page);
            assert_eq!(wrote.expect("room"), page.len());
        }
        fs.fsync(ino, false)
            .expect("what was accepted has its place");
    }
    fs.check();
    end(&fs, &ram);
}
