//! Merges a `crash`: its own report, made of the stored results in the order of its jobs, and a
//! table of its cases. One job after the other is read and written, so memory does not grow with
//! their number.

use super::table::Table;
use super::{Merge, unreadable};
use crate::args::CrashArgs;
use crate::campaign::plan::Planned;
use crate::campaign::status::Has;
use crate::campaign::task::Task;
use crate::crash::report::{self, Reporter};
use crate::crash::{self, pool::End};
use crate::failure::{Failure, failed};
use crate::out::say;
use ::crash::campaign::Explored;
use ::crash::finding::folder::Folder;
use ::crash::finding::keep::Choice;
use ::crash::finding::report::CaseReport;
use ::crash::plan::Job;
use serde_json::{Value, json};

/// The first columns of the table.
const FIRST: &[&str] = &[
    "job", "state", "group", "scheme", "device", "class", "workload", "seed", "control",
];

/// Merges. The plan is gone through twice: which findings get folders is known only when all were
/// seen, and nothing may be written for a plan that its command line does not ask for.
pub fn merge(merge: &Merge<'_>, args: &mut CrashArgs) -> Result<(), Failure> {
    args.out = merge.out.path().into();
    let asked = crash::planned(args)?;
    let choice = checked(merge, &mut asked.iter())?;
    let mut asked = asked.iter();
    let mut store = Folder(merge.out.path());
    let mut reporter = Reporter::begin(args, choice, merge.incomplete.clone(), &mut store);
    let mut table = Table::begin(merge.out.path(), FIRST)?;
    merge.each_job(|planned| {
        let job = asked.next().ok_or_else(other_jobs)?;
        let (end, state) = end(merge, &planned)?;
        table.add(&row(&job, &planned, &end, state))?;
        reporter.add(&job, &end);
        Ok(())
    })?;
    let rows = table.end(merge.out.path(), "cases")?;
    let reported = reporter.end(merge.out, None);
    say(&format!("{rows} rows: cases.parquet and cases.csv\n"))?;
    reported
}

/// Reads every job and every result, and demands that the plan has the jobs of its command line:
/// which findings get folders.
fn checked(merge: &Merge<'_>, asked: &mut dyn Iterator<Item = Job>) -> Result<Choice, Failure> {
    let mut choice = report::choice();
    merge.each_job(|planned| {
        let job = asked.next().ok_or_else(other_jobs)?;
        if Task::crash(&job).id(&merge.plan.head.build, &planned.inputs)? != planned.id {
            let number = planned.number;
            return Err(failed(format!(
                "job {number} is not what the command line asks for"
            )));
        }
        if let Has::Result(kept) = merge.look(&planned)? {
            let explored: Box<Explored> = explored(merge, &planned, &kept.text)?;
            choice.look(&job, &explored);
        }
        Ok(())
    })?;
    match asked.next() {
        None => Ok(choice),
        Some(_) => Err(other_jobs()),
    }
}

fn other_jobs() -> Failure {
    failed("the command line asks for other jobs than the plan has")
}

fn explored(merge: &Merge<'_>, job: &Planned, text: &str) -> Result<Box<Explored>, Failure> {
    let explored = serde_json::from_str(text);
    explored.map_err(|e| unreadable(merge.store, job, &e))
}

fn end(merge: &Merge<'_>, job: &Planned) -> Result<(End, &'static str), Failure> {
    Ok(match merge.look(job)? {
        Has::Result(kept) => (End::Done(explored(merge, job, &kept.text)?), "done"),
        Has::GivenUp(why) => {
            let why = format!("gave up: {why}");
            (End::Lost { state: None, why }, "gave up")
        }
        Has::Nothing | Has::Damaged(_) => (End::Stopped, "missing"),
    })
}

fn row(job: &Job, planned: &Planned, end: &End, state: &str) -> Value {
    let none = Explored::default();
    let explored = match end {
        End::Done(explored) => explored,
        _ => &none,
    };
    let case = CaseReport::new(job, explored);
    let mut row = json!({
        "job": planned.number,
        "id": planned.id,
        "state": state,
        "group": job.group,
        "scheme": case.scheme,
        "device": case.device,
        "class": case.class,
        "workload": case.workload,
        "seed": case.seed,
        "control": job.control,
        "scheduler": case.scheduler,
    });
    if state == "done" {
        row["counts"] = serde_json::to_value(case.counts).expect("plain data serialises");
        row["loss"] = serde_json::to_value(explored.loss()).expect("plain data serialises");
        row["failure"] = explored.failure.clone().into();
    }
    row
}
