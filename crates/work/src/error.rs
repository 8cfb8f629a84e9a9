//! The error type of this crate: one variant for each part of a run that can fail.

use crate::workload::SpecError;
use crate::workload::sqlite::SqliteFailure;
use rig::RigError;
use std::io;
use thiserror::Error;

/// Why a run did not end well.
#[derive(Debug, Error)]
pub enum RunError {
    /// The stack cannot be built, mounted or unmounted.
    #[error("{0}")]
    Rig(#[from] RigError),
    /// The text of the workload is not valid.
    #[error("{0}")]
    Spec(#[from] SpecError),
    /// The SQLite workload failed or found a difference.
    #[error("workload: {0}")]
    Workload(#[from] SqliteFailure),
    /// The mount could not be registered with SQLite, or not be taken back.
    #[error("SQLite: {0}")]
    Setup(#[from] ::sqlite::SetupError),
    /// The database could not be opened or closed.
    #[error("opening or closing the database: {0}")]
    Open(#[from] rusqlite::Error),
    /// SQLite failed because the file system below it did.
    #[error("{sqlite}; the file system said: {below}")]
    Below {
        /// SQLite's own message.
        sqlite: String,
        /// The first error of the file system.
        below: String,
    },
    /// A file-system operation of the run itself failed.
    #[error("file system: {0}")]
    Fs(#[from] vfs::FsError),
    /// A recording cannot be read, or contradicts itself.
    #[error("recording: {0}")]
    Recording(String),
    /// A model of Filebench cannot be read, does not fit, or contradicts itself.
    #[error("filebench: {0}")]
    Filebench(String),
    /// The simulation failed: a panic, a deadlock, a limit.
    #[error("the simulation failed: {0}")]
    Simulation(String),
    /// A benchmark has no room on its volume, or a setting is not possible on it.
    #[error("{0}")]
    Room(String),
    /// What has to be kept in memory exceeds its limit.
    #[error(
        "{what} does not fit the {mib} MiB of memory for image and recording: allow more (--memory MIB), or less of it"
    )]
    Memory {
        /// What it is, and how far it had come.
        what: String,
        /// The limit, MiB.
        mib: u64,
    },
    /// The content after the run differs from what was written.
    #[error("after the run: {0}")]
    Check(String),
    /// An operation of the host failed.
    #[error("{doing}: {source}")]
    Host {
        /// What was being done.
        doing: String,
        /// The host's error.
        source: io::Error,
    },
}
