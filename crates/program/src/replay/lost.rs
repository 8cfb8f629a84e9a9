//! What a recovered tree lacks of the tree that the program had made by then, in words, with the
//! call that is lost.
//!
//! A block holds parts of many calls, so the model knows no parts that are lost as one: both trees
//! are compared by path, and each difference is said of the last call that made it.

use crate::call::{Attribute, Call, Recording, What};
use crate::state::Part;
use crate::tree::{Kind, Node, NodeId, PAGE, Tree};
use base::plain::shown;
use base::{Bytes, SECTOR_BYTES};
use std::collections::BTreeMap;
use std::ops::Range;

/// Names and nodes of a tree by path.
type Paths<'a> = BTreeMap<Vec<u8>, (NodeId, &'a Node)>;

/// The differences between `found` and `full`, the tree after `calls` calls; ascending.
pub fn lost(recording: &Recording, calls: usize, full: &Tree, found: &Tree) -> Vec<Part> {
    if full.hash() == found.hash() {
        return Vec::new();
    }
    let search = Search {
        calls: &recording.calls[..calls],
        full,
    };
    let (there, here) = (paths(full), paths(found));
    let mut parts = Vec::new();
    let mut left_out: Option<&[u8]> = None;
    let below = |above: Option<&[u8]>, path: &[u8]| {
        above.is_some_and(|above| path.starts_with(above) && path.get(above.len()) == Some(&b'/'))
    };
    for (path, (id, node)) in &there {
        // What lies in a directory that is lost needs no words of its own.
        if below(left_out, path) {
            continue;
        }
        match here.get(path) {
            None => {
                left_out = Some(path);
                let what = format!("the name {}", text(path));
                search.name(path, Some(*id), what, &mut parts);
            }
            Some((_, old)) => search.node(path, (*id, node), old, &mut parts),
        }
    }
    let mut shown: Option<&[u8]> = None;
    for path in here.keys().filter(|path| !there.contains_key(*path)) {
        if !below(shown, path) {
            shown = Some(path);
            let what = format!("that the name {} is gone", text(path));
            search.name(path, None, what, &mut parts);
        }
    }
    parts.sort();
    parts.dedup();
    parts
}

fn paths(tree: &Tree) -> Paths<'_> {
    let mut paths = Paths::new();
    tree.walk(&mut |path, id, node| {
        paths.insert(path.to_vec(), (id, node));
    });
    paths
}

fn text(path: &[u8]) -> String {
    match path.is_empty() {
        true => "the root".into(),
        false => shown(path),
    }
}

/// Looks for the calls that made a difference.
struct Search<'a> {
    calls: &'a [Call],
    full: &'a Tree,
}

impl Search<'_> {
    fn last(&self, made: impl Fn(&What) -> bool) -> Option<usize> {
        self.calls.iter().rposition(|call| made(&call.what))
    }

    /// The last call that gave `path` to the node, or took it away.
    fn name(&self, path: &[u8], to: Option<NodeId>, what: String, parts: &mut Vec<Part>) {
        let at = path.iter().rposition(|&c| c == b'/');
        let (above, name) = match at {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        let dir = self.full.find(above);
        let is = |d: &NodeId, n: &Vec<u8>| Some(*d) == dir && n == name;
        let named = self.last(|what| match what {
            What::Create { dir, name, .. } | What::Link { dir, name, .. } => is(dir, name),
            What::Unlink { dir, name, .. } => is(dir, name),
            What::Rename { from, to, .. } => is(&from.0, &from.1) || is(&to.0, &to.1),
            _ => false,
        });
        // The name of a directory above was moved.
        let moved = || {
            self.last(|what| match what {
                What::Rename { node, .. } => Some(*node) == to || Some(*node) == dir,
                What::Unlink { node, .. } => Some(*node) == dir,
                _ => false,
            })
        };
        if let Some(call) = named.or_else(moved) {
            parts.push(Part {
                call,
                piece: 0,
                what,
            });
        }
    }

    fn node(&self, path: &[u8], (id, full): (NodeId, &Node), old: &Node, parts: &mut Vec<Part>) {
        if full.kind != old.kind || self.shows_replaced(id, full, old) {
            let what = format!("the name {}", text(path));
            return self.name(path, Some(id), what, parts);
        }
        if full.kind == Kind::File {
            self.content(path, (id, full), old, parts);
        }
        self.attributes(path, (id, full), old, parts);
    }

    /// True if the state shows under this name what a rename has replaced.
    fn shows_replaced(&self, id: NodeId, full: &Node, old: &Node) -> bool {
        let same = |a: &Node, b: &Node| a.kind == b.kind && a.size == b.size && a.pages == b.pages;
        let mut renames = self.calls.iter().filter_map(|call| match &call.what {
            What::Rename {
                node,
                replaced: Some(replaced),
                ..
            } if *node == id => self.full.node(*replaced),
            _ => None,
        });
        !same(full, old) && renames.any(|replaced| same(replaced, old))
    }

    fn content(&self, path: &[u8], (id, full): (NodeId, &Node), old: &Node, parts: &mut Vec<Part>) {
        // Bytes that are lost, by the call that made them: first, and behind the last.
        let mut runs: Vec<(usize, u64, u64)> = Vec::new();
        let pages = full.pages.keys().chain(old.pages.keys());
        let mut pages: Vec<u64> = pages.copied().collect();
        pages.sort_unstable();
        pages.dedup();
        for page in pages {
            if full.pages.get(&page) == old.pages.get(&page) {
                continue;
            }
            let differing = differing(full.pages.get(&page), old.pages.get(&page));
            let (from, to) = (page * PAGE + differing.start, page * PAGE + differing.end);
            let Some(call) = self.last(|what| covers(what, id, &(from..to))) else {
                continue;
            };
            match runs.last_mut() {
                Some(run) if run.0 == call && run.2 == from => run.2 = to,
                _ => runs.push((call, from, to)),
            }
        }
        let none = runs.is_empty();
        for (call, first, end) in runs {
            let (from, to) = self.range(call, first..end);
            let bytes = to - from;
            parts.push(Part {
                call,
                piece: (first / PAGE) as usize,
                what: format!("{bytes} bytes of {} from {from} on", text(path)),
            });
        }
        if full.size != old.size && none {
            let resized = self.last(|what| match what {
                What::Write { node, .. }
                | What::Truncate { node, .. }
                | What::Allocate { node, .. } => *node == id,
                _ => false,
            });
            parts.extend(resized.map(|call| Part {
                call,
                piece: 0,
                what: format!("the size of {}", text(path)),
            }));
        }
    }

    /// The part of a range of bytes that the call has written.
    fn range(&self, call: usize, range: Range<u64>) -> (u64, u64) {
        match &self.calls[call].what {
            What::Write { offset, data, .. } => {
                let end = offset + data.len() as u64;
                (range.start.max(*offset), range.end.min(end))
            }
            _ => (range.start, range.end),
        }
    }

    fn attributes(
        &self,
        path: &[u8],
        (id, full): (NodeId, &Node),
        old: &Node,
        parts: &mut Vec<Part>,
    ) {
        let mut differs = |what: &str, is: &dyn Fn(&Attribute) -> bool| {
            let set = self.last(|made| match made {
                What::SetAttribute { node, attribute } => *node == id && is(attribute),
                _ => false,
            });
            parts.extend(set.map(|call| Part {
                call,
                piece: 0,
                what: format!("{what} of {}", text(path)),
            }));
        };
        if full.mode != old.mode {
            differs("the permissions", &|a| matches!(a, Attribute::Mode(_)));
        }
        if full.owner != old.owner {
            differs("the owner", &|a| matches!(a, Attribute::Owner(..)));
        }
        for name in full.xattrs.keys().chain(old.xattrs.keys()) {
            if full.xattrs.get(name) != old.xattrs.get(name) {
                let words = format!("the attribute {}", shown(name));
                differs(
                    &words,
                    &|a| matches!(a, Attribute::Xattr(n, _) if n == name),
                );
            }
        }
    }
}

/// The bytes of a page from the first sector that differs to the last one: a disk tears a page
/// between sectors. A page that is not there holds zeros.
fn differing(a: Option<&Bytes>, b: Option<&Bytes>) -> Range<u64> {
    let zeros = [0; PAGE as usize];
    let bytes =
        |page: Option<&'_ Bytes>| page.map_or(zeros, |page| page[..].try_into().unwrap_or(zeros));
    let (a, b) = (bytes(a), bytes(b));
    let sectors = a.chunks(SECTOR_BYTES).zip(b.chunks(SECTOR_BYTES));
    let differ: Vec<bool> = sectors.map(|(a, b)| a != b).collect();
    let first = differ.iter().position(|differs| *differs).unwrap_or(0);
    let last = differ.iter().rposition(|differs| *differs);
    let sector = SECTOR_BYTES as u64;
    first as u64 * sector..last.map_or(PAGE, |last| (last as u64 + 1) * sector)
}

/// Whether the call decides about bytes of the file.
fn covers(what: &What, id: NodeId, range: &Range<u64>) -> bool {
    let meets = |from: u64, to: u64| from < range.end && to > range.start;
    match what {
        What::Write {
            node, offset, data, ..
        } => *node == id && meets(*offset, offset + data.len() as u64),
        What::Truncate {
            node,
            size,
            size_before,
        } => *node == id && meets((*size).min(*size_before), u64::MAX),
        What::Allocate {
            node,
            offset,
            len,
            zero,
            ..
        } => *node == id && *zero && meets(*offset, offset.saturating_add(*len)),
        _ => false,
    }
}
