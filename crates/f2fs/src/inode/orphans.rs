//! The list of orphans: inodes without links that are still open. A checkpoint saves the list, and
//! a mount frees the inodes on it.

use base::Ino;
use fscore::{Errno, FsResult};
use rt::Mutex;
use std::collections::BTreeSet;

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
