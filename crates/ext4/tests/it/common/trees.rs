//! Reads the tree of a volume through the kernel and through Varve, to compare them.
#![allow(dead_code, missing_docs, clippy::disallowed_methods)]

use fscore::{FileKind, FileSystem};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use testkit::Brief;
use varve_ext4::Ext4;

/// A tree: path -> kind, mode, links, owner, size, content or target.
pub type Tree = BTreeMap<String, (char, u32, u64, (u32, u32), Vec<u8>)>;

pub fn kernel_tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![(root.to_path_buf(), String::new())];
    while let Some((dir, name)) = todo.pop() {
        for entry in fs::read_dir(&dir).expect("readdir") {
            let entry = entry.expect("an entry");
            let name = format!("{name}/{}", entry.file_name().to_string_lossy());
            let meta = fs::symlink_metadata(entry.path()).expect("stat");
            let (kind, content) = if meta.is_dir() {
                todo.push((entry.path(), name.clone()));
                ('d', Vec::new())
            } else if meta.is_symlink() {
                let target = fs::read_link(entry.path()).expect("readlink");
                ('l', target.to_string_lossy().into_owned().into_bytes())
            } else {
                ('f', fs::read(entry.path()).expect("read"))
            };
            let owner = (meta.uid(), meta.gid());
            tree.insert(
                name,
                (kind, meta.mode() & 0o7777, meta.nlink(), owner, content),
            );
        }
    }
    tree
}

pub fn our_tree(fs: &Ext4) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![(fs.root(), String::new())];
    while let Some((dir, path)) = todo.pop() {
        let mut from = 0;
        loop {
            let entries = fs.readdir(dir, from, 100).expect("readdir");
            let Some(last) = entries.last() else { break };
            from = last.next;
            for entry in entries.iter().filter(|e| e.name != b"." && e.name != b"..") {
                let name = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
                assert_eq!(fs.lookup(dir, &entry.name).expect("lookup"), entry.ino);
                let attr = fs.getattr(entry.ino).expect("getattr");
                assert_eq!(attr.kind, entry.kind);
                let (kind, content) = match attr.kind {
                    FileKind::Dir => {
                        todo.push((entry.ino, name.clone()));
                        ('d', Vec::new())
                    }
                    FileKind::Symlink => ('l', fs.readlink(entry.ino).expect("readlink")),
                    _ => ('f', fs.content(entry.ino)),
                };
                let owner = (attr.uid, attr.gid);
                tree.insert(
                    name,
                    (kind, attr.perm.into(), attr.nlink.into(), owner, content),
                );
            }
        }
    }
    tree
}

pub fn same_trees(a: &Tree, b: &Tree) {
    let names = |t: &Tree| t.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(a), names(b));
    for (name, entry) in a {
        let other = &b[name];
        assert_eq!(
            (entry.0, entry.1, entry.2, entry.3),
            (other.0, other.1, other.2, other.3),
            "{name}"
        );
        let at = (0..entry.4.len()).find(|&at| other.4.get(at) != Some(&entry.4[at]));
        let (len, theirs) = (entry.4.len(), other.4.len());
        assert!(
            entry.4 == other.4,
            "content of {name}: {len} and {theirs} bytes, not the same at {at:?}"
        );
    }
}
