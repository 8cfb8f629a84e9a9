//! A tree of files as a value: what a program finds after a power cut.

use base::Bytes;
use base::collections::{FixedHasher, fingerprint, mix};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::Arc;

/// Bytes of a page, the unit in which content is kept.
pub const PAGE: u64 = 4096;

/// A digest that is made when it is first asked for; making it never yields.
#[allow(clippy::disallowed_types)]
type Digest = std::sync::OnceLock<u64>;

/// A file, directory or other inode for the length of a recording. Numbers of inodes are used
/// again, these are not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NodeId(pub u64);

/// The root directory.
pub const ROOT: NodeId = NodeId(0);

/// What a node is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link to this target.
    Symlink(Vec<u8>),
    /// A device, pipe or socket: `st_mode` with its kind, and the number of a device. It has no
    /// content of its own.
    Special(u16, u32),
}

/// A node with all that belongs to it.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Permission bits with set-user-ID, set-group-ID and sticky.
    pub mode: u16,
    /// User and group.
    pub owner: (u32, u32),
    /// Extended attributes by their whole names.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Size of a file in bytes.
    pub size: u64,
    /// Pages of a file that are not all zeros, each of [`PAGE`] bytes. Bytes behind `size` are
    /// zeros.
    pub pages: BTreeMap<u64, Bytes>,
    /// Names of a directory.
    pub names: BTreeMap<Vec<u8>, NodeId>,
    hash: Digest,
}

impl Node {
    /// An empty node.
    pub fn new(kind: Kind, mode: u16, owner: (u32, u32)) -> Node {
        Node {
            kind,
            mode,
            owner,
            xattrs: BTreeMap::new(),
            size: 0,
            pages: BTreeMap::new(),
            names: BTreeMap::new(),
            hash: Digest::new(),
        }
    }

    /// The bytes of a file from `offset` on, at most `len`.
    pub fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(len));
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        if offset >= end {
            return bytes;
        }
        for (&page, content) in self.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let from = (page * PAGE).max(offset);
            let to = ((page + 1) * PAGE).min(end);
            let source = &content[(from - page * PAGE) as usize..(to - page * PAGE) as usize];
            bytes[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
        }
        bytes
    }

    /// The whole content of a file.
    pub fn content(&self) -> Vec<u8> {
        self.read(0, self.size)
    }

    /// Puts bytes into pages. The size stays, so that bytes behind it have to be cut off.
    fn put(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let within = (at % PAGE) as usize;
            let count = (data.len() - done).min(PAGE as usize - within);
            let mut page = match self.pages.get(&(at / PAGE)) {
                Some(page) if count < PAGE as usize => page.to_vec(),
                _ => vec![0; PAGE as usize],
            };
            page[within..within + count].copy_from_slice(&data[done..done + count]);
            self.set_page(at / PAGE, page);
            done += count;
        }
    }

    fn set_page(&mut self, number: u64, page: Vec<u8>) {
        if base::bytes::is_zero(&page) {
            self.pages.remove(&number);
        } else {
            self.pages.insert(number, page.into());
        }
    }

    /// A digest of all but names: what a name leads to is hashed with the tree.
    fn digest(&self) -> u64 {
        *self.hash.get_or_init(|| {
            let kind = match &self.kind {
                Kind::File => 1,
                Kind::Dir => 2,
                Kind::Symlink(target) => mix(3 ^ fingerprint(target)),
                Kind::Special(mode, device) => {
                    mix(4 ^ u64::from(*mode) << 8 ^ u64::from(*device) << 24)
                }
            };
            let (user, group) = self.owner;
            let mut hash = mix(kind ^ u64::from(self.mode) << 32);
            hash = mix(hash ^ u64::from(user) << 32 ^ u64::from(group));
            hash = mix(hash ^ self.size);
            for (number, page) in &self.pages {
                hash = mix(mix(hash ^ number) ^ page_digest(page));
            }
            for (name, value) in &self.xattrs {
                hash = mix(mix(hash ^ fingerprint(name)) ^ fingerprint(value));
            }
            hash
        })
    }
}

/// A digest of a page, by words: pages are most of what is hashed.
fn page_digest(page: &[u8]) -> u64 {
    let mut hasher = FixedHasher::default();
    let words = page.as_chunks::<8>().0;
    words
        .iter()
        .for_each(|word| hasher.write_u64(u64::from_le_bytes(*word)));
    hasher.finish()
}

/// A tree. Nodes that no name leads to are in it, too: an open file without names, or a node whose
/// name is not durable; they count neither for equality nor for the hash.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: BTreeMap<NodeId, Arc<Node>>,
}

impl Default for Tree {
    fn default() -> Tree {
        let root = Node::new(Kind::Dir, 0o755, (0, 0));
        Tree {
            nodes: [(ROOT, Arc::new(root))].into(),
        }
    }
}

impl Tree {
    /// A node; `None` if there is none of that number.
    pub fn node(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(&node).map(|node| &**node)
    }

    /// All nodes, those without names, too.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(&id, node)| (id, &**node))
    }

    /// Pages of all files that are not all zeros.
    pub fn pages(&self) -> usize {
        self.nodes.values().map(|node| node.pages.len()).sum()
    }

    /// Adds a node, or puts another one in its place.
    pub fn insert(&mut self, id: NodeId, mut node: Node) {
        // A clone of a node that was hashed may have been changed since.
        node.hash = Digest::new();
        self.nodes.insert(id, Arc::new(node));
    }

    /// Adds a node that other trees share, or puts it in another one's place.
    pub fn share(&mut self, id: NodeId, node: Arc<Node>) {
        self.nodes.insert(id, node);
    }

    /// Changes a node. Without one of that number nothing happens.
    pub fn edit(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(&id) {
            let node = Arc::make_mut(node);
            node.hash = Digest::new();
            change(node);
        }
    }

    /// Gives `name` in `dir` to a node, or to none.
    pub fn set_name(&mut self, dir: NodeId, name: &[u8], node: Option<NodeId>) {
        self.edit(dir, |dir| match node {
            Some(node) => drop(dir.names.insert(name.to_vec(), node)),
            None => drop(dir.names.remove(name)),
        });
    }

    /// Writes content; the size stays, and what lies behind it is not kept.
    pub fn write(&mut self, id: NodeId, offset: u64, data: &[u8]) {
        self.edit(id, |node| {
            let room = node.size.saturating_sub(offset).min(data.len() as u64);
            node.put(offset, &data[..room as usize]);
        });
    }

    /// Makes a range read as zeros.
    pub fn zero(&mut self, id: NodeId, offset: u64, len: u64) {
        self.edit(id, |node| {
            let end = offset.saturating_add(len).min(node.size);
            if offset >= end {
                return;
            }
            // A range of a sparse file may have far more pages than there are.
            let pages = node.pages.range(offset / PAGE..end.div_ceil(PAGE));
            let pages: Vec<u64> = pages.map(|(&page, _)| page).collect();
            for page in pages {
                let from = offset.max(page * PAGE);
                let to = end.min((page + 1) * PAGE);
                node.put(from, &vec![0; (to - from) as usize]);
            }
        });
    }

    /// Sets the size. What is cut off is gone: it reads as zeros if the file grows again.
    pub fn set_size(&mut self, id: NodeId, size: u64) {
        self.edit(id, |node| {
            if size < node.size {
                node.pages.split_off(&size.div_ceil(PAGE));
                if let Some(last) = node.pages.get(&(size / PAGE)) {
                    let mut last = last.to_vec();
                    last[(size % PAGE) as usize..].fill(0);
                    node.set_page(size / PAGE, last);
                }
            }
            node.size = size;
        });
    }

    /// What a path leads to; components are divided by `/`, and symbolic links are not followed.
    pub fn find(&self, path: &[u8]) -> Option<NodeId> {
        let parts = path.split(|&c| c == b'/').filter(|part| !part.is_empty());
        let mut at = ROOT;
        for part in parts {
            at = *self.node(at)?.names.get(part)?;
        }
        Some(at)
    }

    /// Calls `visit` with path (without `/` in front; empty for the root), number and node of
    /// everything that a name leads to: directories before what is in them, names ascending. A file
    /// with several names comes with each of them.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&[u8], NodeId, &'a Node)) {
        self.walk_from(ROOT, &mut Vec::new(), &mut Vec::new(), visit);
    }

    fn walk_from<'a>(
        &'a self,
        id: NodeId,
        path: &mut Vec<u8>,
        above: &mut Vec<NodeId>,
        visit: &mut dyn FnMut(&[u8], NodeId, &'a Node),
    ) {
        let Some(node) = self.node(id) else { return };
        // A half-durable move of a directory could lead it into itself.
        if above.contains(&id) {
            return;
        }
        visit(path, id, node);
        above.push(id);
        for (name, &child) in &node.names {
            let len = path.len();
            if len > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name);
            self.walk_from(child, path, above, visit);
            path.truncate(len);
        }
        above.pop();
    }

    /// A hash of all that names lead to, and of which names lead to the same node. Equal trees have
    /// equal hashes, whatever the numbers of their nodes.
    pub fn hash(&self) -> u64 {
        let mut hash = 0;
        let mut first: BTreeMap<NodeId, u64> = BTreeMap::new();
        let mut count = 0;
        self.walk(&mut |path, id, node| {
            count += 1;
            let same = *first.entry(id).or_insert(count);
            hash = mix(mix(mix(hash ^ fingerprint(path)) ^ node.digest()) ^ same);
        });
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(content: &[u8]) -> Tree {
        let mut tree = Tree::default();
        tree.insert(NodeId(1), Node::new(Kind::File, 0o644, (0, 0)));
        tree.set_name(ROOT, b"f", Some(NodeId(1)));
        tree.set_size(NodeId(1), content.len() as u64);
        tree.write(NodeId(1), 0, content);
        tree
    }

    fn content(tree: &Tree) -> Vec<u8> {
        tree.node(NodeId(1)).expect("the file").content()
    }

    #[test]
    fn content_is_cut_at_the_size_and_grows_with_zeros() {
        let mut tree = with_file(&[7; 5000]);
        tree.set_size(NodeId(1), 4100);
        tree.set_size(NodeId(1), 4200);
        let mut expected = vec![7; 4100];
        expected.resize(4200, 0);
        assert_eq!(content(&tree), expected);
        tree.write(NodeId(1), 4190, &[9; 100]);
        expected[4190..].fill(9);
        assert_eq!(content(&tree), expected, "nothing is kept behind the size");
        tree.set_size(NodeId(1), 4300);
        expected.resize(4300, 0);
        assert_eq!(content(&tree), expected);
        tree.zero(NodeId(1), 10, 4090);
        expected[10..4100].fill(0);
        assert_eq!(content(&tree), expected);
        assert_eq!(
            tree.node(NodeId(1)).expect("it").read(4195, 4),
            [9, 9, 9, 9]
        );
    }

    #[test]
    fn the_hash_is_that_of_what_names_lead_to() {
        let plain = with_file(b"abc");
        let mut other = with_file(b"abc");
        other.insert(NodeId(9), Node::new(Kind::File, 0o600, (1, 1)));
        assert_eq!(plain.hash(), other.hash(), "no name leads to it");
        other.set_name(ROOT, b"g", Some(NodeId(9)));
        assert_ne!(plain.hash(), other.hash());
        other.set_name(ROOT, b"g", Some(NodeId(1)));
        let linked = other.hash();
        let mut copied = with_file(b"abc");
        let mut copy = copied.node(NodeId(1)).expect("it").clone();
        copy.mode = 0o600;
        copied.insert(NodeId(2), copy);
        copied.set_name(ROOT, b"g", Some(NodeId(2)));
        let other_mode = copied.hash();
        copied.edit(NodeId(2), |node| node.mode = 0o644);
        assert_ne!(other_mode, copied.hash(), "a changed clone has no old hash");
        copied.set_name(ROOT, b"g", Some(NodeId(2)));
        assert_ne!(linked, copied.hash(), "a link is no copy");
        let mut edited = with_file(b"abc");
        edited.edit(NodeId(1), |node| node.mode = 0o600);
        assert_ne!(plain.hash(), edited.hash());
        assert_ne!(plain.hash(), with_file(b"abd").hash());
    }

    #[test]
    fn paths_lead_to_nodes() {
        let mut tree = with_file(b"x");
        tree.insert(NodeId(2), Node::new(Kind::Dir, 0o755, (0, 0)));
        tree.set_name(ROOT, b"d", Some(NodeId(2)));
        tree.set_name(NodeId(2), b"g", Some(NodeId(1)));
        assert_eq!(tree.find(b"d/g"), Some(NodeId(1)));
        assert_eq!(tree.find(b"/d//g"), Some(NodeId(1)));
        assert_eq!(tree.find(b"d/h"), None);
        let mut seen = Vec::new();
        tree.walk(&mut |path, _, _| seen.push(String::from_utf8_lossy(path).into_owned()));
        assert_eq!(seen, ["", "d", "d/g", "f"]);
        // A directory that is in itself is seen once on each way.
        tree.set_name(NodeId(2), b"loop", Some(NodeId(2)));
        tree.walk(&mut |_, _, _| ());
    }
}
