//! Write-back: dirty pages get a block, or keep the one that they have, and are sent to the device.
//!
//! Three functions begin it. What else differs between their callers is one argument, [`Why`] pages
//! are written, which decides where they go:
//!
//! | function | what it writes | who calls it |
//! |---|---|---|
//! | [`write_files`](F2fs::write_files) | all files, or those that have been dirty for long | the flusher of `vfs`, sync and unmount; a writer whose own file has too few dirty pages to make room |
//! | [`write_pages`](F2fs::write_pages) | pages of one file, an `Op` for each batch | fsync; a writer that fills the cache; a checkpoint before its freeze, for directories |
//! | [`write_pages_within`](F2fs::write_pages_within) | pages of one file, inside the caller's `Op` | a checkpoint in its freeze, for directories; cleaning; operations that cut or move content |
//!
//! Pages travel in batches of at most a segment, each inside one `Op`: mapping, validity and counts
//! change together (file-D2). The task that sends a batch does not wait for it;
//! [`land`](F2fs::land) waits, for every caller that needs completed writes (fsync, truncation, a
//! checkpoint, the next write-back).
//!
//! With a journal (F2FSJ) write-back runs beside operations of the same inode that hold its gate,
//! and the two may be in different epochs. They never change the same bytes in the wrong order
//! (f2fs-journal-I4):
//! - W1 all pages of a batch are taken before its epoch is picked, so an operation that reserved
//!   their blocks had picked its own epoch before: its epoch is no later one. Where pages are sent
//!   in the midst of an operation, the gate gives the same order;
//! - W2 in the inode block write-back changes only slots, and the size upwards. An operation that
//!   changes the size otherwise, or takes slots away, has held `wb` since before it picked its
//!   epoch;
//! - W3 the size that is logged with a page is one that the file had before the page was taken:
//!   after a cut no byte lies below the size that a write added but whose data was never written
//!   back;
//! - W5 a task that makes one file durable, or all of them, also waits for tasks that have taken
//!   pages but have neither logged nor sent them yet: such a task holds `wb`, and its file is on
//!   the list of files with writes under way. Pages that it gives back are dirty again;
//! - W4 an epoch waits for the data whose mapping it contains
//!   ([`Tx::data_sent`](crate::journal::Tx::data_sent)), not for data that is written in place;
//! - W6 a page is not written in place over a block of which a transaction has the checksum and
//!   recovery may ask for it (summed-Q2). It goes to a new block, as it would by policy.

use super::placement::{FSYNC_PAGES_MAX, Facts, HOT_PAGES_MAX, InPlace};
use super::sending::{Sending, Taken};
use super::{BATCH_PAGES, DataStats, Why};
use crate::F2fs;
use crate::inode::Inode;
use crate::journal::{Journal, Rounds};
use crate::map::{Slot, Tree};
use crate::ops::Op;
use crate::options::FsyncMode;
use base::{Ino, Mutant, Time};
use fscore::{DirtyRun, Errno, FsError, FsResult, Take};
use ondisk::f2fs::{BlockAddr, Inline, Summary};
use rt::MutexGuard;
use std::collections::BTreeSet;
use std::ops::Range;

/// All pages of a file.
pub(crate) const ALL: Range<u64> = 0..u64::MAX;

/// The `wb` lock of the inode.
pub(crate) type Held<'a> = MutexGuard<'a, ()>;

/// What became of a batch.
enum Batch {
    /// No dirty page is left.
    Done,
    /// The batch is full; there may be more dirty pages from this one on.
    More(u64),
    /// The last write of this page is still under way.
    Busy(u64),
}

impl F2fs {
    /// Starts to write back the files that became dirty before `older_than` (`None`: all); lands
    /// what earlier calls sent. Directories wait for the checkpoint.
    pub(crate) fn write_files(&self, older_than: Option<Time>, why: Why) -> FsResult<()> {
        // Failures are kept in the inodes.
        let _ = self.land_all();
        let dirs: BTreeSet<Ino> = self.pages.dirty_meta_files().into_iter().collect();
        for ino in self.pages.dirty_files(older_than) {
            if dirs.contains(&ino) {
                continue;
            }
            let Some(inode) = self.inodes.get(ino) else {
                continue;
            };
            match self.write_pages(&inode, ALL, why) {
                // Kept for the fsync of that file.
                Err(FsError::Corrupt { .. }) => {}
                Err(e) if e.errno() == Errno::Stale => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Submits the dirty pages of `range`, taking an `Op` for each batch. Waits for none. The
    /// caller may hold the gate, nothing below.
    pub(crate) fn write_pages(&self, inode: &Inode, range: Range<u64>, why: Why) -> FsResult<()> {
        if !self.pages.is_dirty(inode.ino) {
            // W5.
            self.wait_for_taker(inode);
            if !self.pages.is_dirty(inode.ino) {
                return self.settle_clean(inode);
            }
        }
        self.check_writable()?;
        let facts = self.facts(inode, why);
        if facts.dir && self.journal.is_some() {
            // Apply writes them.
            return Ok(());
        }
        self.write_batches(inode, range, |part| {
            // Directories are a checkpoint's, which `balance` may write.
            if !facts.dir {
                self.balance_writeback()?;
            }
            self.with_op(|op| self.write_batch(op, inode, part, facts, &inode.wb.lock()))
        })
    }

    /// Submits the dirty pages of `range` inside the caller's `Op`. The caller holds `wb`, because
    /// in some cases no other task may send these pages by another rule meanwhile.
    pub(crate) fn write_pages_within(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        range: Range<u64>,
        why: Why,
        wb: &Held<'_>,
    ) -> FsResult<()> {
        let facts = self.facts(inode, why);
        self.write_batches(inode, range, |part| {
            self.write_batch(op, inode, part, facts, wb)
        })
    }

    fn write_batches(
        &self,
        inode: &Inode,
        range: Range<u64>,
        one: impl Fn(Range<u64>) -> FsResult<Batch>,
    ) -> FsResult<()> {
        let mut from = range.start;
        loop {
            match one(from..range.end)? {
                Batch::Done => return Ok(()),
                Batch::More(next) => from = next,
                Batch::Busy(at) => {
                    from = at;
                    // A failure is kept, and the page is dirty again.
                    let _ = self.land(inode);
                }
            }
        }
    }

    /// What counts now for the dirty pages of a file.
    fn facts(&self, inode: &Inode, why: Why) -> Facts {
        let (dir, atomic, advise) = {
            let core = inode.core();
            (core.fields.is_dir(), core.atomic, core.fields.advise)
        };
        let fewer = |n: usize| self.pages.dirty_front(inode.ino, n + 1).is_none();
        let used = self.space.usage().blocks;
        let all = used + self.space.blocks_free();
        let policy = self.options.in_place;
        Facts {
            summed: why == Why::Fsync && self.may_sum(inode),
            why,
            dir,
            atomic,
            advise,
            few: fewer(FSYNC_PAGES_MAX),
            small: fewer(HOT_PAGES_MAX),
            lfs: self.options.lfs || self.options.checkpoint_disabled,
            policy: policy.unwrap_or_else(|| InPlace::for_volume(&self.geo, self.options.lfs)),
            short_of_segments: self.segs.is_short(),
            utilization: used * 100 / all.max(1),
        }
    }

    /// Transactions may have checksums of the file's data. Without barriers several transactions
    /// may be there without their data, and recovery asks for one only. A pinned file keeps its
    /// blocks (summed-Q2).
    pub(super) fn may_sum(&self, inode: &Inode) -> bool {
        let rounds = self.journal.as_ref().map(|j| j.options.rounds);
        rounds == Some(Rounds::One)
            && self.options.fsync != FsyncMode::NoBarrier
            && !inode.core().fields.inline.has(Inline::PIN_FILE)
    }

    /// True if a page may be written over the block that it has.
    fn keeps_block(&self, addr: BlockAddr, sending: &Sending) -> bool {
        let summed = |journal: &Journal| {
            // W6 (hazards-F58).
            journal.summed.has(addr) && !rt::mutant(Mutant::F2fsjOverSummed)
        };
        // segs-V4.
        addr.is_data() && sending.in_place && !self.journal.as_ref().is_some_and(summed)
    }

    /// With a journal: nothing is dirty any more whose write-back would give the inode block the
    /// size (the last page became a hole).
    fn settle_clean(&self, inode: &Inode) -> FsResult<()> {
        let differs = {
            let core = inode.core();
            core.node_size != core.fields.size && !core.gone
        };
        if self.journal.is_none() || !differs {
            return Ok(());
        }
        self.check_writable()?;
        self.with_op(|op| {
            let _wb = inode.wb.lock();
            let size = inode.core().fields.size;
            match self.pages.is_dirty(inode.ino) || inode.core().gone {
                true => Ok(()),
                false => self.grow_size(op, inode, size, u64::MAX),
            }
        })
    }

    fn write_batch(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        range: Range<u64>,
        facts: Facts,
        _wb: &Held<'_>,
    ) -> FsResult<Batch> {
        if inode.core().gone {
            // Freed while we waited: pages under this number belong to a new inode by now.
            return Ok(Batch::Done);
        }
        assert!(
            !facts.dir || op.tx().is_none(),
            "f2fs-journal-I2: inode {}: blocks of directories are apply's",
            inode.ino
        );
        if op.tx().is_some() {
            // W5.
            self.content.took_off(inode.ino);
        }
        // What was written up to here is in the pages that are taken.
        let size = inode.core().fields.size;
        let mut sending = Sending::new(self, facts);
        // Each page logs up to 72 bytes.
        let mut taken = match op.tx() {
            Some(_) => Taken::at_most(self.op_max() / 72),
            None => Taken::at_most(BATCH_PAGES),
        };
        let mut from = range.start;
        let outcome = loop {
            // W1: with a journal all pages are taken before the first is placed.
            let batch = self.take_runs(inode, &mut from, range.end, op.tx().is_some(), &mut taken);
            if let Err(e) = self.place_runs(op, inode, &mut taken, &mut sending) {
                break Err(e);
            }
            if let Some(batch) = batch {
                break Ok(batch);
            }
        };
        let logged = self.log_batch(op, inode, size, &mut sending);
        sending.send(self, op, inode);
        sending.note(self, inode);
        outcome.and_then(|batch| logged.map(|()| batch))
    }

    /// Takes dirty pages: one run, or all that fit into the batch. Answers how the batch ends, if
    /// it does.
    fn take_runs(
        &self,
        inode: &Inode,
        from: &mut u64,
        end: u64,
        all: bool,
        taken: &mut Taken,
    ) -> Option<Batch> {
        loop {
            let room = taken.room;
            if room == 0 {
                return Some(Batch::More(*from));
            }
            match self.pages.take_dirty(inode.ino, *from..end, room) {
                Take::Nothing => return Some(Batch::Done),
                Take::Busy(at) => return Some(Batch::Busy(at)),
                Take::Run(run) => {
                    *from = run.range().end;
                    taken.room -= run.pages.len();
                    taken.runs.push_back(run);
                }
            }
            if !all {
                return None;
            }
        }
    }

    /// Finds a place for each page that was taken. After an error the others are dirty again.
    fn place_runs(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        taken: &mut Taken,
        sending: &mut Sending,
    ) -> FsResult<()> {
        while let Some(run) = taken.runs.pop_front() {
            if let Err(e) = self.place_run(op, inode, &run, sending) {
                for run in taken.runs.drain(..) {
                    self.pages.give_back(inode.ino, &run, 0);
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// What the epoch has to know beyond the slots: blocks that are valid now, and those that are
    /// not any more; the size.
    fn log_batch(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        size: u64,
        sending: &mut Sending,
    ) -> FsResult<()> {
        if op.tx().is_none() {
            return Ok(());
        }
        self.log_taken(
            op,
            inode.nid(),
            sending.log,
            &std::mem::take(&mut sending.taken),
        );
        self.log_replaced(op, inode.nid(), std::mem::take(&mut sending.replaced));
        let end = match self.pages.is_dirty(inode.ino) {
            true => sending.end,
            // No dirty page is left whose write-back would log the size.
            false => u64::MAX,
        };
        self.grow_size(op, inode, size, end)
    }

    /// Finds a place for each page of a run.
    fn place_run(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        run: &DirtyRun,
        sending: &mut Sending,
    ) -> FsResult<()> {
        let mut placed = 0;
        while placed < run.pages.len() {
            let index = run.first + placed as u64;
            let most = match op.tx() {
                Some(_) => run.pages.len() - placed,
                None => 1,
            };
            let found = {
                let mut tree = inode.tree.lock();
                self.place_pages(op, inode, &mut tree, index, most, sending)
            };
            let (addrs, new) = match found {
                Ok(found) => found,
                Err(e) => {
                    self.pages.give_back(inode.ino, run, placed);
                    if matches!(e, FsError::Corrupt { .. }) {
                        // Another try would fail for ever: the page is lost, and the next fsync
                        // reports it.
                        self.pages.drop_range(inode.ino, index..index + 1);
                        inode.core().write_errors.note(e.clone());
                    }
                    return Err(e);
                }
            };
            for addr in addrs {
                if sending.over.contains(&addr) {
                    // Only a damaged mapping leads to one block twice; one plug must not hold it
                    // twice.
                    sending.send(self, op, inode);
                }
                let index = run.first + placed as u64;
                sending.add(addr, run.pages[placed].clone(), index, new);
                placed += 1;
            }
        }
        Ok(())
    }

    /// The blocks that the first of `most` pages from `index` on go to, one at least: as many as
    /// have their slots in one node and go to new blocks. The slots say so afterwards. Also answers
    /// whether the blocks are new.
    fn place_pages(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
        most: usize,
        sending: &mut Sending,
    ) -> FsResult<(Vec<BlockAddr>, bool)> {
        let first = self.slot_to_write(inode, tree, index)?;
        if self.keeps_block(first.addr, sending) {
            sending.stats.in_place += 1;
            return Ok((vec![first.addr], false));
        }
        let mut addrs = Vec::with_capacity(most.min(BATCH_PAGES));
        let mut outcome = Ok(());
        for n in 0..most as u64 {
            let slot = match n {
                0 => first,
                _ => match self.slot_to_write(inode, tree, index + n) {
                    Ok(slot) => slot,
                    // The next batch begins with this page, and gets the error.
                    Err(_) => break,
                },
            };
            if slot.nid != first.nid || n > 0 && self.keeps_block(slot.addr, sending) {
                break;
            }
            match self.take_block(op, &slot, sending) {
                Ok(addr) => addrs.push(addr),
                Err(e) => {
                    outcome = Err(e);
                    break;
                }
            }
        }
        if addrs.is_empty() {
            return outcome.map(|()| (addrs, true));
        }
        if let Err(e) = self.set_slots(op, inode, tree, index, &first, &addrs) {
            // The old blocks are given up and the slots still name them: no checkpoint may say so.
            self.fail(&e);
            return Err(e);
        }
        sending.end = sending.end.max(index + addrs.len() as u64);
        sending.stats.out_of_place[sending.log.heat()] += addrs.len() as u64;
        Ok((addrs, true))
    }

    fn slot_to_write(&self, inode: &Inode, tree: &mut Tree, index: u64) -> FsResult<Slot> {
        let slot = self.find_slot(inode, tree, index)?;
        slot.filter(|s| s.addr != BlockAddr::NULL).ok_or_else(|| {
            FsError::corrupt(format!(
                "inode {}: page {index} is dirty and has no block reserved",
                inode.ino
            ))
        })
    }

    /// A new block for what `slot` stands for; the old one is given up.
    fn take_block(&self, op: &Op<'_>, slot: &Slot, sending: &mut Sending) -> FsResult<BlockAddr> {
        let owner = Summary {
            nid: slot.nid,
            version: sending.version(self, slot.nid)?,
            ofs_in_node: slot.slot,
        };
        let placed = self.allocate(op, sending.log, slot.addr, owner)?;
        if op.tx().is_some() {
            sending.taken.push(placed.addr);
            sending
                .replaced
                .extend(Some(slot.addr).filter(|a| a.is_data()));
        }
        Ok(placed.addr)
    }

    /// Dirty pages that write-back can write.
    pub(crate) fn dirty_file_pages(&self) -> u64 {
        let all = self.pages.dirty_pages();
        all.saturating_sub(self.pages.dirty_meta_pages())
    }

    /// Cleaning: makes page `index` dirty as it is, so that write-back moves it. False if it has no
    /// block.
    pub(crate) fn unsettle_page(&self, inode: &Inode, index: u64) -> FsResult<bool> {
        let dir = inode.is_dir();
        while !self.pages.make_dirty(inode.ino, index, dir) {
            // A full cache may let it go again at once; then it is written into it.
            let Some(page) = self.fill(inode, index, index + 1)? else {
                return Ok(false);
            };
            let known = fscore::Home::Known;
            // Nothing of it: a writer may have changed the page since it was read.
            self.pages
                .write(inode.ino, index, 0, &page[..0], &page, known);
        }
        Ok(true)
    }

    /// What write-back did so far.
    pub fn data_stats(&self) -> DataStats {
        *self.content.stats.lock()
    }
}
