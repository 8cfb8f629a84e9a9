//! Which node an inode is, and what it is called.

use crate::tree::{Kind, Node, NodeId, ROOT, Tree};
use base::plain::shown;
use base::{Ino, Map};
use vfs::{Attr, Errno, FileKind, FileSystem, FsResult, SeekMode};

/// Bytes of a file that are read at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Entries of a directory that are read at a time.
const ENTRIES: usize = 256;

/// Nodes by the numbers of their inodes (record-R2), and the last name of each.
#[derive(Default)]
pub(super) struct Nodes {
    ids: Map<Ino, NodeId>,
    names: Map<NodeId, (NodeId, Vec<u8>)>,
    next: u64,
}

impl Nodes {
    /// Takes in a whole volume as it is, and answers it as a tree. `room` is asked for the memory
    /// that content takes.
    pub fn begin(
        &mut self,
        fs: &dyn FileSystem,
        room: &mut dyn FnMut(usize) -> FsResult<()>,
    ) -> FsResult<Tree> {
        *self = Nodes::default();
        let mut tree = Tree::default();
        let mut dirs = vec![self.new_node(fs.root())];
        tree.insert(ROOT, node_of(fs, &fs.getattr(fs.root())?)?);
        let mut at = vec![fs.root()];
        while let (Some(dir), Some(ino)) = (dirs.pop(), at.pop()) {
            for (name, child) in entries(fs, ino)? {
                let known = self.ids.get(&child).copied();
                let id = known.unwrap_or_else(|| self.new_node(child));
                self.named(id, dir, &name);
                tree.set_name(dir, &name, Some(id));
                if known.is_some() {
                    continue;
                }
                let attr = fs.getattr(child)?;
                tree.insert(id, node_of(fs, &attr)?);
                match attr.kind {
                    FileKind::File => fill(fs, &attr, id, &mut tree, room)?,
                    FileKind::Dir => {
                        dirs.push(id);
                        at.push(child);
                    }
                    _ => {}
                }
            }
        }
        Ok(tree)
    }

    /// A node that the inode of this number is from now on.
    pub fn new_node(&mut self, ino: Ino) -> NodeId {
        let id = NodeId(self.next);
        self.next += 1;
        self.ids.insert(ino, id);
        id
    }

    /// The node that an inode is.
    ///
    /// # Errors
    /// ESTALE: it is none of the volume's tree.
    pub fn of(&self, ino: Ino) -> FsResult<NodeId> {
        let id = self.ids.get(&ino).copied();
        id.ok_or_else(|| Errno::Stale.into())
    }

    /// The node has this name now.
    pub fn named(&mut self, id: NodeId, dir: NodeId, name: &[u8]) {
        self.names.insert(id, (dir, name.to_vec()));
    }

    /// The last name of a node as a path, for people.
    pub fn path(&self, ino: Ino) -> String {
        let Ok(id) = self.of(ino) else {
            return String::from("?");
        };
        match id {
            ROOT => String::from("."),
            _ => self.path_of(id),
        }
    }

    /// The path of a name in a directory, for people.
    pub fn path_in(&self, dir: Ino, name: &[u8]) -> String {
        let name = shown(name);
        match self.of(dir) {
            Ok(ROOT) => name,
            Ok(dir) => format!("{}/{name}", self.path_of(dir)),
            Err(_) => format!("?/{name}"),
        }
    }

    fn path_of(&self, id: NodeId) -> String {
        let mut parts = Vec::new();
        let mut at = id;
        while let Some((dir, name)) = self.names.get(&at) {
            parts.push(shown(name));
            at = *dir;
            // A directory that was removed, and whose place was taken by one of those above it.
            if parts.len() > self.names.len() {
                break;
            }
        }
        parts.reverse();
        match parts.is_empty() {
            true => String::from("a file without a name"),
            false => parts.join("/"),
        }
    }
}

/// What an inode is, with its target or its device.
pub(super) fn kind_of(fs: &dyn FileSystem, attr: &Attr) -> FsResult<Kind> {
    Ok(match attr.kind {
        FileKind::File => Kind::File,
        FileKind::Dir => Kind::Dir,
        FileKind::Symlink => Kind::Symlink(fs.readlink(attr.ino)?),
        other => Kind::Special(other.mode_bits(), attr.rdev),
    })
}

fn node_of(fs: &dyn FileSystem, attr: &Attr) -> FsResult<Node> {
    let mut node = Node::new(kind_of(fs, attr)?, attr.perm, (attr.uid, attr.gid));
    for name in fs.listxattr(attr.ino)? {
        let value = fs.getxattr(attr.ino, &name)?;
        node.xattrs.insert(name, value);
    }
    Ok(node)
}

fn entries(fs: &dyn FileSystem, dir: Ino) -> FsResult<Vec<(Vec<u8>, Ino)>> {
    let mut all = Vec::new();
    let mut from = 0;
    loop {
        let some = fs.readdir(dir, from, ENTRIES)?;
        let Some(last) = some.last() else { break };
        from = last.next;
        let names = some
            .into_iter()
            .filter(|e| e.name != b"." && e.name != b"..");
        all.extend(names.map(|entry| (entry.name, entry.ino)));
    }
    all.sort();
    Ok(all)
}

/// Reads the content of a file into its node; holes are left out.
fn fill(
    fs: &dyn FileSystem,
    attr: &Attr,
    id: NodeId,
    tree: &mut Tree,
    room: &mut dyn FnMut(usize) -> FsResult<()>,
) -> FsResult<()> {
    tree.set_size(id, attr.size);
    let mut buf = vec![0; CHUNK_BYTES.min(attr.size as usize)];
    let mut at = 0;
    while at < attr.size {
        at = match fs.seek(attr.ino, at, SeekMode::Data) {
            Ok(data) => data,
            Err(e) if e.errno() == Errno::NxIo => break,
            Err(e) => return Err(e),
        };
        let len = fs.read(attr.ino, at, &mut buf)?;
        if len == 0 {
            break;
        }
        room(len)?;
        tree.write(id, at, &buf[..len]);
        at += len as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_ends_even_where_names_lead_in_a_circle() {
        let mut nodes = Nodes::default();
        nodes.new_node(Ino(2));
        let (one, two) = (nodes.new_node(Ino(3)), nodes.new_node(Ino(4)));
        nodes.named(one, two, b"a");
        nodes.named(two, one, b"b");
        assert!(nodes.path(Ino(3)).ends_with("b/a"));
    }
}
