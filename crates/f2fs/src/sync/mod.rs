//! fsync and fdatasync: they write the data, then the nodes that lead to it, with a mark for
//! roll-forward; where roll-forward would not bring the change back, they write a checkpoint
//! instead (Linux `f2fs_do_sync_file`).
//!
//! What is acknowledged comes back: by the last checkpoint, and by the chain of node blocks written
//! since then, of which a mount takes those with marks (`recover`). This holds because:
//!
//! - Y1 (data first; hazards-H30) the nodes that an fsync writes name no block whose write has not
//!   completed: between the wait for the data and the submission of the nodes no page of the inode
//!   may be sent (its `wb` lock, its `gate` shared);
//! - Y2 (marks; hazards-H31) only the last node of an fsync has the mark, so roll-forward takes all
//!   of its nodes or none (Linux marks each of them, except with `strict`; attributes that lie in
//!   two nodes could come back in part). The inode block is the last one. It is written, and with a
//!   dentry mark, as long as neither checkpoint nor chain has the inode: roll-forward makes inode
//!   and name from it;
//! - Y3 (reasons; hazards-H32) before nodes are written, fsync checks for changes that roll-forward
//!   does not bring back, and if there is one, it writes a checkpoint instead: see [`Reason`];
//! - Y4 (chain; hazards-H33) an fsync waits for every node block that got its address before its
//!   own ones did, because roll-forward stops at the first block of the chain that is missing. A
//!   node that could not be written latches the mount, so no fsync behind it is acknowledged;
//! - Y5 (flush; hazards-H17) fsync returns after a flush that started when data and nodes had been
//!   written. With `strict` (and in every mode for the commit of an atomic write, and for
//!   attributes that lie partly in a node of their own) the data and all nodes but the last are
//!   flushed before the last node is written, which is non-volatile at completion: so all of the
//!   fsync or nothing of it comes back. `posix`: nodes may come back without their data, but only
//!   of an fsync that was not acknowledged. `nobarrier` flushes nothing: even acknowledged fsyncs
//!   may come back as new inodes over old data;
//! - Y6 (nothing to do) if the inode has no change that the caller asked to sync, an fsync still
//!   waits for the nodes that an earlier fsync wrote of this inode, and for a flush that covers the
//!   inode's data;
//! - Y7 (moved names) roll-forward knows a file by the one name in its inode, and puts that name in
//!   place over whatever the last checkpoint has there. After `rename a d/e` a new `a` that is
//!   brought back takes the place of the old one, whose new name `d/e` is in no node of the chain:
//!   the old file would be under no name. So with `strict` a rename marks both its directories
//!   until the next checkpoint, and the fsync of a file that would be made anew in one of them
//!   writes a checkpoint. (Linux marks the new directory only, and `posix` none: there such a file
//!   can be lost unless it was synced after the rename.)
//! - Y8 (folding) roll-forward compares names by the flag `casefold` that the directory has at the
//!   last checkpoint. After `chattr -F d` two files `d/x` and `d/X` would be one to it, and the
//!   first one lost. So a change of that flag marks the directory until the next checkpoint, and
//!   the fsync of a file in it writes one.

mod books;

use books::MOVED_MAX;
pub use books::Reason;
pub(crate) use books::SyncBooks;

use crate::F2fs;
use crate::fault;
use crate::file::{ALL, Why};
use crate::inode::{Change, Core, Inode};
use crate::nodes::Last;
use crate::ops::{Cause, Op};
use crate::options::FsyncMode;
use base::{Ino, Mutant};
use block::{DevError, WriteMark};
use fscore::{FsError, FsResult};
use ondisk::f2fs::{Advise, Nid};
use std::collections::BTreeMap;

/// What became of the nodes.
enum Step {
    /// There was nothing to write.
    Nothing,
    /// The nodes are under way.
    Written,
    /// The last node is durable, and so are all before it.
    Durable,
    /// A checkpoint has to be written instead.
    Checkpoint(Reason),
}

impl F2fs {
    /// Checkpoints that fsync wrote, by reason.
    pub fn fsync_checkpoints(&self) -> BTreeMap<Reason, u64> {
        self.nodes.sync.lock().checkpoints.clone()
    }

    /// A name was moved into this directory or out of it (rename): what `strict` asks for
    /// (sync-Y7).
    pub(crate) fn note_moved_name(&self, dir: Ino) {
        if self.options.fsync == FsyncMode::Strict {
            let version = self.cp.footer_version();
            let mut books = self.nodes.sync.lock();
            if books.moved.len() >= MOVED_MAX {
                books.moved.retain(|_, at| *at == version);
            }
            books.moved.insert(dir, version);
        }
    }

    /// The flag `casefold` of this directory has changed (sync-Y8).
    pub(crate) fn note_folding(&self, dir: Ino) {
        let version = self.cp.footer_version();
        let mut books = self.nodes.sync.lock();
        if books.refolded.len() >= MOVED_MAX {
            books.refolded.retain(|_, at| *at == version);
        }
        books.refolded.insert(dir, version);
    }

    /// Makes an inode durable. The caller holds no lock.
    pub(crate) fn sync_inode(&self, inode: &Inode, data_only: bool) -> FsResult<()> {
        if let Some(journal) = &self.journal {
            return self.sync_by_journal(journal, inode, data_only);
        }
        let regular = inode.core().fields.is_regular();
        if regular {
            self.timed("fsync-data", || self.sync_data(inode))?;
        }
        if self.cp.is_disabled() {
            return Ok(());
        }
        if !regular {
            return self.sync_by_checkpoint(inode, Reason::NotRegular);
        }
        match self.timed("fsync-node", || self.sync_nodes(inode, data_only))? {
            Step::Checkpoint(reason) => self.sync_by_checkpoint(inode, reason),
            Step::Nothing | Step::Written => self.settle_sync(inode),
            Step::Durable => Ok(()),
        }
    }

    pub(crate) fn sync_data(&self, inode: &Inode) -> FsResult<()> {
        let errors = inode.core().write_errors.count();
        self.write_pages(inode, ALL, Why::Fsync)?;
        if !rt::mutant(Mutant::F2fsNodeBeforeData) {
            // A failure is kept, those of earlier write-back are too.
            let _ = self.land(inode);
        }
        let failed = inode.core().write_errors.report(errors);
        failed.map_or(Ok(()), Err)
    }

    fn sync_by_checkpoint(&self, inode: &Inode, reason: Reason) -> FsResult<()> {
        *self
            .nodes
            .sync
            .lock()
            .checkpoints
            .entry(reason)
            .or_default() += 1;
        let data = inode.flights.mark();
        self.timed("fsync-checkpoint", || self.checkpoint(Cause::Fsync))?;
        self.flush_for_sync(data)
    }

    /// Writes the nodes of a regular file whose data has landed.
    fn sync_nodes(&self, inode: &Inode, data_only: bool) -> FsResult<Step> {
        loop {
            // Y1: with the gate shared no page becomes dirty, so that write-back of the last ones
            // ends.
            let _gate = inode.gate.read();
            let step = self.with_op(|op| {
                let _wb = inode.wb.lock();
                let landed = inode.flights.is_empty() || rt::mutant(Mutant::F2fsNodeBeforeData);
                landed.then(|| self.write_step(op, inode, data_only))
            });
            if let Some(step) = step {
                return step;
            }
            self.land(inode)?;
        }
    }

    /// The same under its locks.
    fn write_step(&self, op: &Op<'_>, inode: &Inode, data_only: bool) -> FsResult<Step> {
        let nid = inode.nid();
        let history = self.nat.history(nid)?;
        let fresh = !history.checkpointed && !history.inode_fsynced;
        let change = inode.core().change;
        let asked = change == Change::Data || change == Change::Times && !data_only;
        let own = (asked || fresh) && self.nodes.is_dirty(nid);
        if !own && !self.nodes.has_dirty_below(nid) {
            return Ok(Step::Nothing);
        }
        if let Some(reason) = self.reason_to_checkpoint(inode)?
            && !rt::mutant(Mutant::F2fsIgnoreReason)
        {
            inode.core().needs_checkpoint = false;
            inode.tree.lock().cut_below = false;
            return Ok(Step::Checkpoint(reason));
        }
        let (atomic, xattr_nid) = {
            let mut core = inode.core();
            (core.appended, core.updated) = (false, false);
            if own {
                core.change = Change::None;
            }
            (core.atomic, core.fields.xattr_nid)
        };
        // An atomic write comes back as a whole or not at all, whatever the mode; so do attributes
        // that lie partly in the inode and partly in a node of their own (Linux's posix mode may
        // tear them: an entry lies across the two).
        let attributes = own && xattr_nid.0 != 0 && self.nodes.is_dirty(xattr_nid);
        let strict = atomic || attributes || self.options.fsync == FsyncMode::Strict;
        let last = if strict { Last::Alone } else { Last::Together };
        let data = inode.flights.mark();
        let before_last = || {
            // Y4, Y5.
            let (nodes, _) = self.land_nodes()?;
            self.flush_for_sync(nodes.max(data))
        };
        let written = self.write_fsync_nodes(op, nid, own, last, before_last)?;
        let flight = self.node_flight();
        inode.tree.lock().chained = flight;
        if !strict || written == 0 {
            return Ok(Step::Written);
        }
        // Y4: others may have come in between; without them nothing is left to flush.
        let (nodes, _) = self.land_nodes()?;
        self.flush_for_sync(nodes)?;
        self.nodes_durable(flight);
        Ok(Step::Durable)
    }

    /// Waits for the nodes of the inode, and for the flush (Y6).
    fn settle_sync(&self, inode: &Inode) -> FsResult<()> {
        let mut mark = inode.flights.mark();
        let chained = inode.tree.lock().chained;
        let mut flight = None;
        if !self.are_nodes_durable(chained) && !rt::mutant(Mutant::F2fsNoChainWait) {
            let (nodes, landed) = self.timed("fsync-node", || self.land_nodes())?;
            mark = mark.max(nodes);
            flight = Some(landed);
        }
        self.flush_for_sync(mark)?;
        if let Some(flight) = flight {
            self.nodes_durable(flight);
        }
        Ok(())
    }

    /// Y5.
    fn flush_for_sync(&self, mark: WriteMark) -> FsResult<()> {
        if self.options.fsync == FsyncMode::NoBarrier || rt::mutant(Mutant::F2fsFsyncNoFlush) {
            return Ok(());
        }
        let flushed = self.timed("fsync-flush", || self.queue.ensure_flushed(mark));
        flushed.map_err(|e| self.flush_failed("fsync", e))
    }

    /// A flush failed: nodes and data that the device had not written yet may be lost, and no later
    /// flush would say so. As in Linux (`STOP_CP_REASON_FLUSH_FAIL`) there is no checkpoint any
    /// more.
    pub(crate) fn flush_failed(&self, what: &str, e: DevError) -> FsError {
        let error = fault::device(&format!("flushing for {what}"))(e);
        self.fail(&error);
        error
    }

    /// Y3.
    fn reason_to_checkpoint(&self, inode: &Inode) -> FsResult<Option<Reason>> {
        let (pino, by_fields) = {
            let core = inode.core();
            (core.fields.pino, reason_in_fields(&core))
        };
        if by_fields.is_some() {
            return Ok(by_fields);
        }
        if self.is_first_life() && !rt::mutant(Mutant::F2fsReviveChain) {
            return Ok(Some(Reason::Life));
        }
        if inode.tree.lock().cut_below {
            return Ok(Some(Reason::Cut));
        }
        if !self.cp.room_for_roll_forward(self.segs.allocated()) {
            return Ok(Some(Reason::Space));
        }
        if !self.nat.history(pino)?.checkpointed {
            return Ok(Some(Reason::Parent));
        }
        if self.is_refolded(pino) {
            return Ok(Some(Reason::Folding));
        }
        if self.options.fsync == FsyncMode::Strict && self.had_moves(pino) {
            let history = self.nat.history(inode.nid())?;
            if !history.checkpointed && !history.inode_fsynced {
                return Ok(Some(Reason::MovedNames));
            }
        }
        Ok(None)
    }

    fn is_first_life(&self) -> bool {
        let version = self.cp.footer_version();
        self.nodes.sync.lock().life == Some(version)
    }

    fn is_refolded(&self, dir: Nid) -> bool {
        let version = self.cp.footer_version();
        self.nodes.sync.lock().refolded.get(&Ino(dir.0)) == Some(&version)
    }

    fn had_moves(&self, dir: Nid) -> bool {
        let version = self.cp.footer_version();
        self.nodes.sync.lock().moved.get(&Ino(dir.0)) == Some(&version)
    }
}

fn reason_in_fields(core: &Core) -> Option<Reason> {
    if core.fields.links != 1 {
        Some(Reason::Links)
    } else if core.needs_checkpoint || core.fields.advise.has(Advise::LOST_PINO) {
        Some(Reason::Name)
    } else {
        None
    }
}
