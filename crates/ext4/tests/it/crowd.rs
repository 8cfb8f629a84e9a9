//! Many tasks on a small full volume of ext4, and checks of what they left.
#![allow(dead_code, missing_docs)]

use crate::common::{check_ram, fresh_of, mount, said};
use fscore::FileSystem;
use std::sync::Arc;
use testkit::full::{self, Plan};
use varve_ext4::mkfs::Kind;

const TASKS: u64 = 4;

/// Runs the tasks, and checks what they left. Answers how often there was no room.
pub fn together(kind: Kind, options: &str, seed: u64, steps: usize) -> u64 {
    // Blocks of 1 KiB make groups of 8 MiB.
    let ram = fresh_of(kind, 10, 1024);
    let fs = mount(&ram, options);
    let plan = Plan {
        seed,
        tasks: TASKS,
        steps,
        room: 256 << 10,
    };
    let any: Arc<dyn FileSystem> = fs.clone();
    let mut crowd = full::run(&any, plan);
    fs.check();
    crowd.close();
    fs.unmount().expect("clean");
    let what = format!("{options}, seed {seed}");
    let clean = || {
        let report = check_ram(&ram);
        assert!(report.is_clean(), "{what}: {}", said(&report));
    };
    clean();
    let fs = mount(&ram, options);
    crowd.compare(&*fs, &what);
    let refused = crowd.refused;
    crowd.remove(&*fs);
    fs.check();
    fs.unmount().expect("clean");
    clean();
    refused
}

/// Each scheme that a device in memory can carry, and each data mode.
pub const MODES: [(Kind, &str); 9] = [
    (Kind::Ext4, "cache=2"),
    (Kind::Ext4, "scheme=flush-ahead"),
    (Kind::Ext4, "scheme=coalition,cache=2"),
    (Kind::Ext4, "scheme=emmc"),
    (Kind::Ext4, "scheme=adaptive"),
    (Kind::Ext4, "scheme=none,cache=2"),
    (Kind::Ext4, "data=journal,cache=2"),
    (Kind::Ext4, "data=writeback"),
    (Kind::Ext3, "cache=2"),
];

/// A volume that several tasks use in turns (full-F4).
pub fn shared(options: &str, seed: u64, steps: usize) {
    let fs = mount(&fresh_of(Kind::Ext4, 10, 1024), options);
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
