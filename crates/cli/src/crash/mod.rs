//! `varve crash`: campaigns of power cuts, in worker processes.

pub mod dir;
mod keep;
mod kernel;
pub mod pool;
mod program;
pub mod report;
mod repro;
mod shell;
mod table;
pub mod worker;

use crate::args::CrashArgs;
use crate::campaign::shelf::Shelf;
use crate::compare::ungrouped;
use crate::failure::{Failure, usage};
use crate::out::OutFolder;
use crate::progress::shown;
use crate::stop::Stop;
use crash::case::Volumes;
use crash::plan::{self, Job, Jobs, Request};
use indicatif::{ProgressBar, ProgressStyle};
use pool::{End, Program};
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
    let mine = |job: &Job| args.shard.is_none_or(|shard| shard.has(job));
    let jobs: Vec<Job> = jobs.iter().filter(mine).collect();
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
    report::report(args, &out, jobs, ends, &stop)
}

/// The jobs that were asked for, each checked.
///
/// # Errors
/// A scheme, device or workload that does not exist.
pub fn planned(args: &CrashArgs) -> Result<Jobs, Failure> {
    let schedulers = args.scheduler.iter().map(|text| text.parse());
    let schedulers: Vec<_> = schedulers.collect::<Result<_, _>>().map_err(usage)?;
    let jobs = jobs(args)?.under(&schedulers);
    check(&jobs)?;
    Ok(jobs)
}

/// The jobs that were asked for.
fn jobs(args: &CrashArgs) -> Result<Jobs, Failure> {
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
fn check(jobs: &Jobs) -> Result<(), Failure> {
    let mut volumes = Volumes::default();
    let mut seen: Vec<(String, String)> = Vec::new();
    for job in jobs.iter() {
        let (scheme, device) = (&job.case.scheme, &job.case.device);
        if !seen.iter().any(|(s, d)| s == scheme && d == device) {
            job.case.setup(&mut volumes).map_err(usage)?;
            seen.push((job.case.scheme, job.case.device));
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
