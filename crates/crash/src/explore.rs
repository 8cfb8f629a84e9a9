//! One run of the sampled kind: snapshots are taken while it runs, then they are recovered and
//! judged (all of them, unless [`Depth`] says otherwise).
//!
//! Where [`campaign`](crate::campaign) makes the states of a cut afterwards from recorded commands,
//! this exploration asks the device for one state of each cut. So it works on every device, and
//! with outside checkers.

use super::{CrashConfig, Cut, Judge, Judgement, Loss, Opinion, Volume, record, record_recovery};
use crate::CrashError;
use std::path::Path;

/// How deep to look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depth<'a> {
    /// One cut in so many has its recovery cut in turn; 0: none.
    pub nested_one_in: usize,
    /// Cuts of each of these recoveries.
    pub nested: usize,
    /// Cuts of the recovery of each of those cuts (depth 2).
    pub deeper: usize,
    /// The folder for image files that outside checkers read; `None`: none is asked.
    pub folder: Option<&'a Path>,
    /// After one recovery in so many `e2fsck -fn` is asked; 0: none.
    pub check_one_in: usize,
    /// One cut in so many is recovered by `e2fsck -fy` as well; 0: none.
    pub replay_one_in: usize,
    /// Stops at the first violation.
    pub until_found: bool,
    /// Judges only cuts at which the first task had begun more than so many operations; 0: all.
    pub from_op: usize,
    /// Judges at most so many cuts of the run itself, evenly chosen; 0: all.
    pub most: usize,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Cuts judged, nested ones included.
    pub cuts: usize,
    /// Of them, cuts inside of a recovery.
    pub nested: usize,
    /// Cuts that violate a rule: the name of each, and what was found.
    pub bad: Vec<(String, Vec<String>)>,
    /// The number of the first bad cut in the order of judging, from 1.
    pub first_bad: Option<usize>,
    /// What all cuts took together.
    pub loss: Loss,
    /// Cuts in which something was lost, promised or not.
    pub lossy: usize,
    /// Cuts for which an outside checker was asked that is not installed.
    pub unchecked: usize,
    /// Cuts that were given to an outside checker.
    pub checked: usize,
    /// Why the run itself failed, if it did: a mount was refused, or an operation failed.
    pub failure: Option<String>,
    /// How often the guard of each mutant was reached.
    pub reached: rt::Reached,
}

impl Tally {
    /// Adds what another run found.
    pub fn add(&mut self, other: Tally) {
        self.first_bad = self.first_bad.or(other.first_bad.map(|n| n + self.cuts));
        self.cuts += other.cuts;
        self.nested += other.nested;
        self.bad.extend(other.bad);
        self.loss.add(&other.loss);
        self.lossy += other.lossy;
        self.unchecked += other.unchecked;
        self.checked += other.checked;
        self.failure = self.failure.take().or(other.failure);
        self.reach(&other.reached);
    }

    fn reach(&mut self, reached: &rt::Reached) {
        for (mutant, times) in reached {
            *self.reached.entry(*mutant).or_default() += times;
        }
    }

    fn count(&mut self, name: impl FnOnce() -> String, judgement: Judgement) {
        self.cuts += 1;
        self.loss.add(&judgement.loss);
        self.lossy += usize::from(!judgement.loss.is_none());
        self.unchecked += usize::from(judgement.unchecked);
        self.reach(&judgement.reached);
        if !judgement.violations.is_empty() {
            self.first_bad.get_or_insert(self.cuts);
            self.bad.push((name(), judgement.violations));
        }
    }

    /// True if nothing was violated and the run ended well.
    pub fn is_clean(&self) -> bool {
        self.bad.is_empty() && self.failure.is_none()
    }

    /// The counts and the first five findings, in words.
    pub fn words(&self) -> String {
        let first = self.bad.iter().take(5);
        let mut words: Vec<String> = first
            .map(|(name, why)| format!("{name}:\n    {}", why.join("\n    ")))
            .collect();
        words.extend(self.failure.clone());
        format!(
            "{} bad of {} cuts\n{}",
            self.bad.len(),
            self.cuts,
            words.join("\n")
        )
    }
}

/// Records the run of `config`, judges all its cuts, and follows some into their recovery.
///
/// # Errors
/// The host or the device has failed; what is wrong with a remainder stands in the tally.
pub fn explore(
    config: &CrashConfig,
    volume: &Volume,
    depth: &Depth<'_>,
) -> Result<Tally, CrashError> {
    let recording = record(config, volume)?;
    let mut tally = Tally {
        failure: recording.failure.clone(),
        ..Tally::default()
    };
    tally.reach(&recording.reached);
    let mut judge = Judge::new(config, volume, &recording.logs);
    let due = |i: usize, one_in: usize| one_in > 0 && i % one_in == one_in - 1;
    let fits = |cut: &&Cut| {
        depth.from_op == 0
            || cut
                .progress
                .first()
                .is_some_and(|p| p.begun > depth.from_op)
    };
    let mut cuts: Vec<&Cut> = recording.cuts.iter().filter(fits).collect();
    if depth.most > 0 && cuts.len() > depth.most {
        let all = cuts.len();
        cuts = (0..depth.most)
            .map(|i| cuts[i * all / depth.most])
            .collect();
    }
    for (i, cut) in cuts.into_iter().enumerate() {
        let opinion = match depth.folder {
            Some(folder) if due(i, depth.replay_one_in) => Opinion::Replay(folder),
            Some(folder) if due(i, depth.check_one_in) => Opinion::Check(folder),
            _ => Opinion::Own,
        };
        tally.checked += usize::from(opinion.folder().is_some());
        let name = || format!("{config}, cut {i} ({:?} at {} ns)", cut.moment, cut.at);
        let judgement = judge.judge(cut, opinion)?;
        tally.count(name, judgement);
        if due(i, depth.nested_one_in) {
            nested(config, volume, &mut judge, cut, depth, &name(), &mut tally)?;
        }
        if depth.until_found && !tally.bad.is_empty() {
            break;
        }
    }
    Ok(tally)
}

/// Cuts the recovery of `cut`, and the recoveries of those cuts.
fn nested(
    config: &CrashConfig,
    volume: &Volume,
    judge: &mut Judge<'_>,
    cut: &Cut,
    depth: &Depth<'_>,
    name: &str,
    tally: &mut Tally,
) -> Result<(), CrashError> {
    let seed = base::collections::mix(config.seed ^ cut.at);
    let inner = record_recovery(config, volume, cut, depth.nested, seed)?;
    for (i, cut) in inner.iter().enumerate() {
        let here = format!(
            "{name}, recovery cut {i} ({:?} at {} ns)",
            cut.moment, cut.at
        );
        let judgement = judge.judge(cut, Opinion::Own)?;
        tally.count(|| here.clone(), judgement);
        tally.nested += 1;
        let seed = base::collections::mix(seed ^ cut.at);
        for (i, cut) in record_recovery(config, volume, cut, depth.deeper, seed)?
            .iter()
            .enumerate()
        {
            let judgement = judge.judge(cut, Opinion::Own)?;
            tally.count(
                || format!("{here}, and again cut {i} at {} ns", cut.at),
                judgement,
            );
            tally.nested += 1;
        }
    }
    Ok(())
}
