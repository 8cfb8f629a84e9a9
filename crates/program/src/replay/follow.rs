//! The tree as it is while the program runs, without any cut.

use crate::apply::apply;
use crate::call::{Recording, What};
use crate::tree::{NodeId, PAGE, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// The tree after some of the calls.
pub struct Follower<'a> {
    recording: &'a Recording,
    done: usize,
    tree: Tree,
}

impl<'a> Follower<'a> {
    /// The tree of the begin.
    pub fn new(recording: &'a Recording) -> Follower<'a> {
        Follower {
            recording,
            done: 0,
            tree: recording.start.clone(),
        }
    }

    /// The tree after the first `calls` calls, and not before an earlier answer.
    pub fn after(&mut self, calls: usize) -> &Tree {
        while self.done < calls {
            apply(&mut self.tree, &self.recording.calls[self.done].what);
            self.done += 1;
        }
        &self.tree
    }
}

/// The recording without the content that failed syncs gave up for good (replay-B8); `None` if
/// there is no such content. Calls keep their indices.
pub fn given_up(recording: &Recording) -> Option<Recording> {
    let mut waiting: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    let mut lost = BTreeSet::new();
    for (n, call) in recording.calls.iter().enumerate() {
        match &call.what {
            What::Write { node, .. } => waiting.entry(*node).or_default().push(n),
            What::Sync { node, failed, .. } => {
                let writes = waiting.remove(node).unwrap_or_default();
                lost.extend(writes.into_iter().filter(|_| failed.is_some()));
            }
            What::SyncAll => waiting.clear(),
            _ => {}
        }
    }
    lost.retain(|&n| !touched_later(recording, n));
    let mut without = recording.clone();
    for n in &lost {
        if let What::Write {
            node,
            offset,
            data,
            size_before,
        } = &recording.calls[*n].what
        {
            let end = offset + data.len() as u64;
            without.calls[*n].what = What::Truncate {
                node: *node,
                size: end.max(*size_before),
                size_before: *size_before,
            };
        }
    }
    (!lost.is_empty()).then_some(without)
}

/// Whether a later call changes a page of a write, and with it writes all that the page holds in
/// memory once more.
fn touched_later(recording: &Recording, write: usize) -> bool {
    let pages = |offset: u64, len: usize| offset / PAGE..(offset + len as u64).div_ceil(PAGE);
    let What::Write {
        node: id,
        offset,
        data,
        ..
    } = &recording.calls[write].what
    else {
        return false;
    };
    let mine = pages(*offset, data.len());
    let mut later = recording.calls[write + 1..].iter();
    later.any(|call| match &call.what {
        What::Write {
            node, offset, data, ..
        } => {
            let its = pages(*offset, data.len());
            node == id && its.start < mine.end && mine.start < its.end
        }
        What::Truncate { node, .. } | What::Allocate { node, .. } => node == id,
        _ => false,
    })
}
