//! `varve campaign merge`: reports and tables of all results, in the order of the plan, with the
//! bytes that one process would have written.

mod cases;
mod columns;
mod paper;
mod runs;
mod shares;
mod table;

use super::build::build;
use super::gate::differ;
use super::plan::{Entry, Plan, Planned};
use super::spec::Cell;
use super::status::{self, Has, look};
use super::store::{Run, Store};
use crate::args::MergeArgs;
use crate::failure::{Failure, failed, usage};
use crate::out::OutFolder;
use crate::stop::Stop;
use rig::signals;
use std::collections::BTreeMap;

/// What is merged.
pub struct Merge<'a> {
    plan: &'a Plan,
    store: &'a Store,
    out: &'a OutFolder,
    incomplete: Option<String>,
}

/// Merges a plan's results.
pub fn merge(args: &MergeArgs) -> Result<(), Failure> {
    // A signal ends it in order, so that no temporary file stays in the folder.
    let _stop = Stop::watch()?;
    let plan = Plan::open(&args.plan)?;
    plan.of_this_build(&build()?)?;
    let store = Store::existing(&args.store).map_err(failed)?;
    let status = status::of(&plan, &store)?;
    rig::Profile::supply(plan.profiles()?);
    if status.differ > 0 {
        return Err(failed(format!(
            "{} jobs gave two results that differ: nothing is merged of what is not deterministic",
            status.differ
        )));
    }
    let hindrance = status.hindrance();
    if let Some(why) = hindrance.as_ref().filter(|_| !args.partial) {
        return Err(failed(format!(
            "{why}: `varve campaign work` makes them, --partial merges what is there"
        )));
    }
    let gave_up = match status.gave_up {
        0 => None,
        n => Some(format!("{n} of {} jobs were given up", status.jobs)),
    };
    let incomplete: Vec<String> = hindrance.into_iter().chain(gave_up.clone()).collect();
    let out = OutFolder::prepare(&args.out)?;
    let merge = Merge {
        plan: &plan,
        store: &store,
        out: &out,
        incomplete: (!incomplete.is_empty()).then(|| incomplete.join(", ")),
    };
    match plan.head.command.as_str() {
        "compare" => runs::merge(&merge)?,
        "crash" => match Cell::of("crash", &merge.only_words()?)? {
            Cell::Crash(mut args) => cases::merge(&merge, &mut args)?,
            Cell::Program(mut args) => shares::merge(&merge, &mut args)?,
            _ => return Err(failed("the plan has a command line of another command")),
        },
        "paper" => paper::merge(&merge)?,
        other => return Err(usage(format!("a plan of `{other}` cannot be merged"))),
    }
    gave_up.map_or(Ok(()), |why| {
        Err(failed(format!("{why}: the report marks them")))
    })
}

impl Merge<'_> {
    /// The options and the jobs of a plan that has one command line.
    fn only_cell(&self) -> Result<(Vec<String>, Vec<Planned>), Failure> {
        let mut jobs = Vec::new();
        self.each_job(|job| {
            jobs.push(job);
            Ok(())
        })?;
        Ok((self.only_words()?, jobs))
    }

    /// The options of a plan that has one command line.
    fn only_words(&self) -> Result<Vec<String>, Failure> {
        only(self.plan.cells()?)
    }

    /// Goes through all jobs in their order.
    fn each_job(
        &self,
        mut each: impl FnMut(Planned) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.plan.each(|entry| match entry {
            Entry::Job(job) => each(*job),
            Entry::Cell(_) => Ok(()),
        })
    }

    /// What the store has of a job. One that is wrong again by now is an error, and so is one that
    /// was there when the results were counted.
    fn look(&self, job: &Planned) -> Result<Has, Failure> {
        if signals::noted().is_some() {
            return Err(stopped());
        }
        if let Some(why) = differ(self.store, job)? {
            return Err(failed(why));
        }
        let found = look(self.store, &job.id)?;
        if self.incomplete.is_none() && matches!(found, Has::Nothing | Has::Damaged(_)) {
            return Err(failed(format!(
                "the result of job {} has gone from the store meanwhile: `varve campaign work` makes it again",
                job.number
            )));
        }
        Ok(found)
    }

    /// The results by the ids of their jobs.
    fn texts(&self, jobs: &[Planned]) -> Result<BTreeMap<String, String>, Failure> {
        let mut texts = BTreeMap::new();
        for job in jobs {
            if let Has::Result(kept) = self.look(job)? {
                texts.insert(job.id.clone(), kept.text);
            }
        }
        Ok(texts)
    }
}

/// How a merge ends that a signal has ended.
pub fn stopped() -> Failure {
    let signal = signals::noted().unwrap_or_default();
    Failure::Stopped(signal, "the merge is not complete; begin it again".into())
}

fn only(mut cells: Vec<Vec<String>>) -> Result<Vec<String>, Failure> {
    match cells.len() {
        1 => Ok(cells.remove(0)),
        n => Err(usage(format!(
            "the plan has {n} command lines; it needs one"
        ))),
    }
}

/// Says that a result is none of its job's.
fn unreadable(store: &Store, job: &Planned, e: &serde_json::Error) -> Failure {
    match store.place(&job.id, Run::First) {
        Ok(path) => failed(format!(
            "{}: the result of job {}: {e}",
            path.display(),
            job.number
        )),
        Err(why) => failed(why),
    }
}
