//! A moment of a cut: which sets of lost parts are legal, and the tree that each leaves. A set is
//! legal if it holds, with a part, every part that needs it. Unions of legal sets are legal, so the
//! closures of single parts make all of them.

use super::bits::Bits;
use super::parts::{Class, Effect, seen};
use super::places::Places;
use super::track::{Part, Track};
use crate::call::{Recording, What};
use crate::sites::Insertion;
use crate::state::{self, ModelError, State};
use crate::tree::{Node, NodeId, PAGE, Tree};
use base::Map;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most nodes that are kept of each file for further states, and most pages of all of these.
const KEPT_MAX: usize = 4096;
const KEPT_PAGES_MAX: usize = 1 << 20;

/// A recording followed up to some call, with the parts that a cut there may lose. Parts are
/// numbered here from 0 on in the order of the calls, without those that are durable.
pub struct Cut<'a> {
    pub(super) track: Track<'a>,
    /// The number here of each part of the recording that is not durable.
    numbers: Vec<Option<usize>>,
    /// Nodes that parts change.
    nodes: BTreeMap<NodeId, Changed>,
}

/// A node that parts change.
struct Changed {
    /// The numbers of those parts.
    parts: Vec<usize>,
    /// The same, as indices of `parts`, by the page whose content they change; `None` if pages are
    /// freed, too, so that the node has to be made as a whole.
    pages: Option<BTreeMap<u64, Vec<usize>>>,
    /// Nodes that were made, by the parts that are lost of them.
    made: Map<Bits, Arc<Node>>,
}

impl<'a> Cut<'a> {
    /// A cut where the track stands.
    pub(super) fn new(track: Track<'a>) -> Cut<'a> {
        let mut cut = Cut {
            track,
            numbers: Vec::new(),
            nodes: BTreeMap::new(),
        };
        cut.refresh();
        cut
    }

    /// Follows the track after it has moved.
    pub(super) fn refresh(&mut self) {
        self.numbers = vec![None; self.track.parts.len()];
        for (number, &part) in self.track.dirty.iter().enumerate() {
            self.numbers[part] = Some(number);
        }
        let nodes = self.track.nodes.iter();
        let dirty = nodes.filter(|(_, node)| !node.dirty.is_empty());
        let changed = dirty.map(|(&id, node)| {
            let parts = node.dirty.iter().filter_map(|&part| self.numbers[part]);
            let changed = Changed {
                parts: parts.collect(),
                pages: pages(&self.track, id, &node.dirty),
                made: Map::default(),
            };
            (id, changed)
        });
        self.nodes = changed.collect();
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
    pub fn lost_with(&self, at: usize) -> Bits {
        self.reached(at, |part| &self.track.needed_by[part])
    }

    /// All that is kept with a part.
    pub fn kept_with(&self, at: usize) -> Bits {
        self.reached(at, |part| &self.track.parts[part].needs)
    }

    fn reached<'b>(&'b self, at: usize, next: impl Fn(usize) -> &'b Vec<usize>) -> Bits {
        let mut reached = Bits::none(self.len());
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            if !reached.has(at) {
                reached.set(at);
                let next = next(self.track.dirty[at]).iter();
                open.extend(next.filter_map(|&part| self.numbers[part]));
            }
        }
        reached
    }

    /// The smallest legal set that holds these.
    pub fn close(&self, parts: impl IntoIterator<Item = usize>) -> Bits {
        let mut lost = Bits::none(self.len());
        for at in parts {
            if !lost.has(at) {
                lost.add(&self.lost_with(at));
            }
        }
        lost
    }

    /// The tree without a legal set of parts.
    pub fn tree(&mut self, lost: &Bits) -> Tree {
        let mut tree = self.track.live.clone();
        for (&id, changed) in &mut self.nodes {
            if !changed.parts.iter().any(|&at| lost.has(at)) {
                continue;
            }
            let mut key = Bits::none(changed.parts.len());
            for (index, &at) in changed.parts.iter().enumerate() {
                if lost.has(at) {
                    key.set(index);
                }
            }
            let pages = self.track.nodes[&id].live.pages.len().max(1);
            if changed.made.len() > KEPT_MAX.min(KEPT_PAGES_MAX / pages) {
                changed.made.clear();
            }
            if !changed.made.contains_key(&key) {
                let node = changed.node(&self.track, id, &key);
                changed.made.insert(key.clone(), Arc::new(node));
            }
            tree.share(id, Arc::clone(&changed.made[&key]));
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
            under_way: false,
            acknowledged: self.track.acknowledged,
            lost: lost.iter().map(part).collect(),
            line: self.line(lost),
        }
    }

    /// The parts from which a legal set is made by closing it.
    pub fn makers(&self, lost: &Bits) -> Vec<usize> {
        let needed = |need: &usize| self.numbers[*need].is_some_and(|need| lost.has(need));
        let alone = |&at: &usize| !self.part(at).needs.iter().any(needed);
        lost.iter().filter(alone).collect()
    }

    /// A text that names the cut and what is lost: `17-3.0,4.1` without these parts and what needs
    /// them, `17+3.0` with no others than these and what they need.
    fn line(&self, lost: &Bits) -> String {
        let kept = lost.others();
        let needing = |part: &usize| self.numbers[*part].is_some_and(|at| kept.has(at));
        let last = |&at: &usize| {
            let part = self.track.dirty[at];
            !self.track.needed_by[part].iter().any(needing)
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
            set.add(&if sign == '-' {
                self.lost_with(at)
            } else {
                self.kept_with(at)
            });
        }
        Ok(if sign == '-' { set } else { set.others() })
    }
}

/// The indices of the parts of a node by pages; `None`: one of them frees pages.
fn pages(track: &Track<'_>, id: NodeId, parts: &[usize]) -> Option<BTreeMap<u64, Vec<usize>>> {
    let mut pages: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, &part) in parts.iter().enumerate() {
        for (node, effect) in &track.parts[part].piece.effects {
            match effect {
                Effect::Data { offset, .. } | Effect::Zero { offset, .. } if *node == id => {
                    let list = pages.entry(offset / PAGE).or_default();
                    if list.last() != Some(&index) {
                        list.push(index);
                    }
                }
                Effect::Free(_) if *node == id => return None,
                _ => (),
            }
        }
    }
    Some(pages)
}

impl Changed {
    /// The node without these of its parts. Pages that no lost part changes are those of the live
    /// node: most states lose little of a file.
    fn node(&self, track: &Track<'_>, id: NodeId, lost: &Bits) -> Node {
        let known = &track.nodes[&id];
        let apply = |node: &mut Node, index: usize, wanted: &dyn Fn(&Effect) -> bool| {
            let part = track.dirty[self.parts[index]];
            for (changed, effect) in &track.parts[part].piece.effects {
                if *changed == id && wanted(effect) {
                    effect.apply(node);
                }
            }
        };
        let kept = |index: &usize| !lost.has(*index);
        let all = (0..self.parts.len()).filter(kept);
        let Some(pages) = &self.pages else {
            let mut node = known.durable.clone();
            all.for_each(|index| apply(&mut node, index, &|_| true));
            return seen(&node);
        };
        let content = |effect: &Effect| matches!(effect, Effect::Data { .. } | Effect::Zero { .. });
        let durable = &known.durable;
        let mut node = Node::new(durable.kind.clone(), durable.mode, durable.owner);
        node.xattrs.clone_from(&durable.xattrs);
        node.names.clone_from(&durable.names);
        node.size = durable.size;
        all.for_each(|index| apply(&mut node, index, &|effect| !content(effect)));
        node.pages.clone_from(&known.live.pages);
        for (&page, parts) in pages {
            if parts.iter().all(kept) {
                continue;
            }
            node.pages.remove(&page);
            let old = durable.pages.get(&page);
            node.pages.extend(old.map(|old| (page, old.clone())));
            let here = |effect: &Effect| match effect {
                Effect::Data { offset, .. } | Effect::Zero { offset, .. } => offset / PAGE == page,
                _ => false,
            };
            let parts = parts.iter().filter(|index| kept(index));
            parts.for_each(|&index| apply(&mut node, index, &here));
        }
        seen(&node)
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
        let part = |part: &usize| {
            let part = &self.track.parts[*part];
            (part.call, part.index)
        };
        self.track.dirty.binary_search_by_key(&name, part).ok()
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

    /// The sync that would cover a part, in front of a call. Its path is the one that leads there
    /// in front of that call: a rename since the part was made, or behind it, gives another one.
    pub fn lacks(&self, at: usize, before: usize) -> Insertion {
        let part = self.part(at);
        let dir = part.piece.objects[0].node;
        let (node, data_only) = match part.piece.class {
            Class::Content | Class::Size => (part.piece.subject, true),
            Class::Attribute => (part.piece.subject, false),
            Class::Name => (dir, false),
        };
        let path = match before == self.track.calls {
            true => self.track.path(node),
            false => Places::before(self.track.recording, before).path(node),
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
        let ids = self.nodes.keys().copied();
        ids.map(|id| (id, self.track.path(id))).collect()
    }
}
