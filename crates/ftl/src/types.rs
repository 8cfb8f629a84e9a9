//! Errors and counters.

use thiserror::Error;

/// Why the FTL refuses.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FtlError {
    /// The numbers make no device.
    #[error("translation layer: {0}")]
    Config(String),
    /// The medium holds no map of this layout.
    #[error("translation layer: {0}")]
    NotFormatted(String),
    /// The map on the medium contradicts itself.
    #[error("translation layer: {0}")]
    Corrupt(String),
    /// End of life: the device takes no more writes.
    #[error("the device is read-only: {0}")]
    ReadOnly(String),
    /// The unit's content is lost.
    #[error("unit {0} is unreadable")]
    Unreadable(u32),
    /// No such unit.
    #[error("unit {0} lies beyond the end of the device")]
    OutOfRange(u64),
}

/// Counters since the FTL was made. Units are mapping units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FtlStats {
    /// Units accepted from the host.
    pub host_units: u64,
    /// Units copied by garbage collection.
    pub gc_units: u64,
    /// Units copied out of the SLC area.
    pub fold_units: u64,
    /// NAND page reads.
    pub reads: u64,
    /// NAND page programs.
    pub programs: u64,
    /// NAND page programs that hold the map (checkpoint and log).
    pub map_programs: u64,
    /// NAND block erases.
    pub erases: u64,
    /// Slots programmed empty because a row had to be closed early.
    pub padded: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
}

/// Counters from before quiet work: see [`Ftl::begin_quiet`].
#[derive(Clone, Copy, Debug)]
pub struct Quiet {
    pub(crate) stats: FtlStats,
    pub(crate) nand: nand::NandStats,
}
