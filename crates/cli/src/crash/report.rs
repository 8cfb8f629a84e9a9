//! The report of `varve crash`, made end by end, so that a merge of any number of cases needs no
//! more memory than one of few: files by [`Keeper`], tables and the verdict by sums.

use super::keep;
use super::pool::End;
use super::table::Tables;
use crate::args::CrashArgs;
use crate::failure::{Failure, failed};
use crate::out::{OutFolder, say};
use crate::stop::Stop;
use crash::finding::folder::Folder;
use crash::finding::keep::{Choice, Ended, Gone, Keep, Keeper};
use crash::finding::report::{CampaignReport, CaseReport};
use crash::plan::{Counts, Job};
use std::collections::BTreeMap;

/// Writes and prints the report of these ends, in the order of the jobs.
///
/// # Errors
/// What was found is a failure, or the report cannot be written.
pub fn report(
    args: &CrashArgs,
    out: &OutFolder,
    jobs: Vec<Job>,
    ends: Vec<End>,
    stop: &Stop,
) -> Result<(), Failure> {
    let all = jobs.len();
    let mut choice = choice();
    let mut there = 0;
    for (job, end) in jobs.iter().zip(&ends) {
        match end {
            End::Done(explored) => choice.look(job, explored),
            End::Failed(why) if stop.signal().is_none() => {
                return Err(failed(format!("{}: {why}", job.case)));
            }
            End::Failed(_) | End::Stopped | End::Lost { .. } => {}
        }
        there += usize::from(matches!(end, End::Done(_) | End::Lost { .. }));
    }
    let part = stop.part(there, all, "cases")?;
    let mut store = Folder(out.path());
    let incomplete = part.as_ref().map(|part| part.mark());
    let mut reporter = Reporter::begin(args, choice, incomplete, &mut store);
    for (job, end) in jobs.iter().zip(&ends) {
        reporter.add(job, end);
    }
    let stopped = part.map(|part| part.kept_in(out.path()));
    reporter.end(out, stopped)
}

/// How much is kept of findings.
fn how() -> Keep {
    Keep::default()
}

/// Looks at all ends before the report begins.
pub fn choice() -> Choice {
    Choice::new(how().folders_max)
}

/// A report that grows.
pub struct Reporter<'a> {
    keeper: Keeper<'a>,
    tables: Tables,
    findings: keep::Lines,
    gone: Vec<String>,
    verdict: Verdict,
    /// All of the report, where it is printed.
    whole: Option<CampaignReport>,
}

/// Lost workers that are printed; all stand in the files.
const GONE_MAX: usize = 1000;

impl<'a> Reporter<'a> {
    /// Begins a report. `choice` has seen every end that comes; `incomplete` says why some are
    /// missing: then no time is spent on making findings smaller.
    pub fn begin(
        args: &CrashArgs,
        choice: Choice,
        incomplete: Option<String>,
        store: &'a mut Folder<'_>,
    ) -> Reporter<'a> {
        let mut how = how();
        if incomplete.is_some() {
            how.shrink_states = 0;
        }
        let head = CampaignReport {
            incomplete,
            ..keep::head(args)
        };
        Reporter {
            whole: args.json.then(|| head.clone()),
            keeper: Keeper::begin(head, choice, how, store),
            tables: Tables::default(),
            findings: keep::Lines::default(),
            gone: Vec::new(),
            verdict: Verdict::default(),
        }
    }

    /// Adds the end of the next job, in the order of the jobs.
    pub fn add(&mut self, job: &Job, end: &End) {
        match end {
            End::Done(explored) => {
                self.tables.add(job, explored);
                self.verdict.add(job, explored);
                let case = self.keeper.done(job, explored);
                self.enter(case);
            }
            End::Lost { state, why } => {
                let gone = Gone {
                    job: job.clone(),
                    state: state.clone(),
                    why: why.clone(),
                };
                self.verdict.gone += 1;
                let state = state.as_deref().unwrap_or("the run itself");
                if self.gone.len() < GONE_MAX {
                    self.gone.push(format!(
                        "{}: state {state}: the worker is gone: {why}\n",
                        job.case
                    ));
                }
                let case = self.keeper.gone(&gone);
                self.enter(case);
            }
            End::Failed(_) | End::Stopped => {}
        }
    }

    fn enter(&mut self, case: CaseReport) {
        self.findings.add(&case);
        if let Some(whole) = &mut self.whole {
            whole.cases.push(case);
        }
    }

    /// Writes the files and prints what was found.
    ///
    /// # Errors
    /// What was found is a failure; `stopped`, if a signal ended the command early.
    pub fn end(self, out: &OutFolder, stopped: Option<Failure>) -> Result<(), Failure> {
        let ended = self.keeper.end();
        if let Some(whole) = self.whole {
            say(&whole.to_json())?;
            if let Some(stopped) = stopped {
                return Err(stopped);
            }
            return match ended.totals.is_clean() {
                true => Ok(()),
                false => Err(failed("a promise was broken, or a worker is gone")),
            };
        }
        say(&format!("{}\n", self.tables.text()))?;
        self.gone.iter().try_for_each(|line| say(line))?;
        let more = self.verdict.gone - self.gone.len() as u64;
        if more > 0 {
            say(&format!("{more} more lost workers stand in results.json\n"))?;
        }
        told(&self.findings, &ended, out)?;
        match stopped {
            Some(stopped) => Err(stopped),
            None => self.verdict.told(),
        }
    }
}

fn told(findings: &keep::Lines, ended: &Ended, out: &OutFolder) -> Result<(), Failure> {
    keep::tell(findings, &ended.not_kept, out)
}

/// What was found, in sums.
#[derive(Default)]
struct Verdict {
    counts: Counts,
    control: Counts,
    /// Damage that positive controls show, by workload and device.
    damage: BTreeMap<String, u64>,
    gone: u64,
}

impl Verdict {
    fn add(&mut self, job: &Job, explored: &crash::campaign::Explored) {
        if !job.control {
            return self.counts.add(explored);
        }
        self.control.add(explored);
        let place = format!("{} on {}", job.group, super::table::device(&job.case));
        *self.damage.entry(place).or_default() += explored.violations;
    }

    /// What was found, in a sentence, and whether that is a failure.
    fn told(&self) -> Result<(), Failure> {
        let (counts, control) = (&self.counts, &self.control);
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
        if self.gone > 0 {
            wrong.push(format!("{} workers hung or died", self.gone));
        }
        if control.cases > 0 {
            say(&format!(
                "positive control `none`: {} of {} states show damage\n",
                control.violations, control.judged
            ))?;
            for (blind, _) in self.damage.iter().filter(|(_, damage)| **damage == 0) {
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
}
