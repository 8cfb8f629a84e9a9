//! What the parts of the characterisation (III.C) share: each app, generated or recorded, at its
//! own pace under the baseline, with its log read back.

use super::cards::{Card, STANDARD};
use super::job::{Job, Outcomes, Work, outcome};
use super::plan::{BASE, FIG8, Pace, Plan, Source};
use crate::PaperError;
use crate::characterise::Traffic;

/// The job that runs a source at its own pace and reads its log back.
pub fn job(plan: &Plan, source: &Source, scheme: &str, timing: &str) -> Job {
    on_card(plan, source, scheme, (&STANDARD, timing))
}

/// The same on another card.
pub fn on_card(plan: &Plan, source: &Source, scheme: &str, on: (&Card, &str)) -> Job {
    match plan.on_card(source, scheme, on, Pace::Recorded) {
        Job::Run(config) => Job::Traffic(config),
        other => other,
    }
}

/// The jobs of every source under the baseline; counts do not depend on the timing set.
pub fn baseline(plan: &Plan) -> Vec<Job> {
    let sources = plan.sources();
    let one = |source| job(plan, source, BASE, FIG8);
    sources.iter().map(one).collect()
}

/// Looks up the outcome of [`job`].
///
/// # Errors
/// The job was not run.
pub fn traffic<'a>(
    plan: &Plan,
    outcomes: &'a Outcomes,
    source: &Source,
    (scheme, timing): (&str, &str),
) -> Result<&'a Traffic, PaperError> {
    traffic_of(outcomes, &job(plan, source, scheme, timing))
}

/// Looks up the outcome of [`on_card`].
///
/// # Errors
/// The job was not run.
pub fn traffic_of<'a>(outcomes: &'a Outcomes, job: &Job) -> Result<&'a Traffic, PaperError> {
    match outcome(outcomes, job)? {
        super::job::Outcome::Traffic(traffic) => Ok(traffic),
        _ => Err(PaperError::Check(format!("{} read no log", job.key()))),
    }
}

/// All sources with their traffic under the baseline.
///
/// # Errors
/// One of the jobs was not run.
pub fn all<'a>(
    plan: &Plan,
    outcomes: &'a Outcomes,
) -> Result<Vec<(Source, &'a Traffic)>, PaperError> {
    let sources = plan.sources().into_iter();
    sources
        .map(|source| {
            Ok((
                source.clone(),
                traffic(plan, outcomes, &source, (BASE, FIG8))?,
            ))
        })
        .collect()
}

/// A number for a table, with `digits` digits after the point.
pub fn digits(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

/// A share for a table, in per cent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
