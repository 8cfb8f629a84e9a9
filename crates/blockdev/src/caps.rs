//! The promises of a device, as one value.

use crate::RemapCaps;
use serde::{Deserialize, Serialize};

/// In which order the entries of one packed write become durable when the power fails inside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackOrder {
    /// Header order: what survives is a prefix.
    Prefix,
    /// Any subset may survive (seen on real firmware).
    AnySubset,
}

/// Packed writes: several writes in one command (eMMC 4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Packed {
    /// What a cut inside the command leaves.
    pub order: PackOrder,
    /// Most writes in one command (MAX_PACKED_WRITES), at least 3.
    pub writes_max: u16,
}

/// The promises of a device. The crash explorer's adversary never takes more than this leaves open.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Caps {
    /// Capacity in 512-byte sectors.
    pub sectors: u64,
    /// Smallest write unit, bytes (512 or 4096).
    pub sector_bytes: u32,
    /// A completed write may be lost until the next flush.
    pub volatile_cache: bool,
    /// Single writes can be made non-volatile at completion.
    pub fua: bool,
    /// A FUA write costs what a write and a flush of the whole cache cost, as `RWF_DSYNC` does on a
    /// file: a flush behind several writes is cheaper than several FUA writes.
    #[serde(default)]
    pub fua_flushes: bool,
    /// A FUA write leaves each granule of this many bytes old or new, never garbage; `None`: no
    /// such promise.
    pub reliable_granule: Option<u32>,
    /// A write through the cache leaves each granule of this many bytes old or new, never garbage,
    /// whenever the power goes (SQLite's "powersafe overwrite", and what JBD2 and ext4 expect below
    /// their superblocks); `None`: no such promise, as for an eMMC write without the reliable-write
    /// bit.
    pub tear_granule: Option<u32>,
    /// Largest aligned write that is all old or all new after a power cut, bytes; 0: none.
    pub atomic_write_bytes: u32,
    /// A power cut never damages sectors that were not being written (eMMC WR_REL_SET).
    pub no_collateral: bool,
    /// Packed writes; `None`: the device has none.
    pub packed: Option<Packed>,
    /// Cached writes reach the medium in the order of their arrival (eMMC CACHE_FLUSH_POLICY,
    /// FIFO).
    pub cache_fifo: bool,
    /// The device takes cache barriers: writes before one reach the medium before any write behind
    /// it.
    pub barrier: bool,
    /// Home addresses can take over the content of other addresses (JFTL); `None`: no such command.
    #[serde(default)]
    pub remap: Option<RemapCaps>,
    /// Sectors can be discarded.
    pub discard: bool,
    /// Largest transfer of one command, sectors.
    pub max_transfer_sectors: u64,
}

impl Caps {
    /// True if a FUA write leaves every byte old or new whenever the power goes, which home writes
    /// of deltas need (track-D2).
    pub fn writes_old_or_new(&self) -> bool {
        self.fua && self.reliable_granule.is_some()
    }
}
