//! The file of a recording: a head that says what it is, then the recording in the format of crate
//! `postcard`.
//!
//! - F1: a file may come from anybody. What is read is checked before it becomes a recording: calls
//!   name nodes that are there, pages have the size of pages, ranges lie within the largest file.
//!   A damaged file is an error.
//! - F2: what is read takes no more memory than a small multiple of the file: no count in it is
//!   believed before its bytes are there.

use crate::call::{Call, Recording, What};
use crate::tree::{Kind, Node, NodeId, PAGE, ROOT, Tree};
use base::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a file of a recording begins with, the version of the format at the end.
const HEAD: &[u8] = b"varve recording 1\n";

/// Bytes of the largest file that a recording knows: that of ext4 with blocks of 4 KiB.
const FILE_BYTES_MAX: u64 = 1 << 44;

/// A file that holds no recording.
#[derive(Debug, thiserror::Error)]
pub enum Damaged {
    /// It begins with something else.
    #[error(
        "is no recording of this version of `varve crash --dir`: it does not begin with `varve recording 1`"
    )]
    Head,
    /// The bytes behind the head are no recording.
    #[error("is damaged: {0}")]
    Format(#[from] postcard::Error),
    /// The recording contradicts itself.
    #[error("is damaged: {0}")]
    Content(String),
}

#[derive(Serialize, Deserialize)]
struct Saved {
    nodes: Vec<SavedNode>,
    calls: Vec<Call>,
}

#[derive(Serialize, Deserialize)]
struct SavedNode {
    id: NodeId,
    kind: Kind,
    mode: u16,
    owner: (u32, u32),
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    size: u64,
    pages: BTreeMap<u64, Bytes>,
    names: BTreeMap<Vec<u8>, NodeId>,
}

/// The bytes of the file of a recording.
///
/// # Errors
/// Memory.
pub fn save(recording: &Recording) -> Result<Vec<u8>, Damaged> {
    let saved_node = |(id, node): (NodeId, &Node)| SavedNode {
        id,
        kind: node.kind.clone(),
        mode: node.mode,
        owner: node.owner,
        xattrs: node.xattrs.clone(),
        size: node.size,
        pages: node.pages.clone(),
        names: node.names.clone(),
    };
    let saved = Saved {
        nodes: recording.start.nodes().map(saved_node).collect(),
        calls: recording.calls.clone(),
    };
    Ok(postcard::to_extend(&saved, HEAD.to_vec())?)
}

/// The recording in the bytes of its file.
///
/// # Errors
/// They are no recording (F1).
pub fn load(bytes: &[u8]) -> Result<Recording, Damaged> {
    let body = bytes.strip_prefix(HEAD).ok_or(Damaged::Head)?;
    // No count is believed before its bytes are there (F2): the crate takes a step of memory at a
    // time.
    let (saved, rest): (Saved, _) = postcard::take_from_bytes(body)?;
    if !rest.is_empty() {
        return Err(bad(format!("{} bytes behind its end", rest.len())));
    }
    let mut known: BTreeSet<NodeId> = saved.nodes.iter().map(|node| node.id).collect();
    let root = saved.nodes.iter().find(|node| node.id == ROOT);
    if root.is_none_or(|root| root.kind != Kind::Dir) {
        return Err(bad("it has no root".into()));
    }
    let mut start = Tree::default();
    for node in saved.nodes {
        put(&mut start, node, &known)?;
    }
    for (nr, call) in saved.calls.iter().enumerate() {
        let checked = check(call, &mut known);
        checked.map_err(|why| bad(format!("call {nr}: {why}")))?;
    }
    Ok(Recording {
        start,
        calls: saved.calls,
    })
}

fn bad(why: String) -> Damaged {
    Damaged::Content(why)
}

/// Adds a node of the start to the tree.
fn put(tree: &mut Tree, saved: SavedNode, known: &BTreeSet<NodeId>) -> Result<(), Damaged> {
    let id = saved.id;
    let of_node = |why: &str| bad(format!("node {}: {why}", id.0));
    let dir = saved.kind == Kind::Dir;
    if !dir && !saved.names.is_empty() || saved.names.values().any(|node| !known.contains(node)) {
        return Err(of_node("names of what is not there"));
    }
    if saved.size > FILE_BYTES_MAX || saved.kind != Kind::File && saved.size > 0 {
        return Err(of_node("a size that cannot be"));
    }
    let mut node = Node::new(saved.kind, saved.mode, saved.owner);
    (node.xattrs, node.names, node.size) = (saved.xattrs, saved.names, saved.size);
    tree.insert(id, node);
    for (number, page) in saved.pages {
        if page.len() as u64 != PAGE || number >= saved.size.div_ceil(PAGE) {
            return Err(of_node("a page that cannot be"));
        }
        tree.write(id, number * PAGE, &page);
    }
    Ok(())
}

/// Whether a call names nodes that are there, and ranges that can be (F1).
fn check(call: &Call, known: &mut BTreeSet<NodeId>) -> Result<(), String> {
    let mut need: Vec<NodeId> = Vec::new();
    let mut ends: Vec<u64> = Vec::new();
    match &call.what {
        What::Create { dir, node, .. } => {
            need.push(*dir);
            new(*node, known)?;
        }
        What::CreateUnnamed { node, .. } => new(*node, known)?,
        What::Link { node, dir, .. } | What::Unlink { dir, node, .. } => need.extend([*node, *dir]),
        What::Rename {
            from,
            to,
            node,
            replaced,
            exchange,
        } => {
            need.extend([from.0, to.0, *node]);
            need.extend(*replaced);
            if *exchange && replaced.is_none() {
                return Err("an exchange with nothing".into());
            }
        }
        What::Write {
            node,
            offset,
            data,
            size_before,
        } => {
            need.push(*node);
            ends.extend([offset.saturating_add(data.len() as u64), *size_before]);
        }
        What::Truncate {
            node,
            size,
            size_before,
        } => {
            need.push(*node);
            ends.extend([*size, *size_before]);
        }
        What::Allocate {
            node,
            offset,
            len,
            size,
            size_before,
            ..
        } => {
            need.push(*node);
            ends.extend([offset.saturating_add(*len), *size, *size_before]);
        }
        What::SetAttribute { node, .. } | What::Sync { node, .. } => need.push(*node),
        What::Failed {
            node, offset, len, ..
        } => {
            need.extend(*node);
            ends.push(offset.saturating_add(*len));
        }
        What::SyncAll | What::Acknowledge(_) => {}
    }
    if let Some(node) = need.iter().find(|node| !known.contains(node)) {
        return Err(format!("there is no node {}", node.0));
    }
    match ends.iter().any(|&end| end > FILE_BYTES_MAX) {
        true => Err("a range behind the largest file".into()),
        false => Ok(()),
    }
}

fn new(node: NodeId, known: &mut BTreeSet<NodeId>) -> Result<(), String> {
    match known.insert(node) {
        true => Ok(()),
        false => Err(format!("node {} is made twice", node.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: NodeId, kind: Kind) -> SavedNode {
        SavedNode {
            id,
            kind,
            mode: 0o644,
            owner: (0, 0),
            xattrs: BTreeMap::new(),
            size: 0,
            pages: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// Why a file with a root and this node is refused; empty if it is not.
    fn refused(change: impl FnOnce(&mut Vec<SavedNode>)) -> String {
        let mut nodes = vec![node(ROOT, Kind::Dir), node(NodeId(1), Kind::File)];
        change(&mut nodes);
        let calls = Vec::new();
        let bytes = postcard::to_extend(&Saved { nodes, calls }, HEAD.to_vec());
        let loaded = load(&bytes.expect("memory"));
        loaded.err().map(|e| e.to_string()).unwrap_or_default()
    }

    fn names(node: NodeId) -> BTreeMap<Vec<u8>, NodeId> {
        BTreeMap::from([(b"a".to_vec(), node)])
    }

    fn page(len: usize) -> Bytes {
        Bytes::from(vec![1; len])
    }

    #[test]
    fn a_tree_of_the_begin_that_cannot_be_is_refused() {
        assert_eq!(refused(|_| ()), "");
        assert!(refused(|nodes| drop(nodes.remove(0))).contains("no root"));
        let root = |nodes: &mut Vec<SavedNode>| nodes[0].kind = Kind::File;
        assert!(refused(root).contains("no root"), "a file is no root");

        let missing = refused(|nodes| nodes[0].names = names(NodeId(7)));
        assert!(missing.contains("node 0: names of what is not there"));
        let of_file = refused(|nodes| nodes[1].names = names(ROOT));
        assert!(of_file.contains("node 1: names of what is not there"));

        assert!(refused(|nodes| nodes[0].size = 1).contains("node 0: a size that cannot be"));
        let huge = refused(|nodes| nodes[1].size = FILE_BYTES_MAX + 1);
        assert!(huge.contains("node 1: a size that cannot be"));
    }

    #[test]
    fn pages_that_cannot_be_are_refused() {
        let with = |number: u64, len: usize| {
            refused(|nodes| {
                nodes[1].size = PAGE + 1;
                nodes[1].pages.insert(number, page(len));
            })
        };
        let whole = PAGE as usize;
        assert_eq!(with(1, whole), "");
        assert!(with(1, whole - 1).contains("node 1: a page that cannot be"));
        assert!(with(2, whole).contains("node 1: a page that cannot be"));
    }
}
