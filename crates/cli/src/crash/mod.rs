//! `varve crash`: campaigns of power cuts, in worker processes.

mod dir;
mod keep;
mod kernel;
pub mod pool;
mod program;
mod repro;
mod shell;
mod table;
pub mod worker;

use crate::args::CrashArgs;
use crate::campaign::shelf::Shelf;
use crate::compare::ungrouped;
use crate::failure::{Failure, failed, usage};
use crate::out::{OutFolder, say};
use crate::progress::shown;
use crate::stop::{Part, Stop};
use crash::case::Volumes;
use crash::finding::keep::Gone;
use crash::plan::{self, Counts, Done, Job, Request};
use indicatif::{ProgressBar, ProgressStyle};
use pool::{End, Program};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Guards can be left out in no build that people use.
const MUTANTS: &str = "this build holds no switch that leaves out a guard; `cargo xtask mutants`, in the source tree, makes one that \
                       does, removes every guard once, and says by what each was missed and after how many states";

pub use dir::ack;

/// Explores, reports, and fails if a promise was broken.
pub fn crash(args: &CrashArgs) -> Result<(), Failure> {
    if let Some(line) = &args.repro {
        return repro::repro(line);
    }
    if args.mutants {
        return Err(usage(MUTANTS));
    }
    if args.program.dir.is_some() {
        return dir::dir(args);
    }
    if let Some(engine) = args.kernel.kernel {
        return kernel::kernel(args, engine);
    }
    if let Some(image) = &args.image {
        if args.judge.len() > 1 {
            return Err(usage("--image takes one --judge"));
        }
        return program::program(args, image);
    }
    let jobs = planned(args)?;
    let out = OutFolder::prepare(&args.out)?;
    let jobs = args.shard.map_or(jobs.clone(), |shard| shard.of(jobs));
    let workers = crate::pool::threads(args.jobs, jobs.len());
    let bar = bar(jobs.len());
    let (states, bad) = (AtomicU64::new(0), AtomicU64::new(0));
    let patience = Duration::from_secs(args.timeout);
    let shelf = args.store.as_deref().map(Shelf::open).transpose()?;
    let stop = Stop::watch()?;
    let ends = pool::run(
        &stop,
        &Program::this()?,
        &jobs,
        workers,
        patience,
        shelf.as_ref(),
        &|_, end| {
            if let End::Done(explored) = end {
                states.fetch_add(explored.judged, Ordering::Relaxed);
                bad.fetch_add(explored.violations, Ordering::Relaxed);
            }
            let (states, bad) = (states.load(Ordering::Relaxed), bad.load(Ordering::Relaxed));
            bar.set_message(format!("{states} states, {bad} bad"));
            bar.inc(1);
        },
    )?;
    bar.finish_and_clear();
    report(args, &out, jobs, ends, &stop, None)
}

/// The jobs that were asked for, each checked.
///
/// # Errors
/// A scheme, device or workload that does not exist.
pub fn planned(args: &CrashArgs) -> Result<Vec<Job>, Failure> {
    let schedulers = args.scheduler.iter().map(|text| text.parse());
    let schedulers: Vec<_> = schedulers.collect::<Result<_, _>>().map_err(usage)?;
    let jobs = plan::under(&schedulers, jobs(args)?);
    check(&jobs)?;
    Ok(jobs)
}

/// The jobs that were asked for.
fn jobs(args: &CrashArgs) -> Result<Vec<Job>, Failure> {
    let schemes = match &args.schemes[..] {
        [] => {
            let f2fs = plan::F2FS.iter().filter(|_| args.quick);
            let all = plan::PRESETS.iter().chain([&plan::CONTROL]).chain(f2fs);
            all.map(|s| (*s).to_string()).collect()
        }
        given => ungrouped(given),
    };
    if args.quick {
        return plan::quick(&schemes).map_err(usage);
    }
    let request = Request {
        schemes,
        devices: args.device.clone(),
        workloads: args.workload.clone(),
        seeds: args.seed.clone(),
        reach: args.reach(),
    };
    request.jobs().map_err(usage)
}

/// Each scheme, device and workload once, before anything runs.
fn check(jobs: &[Job]) -> Result<(), Failure> {
    let mut volumes = Volumes::default();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for job in jobs {
        let key = (job.case.scheme.as_str(), job.case.device.as_str());
        if !seen.contains(&key) {
            seen.push(key);
            job.case.setup(&mut volumes).map_err(usage)?;
        }
    }
    Ok(())
}

fn bar(jobs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("[{bar:40}] {pos}/{len} cases, {msg}, {eta} left")
        .expect("the template is valid")
        .progress_chars("=> ");
    shown("crash", ProgressBar::new(jobs as u64).with_style(style))
}

/// Writes and prints the report of these ends, in the order of the jobs. `incomplete` says why
/// some are missing, if not a signal did it.
///
/// # Errors
/// What was found is a failure, or the report cannot be written.
pub fn report(
    args: &CrashArgs,
    out: &OutFolder,
    jobs: Vec<Job>,
    ends: Vec<End>,
    stop: &Stop,
    incomplete: Option<String>,
) -> Result<(), Failure> {
    let all = jobs.len();
    let mut done = Vec::new();
    let mut lost = Vec::new();
    for (job, end) in jobs.into_iter().zip(ends) {
        match end {
            End::Done(explored) => done.push(Done {
                job,
                explored: *explored,
            }),
            End::Failed(_) if stop.signal().is_some() => {}
            End::Failed(why) => return Err(failed(format!("{}: {why}", job.case))),
            End::Stopped => {}
            End::Lost { state, why } => lost.push(Gone { job, state, why }),
        }
    }
    let part = stop.part(done.len() + lost.len(), all, "cases")?;
    let incomplete = part.as_ref().map(Part::mark).or(incomplete);
    let kept = keep::keep(args, out, &done, &lost, incomplete);
    let stopped = part.map(|part| part.kept_in(out.path()));
    if args.json {
        say(&kept.report.to_json())?;
        if let Some(stopped) = stopped {
            return Err(stopped);
        }
        return match kept.report.is_clean() {
            true => Ok(()),
            false => Err(failed("a promise was broken, or a worker is gone")),
        };
    }
    say(&format!("{}\n", table::side_by_side(&done)))?;
    for Gone { job, state, why } in &lost {
        let state = state.as_deref().unwrap_or("the run itself");
        say(&format!(
            "{}: state {state}: the worker is gone: {why}\n",
            job.case
        ))?;
    }
    keep::tell(&kept, out)?;
    if let Some(stopped) = stopped {
        return Err(stopped);
    }
    verdict(&done, &lost)
}

/// Workloads and devices whose positive control shows no damage.
fn blind(done: &[Done]) -> Vec<String> {
    let mut damage: BTreeMap<String, u64> = BTreeMap::new();
    for Done { job, explored } in done.iter().filter(|d| d.job.control) {
        let place = format!("{} on {}", job.group, table::device(&job.case));
        *damage.entry(place).or_default() += explored.violations;
    }
    let none = damage
        .into_iter()
        .filter(|(_, violations)| *violations == 0);
    none.map(|(place, _)| place).collect()
}

/// What was found, in a sentence, and whether that is a failure.
fn verdict(done: &[Done], lost: &[Gone]) -> Result<(), Failure> {
    let (mut counts, mut control) = (Counts::default(), Counts::default());
    for d in done {
        let into = if d.job.control {
            &mut control
        } else {
            &mut counts
        };
        into.add(&d.explored);
    }
    say(&format!(
        "{} cases, {} cuts: {} states named by the bound, {} equal to another, {} pruned, {} beyond the bound, {} judged\n",
        counts.cases,
        counts.points,
        counts.enumerated,
        counts.deduplicated,
        counts.pruned,
        counts.beyond,
        counts.judged
    ))?;
    let mut wrong = Vec::new();
    if counts.violations > 0 {
        wrong.push(format!("{} states violate a promise", counts.violations));
    }
    if counts.failures + control.failures > 0 {
        wrong.push(format!(
            "{} runs failed",
            counts.failures + control.failures
        ));
    }
    if !lost.is_empty() {
        wrong.push(format!("{} workers hung or died", lost.len()));
    }
    if control.cases > 0 {
        say(&format!(
            "positive control `none`: {} of {} states show damage\n",
            control.violations, control.judged
        ))?;
        for blind in blind(done) {
            wrong.push(format!(
                "the positive control shows no damage in {blind}: the explorer is blind"
            ));
        }
    }
    match wrong.is_empty() {
        true => say("no promise was broken\n"),
        false => Err(failed(wrong.join("; "))),
    }
}
