//! fsync, fdatasync and sync with a journal: data, then the epochs that logged the inode. No node
//! is written, and no checkpoint.
//!
//! - Z1 (data first) the inode's own dirty pages have got their blocks before the epoch to wait for
//!   is looked up: so the mapping of the pages is in that epoch. The commit of that epoch waits for
//!   pages with checksums ([`summed`](crate::journal::summed)), or sends them (f2fs-commit-K11);
//!   others have been written before it begins;
//! - Z2 (only own data) no other inode's data is written back. An epoch maps only data that its
//!   task has sent, or left to the commit (the size grows with the mapping), so a commit waits for
//!   what other tasks have sent and never for what they hold dirty;
//! - Z3 (f2fs-journal-I7) it returns when the last epoch that logged the inode is committed: the
//!   running one if need be. This holds for a directory too. fdatasync leaves out epochs in which
//!   only times changed;
//! - Z4 (hazards-H17) it returns only after a flush that started when its own data had been
//!   written, because pages may have been written in place, which no epoch maps. The commit is told
//!   of them, so that its own flush covers them, and most often none is left to be sent. Few such
//!   pages of few calls at a time are non-volatile writes, which the commit takes along if there is
//!   one (f2fs-commit-K12), and which are sent here if not: then no flush is needed for them;
//! - Z5 an error is returned to the caller: a failed page, or a failed commit (which latches the
//!   mount).

use crate::F2fs;
use crate::file::{ALL, Why};
use crate::inode::Inode;
use crate::journal::{CommitReason, Journal};
use crate::options::FsyncMode;
use base::Mutant;
use block::WriteMark;
use fscore::FsResult;

impl F2fs {
    /// Makes an inode durable. The caller holds no lock.
    ///
    /// # Errors
    /// Those of its data, of the commit and of the flush (Z5).
    pub(crate) fn sync_by_journal(
        &self,
        journal: &Journal,
        inode: &Inode,
        data_only: bool,
    ) -> FsResult<()> {
        let _syncing = journal.group.begin_sync();
        let early = inode.flights.mark();
        let errors = inode.core().write_errors.count();
        if inode.core().fields.is_regular() {
            // Z1.
            self.timed("fsync-data", || self.send_data(inode))?;
        }
        // Z4.
        let mark = || match rt::mutant(Mutant::F2fsjJoinOldFlush) {
            true => early,
            false => inode.flights.mark(),
        };
        journal.group.want(mark());
        let (any, data) = journal.plane.last_logged(inode.nid());
        let epoch = if data_only { data } else { any };
        if epoch > journal.group.last() {
            journal.group.bring(inode.flights.riders());
        }
        let committed = self.timed("fsync-commit", || {
            self.commit_for(epoch, CommitReason::Fsync)
        });
        // Z5: a failure is kept, those of earlier write-back are too.
        let _ = self.land(inode);
        if let Some(failed) = inode.core().write_errors.report(errors) {
            return Err(failed);
        }
        committed?;
        self.timed("fsync-flush", || self.flush_journaled(mark(), "fsync"))
    }

    /// Gives the dirty pages to the device or to the commit, and waits for those that no commit
    /// waits for. A failure is kept.
    fn send_data(&self, inode: &Inode) -> FsResult<()> {
        self.write_pages(inode, ALL, Why::Fsync)?;
        if !inode.flights.may_wait() {
            let _ = self.land(inode);
        }
        Ok(())
    }

    /// All of it; the data of files has landed.
    pub(crate) fn sync_all_by_journal(&self) -> FsResult<()> {
        self.commit_all(CommitReason::Sync)?;
        self.flush_journaled(self.queue.mark(), "sync")
    }

    fn flush_journaled(&self, mark: WriteMark, what: &str) -> FsResult<()> {
        if self.options.fsync == FsyncMode::NoBarrier {
            return Ok(());
        }
        let flushed = self.queue.ensure_flushed(mark);
        flushed.map_err(|e| self.flush_failed(what, e))
    }
}
