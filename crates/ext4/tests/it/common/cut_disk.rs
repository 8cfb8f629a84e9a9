//! Devices whose cut leaves the worst that their promises allow, and volumes on such devices.
#![allow(dead_code, missing_docs)]

use base::SECTOR_BYTES;
use block::{Caps, Queue, RemapCaps};
use blockdev::{Image, Ram};
use std::sync::Arc;
use varve_ext4::mkfs::{self, DeviceContent, JournalSize, MkfsOptions};

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
        sectors: bytes / SECTOR_BYTES as u64,
        sector_bytes: SECTOR_BYTES as u32,
        volatile_cache: true,
        fua: true,
        reliable_granule: Some(reliable),
        tear_granule: normal,
        atomic_write_bytes: 0,
        no_collateral: true,
        packed: None,
        cache_fifo: false,
        barrier: false,
        discard: true,
        remap: Some(RemapCaps {
            granule: 4096,
            pairs_max: 1 << 14,
        }),
        max_transfer_sectors: 256,
    }
}

/// A device with a fresh volume, whose log has 1024 blocks.
pub fn new_ram(bytes: u64) -> Arc<Ram> {
    let time = rt::WallTime {
        secs: 1_700_000_000,
        nanos: 0,
    };
    let mut options = MkfsOptions::new(bytes, [3; 16], [5; 16], time);
    options.journal = JournalSize::Blocks(1024);
    let device = Arc::new(Ram::new(bytes));
    let plan = mkfs::plan(&options).expect("a volume");
    plan.write(&Queue::new(device.clone()), DeviceContent::Zeros)
        .expect("written");
    device
}

/// The content of a device with a fresh volume of `mib` MiB.
pub fn new_volume(mib: u64) -> Image {
    new_ram(mib * MIB).blocks().into_iter().collect()
}
