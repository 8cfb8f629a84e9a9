//! What is measured, and which of it can be measured on a device.

use blockdev::Caps;
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;

/// Sizes of single transfers, KiB: small ones, because file systems write such, and enough
/// different ones that a line through them is a test of the model.
const SIZES: [u32; 7] = [4, 8, 16, 32, 64, 128, 256];
/// Reads under way at the same time: enough to keep all cores of a fast controller busy.
const READ_DEPTHS: [u32; 3] = [8, 32, 128];
/// The same of writes: no more than fit a small cache.
const WRITE_DEPTHS: [u32; 2] = [8, 32];
/// Lengths of bursts that are written without a flush, KiB. The place where a burst becomes slow
/// shows the size of the cache.
const BURSTS: [u32; 7] = [256, 512, 1024, 2048, 4096, 8192, 16_384];
/// Writes in one packed command.
const PACKED: [u32; 2] = [3, 8];

/// One measured quantity. Places are random but where it says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Probe {
    /// A write into the empty cache.
    Write {
        /// Length, KiB.
        kib: u32,
    },
    /// A write into the empty cache that goes on where the last one ended.
    InLine {
        /// Length, KiB.
        kib: u32,
    },
    /// A flush behind one write.
    Flush {
        /// Length of the write, KiB.
        kib: u32,
    },
    /// A flush with nothing to write.
    IdleFlush,
    /// A write that is durable at its completion (FUA, `O_DSYNC`).
    Durable {
        /// Length, KiB.
        kib: u32,
    },
    /// A read.
    Read {
        /// Length, KiB.
        kib: u32,
    },
    /// Reads of 4 KiB with so many under way: the time of all divided by their number.
    Reads {
        /// Commands under way.
        depth: u32,
    },
    /// Writes of 4 KiB with so many under way: the time of all divided by their number.
    Writes {
        /// Commands under way.
        depth: u32,
    },
    /// Writes of 64 KiB in line, from an empty cache on: the time of all.
    Burst {
        /// Length of all, KiB.
        kib: u32,
    },
    /// A packed command of durable writes of 4 KiB.
    Packed {
        /// Number of writes.
        writes: u32,
    },
    /// A discard of 64 KiB.
    Discard,
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Probe::Write { kib } => write!(f, "write {kib} KiB"),
            Probe::InLine { kib } => write!(f, "write {kib} KiB in line"),
            Probe::Flush { kib } => write!(f, "flush behind {kib} KiB"),
            Probe::IdleFlush => write!(f, "flush behind nothing"),
            Probe::Durable { kib } => write!(f, "durable write {kib} KiB"),
            Probe::Read { kib } => write!(f, "read {kib} KiB"),
            Probe::Reads { depth } => write!(f, "read 4 KiB, {depth} under way"),
            Probe::Writes { depth } => write!(f, "write 4 KiB, {depth} under way"),
            Probe::Burst { kib } => write!(f, "burst of {kib} KiB"),
            Probe::Packed { writes } => write!(f, "packed command of {writes} writes"),
            Probe::Discard => write!(f, "discard 64 KiB"),
        }
    }
}

impl Serialize for Probe {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Probe {
    /// True for what has several commands under way.
    pub(crate) fn is_deep(self) -> bool {
        matches!(self, Probe::Reads { .. } | Probe::Writes { .. })
    }
    /// True for what is measured only to find the size of the cache.
    pub(crate) fn is_burst(self) -> bool {
        matches!(self, Probe::Burst { .. })
    }
}

/// What a caller allows beyond the promises of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Bytes that may be written over and over.
    pub area: u64,
    /// True if several commands can be under way.
    pub depth: bool,
    /// True if a durable write is one command. Else it is a write and a flush, and tells nothing
    /// that those do not tell.
    pub durable: bool,
    /// True if content may be discarded. In a file it makes holes, whose filling is work of the
    /// file system and not of the device.
    pub discard: bool,
}

/// The set of quantities to be measured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// All of them, in their order.
    pub probes: BTreeSet<Probe>,
}

impl Plan {
    /// What can be measured on a device with these promises.
    pub fn of(caps: &Caps, wanted: Wanted) -> Plan {
        let most = caps.max_transfer_sectors / 2;
        let sizes = || SIZES.into_iter().filter(|kib| u64::from(*kib) <= most);
        let mut probes = BTreeSet::new();
        probes.extend(sizes().map(|kib| Probe::Write { kib }));
        probes.extend(sizes().map(|kib| Probe::Read { kib }));
        probes.insert(Probe::InLine { kib: SIZES[0] });
        if caps.volatile_cache {
            probes.extend(sizes().map(|kib| Probe::Flush { kib }));
            probes.insert(Probe::IdleFlush);
            let fits = |kib: &u32| u64::from(*kib) * 1024 * 2 <= wanted.area;
            probes.extend(
                BURSTS
                    .into_iter()
                    .filter(fits)
                    .map(|kib| Probe::Burst { kib }),
            );
        }
        if caps.fua && wanted.durable {
            probes.extend(sizes().map(|kib| Probe::Durable { kib }));
        }
        if wanted.depth {
            probes.extend(READ_DEPTHS.map(|depth| Probe::Reads { depth }));
            probes.extend(WRITE_DEPTHS.map(|depth| Probe::Writes { depth }));
        }
        if let Some(packed) = caps.packed {
            let fits = |n: &u32| *n <= u32::from(packed.writes_max);
            probes.extend(
                PACKED
                    .into_iter()
                    .filter(fits)
                    .map(|writes| Probe::Packed { writes }),
            );
        }
        if caps.discard && wanted.discard {
            probes.insert(Probe::Discard);
        }
        Plan { probes }
    }
    /// The sizes for which `of` is in the plan, KiB, ascending.
    pub(crate) fn sizes(&self, of: impl Fn(&Probe) -> Option<u32>) -> BTreeSet<u32> {
        self.probes.iter().filter_map(of).collect()
    }
}
