//! The jobs of the F2FSJ paper's report: what has to run for its figures.

use super::Plan;
use super::crash::{CrashJob, Judged};
use super::loss::{LossJob, Lost};
use super::measure::{BenchJob, Host, Measured};
use super::recovery::{Recovering, RecoveryJob};
use super::scale::{CORES, DEVICE};
use super::system::System;
use crate::PaperError;
use crate::study::{self, Work, outcome};
use report::results::Run;
use serde::{Deserialize, Serialize};
use work::{RunConfig, run};

/// One simulation, or a few that belong together, in a worker process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// A benchmark on one of the systems.
    Bench(BenchJob),
    /// Any workload, measured as `varve compare` does.
    Run(RunJob),
    /// Operations on names, and what power cuts lose of them.
    Loss(LossJob),
    /// Files that are made or removed, and the mount after a power cut.
    Recovery(RecoveryJob),
    /// A workload that is cut everywhere within a bound.
    Crash(CrashJob),
}

/// A run on a host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunJob {
    /// System and workload of the run.
    pub run: RunConfig,
    /// The host that it runs on.
    pub host: Host,
}

impl RunJob {
    /// A workload on a system, with the paper's drive and PC, and intervals as published: it is as
    /// long as it is, and stands for no longer one.
    pub fn new(plan: &Plan, system: System, workload: String) -> RunJob {
        RunJob {
            run: RunConfig {
                stack: system.stack(DEVICE, plan.size().unscaled(), plan.seed),
                workload,
                seed: plan.seed,
                recording: None,
            },
            host: Host::cores(CORES),
        }
    }
}

/// The outcome of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The outcome of [`Job::Bench`].
    Bench(Box<Measured>),
    /// The outcome of [`Job::Run`].
    Run(Box<Run>),
    /// The outcome of [`Job::Loss`].
    Loss(Lost),
    /// The outcome of [`Job::Recovery`].
    Recovery(Recovering),
    /// The outcome of [`Job::Crash`].
    Crash(Judged),
}

/// Outcomes by [`Work::key`].
pub type Outcomes = study::Outcomes<Outcome>;

impl Work for Job {
    type Outcome = Outcome;

    fn run(&self) -> Result<Outcome, PaperError> {
        match self {
            Job::Bench(job) => Ok(Outcome::Bench(Box::new(job.run()?))),
            Job::Run(job) => {
                let sim = job.host.sim(job.run.seed);
                Ok(Outcome::Run(Box::new(run::run_in(&job.run, sim)?)))
            }
            Job::Loss(job) => job.run().map(Outcome::Loss),
            Job::Recovery(job) => job.run().map(Outcome::Recovery),
            Job::Crash(job) => job.run().map(Outcome::Crash),
        }
    }
}

/// Looks up the outcome of a [`Job::Bench`].
///
/// # Errors
/// The job was not run, or its outcome is of another kind.
pub fn measured<'a>(outcomes: &'a Outcomes, job: &BenchJob) -> Result<&'a Measured, PaperError> {
    let job = Job::Bench(job.clone());
    match outcome(outcomes, &job)? {
        Outcome::Bench(measured) => Ok(measured),
        _ => Err(PaperError::Check(format!("{} is no benchmark", job.key()))),
    }
}

/// Looks up the outcome of a [`Job::Run`].
///
/// # Errors
/// The job was not run, or its outcome is of another kind.
pub fn run_of<'a>(outcomes: &'a Outcomes, job: &RunJob) -> Result<&'a Run, PaperError> {
    let job = Job::Run(job.clone());
    match outcome(outcomes, &job)? {
        Outcome::Run(run) => Ok(run),
        _ => Err(PaperError::Check(format!("{} is no plain run", job.key()))),
    }
}

fn other<T>(job: &Job) -> Result<T, PaperError> {
    let what = format!("{} gave something of another kind", job.key());
    Err(PaperError::Check(what))
}

/// Looks up the outcome of a [`Job::Loss`].
///
/// # Errors
/// The job was not run, or its outcome is of another kind.
pub fn lost<'a>(outcomes: &'a Outcomes, job: &LossJob) -> Result<&'a Lost, PaperError> {
    let job = Job::Loss(job.clone());
    match outcome(outcomes, &job)? {
        Outcome::Loss(lost) => Ok(lost),
        _ => other(&job),
    }
}

/// Looks up the outcome of a [`Job::Recovery`].
///
/// # Errors
/// The job was not run, or its outcome is of another kind.
pub fn recovering<'a>(
    outcomes: &'a Outcomes,
    job: &RecoveryJob,
) -> Result<&'a Recovering, PaperError> {
    let job = Job::Recovery(job.clone());
    match outcome(outcomes, &job)? {
        Outcome::Recovery(found) => Ok(found),
        _ => other(&job),
    }
}

/// Looks up the outcome of a [`Job::Crash`].
///
/// # Errors
/// The job was not run, or its outcome is of another kind.
pub fn judged<'a>(outcomes: &'a Outcomes, job: &CrashJob) -> Result<&'a Judged, PaperError> {
    let job = Job::Crash(job.clone());
    match outcome(outcomes, &job)? {
        Outcome::Crash(judged) => Ok(judged),
        _ => other(&job),
    }
}
