//! Why a run did not end well.

use crate::workload::SpecError;
use crate::workload::sqlite::SqliteFailure;
use rig::RigError;
use std::io;
use thiserror::Error;

/// Why a run did not end well.
#[derive(Debug, Error)]
pub enum RunError {
    /// The stack.
    #[error("{0}")]
    Rig(#[from] RigError),
    /// The workload text.
    #[error("{0}")]
    Spec(#[from] SpecError),
    /// The workload itself.
    #[error("workload: {0}")]
    Workload(#[from] SqliteFailure),
    /// Registering the mount with SQLite, or taking it back.
    #[error("SQLite: {0}")]
    Setup(#[from] ::sqlite::SetupError),
    /// Opening or closing the database.
    #[error("opening or closing the database: {0}")]
    Open(#[from] rusqlite::Error),
    /// SQLite failed because the file system below it did.
    #[error("{sqlite}; the file system said: {below}")]
    Below {
        /// What SQLite says.
        sqlite: String,
        /// What the file system said first.
        below: String,
    },
    /// A file-system operation of the run itself.
    #[error("file system: {0}")]
    Fs(#[from] vfs::FsError),
    /// A recording that cannot be read, or contradicts itself.
    #[error("recording: {0}")]
    Recording(String),
    /// A model of Filebench that cannot be read, does not fit, or contradicts itself.
    #[error("filebench: {0}")]
    Filebench(String),
    /// The simulation failed: a panic, a deadlock, a limit.
    #[error("the simulation failed: {0}")]
    Simulation(String),
    /// A benchmark has no room on its volume.
    #[error("{0}")]
    Room(String),
    /// What has to be kept in memory does not fit what it may take.
    #[error(
        "{what} does not fit the {mib} MiB of memory for image and recording: allow more (--memory MIB), or less of it"
    )]
    Memory {
        /// What, and how far it went.
        what: String,
        /// What it may take.
        mib: u64,
    },
    /// What remained is wrong.
    #[error("after the run: {0}")]
    Check(String),
    /// The host.
    #[error("{doing}: {source}")]
    Host {
        /// What was being done.
        doing: String,
        /// What the host says.
        source: io::Error,
    },
}
