//! Where nodes are in the tree: the directory and the name of each, the latest ones that it had.

use crate::call::{Recording, What};
use crate::tree::{NodeId, ROOT};
use std::collections::BTreeMap;

/// Most directories of a path that is told.
const DEPTH_MAX: usize = 64;

/// Directory and name of each node.
#[derive(Clone, Default)]
pub struct Places(BTreeMap<NodeId, (NodeId, Vec<u8>)>);

impl Places {
    /// Those before the first call.
    pub fn of_start(recording: &Recording) -> Places {
        let mut places = BTreeMap::new();
        recording.start.walk(&mut |_, id, node| {
            for (name, &child) in &node.names {
                places.insert(child, (id, name.clone()));
            }
        });
        Places(places)
    }

    /// Those in front of the call with this number.
    pub fn before(recording: &Recording, call: usize) -> Places {
        let mut places = Places::of_start(recording);
        let calls = recording.calls.iter().take(call);
        calls.for_each(|call| places.follow(&call.what));
        places
    }

    /// Follows a call.
    pub fn follow(&mut self, what: &What) {
        match what {
            What::Create {
                dir, name, node, ..
            }
            | What::Link { dir, name, node } => {
                self.0.insert(*node, (*dir, name.clone()));
            }
            What::Rename {
                from,
                to,
                node,
                replaced,
                exchange,
            } => {
                self.0.insert(*node, to.clone());
                if let (Some(replaced), true) = (replaced, exchange) {
                    self.0.insert(*replaced, from.clone());
                }
            }
            _ => (),
        }
    }

    /// Directory and name of a node.
    pub fn get(&self, node: NodeId) -> Option<&(NodeId, Vec<u8>)> {
        self.0.get(&node)
    }

    /// The path of a node.
    pub fn path(&self, node: NodeId) -> String {
        let mut parts = Vec::new();
        let mut at = node;
        while at != ROOT && parts.len() < DEPTH_MAX {
            match self.0.get(&at) {
                Some((dir, name)) => {
                    parts.push(base::plain::shown(name));
                    at = *dir;
                }
                None => break,
            }
        }
        if parts.is_empty() {
            let name = if node == ROOT {
                "."
            } else {
                "a file without a name"
            };
            return name.into();
        }
        parts.reverse();
        parts.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::Tape;

    #[test]
    fn a_path_is_that_in_front_of_the_call() {
        let mut tape = Tape::with(&[("old", b"x")]);
        tape.create("a.tmp", b"y");
        tape.rename("a.tmp", "a");
        let recording = tape.recording;
        let node = |name: &[u8]| crate::apply::complete(&recording).find(name).unwrap();
        let moved = recording
            .calls
            .iter()
            .position(|call| matches!(call.what, What::Rename { .. }))
            .unwrap();
        let path = |call| Places::before(&recording, call).path(node(b"a"));
        assert_eq!((path(moved), path(moved + 1)), ("a.tmp".into(), "a".into()));
        assert_eq!(Places::of_start(&recording).path(node(b"old")), "old");
        assert_eq!(Places::of_start(&recording).path(ROOT), ".");
    }
}
