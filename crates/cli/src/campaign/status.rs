//! How far a campaign is: of each job whether it is done, missing, given up, retried, or gave two
//! results that differ; what it cost, and what is left.

use super::gate::{differ, is_drawn};
use super::plan::{Entry, Plan, Planned};
use super::store::{Id, Run, Store, StoreError};
use super::work::ATTEMPTS;
use crate::args::StatusArgs;
use crate::failure::{Failure, failed, tell};
use crate::out::say;
use rig::signals;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// What the store has of a job.
pub enum Has {
    /// A whole result.
    Result(super::store::Kept),
    /// None.
    Nothing,
    /// A file that is no result.
    Damaged(String),
    /// None, and nobody tries again: what the last attempt says.
    GivenUp(String),
}

/// Looks up a job.
///
/// # Errors
/// The host refuses.
pub fn look(store: &Store, id: &str) -> Result<Has, Failure> {
    match store.get(id, Run::First) {
        Ok(Some(kept)) => return Ok(Has::Result(kept)),
        Ok(None) => {}
        Err(e @ StoreError::Damaged { .. }) => return Ok(Has::Damaged(e.to_string())),
        Err(e) => return Err(failed(e)),
    }
    let attempts = store.attempts(id).map_err(failed)?;
    Ok(match attempts.last() {
        Some(last) if attempts.len() >= ATTEMPTS => Has::GivenUp(last.why.clone()),
        _ => Has::Nothing,
    })
}

/// The sums over a plan.
#[derive(Clone, Default, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Status {
    /// Jobs of the plan.
    pub jobs: u64,
    /// Of them, with a result.
    pub done: u64,
    /// Without one so far.
    pub missing: u64,
    /// Whose result is damaged; they run again.
    pub damaged: u64,
    /// Given up.
    pub gave_up: u64,
    /// With an attempt that gave no result.
    pub retried: u64,
    /// Whose second run is still to come.
    pub second_runs_missing: u64,
    /// With two results that differ.
    pub differ: u64,
    /// Seconds that the runs took, second ones and vain ones included.
    pub seconds: f64,
    /// Seconds that the missing ones will take, one at a time.
    pub seconds_left: f64,
    #[serde(skip)]
    measured: f64,
    #[serde(skip)]
    estimated: f64,
    #[serde(skip)]
    estimated_left: f64,
}

impl Status {
    fn add(&mut self, store: &Store, job: &Planned, retried: bool) -> Result<(), Failure> {
        self.jobs += 1;
        self.retried += u64::from(retried);
        if retried {
            let attempts = store.all_attempts(&job.id).map_err(failed)?;
            self.seconds += attempts.iter().map(|a| a.by.seconds).sum::<f64>();
        }
        match look(store, &job.id)? {
            Has::Result(kept) => {
                self.done += 1;
                self.seconds += kept.by.seconds;
                self.measured += kept.by.seconds;
                self.estimated += job.cost;
                self.twice(store, job, retried)?;
                return Ok(());
            }
            Has::GivenUp(why) => {
                self.gave_up += 1;
                tell(format!(
                    "job {} ({}) gave up: {why}",
                    job.number,
                    job.task.name()
                ));
                return Ok(());
            }
            Has::Damaged(why) => {
                tell(why);
                self.damaged += 1;
            }
            Has::Nothing => self.missing += 1,
        }
        self.estimated_left += job.cost;
        Ok(())
    }

    fn twice(&mut self, store: &Store, job: &Planned, retried: bool) -> Result<(), Failure> {
        if let Some(why) = differ(store, job)? {
            tell(why);
            self.differ += 1;
        }
        let is_wanted = retried || is_drawn(job.number, &job.id);
        match store.get(&job.id, Run::Second) {
            Ok(Some(kept)) if is_wanted => self.seconds += kept.by.seconds,
            Ok(Some(_)) => {}
            Ok(None) => self.second_runs_missing += u64::from(is_wanted),
            Err(e @ StoreError::Damaged { .. }) => {
                tell(format!("{e}; `varve campaign work` puts it aside"));
                self.second_runs_missing += u64::from(is_wanted);
            }
            Err(e) => return Err(failed(e)),
        }
        Ok(())
    }

    fn end(&mut self) {
        let factor = match self.estimated > 0.0 {
            true => self.measured / self.estimated,
            false => 1.0,
        };
        self.seconds_left = (self.estimated_left * factor * 10.0).round() / 10.0;
        self.seconds = (self.seconds * 10.0).round() / 10.0;
    }

    /// Why the results cannot be merged as they are; `None` if they can. Jobs that were given up
    /// are no hindrance.
    pub fn hindrance(&self) -> Option<String> {
        let mut why = Vec::new();
        let mut count = |n: u64, what: &str| {
            if n > 0 {
                why.push(format!("{n} {what}"));
            }
        };
        count(self.missing + self.damaged, "results are missing");
        count(self.second_runs_missing, "second runs are missing");
        (!why.is_empty()).then(|| why.join(", "))
    }
}

/// The sums of a plan over a store. What is wrong with single jobs is told.
///
/// # Errors
/// The host refuses, or the plan is no plan.
pub fn of(plan: &Plan, store: &Store) -> Result<Status, Failure> {
    for (_, why) in store.damaged_packs().map_err(failed)? {
        tell(why);
    }
    let attempted = store.attempted().map_err(failed)?;
    let (mut status, mut seen) = (Status::default(), BTreeSet::new());
    plan.each(|entry| match entry {
        _ if signals::noted().is_some() => Err(super::merge::stopped()),
        Entry::Job(job) if seen.insert(Id::of(&job.id)) => {
            status.add(store, &job, attempted.contains(&job.id))
        }
        _ => Ok(()),
    })?;
    status.end();
    Ok(status)
}

/// Prints it; a job that was given up, or gave two results, is a failure.
pub fn status(args: &StatusArgs) -> Result<(), Failure> {
    let plan = Plan::open(&args.plan)?;
    let store = Store::existing(&args.store).map_err(failed)?;
    let status = of(&plan, &store)?;
    if args.json {
        let text = serde_json::to_string_pretty(&status).expect("plain data serialises");
        say(&format!("{text}\n"))?;
    } else {
        say(&words(&plan, &status))?;
    }
    match status.gave_up + status.differ {
        0 => Ok(()),
        _ => Err(failed("jobs were given up, or gave results that differ")),
    }
}

fn words(plan: &Plan, s: &Status) -> String {
    let percent = 100.0 * s.done as f64 / s.jobs.max(1) as f64;
    format!(
        "{} jobs of {}: {} done ({percent:.1} %), {} missing, {} damaged, {} given up\n\
         {} were retried; {} second runs are missing, {} jobs gave two results that differ\n\
         cost so far {}, left about {} on one core\n",
        s.jobs,
        plan.head.command,
        s.done,
        s.missing,
        s.damaged,
        s.gave_up,
        s.retried,
        s.second_runs_missing,
        s.differ,
        span(s.seconds),
        span(s.seconds_left)
    )
}

/// A span of time in the unit that suits it.
pub fn span(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
