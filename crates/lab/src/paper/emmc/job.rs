//! What has to run for the figures of the paper: each job in a worker process of its own, in any order.
//!
//! A figure says which jobs it needs and makes its rows from their outcomes; jobs that two figures need run once. Jobs are compared by
//! their JSON text.

use crate::RunConfig;
use crate::results::Run;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One simulation, or a few that belong together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// A workload, measured as `varve compare` does.
    Run(RunConfig),
}

/// What a job gave.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Of [`Job::Run`].
    Run(Box<Run>),
}

impl Job {
    /// The name by which jobs are the same.
    pub fn key(&self) -> String {
        serde_json::to_string(self).expect("plain data serialises")
    }
}

/// Outcomes by [`Job::key`].
pub type Outcomes = BTreeMap<String, Outcome>;
