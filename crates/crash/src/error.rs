//! Why a power cut could not be made or judged.

use super::subject::TextError;
use rig::RigError;
use std::io;
use thiserror::Error;
use work::RunError;
use work::workload::SpecError;
use work::workload::sqlite::SqliteFailure;

/// Why a power cut could not be made or judged. Damage that a cut leaves is a judgement, no error.
#[derive(Debug, Error)]
pub enum CrashError {
    /// The run that is cut has failed, or a life behind the cut.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The text of a workload for crash tests is wrong.
    #[error("{0}")]
    Subject(#[from] TextError),
    /// The simulation failed: a panic, a deadlock, a limit.
    #[error("the simulation failed: {0}")]
    Simulation(String),
    /// What the run or a recovery left is not as it must be.
    #[error("after the run: {0}")]
    Check(String),
    /// The host has refused something.
    #[error("{doing}: {source}")]
    Host {
        /// What was being done.
        doing: String,
        /// What the host says.
        source: io::Error,
    },
}

/// Makes each error that a run may end with a [`CrashError::Run`].
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
