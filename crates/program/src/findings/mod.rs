//! What was found, for people and for machines.
//!
//! ```text
//! Explored --explain, gather--> Finding (one for each mistake) --Report--> text, JSON, JUnit, page, annotations
//!                                                                  `-----> a folder each: trees before and after
//! ```
//!
//! A mistake of a program shows in many states of several models. States whose explanations have
//! one key are one finding, of which the smallest state is shown, and each model says how often it
//! leaves it.

mod device;
mod export;
mod lanes;
mod page;
mod report;
mod text;

pub use device::of_device;
pub use export::{github, junit};
pub use lanes::{Fate, Lanes, Row};
pub use page::page;
pub use report::{Context, InModel, OfFinding, OfModelReport, Report};
pub use text::text;

use crate::apply::apply;
use crate::call::Recording;
use crate::explore::{Bad, Explored};
use crate::judge::folder;
use crate::state::{JudgeError, State};
use std::collections::BTreeMap;
use std::path::Path;

/// Why a state is bad, in words of system calls.
#[derive(Clone, Debug)]
pub struct Told {
    /// Equal for states that show one mistake.
    pub key: String,
    /// The mistake.
    pub sentence: String,
    /// What the judge says.
    pub why: String,
    /// The smallest state that shows it.
    pub state: State,
    /// Calls of which something is lost, ascending.
    pub lost: Vec<usize>,
    /// Calls whose being durable makes it bad, ascending.
    pub kept: Vec<usize>,
    /// The acknowledgement that is broken.
    pub promise: Option<usize>,
    /// Syncs that lack, in words.
    pub lacks: Vec<String>,
    /// Equal for mistakes that the same syncs mend, in front of the same site.
    pub mend: Option<String>,
    /// No cut has made the state: it is there because calls failed.
    pub without_cut: bool,
}

/// A mistake of the program.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What it is.
    pub told: Told,
    /// The models that leave it, in their order.
    pub of: Vec<InModel>,
}

/// What can be said of a state without looking at others.
pub fn plainly(bad: &Bad) -> Told {
    let lost: Vec<String> = bad.state.lost.iter().map(ToString::to_string).collect();
    let calls = bad.state.calls;
    let sentence = match lost.len() {
        0 => format!("a cut after {calls} calls leaves a tree that the judge rejects"),
        1..=3 => format!("after {calls} calls this may be lost: {}", lost.join(", ")),
        n => format!(
            "after {calls} calls this may be lost: {}, and {} parts more",
            lost[..3].join(", "),
            n - 3
        ),
    };
    let mut calls: Vec<usize> = bad.state.lost.iter().map(|part| part.call).collect();
    calls.dedup();
    Told {
        key: bad.group.clone(),
        sentence,
        why: bad.why.to_string(),
        state: bad.state.clone(),
        lost: calls,
        kept: Vec::new(),
        promise: None,
        lacks: Vec::new(),
        mend: None,
        without_cut: false,
    }
}

/// One finding for each mistake, those of the earliest cuts first: equal keys of the explanations,
/// or, where they say what lacks, the same syncs in front of the same site.
pub fn gather(explored: &Explored, explain: &mut dyn FnMut(usize, &Bad) -> Told) -> Vec<Finding> {
    let mut by_key: BTreeMap<String, Finding> = BTreeMap::new();
    for (nr, model) in explored.models.iter().enumerate() {
        for bad in &model.kept {
            let told = explain(nr, bad);
            let here = InModel {
                model: model.name.clone(),
                states: bad.alike,
                line: bad.state.line.clone(),
            };
            let key = told.mend.as_ref().unwrap_or(&told.key).clone();
            match by_key.get_mut(&key) {
                None => {
                    let of = vec![here];
                    by_key.insert(key, Finding { told, of });
                }
                Some(finding) => {
                    match finding.of.iter_mut().find(|of| of.model == here.model) {
                        Some(of) => of.states += here.states,
                        None => finding.of.push(here),
                    }
                    let size = |told: &Told| (told.state.lost.len(), told.state.calls);
                    if size(&told) < size(&finding.told) {
                        finding.told = told;
                    }
                }
            }
        }
    }
    let mut findings: Vec<Finding> = by_key.into_values().collect();
    // What needs no cut comes first.
    findings.sort_by_key(|finding| (!finding.told.without_cut, finding.told.state.calls));
    findings
}

/// Writes the trees of a finding into a folder: `before`, as the program saw it when the power
/// went, and `after`, as it finds it again.
///
/// # Errors
/// The host refuses.
pub fn save_trees(recording: &Recording, finding: &Finding, to: &Path) -> Result<(), JudgeError> {
    let mut before = recording.start.clone();
    let state = &finding.told.state;
    for call in recording.calls.iter().take(state.calls) {
        apply(&mut before, &call.what);
    }
    folder::save(&before, &to.join("before"), to)?;
    folder::save(&state.tree, &to.join("after"), to)
}

#[cfg(test)]
pub(crate) mod tests;
