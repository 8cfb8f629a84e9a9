//! The tree as it is while the program runs, without any cut.

use crate::call::{Attribute, Recording, What};
use crate::tree::{Kind, Node, NodeId, PAGE, Tree};
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

/// Carries a call out on a tree.
pub fn apply(tree: &mut Tree, what: &What) {
    match what {
        What::Create {
            dir,
            name,
            node,
            kind,
            mode,
            owner,
        } => {
            tree.insert(*node, Node::new(kind.clone(), *mode, *owner));
            tree.set_name(*dir, name, Some(*node));
        }
        What::CreateUnnamed { node, mode, owner } => {
            tree.insert(*node, Node::new(Kind::File, *mode, *owner));
        }
        What::Link { node, dir, name } => tree.set_name(*dir, name, Some(*node)),
        What::Unlink { dir, name, .. } => tree.set_name(*dir, name, None),
        What::Rename {
            from,
            to,
            node,
            replaced,
            exchange,
        } => {
            let left = replaced.filter(|_| *exchange);
            tree.set_name(from.0, &from.1, left);
            tree.set_name(to.0, &to.1, Some(*node));
        }
        What::Write {
            node, offset, data, ..
        } => {
            let end = offset + data.len() as u64;
            let size = tree.node(*node).map_or(0, |node| node.size);
            if end > size && !data.is_empty() {
                tree.set_size(*node, end);
            }
            tree.write(*node, *offset, data);
        }
        What::Truncate { node, size, .. } => tree.set_size(*node, *size),
        What::Allocate {
            node,
            offset,
            len,
            zero,
            size,
            ..
        } => {
            if *zero {
                tree.zero(*node, *offset, *len);
            }
            tree.set_size(*node, *size);
        }
        What::SetAttribute { node, attribute } => tree.edit(*node, |node| match attribute {
            Attribute::Mode(mode) => node.mode = *mode,
            Attribute::Owner(user, group) => node.owner = (*user, *group),
            Attribute::Xattr(name, Some(value)) => {
                node.xattrs.insert(name.clone(), value.clone());
            }
            Attribute::Xattr(name, None) => {
                node.xattrs.remove(name);
            }
        }),
        What::Sync { .. } | What::SyncAll | What::Acknowledge(_) => {}
    }
}
