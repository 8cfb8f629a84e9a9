//! Scrubbing: a page that the error correction can only just read is written anew.
//!
//! The chips ask for it ([`nand::Corrected::refresh`]) when flipped bits reach three quarters of what can be corrected, as the
//! default of Linux MTD is, when a block has been read more often than its budget (read disturb), and for marginal pages. A
//! read notes the row; each write then moves the valid units of one row, as garbage collection would.

use crate::config::{NONE, RESERVE};
use crate::core::{Ftl, FtlError, GC};
use crate::slc::ORDINARY;
use base::Time;

/// Rows that can wait; what does not fit is noted again by the next read of it.
const MOST: usize = 1 << 12;

impl Ftl {
    /// Rows that wait to be written anew.
    pub fn scrub_backlog(&self) -> usize {
        self.scrub.len()
    }
    /// A read of a row was told that it should be written anew.
    pub(crate) fn note_refresh(&mut self, block: u32, row: u32) {
        if self.scrub.len() < MOST {
            self.scrub.insert((block, row));
        }
    }
    /// Moves the valid units of one row that waits.
    pub(crate) fn scrub_step(&mut self, now: Time) -> Result<(), FtlError> {
        if self.scrub.is_empty() || self.pools[ORDINARY].free <= RESERVE {
            return Ok(());
        }
        let Some((block, row)) = self.scrub.pop_first() else {
            return Ok(());
        };
        let first = self.layout.ppn(block, row, 0);
        let slots = first..first + self.layout.slots_per_row;
        let live: Vec<u32> = slots
            .filter(|p| *self.p2l.get(*p as usize) != NONE)
            .collect();
        // It may be in a row buffer, if the block was erased and opened again meanwhile.
        if live.is_empty()
            || self
                .pending_rows()
                .any(|r| r.block == block && r.row == row)
        {
            return Ok(());
        }
        let read = self.charge_row_read(now, block, row, live.len());
        self.scrub.remove(&(block, row));
        self.stats.scrubbed += live.len() as u64;
        for ppn in live {
            self.copy(now, read, ppn, GC)?;
        }
        Ok(())
    }
    /// Moves up to `rows` rows that wait to be written anew, while nobody waits for the device.
    ///
    /// # Errors
    /// The device became read-only.
    pub fn scrub_idle(&mut self, now: Time, rows: u32) -> Result<(), FtlError> {
        for _ in 0..rows.min(self.scrub.len() as u32) {
            // Copies take room that only collection makes.
            self.background_step(now)?;
            self.scrub_step(now)?;
        }
        self.rescue(now)
    }
}
