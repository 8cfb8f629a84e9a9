//! Scrubbing: a page that the error correction can only just read is written anew.
//!
//! The chips ask for it ([`nand::Corrected::refresh`]) when flipped bits reach three quarters of
//! what can be corrected, as the default of Linux MTD is, when a block has been read more often
//! than its budget (read disturb), and for marginal pages. A read notes the row; each write, and
//! idle work, then moves the valid units of one row, as garbage collection would. The rows that
//! were read come first, then the others of their blocks, because reads and time wear all pages of
//! a block alike (UBI moves whole blocks, too).
//!
//! - I23 (fresh cells): a block with a row that waits gets no more programs and leaves its lane.
//!   Its reads would count for new pages from the start: cells that are programmed late are
//!   disturbed by the reads before, too (Cai et al., HPCA 2017).
//!
//! Limit: no page is read for the sake of scrubbing. A page whose bits go from below the threshold
//! to beyond the correction between two reads is lost. Against that the chips have
//! [`nand::BitErrors::reads_budget`], which must lie below the number of reads that can do so.

use crate::config::{NONE, RESERVE};
use crate::core::{Ftl, FtlError, GC, Row, Stream};
use crate::slc::ORDINARY;
use base::Time;

/// The maximum of rows that can wait; a row that does not fit is noted again by its next read.
const MOST: usize = 1 << 12;

impl Ftl {
    /// Number of rows that wait to be written anew, and of blocks whose other rows do.
    pub fn scrub_backlog(&self) -> usize {
        self.scrub.len() + self.scrub_blocks.len()
    }
    /// Notes that a read of a row reported that the row should be written anew.
    pub(crate) fn note_refresh(&mut self, block: u32, row: u32) {
        if self.scrub.len() < MOST {
            self.scrub.insert((block, row));
        }
        self.scrub_blocks.entry(block).or_insert(0);
    }
    /// Notes that the block has been erased, so that none of its rows waits.
    pub(crate) fn forget_scrub(&mut self, block: u32) {
        self.scrub.retain(|(b, _)| *b != block);
        self.scrub_blocks.remove(&block);
    }
    /// The row to move next.
    fn next_scrub(&mut self) -> Option<(u32, u32)> {
        if let Some(row) = self.scrub.pop_first() {
            return Some(row);
        }
        while let Some((block, row)) = self.scrub_blocks.first_key_value().map(|(b, r)| (*b, *r)) {
            let info = &self.blocks[block as usize];
            let rows = match info.valid {
                0 => 0,
                _ => info.filled.min(self.layout.rows_in(block)),
            };
            let next = (row..rows).find(|row| !self.live_in(block, *row).is_empty());
            if let Some(next) = next {
                self.scrub_blocks.insert(block, next + 1);
                return Some((block, next));
            }
            self.scrub_blocks.remove(&block);
        }
        None
    }
    fn live_in(&self, block: u32, row: u32) -> Vec<u32> {
        let first = self.layout.ppn(block, row, 0);
        let slots = first..first + self.layout.slots_per_row;
        slots
            .filter(|p| *self.p2l.get(*p as usize) != NONE)
            .collect()
    }
    /// Takes a block off its lane although some of its rows are empty (I23).
    fn leave_early(&mut self, now: Time, block: u32) -> Result<(), FtlError> {
        let lanes = |s: &Stream| s.lanes.contains(&Some(block));
        let Some(stream) = self.streams.iter().position(lanes) else {
            return Ok(());
        };
        match &self.streams[stream].row {
            Some(row) if row.block == block && !row.entries.is_empty() => {
                self.issue(now, stream)?;
            }
            Some(row) if row.block == block => self.streams[stream].row = None,
            _ => {}
        }
        // The block has left its lane already if that program filled it, or failed.
        if lanes(&self.streams[stream]) {
            self.close(stream, block);
        }
        Ok(())
    }
    /// Moves the valid units of one row that waits.
    pub(crate) fn scrub_step(&mut self, now: Time) -> Result<(), FtlError> {
        if self.scrub_backlog() == 0 || self.pools[ORDINARY].free <= RESERVE {
            return Ok(());
        }
        let Some((block, row)) = self.next_scrub() else {
            return Ok(());
        };
        self.leave_early(now, block)?;
        let live = self.live_in(block, row);
        // The row may be in the buffer of rows whose program failed.
        let waits = |r: &Row| r.block == block && r.row == row;
        if live.is_empty() || self.pending_rows().any(waits) {
            return Ok(());
        }
        // A copy must not show a part of a batch that is only in memory (remap-I13).
        if live.iter().any(|p| self.has_unlogged_owner(*p)) {
            self.write_log(now)?;
        }
        let read = self.charge_row_read(now, block, row, live.len());
        self.scrub.remove(&(block, row));
        self.stats.scrubbed += live.len() as u64;
        for ppn in live {
            self.copy(now, read, ppn, GC)?;
        }
        Ok(())
    }
    /// Moves up to `rows` rows that wait to be written anew, while the device is idle. Answers when
    /// the chips have finished that, or `None` if nothing could be done.
    ///
    /// # Errors
    /// The device became read-only.
    pub fn scrub_idle(&mut self, now: Time, rows: u32) -> Result<Option<Time>, FtlError> {
        let state = |ftl: &Ftl| (ftl.stats.scrubbed, ftl.scrub_backlog());
        let before = state(self);
        for _ in 0..rows {
            if self.scrub_backlog() == 0 || self.read_only.is_some() {
                break;
            }
            // Copies take room, which only collection makes.
            self.checkpoint_if_due(now)?;
            self.background_step(now)?;
            self.scrub_step(now)?;
        }
        self.rescue(now)?;
        Ok((state(self) != before).then(|| self.nand.all_free().max(now)))
    }
}
