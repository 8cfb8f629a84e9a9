//! `varve campaign work`: makes the results that are missing, then runs some jobs a second time.
//!
//! A lost worker leaves nothing but a missing result, and the next `work` makes it. A run that
//! gives no result is noted; after [`ATTEMPTS`] of them the job is given up until `--retry`.

use super::gate::{Gate, Twice};
use super::hands::{Hands, Ran};
use super::plan::{Entry, Plan, Planned};
use super::shelf::Shelf;
use super::store::{Attempt, Id, Run};
use crate::args::WorkArgs;
use crate::failure::{Failure, failed, tell};
use crate::out::{say, say_json};
use crate::pool;
use crate::progress::shown;
use crate::stop::Stop;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs without a result after which a job is given up.
pub const ATTEMPTS: usize = 3;

/// How often is looked whether results have waited long enough to be written.
const LOOK: Duration = Duration::from_millis(50);

/// How a job ended here.
enum Ended {
    Made,
    WasThere,
    GaveUp,
    Stopped,
}

/// Works on the jobs of a plan.
pub fn work(args: &WorkArgs) -> Result<(), Failure> {
    let plan = Plan::open(&args.plan)?;
    let shelf = Shelf::open(&args.store)?;
    plan.of_this_build(&shelf.build)?;
    let mut gate = Gate::default();
    let (mut mine, mut ids) = (Vec::new(), BTreeSet::new());
    plan.each(|entry| {
        if let Entry::Job(job) = entry {
            gate.note(&job);
            // What a plan names twice, as a case of two groups, is one job.
            if is_mine(args, job.number) && ids.insert(Id::of(&job.id)) {
                mine.push(*job);
            }
        }
        Ok(())
    })?;
    plan.supply(&shelf.store)?;
    for job in &mut mine {
        job.inputs.retain(|input| !plan.has(input));
    }
    if mine.is_empty() {
        return match args.json {
            true => say_counts(&Counts::default()),
            false => say("no job of the plan is in this part: nothing to do\n"),
        };
    }
    if args.retry {
        let attempted = shelf.store.attempted().map_err(failed)?;
        for job in mine.iter().filter(|job| attempted.contains(&job.id)) {
            shelf.store.forgive(&job.id).map_err(failed)?;
        }
    }
    let stop = Stop::watch()?;
    let bench = Bench {
        args,
        shelf: &shelf,
        stop: &stop,
    };
    let ended = bench.first_runs(&mine);
    let settled = shelf.settle();
    let ended = ended?;
    settled?;
    let twice = match stop.signal() {
        None => gate.second_runs(&bench, &mine)?,
        Some(_) => Twice::default(),
    };
    shelf.settle()?;
    tell_all(args, &stop, mine.len(), &ended, &twice)
}

fn is_mine(args: &WorkArgs, number: u64) -> bool {
    let job = args.job.map(|n| u64::from(n.get()));
    let share =
        |share: crate::args::Shard| (number - 1) % share.count as u64 == share.index as u64 - 1;
    job.is_none_or(|job| job == number)
        && args.jobs.as_ref().is_none_or(|jobs| jobs.contains(&number))
        && args.share.is_none_or(share)
}

/// What the jobs of a `work` share.
pub struct Bench<'a> {
    /// The command line.
    pub args: &'a WorkArgs,
    /// The store.
    pub shelf: &'a Shelf,
    /// Signals.
    pub stop: &'a Stop,
}

impl<'a> Bench<'a> {
    /// Runs these jobs on all hands. The answers are in the order of the jobs.
    ///
    /// # Errors
    /// The first failure that is not of a job.
    pub fn all<R: Send>(
        &self,
        what: &str,
        jobs: &[&Planned],
        one: impl Fn(&mut Hands<'a>, &Planned) -> Result<R, Failure> + Sync,
    ) -> Result<Vec<R>, Failure> {
        let style = format!("[{{bar:40}}] {{pos}}/{{len}} {what}, {{eta}} left");
        let style = ProgressStyle::with_template(&style).expect("the template is valid");
        let bar = ProgressBar::new(jobs.len() as u64).with_style(style.progress_chars("=> "));
        let bar = shown("campaign", bar);
        // After a failure of the host nothing more is of use.
        let broken = AtomicUsize::new(0);
        let patience = Duration::from_secs(self.args.timeout);
        let threads = pool::threads(self.args.workers, jobs.len());
        let done = pool::ordered(
            jobs,
            threads,
            || Hands::new(self.stop, patience),
            |hands, _, job| {
                if broken.load(Ordering::Relaxed) > 0 {
                    return Err(Failure::Told);
                }
                let done = one(hands, job);
                if let Err(why) = &done
                    && broken.fetch_add(1, Ordering::Relaxed) == 0
                {
                    tell(why);
                }
                bar.inc(1);
                done.map_err(|_| Failure::Told)
            },
            |mut hands| hands.let_go(),
        );
        bar.finish_and_clear();
        done
    }

    fn first_runs(&self, mine: &[Planned]) -> Result<Vec<Ended>, Failure> {
        let there = self.shelf.store.present(Run::First).map_err(failed)?;
        let whole = |job: &Planned| {
            let kept =
                there.contains(&Id::of(&job.id)) && self.shelf.get(&job.id, Run::First)?.is_some();
            Ok::<_, Failure>(kept)
        };
        let mut missing = Vec::new();
        for job in mine {
            if !whole(job)? {
                missing.push(job);
            }
        }
        let missing = own_order(&self.shelf.worker, &missing);
        let mut ended: Vec<Ended> = Vec::new();
        ended.resize_with(mine.len() - missing.len(), || Ended::WasThere);
        let attempted = self.shelf.store.attempted().map_err(failed)?;
        let one = |hands: &mut Hands<'a>, job: &Planned| {
            self.first_run(hands, job, attempted.contains(&job.id))
        };
        ended.extend(self.writing(|| self.all("jobs", &missing, one))?);
        Ok(ended)
    }

    /// Does something, while results that have waited long enough are written: the next job may
    /// take minutes, and a worker that is killed meanwhile loses what is not written.
    fn writing<R>(&self, doing: impl FnOnce() -> R) -> R {
        /// Ends the thread also where a panic goes by.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _over = Over(&over);
            // Without the thread, results are written when the next one is put.
            let _ = thread::Builder::new().spawn_scoped(scope, || {
                while !over.load(Ordering::Relaxed) {
                    // Who puts the next result meets the same error.
                    let _ = self.shelf.store.write_due();
                    thread::sleep(LOOK);
                }
            });
            doing()
        })
    }

    /// `attempted`: there may be attempts of others; to look for them takes time.
    fn first_run(
        &self,
        hands: &mut Hands<'a>,
        job: &Planned,
        mut attempted: bool,
    ) -> Result<Ended, Failure> {
        loop {
            if self.shelf.get(&job.id, Run::First)?.is_some() {
                return Ok(Ended::WasThere);
            }
            let attempts = match attempted {
                true => self.shelf.store.attempts(&job.id).map_err(failed)?,
                false => Vec::new(),
            };
            if attempts.len() >= ATTEMPTS {
                let why = attempts.last().map_or("", |a| a.why.as_str());
                tell(format!(
                    "gave up job {} ({}): {why}",
                    job.number,
                    job.task.name()
                ));
                return Ok(Ended::GaveUp);
            }
            job.inputs.iter().try_for_each(|input| input.check())?;
            self.shelf.store.write_due().map_err(failed)?;
            let began = Instant::now();
            match hands.run(&job.task)? {
                Ran::Done(text) => {
                    job.task.whole(&text).map_err(failed)?;
                    self.shelf.put_soon(&job.id, began, &text)?;
                    return Ok(Ended::Made);
                }
                Ran::Failed(why) => {
                    attempted = true;
                    let by = self.shelf.by(began);
                    self.shelf
                        .store
                        .note(&job.id, &Attempt { why, by })
                        .map_err(failed)?;
                }
                Ran::Stopped => return Ok(Ended::Stopped),
            }
        }
    }
}

/// The jobs in an order that no other worker has. A result is seen by others up to two seconds
/// after it was begun, so workers on one plan that went the same way would make the same ones.
/// Some that are neighbours in the plan stay together, because what is merged one after the other
/// should lie in one file.
fn own_order<'a>(worker: &str, jobs: &[&'a Planned]) -> Vec<&'a Planned> {
    const TOGETHER_MAX: usize = 64;
    let together = (jobs.len() / TOGETHER_MAX).clamp(1, TOGETHER_MAX);
    let mut groups: Vec<&[&Planned]> = jobs.chunks(together).collect();
    groups.sort_by_cached_key(|group| {
        let id = group.first().map_or("", |job| job.id.as_str());
        *blake3::hash(format!("{worker} {id}").as_bytes()).as_bytes()
    });
    groups.concat()
}

/// What was done.
#[derive(Default, Serialize)]
struct Counts {
    jobs: usize,
    made: usize,
    there: usize,
    given_up: usize,
    run_twice: usize,
    differ: usize,
}

fn say_counts(counts: &Counts) -> Result<(), Failure> {
    say_json(&serde_json::to_value(counts).map_err(failed)?)
}

/// What was done, and whether all is well.
fn tell_all(
    args: &WorkArgs,
    stop: &Stop,
    all: usize,
    ended: &[Ended],
    twice: &Twice,
) -> Result<(), Failure> {
    let count = |of: fn(&Ended) -> bool| ended.iter().filter(|e| of(e)).count();
    let made = count(|e| matches!(e, Ended::Made));
    let there = count(|e| matches!(e, Ended::WasThere));
    let gave_up = count(|e| matches!(e, Ended::GaveUp));
    let stopped = count(|e| matches!(e, Ended::Stopped));
    if let Some(signal) = stop.signal().filter(|_| stopped > 0 || twice.stopped) {
        let kept = format!(
            "{} of {all} jobs are in the store; the same command goes on",
            made + there
        );
        return Err(Failure::Stopped(signal, kept));
    }
    let (again, differ) = (twice.run, twice.differ.len());
    match args.json {
        true => say_counts(&Counts {
            jobs: all,
            made,
            there,
            given_up: gave_up,
            run_twice: again,
            differ,
        })?,
        false => say(&format!(
            "{all} jobs: {made} made here, {there} were there, {gave_up} given up; {again} run twice, {differ} of them with other bytes\n"
        ))?,
    }
    for differ in &twice.differ {
        tell(differ);
    }
    match gave_up == 0 && twice.differ.is_empty() {
        true => Ok(()),
        false => Err(failed(
            "not every job gave one result; `varve campaign status` says more",
        )),
    }
}
