//! Which syncs mend a program, and which of its syncs nothing needs: both are found by changing the
//! recording and exploring it again.
//!
//! - M1: a mend is told only if no state of any model is bad with it, within the bound of the
//!   exploration.
//! - M2: without any one of its sites some state is bad, and so it is without the syncs of a site
//!   that stand between the same calls (`narrow`), where there are at most `NARROWED_MAX` of these
//!   groups. A smaller set of other sites may exist.
//! - M3: the syncs that are not needed can all be left out together: the mended program without
//!   them has no bad state.
//! - M4: a finding that no sync mends does not hide the others: its states are passed over, which
//!   are those that are explained with its key, and the search goes on.
//!
//! A site is a place in the program (`sites`): a sync that lacks in one turn of a loop is added in
//! every turn.

mod edit;
mod narrow;

pub use edit::{mended, without};

use crate::call::{Recording, What};
use crate::explain::{Cause, ExplainError, Explanation, Judging, explain};
use crate::posix::Posix;
use crate::sites::{self, Insertion};
use crate::state::{Bound, JudgeError, Model, ModelError, State, Verdict, acknowledged};
use base::Map;
use std::collections::BTreeMap;
use std::fmt;

/// Most sites that are added.
const SITES_MAX: usize = 64;
/// Most findings that no sync mends, before the search for others ends.
const UNMENDED_MAX: usize = 8;
/// Most states that are explained to know whether they show a finding that no sync mends.
const EXPLAINED_MAX: usize = 200;
/// Most parts of sites that are left out by turns, each by an exploration of its own. A recording
/// of a long run has thousands.
const NARROWED_MAX: usize = 64;

/// A sync that the program lacks, at every call of one site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Added {
    /// The first of them in words: `before rename(db.tmp, db) (call 17): fdatasync(db.tmp)`.
    pub text: String,
    /// All of them, ascending.
    pub syncs: Vec<Insertion>,
}

/// Syncs of a program that nothing needs, of one site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needless {
    /// The first of them in words.
    pub text: String,
    /// Indices of the calls, ascending.
    pub calls: Vec<usize>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Suggestion {
    /// Syncs to add (M2). Empty if no state is bad, or nothing was found.
    pub added: Vec<Added>,
    /// Findings that no sync mends, those met first before others. Empty: with `added` no state is
    /// bad (M1); otherwise those states only are bad that show one of these (M4).
    pub unmended: Vec<Explanation>,
    /// Syncs to leave out (M3). Empty where `unmended` is not.
    pub needless: Vec<Needless>,
    /// States that were looked at, over all explorations.
    pub states: u64,
    /// States of one exploration that its bound left out, at most.
    pub beyond: u64,
}

impl Suggestion {
    /// How many syncs more the program makes in this recording: fsyncs and fdatasyncs. What they
    /// cost on a device is found by running [`mended`] there.
    pub fn extra(&self) -> (usize, usize) {
        let all = self.added.iter().flat_map(|added| &added.syncs);
        let (data_only, full): (Vec<_>, Vec<_>) = all.partition(|sync| sync.data_only);
        (full.len(), data_only.len())
    }
}

/// Where and by which models it is looked for.
pub struct Terms<'a> {
    /// What was recorded.
    pub recording: &'a Recording,
    /// Models none of whose states may be bad.
    pub models: &'a [&'a dyn Model],
    /// How far each exploration goes.
    pub bound: &'a Bound,
    /// The model by which findings are explained.
    pub posix: &'a Posix,
    /// Asked at each state and each judgement: false ends the search.
    pub go_on: &'a dyn Fn() -> bool,
}

/// Looks for the syncs that a program lacks, and for those that nothing needs.
///
/// # Errors
/// The judge or a model fails, or the search was ended.
pub fn suggest(terms: &Terms<'_>, judge: &mut Judging<'_>) -> Result<Suggestion, ExplainError> {
    let mut judge = |tree: &_, told: &[&str]| match (terms.go_on)() {
        true => judge(tree, told),
        false => Err(ended()),
    };
    let mut mender = Mender {
        terms,
        judge: &mut judge,
        verdicts: Map::default(),
        unmended: Vec::new(),
        explained: 0,
        searches: true,
        states: 0,
        beyond: 0,
    };
    let mut sites: BTreeMap<String, Added> = BTreeMap::new();
    loop {
        let syncs = all(sites.values());
        let recording = mended(terms.recording, &syncs);
        let Some(bad) = mender.first_bad(&recording)? else {
            break;
        };
        let finding = explain(terms.posix, &recording, &bad, &mut |tree, told| {
            (mender.judge)(tree, told)
        })?;
        let new = mender.new_sites(&finding, &syncs, &recording)?;
        for (key, added) in new {
            let site = sites.entry(key).or_insert_with(|| added.clone());
            site.syncs.extend(added.syncs);
            site.syncs.sort();
            site.syncs.dedup();
        }
        if sites.len() > SITES_MAX {
            mender.unmended.push(finding);
            break;
        }
        if all(sites.values()).len() == syncs.len() {
            mender.pass_over(finding, &bad);
            if mender.unmended.len() >= UNMENDED_MAX {
                break;
            }
        }
    }
    let mut added: Vec<Added> = sites.into_values().collect();
    added.sort_by_key(|site| site.syncs.first().cloned());
    mender.searches = false;
    let mut needless = Vec::new();
    if mender.is_through(&added) {
        added = mender.fewest(added)?;
        added = mender.without_idle(added)?;
        added = mender.narrower(added)?;
    }
    if mender.unmended.is_empty() {
        needless = mender.needless(&added)?;
    }
    Ok(Suggestion {
        added,
        unmended: mender.unmended,
        needless,
        states: mender.states,
        beyond: mender.beyond,
    })
}

fn ended() -> JudgeError {
    JudgeError("the search for syncs was ended".into())
}

fn all<'a>(sites: impl IntoIterator<Item = &'a Added>) -> Vec<Insertion> {
    let syncs = sites
        .into_iter()
        .flat_map(|site| site.syncs.iter().cloned());
    let mut syncs: Vec<Insertion> = syncs.collect();
    syncs.sort();
    syncs.dedup();
    syncs
}

struct Mender<'a, 'j> {
    terms: &'a Terms<'a>,
    judge: &'a mut Judging<'j>,
    /// Whether a tree is bad, by its hash and the number of acknowledgements: inserted syncs change
    /// neither.
    verdicts: Map<(u64, usize), bool>,
    /// Findings that are passed over (M4), and how many states were explained for that.
    unmended: Vec<Explanation>,
    explained: usize,
    /// Syncs are still being added.
    searches: bool,
    states: u64,
    beyond: u64,
}

impl Mender<'_, '_> {
    /// The first bad state of any model.
    fn first_bad(&mut self, recording: &Recording) -> Result<Option<State>, ExplainError> {
        let told = acknowledged(recording, recording.calls.len());
        for model in self.terms.models {
            let mut bad = None;
            let mut failure: Option<JudgeError> = None;
            let mut failed: Option<ExplainError> = None;
            let counts = model.explore(recording, self.terms.bound, &mut |state| {
                // Many states are known, so that no judge is asked.
                if !(self.terms.go_on)() {
                    failure = Some(ended());
                    return false;
                }
                let key = (state.tree.hash(), state.acknowledged);
                let is_bad = match self.verdicts.get(&key) {
                    Some(&is_bad) => is_bad,
                    None => match (self.judge)(&state.tree, &told[..state.acknowledged]) {
                        Ok(verdict) => verdict != Verdict::Good,
                        Err(error) => {
                            failure = Some(error);
                            return false;
                        }
                    },
                };
                self.verdicts.insert(key, is_bad);
                if !is_bad {
                    return true;
                }
                match self.shows_unmended(recording, &state) {
                    Ok(true) => {
                        // Known by its tree from now on.
                        self.verdicts.insert(key, false);
                        true
                    }
                    Ok(false) => {
                        bad = Some(state);
                        false
                    }
                    Err(error) => {
                        failed = Some(error);
                        false
                    }
                }
            })?;
            if let Some(failed) = failed {
                return Err(failed);
            }
            self.states += counts.states;
            self.beyond = self.beyond.max(counts.beyond);
            if let Some(failure) = failure {
                return Err(failure.into());
            }
            if bad.is_some() {
                return Ok(bad);
            }
        }
        Ok(None)
    }

    /// Passes over a finding from now on, and over the state that showed it.
    fn pass_over(&mut self, finding: Explanation, bad: &State) {
        let key = (bad.tree.hash(), bad.acknowledged);
        self.verdicts.insert(key, false);
        if self.unmended.iter().all(|known| known.key != finding.key) {
            self.unmended.push(finding);
        }
    }

    /// Whether a bad state shows a finding that is passed over (M4). Where too many were explained,
    /// each counts as one that ends the search for more, and as none that could show a sync to be
    /// idle.
    fn shows_unmended(
        &mut self,
        recording: &Recording,
        state: &State,
    ) -> Result<bool, ExplainError> {
        if self.unmended.is_empty() || self.explained >= EXPLAINED_MAX {
            return Ok(self.searches && !self.unmended.is_empty());
        }
        self.explained += 1;
        let judge = &mut *self.judge;
        let finding = explain(self.terms.posix, recording, state, &mut |tree, told| {
            judge(tree, told)
        })?;
        Ok(self.unmended.iter().any(|known| known.key == finding.key))
    }

    /// Whether the search has come to its end, so that what was added is enough.
    fn is_through(&self, added: &[Added]) -> bool {
        added.len() <= SITES_MAX && self.unmended.len() < UNMENDED_MAX
    }

    fn is_good(&mut self, recording: &Recording) -> Result<bool, ExplainError> {
        Ok(self.first_bad(recording)?.is_none())
    }

    /// The sites that a finding names, each with its syncs in the whole recording.
    fn new_sites(
        &self,
        finding: &Explanation,
        syncs: &[Insertion],
        recording: &Recording,
    ) -> Result<Vec<(String, Added)>, ModelError> {
        if matches!(finding.cause, Cause::Between | Cause::Other) {
            return Ok(Vec::new());
        }
        let mut sites = Vec::new();
        for lack in &finding.lacks {
            let before = edit::original(self.terms.recording, syncs, lack.before);
            let first = Insertion {
                before,
                ..lack.clone()
            };
            let place = sites::call(self.terms.recording, before);
            let key = format!(
                "{} {first}",
                (recording.calls.get(lack.before)).map_or_else(String::new, sites::site)
            );
            let added = Added {
                text: format!("before {place}: {first}"),
                syncs: edit::everywhere(self.terms.posix, self.terms.recording, &first)?,
            };
            sites.push((sites::without_numbers(&key), added));
        }
        Ok(sites)
    }

    /// Without the sites that the others make needless (M2).
    fn fewest(&mut self, mut added: Vec<Added>) -> Result<Vec<Added>, ExplainError> {
        let mut at = added.len();
        while at > 0 {
            at -= 1;
            let site = added.remove(at);
            if !self.is_good(&mended(self.terms.recording, &all(&added)))? {
                added.insert(at, site);
            }
        }
        Ok(added)
    }

    /// Without the parts of sites that the others make needless (M2), if they are not too many.
    fn narrower(&mut self, added: Vec<Added>) -> Result<Vec<Added>, ExplainError> {
        let recording = self.terms.recording;
        let mut parts = narrow::parts(recording, &added);
        if parts.len() > NARROWED_MAX {
            return Ok(added);
        }
        let mut at = parts.len();
        while at > 0 {
            at -= 1;
            let part = parts.remove(at);
            let is_whole = parts.iter().all(|other| other.site != part.site);
            let syncs = all(parts.iter().map(|part| &part.added));
            if is_whole || !part.inside || !self.is_good(&mended(recording, &syncs))? {
                parts.insert(at, part);
            }
        }
        Ok(narrow::joined(recording, parts))
    }

    /// Without the syncs that find nothing to sync by the rules of `posix`, if the other models
    /// need none of them (M1).
    fn without_idle(&mut self, added: Vec<Added>) -> Result<Vec<Added>, ExplainError> {
        let mut fewer = added.clone();
        edit::drop_idle(self.terms.posix, self.terms.recording, &mut fewer)?;
        let good = fewer == added || self.is_good(&mended(self.terms.recording, &all(&fewer)))?;
        Ok(if good { fewer } else { added })
    }

    /// The program's own syncs that can be left out (M3).
    fn needless(&mut self, added: &[Added]) -> Result<Vec<Needless>, ExplainError> {
        let recording = self.terms.recording;
        let mut own: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, call) in recording.calls.iter().enumerate() {
            let whole = matches!(call.what, What::Sync { failed: None, .. } | What::SyncAll);
            if whole {
                own.entry(sites::site(call)).or_default().push(index);
            }
        }
        let mut own: Vec<Vec<usize>> = own.into_values().collect();
        own.sort();
        let mut left_out = Vec::new();
        let mut needless = Vec::new();
        let syncs = all(added);
        for calls in own.into_iter().rev() {
            let mut more: Vec<usize> = left_out.clone();
            more.extend(&calls);
            if self.is_good(&without(recording, &syncs, &more))? {
                left_out = more;
                needless.push(Needless {
                    text: sites::call(recording, calls[0]),
                    calls,
                });
            }
        }
        needless.reverse();
        Ok(needless)
    }
}

impl fmt::Display for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.syncs.len() {
            0 | 1 => Ok(()),
            times => write!(f, " ({times} times in this recording)"),
        }
    }
}

impl fmt::Display for Needless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = self.calls.len();
        write!(f, "{}: not needed in this recording", self.text)?;
        if times > 1 {
            write!(f, " ({times} times)")?;
        }
        Ok(())
    }
}
