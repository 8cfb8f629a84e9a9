//! The superblocks of the journal while it is mounted: they say where the tail of the ring is, and
//! after an unmount that the ring is empty.
//!
//! The tail that they name saves recovery time and decides nothing, because the pack says what is
//! applied. But without a sound copy there is no recovery:
//! - N1 at any moment one copy is durable and whole. A mount begins with both durable; then they
//!   are written in turn, at most one after an apply (where the tail has moved far enough), and
//!   each apply flushes before its pack is published: so the copy written last is durable when the
//!   other one is sent. Without barriers there are no flushes, so none is written before the
//!   unmount;
//! - N2 "left empty" is written when the pack of the unmount is durable and contains everything
//!   that was ever committed.

use crate::F2fs;
use crate::fault;
use crate::journal::Journal;
use crate::options::FsyncMode;
use base::BlockNo;
use block::Class;
use fscore::FsResult;
use ondisk::f2fs::journal::JournalSuper;

/// Blocks that the tail moves before it is worth a write: recovery reads so many at once.
const STRIDE: u32 = 256;

impl F2fs {
    /// Behind an apply: where the tail is now, if that is far from where the superblock says.
    ///
    /// # Errors
    /// I/O.
    pub(in crate::journal) fn note_tail(&self, journal: &Journal) -> FsResult<()> {
        let now = self.super_now(journal, false);
        let before = *journal.sb.lock();
        let ring = now.ring_blocks;
        let moved = (now.tail + ring - before.tail) % ring;
        // N1.
        if moved < STRIDE || self.options.fsync == FsyncMode::NoBarrier {
            return Ok(());
        }
        let at = BlockNo(journal.area.super_block(now.copy())).lba();
        let mut plug = self.queue.plug();
        plug.write(at, Class::JournalSuperblock, now.encode().into());
        let written = plug.submit().wait();
        written.map_err(fault::device("writing the superblock of the journal"))?;
        *journal.sb.lock() = now;
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
        let now = self.super_now(journal, true);
        let at = BlockNo(journal.area.super_block(now.copy())).lba();
        let written = self
            .queue
            .write_fua(at, Class::JournalSuperblock, now.encode().into());
        written.map_err(fault::device("writing the superblock of the journal"))?;
        *journal.sb.lock() = now;
        Ok(())
    }

    /// The next superblock.
    fn super_now(&self, journal: &Journal, clean: bool) -> JournalSuper {
        let before = *journal.sb.lock();
        let log = journal.log.lock();
        JournalSuper {
            clean,
            generation: before.generation.wrapping_add(1),
            tail: log.ring.tail(),
            tail_epoch: log.ring.tail_epoch().0,
            head_epoch: log.ring.newest().0,
            checkpoint_version: self.cp.version(),
            ..before
        }
    }
}
