//! Why a state is bad, in words of system calls: the fewest lost parts that are bad, the calls that
//! had to be durable for it, and the sync that lacks between them.
//!
//! ```text
//! State --read or find--> cut and lost parts --shrink--> lost, earliest cut, kept --sentence--> Explanation
//! ```
//!
//! - E1: every set of lost parts that is tried is legal (posix-P2): what needs a lost part is lost,
//!   too.
//! - E2: the lost parts of an explanation are bad, and with any of them back the state is good.
//!   They are the fewest if a single part, or those of a single call, are bad. A broken promise is
//!   told by parts whose loss breaks that promise: what would be bad without it is another mistake.
//! - E3: a call is said to be durable only if the state is good without it.

mod held;
mod sentence;

pub use sentence::differences;

use crate::call::{Recording, What};
use crate::posix::{Bits, Cut, Posix};
use crate::sites::{self, Insertion};
use crate::state::{JudgeError, ModelError, State, Verdict, acknowledged};
use crate::tree::Tree;
use base::Map;
use std::collections::{BTreeMap, BTreeSet};

/// Decides on a tree and what had been acknowledged.
pub type Judging<'j> = dyn FnMut(&Tree, &[&str]) -> Result<Verdict, JudgeError> + 'j;

/// Most trees that are judged for each of: the fewest lost parts, the earliest cut, the calls that
/// are durable.
const JUDGED_MAX: u64 = 400;

/// What kind of mistake a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// A later call is durable without an earlier one.
    Order,
    /// Something was acknowledged before it was durable.
    Promise,
    /// Something may be lost, and the judge does not take it, whatever else is durable.
    Loss,
    /// Nothing has to be lost: the program is between two calls.
    Between,
    /// No state of `posix` has this tree, so that only its differences can be told.
    Other,
}

/// Why a state is bad.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What kind of mistake it is.
    pub cause: Cause,
    /// The smallest state that was found to be bad in the same way.
    pub state: State,
    /// What the judge says of it.
    pub why: String,
    /// Calls of which something is lost, ascending.
    pub lost: Vec<usize>,
    /// Calls that are durable and make it bad, ascending.
    pub kept: Vec<usize>,
    /// The acknowledgement that is broken.
    pub promise: Option<usize>,
    /// Syncs that lack; empty if no sync mends it.
    pub lacks: Vec<Insertion>,
    /// The explanation, in words.
    pub sentence: String,
    /// Equal for findings of one mistake: the sites of the two calls whose order was lost.
    pub key: String,
}

impl Explanation {
    /// Equal for findings that the same syncs mend, in front of the same site; `None` if no sync
    /// lacks.
    pub fn mend(&self, recording: &Recording) -> Option<String> {
        let site = |lack: &Insertion| {
            let call = recording.calls.get(lack.before);
            let call = call.map_or_else(|| "the end".into(), sites::site);
            format!(
                "{} before {call}",
                sites::without_numbers(&lack.to_string())
            )
        };
        let sites: BTreeSet<String> = self.lacks.iter().map(site).collect();
        (!sites.is_empty()).then(|| sites.into_iter().collect::<Vec<_>>().join(", "))
    }
}

/// Why a finding could not be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The judge failed.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// The recording cannot be followed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The judge says now that it is good.
    #[error(
        "the judge found this state bad and now finds it good: it does not always say the same"
    )]
    Unstable,
}

/// Explains a bad state of any model.
///
/// # Errors
/// The judge fails, or does not say again that the state is bad.
pub fn explain(
    model: &Posix,
    recording: &Recording,
    state: &State,
    judge: &mut Judging<'_>,
) -> Result<Explanation, ExplainError> {
    let mut court = Court {
        recording,
        judge,
        verdicts: Map::default(),
        judged: 0,
        limit: 0,
        is_promise: false,
    };
    let why = court.bad(&state.tree, state.acknowledged)?;
    let why = why.ok_or(ExplainError::Unstable)?;
    let Some((mut cut, lost)) = as_posix(model, recording, state) else {
        return Ok(sentence::other(model, recording, state, why)?);
    };
    let whole = cut.tree(&cut.close([]));
    let told = court.fewest(&state.tree, &whole, state.acknowledged)?;
    court.is_promise = told > 0 && court.bad(&state.tree, told - 1)?.is_none();
    court.begin();
    let lost = smallest(&mut court, &mut cut, lost, told)?;
    court.begin();
    let (mut cut, lost, told) = earliest(&mut court, model, cut, lost, told)?;
    let tree = cut.tree(&lost);
    let whole = cut.tree(&cut.close([]));
    let told = court.fewest(&tree, &whole, told)?;
    let why = court.bad(&tree, told)?.unwrap_or(why);
    let promise = told.checked_sub(1);
    let promise = promise.and_then(|last| promises(recording).nth(last));
    // What came after a promise cannot break it by being lost: a later call has undone it.
    let given = |call| cut.makers(&lost).iter().any(|&at| cut.name(at).0 < call);
    let promise = promise.filter(|&call| given(call));
    court.begin();
    let kept = match promise {
        Some(_) => Vec::new(),
        None => {
            let given = told
                .checked_sub(1)
                .and_then(|last| promises(recording).nth(last));
            let later = needed(&mut court, &mut cut, &lost, told, given)?;
            match later.is_empty() && given.is_some() {
                true => needed(&mut court, &mut cut, &lost, told, None)?,
                false => later,
            }
        }
    };
    Ok(sentence::explanation(sentence::Found {
        cut,
        lost,
        kept,
        promise,
        told,
        why,
    }))
}

/// The cut and lost parts of a state: those of its line if it is one of ours, those of an equal
/// tree if it is not.
fn as_posix<'a>(model: &Posix, recording: &'a Recording, state: &State) -> Option<(Cut<'a>, Bits)> {
    if let Ok((mut cut, lost)) = model.read(recording, &state.line)
        && cut.calls() == state.calls
        && cut.tree(&lost).hash() == state.tree.hash()
    {
        return Some((cut, lost));
    }
    model
        .find(recording, covered(recording, state), &state.tree)
        .ok()
}

/// The calls that count for what a state may lack: a sync that had not ended covers nothing.
fn covered(recording: &Recording, state: &State) -> usize {
    let last = state.calls.checked_sub(1);
    let is_sync = |call: usize| {
        let what = recording.calls.get(call).map(|call| &call.what);
        matches!(what, Some(What::Sync { .. } | What::SyncAll))
    };
    match last.filter(|&last| state.under_way && is_sync(last)) {
        Some(last) => last,
        None => state.calls,
    }
}

/// The judge, with what it said of trees before.
struct Court<'a, 'j> {
    recording: &'a Recording,
    judge: &'a mut Judging<'j>,
    verdicts: Map<(u64, usize), Option<String>>,
    judged: u64,
    limit: u64,
    /// The state breaks a promise and is good without that.
    is_promise: bool,
}

impl Court<'_, '_> {
    /// Why a tree is bad, if it is, when the first `told` acknowledgements had been given.
    fn bad(&mut self, tree: &Tree, told: usize) -> Result<Option<String>, JudgeError> {
        let key = (tree.hash(), told);
        if let Some(verdict) = self.verdicts.get(&key) {
            return Ok(verdict.clone());
        }
        self.judged += 1;
        let all = acknowledged(self.recording, self.recording.calls.len());
        let verdict = match (self.judge)(tree, &all[..told.min(all.len())])? {
            Verdict::Good => None,
            Verdict::Bad(why) => Some(why),
        };
        self.verdicts.insert(key, verdict.clone());
        Ok(verdict)
    }

    /// Whether a tree is bad in the way of the state (E2).
    fn same(&mut self, tree: &Tree, told: usize) -> Result<bool, JudgeError> {
        let without = told.checked_sub(1).filter(|_| self.is_promise);
        Ok(self.bad(tree, told)?.is_some()
            && match without {
                Some(fewer) => self.bad(tree, fewer)?.is_none(),
                None => true,
            })
    }

    /// The fewest of the first `told` acknowledgements with which a bad tree is bad. `whole` is the
    /// tree of the cut with nothing lost: where that turns bad, too, it holds more than the program
    /// had done when it had acknowledged so little, and the judge says nothing about the loss.
    fn fewest(&mut self, tree: &Tree, whole: &Tree, told: usize) -> Result<usize, JudgeError> {
        let mut fewest = told;
        while fewest > 0 && self.bad(tree, fewest - 1)?.is_some() {
            let good = self.bad(whole, fewest)?.is_none();
            if good && self.bad(whole, fewest - 1)?.is_some() {
                break;
            }
            fewest -= 1;
        }
        Ok(fewest)
    }

    fn begin(&mut self) {
        self.limit = self.judged + JUDGED_MAX;
    }

    fn is_over(&self) -> bool {
        self.judged > self.limit
    }
}

/// The smallest part of a legal bad set that is still bad (E1, E2).
fn smallest(
    court: &mut Court<'_, '_>,
    cut: &mut Cut<'_>,
    lost: Bits,
    told: usize,
) -> Result<Bits, JudgeError> {
    let none = cut.close([]);
    if court.bad(&cut.tree(&none), told)?.is_some() {
        return Ok(none);
    }
    let mut calls: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for at in lost.iter() {
        calls.entry(cut.name(at).0).or_default().push(at);
    }
    let singles = lost.iter().map(|at| cut.lost_with(at));
    let mut few: Vec<Bits> = singles.collect();
    few.extend(calls.into_values().map(|parts| cut.close(parts)));
    few.sort_by_key(Bits::count);
    for set in few {
        if court.is_over() {
            break;
        }
        if court.same(&cut.tree(&set), told)? {
            return shrink(court, cut, set, told);
        }
    }
    shrink(court, cut, lost, told)
}

/// Gives back what need not be lost, in halves, quarters and so on.
fn shrink(
    court: &mut Court<'_, '_>,
    cut: &mut Cut<'_>,
    mut lost: Bits,
    told: usize,
) -> Result<Bits, JudgeError> {
    let mut chunk = lost.count().div_ceil(2);
    while chunk > 0 {
        let parts: Vec<usize> = lost.iter().collect();
        for back in parts.chunks(chunk) {
            if court.is_over() {
                return Ok(lost);
            }
            let mut less = lost.clone();
            back.iter().for_each(|&at| less.remove(&cut.kept_with(at)));
            if less != lost && court.same(&cut.tree(&less), told)? {
                lost = less;
            }
        }
        chunk /= 2;
    }
    Ok(lost)
}

/// The first cut at which the loss of those of the parts that are there is bad, though the loss of
/// nothing is not, the fewest parts there, and the acknowledgements that had been given.
fn earliest<'a>(
    court: &mut Court<'_, '_>,
    model: &Posix,
    cut: Cut<'a>,
    lost: Bits,
    told: usize,
) -> Result<(Cut<'a>, Bits, usize), ExplainError> {
    let names: Vec<_> = lost.iter().map(|at| cut.name(at)).collect();
    let Some(first) = names.iter().map(|name| name.0).min() else {
        return Ok((cut, lost, told));
    };
    let mut early = model.cut(cut.recording(), first + 1)?;
    while early.calls() < cut.calls() && !court.is_over() {
        let parts = names.iter().filter_map(|&name| early.find(name));
        let lost = early.close(parts.collect::<Vec<_>>());
        let given = told.min(early.acknowledged());
        if court.is_promise && given < told {
            early.step()?;
            continue;
        }
        let told = given;
        let whole = early.tree(&early.close([]));
        let between = court.bad(&whole, told)?.is_some();
        if !between && court.same(&early.tree(&lost), told)? {
            let lost = smallest(court, &mut early, lost, told)?;
            return Ok((early, lost, told));
        }
        early.step()?;
    }
    Ok((cut, lost, told))
}

/// The calls that are acknowledgements, in the order in which they were given (call-C2).
fn promises(recording: &Recording) -> impl Iterator<Item = usize> + '_ {
    let calls = recording.calls.iter().enumerate();
    let promises = calls.filter(|(_, call)| matches!(call.what, What::Acknowledge(_)));
    promises.map(|(index, _)| index)
}

/// Kept parts without which the state would be good (E3), of calls behind the promise `given`: what
/// was done before it must not be lost, so that its loss would be bad in another way.
fn needed(
    court: &mut Court<'_, '_>,
    cut: &mut Cut<'_>,
    lost: &Bits,
    told: usize,
    given: Option<usize>,
) -> Result<Vec<usize>, JudgeError> {
    let mut all_lost = lost.clone();
    let is_later = |at: &usize| given.is_none_or(|given| cut.name(*at).0 > given);
    let kept: Vec<usize> = lost.others().iter().filter(is_later).collect();
    let mut chunk = kept.len().div_ceil(2);
    while chunk > 0 {
        for parts in kept.rchunks(chunk) {
            if court.is_over() {
                return Ok(Vec::new());
            }
            let mut more = all_lost.clone();
            parts.iter().for_each(|&at| more.add(&cut.lost_with(at)));
            if more != all_lost && court.bad(&cut.tree(&more), told)?.is_some() {
                all_lost = more;
            }
        }
        chunk /= 2;
    }
    let is_later = |at: &usize| given.is_none_or(|given| cut.name(*at).0 > given);
    Ok(all_lost.others().iter().filter(is_later).collect())
}
