//! Stamps of directory pages: for each page the last epoch that changed it.
//!
//! A dirty page in the cache is as its last epoch left it. To get a page as it was at epoch T,
//! apply compares the stamp with T under the lock of the page cache: if the stamp is behind T, or
//! if the page is not in the cache, apply makes the page from home and records.
//!
//! - S1 a stamp changes under the lock of the page cache, together with the page; before a page
//!   leaves the cache for good (because its last name or the whole directory was removed), its
//!   stamp becomes the epoch that drops it;
//! - S2 stamps stay until their epoch is applied.

use crate::journal::Epoch;
use base::Ino;
use rt::Mutex;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Default)]
struct Stamp {
    /// The last epoch that changed the page, or dropped it.
    last: Epoch,
    /// The last one that dropped it.
    dropped: Epoch,
}

impl Stamp {
    /// True if the epoch is the first one of its own to change the page.
    fn raise(&mut self, (dir, index): (Ino, u64), epoch: Epoch) -> bool {
        debug_assert!(
            self.last <= epoch,
            "f2fs-journal-I4: page {index} of directory {dir} is changed in epoch {}, after epoch {}",
            epoch.0,
            self.last.0
        );
        let first = self.last < epoch;
        self.last = epoch.max(self.last);
        first
    }
}

/// The stamps.
pub(crate) struct DirStamps {
    pages: Mutex<BTreeMap<(Ino, u64), Stamp>>,
}

impl DirStamps {
    /// No stamps.
    pub fn new() -> DirStamps {
        DirStamps {
            pages: Mutex::named("f2fs stamps of directory pages", BTreeMap::new()),
        }
    }

    /// Page `index` of `dir` was changed in this epoch. True if it was not before.
    pub fn set(&self, dir: Ino, index: u64, epoch: Epoch) -> bool {
        let mut pages = self.pages.lock();
        let stamp = pages.entry((dir, index)).or_default();
        stamp.raise((dir, index), epoch)
    }

    /// Notes that the page is dropped in this epoch; called before its slot says so (S1).
    pub fn drop_page(&self, dir: Ino, index: u64, epoch: Epoch) {
        let mut pages = self.pages.lock();
        let stamp = pages.entry((dir, index)).or_default();
        stamp.raise((dir, index), epoch);
        stamp.dropped = stamp.last;
    }

    /// All pages of `dir` go in this epoch.
    pub fn drop_all(&self, dir: Ino, epoch: Epoch) {
        let mut pages = self.pages.lock();
        for (&page, stamp) in pages.range_mut((dir, 0)..=(dir, u64::MAX)) {
            stamp.raise(page, epoch);
            stamp.dropped = stamp.last;
        }
    }

    /// The last epoch that changed a page: 0 if it is applied.
    pub fn last(&self, dir: Ino, index: u64) -> Epoch {
        let pages = self.pages.lock();
        pages
            .get(&(dir, index))
            .map_or(Epoch(0), |stamp| stamp.last)
    }

    /// The last epoch that dropped it: 0 if it is applied. What a slot leads to that says NEW was
    /// born behind it.
    pub fn dropped(&self, dir: Ino, index: u64) -> Epoch {
        let pages = self.pages.lock();
        pages
            .get(&(dir, index))
            .map_or(Epoch(0), |stamp| stamp.dropped)
    }

    /// Epochs up to this one are applied (S2).
    pub fn applied(&self, epoch: Epoch) {
        self.pages.lock().retain(|_, stamp| stamp.last > epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_stays_until_its_epoch_is_applied() {
        let stamps = DirStamps::new();
        let (a, b) = (Ino(7), Ino(8));
        stamps.set(a, 0, Epoch(3));
        stamps.set(a, 9, Epoch(4));
        stamps.set(b, 0, Epoch(4));
        stamps.drop_page(a, 9, Epoch(4));
        stamps.set(a, 9, Epoch(5));
        assert_eq!(
            (stamps.last(a, 9), stamps.dropped(a, 9)),
            (Epoch(5), Epoch(4))
        );
        assert_eq!(stamps.dropped(a, 0), Epoch(0));
        stamps.drop_all(a, Epoch(5));
        assert_eq!((stamps.last(a, 0), stamps.last(a, 9)), (Epoch(5), Epoch(5)));
        assert_eq!(stamps.dropped(a, 0), Epoch(5));
        stamps.applied(Epoch(4));
        assert_eq!(
            (stamps.last(b, 0), stamps.pages.lock().len()),
            (Epoch(0), 2)
        );
        stamps.applied(Epoch(5));
        assert_eq!(stamps.pages.lock().len(), 0);
    }
}
