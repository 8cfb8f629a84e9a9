//! The jobs of the eMMC paper's report: what has to run for its figures. How jobs are run is told
//! in [`study`].

use super::barrier::{Barrier, Times};
use super::creation::{self, Creation};
use super::own_time::{OwnTime, Owned};
use super::recovery::{Recoveries, RecoveryJob};
use crate::PaperError;
use crate::characterise::{Traffic, traffic};
use crate::study;
pub use crate::study::{Work, outcome};
use report::results::Run;
use rig::Config;
use serde::{Deserialize, Serialize};
use work::{RunConfig, run};

/// One simulation, or a few that belong together, in a worker process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// A workload, measured as `varve compare` does.
    Run(RunConfig),
    /// An app with a given share of own time, on several stacks.
    OwnTime(OwnTime),
    /// A workload with its log read back.
    Traffic(RunConfig),
    /// The creation of one file on this stack, with this seed.
    Creation(Config, u64),
    /// Flush at the end and direct persistence on the device alone.
    Barrier(Barrier),
    /// Power cuts in the phases of PostMark, and their recovery.
    Recovery(RecoveryJob),
}

/// The outcome of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The outcome of [`Job::Run`].
    Run(Box<Run>),
    /// The outcome of [`Job::OwnTime`].
    OwnTime(Box<Owned>),
    /// The outcome of [`Job::Traffic`].
    Traffic(Box<Traffic>),
    /// The outcome of [`Job::Creation`].
    Creation(Creation),
    /// The outcome of [`Job::Barrier`].
    Barrier(Times),
    /// The outcome of [`Job::Recovery`].
    Recovery(Box<Recoveries>),
}

impl Work for Job {
    type Outcome = Outcome;

    fn run(&self) -> Result<Outcome, PaperError> {
        match self {
            Job::Run(config) => {
                let finished = run::run(config, &mut |_, _| {})?;
                Ok(Outcome::Run(Box::new(finished.run)))
            }
            Job::OwnTime(job) => Ok(Outcome::OwnTime(Box::new(job.run()?))),
            Job::Traffic(config) => Ok(Outcome::Traffic(Box::new(traffic(config)?))),
            Job::Creation(stack, seed) => Ok(Outcome::Creation(creation::run(stack, *seed)?)),
            Job::Barrier(barrier) => Ok(Outcome::Barrier(barrier.run()?)),
            Job::Recovery(job) => Ok(Outcome::Recovery(Box::new(job.run()?))),
        }
    }
}

/// Looks up the outcome of a [`Job::Run`].
///
/// # Errors
/// The job was not run, or its outcome is of another kind.
pub fn run_of<'a>(outcomes: &'a Outcomes, job: &Job) -> Result<&'a Run, PaperError> {
    match outcome(outcomes, job)? {
        Outcome::Run(run) => Ok(run),
        _ => Err(PaperError::Check(format!("{} is no plain run", job.key()))),
    }
}

/// Looks up the outcome of a [`Job::OwnTime`].
///
/// # Errors
/// The job was not run, or its outcome is of another kind.
pub fn owned_of<'a>(outcomes: &'a Outcomes, job: &Job) -> Result<&'a Owned, PaperError> {
    match outcome(outcomes, job)? {
        Outcome::OwnTime(owned) => Ok(owned),
        _ => Err(PaperError::Check(format!("{} has no own time", job.key()))),
    }
}

/// Outcomes by [`Work::key`].
pub type Outcomes = study::Outcomes<Outcome>;
