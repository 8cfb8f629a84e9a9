//! A share of the trees of a recording: what its worker is asked, and what it answers.

use ::program::explore::Said;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A share of the trees of a recording, as its worker gets it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The file of the recording.
    pub recording: PathBuf,
    /// Files that the commands which judge name, as far as they are there.
    pub files: Vec<PathBuf>,
    /// The options of `crash`.
    pub words: Vec<String>,
    /// Which share, from 0.
    pub share: u64,
    /// Of how many.
    pub shares: u64,
    /// The run that was recorded for the plan; none where the recording was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// What the report of one process says of the run that it has recorded itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// The command.
    pub run: String,
    /// What is to be told of how it was recorded.
    pub notes: Vec<String>,
    /// The user named the file that keeps the recording. Without a name one process puts it into
    /// its output folder.
    pub kept: bool,
}

/// What a share found.
#[derive(Serialize, Deserialize)]
pub struct Found {
    /// What is said of its trees.
    pub trees: Vec<Said>,
    /// What judges had to tell, in order and each once.
    #[serde(default)]
    pub notes: Vec<String>,
}
