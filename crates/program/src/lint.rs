//! What was not synced when a program promised something, without exploring: at each
//! acknowledgement every part whose loss alone would change what a user finds, and, at each rename
//! over a file, content of the new file that the rename may overtake.

use crate::call::{Recording, What, Who};
use crate::posix::{Class, Cut, Posix};
use crate::sites::{self, Insertion};
use crate::state::ModelError;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What was unsynced at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lint {
    /// Index of the call that is the moment.
    pub call: usize,
    /// The moment, in words.
    pub moment: String,
    /// What was unsynced, by calls, ascending. Each is told at the first acknowledgement only.
    pub unsynced: Vec<Unsynced>,
}

/// What one call left unsynced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsynced {
    /// Index of the call.
    pub call: usize,
    /// Who made it.
    pub who: Who,
    /// What is unsynced: `4096 bytes of db from 0 on`.
    pub what: String,
    /// The call, in words.
    pub by: String,
    /// The sync that lacks.
    pub lacks: Insertion,
}

/// Everything that is unsynced at an acknowledgement or under a rename.
///
/// # Errors
/// The recording names a node that it never made.
pub fn lint(model: &Posix, recording: &Recording) -> Result<Vec<Lint>, ModelError> {
    let mut lints = Vec::new();
    let mut told = BTreeSet::new();
    let mut cut = model.cut(recording, 0)?;
    for (index, call) in recording.calls.iter().enumerate() {
        let parts = match &call.what {
            What::Acknowledge(_) => acknowledged(&mut cut, &mut told),
            What::Rename {
                node,
                replaced: Some(_),
                exchange: false,
                ..
            } => (0..cut.len())
                .filter(|&at| {
                    let (class, subject) = cut.class(at);
                    subject == *node && matches!(class, Class::Content | Class::Size)
                })
                .collect(),
            _ => Vec::new(),
        };
        if !parts.is_empty() {
            lints.push(Lint {
                call: index,
                moment: sites::call(recording, index),
                unsynced: unsynced(&cut, recording, &parts, index),
            });
        }
        cut.step()?;
    }
    Ok(lints)
}

/// The parts of a cut whose loss a user would see and that were not told before.
fn acknowledged(cut: &mut Cut<'_>, told: &mut BTreeSet<(usize, usize)>) -> Vec<usize> {
    let nothing_lost = cut.tree(&cut.close([])).hash();
    let mut parts = Vec::new();
    for at in 0..cut.len() {
        if told.insert(cut.name(at)) {
            let lost = cut.lost_with(at);
            if cut.tree(&lost).hash() != nothing_lost {
                parts.push(at);
            }
        }
    }
    parts
}

/// One entry for each call and kind of thing.
fn unsynced(cut: &Cut<'_>, recording: &Recording, parts: &[usize], moment: usize) -> Vec<Unsynced> {
    let mut groups: BTreeMap<(usize, Class), Vec<usize>> = BTreeMap::new();
    for &at in parts {
        let (class, _) = cut.class(at);
        groups.entry((cut.name(at).0, class)).or_default().push(at);
    }
    let entries = groups.into_iter().map(|((call, _), parts)| Unsynced {
        call,
        who: recording.calls[call].who.clone(),
        what: cut.words(&parts),
        by: sites::call(recording, call),
        lacks: cut.lacks(parts[0], moment),
    });
    entries.collect()
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}:", self.moment)?;
        for one in &self.unsynced {
            let many = one.what.starts_with(|c: char| c.is_ascii_digit());
            let verb = if many { "are" } else { "is" };
            let Unsynced {
                what, by, lacks, ..
            } = one;
            write!(f, "\n  {what}, by {by}, {verb} not synced: {lacks} lacks")?;
        }
        Ok(())
    }
}
