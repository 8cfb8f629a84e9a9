//! `varve paper`: a publication measured again.

mod table;
pub mod worker;

use crate::args::{PaperArgs, PaperName};
use crate::failure::{Failure, failed, usage};
use crate::out::{OutFolder, say};
use crate::pool;
use indicatif::{ProgressBar, ProgressStyle};
use lab::paper::Section;
use lab::paper::emmc::job::{Job, Outcomes};
use lab::paper::emmc::{Plan, report};
use lab::report::paper_page;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names the folder of recordings when `--traces` does not.
const TRACES: &str = "VARVE_TRACES";

/// Runs every job of the figures that were asked for, reports.
pub fn paper(args: &PaperArgs) -> Result<(), Failure> {
    let PaperName::Emmc = args.paper;
    let parts = report::parts(&args.only).map_err(|name| {
        let valid = report::names();
        usage(format!(
            "the eMMC paper has no part `{name}` here; there is: {valid}"
        ))
    })?;
    let plan = Plan::new(args.quick, args.seed, traces(args)?);
    let out = OutFolder::prepare(&args.out)?;
    let jobs = report::jobs(&plan, &parts);
    let outcomes = run_all(&jobs, pool::threads(args.jobs, jobs.len()))?;
    let (made, sections) =
        report::report(&plan, &parts, &outcomes, command(args, &plan)).map_err(failed)?;
    out.write("paper.json", &made.to_json())?;
    let title = "Varve: the eMMC paper, measured again";
    out.write("index.html", &paper_page(title, &made, &sections))?;
    if args.json {
        say(&made.to_json())?;
        return complete(args, &sections);
    }
    say(&table::text(&made, &sections))?;
    let page = out.path().join("index.html");
    say(&format!(
        "report: {}\nagain: {}\n",
        page.display(),
        made.command
    ))?;
    complete(args, &sections)
}

/// A report of all parts has each published value once: figures and table are not to drift apart.
fn complete(args: &PaperArgs, sections: &[Section]) -> Result<(), Failure> {
    if !args.only.is_empty() {
        return Ok(());
    }
    let wrong = report::unanswered(sections).map_err(failed)?;
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(failed(format!(
            "published values without a row, or with two:\n{}",
            wrong.join("\n")
        ))),
    }
}

/// The folder of recordings. One that was named has to be there.
fn traces(args: &PaperArgs) -> Result<Option<PathBuf>, Failure> {
    let (folder, by) = match &args.traces {
        Some(folder) => (folder.clone(), "--traces"),
        None => match std::env::var_os(TRACES).filter(|text| !text.is_empty()) {
            Some(folder) => (folder.into(), TRACES),
            None => return Ok(None),
        },
    };
    match folder.is_dir() {
        true => Ok(Some(folder)),
        false => Err(usage(format!(
            "{by}: {} is no folder; without one the generators stand in for the recordings",
            folder.display()
        ))),
    }
}

/// The command line that makes the same again. A path of this machine has no place in results.
fn command(args: &PaperArgs, plan: &Plan) -> String {
    let mut words = vec!["varve paper emmc".to_string()];
    if args.quick {
        words.push("--quick".into());
    }
    words.push(format!("--seed {}", args.seed));
    if plan.traces.is_some() {
        words.push("--traces FOLDER".into());
    }
    if !args.only.is_empty() {
        words.push(format!("--only {}", args.only.join(",")));
    }
    words.join(" ")
}

/// Each job in a process of its own. The first failure, in the order of the jobs, is the one that is told.
fn run_all(jobs: &[Job], threads: usize) -> Result<Outcomes, Failure> {
    let style = ProgressStyle::with_template("[{bar:40}] {pos}/{len} runs, {eta} left")
        .expect("the template is valid")
        .progress_chars("=> ");
    let bar = ProgressBar::new(jobs.len() as u64).with_style(style);
    let broken = AtomicBool::new(false);
    let done = pool::each(jobs, threads, |_, job| {
        // After a failure nothing more is of use.
        if broken.load(Ordering::Relaxed) {
            return None;
        }
        let outcome = worker::run_in_process(job);
        broken.fetch_or(outcome.is_err(), Ordering::Relaxed);
        bar.inc(1);
        Some(outcome)
    });
    bar.finish_and_clear();
    let mut outcomes = Outcomes::new();
    for (job, outcome) in jobs.iter().zip(done) {
        if let Some(outcome) = outcome {
            outcomes.insert(job.key(), outcome?);
        }
    }
    Ok(outcomes)
}
