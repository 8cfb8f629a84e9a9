//! Several tasks that write to a small, full F2FS volume, and a check of what they left.
#![allow(dead_code, missing_docs)]

use crate::common::{fresh, judge, mount};
use block::Queue;
use blockdev::Ram;
use fscore::{Creds, FileKind, FileSystem};
use std::sync::Arc;
use testkit::full::{self, Plan};
use varve_f2fs::mkfs::{DeviceContent, JournalSize, Options, RING_AT, plan};

const TASKS: u64 = 4;
const VOLUME_MIB: u64 = 64;

/// A volume with a ring of so many blocks behind it; 0: without a journal.
pub fn volume(ring: u32) -> Arc<Ram> {
    if ring == 0 {
        return fresh(VOLUME_MIB);
    }
    let time = rt::WallTime {
        secs: 1_700_000_000,
        nanos: 0,
    };
    let region = u64::from(ring + RING_AT).next_multiple_of(512) * 4096;
    let bytes = (VOLUME_MIB << 20) + region;
    let options = Options {
        journal: Some(JournalSize::Ring(ring)),
        ..Options::new(bytes, [7; 16], time)
    };
    let ram = Arc::new(Ram::new(bytes));
    let before = DeviceContent::Zeros;
    let plan = plan(&options).expect("a volume");
    plan.write(&Queue::new(ram.clone()), before)
        .expect("written");
    ram
}

/// Runs the tasks, and looks at what they left. Answers how often there was no room.
pub fn together((ring, options): (u32, &str), seed: u64, steps: usize) -> u64 {
    let ram = volume(ring);
    let fs = mount(&ram, options);
    let work = Plan {
        seed,
        tasks: TASKS,
        steps,
        room: 2 << 20,
    };
    let any: Arc<dyn FileSystem> = fs.clone();
    let mut crowd = full::run(&any, work);
    fs.check();
    crowd.close();
    fs.unmount().expect("clean");
    judge(&ram);
    let fs = mount(&ram, options);
    crowd.compare(&*fs, &format!("ring {ring}, {options}, seed {seed}"));
    let refused = crowd.refused;
    crowd.remove(&*fs);
    fs.check();
    fs.unmount().expect("clean");
    judge(&ram);
    refused
}

pub const MODES: [(u32, &str); 7] = [
    (0, "scheme=checkpoint-60"),
    (0, "scheme=checkpoint-1,fsync_mode=strict"),
    (0, "fsync_mode=nobarrier,background_gc=off"),
    (0, "mode=lfs"),
    (16, "scheme=f2fsj"),
    (64, "scheme=f2fsj"),
    (1024, "scheme=f2fsj"),
];

/// A volume that is shared in turns (full-F4).
pub fn shared((ring, options): (u32, &str), seed: u64, steps: usize) {
    let fs = mount(&volume(ring), options);
    let any: Arc<dyn FileSystem> = fs.clone();
    let plan = Plan {
        seed,
        tasks: 3,
        steps,
        room: 0,
    };
    full::share(&any, plan);
    fs.check();
    fs.unmount().expect("clean");
}

/// Fills a volume that has little to spare with one file, writes all of it over in the cache, and
/// then to the device, twice.
pub fn overwritten() {
    const MIB: u64 = 1 << 20;
    let time = rt::WallTime {
        secs: 1_700_000_000,
        nanos: 0,
    };
    let options = Options {
        overprovision_percent: Some(10.0),
        ..Options::new(128 * MIB, [7; 16], time)
    };
    let ram = Arc::new(Ram::new(128 * MIB));
    let before = DeviceContent::Zeros;
    let plan = plan(&options).expect("a volume");
    plan.write(&Queue::new(ram.clone()), before)
        .expect("written");
    let fs = mount(&ram, "cache=512,ipu_policy=0");
    let made = fs.create(fs.root(), b"f", FileKind::File, 0o644, 0, Creds::default());
    let ino = made.expect("room").ino;
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
    fs.unmount().expect("clean");
    judge(&ram);
}
