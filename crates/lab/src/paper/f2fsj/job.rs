//! What has to run.

use super::checkpoints::{CheckpointJob, Checkpointed};
use crate::RunError;
use crate::paper::study::Work;
use serde::{Deserialize, Serialize};

/// One simulation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// An operation on names many times, and what the checkpoints cost.
    Checkpoints(CheckpointJob),
}

impl Work for Job {
    type Outcome = Checkpointed;

    fn run(&self) -> Result<Checkpointed, RunError> {
        match self {
            Job::Checkpoints(job) => job.run(),
        }
    }
}
