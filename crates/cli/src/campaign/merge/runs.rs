//! Merges comparisons. One comparison gives the files that `varve compare` writes; several give one
//! `results.json` with each of them as it would be, and a page that shows them together.

use super::table::{Table, keep};
use super::{Merge, unreadable};
use crate::campaign::plan::{Entry, Planned};
use crate::campaign::spec::Cell;
use crate::campaign::status::Has;
use crate::campaign::task::Task;
use crate::compare::Comparison;
use crate::failure::{Failure, failed, tell};
use crate::out::say;
use crate::worker::{self, Checked, Done};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use report::results::{Results, SCHEMA};
use report::sweep::Sweep;
use serde_json::{Value, json};
use std::io::{BufWriter, Write};
use tempfile::NamedTempFile;

/// Test cases of each kind, good and failed, in `junit.xml`, which is made in memory; of more, the
/// table has all.
const CASES_MAX: usize = 100_000;

/// The first columns of the table.
const FIRST: &[&str] = &[
    "job",
    "state",
    "seed",
    "workload",
    "device.profile",
    "timing",
    "size_mib",
    "scheduler",
    "fs",
    "scheme",
    "ops",
    "ops_per_s",
];

/// Merges.
pub fn merge(merge: &Merge<'_>) -> Result<(), Failure> {
    let folder = merge.out.path();
    let mut all = All {
        merge,
        text: BufWriter::new(NamedTempFile::new_in(folder).map_err(unwritten)?),
        table: Table::begin(folder, FIRST)?,
        junit: TestSuite::new("runs"),
        test_cases: [0; 2],
        sweep: Sweep::default(),
        cells: 0,
        single: None,
        faults: 0,
    };
    let mut cell: Option<(Vec<String>, Vec<Planned>)> = None;
    merge.plan.each(|entry| {
        match entry {
            Entry::Cell(words) => {
                if let Some((words, jobs)) = cell.replace((words, Vec::new())) {
                    all.comparison(&words, &jobs)?;
                }
            }
            Entry::Job(job) => cell
                .as_mut()
                .ok_or_else(|| failed("the plan has a job without a command line"))?
                .1
                .push(*job),
        }
        Ok(())
    })?;
    if let Some((words, jobs)) = cell {
        all.comparison(&words, &jobs)?;
    }
    all.end()
}

fn unwritten(e: std::io::Error) -> Failure {
    failed(format!("results.json: {e}"))
}

/// What grows with each comparison; only the page and the cases of JUnit stay in memory.
struct All<'a> {
    merge: &'a Merge<'a>,
    text: BufWriter<NamedTempFile>,
    table: Table,
    junit: TestSuite,
    /// Good and failed test cases in it.
    test_cases: [usize; 2],
    sweep: Sweep,
    cells: u64,
    /// The comparison, if there was only one so far.
    single: Option<Results>,
    /// Runs that a checker found fault with.
    faults: u64,
}

impl All<'_> {
    fn comparison(&mut self, words: &[String], jobs: &[Planned]) -> Result<(), Failure> {
        let Cell::Compare(args) = Cell::of("compare", words)? else {
            return Err(failed("the plan has a command line of another command"));
        };
        let comparison = Comparison::of(&args)?;
        let build = &self.merge.plan.head.build;
        let mut runs = Vec::new();
        let asked: Vec<worker::Job> = comparison.jobs().collect();
        if asked.len() != jobs.len() {
            return Err(failed(format!(
                "`compare {}` asks for other jobs than the plan has",
                words.join(" ")
            )));
        }
        for (asked, job) in asked.iter().zip(jobs) {
            if Task::compare(asked).id(build, &job.inputs)? != job.id {
                return Err(failed(format!(
                    "job {} is not what its command line asks for",
                    job.number
                )));
            }
            runs.extend(self.job(asked, job)?.map(|done| done.run));
        }
        let results = comparison.results(runs, self.merge.incomplete.clone());
        let begin = match self.cells {
            0 => format!("{{\"schema\": {SCHEMA}, \"command\": \"campaign\", \"comparisons\": [\n"),
            _ => ",\n".into(),
        };
        self.cells += 1;
        let text = results.to_json();
        let written = self.text.write_all(begin.as_bytes());
        written
            .and_then(|()| self.text.write_all(text.trim_end().as_bytes()))
            .map_err(unwritten)?;
        self.sweep.add(&results);
        self.single = (self.cells == 1).then_some(results);
        Ok(())
    }

    /// Adds the row and the test case of a job.
    fn job(&mut self, asked: &worker::Job, job: &Planned) -> Result<Option<Done>, Failure> {
        let (done, state, why) = match self.merge.look(job)? {
            Has::Result(kept) => {
                let done: Result<Done, _> = serde_json::from_str(&kept.text);
                let done = done.map_err(|e| unreadable(self.merge.store, job, &e))?;
                let fault = match &done.checked {
                    Checked::Findings(words) => {
                        Some(format!("{} finds fault: {words}", done.checker))
                    }
                    Checked::Clean | Checked::NotInstalled => None,
                };
                (Some(done), "done", fault)
            }
            Has::GivenUp(why) => (None, "gave up", Some(why)),
            Has::Nothing | Has::Damaged(_) => (None, "missing", Some("no result".into())),
        };
        let config = &asked.config;
        let mut row = json!({
            "job": job.number,
            "id": job.id,
            "state": state,
            "seed": config.seed,
            "size_mib": config.stack.bytes >> 20,
            "scheduler": config.stack.scheduler.map(|s| s.word().to_string()),
            "fs": config.stack.fs.to_string(),
            "scheme": config.stack.scheme_text(),
            "workload": config.workload,
            "device": {"profile": config.stack.device},
        });
        if let Some(done) = &done {
            let run = serde_json::to_value(&done.run).expect("plain data serialises");
            if let (Value::Object(row), Value::Object(run)) = (&mut row, run) {
                row.extend(run);
            }
            if let Some(why) = &why {
                tell(format!("job {} ({}): {why}", job.number, job.task.name()));
                self.faults += 1;
            }
        }
        self.table.add(&row)?;
        let kind = &mut self.test_cases[usize::from(why.is_some())];
        if *kind < CASES_MAX {
            *kind += 1;
            self.junit.add_test_case(test_case(job, why));
        }
        Ok(done)
    }

    fn end(self) -> Result<(), Failure> {
        let out = self.merge.out;
        let (mut text, folder) = (self.text, out.path());
        let end = if self.cells == 0 { "{}\n" } else { "\n]}\n" };
        text.write_all(end.as_bytes()).map_err(unwritten)?;
        let text = text.into_inner().map_err(|e| unwritten(e.into_error()))?;
        // The tables are the largest, so they are what a disk has no room for.
        let rows = self.table.end(folder, "runs")?;
        match &self.single {
            Some(results) => {
                out.write("results.json", &results.to_json())?;
                out.write("index.html", &report::page(results))?;
            }
            None => {
                keep(text, &folder.join("results.json"))?;
                out.write("index.html", &self.sweep.page())?;
            }
        }
        let mut junit = Report::new("varve campaign");
        junit.add_test_suite(self.junit);
        out.write("junit.xml", &junit.to_string().map_err(failed)?)?;
        say(&format!(
            "{} comparisons, {rows} runs\nresults.json, index.html, junit.xml, runs.parquet and runs.csv: {}\n",
            self.cells,
            folder.display()
        ))?;
        match self.faults {
            0 => Ok(()),
            n => Err(failed(format!("a checker finds fault with {n} images"))),
        }
    }
}

fn test_case(job: &Planned, why: Option<String>) -> TestCase {
    let status = match why {
        None => TestCaseStatus::success(),
        Some(why) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(why);
            status
        }
    };
    let mut case = TestCase::new(format!("{:07} {}", job.number, job.task.name()), status);
    case.set_classname("campaign.compare");
    case
}
