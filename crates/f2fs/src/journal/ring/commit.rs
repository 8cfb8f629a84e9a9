//! Commit: an epoch becomes durable, as a whole, while operations go on in the next one.
//!
//! The order in two steps: the epoch is closed (the next one is open at once); the operations in it
//! end; the data that it maps has been written; its records are composed into a transaction; the
//! ring has room for it; a flush covers the data; all blocks of the transaction are sent at once,
//! non-volatile. In one round (K9) the transaction is sent while the data is under way, and one
//! flush follows both.
//!
//! A cut at any moment leaves epoch e whole or not at all, and nothing acknowledged is lost,
//! because:
//! - K1 (f2fs-journal-I4) records are gathered when no operation is in the epoch any more;
//! - K2 (f2fs-journal-I1) the transaction is sent when the writes of the data it maps have
//!   completed, and a flush has begun and ended since; K9 has the exception. A data write that
//!   failed latches the mount: its epoch never commits;
//! - K3 the checksum in the commit block is over the whole transaction, so a torn transaction, or
//!   one without its commit block, does not count. So one submission will do, in any order and with
//!   no flush inside it;
//! - K4 (f2fs-journal-I1) no block of the transaction of e + 1 is sent before that of e is durable,
//!   and the data that e maps: there is one leader at a time, and it waits for that. So a sound
//!   block of e + 1 in the ring proves that e was durable as a whole;
//! - K5 (f2fs-journal-I8) the transaction goes into free blocks of the ring;
//! - K6 (f2fs-journal-I7) a waiting task returns when the transaction is durable (by FUA, or a
//!   flush behind it). `nobarrier` leaves flush and FUA out: then acknowledged operations may be
//!   lost, but what is found is still whole epochs, by K3;
//! - K7 after a failed write or flush the mount is latched, and no operation is acknowledged any
//!   more. The same happens if the counts for the commit block are impossible;
//! - K8 the size of an epoch has a soft bound, because operations that have passed the check go on
//!   logging. An epoch whose transaction is larger than the whole ring is committed by an apply:
//!   the pack that says `applied_epoch` = e is its commit block. Up to K2 nothing differs. Then,
//!   under the lock for applies, the epoch joins the committed epochs in memory without a block in
//!   the ring, and this apply has it as its target:
//!   - f2fs-journal-I1: the pack contains all epochs before it too, and the last block of the pack
//!     is sent behind a flush that covers their data (K2, apply-A5); nothing of e + 1 is sent
//!     before that block is durable (K4: the leader itself applies);
//!   - f2fs-journal-I2: what the apply writes before that lies in blocks that neither the last pack
//!     nor the ring refers to (apply-A4): it becomes home only with the pack, and with the pack e
//!     is committed: both happen in one write;
//!   - f2fs-journal-I7: LC and AP become e after it, and only then are the waiting tasks woken. A
//!     cut before it leaves the last pack, and the ring up to e - 1; a cut after it leaves T = e.
//!     From then on the ring has a hole at e, which is harmless because e is applied: recovery
//!     looks for e + 1 and what follows, and for nothing before (scan-S3);
//! - K9 (one round) the transaction may be sent while data that it maps is under way, if it has the
//!   checksum of each block of that data (DATA_SUM), taken of the bytes that are sent. Everything
//!   else that it maps has been written and flushed before (K2). When the transaction and the data
//!   have completed, one flush begins, and when that has ended the epoch is committed:
//!   - f2fs-journal-I1: a cut before the flush has ended may leave the transaction without the
//!     data. Recovery sees that by the checksums, and leaves the epoch out as a whole, as if the
//!     transaction were torn: nobody was answered, and the state after e - 1 is there, because what
//!     e freed is held until e is applied (f2fs-journal-I6), node numbers wait for this commit, and
//!     discards for the apply;
//!   - f2fs-journal-I7: of an acknowledged epoch data and transaction are on the medium, and the
//!     data keeps its bytes as long as recovery may compare them (summed-Q1 to summed-Q3);
//!   - where recovery compares nothing (`nobarrier`, where several transactions may lack their
//!     data), where data has no checksums (cleaning, write-back that no fsync asked for), where it
//!     has more blocks than [`DATA_SUMS_MAX`](ondisk::f2fs::journal::DATA_SUMS_MAX), and where a
//!     pack is the commit (K8), it is two steps;
//! - K10 (summed-Q5) a transaction with checksums is followed by another one, an empty one if
//!   nothing was logged in an interval. It is sent and made durable as any other;
//! - K11 (one group) where the writes of all data with checksums were left to the commit
//!   ([`EpochData::is_group`]), they and the blocks of the transaction are sent together as
//!   non-volatile writes, in one pack where the device has packs, and no flush follows. When all of
//!   them have completed the epoch is durable, so what K9 says of its flush is true of that moment:
//!   a cut before it leaves any part of the group, and recovery compares. A device that keeps a
//!   prefix of a pack, or any subset, keeps no more than that. A task that cannot wait for the
//!   commit sends its data itself, non-volatile as well, so the commit has only to see it complete.
//!   Data without checksums has been flushed before the group is sent (K2). What callers wrote in
//!   place through the cache is flushed by them (fsync-Z4);
//! - K12 (riders) pages that an fsync writes in place go along with the blocks of a transaction, as
//!   non-volatile writes, if its blocks are. Nothing depends on them, and the transaction does not
//!   vouch for them: if they fail, only the fsync that wrote them does, and if a commit has left
//!   them behind, that fsync sends them when it is woken. Slots are taken away, and blocks with
//!   them, only when the writes of their pages have landed ([`land`](crate::F2fs::land)), so no
//!   page is sent late over another file's block;
//! - K13 a transaction with more blocks than the superblock of the journal says is sent when one
//!   that says more is durable (supers-N3): recovery looks no farther than that says.
//!
//! Locks: the leader holds none except its leadership. It may wait for an apply, or apply itself
//! (K8); an apply never waits for a commit.

use super::group::Patience;
use super::log::Kept;
use super::transaction::{Own, blocks, transaction};
use super::trim::trim;
use super::{Led, Span};
use crate::F2fs;
use crate::fault;
use crate::journal::pages::OfTables;
use crate::journal::stats::Figures;
use crate::journal::{CommitPhase, CommitReason, Epoch, EpochData, Journal};
use crate::ops::Cause;
use crate::options::FsyncMode;
use base::cost::f2fs as cost;
use base::cost::journal::{BLOCK_COPY, COMMIT_PER_BLOCK};
use base::{BLOCK_BYTES, BlockNo, Mutant, Nanos, Time};
use block::WriteMark;
use fscore::FsResult;
use ondisk::f2fs::journal::Transaction;

/// Measures phases.
struct Clock {
    begun: Time,
    since: Time,
    spans: Vec<(CommitPhase, Nanos)>,
}

impl Clock {
    fn start() -> Clock {
        let now = rt::now();
        Clock {
            begun: now,
            since: now,
            spans: Vec::with_capacity(CommitPhase::ALL.len()),
        }
    }
    fn end_of(&mut self, phase: CommitPhase) {
        let now = rt::now();
        self.spans.push((phase, now - self.since));
        self.since = now;
    }
}

/// What composing a transaction of so many `blocks` costs, of which `whole` are images.
fn charge_composed(whole: u64, blocks: u64, looked_at: u64) {
    // A whole block is copied, and has two checksums: its own, and that of the transaction.
    rt::charge_each(BLOCK_COPY, whole);
    rt::charge_each(COMMIT_PER_BLOCK, 2 * whole);
    // What was trimmed has been collected and looked at, so it costs as if it were sent.
    let of_records = blocks.saturating_sub(whole);
    rt::charge_each(
        cost::LOG_BLOCK,
        of_records.max(looked_at / BLOCK_BYTES as u64),
    );
}

impl F2fs {
    /// Makes everything durable that epochs up to `upto` logged. The caller holds no lock.
    ///
    /// # Errors
    /// I/O: then the mount is latched (K7).
    pub(crate) fn commit_for(&self, upto: Epoch, why: CommitReason) -> FsResult<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let patience = match why {
            CommitReason::Fsync => Patience::ForCallers,
            _ => Patience::None,
        };
        let lead = || self.lead(journal, why);
        journal.group.wait(upto, patience, lead)
    }

    /// Makes everything durable that was logged before the call.
    pub(crate) fn commit_all(&self, why: CommitReason) -> FsResult<()> {
        match &self.journal {
            Some(journal) => self.commit_for(journal.plane.running(), why),
            None => Ok(()),
        }
    }

    /// Commits the next epoch, for all tasks that wait for it.
    fn lead(&self, journal: &Journal, why: CommitReason) -> FsResult<Led> {
        self.check_writable()?;
        let led = self.commit_next(journal, why);
        if let Err(e) = &led {
            // K7.
            self.fail(e);
        }
        led
    }

    fn commit_next(&self, journal: &Journal, why: CommitReason) -> FsResult<Led> {
        let mut clock = Clock::start();
        let epoch = Epoch(journal.group.last().0 + 1);
        if journal.plane.running() == epoch && self.close_or_seal(journal, epoch, why) < epoch {
            return Ok(Led::Nothing);
        }
        clock.end_of(CommitPhase::Switch);
        // K1.
        journal.plane.drain(epoch)?;
        clock.end_of(CommitPhase::Drain);
        // K2, K9.
        let mut data = journal.plane.take_data(epoch)?;
        let flush = !self.unordered() && !self.queue.is_flushed(data.mark);
        if flush && !data.is_group() {
            journal.plane.land(&mut data)?;
        }
        clock.end_of(CommitPhase::Data);
        let mut closed = journal.plane.collect(epoch);
        let (pages, looked_at) = match journal.options.ideas.change_records {
            true => (OfTables::default(), trim(journal, &self.geo, &mut closed)),
            false => (self.make_pages(journal, &mut closed)?, 0),
        };
        let heads = self.segs.heads();
        let (transaction, usage) = {
            let log = journal.log.lock();
            let moved = log.moved(&heads);
            let usage = log.usage_after(&closed)?;
            let next_free = self.nat.next_free();
            let own = Own::of(&moved, &pages, &data.sums);
            let made = transaction(&log, &closed, own, flush, usage, next_free);
            (made, usage)
        };
        charge_composed(
            pages.logged.blocks(),
            transaction.blocks().into(),
            looked_at,
        );
        clock.end_of(CommitPhase::Aggregate);
        let span = self.room_in_ring(journal, transaction.blocks())?;
        clock.end_of(CommitPhase::Ring);
        if span.is_none() {
            journal.plane.land(&mut data)?;
        }
        let summed = data.flies();
        let flushed = self.flush_data(data.mark)?;
        clock.end_of(CommitPhase::Flush);
        let freed = closed.freed_nids.clone();
        let kept = Kept {
            closed,
            usage,
            heads,
        };
        match span {
            Some(span) => {
                self.write_transaction(journal, span, &transaction, data)?;
                journal.keep(kept, Some(span));
            }
            // K8.
            None => self.apply_as_commit(journal, epoch, || journal.keep(kept, None))?,
        }
        clock.end_of(CommitPhase::Write);
        let figures = Figures {
            took: clock.since - clock.begun,
            spans: clock.spans,
            flushed,
            one_round: summed && !flushed,
            groups: transaction.descriptor.groups.into(),
            records: transaction.descriptor.records.into(),
            bytes: transaction.payload.len() as u64,
            blocks: span.map_or(0, |span| span.blocks),
            pages: pages.logged,
        };
        journal.account(epoch, why, &figures);
        // Node numbers of this epoch may have new owners in the next one, not before (hazards-F62).
        self.nat.nids_committed(&freed);
        journal.summed.committed(epoch, summed);
        journal.plane.committed(epoch);
        self.ring_behind_commit(journal);
        Ok(Led::Committed(epoch))
    }

    /// Closes the running `epoch` if anything is in it, or if an empty one is to follow (K10).
    /// Answers the last closed one.
    fn close_or_seal(&self, journal: &Journal, epoch: Epoch, why: CommitReason) -> Epoch {
        let closed = self.close_running(journal);
        let seals = why == CommitReason::Timer && journal.summed.is_unsealed();
        match closed < epoch && seals {
            true => journal.plane.close_empty(),
            false => closed,
        }
    }

    /// K5. `None`: the whole ring is too small (K8).
    fn room_in_ring(&self, journal: &Journal, blocks: u32) -> FsResult<Option<Span>> {
        loop {
            let used = {
                let log = journal.log.lock();
                if blocks > log.ring.place().blocks {
                    return Ok(None);
                }
                if let Some(span) = log.ring.fits(blocks) {
                    return Ok(Some(span));
                }
                log.ring.used()
            };
            self.apply(Cause::Ring)?;
            let left = journal.log.lock().ring.used();
            assert!(
                left < used,
                "f2fs-journal-I8: an apply left all {used} blocks in the ring"
            );
        }
    }

    /// `nobarrier`: flushes are left out.
    fn unordered(&self) -> bool {
        self.options.fsync == FsyncMode::NoBarrier
    }

    /// K2. True if a flush was sent, or joined.
    fn flush_data(&self, data: WriteMark) -> FsResult<bool> {
        let skip = self.unordered() || rt::mutant(Mutant::F2fsjDataUnflushed);
        if skip || self.queue.is_flushed(data) {
            return Ok(false);
        }
        let flushed = self.queue.ensure_flushed(data);
        flushed.map_err(fault::device("flushing data before a commit"))?;
        Ok(true)
    }

    /// K3, K4, K6, K9, K11 to K13. Where a flush has to follow anyway, for data or for what callers
    /// wrote in place, it makes the transaction durable, too.
    fn write_transaction(
        &self,
        journal: &Journal,
        span: Span,
        transaction: &Transaction,
        mut data: EpochData,
    ) -> FsResult<()> {
        self.announce(journal, span.blocks)?;
        let ordered = !self.unordered() && !rt::mutant(Mutant::F2fsjAckBeforeCommit);
        let runs: Vec<_> = {
            let log = journal.log.lock();
            log.ring.check_free(span);
            log.ring.runs(span).collect()
        };
        let addresses = runs.into_iter().flat_map(|run| run.start.0..run.end.0);
        let blocks = addresses.zip(blocks(transaction));
        let blocks = blocks.map(|(at, (class, block))| (BlockNo(at).lba(), class, block));
        let written_to = fault::device("writing a transaction of the journal");
        let wanted = journal.group.wanted();
        let flush = ordered && (data.flies() || !self.queue.is_flushed(wanted));
        if ordered && (data.is_group() || !flush) {
            let mut group = data.take_group(&self.queue);
            let mut held = group.split_held();
            held.take_along(self.queue.watched(journal.group.riders()).split_held());
            let mut plug = self.queue.order_plug();
            blocks.for_each(|(lba, class, block)| plug.write_fua(lba, class, block));
            plug.join(held);
            // What is left in the group has been sent by tasks that could not wait.
            let written = plug.finish().and_then(|()| group.wait());
            return written.map_err(written_to);
        }
        let mut plug = self.queue.plug();
        blocks.for_each(|(lba, class, block)| plug.write(lba, class, block));
        let written = plug.submit().wait_written();
        written.result.map_err(written_to)?;
        let mark = written.mark.max(wanted);
        if rt::mutant(Mutant::F2fsjFlushEarly) {
            // hazards-F53.
            self.flush_commit(flush, mark)?;
            return journal.plane.land(&mut data);
        }
        journal.plane.land(&mut data)?;
        self.flush_commit(flush, mark.max(data.mark))
    }

    /// K9: the flush behind data and transaction.
    fn flush_commit(&self, needed: bool, mark: WriteMark) -> FsResult<()> {
        if !needed {
            return Ok(());
        }
        let flushed = self.queue.ensure_flushed(mark);
        flushed.map_err(fault::device("flushing a commit"))
    }
}
