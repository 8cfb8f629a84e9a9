//! Follows a recording: the parts of its calls, what each needs, and which of them a completed sync
//! has made durable.
//!
//! - T1: a part needs only earlier parts, so that the set of the first ones is always closed.
//! - T2: the durable parts are closed: a sync makes durable what it covers and all that this needs.
//!   With rule `in-order` no lost part is then earlier than a durable one of the same object, and
//!   the durable parts can be applied before all others.
//! - T3: what a failed sync (call-C3) would have covered is covered by no later sync, unless it is
//!   needed by something that is (belief `retried-fsync` takes this away).

use super::parts::{Class, Field, Object, Piece, Split, seen};
use super::places::Places;
use super::rules::Rule;
use super::words;
use crate::call::{Recording, What};
use crate::state::ModelError;
use crate::tree::{Kind, Node, NodeId, PAGE, ROOT, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// A part of a call.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub call: usize,
    /// Index in the call.
    pub index: usize,
    pub piece: Piece,
    /// Parts that are there if this one is, not all of them: what those need is needed, too.
    pub needs: Vec<usize>,
    pub words: String,
    /// Path of its subject when the call had been made.
    pub path: String,
}

/// What is known of a node. Pages of these may lie behind the size.
#[derive(Clone, Debug)]
pub(super) struct NodeTrack {
    /// As it was made.
    pub initial: Node,
    /// With all durable parts.
    pub durable: Node,
    /// With all parts.
    pub live: Node,
    /// Parts that change it and are not durable, ascending.
    pub dirty: Vec<usize>,
    /// Grains of content that may hold anything.
    grains: BTreeSet<u64>,
    /// Parts of content since the last one of the size.
    content_since: Vec<usize>,
    /// Parts that gave it a name or took one.
    naming: Vec<usize>,
}

/// A recording, followed up to some call.
#[derive(Clone)]
pub(super) struct Track<'a> {
    pub recording: &'a Recording,
    split: Split,
    /// Calls that have been followed.
    pub calls: usize,
    pub acknowledged: usize,
    pub parts: Vec<Part>,
    /// By part, those that need it.
    pub needed_by: Vec<Vec<usize>>,
    durable: Vec<bool>,
    failed: Vec<bool>,
    /// Parts of each object, ascending.
    pub chains: BTreeMap<Object, Vec<usize>>,
    /// Parts that are not durable, ascending.
    pub dirty: Vec<usize>,
    pub nodes: BTreeMap<NodeId, NodeTrack>,
    /// The tree with all parts.
    pub live: Tree,
    /// Directory and name of each node, the latest ones.
    pub places: Places,
    last_meta: Option<usize>,
    /// Nodes that the call changes.
    stale: BTreeSet<NodeId>,
}

impl<'a> Track<'a> {
    /// The begin of a recording.
    pub fn new(recording: &'a Recording, split: Split) -> Track<'a> {
        let mut track = Track {
            recording,
            split,
            calls: 0,
            acknowledged: 0,
            parts: Vec::new(),
            needed_by: Vec::new(),
            durable: Vec::new(),
            failed: Vec::new(),
            chains: BTreeMap::new(),
            dirty: Vec::new(),
            nodes: BTreeMap::new(),
            live: recording.start.clone(),
            places: Places::of_start(recording),
            last_meta: None,
            stale: BTreeSet::new(),
        };
        recording.start.walk(&mut |_, id, node| {
            track.add_node(id, node.clone());
        });
        track
    }

    fn add_node(&mut self, id: NodeId, node: Node) {
        let per_page = PAGE / self.split.grain;
        let grains = node.pages.keys();
        let grains = grains.flat_map(|page| page * per_page..(page + 1) * per_page);
        let track = NodeTrack {
            grains: grains.collect(),
            initial: node.clone(),
            durable: node.clone(),
            live: node.clone(),
            dirty: Vec::new(),
            content_since: Vec::new(),
            naming: Vec::new(),
        };
        self.nodes.insert(id, track);
        self.live.insert(id, node);
    }

    /// Follows the next call.
    pub fn step(&mut self) -> Result<(), ModelError> {
        let index = self.calls;
        let call = &self.recording.calls[index];
        self.check(index, &call.what)?;
        match &call.what {
            What::Acknowledge(_) => self.acknowledged += 1,
            What::Sync {
                node,
                data_only,
                failed,
            } => {
                let covered = self.covered(*node, *data_only);
                self.synced(&covered, failed.is_some());
            }
            What::SyncAll if self.split.rules.has(Rule::SyncAll) => {
                let all = self.dirty.clone();
                self.synced(&all, false);
            }
            What::SyncAll | What::Failed { .. } => (),
            what => self.changed(index, what),
        }
        self.calls += 1;
        Ok(())
    }

    /// Every node that a call names is known.
    fn check(&self, call: usize, what: &What) -> Result<(), ModelError> {
        let named = match what {
            What::Create { dir, .. } => vec![*dir],
            What::Link { node, dir, .. } | What::Unlink { dir, node, .. } => vec![*node, *dir],
            What::Rename { from, to, node, .. } => vec![from.0, to.0, *node],
            What::Write { node, .. }
            | What::Truncate { node, .. }
            | What::Allocate { node, .. }
            | What::SetAttribute { node, .. }
            | What::Sync { node, .. } => vec![*node],
            What::CreateUnnamed { .. }
            | What::SyncAll
            | What::Acknowledge(_)
            | What::Failed { .. } => Vec::new(),
        };
        match named
            .into_iter()
            .find(|node| !self.nodes.contains_key(node))
        {
            Some(NodeId(number)) => Err(ModelError::Call {
                call,
                why: format!("no earlier call made node {number}"),
            }),
            None => Ok(()),
        }
    }

    fn changed(&mut self, index: usize, what: &What) {
        match what {
            What::Create {
                node,
                kind,
                mode,
                owner,
                ..
            } => self.add_node(*node, Node::new(kind.clone(), *mode, *owner)),
            What::CreateUnnamed { node, mode, owner } => {
                self.add_node(*node, Node::new(Kind::File, *mode, *owner));
            }
            _ => (),
        }
        let none = BTreeSet::new();
        let subject = match what {
            What::Write { node, .. } | What::Truncate { node, .. } => self.nodes.get(node),
            What::Allocate { node, .. } => self.nodes.get(node),
            _ => None,
        };
        let pieces = self
            .split
            .pieces(what, subject.map_or(&none, |n| &n.grains));
        self.places.follow(what);
        let also = self.needed_by(what);
        for (at, piece) in pieces.into_iter().enumerate() {
            let words = words::piece(self, &piece, what);
            self.add_part((index, at), piece, &also, words);
        }
        for id in std::mem::take(&mut self.stale) {
            self.live.insert(id, seen(&self.nodes[&id].live));
        }
    }

    fn is_dir(&self, node: NodeId) -> bool {
        let track = self.nodes.get(&node);
        track.is_some_and(|track| track.live.kind == Kind::Dir)
    }

    /// What all pieces of a call need beside earlier values of their objects.
    fn needed_by(&self, what: &What) -> Vec<usize> {
        let rules = self.split.rules;
        let mut needs = Vec::new();
        match what {
            What::Rename {
                from, to, exchange, ..
            } if rules.has(Rule::RenameReaches) => {
                needs.extend(self.names_above(to.0));
                if *exchange {
                    needs.extend(self.names_above(from.0));
                }
            }
            _ => (),
        }
        let removed = match what {
            What::Unlink { node, .. } => Some(*node),
            What::Rename {
                replaced,
                exchange: false,
                ..
            } => *replaced,
            _ => None,
        };
        if let Some(node) = removed
            && rules.has(Rule::RemovedEmpty)
            && self.is_dir(node)
        {
            let names = self.nodes[&node].dirty.iter();
            needs.extend(names.filter(|&&part| self.parts[part].piece.class == Class::Name));
        }
        needs
    }

    /// The parts that gave a directory and those above it their names.
    fn names_above(&self, dir: NodeId) -> Vec<usize> {
        let mut needs = Vec::new();
        let mut at = dir;
        let mut passed = BTreeSet::new();
        while at != ROOT && passed.insert(at) {
            needs.extend(self.nodes[&at].naming.last());
            match self.places.get(at) {
                Some((above, _)) => at = *above,
                None => break,
            }
        }
        needs
    }

    fn add_part(&mut self, name: (usize, usize), piece: Piece, also: &[usize], words: String) {
        let part = self.parts.len();
        let path = self.path(piece.subject);
        let mut needs = also.to_vec();
        let rules = self.split.rules;
        for object in &piece.objects {
            let chain = self.chains.entry(object.clone()).or_default();
            if rules.has(Rule::InOrder) {
                needs.extend(chain.last());
            }
            chain.push(part);
        }
        let meta = matches!(piece.class, Class::Name | Class::Attribute);
        if meta && rules.has(Rule::OrderedNames) {
            needs.extend(self.last_meta.replace(part));
        }
        if rules.has(Rule::OrderedData) {
            needs.extend(self.content_before(&piece));
        }
        needs.retain(|&need| !self.durable[need]);
        needs.sort_unstable();
        needs.dedup();
        needs
            .iter()
            .for_each(|&need| self.needed_by[need].push(part));
        self.needed_by.push(Vec::new());
        self.note(part, &piece);
        self.parts.push(Part {
            call: name.0,
            index: name.1,
            piece,
            needs,
            words,
            path,
        });
        self.durable.push(false);
        self.failed.push(false);
        self.dirty.push(part);
    }

    /// The content that must not come after a size or name.
    fn content_before(&self, piece: &Piece) -> Vec<usize> {
        let node = &self.nodes[&piece.subject];
        match piece.class {
            Class::Size => node.content_since.clone(),
            Class::Name => {
                let (subject, field) = (piece.subject, Field::Size);
                let size = Object {
                    node: subject,
                    field,
                };
                let sizes = self.chains.get(&size).and_then(|chain| chain.last());
                node.content_since.iter().chain(sizes).copied().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Enters a part at the nodes that it changes.
    fn note(&mut self, part: usize, piece: &Piece) {
        for (id, effect) in &piece.effects {
            let node = self.nodes.get_mut(id).expect("T1: the nodes were checked");
            effect.apply(&mut node.live);
            if node.dirty.last() != Some(&part) {
                node.dirty.push(part);
            }
            self.stale.insert(*id);
        }
        for object in &piece.objects {
            if let (Field::Grain(grain), Some(node)) =
                (&object.field, self.nodes.get_mut(&object.node))
            {
                node.grains.insert(*grain);
            }
        }
        let subject = self.nodes.get_mut(&piece.subject);
        let subject = subject.expect("T1: the nodes were checked");
        match piece.class {
            Class::Content => subject.content_since.push(part),
            Class::Size => subject.content_since.clear(),
            Class::Name => {
                subject.naming.push(part);
                let others = piece.effects.iter().filter_map(|(_, effect)| match effect {
                    super::parts::Effect::Name(_, to) => *to,
                    _ => None,
                });
                for other in others.filter(|&other| other != piece.subject) {
                    let node = self.nodes.get_mut(&other);
                    node.expect("T1: it has a name").naming.push(part);
                }
            }
            Class::Attribute => (),
        }
    }

    /// What the sync of a node covers by the rules, without what a failed sync has spoilt (T3).
    fn covered(&self, node: NodeId, data_only: bool) -> Vec<usize> {
        let rules = self.split.rules;
        let has = |full: Rule, data: Rule| rules.has(if data_only { data } else { full });
        let mut covered: Vec<usize> = Vec::new();
        for &part in &self.nodes[&node].dirty {
            let covers = match self.parts[part].piece.class {
                Class::Content => has(Rule::FsyncContent, Rule::FdatasyncContent),
                Class::Size => has(Rule::FsyncSize, Rule::FdatasyncSize),
                Class::Attribute => !data_only && rules.has(Rule::FsyncAttributes),
                Class::Name => rules.has(Rule::FsyncNames),
            };
            covered.extend(covers.then_some(part));
        }
        if rules.has(Rule::NameWithFile) {
            let made = |part: &&usize| {
                let call = self.parts[**part].call;
                matches!(self.recording.calls[call].what, What::Create { .. })
            };
            let own = self.nodes[&node].naming.iter();
            covered.extend(own.filter(|part| !data_only || made(part)));
            if let Some((dir, _)) = self.places.get(node) {
                covered.extend(self.names_above(*dir));
            }
        }
        covered.retain(|&part| !self.durable[part]);
        covered
    }

    /// A sync that covers these has ended, or failed: with what they need they are durable (T2).
    fn synced(&mut self, covered: &[usize], failed: bool) {
        let retried = self.split.rules.has(Rule::RetriedSync);
        if failed {
            covered
                .iter()
                .for_each(|&part| self.failed[part] = !retried);
            return;
        }
        let mut open: Vec<usize> = (covered.iter().copied())
            .filter(|&part| !self.failed[part])
            .collect();
        let mut new = BTreeSet::new();
        while let Some(part) = open.pop() {
            if !self.durable[part] && new.insert(part) {
                open.extend(&self.parts[part].needs);
            }
        }
        let mut changed = BTreeSet::new();
        for &part in &new {
            self.durable[part] = true;
            for (id, effect) in &self.parts[part].piece.effects {
                let node = self.nodes.get_mut(id).expect("T1: the nodes were checked");
                effect.apply(&mut node.durable);
                changed.insert(*id);
            }
        }
        for id in changed {
            let node = self.nodes.get_mut(&id).expect("T1: the nodes were checked");
            node.dirty.retain(|part| !new.contains(part));
        }
        self.dirty.retain(|part| !new.contains(part));
    }

    /// Bytes of content that come as one.
    pub fn grain(&self) -> u64 {
        self.split.grain
    }

    /// Whether a part is durable.
    pub fn is_durable(&self, part: usize) -> bool {
        self.durable[part]
    }

    /// The path of a node, the latest one that it had.
    pub fn path(&self, node: NodeId) -> String {
        self.places.path(node)
    }
}
