//! The words of an explanation.

use super::{Cause, Explanation, held};
use crate::call::Recording;
use crate::posix::{Bits, Class, Cut, Posix};
use crate::sites::{self, Insertion};
use crate::state::{ModelError, State};
use crate::tree::{Node, Tree};
use base::plain::shown;
use std::collections::{BTreeMap, BTreeSet};

/// Differences of a state that are told.
const SHOWN: usize = 4;

/// What was found: a cut, and its parts by their numbers.
pub(super) struct Found<'a> {
    pub cut: Cut<'a>,
    pub lost: Bits,
    pub kept: Vec<usize>,
    /// The acknowledgement that is broken.
    pub promise: Option<usize>,
    /// How many had been given, as far as it matters.
    pub told: usize,
    pub why: String,
}

/// Says what was found.
pub(super) fn explanation(found: Found<'_>) -> Explanation {
    let Found {
        mut cut,
        lost,
        kept,
        promise,
        told,
        why,
    } = found;
    let recording = cut.recording();
    let mut state = cut.state(&lost);
    state.acknowledged = told;
    let makers = cut.makers(&lost);
    let kept = last_of(&cut, &kept);
    let calls = |parts: &[usize]| -> Vec<usize> {
        let calls: BTreeSet<usize> = parts.iter().map(|&at| cut.name(at).0).collect();
        calls.into_iter().collect()
    };
    let (lost_calls, kept_calls) = (calls(&makers), calls(&kept));
    let cause = match (lost_calls.is_empty(), promise, kept_calls.is_empty()) {
        (true, _, _) => Cause::Between,
        (_, Some(_), _) => Cause::Promise,
        (_, None, false) => Cause::Order,
        (_, None, true) => Cause::Loss,
    };
    let before = match cause {
        Cause::Promise => promise,
        Cause::Order => first_behind(&kept_calls, &lost_calls),
        Cause::Loss => lost_calls.last().map(|call| call + 1),
        Cause::Between | Cause::Other => None,
    };
    let lacks = before.map_or_else(Vec::new, |before| lacking(&cut, &makers, before));
    let words = Words {
        recording,
        cut: &cut,
        lost: &makers,
        kept: &kept,
        lacks: &lacks,
    };
    let sentence = words.sentence(cause, promise, &state);
    let key = words.key(cause, promise, &state);
    Explanation {
        cause,
        state,
        why,
        lost: lost_calls,
        kept: kept_calls,
        promise,
        lacks,
        sentence,
        key,
    }
}

/// The first of the durable calls that comes behind a lost one: each of them is needed for the
/// state, so a sync in front of that one mends it. If all come before what is lost, the first.
fn first_behind(kept: &[usize], lost: &[usize]) -> Option<usize> {
    let first = lost.first()?;
    let behind = kept.iter().find(|&call| call > first);
    behind.or(kept.first()).copied()
}

/// Parts that no other of them needs.
fn last_of(cut: &Cut<'_>, parts: &[usize]) -> Vec<usize> {
    let alone = |&at: &usize| {
        let with = cut.lost_with(at);
        with.iter()
            .all(|other| other == at || !parts.contains(&other))
    };
    parts.iter().copied().filter(alone).collect()
}

/// The syncs in front of `before` that would keep lost parts. For what is lost of a later call
/// there is none.
fn lacking(cut: &Cut<'_>, lost: &[usize], before: usize) -> Vec<Insertion> {
    let earlier = lost.iter().filter(|&&at| cut.name(at).0 < before);
    let lacks: BTreeSet<Insertion> = earlier.map(|&at| cut.lacks(at, before)).collect();
    lacks.into_iter().collect()
}

struct Words<'a, 'c> {
    recording: &'a Recording,
    cut: &'a Cut<'c>,
    lost: &'a [usize],
    kept: &'a [usize],
    lacks: &'a [Insertion],
}

impl Words<'_, '_> {
    fn sentence(&self, cause: Cause, promise: Option<usize>, state: &State) -> String {
        let lost = self.parts(self.lost);
        let call = |index| sites::call(self.recording, index);
        match cause {
            Cause::Promise => {
                let promise = call(promise.unwrap_or(state.calls));
                format!(
                    "{promise} was given while {lost} could still be lost; {}",
                    self.missing()
                )
            }
            Cause::Order => {
                let kept = self.parts(self.kept);
                let (is, may) = (self.verb(self.kept), self.verb(self.lost));
                format!(
                    "{kept} {is} durable and {lost} {may} not; {}",
                    self.missing()
                )
            }
            Cause::Loss => format!("{lost} can be lost; {}", self.missing()),
            Cause::Between => match state.calls.checked_sub(1) {
                Some(last) => format!(
                    "a cut right after {} is bad even if nothing is lost: no sync mends that, the change has to be made in \
                     one step (write a new file, sync it, rename it over the old one)",
                    call(last)
                ),
                None => "the tree is bad before the first call".into(),
            },
            Cause::Other => String::new(),
        }
    }

    fn verb(&self, parts: &[usize]) -> &'static str {
        if self.groups(parts).len() > 1 || self.counts_bytes(parts) {
            "are"
        } else {
            "is"
        }
    }

    fn counts_bytes(&self, parts: &[usize]) -> bool {
        parts
            .iter()
            .any(|&at| self.cut.class(at).0 == Class::Content)
    }

    /// Parts by calls; of a call with content, the content only.
    fn groups(&self, parts: &[usize]) -> BTreeMap<usize, Vec<usize>> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &at in parts {
            groups.entry(self.cut.name(at).0).or_default().push(at);
        }
        for parts in groups.values_mut() {
            let content = |at: &usize| self.cut.class(*at).0 == Class::Content;
            if parts.iter().any(content) {
                parts.retain(content);
            }
        }
        groups
    }

    /// The first groups in words; how many others there are.
    fn parts(&self, parts: &[usize]) -> String {
        let groups = self.groups(parts);
        let words = groups.iter().take(3).map(|(&call, parts)| {
            let what = self.cut.words(parts);
            format!("{what}, by {},", sites::call(self.recording, call))
        });
        let mut text = words.collect::<Vec<_>>().join(" and ");
        if groups.len() > 3 {
            text.push_str(&format!(" and parts of {} more calls", groups.len() - 3));
        }
        text
    }

    fn missing(&self) -> String {
        let Some(first) = self.lacks.first() else {
            return "no sync can stand between them: the change has to be made in one step (write a new file, sync it, \
                    rename it over the old one)"
                .into();
        };
        let lacks: Vec<String> = self.lacks.iter().map(Insertion::to_string).collect();
        let before = sites::call(self.recording, first.before);
        format!("no {} comes before {before}", lacks.join(" and "))
    }

    fn key(&self, cause: Cause, promise: Option<usize>, state: &State) -> String {
        let site = |index: usize| {
            let call = self.recording.calls.get(index);
            call.map_or_else(|| "the end".into(), sites::site)
        };
        let sites = |parts: &[usize]| {
            let sites: BTreeSet<String> = (parts.iter())
                .map(|&at| {
                    let kind = match self.cut.class(at).0 {
                        Class::Content | Class::Size => "data",
                        Class::Name => "name",
                        Class::Attribute => "attribute",
                    };
                    format!("{kind} of {}", site(self.cut.name(at).0))
                })
                .collect();
            sites.into_iter().collect::<Vec<_>>().join(", ")
        };
        let lost = sites(self.lost);
        match cause {
            Cause::Promise => format!("{lost} < {}", site(promise.unwrap_or(state.calls))),
            Cause::Order => format!("{lost} < {}", sites(self.kept)),
            Cause::Loss => lost,
            Cause::Between => format!(
                "after {}",
                state.calls.checked_sub(1).map_or_else(String::new, site)
            ),
            Cause::Other => String::new(),
        }
    }
}

/// A state that no state of `posix` equals: what differs from the tree with nothing lost.
pub(super) fn other(
    model: &Posix,
    recording: &Recording,
    state: &State,
    why: String,
) -> Result<Explanation, ModelError> {
    let mut cut = model.cut(recording, super::covered(recording, state))?;
    let whole = cut.tree(&cut.close([]));
    let differences = differences(&whole, &state.tree);
    let lost: BTreeSet<usize> = state.lost.iter().map(|part| part.call).collect();
    let last = state.calls.saturating_sub(1);
    let is_lost = match state.lost.is_empty() {
        true => "",
        false => " this is lost",
    };
    let when = match state.under_way {
        true => "in the middle of",
        false => "behind",
    };
    let sentence = format!(
        "after a cut {when} {}{is_lost}: {}",
        sites::call(recording, last),
        differing(recording, state, &differences).join("; ")
    );
    let paths = differences.iter().map(|text| sites::without_numbers(text));
    Ok(Explanation {
        cause: Cause::Other,
        state: state.clone(),
        why,
        lost: lost.into_iter().collect(),
        kept: Vec::new(),
        promise: None,
        lacks: Vec::new(),
        key: paths
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
            .join("; "),
        sentence,
    })
}

/// What a state lacks, with the calls whose part it is where the model knows them; else how its
/// tree differs.
fn differing(recording: &Recording, state: &State, differences: &[String]) -> Vec<String> {
    let mut by_call: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for part in &state.lost {
        by_call.entry(part.call).or_default().push(&part.what);
    }
    if by_call.is_empty() {
        return differences.iter().take(SHOWN).cloned().collect();
    }
    let words = by_call.iter().take(SHOWN).map(|(&call, parts)| {
        let more = match parts.len() {
            1 => String::new(),
            count => format!(" and {} parts more", count - 1),
        };
        let by = sites::call(recording, call);
        let held = held::in_place_of(recording, state, call);
        let held = held.map(|held| format!(", where {held}"));
        format!("{}{more}, by {by}{}", parts[0], held.unwrap_or_default())
    });
    words.collect()
}

/// How a tree differs from what would be there if nothing was lost, by paths.
pub fn differences(whole: &Tree, found: &Tree) -> Vec<String> {
    let paths = |tree: &Tree| {
        let mut paths = BTreeSet::new();
        tree.walk(&mut |path, _, _| {
            paths.insert(path.to_vec());
        });
        paths
    };
    let (before, after) = (paths(whole), paths(found));
    let mut differences = Vec::new();
    for path in before.union(&after) {
        let name = shown(path);
        let node = |tree: &Tree| tree.find(path).and_then(|id| tree.node(id).cloned());
        match (node(whole), node(found)) {
            (Some(_), None) => differences.push(format!("{name} is missing")),
            (None, Some(_)) => differences.push(format!("{name} is there still, or again")),
            (Some(whole), Some(found)) => differences.extend(difference(&name, &whole, &found)),
            (None, None) => (),
        }
    }
    differences
}

fn difference(name: &str, whole: &Node, found: &Node) -> Option<String> {
    if whole.kind != found.kind {
        return Some(format!("{name} is {:?}", found.kind));
    }
    if whole.size != found.size {
        return Some(format!(
            "{name} has {} bytes, not {}",
            found.size, whole.size
        ));
    }
    let pages: BTreeSet<&u64> = whole.pages.keys().chain(found.pages.keys()).collect();
    let other = pages
        .into_iter()
        .find(|page| whole.pages.get(page) != found.pages.get(page));
    if let Some(page) = other {
        return Some(format!(
            "{name} has other bytes from {} on",
            page * crate::tree::PAGE
        ));
    }
    let same = whole.mode == found.mode && whole.owner == found.owner;
    (!same || whole.xattrs != found.xattrs).then(|| format!("{name} has other attributes"))
}
