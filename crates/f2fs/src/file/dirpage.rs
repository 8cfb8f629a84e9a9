//! Pages of directories. They are edited in place in the cache, and written by checkpoints (with a
//! journal: by applies), never by write-back.

use crate::F2fs;
use crate::inode::Inode;
use crate::journal::capture::{Edit, edit};
use crate::journal::{Journal, Tx};
use crate::ops::Op;
use base::{Bytes, Ino};
use fscore::FsResult;
use ondisk::f2fs::Nid;
use ondisk::f2fs::journal::Record;

use super::zero_page;

/// Pages read ahead in a directory (Linux `MAX_DIR_RA_PAGES`).
const READ_AHEAD_PAGES: u64 = 4;

impl F2fs {
    /// The content of page `index` of a directory, from the cache or the device; zeros for a hole.
    ///
    /// Holding it makes the next edit of the page copy it: [`with_dir_page`](Self::with_dir_page)
    /// does not.
    pub(crate) fn dir_page(&self, dir: &Inode, index: u64) -> FsResult<Bytes> {
        match self.pages.get(dir.ino, index) {
            Some(page) => Ok(page),
            None => self.load_dir_page(dir, index),
        }
    }

    /// Looks at page `index` of a directory; `look` must not call the file system.
    pub(crate) fn with_dir_page<R>(
        &self,
        dir: &Inode,
        index: u64,
        look: impl FnOnce(&[u8]) -> R,
    ) -> FsResult<R> {
        let mut look = Some(look);
        let mut once = |page: &[u8]| (look.take().expect("looked at once"))(page);
        match self.pages.look(dir.ino, index, &mut once) {
            Some(answer) => Ok(answer),
            None => Ok(once(&self.load_dir_page(dir, index)?)),
        }
    }

    fn load_dir_page(&self, dir: &Inode, index: u64) -> FsResult<Bytes> {
        let page = self.fill(dir, index, index + READ_AHEAD_PAGES)?;
        Ok(page.unwrap_or_else(zero_page))
    }

    /// Changes a page of a directory and makes it dirty; reserves its block if it has none (counts
    /// it; ENOSPC). `change` must not call the file system.
    pub(crate) fn edit_dir_page<R>(
        &self,
        op: &Op<'_>,
        dir: &Inode,
        index: u64,
        change: impl FnOnce(&mut Edit<'_>) -> R,
    ) -> FsResult<R> {
        let mut change = Some(change);
        let mut once = |page: &mut [u8]| {
            let change = change.take().expect("changed once");
            match self.journal.as_ref().zip(op.tx()) {
                Some((journal, tx)) => edit_logged(journal, tx, (dir.ino, index), page, change),
                None => change(&mut Edit::unlogged(page, self.features)),
            }
        };
        // The epoch is picked outside the lock of the cache.
        let _ = op.tx().map(Tx::epoch);
        if let Some(answer) = self.pages.edit(dir.ino, index, None, &mut once) {
            return Ok(answer);
        }
        let old = {
            let mut tree = dir.tree.lock();
            self.reserve(op, dir, &mut tree, index)?.addr
        };
        let base = if old.is_data() {
            self.load_dir_page(dir, index)?
        } else {
            self.put_inode(op, dir)?;
            zero_page()
        };
        let edited = self.pages.edit(dir.ino, index, Some(&base), once);
        Ok(edited.expect("a base was given"))
    }

    /// Frees a page of a directory that holds no entry any more.
    pub(crate) fn drop_dir_page(&self, op: &Op<'_>, dir: &Inode, index: u64) -> FsResult<()> {
        let _wb = dir.wb.lock();
        if self.pages.is_busy(dir.ino, index..index + 1) {
            let _ = self.land(dir);
        }
        if let Some((journal, tx)) = self.journal.as_ref().zip(op.tx()) {
            journal.stamps.drop_page(dir.ino, index, tx.epoch());
        }
        self.pages.drop_range(dir.ino, index..index + 1);
        {
            let mut tree = dir.tree.lock();
            self.punch_map(op, dir, &mut tree, index, index + 1)?;
        }
        dir.core().changed();
        self.put_inode(op, dir)
    }
}

/// Changes a page and logs how. The cache's lock is held.
fn edit_logged<R>(
    journal: &Journal,
    tx: &Tx<'_>,
    (dir, index): (Ino, u64),
    page: &mut [u8],
    change: impl FnOnce(&mut Edit<'_>) -> R,
) -> R {
    let nid = Nid(dir.0);
    let mut changed = false;
    let log = |record: &Record<'_>| {
        changed = true;
        tx.log(nid, record);
    };
    let (result, compared) = edit::page(page, (nid, index as u32), log, change);
    if compared {
        tx.compared();
    }
    if changed && journal.stamps.set(dir, index, tx.epoch()) {
        tx.first_touch();
    }
    result
}
