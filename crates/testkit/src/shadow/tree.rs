//! Reads the tree of a file system, directory by directory.

use base::Ino;
use fscore::{FileKind, FileSystem};
use std::collections::BTreeMap;

/// What has a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Number of its inode.
    pub ino: Ino,
    /// Its kind.
    pub kind: FileKind,
    /// Its number of links.
    pub links: u32,
    /// Its target, for a symbolic link; otherwise empty.
    pub target: Vec<u8>,
}

/// Entries by path; each path has a slash at its end.
pub type Tree = BTreeMap<Vec<u8>, Entry>;

/// Reads all directories, in pieces of `batch` entries.
///
/// # Panics
/// A call fails, or two answers disagree: a name is there twice, an entry has another kind than its
/// inode, or `.` or `..` leads elsewhere.
pub fn read_tree(fs: &dyn FileSystem, batch: usize) -> Tree {
    let mut tree = Tree::new();
    below(
        fs,
        fs.root(),
        fs.root(),
        &mut b"/".to_vec(),
        batch,
        &mut tree,
    );
    tree
}

fn below(
    fs: &dyn FileSystem,
    ino: Ino,
    parent: Ino,
    path: &mut Vec<u8>,
    batch: usize,
    tree: &mut Tree,
) {
    let attr = fs.getattr(ino).expect("getattr");
    let mut target = Vec::new();
    if attr.kind == FileKind::Symlink {
        target = fs.readlink(ino).expect("readlink");
        assert_eq!(attr.size, target.len() as u64);
    }
    let entry = Entry {
        ino,
        kind: attr.kind,
        links: attr.nlink,
        target,
    };
    assert!(tree.insert(path.clone(), entry).is_none(), "each name once");
    if attr.kind != FileKind::Dir {
        return;
    }
    let mut cookie = 0;
    let mut dots = BTreeMap::new();
    loop {
        let entries = fs.readdir(ino, cookie, batch).expect("readdir");
        let Some(last) = entries.last() else { break };
        cookie = last.next;
        for entry in entries {
            if matches!(&entry.name[..], b"." | b"..") {
                assert!(dots.insert(entry.name, entry.ino).is_none());
                continue;
            }
            assert_eq!(fs.lookup(ino, &entry.name).expect("lookup"), entry.ino);
            let len = path.len();
            path.extend_from_slice(&entry.name);
            path.push(b'/');
            below(fs, entry.ino, ino, path, batch, tree);
            assert_eq!(tree[path].kind, entry.kind, "the kind in the entry");
            path.truncate(len);
        }
    }
    assert_eq!(
        dots,
        BTreeMap::from([(b".".to_vec(), ino), (b"..".to_vec(), parent)])
    );
}
