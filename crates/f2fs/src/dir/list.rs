//! Reading a directory, and whether it is empty.

use super::{Shape, entry_kind, is_dot};
use crate::F2fs;
use crate::inode::Inode;
use base::Ino;
use fscore::{DirEntry, FsError, FsResult};
use ondisk::f2fs::{DENTRIES_PER_BLOCK, Dentry, dentry_slots};

/// Entries for which memory is taken before they are seen.
const EXPECTED_MAX: usize = 1024;

impl F2fs {
    /// Entries from position `from` on, at most `max`. A position is 214 times the page, plus the
    /// slot.
    pub(crate) fn dir_list(&self, dir: &Inode, from: u64, max: usize) -> FsResult<Vec<DirEntry>> {
        let mut out = Vec::with_capacity(max.min(EXPECTED_MAX));
        if max == 0 {
            return Ok(out);
        }
        self.walk(dir, &Shape::of(dir), from, |place, entry| {
            check_entry(dir, entry)?;
            let ino = Ino(entry.ino.0);
            let kind = match entry_kind(entry.kind) {
                Some(kind) => kind,
                None => self.inode(ino)?.kind()?,
            };
            let next = place.slot + dentry_slots(entry.name.len());
            out.push(DirEntry {
                ino,
                kind,
                name: entry.name.to_vec(),
                next: place.page * DENTRIES_PER_BLOCK as u64 + next as u64,
            });
            Ok(out.len() < max)
        })?;
        Ok(out)
    }

    /// True if it has no entries but the dots.
    pub(crate) fn dir_is_empty(&self, dir: &Inode) -> FsResult<bool> {
        let mut empty = true;
        self.walk(dir, &Shape::of(dir), 0, |_, entry| {
            empty = is_dot(entry.name);
            Ok(empty)
        })?;
        Ok(empty)
    }
}

fn check_entry(dir: &Inode, entry: &Dentry<'_>) -> FsResult<()> {
    let name = entry.name;
    if entry.ino.0 == 0 || name.contains(&b'/') || name.contains(&0) {
        let name = name.escape_ascii();
        return Err(FsError::corrupt(format!(
            "directory inode {}: entry \"{name}\" for inode {}",
            dir.ino, entry.ino
        )));
    }
    Ok(())
}
