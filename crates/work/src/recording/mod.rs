//! Recorded system calls: what an application asked of its files, when, from which thread.
//!
//! A recording comes from a file (`varve replay FILE`) or from a generator ([`apps`]); both are run
//! by [`workload::replay`](crate::workload::replay) and described by [`stats`], so that a generated
//! one can be compared with a recorded one.
//!
//! - N1: `calls` is ordered by time; ties keep the order of the file.
//! - N2: a handle is opened before it is used, is used by calls up to its close only, and is never
//!   opened twice: a reader gives each open a fresh number, whatever the descriptor was.
//! - N3: paths are absolute, without `.` and `..`, and each parent directory is made by a call of
//!   the recording or stands in `folders`.

pub mod apps;
pub mod mobibench;
mod read;
mod reading;
pub mod stats;

pub(crate) use read::unpacked;
pub use read::{Format, detect, detect_file, read, read_from, read_with};
pub use reading::{Lines, Reading};

use base::Nanos;

/// A recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// Where it comes from: name of a file without its folder, or `app:facebook`.
    pub name: String,
    /// Directories that are there before the first call, parents first.
    pub folders: Vec<String>,
    /// Files that are there before the first call, with their sizes in bytes.
    pub files: Vec<(String, u64)>,
    /// The calls.
    pub calls: Vec<Call>,
}

/// One call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// When it began, since the beginning of the recording.
    pub at: Nanos,
    /// The thread that made it.
    pub thread: u32,
    /// What it did.
    pub op: Op,
}

/// Number of an open file within its recording.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Handle(pub u32);

/// What a call does. Bytes are counts: recordings hold no content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Opens a file or a directory.
    Open {
        /// Number for later calls.
        handle: Handle,
        /// What.
        path: String,
        /// Made if it is not there.
        create: bool,
        /// Emptied.
        truncate: bool,
        /// It is a directory: only fsync and close follow.
        directory: bool,
    },
    /// Writes at a place.
    Write {
        /// Where to.
        handle: Handle,
        /// Byte offset.
        offset: u64,
        /// Bytes.
        bytes: u32,
    },
    /// Reads at a place.
    Read {
        /// Where from.
        handle: Handle,
        /// Byte offset.
        offset: u64,
        /// Bytes.
        bytes: u32,
    },
    /// fsync or fdatasync.
    Sync {
        /// Of what.
        handle: Handle,
        /// fdatasync.
        data_only: bool,
    },
    /// Changes the size.
    Truncate {
        /// Of what.
        handle: Handle,
        /// Bytes.
        size: u64,
    },
    /// Closes.
    Close {
        /// What.
        handle: Handle,
    },
    /// Removes a name.
    Unlink {
        /// The name.
        path: String,
    },
    /// Gives a name to what has another one, replacing what had it.
    Rename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
    /// Makes a directory.
    Mkdir {
        /// Its name.
        path: String,
    },
    /// Removes an empty directory.
    Rmdir {
        /// Its name.
        path: String,
    },
}

impl Op {
    /// True if the time of this call is the device's and not the application's.
    pub fn is_sync(&self) -> bool {
        matches!(self, Op::Sync { .. })
    }

    /// The word for it in results; every sync is an `fsync`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Op::Open { .. } => "open",
            Op::Write { .. } => "write",
            Op::Read { .. } => "read",
            Op::Sync { .. } => "fsync",
            Op::Truncate { .. } => "truncate",
            Op::Close { .. } => "close",
            Op::Unlink { .. } => "unlink",
            Op::Rename { .. } => "rename",
            Op::Mkdir { .. } => "mkdir",
            Op::Rmdir { .. } => "rmdir",
        }
    }
}
