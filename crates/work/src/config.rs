//! What to run, as one value: it is sent to worker processes as text, so everything that a run
//! depends on stands in it. Only of a recording and of a model of Filebench it has the path, not
//! the content.

use rig::Config;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What to run, on which stack.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunConfig {
    /// The stack: file system, scheme, device.
    pub stack: Config,
    /// The workload in its text form ([`Workload`](crate::workload::Workload)).
    pub workload: String,
    /// Seed of the workload and the schedule.
    pub seed: u64,
    /// File of the recording or of the model of Filebench; never in results, as a path is no
    /// property of the run.
    #[serde(default)]
    pub recording: Option<PathBuf>,
}
