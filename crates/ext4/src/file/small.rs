//! Small data of an fsync goes through the log, where that saves a flush.
//!
//! An fsync that needs a commit sends its data first and flushes (ordered mode: no record may vouch
//! for data that is not durable), then sends the record, non-volatile: two flushes where a
//! non-volatile write costs a flush itself, as on a file of the host. A record that commits itself
//! by its checksums can hold small data as well as metadata: then one write is enough, and the
//! checksums say whether the data, too, is complete.
//!
//! Invariants:
//!
//! - S1 (order): data that is logged with the transaction that maps it needs no place in the order:
//!   the record is valid only if the data in it is complete (journal-commit-F6), so no size or
//!   mapping becomes durable without its content.
//! - S2 (newest content): a block whose image the log may hold
//!   ([`Journal::data_in_log`](journal::Journal::data_in_log)) is not written directly, because
//!   replay would bring older content back. Its pages are logged again by every path that writes
//!   them: fsync and write-back ([`Ext4::route`]), writes over unwritten blocks
//!   ([`Ext4::holds_unwritten`]), and the zeros behind a new end of file. Such a block is read
//!   through the journal, because home may be older.
//! - S3 (no late image): when such a block is freed it is revoked and its home write is called off,
//!   as for metadata (hazards-H6); it is not used again before that is committed (hazards-H18).
//! - S4 (fsync): the tids of the inode rise to the transaction that logs a page, so an fsync waits
//!   for it (sync-F4 needs no mark for these pages: they were never in the device's cache).
//! - S5: `wb` of the inode is held from the look at S2 to the end of the handle or the submission,
//!   and a block belongs to one inode: so no task logs the block between the look and a direct
//!   write.
//!
//! Write-back that no caller waits for logs pages only where S2 demands it, because logged data is
//! written twice.

use super::writeback::Part;
use crate::Ext4;
use crate::inode::Inode;
use crate::map::Span;
use crate::options::{DataMode, MountOptions};
use crate::tx::Tx;
use base::{BlockNo, Mutant};
use fscore::{DirtyRun, FsResult};
use journal::{CommitBlock, Scheme};

/// Most pages that one handle logs.
pub(crate) const PAGES_MAX: u32 = 16;

/// Where the next pages of a mapped stretch are written, and how many of them go there.
pub(super) enum Route {
    /// To their home blocks.
    Home(u32),
    /// Into the log.
    Log(u32),
}

/// True if a record of this scheme shows by its own checksums that it is complete, so that a commit
/// without ordered data is one write.
fn commits_itself(scheme: Option<Scheme>) -> bool {
    scheme.and_then(|s| s.record.commit_block()) == Some(CommitBlock::Never)
}

/// The maximum of data that an fsync may log with its commit, bytes.
pub(crate) fn small_bytes(options: &MountOptions) -> u32 {
    match options.data == DataMode::Ordered && commits_itself(options.scheme) {
        true => options.small_bytes,
        false => 0,
    }
}

impl Ext4 {
    /// True if an fsync now needs a commit, and has so little data to write that it is logged with
    /// the commit.
    pub(super) fn is_small(&self, inode: &Inode, data_only: bool) -> bool {
        let limit = small_bytes(&self.options);
        if limit == 0 || !self.has_log() || !inode.core().disk.is_regular() {
            return false;
        }
        let (pages, _) = self.pages.dirty_runs(inode.ino);
        let needs_commit = || {
            let tid = inode.core().tid_for(data_only);
            self.pages.delayed(inode.ino) > 0 || !self.journal.committed().geq(tid)
        };
        (1..=u64::from(limit) / self.block()).contains(&pages) && needs_commit()
    }

    /// S2 (logged_data-L2): where the pages over `len` written blocks from `start` on are written.
    pub(super) fn route(&self, small: bool, start: BlockNo, len: u32) -> Route {
        if small {
            return Route::Log(len.min(PAGES_MAX));
        }
        match self.journal.data_in_log(start, len) {
            None => Route::Home(len),
            Some((first, more)) if first == start => Route::Log(more.min(PAGES_MAX)),
            Some((first, _)) => Route::Home((first.0 - start.0) as u32),
        }
    }

    /// S2: true if the log may hold old content of blocks that have become unwritten since, or
    /// holes of a cluster that the file still has (cluster-C5).
    pub(super) fn holds_unwritten(&self, inode: &Inode, lblk: u32, span: Span) -> FsResult<bool> {
        let (start, len) = match span {
            Span::Unwritten { start, len } => (start, len),
            Span::Hole { len } if self.has_clusters() => {
                let beside = {
                    let _tree = inode.tree.read();
                    self.place_beside(inode, lblk)?
                };
                match beside {
                    Some((start, room)) => (start, len.min(room)),
                    None => return Ok(false),
                }
            }
            Span::Hole { .. } | Span::Data { .. } => return Ok(false),
        };
        let direct = matches!(span, Span::Hole { .. }) && rt::mutant(Mutant::ClusterHoleDirect);
        Ok(!direct && self.journal.data_in_log(start, len).is_some())
    }

    /// The front of a stretch that one handle can log, and the credits for it.
    pub(super) fn logged_front(&self, span: Span) -> (Span, u32) {
        let front = span.front(PAGES_MAX);
        (front, front.len())
    }

    /// Logs the pages of a run from position `i` on, whose blocks are mapped and written. Answers
    /// how many.
    pub(super) fn log_mapped(
        &self,
        inode: &Inode,
        run: &DirtyRun,
        i: usize,
        (start, len): (BlockNo, u32),
    ) -> FsResult<u32> {
        let part = Part {
            run,
            i,
            len,
            convert: false,
            background: false,
        };
        self.transact(len, |tx| {
            self.log_part(tx, inode, &part, start)?;
            // S4.
            let mut core = inode.core();
            (core.datasync_tid, core.sync_tid) = (tx.tid(), tx.tid());
            Ok(())
        })?;
        self.settle_mapped(inode, part.range());
        Ok(len)
    }

    /// Logs pages whose blocks begin at `start`. The handle has a credit for each.
    pub(super) fn log_part(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        part: &Part<'_>,
        start: BlockNo,
    ) -> FsResult<()> {
        for (n, page) in (0..).zip(part.pages()) {
            tx.write_data(start.plus(n), page.clone())?;
        }
        self.pages.written(inode.ino, part.range());
        Ok(())
    }

    /// S3: before blocks are freed, revokes those whose images the log may hold.
    pub(crate) fn revoke_logged(&self, tx: &mut Tx<'_>, start: BlockNo, len: u32) -> FsResult<()> {
        let end = start.plus(len.into());
        let mut from = start;
        while let Some((first, count)) = (from < end)
            .then(|| self.journal.data_in_log(from, (end.0 - from.0) as u32))
            .flatten()
        {
            for n in 0..count {
                tx.forget(first.plus(n.into()))?;
            }
            from = first.plus(count.into());
        }
        Ok(())
    }
}
