//! Devices whose cut leaves the worst that their promises allow, and volumes on such devices.
#![allow(dead_code, missing_docs)]

use super::{made, options_of};
use block::{Caps, RemapCaps};
use blockdev::{Image, Ram};
use std::sync::Arc;
use varve_ext4::mkfs::{FastCommitArea, JournalSize, MkfsOptions};

pub const MIB: u64 = 1 << 20;

/// What the adversary may do to one write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tear {
    /// Blocks are old or new.
    Blocks,
    /// Sectors are old, new or garbage, but those of FUA writes old or new.
    Sectors,
}

/// The promises of a device of `bytes` bytes with a volatile cache.
pub fn caps(bytes: u64, tear: Tear) -> Caps {
    let (reliable, normal) = match tear {
        Tear::Blocks => (4096, Some(4096)),
        Tear::Sectors => (512, None),
    };
    Caps {
        reliable_granule: Some(reliable),
        tear_granule: normal,
        remap: Some(RemapCaps {
            granule: 4096,
            pairs_max: 1 << 14,
        }),
        ..testkit::device::caps(bytes)
    }
}

/// A device with a fresh volume, whose log has 1024 blocks.
pub fn new_ram(bytes: u64) -> Arc<Ram> {
    let options = MkfsOptions {
        journal: JournalSize::Blocks(1024),
        ..options_of(bytes / MIB)
    };
    made(&options)
}

/// As [`new_volume`], with room for fast commits if the mount options ask for some.
pub fn new_volume_for(options: &str, mib: u64) -> Image {
    let options = MkfsOptions {
        journal: JournalSize::Blocks(1024),
        fast_commits: match options.contains("fast-commit") {
            true => FastCommitArea::Room,
            false => FastCommitArea::None,
        },
        ..options_of(mib)
    };
    made(&options).blocks().into_iter().collect()
}

/// The content of a device with a fresh volume of `mib` MiB.
pub fn new_volume(mib: u64) -> Image {
    new_ram(mib * MIB).blocks().into_iter().collect()
}
