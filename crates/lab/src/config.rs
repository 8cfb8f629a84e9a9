//! What to run, as one value that a worker process gets.

use rig::Config;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunConfig {
    /// The stack.
    pub stack: Config,
    /// The workload, as text.
    pub workload: String,
    /// Seed of the workload and the schedule.
    pub seed: u64,
}
