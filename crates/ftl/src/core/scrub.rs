//! Scrubbing: a page that the error correction can only just read is written anew.
//!
//! The chips ask for it ([`nand::Corrected::refresh`]) when flipped bits reach three quarters of
//! what can be corrected, as the default of Linux MTD is, when a block has been read as often as
//! its budget (read disturb), and for marginal pages. A read notes the row; each write, and idle
//! work row by row, then moves the valid units of one row, as garbage collection would, unless only
//! the reserve is free (ftl-I6). The rows that were read come first, then the others of their
//! blocks, because reads and time wear all pages of a block alike (UBI moves whole blocks, too).
//!
//! - I23 (fresh cells): before a row is moved, its block leaves its lane (the place at which a
//!   stream programs), full or not, and gets no more programs but that of the units which wait for
//!   its next row. Reads of the block would count for new pages from the start: cells that are
//!   programmed late are disturbed by the reads before, too (Cai et al., HPCA 2017). Until its turn
//!   comes, a block may still get programs.
//!
//! Limit: no page is read for the sake of scrubbing. A page whose bits go from below the threshold
//! to beyond the correction between two reads is lost. Reads of its neighbours can bring a page
//! there, so [`nand::BitErrors::reads_budget`] must lie below the number of reads that can do so.

use super::streams::GC;
use super::{Ftl, FtlError};
use crate::RESERVE;
use crate::blocks::ORDINARY;
use base::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum of rows that can wait; a row that does not fit is noted again by its next read.
const MOST: usize = 1 << 12;

/// What waits to be written anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrub {
    /// Rows that were read: block, row.
    rows: BTreeSet<(u32, u32)>,
    /// Blocks, and from which row on.
    blocks: BTreeMap<u32, u32>,
}

impl Scrub {
    /// Number of rows that wait, and of blocks whose other rows do.
    fn len(&self) -> usize {
        self.rows.len() + self.blocks.len()
    }
    /// Notes that a read of a row reported that the row should be written anew.
    pub fn note(&mut self, block: u32, row: u32) {
        if self.rows.len() < MOST {
            self.rows.insert((block, row));
        }
        self.blocks.entry(block).or_insert(0);
    }
    /// Notes that the block has been erased, so that none of its rows waits.
    pub fn forget(&mut self, block: u32) {
        self.rows.retain(|(b, _)| *b != block);
        self.blocks.remove(&block);
    }
    /// The row to move next. `live` answers which of some rows of a block is the first that holds
    /// anything.
    fn next(&mut self, live: impl Fn(u32, u32) -> Option<u32>) -> Option<(u32, u32)> {
        if let Some(row) = self.rows.pop_first() {
            return Some(row);
        }
        while let Some(mut entry) = self.blocks.first_entry() {
            let block = *entry.key();
            if let Some(row) = live(block, *entry.get()) {
                *entry.get_mut() = row + 1;
                return Some((block, row));
            }
            entry.remove();
        }
        None
    }
}

impl Ftl {
    /// Number of rows that wait to be written anew, and of blocks whose other rows do.
    pub fn scrub_backlog(&self) -> usize {
        self.scrub.len()
    }
    /// Takes a block off its lane although some of its rows are empty (I23).
    fn leave_early(&mut self, now: Time, block: u32) -> Result<(), FtlError> {
        let Some(stream) = self.streams.of_block(block) else {
            return Ok(());
        };
        if self.streams.filling(stream, block) {
            self.issue(now, stream)?;
        } else {
            self.streams.drop_empty_row(stream, block);
        }
        // The block has left its lane already if that program filled it, or failed.
        if self.streams.of_block(block) == Some(stream) {
            self.close(stream, block);
        }
        Ok(())
    }
    /// The row to move next.
    fn next_scrub(&mut self) -> Option<(u32, u32)> {
        let (map, layout, blocks) = (&self.map, &self.layout, &self.blocks);
        self.scrub.next(|block, from| {
            let info = blocks.get(block);
            let rows = match info.valid {
                0 => 0,
                _ => info.filled.min(layout.rows_in(block)),
            };
            (from..rows).find(|row| !map.live(layout.row(block, *row)).is_empty())
        })
    }
    /// Moves the valid units of one row that waits.
    pub(crate) fn scrub_step(&mut self, now: Time) -> Result<(), FtlError> {
        if self.scrub_backlog() == 0 || self.blocks.free(ORDINARY) <= RESERVE {
            return Ok(());
        }
        let Some((block, row)) = self.next_scrub() else {
            return Ok(());
        };
        self.leave_early(now, block)?;
        let live = self.map.live(self.layout.row(block, row));
        // The row may be in the buffer of rows whose program failed.
        if live.is_empty() || self.streams.pending_row(block, row).is_some() {
            return Ok(());
        }
        // A copy must not show a part of a batch that is only in memory (remap-I13).
        if live.iter().any(|p| self.has_unlogged_owner(*p)) {
            self.write_log(now)?;
        }
        let read = self.charge_read(now, block, row, live.len());
        self.scrub.rows.remove(&(block, row));
        self.stats.scrub(live.len());
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
            if self.scrub_backlog() == 0 || self.read_only().is_some() {
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
