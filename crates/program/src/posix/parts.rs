//! How a call is split into pieces that a cut keeps or loses, and what each does to a node.

use super::rules::{Rule, Rules};
use crate::call::{Attribute, What};
use crate::tree::{Node, NodeId, PAGE};
use base::Bytes;
use std::collections::BTreeSet;

/// Most steps in which the size grows by one call, for exploring.
pub(super) const STEPS_MAX: u64 = 64;

/// What has one value at a time: the unit of posix-P1.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Object {
    pub node: NodeId,
    pub field: Field,
}

/// Which one of a node's objects.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Field {
    Size,
    Mode,
    Owner,
    Xattr(Vec<u8>),
    Name(Vec<u8>),
    /// Content, by the number of its grain.
    Grain(u64),
}

/// What is done to one node.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    Data {
        offset: u64,
        bytes: Bytes,
    },
    Zero {
        offset: u64,
        len: u64,
    },
    Size(u64),
    /// Pages from this one on are gone.
    Free(u64),
    Name(Vec<u8>, Option<NodeId>),
    Attribute(Attribute),
}

/// What kind of thing is lost with a piece, by which rules and words tell pieces apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Bytes of a file.
    Content,
    /// Its size.
    Size,
    /// A name.
    Name,
    /// Permissions, owner, an extended attribute.
    Attribute,
}

/// A piece of a call.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub class: Class,
    /// The file or directory that it is about; of a name, what is named.
    pub subject: NodeId,
    pub effects: Vec<(NodeId, Effect)>,
    pub objects: Vec<Object>,
    /// Bytes from an offset on, of content.
    pub range: (u64, u64),
}

impl Piece {
    fn new(class: Class, subject: NodeId) -> Piece {
        Piece {
            class,
            subject,
            effects: Vec::new(),
            objects: Vec::new(),
            range: (0, 0),
        }
    }

    fn does(mut self, node: NodeId, field: Field, effect: Effect) -> Piece {
        self.objects.push(Object { node, field });
        self.effects.push((node, effect));
        self
    }

    /// Takes what another piece does, so that both are one.
    fn join(&mut self, other: Piece) {
        self.effects.extend(other.effects);
        self.objects.extend(other.objects);
    }
}

/// How calls are split.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    pub rules: Rules,
    /// Bytes of content that come as one.
    pub grain: u64,
}

impl Split {
    /// The pieces of a call, in an order in which none needs a later one. `written` are the grains
    /// of its file that may hold anything.
    pub fn pieces(&self, what: &What, written: &BTreeSet<u64>) -> Vec<Piece> {
        match what {
            What::Create {
                dir, name, node, ..
            }
            | What::Link { dir, name, node } => vec![named(*dir, name, *node, Some(*node))],
            What::Unlink { dir, name, node } => vec![named(*dir, name, *node, None)],
            What::Rename {
                from,
                to,
                node,
                replaced,
                exchange,
            } => self.rename(from, to, *node, replaced.filter(|_| *exchange)),
            What::Write {
                node,
                offset,
                data,
                size_before,
            } => self.write(*node, *offset, data, *size_before),
            What::Truncate {
                node,
                size,
                size_before,
            } => self.truncate(*node, *size, *size_before, written),
            What::Allocate {
                node,
                offset,
                len,
                zero,
                size,
                size_before,
            } => {
                let mut pieces = Vec::new();
                if *zero {
                    pieces = self.zeros(*node, *offset, offset.saturating_add(*len), written);
                }
                pieces.extend(self.growth(*node, *size_before, *size));
                pieces
            }
            What::SetAttribute { node, attribute } => {
                let field = match attribute {
                    Attribute::Mode(_) => Field::Mode,
                    Attribute::Owner(..) => Field::Owner,
                    Attribute::Xattr(name, _) => Field::Xattr(name.clone()),
                };
                let effect = Effect::Attribute(attribute.clone());
                vec![Piece::new(Class::Attribute, *node).does(*node, field, effect)]
            }
            What::CreateUnnamed { .. }
            | What::Sync { .. }
            | What::SyncAll
            | What::Acknowledge(_)
            | What::Failed { .. } => Vec::new(),
        }
    }

    fn rename(
        &self,
        from: &(NodeId, Vec<u8>),
        to: &(NodeId, Vec<u8>),
        node: NodeId,
        back: Option<NodeId>,
    ) -> Vec<Piece> {
        if from == to {
            return Vec::new();
        }
        let mut new = named(to.0, &to.1, node, Some(node));
        let old = named(from.0, &from.1, node, back);
        if self.rules.has(Rule::RenameWhole) {
            new.join(old);
            vec![new]
        } else {
            vec![new, old]
        }
    }

    fn write(&self, node: NodeId, offset: u64, data: &Bytes, size_before: u64) -> Vec<Piece> {
        let end = offset + data.len() as u64;
        let mut pieces: Vec<Piece> = (self.grains(offset, end))
            .map(|(grain, from, to)| {
                let bytes = data.slice((from - offset) as usize..(to - offset) as usize);
                let effect = Effect::Data {
                    offset: from,
                    bytes,
                };
                let mut piece =
                    Piece::new(Class::Content, node).does(node, Field::Grain(grain), effect);
                piece.range = (from, to - from);
                piece
            })
            .collect();
        if data.is_empty() || end <= size_before {
            return pieces;
        }
        if self.rules.has(Rule::AtomicAppend) {
            let mut whole =
                Piece::new(Class::Size, node).does(node, Field::Size, Effect::Size(end));
            let inside = |piece: &Piece| piece.range.0 + piece.range.1 <= size_before;
            let (mut kept, joined): (Vec<_>, Vec<_>) = pieces.into_iter().partition(inside);
            joined.into_iter().for_each(|piece| whole.join(piece));
            kept.push(whole);
            return kept;
        }
        pieces.extend(self.growth(node, size_before, end));
        pieces
    }

    fn truncate(
        &self,
        node: NodeId,
        size: u64,
        size_before: u64,
        written: &BTreeSet<u64>,
    ) -> Vec<Piece> {
        let whole = Piece::new(Class::Size, node).does(node, Field::Size, Effect::Size(size));
        if size == size_before {
            return Vec::new();
        }
        if size > size_before {
            return vec![whole];
        }
        let freed = size.next_multiple_of(PAGE);
        let mut whole = whole;
        let mut pieces = self.zeros(node, size, freed, written);
        if self.rules.has(Rule::TruncateWhole) {
            whole.effects.push((node, Effect::Free(freed / PAGE)));
            for &grain in written.range(freed / self.grain..) {
                let field = Field::Grain(grain);
                whole.objects.push(Object { node, field });
            }
        } else {
            pieces.extend(self.zeros(node, freed, u64::MAX, written));
        }
        pieces.push(whole);
        pieces
    }

    /// Zeros in what was written of a range.
    fn zeros(&self, node: NodeId, from: u64, to: u64, written: &BTreeSet<u64>) -> Vec<Piece> {
        if from >= to {
            return Vec::new();
        }
        let grains = written.range(from / self.grain..to.div_ceil(self.grain));
        let pieces = grains.map(|&grain| {
            let start = (grain * self.grain).max(from);
            let len = ((grain + 1) * self.grain).min(to) - start;
            let effect = Effect::Zero { offset: start, len };
            let mut piece =
                Piece::new(Class::Content, node).does(node, Field::Grain(grain), effect);
            piece.range = (start, len);
            piece
        });
        pieces.collect()
    }

    /// The steps in which a size grows.
    fn growth(&self, node: NodeId, from: u64, to: u64) -> Vec<Piece> {
        let step = (to.saturating_sub(from) / STEPS_MAX).next_multiple_of(self.grain);
        let step = step.max(self.grain);
        let mut sizes = Vec::new();
        let mut size = from;
        while size < to {
            size = ((size / step + 1) * step).min(to);
            let piece = Piece::new(Class::Size, node);
            sizes.push(piece.does(node, Field::Size, Effect::Size(size)));
        }
        sizes
    }

    /// The grains of a range, each with its number and the part of the range that lies in it.
    fn grains(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        let size = self.grain;
        (from / size..to.div_ceil(size)).map(move |grain| {
            (
                grain,
                (grain * size).max(from),
                ((grain + 1) * size).min(to),
            )
        })
    }
}

fn named(dir: NodeId, name: &[u8], subject: NodeId, to: Option<NodeId>) -> Piece {
    let field = Field::Name(name.to_vec());
    Piece::new(Class::Name, subject).does(dir, field, Effect::Name(name.to_vec(), to))
}

impl Effect {
    /// Changes a node whose pages may lie behind its size: what a later size shows is there.
    pub fn apply(&self, node: &mut Node) {
        match self {
            Effect::Data { offset, bytes } => put(node, *offset, bytes),
            Effect::Zero { offset, len } => {
                if node.pages.contains_key(&(offset / PAGE)) {
                    put(node, *offset, &Bytes::from(vec![0; *len as usize]));
                }
            }
            Effect::Size(size) => node.size = *size,
            Effect::Free(page) => drop(node.pages.split_off(page)),
            Effect::Name(name, Some(to)) => drop(node.names.insert(name.clone(), *to)),
            Effect::Name(name, None) => drop(node.names.remove(name)),
            Effect::Attribute(Attribute::Mode(mode)) => node.mode = *mode,
            Effect::Attribute(Attribute::Owner(user, group)) => node.owner = (*user, *group),
            Effect::Attribute(Attribute::Xattr(name, Some(value))) => {
                node.xattrs.insert(name.clone(), value.clone());
            }
            Effect::Attribute(Attribute::Xattr(name, None)) => drop(node.xattrs.remove(name)),
        }
    }
}

/// Puts bytes into the one page that they lie in.
fn put(node: &mut Node, offset: u64, bytes: &Bytes) {
    let (page, within) = (offset / PAGE, (offset % PAGE) as usize);
    let new = if bytes.len() == PAGE as usize {
        bytes.clone()
    } else {
        let old = node.pages.get(&page);
        let mut new = old.map_or_else(|| vec![0; PAGE as usize], |old| old.to_vec());
        new[within..within + bytes.len()].copy_from_slice(bytes);
        new.into()
    };
    if base::bytes::is_zero(&new) {
        node.pages.remove(&page);
    } else {
        node.pages.insert(page, new);
    }
}

/// The node as a program sees it: nothing is behind its size.
pub(super) fn seen(raw: &Node) -> Node {
    let mut node = Node::new(raw.kind.clone(), raw.mode, raw.owner);
    node.xattrs.clone_from(&raw.xattrs);
    node.names.clone_from(&raw.names);
    node.pages.clone_from(&raw.pages);
    node.size = raw.size;
    node.pages.split_off(&raw.size.div_ceil(PAGE));
    let within = raw.size % PAGE;
    if within != 0 && node.pages.contains_key(&(raw.size / PAGE)) {
        put(
            &mut node,
            raw.size,
            &vec![0; (PAGE - within) as usize].into(),
        );
    }
    node
}
