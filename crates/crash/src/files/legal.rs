//! The names after a number of operations, which may be what a cut leaves, and how they compare
//! with what was found.

use crate::found::{FoundEntry, FoundView};
use crate::model::{Entry, View, parent};
use crate::stamp::FileId;
use base::Ino;
use std::collections::BTreeMap;
use vfs::FileKind;

/// The names as they are after some number of operations on names.
#[derive(Clone)]
pub(super) struct Legal {
    /// Number of operations.
    pub count: usize,
    /// The number of the operation that made them so.
    pub op: usize,
    /// The names.
    pub view: View,
    /// How many links the inode of each name has, in the order of the names.
    pub links: Vec<u32>,
}

impl Legal {
    /// A state of `count` operations, the last of which has number `op`.
    pub fn new(count: usize, op: usize, view: &View) -> Legal {
        let mut named: BTreeMap<FileId, u32> = BTreeMap::new();
        let mut dirs: BTreeMap<&str, u32> = BTreeMap::new();
        for (path, entry) in view {
            *named.entry(entry.id).or_default() += 1;
            if entry.kind == FileKind::Dir && !path.is_empty() {
                *dirs.entry(parent(path)).or_default() += 1;
            }
        }
        let links = view.iter().map(|(path, entry)| match entry.kind {
            FileKind::Dir => 2 + dirs.get(path.as_str()).copied().unwrap_or(0),
            _ => named[&entry.id],
        });
        Legal {
            count,
            op,
            links: links.collect(),
            view: view.clone(),
        }
    }

    /// Whether it is what was found.
    pub fn fits(&self, found: &FoundView, made: &Made) -> bool {
        self.view.len() == found.len()
            && self.view.iter().zip(&self.links).zip(found).all(
                |(((path, entry), links), (there, found))| {
                    path == there && is_as(entry, *links, found, made)
                },
            )
    }

    /// How the names found differ from this state, in words.
    pub fn mismatches(&self, found: &FoundView, made: &Made) -> Vec<String> {
        let mut words = Vec::new();
        for path in found.keys().filter(|path| !self.view.contains_key(*path)) {
            words.push(format!("`{path}` should not be there"));
        }
        for ((path, entry), links) in self.view.iter().zip(&self.links) {
            let Some(there) = found.get(path) else {
                words.push(format!("`{path}` is missing"));
                continue;
            };
            if !is_as(entry, *links, there, made) {
                let ident = made.get(&entry.id);
                words.push(format!(
                    "`{path}` is {there:?}, not {entry:?} with {links} links and number {ident:?}"
                ));
            }
        }
        words
    }
}

/// Inode number and generation of each file that a task has made.
pub(super) type Made = BTreeMap<FileId, (Ino, u32)>;

/// Whether an entry with so many links is what was found.
pub(super) fn is_as(entry: &Entry, links: u32, found: &FoundEntry, made: &Made) -> bool {
    entry.kind == found.kind
        && links == found.nlink
        && (entry.perm == found.perm || entry.kind == FileKind::Symlink)
        && *entry.target == *found.target
        && *entry.xattrs == found.xattrs
        && made.get(&entry.id).is_none_or(|id| *id == found.ident)
}
