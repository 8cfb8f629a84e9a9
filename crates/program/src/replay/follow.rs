//! The tree as it is while the program runs, without any cut.

use crate::call::{Attribute, Recording, What};
use crate::tree::{Node, Tree};

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
            tree.insert(*node, Node::new(crate::tree::Kind::File, *mode, *owner));
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
