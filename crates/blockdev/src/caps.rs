//! What a device promises.

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

/// The promises of a device. The crash explorer's adversary never takes more than this leaves open.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Caps {
    /// Capacity in 512-byte sectors.
    pub sectors: u64,
    /// Smallest write unit, bytes (512 or 4096).
    pub sector_bytes: u32,
    /// A completed write may be lost until the next flush.
    pub volatile_cache: bool,
    /// Writes can be made non-volatile at completion one by one.
    pub fua: bool,
    /// A FUA write leaves each granule of this many bytes old or new, never garbage; `None`: no such promise.
    pub reliable_granule: Option<u32>,
    /// A write through the cache leaves each granule of this many bytes old or new, never garbage, whenever the power goes
    /// (SQLite's "powersafe overwrite", and what JBD2 and ext4 expect below their superblocks); `None`: no such promise, as
    /// for an eMMC write without the reliable-write bit.
    pub tear_granule: Option<u32>,
    /// Largest aligned write that is all old or all new after a power cut, bytes; 0: none.
    pub atomic_write_bytes: u32,
    /// A power cut never damages sectors that were not being written (eMMC WR_REL_SET).
    pub no_collateral: bool,
    /// Order inside packed writes; `None`: no packed writes.
    pub packed: Option<PackOrder>,
    /// Sectors can be discarded.
    pub discard: bool,
    /// Largest transfer of one command, sectors.
    pub max_transfer_sectors: u64,
}
