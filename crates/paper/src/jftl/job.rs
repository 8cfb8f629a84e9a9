//! The jobs of the JFTL paper's report: what has to run for its figures.

use super::bare::{BareJob, Sample};
use super::recovery::{Recovered, RecoveryJob};
use crate::PaperError;
use crate::study;
pub use crate::study::{Work, outcome};
use report::results::Run;
use serde::{Deserialize, Serialize};
use work::{RunConfig, run};

/// One simulation, or a few that belong together, in a worker process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// A workload, measured as `varve compare` does.
    Run(RunConfig),
    /// A workload, measured from the mount until everything is home ([`run::run_whole`]).
    Whole(RunConfig),
    /// A journal and its homes on a bare device.
    Bare(BareJob),
    /// The recovery of a log.
    Recovery(RecoveryJob),
}

/// The outcome of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The outcome of [`Job::Run`] and of [`Job::Whole`].
    Run(Box<Run>),
    /// The outcome of [`Job::Bare`].
    Samples(Vec<Sample>),
    /// The outcome of [`Job::Recovery`].
    Recovered(Box<Recovered>),
}

impl Work for Job {
    type Outcome = Outcome;

    fn run(&self) -> Result<Outcome, PaperError> {
        match self {
            Job::Run(config) => {
                let finished = run::run_once(config, &mut |_, _| {})?;
                Ok(Outcome::Run(Box::new(finished.run)))
            }
            Job::Whole(config) => Ok(Outcome::Run(Box::new(run::run_whole(config)?))),
            Job::Bare(job) => Ok(Outcome::Samples(job.run()?)),
            Job::Recovery(job) => Ok(Outcome::Recovered(Box::new(job.run()?))),
        }
    }
}

/// Looks up the outcome of a [`Job::Run`] or [`Job::Whole`].
///
/// # Errors
/// The job was not run, or its outcome is of another kind.
pub fn run_of<'a>(outcomes: &'a Outcomes, job: &Job) -> Result<&'a Run, PaperError> {
    match outcome(outcomes, job)? {
        Outcome::Run(run) => Ok(run),
        _ => Err(PaperError::Check(format!("{} is no plain run", job.key()))),
    }
}

/// Looks up the outcome of a [`Job::Bare`].
///
/// # Errors
/// The job was not run, or its outcome is of another kind.
pub fn samples_of<'a>(outcomes: &'a Outcomes, job: &Job) -> Result<&'a [Sample], PaperError> {
    match outcome(outcomes, job)? {
        Outcome::Samples(samples) => Ok(samples),
        _ => Err(PaperError::Check(format!("{} has no samples", job.key()))),
    }
}

/// Looks up the outcome of a [`Job::Recovery`].
///
/// # Errors
/// The job was not run, or its outcome is of another kind.
pub fn recovered_of<'a>(outcomes: &'a Outcomes, job: &Job) -> Result<&'a Recovered, PaperError> {
    match outcome(outcomes, job)? {
        Outcome::Recovered(found) => Ok(found),
        _ => Err(PaperError::Check(format!("{} is no recovery", job.key()))),
    }
}

/// Outcomes by [`Work::key`].
pub type Outcomes = study::Outcomes<Outcome>;
