//! Why a paper could not be measured again.

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
    /// A run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run with power cuts.
    #[error(transparent)]
    Crash(#[from] CrashError),
    /// The committed table of published values.
    #[error("published values: {0}")]
    Table(#[from] TableError),
    /// A plot that cannot be drawn.
    #[error("drawing a plot: {0}")]
    Plot(String),
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

impl From<Box<dyn std::error::Error>> for PaperError {
    /// From the drawing library, whose errors are boxed.
    fn from(e: Box<dyn std::error::Error>) -> PaperError {
        PaperError::Plot(e.to_string())
    }
}

/// What a run may end with is an error of a run here too.
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
