//! What to run, as one value that a worker process gets.

use rig::Config;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What to run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunConfig {
    /// The stack.
    pub stack: Config,
    /// The workload, as text.
    pub workload: String,
    /// Seed of the workload and the schedule.
    pub seed: u64,
    /// Where the recording of a `replay:` workload is; never in results.
    #[serde(default)]
    pub recording: Option<PathBuf>,
}
