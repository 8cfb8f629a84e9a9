//! Many tasks on a small full volume of ext4, and checks of what they left.
#![allow(dead_code, missing_docs)]

use crate::common::{Volume, fresh_of};
use testkit::full::{self, Plan};
use varve_ext4::mkfs::Kind;

/// Blocks of 1 KiB make groups of 8 MiB.
fn volume(kind: Kind, options: &str) -> Volume {
    Volume::new(fresh_of(kind, 10, 1024), options)
}

/// Runs the tasks, and checks what they left. Answers how often there was no room.
pub fn together((kind, options): Mode, seed: u64, steps: usize) -> u64 {
    let plan = Plan {
        seed,
        tasks: 4,
        steps,
        room: 256 << 10,
        moves: 4096,
    };
    full::together(&volume(kind, options), plan, options)
}

pub type Mode = (Kind, &'static str);

/// Each scheme that a device in memory can carry, and each data mode.
pub const MODES: [Mode; 9] = [
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
pub fn shared((kind, options): Mode, seed: u64, steps: usize) {
    full::shared(&volume(kind, options), seed, steps);
}
