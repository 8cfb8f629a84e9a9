//! What the characterisation (III.C) shares: each app at its own pace under the baseline, its log
//! read back.

use super::job::{Job, Outcomes, Work, outcome};
use super::plan::{FIG8, Pace, Plan, Source};
use crate::PaperError;
use crate::characterise::Traffic;

/// The standard run of a source with its log read back.
pub fn job(plan: &Plan, source: &Source, scheme: &str, timing: &str) -> Job {
    match plan.run(source, scheme, timing, Pace::Recorded) {
        Job::Run(config) => Job::Traffic(config),
        other => other,
    }
}

/// Every source under the baseline; what is counted does not depend on the timing set.
pub fn baseline(plan: &Plan) -> Vec<Job> {
    let sources = plan.sources();
    let one = |source| job(plan, source, "jbd2", FIG8);
    sources.iter().map(one).collect()
}

/// The outcome of [`job`].
///
/// # Errors
/// It was not run.
pub fn traffic<'a>(
    plan: &Plan,
    outcomes: &'a Outcomes,
    source: &Source,
    (scheme, timing): (&str, &str),
) -> Result<&'a Traffic, PaperError> {
    let job = job(plan, source, scheme, timing);
    match outcome(outcomes, &job)? {
        super::job::Outcome::Traffic(traffic) => Ok(traffic),
        _ => Err(PaperError::Check(format!("{} read no log", job.key()))),
    }
}

/// The sources with their traffic under the baseline.
///
/// # Errors
/// One was not run.
pub fn all<'a>(
    plan: &Plan,
    outcomes: &'a Outcomes,
) -> Result<Vec<(Source, &'a Traffic)>, PaperError> {
    let sources = plan.sources().into_iter();
    sources
        .map(|source| {
            Ok((
                source.clone(),
                traffic(plan, outcomes, &source, ("jbd2", FIG8))?,
            ))
        })
        .collect()
}

/// A number of bytes, blocks, calls in a table.
pub fn digits(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

/// Per cent in a table.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
