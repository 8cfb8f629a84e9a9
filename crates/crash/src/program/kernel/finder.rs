//! What a guest has seen of a state, as the oracle of files wants it.

use crate::found::{Finder, FoundEntry, FoundView};
use crate::model::Xattrs;
use base::Ino;
use guest::{Node, Seen};
use vfs::FileKind;

/// Shows what a guest has seen.
pub(super) struct SeenFinder<'a> {
    pub seen: &'a Seen,
    /// The links of a directory are 2 and those of the directories in it; else the file system says
    /// 1, and they are counted here. Where they should be there, 1 is damage.
    pub links_dirs: bool,
}

impl Finder for SeenFinder<'_> {
    fn names(&self, root: &str, with_xattrs: bool) -> Result<FoundView, String> {
        let all = self.seen.tree.0.iter();
        let below = all.filter_map(|(path, node)| {
            let inner = path.strip_prefix(root)?;
            (inner.is_empty() || inner.starts_with('/')).then_some((path, inner, node))
        });
        below
            .map(|(path, inner, node)| Ok((inner.into(), self.entry(path, node, with_xattrs)?)))
            .collect()
    }

    fn bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        let bytes = self.seen.bytes.get(path).cloned();
        bytes.ok_or_else(|| format!("{path}: it is no file"))
    }
}

impl SeenFinder<'_> {
    /// Directories in a directory.
    fn dirs_in(&self, path: &str) -> u32 {
        let is_in = |other: &str| {
            let rest = other
                .strip_prefix(path)
                .and_then(|rest| rest.strip_prefix('/'));
            rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
        };
        let all = self.seen.tree.0.iter();
        let dirs = all.filter(|(other, node)| node.mode & 0o170_000 == 0o040_000 && is_in(other));
        dirs.count() as u32
    }

    fn entry(&self, path: &str, node: &Node, with_xattrs: bool) -> Result<FoundEntry, String> {
        let kind = match node.mode & 0o170_000 {
            0o100_000 => FileKind::File,
            0o040_000 => FileKind::Dir,
            0o120_000 => FileKind::Symlink,
            other => return Err(format!("{path}: an inode of mode {other:o}")),
        };
        let target = match kind {
            FileKind::Symlink => String::from_utf8_lossy(&self.seen.bytes[path]).into_owned(),
            _ => String::new(),
        };
        let xattrs = match (kind, with_xattrs) {
            (FileKind::File | FileKind::Dir, true) => xattrs(node),
            _ => Xattrs::new(),
        };
        let nlink = match (kind, node.nlink) {
            (FileKind::Dir, 1) if !self.links_dirs => 2 + self.dirs_in(path),
            (_, links) => links as u32,
        };
        Ok(FoundEntry {
            kind,
            ident: ident(node.ino),
            perm: (node.mode & 0o7777) as u16,
            nlink,
            target,
            size: node.size,
            xattrs,
        })
    }
}

/// What tells inodes apart. The kernel shows no generation; the lower half of a long number does.
pub(super) fn ident(ino: u64) -> (Ino, u32) {
    (Ino(ino as u32), 0)
}

/// Extended attributes; one outside of `user.` was set by no task, and so fits no state.
fn xattrs(node: &Node) -> Xattrs {
    let all = node.xattrs.iter();
    all.map(|(name, value)| {
        let short = name.strip_prefix("user.").unwrap_or(name);
        (short.to_string(), value.clone())
    })
    .collect()
}
