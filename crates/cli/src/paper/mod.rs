//! `varve paper`: repeats the measurements of a publication.

mod junit;
mod table;
pub mod worker;

use crate::args::{PaperArgs, PaperName};
use crate::campaign::shelf::Shelf;
use crate::campaign::task::Task;
use crate::failure::{Failure, failed, usage};
use crate::out::{OutFolder, say};
use crate::pool;
use crate::progress::shown;
use crate::stop::{self, Stop};
use crate::worker::run_in_process;
use indicatif::{ProgressBar, ProgressStyle};
use paper::study::{self, Outcomes, Part, Work};
use paper::{Report, Section, Summary, Table, emmc, f2fsj, jftl, paper_page};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use worker::AnyJob;

/// Names the folder of recordings when `--traces` does not.
const TRACES: &str = "VARVE_TRACES";

/// What a paper is to the command line.
struct Paper<P: 'static, J: Work + 'static> {
    /// `emmc`, as it is called in the command and in `paper.json`.
    name: &'static str,
    /// What the paper is called in a sentence.
    title: &'static str,
    /// Its parts.
    parts: &'static [Part<P, J>],
    /// Its values.
    table: Table,
    /// What to run.
    plan: P,
    /// Stands in each row of a quick report.
    note: Option<&'static str>,
}

/// Where the outcomes of jobs come from.
pub enum Source<'a> {
    /// They are made here, and kept in the store, if there is one.
    Here(Option<&'a Shelf>),
    /// They are not wanted: the jobs are, for a plan.
    Plan(&'a mut Vec<Task>),
    /// Others made them. `None`: there is none; the text says why some are missing.
    Others(&'a OfOthers<'a>, Option<String>),
}

/// Looks up the result that others made of a job.
pub type OfOthers<'a> = dyn Fn(&Task) -> Result<Option<String>, Failure> + 'a;

/// Runs every job of the figures that were asked for, reports.
pub fn paper(args: &PaperArgs) -> Result<(), Failure> {
    let shelf = args.store.as_deref().map(Shelf::open).transpose()?;
    with(args, Source::Here(shelf.as_ref()))
}

/// The same, with outcomes from this source.
///
/// # Errors
/// As of [`paper`].
pub fn with(args: &PaperArgs, source: Source<'_>) -> Result<(), Failure> {
    if args.objects.is_some() && !matches!(args.paper, PaperName::F2fsj) {
        let why = "--objects: only the F2FSJ paper counts in objects; leave it out";
        return Err(usage(why));
    }
    match args.paper {
        PaperName::Emmc => {
            let plan = emmc::Plan::new(args.quick, args.seed, traces(args)?);
            make(
                args,
                source,
                &Paper {
                    name: "emmc",
                    title: "the eMMC paper",
                    parts: emmc::PARTS,
                    table: emmc::published().map_err(failed)?,
                    note: plan.quick.then_some(emmc::report::QUICK),
                    plan,
                },
            )
        }
        PaperName::Jftl => {
            no_traces(args, "JFTL")?;
            let plan = jftl::Plan::new(args.quick, args.seed);
            make(
                args,
                source,
                &Paper {
                    name: "jftl",
                    title: "the JFTL paper",
                    parts: jftl::PARTS,
                    table: jftl::published(),
                    note: plan.quick.then_some(jftl::QUICK),
                    plan,
                },
            )
        }
        PaperName::F2fsj => {
            let plan = f2fsj::Plan::new(args.quick, args.seed).with_traces(traces(args)?);
            let plan = plan.with_objects(args.objects).map_err(usage)?;
            make(
                args,
                source,
                &Paper {
                    name: "f2fsj",
                    title: "the F2FSJ paper",
                    parts: f2fsj::PARTS,
                    table: f2fsj::published(),
                    note: plan.quick.then_some(f2fsj::QUICK),
                    plan,
                },
            )
        }
    }
}

fn no_traces(args: &PaperArgs, paper: &str) -> Result<(), Failure> {
    match args.traces {
        None => Ok(()),
        Some(_) => Err(usage(format!(
            "--traces: the {paper} paper has no part that runs a recording; leave it out"
        ))),
    }
}

fn make<P, J: Work + Sync>(
    args: &PaperArgs,
    source: Source<'_>,
    paper: &Paper<P, J>,
) -> Result<(), Failure>
where
    for<'a> AnyJob: From<&'a J>,
    J::Outcome: Send,
{
    let parts = study::parts(paper.parts, &args.only).map_err(|name| {
        let (title, valid) = (paper.title, study::names(paper.parts));
        usage(format!(
            "{title} has no part `{name}` here; there is: {valid}"
        ))
    })?;
    let jobs = study::jobs(&paper.plan, &parts);
    if let Source::Plan(tasks) = source {
        tasks.extend(jobs.iter().map(|job| Task::paper(&AnyJob::from(job))));
        return Ok(());
    }
    let out = OutFolder::prepare(&args.out)?;
    let stop = Stop::watch()?;
    let (outcomes, missing) = match source {
        Source::Others(get, missing) => (of_others(get, &jobs)?, missing),
        Source::Here(shelf) => {
            let threads = pool::threads(args.jobs, jobs.len());
            (run_all(&stop, &jobs, threads, shelf)?, None)
        }
        Source::Plan(_) => return Ok(()),
    };
    let asked = parts.len();
    let parts = study::complete(&paper.plan, &parts, &outcomes);
    let part = stop.part(parts.len(), asked, "parts")?;
    let (mut made, sections) = study::report(
        paper.name,
        &paper.plan,
        (&parts, &outcomes),
        command(args, paper.name),
        paper.note,
    )
    .map_err(failed)?;
    made.incomplete = part.as_ref().map(stop::Part::mark).or(missing.clone());
    out.write("paper.json", &made.to_json())?;
    out.write("junit.xml", &junit::junit(&made)?)?;
    out.write("counts.md", &Summary::table(&made.rows))?;
    let title = format!("Varve: {}, measured again", paper.title);
    out.write("index.html", &paper_page(&title, &made, &sections))?;
    tell(args, &out, &made, &sections)?;
    if let Some(part) = part {
        return Err(part.kept_in(out.path()));
    }
    match missing {
        Some(_) => Ok(()),
        None => complete(args, &paper.table, &sections),
    }
}

/// The outcomes that others made of these jobs.
fn of_others<J: Work>(get: &OfOthers<'_>, jobs: &[J]) -> Result<Outcomes<J::Outcome>, Failure>
where
    for<'a> AnyJob: From<&'a J>,
{
    let mut outcomes = Outcomes::new();
    for job in jobs {
        if let Some(text) = get(&Task::paper(&AnyJob::from(job)))? {
            outcomes.insert(job.key(), read(&text, job)?);
        }
    }
    Ok(outcomes)
}

fn read<J: Work>(text: &str, job: &J) -> Result<J::Outcome, Failure> {
    serde_json::from_str(text).map_err(|e| failed(format!("outcome of {}: {e}", job.key())))
}

/// One job, in a worker process or from the store.
fn one<J: Work>(stop: &Stop, job: &J, shelf: Option<&Shelf>) -> Result<J::Outcome, Failure>
where
    for<'a> AnyJob: From<&'a J>,
{
    let task = Task::paper(&AnyJob::from(job));
    let text = Shelf::result(shelf, &task, || {
        run_in_process(stop, "paper-worker", &job.key(), task.text(), |_, _| {})
    })?;
    read(&text, job)
}

fn tell(
    args: &PaperArgs,
    out: &OutFolder,
    made: &Report,
    sections: &[Section],
) -> Result<(), Failure> {
    if args.json {
        return say(&made.to_json());
    }
    say(&table::text(made, sections))?;
    let page = out.path().join("index.html");
    say(&format!(
        "report: {}\nagain: {}\n",
        page.display(),
        made.command
    ))
}

/// A report of all parts has each published value once: figures and table are not to drift apart.
fn complete(args: &PaperArgs, table: &Table, sections: &[Section]) -> Result<(), Failure> {
    if !args.only.is_empty() {
        return Ok(());
    }
    let wrong = [
        (
            "published values without a row, or with two",
            study::unanswered(table, sections),
        ),
        (
            "plots that neither show a published value nor say that there is none",
            study::silent(sections),
        ),
    ];
    match wrong.into_iter().find(|(_, names)| !names.is_empty()) {
        None => Ok(()),
        Some((what, names)) => Err(failed(format!("{what}:\n{}", names.join("\n")))),
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
    let wrong = match folder.is_dir() {
        true => emmc::check_recordings(&folder).err(),
        false => Some("it is no folder".into()),
    };
    match wrong {
        None => Ok(Some(folder)),
        Some(wrong) => Err(usage(format!(
            "{by}: {}: {wrong}; without it the generators stand in for the recordings",
            folder.display()
        ))),
    }
}

/// The command line that makes the same again. A path of this machine has no place in results.
fn command(args: &PaperArgs, name: &str) -> String {
    let mut words = vec![format!("varve paper {name}")];
    if args.quick {
        words.push("--quick".into());
    }
    words.extend(args.objects.map(|n| format!("--objects {n}")));
    words.push(format!("--seed {}", args.seed));
    let recorded = args.traces.is_some() || std::env::var_os(TRACES).is_some_and(|t| !t.is_empty());
    let runs_some = matches!(args.paper, PaperName::Emmc | PaperName::F2fsj);
    if runs_some && recorded {
        words.push("--traces FOLDER".into());
    }
    if !args.only.is_empty() {
        words.push(format!("--only {}", args.only.join(",")));
    }
    words.join(" ")
}

/// Runs each job in a process of its own. Of several failures the first, in the order of the jobs,
/// is reported. After a signal outcomes are missing.
fn run_all<J: Work + Sync>(
    stop: &Stop,
    jobs: &[J],
    threads: usize,
    shelf: Option<&Shelf>,
) -> Result<Outcomes<J::Outcome>, Failure>
where
    for<'a> AnyJob: From<&'a J>,
    J::Outcome: Send,
{
    let style = ProgressStyle::with_template("[{bar:40}] {pos}/{len} runs, {eta} left")
        .expect("the template is valid")
        .progress_chars("=> ");
    let bar = shown(
        "paper",
        ProgressBar::new(jobs.len() as u64).with_style(style),
    );
    let broken = AtomicBool::new(false);
    let done = pool::each(jobs, threads, |_, job| {
        // After a failure nothing more is of use, after a signal only what is there.
        if broken.load(Ordering::Relaxed) || stop.signal().is_some() {
            return None;
        }
        let outcome = one(stop, job, shelf);
        broken.fetch_or(outcome.is_err(), Ordering::Relaxed);
        bar.inc(1);
        Some(outcome)
    });
    bar.finish_and_clear();
    let mut outcomes = Outcomes::new();
    for (job, outcome) in jobs.iter().zip(done) {
        match outcome {
            Some(Ok(outcome)) => drop(outcomes.insert(job.key(), outcome)),
            Some(Err(e)) if stop.signal().is_none() => return Err(e),
            Some(Err(_)) | None => {}
        }
    }
    Ok(outcomes)
}
