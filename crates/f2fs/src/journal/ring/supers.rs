//! The superblocks of the journal while it is mounted: they say where the tail of the ring is, and
//! after an unmount that the ring is empty.
//!
//! The tail that they name saves recovery time and decides nothing, because the pack says what is
//! applied. But without a sound copy there is no recovery:
//! - N1 at any moment one copy is durable and whole. A mount that begins a life of the ring
//!   begins with both durable, one that lets a ring go on with one at least; then they are written
//!   in turn, at most one after an apply (where the tail has moved far enough), and
//!   each apply flushes before its pack is published: so the copy written last is durable when the
//!   other one is sent. Without barriers there are no flushes, so none is written before the
//!   unmount. One that is written for N3 is written behind a flush, and is durable before it
//!   counts;
//! - N2 "left empty" is written when the pack of the unmount is durable and contains everything
//!   that was ever committed;
//! - N3 (scan-S6) no transaction of this life of the ring has more blocks than the copy that counts
//!   says: before a larger one is sent, a copy that says more is durable. What it says doubles at
//!   least, so that is seldom. Without barriers no copy promises anything.

use crate::F2fs;
use crate::fault;
use crate::journal::{Journal, JournalArea};
use crate::options::FsyncMode;
use base::BlockNo;
use block::Class;
use fscore::FsResult;
use ondisk::f2fs::journal::JournalSuper;

/// Blocks that the tail moves before it is worth a write: recovery reads so many at once.
const STRIDE: u32 = 256;
/// What a new life of the ring says of the blocks of a transaction (N3).
const TRANSACTION_MAX: u32 = 256;

impl F2fs {
    /// N3, at the beginning of a life of a ring with so many blocks.
    pub(in crate::journal) fn first_transaction_max(&self, ring: u32) -> u32 {
        match self.options.fsync {
            FsyncMode::NoBarrier => 0,
            _ => TRANSACTION_MAX.min(ring),
        }
    }

    /// N3: a transaction of so many blocks is about to be sent.
    ///
    /// # Errors
    /// I/O.
    pub(super) fn announce(&self, journal: &Journal, blocks: u32) -> FsResult<()> {
        let mut sb = journal.sb.lock();
        if blocks <= sb.transaction_max || self.options.fsync == FsyncMode::NoBarrier {
            return Ok(());
        }
        let next = JournalSuper {
            generation: sb.generation.wrapping_add(1),
            transaction_max: blocks.next_power_of_two().min(sb.ring_blocks),
            ..*sb
        };
        // N1: the copy that an apply has written last.
        self.queue
            .flush()
            .map_err(fault::device("flushing before a superblock of the journal"))?;
        self.write_super(&journal.area, &next)?;
        *sb = next;
        Ok(())
    }

    /// Behind an apply: where the tail is now, if that is far from where the superblock says.
    ///
    /// # Errors
    /// I/O.
    pub(in crate::journal) fn note_tail(&self, journal: &Journal) -> FsResult<()> {
        let mut sb = journal.sb.lock();
        let now = self.super_now(journal, &sb, false);
        let ring = now.ring_blocks;
        let moved = (now.tail + ring - sb.tail) % ring;
        // N1.
        if moved < STRIDE || self.options.fsync == FsyncMode::NoBarrier {
            return Ok(());
        }
        let at = BlockNo(journal.area.super_block(now.copy())).lba();
        let mut plug = self.queue.plug();
        plug.write(at, Class::JournalSuperblock, now.encode().into());
        let written = plug.submit().wait();
        written.map_err(fault::device("writing the superblock of the journal"))?;
        *sb = now;
        Ok(())
    }

    /// The volume is unmounted, and its last pack durable: the ring is empty (N2).
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn close_journal(&self) -> FsResult<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let empty = journal.log.lock().ring.used() == 0;
        if !empty || self.check_writable().is_err() {
            return Ok(());
        }
        let mut sb = journal.sb.lock();
        let now = self.super_now(journal, &sb, true);
        self.write_super(&journal.area, &now)?;
        *sb = now;
        Ok(())
    }

    /// Writes a copy; it is durable afterwards.
    ///
    /// # Errors
    /// I/O.
    pub(in crate::journal) fn write_super(
        &self,
        area: &JournalArea,
        sb: &JournalSuper,
    ) -> FsResult<()> {
        let at = BlockNo(area.super_block(sb.copy())).lba();
        let written = self
            .queue
            .write_fua(at, Class::JournalSuperblock, sb.encode().into());
        written.map_err(fault::device("writing the superblock of the journal"))
    }

    /// The superblock that follows `before`.
    fn super_now(&self, journal: &Journal, before: &JournalSuper, clean: bool) -> JournalSuper {
        let log = journal.log.lock();
        JournalSuper {
            clean,
            generation: before.generation.wrapping_add(1),
            tail: log.ring.tail(),
            tail_epoch: log.ring.tail_epoch().0,
            head_epoch: log.ring.newest().0,
            checkpoint_version: self.cp.version(),
            ..*before
        }
    }
}
