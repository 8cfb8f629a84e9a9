//! Programs that fail: the row is set aside, and its units are put into the cold stream later.
//!
//! A program can fail in the middle of opening a block or of collecting a victim. Putting the units
//! elsewhere at once would open a block of the cold stream while one is being opened; so the row
//! waits in memory until [`Ftl::rescue`] is called, which never happens while the cold stream opens
//! a block. Meanwhile the block of the row is neither victim nor free.

use super::streams::{GC, Row};
use super::{Ftl, FtlError};
use crate::config::NONE;
use base::Time;
use nand::BlockId;

impl Ftl {
    /// Sets aside a row whose program failed. Its block takes no more programs; what it holds stays
    /// readable until it is moved.
    pub(crate) fn set_aside(&mut self, stream: usize, row: Row) {
        self.nand.mark_bad(BlockId(row.block));
        self.leave_lane(stream, row.block);
        self.streams.set_aside(row);
    }
    /// Puts the units of rows that were set aside into the cold stream, and lets their blocks be
    /// emptied and retired (ftl-I9).
    ///
    /// # Errors
    /// The device became read-only; units that have no new row stay in memory.
    pub(crate) fn rescue(&mut self, now: Time) -> Result<(), FtlError> {
        while let Some(row) = self.streams.failed() {
            let (block, first) = (row.block, self.layout.ppn(row.block, row.row, 0));
            for from in first..first + row.entries.len() as u32 {
                // Putting a unit drops it from the row that was set aside; another failure only
                // adds rows at the end.
                let entry = self.buffered(from).filter(|e| e.lpn != NONE);
                if let Some(entry) = entry.cloned() {
                    let start = self.log.after_batches(now);
                    self.put_shared(start, GC, entry, from)?;
                }
            }
            self.streams.rescued();
            self.blocks.fail(block, self.numbers.accepted());
            self.check_life();
        }
        Ok(())
    }
    /// Programs everything that is in row buffers, failed rows included: afterwards L2P names
    /// programmed slots only (ftl-I3).
    pub(crate) fn empty_buffers(&mut self, now: Time) -> Result<(), FtlError> {
        loop {
            self.issue_all(now)?;
            if self.streams.failed().is_none() {
                return Ok(());
            }
            if self.streams.is_opening_cold() {
                return Err(
                    self.end_of_life("a program failed when the last room for it was being made")
                );
            }
            self.rescue(now)?;
        }
    }
}
