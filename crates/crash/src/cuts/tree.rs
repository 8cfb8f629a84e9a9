//! The tree of a file system as a value, so that two recoveries of one remainder can be compared.

use base::collections::fingerprint;
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::{Attr, FileKind, FsResult, OpenFlags, Vfs};

/// Path to what is there.
pub type Tree = BTreeMap<String, Node>;

/// All of an inode that a user can see and that every correct recovery gives back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    kind: FileKind,
    perm: u16,
    nlink: u32,
    owner: (u32, u32),
    size: u64,
    mtime: (i64, u32),
    /// Fingerprint of the data, or the target of a symbolic link.
    content: u64,
}

/// Deepest directory that is read: a damaged tree may be a circle.
const DEPTH_MAX: usize = 64;

/// Reads the whole tree.
///
/// # Errors
/// The first operation that fails.
pub fn walk(vfs: &Arc<Vfs>) -> FsResult<Tree> {
    let mut tree = Tree::new();
    let mut todo = vec![(String::from("/"), 0)];
    while let Some((dir, depth)) = todo.pop() {
        let attr = vfs.lstat(&dir)?;
        tree.insert(dir.clone(), node(&attr, 0));
        for entry in vfs.readdir(&dir)? {
            if entry.name == b"." || entry.name == b".." {
                continue;
            }
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            let path = format!("{}/{name}", dir.trim_end_matches('/'));
            let attr = vfs.lstat(&path)?;
            if attr.kind == FileKind::Dir && depth < DEPTH_MAX {
                todo.push((path, depth + 1));
            } else {
                tree.insert(path.clone(), node(&attr, content(vfs, &path, &attr)?));
            }
        }
    }
    Ok(tree)
}

fn node(attr: &Attr, content: u64) -> Node {
    Node {
        kind: attr.kind,
        perm: attr.perm,
        nlink: attr.nlink,
        owner: (attr.uid, attr.gid),
        // Two correct recoveries may differ in size and times of a directory, because of lost+found
        // and of blocks that are used again.
        size: if attr.kind == FileKind::Dir {
            0
        } else {
            attr.size
        },
        mtime: if attr.kind == FileKind::Dir {
            (0, 0)
        } else {
            (attr.mtime.secs, attr.mtime.nanos)
        },
        content,
    }
}

fn content(vfs: &Arc<Vfs>, path: &str, attr: &Attr) -> FsResult<u64> {
    match attr.kind {
        FileKind::Symlink => Ok(fingerprint(&vfs.readlink(path)?)),
        FileKind::File => {
            let file = vfs.open(path, OpenFlags::READ, 0)?;
            let mut data = vec![0; attr.size as usize];
            let got = file.read_at(0, &mut data);
            file.close()?;
            data.truncate(got?);
            Ok(fingerprint(&data))
        }
        _ => Ok(u64::from(attr.rdev)),
    }
}
