//! Recordings of requests to a block device: operation, time, address and length of each request
//! that a host made to its disk, without content.
//!
//! `read` reads a recording from a file, and [`fold`] maps its addresses onto a device of
//! another size. Then it is run on a translation layer that only counts ([`counting`]) or on a
//! device profile with its times ([`device`]). `docs/use/traces.md` has the sources of the formats
//! and their fields.
//!
//! - B1: requests are in the order of their times; ties keep the order of the file. A recording may
//!   have a mark: what stands before it stays before it.
//! - B2: a request has at least one sector and at most [`TRANSFER_SECTORS_MAX`] (a discard
//!   [`u32::MAX`]), and ends at [`SECTOR_END`] or before; a flush has none.
//! - B3: memory is bounded by [`REQUESTS_MAX`] and [`LINE_BYTES_MAX`], whatever the file says.
//! - B4: blkparse shows several events of each request, and one kind of them counts: issued to the
//!   driver, else queued, else completed.

pub mod counting;
pub mod device;
pub mod fold;
mod formats;
mod read;
pub mod report;
pub mod stats;

pub use read::{detect, read, read_from};

use crate::recording::Reading;
use serde::Serialize;
use std::str::FromStr;

/// Longest line, bytes.
pub const LINE_BYTES_MAX: usize = 4096;
/// Most requests of a recording: they are all in memory, 24 bytes each.
pub const REQUESTS_MAX: usize = 32 << 20;
/// Most sectors of a read or a write: 1 GiB.
pub const TRANSFER_SECTORS_MAX: u32 = 1 << 21;
/// No request ends beyond this sector (4 EiB).
pub const SECTOR_END: u64 = 1 << 53;

base::words! {
    /// What a request does.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Op {
        /// Reads.
        Read => "read",
        /// Writes.
        Write => "write",
        /// Tells the device that content is no longer needed.
        Discard => "discard",
        /// Flushes the cache of the device.
        Flush => "flush",
    }
}

/// One request to a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// When it was made, nanoseconds since the first one of the recording.
    pub at: u64,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Sectors; none of a flush.
    pub sectors: u32,
    /// The disk or file, as an index into [`BlockTrace::devices`].
    pub device: u16,
    /// What it does.
    pub op: Op,
    /// True for a write that is non-volatile at completion.
    pub fua: bool,
}

/// A recording of block requests, as read from a file (B1, B2).
#[derive(Clone, PartialEq, Debug)]
pub struct BlockTrace {
    /// Name of the file, without its folder.
    pub name: String,
    /// Its format.
    pub format: Format,
    /// The disks or files it names, in the order in which they appear.
    pub devices: Vec<String>,
    /// The requests.
    pub requests: Vec<Request>,
    /// Number of requests, from the first, that only prepare the device: those before the mark
    /// (Pixel: `preconditioning_ended`).
    pub preparing: usize,
    /// What became of each line of the file.
    pub reading: Reading,
}

base::words! {
    /// The formats that [`read()`] knows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Format {
        /// CSV of Microsoft Research Cambridge, as SNIA hands it out.
        Msr => "msr",
        /// I/O log of fio, version 2 or 3.
        Fio => "fio",
        /// Text of blkparse in its default form.
        Blkparse => "blkparse",
        /// ASCII of MQSim (and of SSDsim).
        Mqsim => "mqsim",
        /// ASCII of DiskSim.
        Disksim => "disksim",
        /// CSV of the phone recordings of Technion's ACSL.
        Pixel => "pixel",
    }
}

impl FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Format, String> {
        let found = Format::ALL.into_iter().find(|f| f.word() == text);
        found.ok_or_else(|| {
            let all = Format::ALL.map(Format::word).join(", ");
            format!("`{text}` is no format of block requests; there is: {all}")
        })
    }
}
