//! Recorded system calls: what an application asked of its files, when, from which thread.
//!
//! A recording comes from a file (`varve replay FILE`) or from a generator ([`apps`]). Both kinds
//! are the same value, run by [`workload::replay`](crate::workload::replay) and described by
//! [`stats`], so that a generated one can be compared with a recorded one. It holds no content,
//! only counts of bytes.
//!
//! - N1: `calls` is ordered by time; ties keep the order of the file.
//! - N2: a handle is opened before it is used, is used by calls up to its close only, and is never
//!   opened twice: a reader gives each open a fresh number, whatever the descriptor was.
//! - N3: paths are absolute, without `.` and `..`, and each parent directory is made by a call of
//!   the recording or stands in `folders`.

pub mod apps;
mod events;
pub mod mobibench;
mod paths;
mod read;
mod reading;
mod repair;
pub mod stats;
pub mod strace;
mod text_lines;

pub(crate) use read::unpacked;
pub use read::{Format, detect, detect_file, read, read_from, read_with};
pub use reading::{Lines, Reading};

use base::Nanos;

/// The system calls of one recording (N1 to N3).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// Its source: the name of a file without its folder, or `app:facebook`.
    pub name: String,
    /// Directories that are there before the first call, parents first.
    pub folders: Vec<String>,
    /// Files that are there before the first call, with their sizes in bytes.
    pub files: Vec<(String, u64)>,
    /// The calls, by time (N1).
    pub calls: Vec<Call>,
}

/// One system call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// When the call began, since the beginning of the recording.
    pub at: Nanos,
    /// The thread that made it.
    pub thread: u32,
    /// What the call did.
    pub op: Op,
}

/// Number of an open file or directory within its recording.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Handle(pub u32);

/// What a call does. It has lengths and no content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Opens a file or a directory.
    Open {
        /// The number by which later calls name it.
        handle: Handle,
        /// Its path.
        path: String,
        /// It is made if it is not there.
        create: bool,
        /// It is emptied.
        truncate: bool,
        /// It is a directory, so that only fsync and close follow.
        directory: bool,
    },
    /// Writes at an offset.
    Write {
        /// The open file.
        handle: Handle,
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes.
        bytes: u32,
    },
    /// Reads at an offset.
    Read {
        /// The open file.
        handle: Handle,
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes.
        bytes: u32,
    },
    /// fsync or fdatasync.
    Sync {
        /// The open file or directory.
        handle: Handle,
        /// True for fdatasync.
        data_only: bool,
    },
    /// sync or syncfs: all of the volume.
    SyncAll,
    /// Changes the size of a file.
    Truncate {
        /// The open file.
        handle: Handle,
        /// The new size in bytes.
        size: u64,
    },
    /// Closes a file or directory.
    Close {
        /// The open file or directory.
        handle: Handle,
    },
    /// Removes a name.
    Unlink {
        /// The name to remove.
        path: String,
    },
    /// Renames a file or directory; what had the new name is replaced.
    Rename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
    /// Makes a directory.
    Mkdir {
        /// Path of the directory.
        path: String,
    },
    /// Removes an empty directory.
    Rmdir {
        /// Path of the directory.
        path: String,
    },
}

impl Op {
    /// True for a sync: its duration is the device's and not the application's.
    pub fn is_sync(&self) -> bool {
        matches!(self, Op::Sync { .. } | Op::SyncAll)
    }

    /// The call's name in results; every sync of one file is an `fsync`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Op::Open { .. } => "open",
            Op::Write { .. } => "write",
            Op::Read { .. } => "read",
            Op::Sync { .. } => "fsync",
            Op::SyncAll => "sync",
            Op::Truncate { .. } => "truncate",
            Op::Close { .. } => "close",
            Op::Unlink { .. } => "unlink",
            Op::Rename { .. } => "rename",
            Op::Mkdir { .. } => "mkdir",
            Op::Rmdir { .. } => "rmdir",
        }
    }
}
