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
}

/// What a share found.
#[derive(Serialize, Deserialize)]
pub struct Found {
    /// What is said of its trees.
    pub trees: Vec<Said>,
}
