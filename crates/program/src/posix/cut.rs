//! A moment of a cut: which sets of lost parts are legal, and the tree that each leaves.
//!
//! - U1: a set of lost parts is legal if it holds, with a part, every part that needs it. Unions
//!   of legal sets are legal, so the closures of single parts make all of them.

use super::bits::Bits;
use super::parts::{Class, seen};
use super::track::{Part, Track};
use crate::call::{Recording, What};
use crate::sites::Insertion;
use crate::state::{self, ModelError, State};
use crate::tree::{Node, NodeId, Tree};
use base::Map;
use std::sync::Arc;

/// Most nodes that are kept of each file for further states.
const KEPT_MAX: usize = 4096;

/// A recording followed up to some call, with the parts that a cut there may lose. Parts are
/// numbered here from 0 on in the order of the calls, without those that are durable.
pub struct Cut<'a> {
    pub(super) track: Track<'a>,
    /// With each part all that need it.
    ups: Vec<Bits>,
    /// With each part all that it needs.
    downs: Vec<Bits>,
    /// Nodes that parts change, with the numbers of those.
    nodes: Vec<(NodeId, Vec<usize>)>,
    /// Nodes that were made, by their lost parts.
    made: Map<NodeId, Map<Bits, Arc<Node>>>,
}

impl<'a> Cut<'a> {
    /// A cut where the track stands.
    pub(super) fn new(track: Track<'a>) -> Cut<'a> {
        let mut cut = Cut {
            track,
            ups: Vec::new(),
            downs: Vec::new(),
            nodes: Vec::new(),
            made: Map::default(),
        };
        cut.refresh();
        cut
    }

    /// Follows the track after it has moved.
    pub(super) fn refresh(&mut self) {
        let dirty = &self.track.dirty;
        let count = dirty.len();
        let position = |part: &usize| dirty.binary_search(part).ok();
        let needs: Vec<Vec<usize>> = (dirty.iter())
            .map(|&part| {
                let needs = self.track.parts[part].needs.iter();
                needs.filter_map(position).collect()
            })
            .collect();
        let single = |at| {
            let mut bits = Bits::none(count);
            bits.set(at);
            bits
        };
        self.downs = (0..count).map(single).collect();
        self.ups = self.downs.clone();
        for (at, needs) in needs.iter().enumerate() {
            let (before, this) = self.downs.split_at_mut(at);
            needs.iter().for_each(|&need| this[0].add(&before[need]));
        }
        for (at, needs) in needs.iter().enumerate().rev() {
            let (before, this) = self.ups.split_at_mut(at);
            needs.iter().for_each(|&need| before[need].add(&this[0]));
        }
        let nodes = self.track.nodes.iter();
        self.nodes = nodes
            .filter(|(_, node)| !node.dirty.is_empty())
            .map(|(&id, node)| (id, node.dirty.iter().filter_map(position).collect()))
            .collect();
        self.made.clear();
    }

    /// Number of parts that may be lost.
    pub fn len(&self) -> usize {
        self.track.dirty.len()
    }

    /// Whether nothing may be lost.
    pub fn is_empty(&self) -> bool {
        self.track.dirty.is_empty()
    }

    /// A part.
    pub(super) fn part(&self, at: usize) -> &Part {
        &self.track.parts[self.track.dirty[at]]
    }

    /// All that is lost with a part.
    pub fn lost_with(&self, at: usize) -> &Bits {
        &self.ups[at]
    }

    /// All that is kept with a part.
    pub fn kept_with(&self, at: usize) -> &Bits {
        &self.downs[at]
    }

    /// The smallest legal set that holds these.
    pub fn close(&self, parts: impl IntoIterator<Item = usize>) -> Bits {
        let mut lost = Bits::none(self.len());
        parts.into_iter().for_each(|at| lost.add(&self.ups[at]));
        lost
    }

    /// The tree without a legal set of parts.
    pub fn tree(&mut self, lost: &Bits) -> Tree {
        let mut tree = self.track.live.clone();
        for (id, parts) in &self.nodes {
            if !parts.iter().any(|&at| lost.has(at)) {
                continue;
            }
            let mut key = Bits::none(parts.len());
            for (index, &at) in parts.iter().enumerate() {
                if lost.has(at) {
                    key.set(index);
                }
            }
            let made = self.made.entry(*id).or_default();
            if made.len() > KEPT_MAX {
                made.clear();
            }
            let track = &self.track;
            let node = made.entry(key).or_insert_with(|| {
                let mut node = track.nodes[id].durable.clone();
                for &at in parts.iter().filter(|&&at| !lost.has(at)) {
                    let piece = &track.parts[track.dirty[at]].piece;
                    let effects = piece.effects.iter().filter(|(changed, _)| changed == id);
                    effects.for_each(|(_, effect)| effect.apply(&mut node));
                }
                Arc::new(seen(&node))
            });
            tree.share(*id, Arc::clone(node));
        }
        tree
    }

    /// The state without a legal set of parts.
    pub fn state(&mut self, lost: &Bits) -> State {
        let tree = self.tree(lost);
        self.state_of(tree, lost)
    }

    /// The state whose tree is known.
    pub(super) fn state_of(&self, tree: Tree, lost: &Bits) -> State {
        let part = |at: usize| {
            let part = self.part(at);
            state::Part {
                call: part.call,
                piece: part.index,
                what: part.words.clone(),
            }
        };
        State {
            tree,
            calls: self.track.calls,
            acknowledged: self.track.acknowledged,
            lost: lost.iter().map(part).collect(),
            line: self.line(lost),
        }
    }

    /// The parts from which a legal set is made by closing it.
    pub fn makers(&self, lost: &Bits) -> Vec<usize> {
        let alone = |&at: &usize| {
            self.downs[at]
                .iter()
                .all(|need| need == at || !lost.has(need))
        };
        lost.iter().filter(alone).collect()
    }

    /// A text that names the cut and what is lost: `17-3.0,4.1` without these parts and what needs
    /// them, `17+3.0` with no others than these and what they need.
    fn line(&self, lost: &Bits) -> String {
        let kept = lost.others();
        let last = |&at: &usize| {
            self.ups[at]
                .iter()
                .all(|more| more == at || !kept.has(more))
        };
        let lost = self.makers(lost);
        let kept: Vec<usize> = kept.iter().filter(last).collect();
        let (sign, parts) = if lost.len() <= kept.len() {
            ('-', lost)
        } else {
            ('+', kept)
        };
        let names = parts.iter().map(|&at| {
            let part = self.part(at);
            format!("{}.{}", part.call, part.index)
        });
        let names: Vec<String> = names.collect();
        format!("{}{sign}{}", self.track.calls, names.join(","))
    }

    /// The legal set that the part of a line behind the cut names.
    pub(super) fn read_line(&self, sign: char, names: &str) -> Result<Bits, String> {
        let mut set = Bits::none(self.len());
        for name in names.split(',').filter(|name| !name.is_empty()) {
            let at = (0..self.len()).find(|&at| {
                let part = self.part(at);
                format!("{}.{}", part.call, part.index) == name
            });
            let at = at.ok_or_else(|| format!("no cut there may lose part {name}"))?;
            set.add(if sign == '-' {
                &self.ups[at]
            } else {
                &self.downs[at]
            });
        }
        Ok(if sign == '-' { set } else { set.others() })
    }
}

/// What findings ask of parts.
impl<'a> Cut<'a> {
    /// What was recorded.
    pub fn recording(&self) -> &'a Recording {
        self.track.recording
    }

    /// Number of acknowledgements that had been given.
    pub fn acknowledged(&self) -> usize {
        self.track.acknowledged
    }

    /// Number of calls that have ended.
    pub fn calls(&self) -> usize {
        self.track.calls
    }

    /// Follows one call more.
    ///
    /// # Errors
    /// The call names a node that was never made.
    pub fn step(&mut self) -> Result<(), ModelError> {
        self.track.step()?;
        self.refresh();
        Ok(())
    }

    /// Call and index in the call of a part.
    pub fn name(&self, at: usize) -> (usize, usize) {
        let part = self.part(at);
        (part.call, part.index)
    }

    /// What kind of thing a part is, and of what.
    pub fn class(&self, at: usize) -> (Class, NodeId) {
        let piece = &self.part(at).piece;
        (piece.class, piece.subject)
    }

    /// The part of this name, if it may be lost.
    pub fn find(&self, name: (usize, usize)) -> Option<usize> {
        (0..self.len()).find(|&at| self.name(at) == name)
    }

    /// Parts of one call in words, content of several pages as one range.
    pub fn words(&self, parts: &[usize]) -> String {
        let contents = parts.iter().map(|&at| self.part(at));
        let contents: Vec<&Part> = contents
            .filter(|p| p.piece.class == Class::Content)
            .collect();
        if let (Some(first), Some(last)) = (contents.first(), contents.last())
            && matches!(
                self.track.recording.calls[first.call].what,
                What::Write { .. }
            )
        {
            let (from, _) = first.piece.range;
            let (start, len) = last.piece.range;
            let path = &first.path;
            let bytes: u64 = contents.iter().map(|part| part.piece.range.1).sum();
            if bytes == start + len - from {
                return format!("{bytes} bytes of {path} from {from} on");
            }
            return format!("{bytes} bytes of {path} between {from} and {}", start + len);
        }
        let last = parts.last().map(|&at| self.part(at).words.clone());
        last.unwrap_or_default()
    }

    /// The sync that would cover a part, in front of a call.
    pub fn lacks(&self, at: usize, before: usize) -> Insertion {
        let part = self.part(at);
        let dir = part.piece.objects[0].node;
        let (node, data_only, path) = match part.piece.class {
            Class::Content | Class::Size => (part.piece.subject, true, part.path.clone()),
            Class::Attribute => (part.piece.subject, false, part.path.clone()),
            Class::Name => (dir, false, self.track.path(dir)),
        };
        Insertion {
            before,
            node,
            data_only,
            path,
        }
    }

    /// Nodes that have something to sync, with the paths that they have now.
    pub fn unsynced(&self) -> Vec<(NodeId, String)> {
        let ids = self.nodes.iter().map(|(id, _)| *id);
        ids.map(|id| (id, self.track.path(id))).collect()
    }
}
