//! Merges a `crash`: its own report, made of the stored results in the order of its jobs, and a
//! table of its cases.

use super::table::Table;
use super::{Merge, unreadable};
use crate::campaign::plan::Planned;
use crate::campaign::spec::Cell;
use crate::campaign::status::Has;
use crate::campaign::task::Task;
use crate::crash::{self, pool::End};
use crate::failure::{Failure, failed};
use crate::out::say;
use crate::stop::Stop;
use ::crash::campaign::Explored;
use ::crash::finding::report::CaseReport;
use ::crash::plan::Job;
use serde_json::{Value, json};

/// The first columns of the table.
const FIRST: &[&str] = &[
    "job", "state", "group", "scheme", "device", "class", "workload", "seed", "control",
];

/// Merges.
pub fn merge(merge: &Merge<'_>) -> Result<(), Failure> {
    let (words, planned) = merge.only_cell()?;
    let Cell::Crash(mut args) = Cell::of("crash", &words)? else {
        return Err(failed("the plan has a command line of another command"));
    };
    args.out = merge.out.path().into();
    let jobs = crash::planned(&args)?;
    if jobs.len() != planned.len() {
        return Err(failed(
            "the command line asks for other jobs than the plan has",
        ));
    }
    let mut table = Table::begin(merge.out.path(), FIRST)?;
    let mut ends = Vec::new();
    for (job, planned) in jobs.iter().zip(&planned) {
        if Task::crash(job).id(&merge.plan.head.build, &planned.inputs)? != planned.id {
            let number = planned.number;
            return Err(failed(format!(
                "job {number} is not what the command line asks for"
            )));
        }
        let (end, state) = end(merge, planned)?;
        table.add(&row(job, planned, &end, state))?;
        ends.push(end);
    }
    let rows = table.end(merge.out.path(), "cases")?;
    let stop = Stop::default();
    let reported = crash::report(
        &args,
        merge.out,
        jobs,
        ends,
        &stop,
        merge.incomplete.clone(),
    );
    say(&format!("{rows} rows: cases.parquet and cases.csv\n"))?;
    reported
}

fn end(merge: &Merge<'_>, job: &Planned) -> Result<(End, &'static str), Failure> {
    Ok(match merge.look(job)? {
        Has::Result(kept) => {
            let explored = serde_json::from_str(&kept.text);
            let explored = explored.map_err(|e| unreadable(merge.store, job, &e))?;
            (End::Done(explored), "done")
        }
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
