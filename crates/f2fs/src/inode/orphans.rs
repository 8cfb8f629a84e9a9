//! The list of orphans: inodes without links that are still open. A checkpoint saves the list, and
//! a mount frees the inodes on it.

use super::Inode;
use crate::F2fs;
use base::Ino;
use fscore::{Errno, FsError, FsResult};
use rt::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The list.
pub(crate) struct Orphans {
    list: Mutex<BTreeSet<Ino>>,
    /// As many as a checkpoint pack has room for.
    max: usize,
}

impl Orphans {
    /// An empty list for at most `max` inodes.
    pub fn new(max: usize) -> Orphans {
        Orphans {
            list: Mutex::named("f2fs orphans", BTreeSet::new()),
            max,
        }
    }

    /// All of them, by number: what a checkpoint writes.
    pub fn all(&self) -> Vec<Ino> {
        self.list.lock().iter().copied().collect()
    }

    /// # Errors
    /// ENOSPC if no checkpoint could list one more.
    pub(crate) fn check_room(&self) -> FsResult<()> {
        match self.list.lock().len() < self.max {
            true => Ok(()),
            false => Err(Errno::NoSpc.into()),
        }
    }

    pub(crate) fn add(&self, ino: Ino) {
        self.list.lock().insert(ino);
    }

    /// True if it was on the list.
    pub(crate) fn remove(&self, ino: Ino) -> bool {
        self.list.lock().remove(&ino)
    }
}

impl F2fs {
    /// The orphans, in memory: recovery may have left pages of theirs that a checkpoint has to
    /// write.
    pub(crate) fn load_orphans(&self) -> FsResult<Vec<Arc<Inode>>> {
        let mut loaded = Vec::new();
        for ino in self.orphans.all() {
            match self.load_inode(ino, true) {
                Ok(inode) => loaded.push(inode),
                Err(FsError::Posix(Errno::Stale)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(loaded)
    }

    /// Frees what the checkpoint lists as orphans. At mount, before operations begin. Answers how
    /// many there were.
    ///
    /// An inode on the list that has links is damage, and stays: freeing it would make its names
    /// point to nothing.
    pub(crate) fn free_orphans(&self, listed: &[Ino]) -> FsResult<u64> {
        let mut freed = 0;
        for &ino in listed {
            let inode = match self.load_inode(ino, true) {
                Ok(inode) => inode,
                // Freed after the list was written, and fsynced since.
                Err(FsError::Posix(Errno::Stale)) => {
                    self.orphans.remove(ino);
                    continue;
                }
                Err(e) => return Err(e),
            };
            if inode.core().fields.links > 0 {
                self.cp.need_fsck();
                self.orphans.remove(ino);
                continue;
            }
            inode.core().orphan = true;
            self.orphans.add(ino);
            self.evict_if_unused(&inode)?;
            freed += 1;
        }
        Ok(freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_bounded_and_sorted() {
        let orphans = Orphans::new(2);
        orphans.add(Ino(9));
        orphans.check_room().expect("one more");
        orphans.add(Ino(4));
        orphans.add(Ino(4));
        assert!(orphans.check_room().is_err());
        assert_eq!(orphans.all(), [Ino(4), Ino(9)]);
        orphans.remove(Ino(9));
        orphans.check_room().expect("room again");
    }
}
