//! The exploration of one case at the block seam: the case runs once, the recorded commands are cut
//! at the moments at which something changes, and the crash states of each cut are judged within a
//! bound ([`Reach`]). [`explore`] hands a case on a modelled device over to [`nand`].
//!
//! Each judgement costs a recovery, so what could tell nothing new is not judged:
//!
//! - C1: one run yields all cuts. So the numbers of moments and choices in a [`StateId`] mean the
//!   same whichever of them are looked at.
//! - C2: two states with equal content in one epoch of the oracle violate the same rules (only the
//!   age of what they lose may differ), so the second is not judged but counted as deduplicated.
//! - C3: a recovery is cut in turn where the content of its state says so, the state is judged for
//!   the first time, and the greatest depth is not reached. The moments come in a fixed order. So
//!   neither the number of workers nor the size of a batch changes a result.

use super::case::{Setup, StateId};
use super::check::{CheckOptions, Checker};
use super::device::Remains;
use super::nand::{self, Cuts, NandBound};
use super::oracle::Oracle;
use super::part::Part;
use super::traced::{Traced, trace, trace_recovery};
use super::{Judgement, Loss, Target};
use crate::CrashError;
use base::{Set, Time};
use blockdev::spec::{Bound, Choice, Mode};
use blockdev::{Image, Trace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How far an exploration goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reach {
    /// Which states of a cut.
    pub mode: Look,
    /// [`Look::Random`]: states drawn of each cut; on a modelled device, cuts drawn of the run.
    pub draws: u32,
    /// A modelled device is cut at so many moments of virtual time; 0: it is cut around the
    /// operations of its chips instead.
    pub moments: u32,
    /// See [`Bound::subset_max`].
    pub subset_max: u32,
    /// See [`Bound::torn_max`].
    pub torn_max: u32,
    /// See [`Bound::states_max`].
    pub states_max: u32,
    /// See [`Bound::prune`].
    pub prune: bool,
    /// See [`CheckOptions::fsck`].
    pub fsck: bool,
    /// See [`CheckOptions::deep_one_in`].
    pub deep_one_in: u32,
    /// How often a recovery is cut within a recovery: 0 cuts the run alone, 1 its recoveries too.
    pub nested: u32,
    /// One state in so many has its recovery cut; its content decides which.
    pub nested_one_in: u32,
}

/// The [`Mode`] of a [`Bound`] without its numbers, as a word in reports and options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Look {
    /// States in which the device kept the writes in order.
    Linear,
    /// States drawn from the seed.
    Random,
    /// All states, as far as the bounds allow.
    Exhaustive,
    /// Subsets of at most [`Reach::subset_max`] writes against all others.
    Bounded,
}

impl Default for Reach {
    fn default() -> Self {
        let bound = Bound::default();
        Reach {
            mode: Look::Bounded,
            draws: 16,
            moments: 0,
            subset_max: bound.subset_max,
            torn_max: bound.torn_max,
            states_max: bound.states_max,
            prune: bound.prune,
            fsck: true,
            deep_one_in: 256,
            nested: 0,
            nested_one_in: 64,
        }
    }
}

impl Reach {
    /// What the checker does with each state beside the read-only mount and the oracle.
    pub fn check(&self) -> CheckOptions {
        CheckOptions {
            deep_one_in: self.deep_one_in,
            fsck: self.fsck,
        }
    }

    /// The bound of a run on a modelled device: moments, draws or all operations of the chips.
    pub fn nand(&self) -> NandBound {
        let draws = self.draws as usize;
        NandBound {
            cuts: match self.moments {
                0 => Cuts::Operations,
                n => Cuts::Moments(n as usize),
            },
            places: self.torn_max,
            random: (self.mode == Look::Random).then_some(draws),
            nested: self.nested,
            ..NandBound::default()
        }
    }

    /// The bound of one cut at the block seam.
    pub fn bound(&self) -> Bound {
        Bound {
            mode: match self.mode {
                Look::Linear => Mode::Linear,
                Look::Random => Mode::Random(self.draws),
                Look::Exhaustive => Mode::Exhaustive,
                Look::Bounded => Mode::Bounded,
            },
            subset_max: self.subset_max,
            torn_max: self.torn_max,
            states_max: self.states_max,
            prune: self.prune,
        }
    }
}

impl fmt::Display for Reach {
    /// The bound in words, for reports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mode {
            Look::Linear => write!(f, "in order")?,
            Look::Random => write!(f, "{} draws a cut", self.draws)?,
            Look::Exhaustive => write!(f, "all subsets of up to {} open writes", self.subset_max)?,
            Look::Bounded => write!(
                f,
                "subsets of up to {} writes against the rest",
                self.subset_max
            )?,
        }
        write!(
            f,
            ", {} torn places a write, {} states a cut, pruning {}",
            self.torn_max,
            self.states_max,
            if self.prune { "on" } else { "off" }
        )?;
        match self.nested {
            0 => Ok(()),
            depth => write!(
                f,
                ", recovery cut to depth {depth} in one state of {}",
                self.nested_one_in
            ),
        }
    }
}

/// A state that violates a rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// Which state: a [`StateId`], or an id of another seam.
    pub state: String,
    /// When the run was cut, virtual ns.
    pub at: u64,
    /// Violated rules, each with its number and what was found.
    pub violations: Vec<String>,
    /// What is lost.
    pub loss: Loss,
    /// The operations that had begun before the cut, one line each.
    pub story: Vec<String>,
    /// In a [`Part`]: how many states the bound had selected before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u64>,
}

/// What is lost in all states that were cut at one position of the workload.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Losses {
    /// Number of these states.
    pub states: u64,
    /// States that lose an acknowledged operation.
    pub acked: u64,
    /// Most operations lost, promised or not.
    pub ops_max: u64,
    /// Operations lost, summed over the states.
    pub ops: u64,
    /// Most bytes lost, promised or not.
    pub bytes_max: u64,
    /// Bytes lost, summed over the states.
    pub bytes: u64,
    /// Greatest age, ns: from the newest operation that is there to the cut.
    pub age_max: u64,
    /// Ages, summed over the states, ns.
    pub age: u64,
    /// States in which old data shows.
    pub old: u64,
    /// States in which foreign data shows.
    pub foreign: u64,
}

impl Losses {
    fn count(&mut self, loss: &Loss) {
        let (ops, bytes, age) = (loss.ops as u64, loss.bytes, loss.age.0);
        self.add(&Losses {
            states: 1,
            acked: u64::from(loss.acked_ops > 0 || loss.acked_bytes > 0),
            ops_max: ops,
            ops,
            bytes_max: bytes,
            bytes,
            age_max: age,
            age,
            old: u64::from(loss.old_data),
            foreign: u64::from(loss.foreign_data),
        });
    }

    /// Adds what other states lose.
    pub fn add(&mut self, other: &Losses) {
        self.states += other.states;
        self.acked += other.acked;
        self.ops_max = self.ops_max.max(other.ops_max);
        self.ops += other.ops;
        self.bytes_max = self.bytes_max.max(other.bytes_max);
        self.bytes += other.bytes;
        self.age_max = self.age_max.max(other.age_max);
        self.age += other.age;
        self.old += other.old;
        self.foreign += other.foreign;
    }
}

/// What the exploration of a case gave.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Explored {
    /// Moments at which the power was cut, those inside of recoveries included.
    pub points: u64,
    /// States that the bound selects.
    pub enumerated: u64,
    /// Of them, states equal to one that was judged before, so not judged.
    pub deduplicated: u64,
    /// States left out because no recovery can tell them apart from one that was taken.
    pub pruned: u64,
    /// States beyond the bound of one cut: not looked at.
    pub beyond: u64,
    /// States recovered, mounted and judged, nested ones included.
    pub judged: u64,
    /// Of them, cuts inside of a recovery.
    pub nested: u64,
    /// States that violate a rule.
    pub violations: u64,
    /// The first states that violate a rule, at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// Losses by position: the number of operations that had begun at the cut.
    pub losses: BTreeMap<usize, Losses>,
    /// Why the run itself failed, if it did.
    pub failure: Option<String>,
    /// How often the guard of each mutant was reached.
    #[serde(skip)]
    pub reached: rt::Reached,
}

/// Most findings of one case that are kept: further ones of the same case teach nothing.
pub const FINDINGS_MAX: usize = 16;
/// States judged in one simulation unless the caller asks for another number.
pub const BATCH: usize = 256;

/// When an exploration ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Until {
    /// When everything within reach is judged.
    #[default]
    Done,
    /// At the first violation, or once so many states are judged.
    First(u64),
}

impl Until {
    fn ends(self, out: &Explored) -> bool {
        match self {
            Until::Done => false,
            Until::First(states) => out.violations > 0 || out.judged >= states,
        }
    }
}

/// Called with the name of the state that is judged next, so that a watchdog can name it.
pub type Watch<'a> = dyn FnMut(&str) + 'a;

/// Explores a case: at the block seam if its device is a disk in memory, at the chips if it is a
/// modelled device. `batch` states are judged in one simulation, and `watch` is called with the id
/// of the first of each batch.
///
/// # Errors
/// The case does not run, or the host fails. What is wrong with a state is a finding, not an error.
pub fn explore(
    setup: &Setup,
    reach: &Reach,
    batch: usize,
    watch: &mut Watch<'_>,
) -> Result<Explored, CrashError> {
    if let Target::Profile(_) = &setup.config.target {
        let (subject, bound) = (setup.subject.as_ref(), reach.nand());
        let found = nand::explore(&setup.config, &setup.volume, subject, &bound, watch)?;
        return Ok(found.explored);
    }
    explore_until(setup, reach, Until::Done, batch, watch)
}

/// Explores a part of a case that [has parts](super::plan::Job::has_parts).
///
/// # Errors
/// As [`explore`].
pub fn explore_part(
    setup: &Setup,
    reach: &Reach,
    part: Part,
    batch: usize,
    watch: &mut Watch<'_>,
) -> Result<Explored, CrashError> {
    explored(setup, reach, (Until::Done, Some(part)), batch, watch)
}

/// Explores a case at the block seam as [`explore`] does, and ends early if `until` says so: then
/// [`Explored::judged`] says after how many states.
///
/// # Errors
/// As [`explore`].
pub fn explore_until(
    setup: &Setup,
    reach: &Reach,
    until: Until,
    batch: usize,
    watch: &mut Watch<'_>,
) -> Result<Explored, CrashError> {
    explored(setup, reach, (until, None), batch, watch)
}

fn explored(
    setup: &Setup,
    reach: &Reach,
    (until, part): (Until, Option<Part>),
    batch: usize,
    watch: &mut Watch<'_>,
) -> Result<Explored, CrashError> {
    // C1: nothing below runs the case again.
    let run = trace(&setup.config, &setup.volume, setup.subject.as_ref())?;
    let Traced {
        trace,
        mut oracle,
        began,
        failure,
        reached,
        ..
    } = run;
    let mut explorer = Explorer {
        setup,
        checker: Checker::with(&setup.config, &setup.volume, reach.check()),
        bound: reach.bound(),
        reach,
        batch,
        until,
        part,
        seen: Set::default(),
        out: Explored {
            failure,
            reached,
            ..Explored::default()
        },
        watch,
    };
    let mut cursor = trace.cursor();
    for (point, at) in points(&trace, reach, &oracle.moments()) {
        if explorer.ended() {
            break;
        }
        if at > began {
            cursor.seek(at);
            oracle.advance(at);
            explorer.cut(
                &cursor,
                (point, at),
                oracle.as_ref(),
                &StateId(Vec::new()),
                at,
            )?;
        }
    }
    Ok(explorer.out)
}

/// The moments of a run at which what a cut may leave or what is promised changes, ascending. An
/// index into them is the number of a moment in a [`StateId`].
pub fn moments(trace: &Trace, promises: &[Time]) -> Vec<Time> {
    let mut all = trace.cut_points();
    all.extend(promises);
    all.sort_unstable();
    all.dedup();
    all
}

/// The moments to cut at, with their numbers. An exhaustive exploration that prunes leaves out a
/// moment whose states are all among those of a later one.
fn points(trace: &Trace, reach: &Reach, promises: &[Time]) -> Vec<(usize, Time)> {
    let all = moments(trace, promises).into_iter().enumerate();
    if !reach.prune || reach.mode != Look::Exhaustive {
        // Any other mode selects some states of each cut, and at an earlier cut of the same window
        // it selects others, so no moment can stand for another.
        return all.collect();
    }
    let maximal = trace.maximal_cut_points(promises);
    all.filter(|(_, at)| maximal.binary_search(at).is_ok() || promises.binary_search(at).is_ok())
        .collect()
}

struct Explorer<'a, 'w> {
    setup: &'a Setup,
    checker: Checker<'a>,
    bound: Bound,
    reach: &'a Reach,
    batch: usize,
    until: Until,
    part: Option<Part>,
    seen: Set<(u64, u64)>,
    out: Explored,
    watch: &'a mut Watch<'w>,
}

impl Explorer<'_, '_> {
    fn ended(&self) -> bool {
        self.until.ends(&self.out)
    }

    /// Judges the states of one cut. `outer` is the state in whose recovery the cut falls, and
    /// `run_at` the moment at which the run itself was cut.
    fn cut(
        &mut self,
        cursor: &blockdev::trace::Cursor<'_>,
        (point, _): (usize, Time),
        oracle: &dyn Oracle,
        outer: &StateId,
        run_at: Time,
    ) -> Result<(), CrashError> {
        self.out.points += 1;
        let mut fresh: Vec<(Choice, Image)> = Vec::new();
        let mut orders = Vec::new();
        let (out, seen, epoch) = (&mut self.out, &mut self.seen, oracle.epoch());
        let part = self.part;
        let counted = cursor.each_choice(&self.bound, &mut |choice| {
            out.enumerated += 1;
            let hash = cursor.content_hash(&choice);
            let hash = hash.expect("the cut names its own choices");
            // C2.
            match seen.insert((hash, epoch)) {
                true if part.is_none_or(|part| part.has(hash)) => {
                    fresh.push((choice.clone(), cursor.image(&choice)));
                    orders.push(out.enumerated);
                }
                true => {}
                false => out.deduplicated += 1,
            }
            true
        });
        out.pruned += counted.pruned;
        out.beyond += counted.beyond;
        let id = |choice: &Choice| {
            let mut id = outer.clone();
            id.0.push((point, choice.clone()));
            id
        };
        let size = self.batch.max(1);
        for (batch, orders) in fresh.chunks(size).zip(orders.chunks(size)) {
            if let Some((choice, _)) = batch.first() {
                (self.watch)(&id(choice).to_string());
            }
            let images: Vec<Image> = batch.iter().map(|(_, image)| image.clone()).collect();
            let (until, out) = (self.until, &mut self.out);
            self.checker.check(oracle, &images, &mut |n, judgement| {
                let kept = out.findings.len();
                out.count(|| id(&batch[n].0).to_string(), run_at, oracle, judgement);
                for finding in &mut out.findings[kept..] {
                    finding.order = part.map(|_| orders[n]);
                }
                out.nested += u64::from(!outer.0.is_empty());
                !until.ends(out)
            })?;
            if self.ended() {
                return Ok(());
            }
        }
        if (outer.0.len() as u32) < self.reach.nested {
            for (choice, image) in &fresh {
                if self.ended() {
                    break;
                }
                self.follow(&id(choice), image, oracle, run_at)?;
            }
        }
        Ok(())
    }

    /// Cuts the recovery of a state, if its turn has come (C3).
    fn follow(
        &mut self,
        id: &StateId,
        image: &Image,
        oracle: &dyn Oracle,
        run_at: Time,
    ) -> Result<(), CrashError> {
        let one_in = u64::from(self.reach.nested_one_in.max(1));
        if !base::collections::mix(image.content_hash()).is_multiple_of(one_in) {
            return Ok(());
        }
        let (trace, failure) = recovery(self.setup, image)?;
        if let Some(why) = failure {
            // The checker mounted this state read-only. This mount writes and tasks run beside it,
            // so it may fail where the other did not.
            let judgement = Judgement {
                violations: vec![format!("R1: recovery, mounted for writing: {why}")],
                ..Judgement::default()
            };
            self.out.count(|| id.to_string(), run_at, oracle, judgement);
        }
        let mut cursor = trace.cursor();
        for (point, at) in points(&trace, self.reach, &[]) {
            if self.ended() {
                break;
            }
            cursor.seek(at);
            self.cut(&cursor, (point, at), oracle, id, run_at)?;
        }
        Ok(())
    }
}

/// The commands that recovering a state by a mount for writing sends, and why it failed, if it did.
///
/// # Errors
/// See [`trace_recovery`].
pub fn recovery(setup: &Setup, image: &Image) -> Result<(Trace, Option<String>), CrashError> {
    let remains = Remains::Image(image.clone());
    let seed = image.content_hash();
    trace_recovery(&setup.config, &setup.volume, &remains, seed)
}

impl Explored {
    /// Counts the judgement of one state.
    pub fn count(
        &mut self,
        state: impl FnOnce() -> String,
        at: Time,
        oracle: &dyn Oracle,
        judgement: Judgement,
    ) {
        self.judged += 1;
        let losses = self.losses.entry(oracle.position()).or_default();
        losses.count(&judgement.loss);
        for (mutant, times) in &judgement.reached {
            *self.reached.entry(*mutant).or_default() += times;
        }
        if judgement.violations.is_empty() {
            return;
        }
        self.violations += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding {
                state: state(),
                at: at.0,
                loss: judgement.loss,
                violations: judgement.violations,
                story: oracle.story(),
                order: None,
            });
        }
    }

    /// Losses of all positions together.
    pub fn loss(&self) -> Losses {
        let mut all = Losses::default();
        self.losses.values().for_each(|l| all.add(l));
        all
    }
}

/// A state made again from its id.
pub struct State {
    /// What the cut leaves.
    pub image: Image,
    /// The oracle, advanced to the cut of the run.
    pub oracle: Box<dyn Oracle>,
    /// The run, and for a nested state the recoveries that were cut, from the outer to the inner.
    pub traces: Vec<Trace>,
    /// The moment of the cut in each of them.
    pub cuts: Vec<Time>,
    /// What each of these cuts left; the last one is [`State::image`].
    pub images: Vec<Image>,
}

/// Makes a state of a case again.
///
/// # Errors
/// The case does not run, or has no such moment or no such choice there; the message says which.
pub fn state(setup: &Setup, id: &StateId) -> Result<State, CrashError> {
    let run = trace(&setup.config, &setup.volume, setup.subject.as_ref())?;
    let (mut oracle, mut trace) = (run.oracle, run.trace);
    let (mut traces, mut cuts, mut images) = (Vec::new(), Vec::new(), Vec::new());
    let mut image = trace.start.clone();
    for (level, (point, choice)) in id.0.iter().enumerate() {
        if level > 0 {
            trace = recovery(setup, &image)?.0;
        }
        let promises = if level == 0 {
            oracle.moments()
        } else {
            Vec::new()
        };
        let points = moments(&trace, &promises);
        let at = *points.get(*point).ok_or_else(|| {
            let (last, what) = (points.len(), ["run", "recovery"][level.min(1)]);
            CrashError::Check(format!(
                "state {id}: the {what} has {last} moments, there is none with number {point}"
            ))
        })?;
        if level == 0 {
            oracle.advance(at);
        }
        image = {
            let mut cursor = trace.cursor();
            cursor.seek(at);
            let left = cursor.state(choice);
            left.map_err(|e| CrashError::Check(format!("state {id}: {e}")))?
        };
        traces.push(trace.clone());
        cuts.push(at);
        images.push(image.clone());
    }
    Ok(State {
        image,
        oracle,
        traces,
        cuts,
        images,
    })
}

/// Judges one state.
///
/// # Errors
/// See [`state`].
pub fn judge(setup: &Setup, id: &StateId) -> Result<(State, Judgement), CrashError> {
    let state = state(setup, id)?;
    let mut found = Judgement::default();
    let all = CheckOptions {
        deep_one_in: 1,
        fsck: true,
    };
    let checker = Checker::with(&setup.config, &setup.volume, all);
    let images = [state.image.clone()];
    checker.check(state.oracle.as_ref(), &images, &mut |_, judgement| {
        found = judgement;
        true
    })?;
    Ok((state, found))
}
