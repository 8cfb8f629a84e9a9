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
use ::crash::joined::joined;
use ::crash::part::Part;
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
    each_case(merge, &mut asked, |job, parts| {
        let (end, state) = end(merge, parts)?;
        table.add(&row(job, &parts[0], &end, state))?;
        reporter.add(job, &end);
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
    each_case(merge, asked, |job, parts| {
        for (index, planned) in parts.iter().enumerate() {
            let part = planned.task.part().map(|part| Part {
                index: index as u32,
                count: part.count,
            });
            let job = Job {
                part,
                ..job.clone()
            };
            let id = Task::crash(&job).id(&merge.plan.head.build, &planned.inputs)?;
            if id != planned.id {
                let number = planned.number;
                return Err(failed(format!(
                    "job {number} is not what the command line asks for"
                )));
            }
        }
        if let (End::Done(explored), _) = end(merge, parts)? {
            choice.look(job, &explored);
        }
        Ok(())
    })?;
    Ok(choice)
}

/// Goes through all cases in their order, each with the jobs of the plan that are its parts.
fn each_case(
    merge: &Merge<'_>,
    asked: &mut dyn Iterator<Item = Job>,
    mut each: impl FnMut(&Job, &[Planned]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut parts = Vec::new();
    merge.each_job(|planned| {
        let count = planned.task.part().map_or(1, |part| part.count as usize);
        parts.push(planned);
        if parts.len() < count {
            return Ok(());
        }
        let job = asked.next().ok_or_else(other_jobs)?;
        each(&job, &std::mem::take(&mut parts))
    })?;
    match (asked.next(), parts.is_empty()) {
        (None, true) => Ok(()),
        _ => Err(other_jobs()),
    }
}

fn other_jobs() -> Failure {
    failed("the command line asks for other jobs than the plan has")
}

fn explored(merge: &Merge<'_>, job: &Planned, text: &str) -> Result<Explored, Failure> {
    let explored = serde_json::from_str(text);
    explored.map_err(|e| unreadable(merge.store, job, &e))
}

/// How a case ended, whose parts these are.
fn end(merge: &Merge<'_>, parts: &[Planned]) -> Result<(End, &'static str), Failure> {
    let (mut found, mut gave_up) = (Vec::new(), None);
    for job in parts {
        match merge.look(job)? {
            Has::Result(kept) => found.push(explored(merge, job, &kept.text)?),
            Has::GivenUp(why) => gave_up = gave_up.or(Some(format!("gave up: {why}"))),
            Has::Nothing | Has::Damaged(_) => {}
        }
    }
    if let Some(why) = gave_up {
        return Ok((End::Lost { state: None, why }, "gave up"));
    }
    if found.len() < parts.len() {
        return Ok((End::Stopped, "missing"));
    }
    let number = parts.first().map_or(0, |job| job.number);
    let whole = joined(found).map_err(|why| failed(format!("job {number}: {why}")))?;
    Ok((End::Done(Box::new(whole)), "done"))
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
