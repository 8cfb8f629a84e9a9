//! Why a power cut could not be made or judged.

use super::subject::TextError;
use rig::RigError;
use std::io;
use thiserror::Error;
use work::RunError;
use work::workload::SpecError;
use work::workload::sqlite::SqliteFailure;

/// Why a power cut could not be made or judged. What a cut leaves is no error: that is a judgement.
#[derive(Debug, Error)]
pub enum CrashError {
    /// The run that is cut, or a life behind the cut.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The text of a crash-test workload.
    #[error("{0}")]
    Subject(#[from] TextError),
    /// The simulation failed: a panic, a deadlock, a limit.
    #[error("the simulation failed: {0}")]
    Simulation(String),
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

/// What a run may end with is an error of a run here too.
macro_rules! of_run {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for CrashError {
            fn from(e: $error) -> CrashError {
                CrashError::Run(e.into())
            }
        }
    )*};
}

of_run!(
    RigError,
    SpecError,
    SqliteFailure,
    sqlite::SetupError,
    rusqlite::Error,
    vfs::FsError,
);
