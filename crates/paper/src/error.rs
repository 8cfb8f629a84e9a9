//! The error type of this crate: why a paper could not be measured again.

use super::TableError;
use crash::CrashError;
use rig::RigError;
use std::io;
use thiserror::Error;
use work::RunError;
use work::workload::SpecError;

/// Why a paper could not be measured again.
#[derive(Debug, Error)]
pub enum PaperError {
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run with power cuts failed.
    #[error(transparent)]
    Crash(#[from] CrashError),
    /// The committed table of published values is not valid.
    #[error("published values: {0}")]
    Table(#[from] TableError),
    /// The simulation failed: a panic, a deadlock, a limit.
    #[error("the simulation failed: {0}")]
    Simulation(String),
    /// The content after a run is wrong, or an outcome is missing.
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

/// Errors of the layers below a run are errors of a run here, too.
macro_rules! of_run {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for PaperError {
            fn from(e: $error) -> PaperError {
                PaperError::Run(e.into())
            }
        }
    )*};
}

of_run!(RigError, SpecError, vfs::FsError);
