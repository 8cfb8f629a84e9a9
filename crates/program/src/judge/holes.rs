//! What files lack because writes failed: ranges that no later write has made good.

use crate::call::What;
use crate::record::Word;
use crate::tree::NodeId;
use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of bytes of each file that were to be written and are not.
#[derive(Default)]
pub struct Holes(BTreeMap<NodeId, Vec<Range<u64>>>);

impl Holes {
    /// Follows a call.
    pub fn follow(&mut self, what: &What) {
        match what {
            What::Failed {
                call: Word::Write,
                node: Some(node),
                offset,
                len,
                ..
            } => {
                let holes = self.0.entry(*node).or_default();
                holes.push(*offset..offset.saturating_add(*len));
            }
            What::Write {
                node, offset, data, ..
            } => self.fill(*node, &(*offset..offset + data.len() as u64)),
            What::Truncate { node, size, .. } => self.fill(*node, &(*size..u64::MAX)),
            _ => {}
        }
    }

    /// Whether a file lacks anything.
    pub fn are_in(&self, node: Option<NodeId>) -> bool {
        node.is_some_and(|node| self.0.contains_key(&node))
    }

    fn fill(&mut self, node: NodeId, with: &Range<u64>) {
        let Some(holes) = self.0.get_mut(&node) else {
            return;
        };
        let rest = |hole: Range<u64>| {
            let before = hole.start..hole.end.min(with.start);
            let behind = hole.start.max(with.end)..hole.end;
            [before, behind].into_iter().filter(|part| !part.is_empty())
        };
        *holes = std::mem::take(holes).into_iter().flat_map(rest).collect();
        if holes.is_empty() {
            self.0.remove(&node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Bytes;

    const NODE: NodeId = NodeId(3);

    fn failed(offset: u64, len: u64) -> What {
        What::Failed {
            call: Word::Write,
            error: 28,
            node: Some(NODE),
            offset,
            len,
        }
    }

    fn write(offset: u64, len: usize) -> What {
        What::Write {
            node: NODE,
            offset,
            data: Bytes::from(vec![1; len]),
            size_before: 0,
        }
    }

    fn lacks(calls: &[What]) -> bool {
        let mut holes = Holes::default();
        calls.iter().for_each(|what| holes.follow(what));
        holes.are_in(Some(NODE))
    }

    #[test]
    fn a_hole_stays_until_it_is_filled() {
        assert!(lacks(&[failed(10, 10)]));
        assert!(!lacks(&[failed(10, 10), write(0, 20)]));
        assert!(lacks(&[failed(10, 10), write(0, 19)]));
        assert!(!lacks(&[failed(10, 10), write(15, 9), write(10, 5)]));
        assert!(lacks(&[failed(10, 10), write(12, 4)]), "both ends are left");
        let truncate = |size| What::Truncate {
            node: NODE,
            size,
            size_before: 30,
        };
        assert!(!lacks(&[failed(10, 10), truncate(10)]));
        assert!(lacks(&[failed(10, 10), truncate(11)]));
    }

    #[test]
    fn other_files_and_other_calls_lack_nothing() {
        let mut holes = Holes::default();
        holes.follow(&failed(0, 5));
        assert!(!holes.are_in(Some(NodeId(4))) && !holes.are_in(None));
        let mut other = failed(0, 5);
        if let What::Failed { call, .. } = &mut other {
            *call = Word::Unlink;
        }
        assert!(!lacks(&[other]));
    }
}
