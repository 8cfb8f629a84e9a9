//! Waits for writes of data that are under way, of one file or of all, and settles their pages.

use super::Content;
use crate::F2fs;
use crate::inode::Inode;
use base::{Ino, Mutant};
use fscore::FsResult;

impl F2fs {
    /// With a journal: returns when no task has pages of the inode that are neither dirty nor sent
    /// (writeback-W5).
    pub(super) fn wait_for_taker(&self, inode: &Inode) {
        if self.journal.is_some() {
            drop(inode.wb.lock());
        }
    }

    /// Waits for the inode's writes of data that are under way, and settles its pages. A failure is
    /// kept for the next fsync as well, and its pages are dirty again.
    pub(crate) fn land(&self, inode: &Inode) -> FsResult<()> {
        let ino = inode.ino;
        let landed = inode.flights.land(|pages, result| match result {
            Ok(()) => self.pages.written(ino, pages),
            Err(_) => self.pages.unwritten(ino, pages),
        });
        self.content.landed(inode, self.journal.is_some());
        if let Err(e) = &landed {
            inode.core().write_errors.note(e.clone());
            if inode.is_dir() {
                self.fail(e);
            }
        }
        landed.map(drop)
    }

    /// Waits for all writes of data under way: so whatever a checkpoint maps has been written
    /// (file-D2).
    ///
    /// # Errors
    /// A block of a directory could not be written. Failed pages of files are dirty again, and the
    /// next fsync of the file reports the failure.
    pub(crate) fn land_all(&self) -> FsResult<()> {
        self.land_each(true)
    }

    /// Waits like [`land_all`](Self::land_all), for `sync`, which gets all failures, those of files
    /// included.
    pub(crate) fn land_files(&self) -> FsResult<()> {
        self.land_each(false)
    }

    fn land_each(&self, only_dirs_count: bool) -> FsResult<()> {
        let mut first = Ok(());
        if only_dirs_count && rt::mutant(Mutant::F2fsMapBeforeData) {
            return first;
        }
        for ino in self.content.flying() {
            let Some(inode) = self.inodes.get(ino) else {
                // Freed: it has landed.
                self.content.flying.lock().remove(&ino);
                continue;
            };
            // writeback-W5.
            self.wait_for_taker(&inode);
            let landed = self.land(&inode);
            if inode.is_dir() || !only_dirs_count {
                first = first.and(landed);
            }
        }
        first
    }
}

impl Content {
    fn flying(&self) -> Vec<Ino> {
        self.flying.lock().iter().copied().collect()
    }

    pub(super) fn took_off(&self, ino: Ino) {
        self.flying.lock().insert(ino);
    }

    /// Takes the inode off the list, unless more pages have been sent meanwhile: this is checked
    /// under the lock of the list, and a task that sends pages adds to the flights before it takes
    /// that lock. With a journal the inode also stays while a task holds `wb`, because that task
    /// may have taken pages (writeback-W5).
    fn landed(&self, inode: &Inode, journal: bool) {
        let mut flying = self.flying.lock();
        let idle = !journal || inode.wb.try_lock().is_some();
        if inode.flights.is_empty() && idle {
            flying.remove(&inode.ino);
        }
    }
}
