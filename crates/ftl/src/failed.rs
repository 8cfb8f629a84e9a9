//! Programs that fail: the row is set aside, and its units are put into the cold stream later.
//!
//! A program can fail in the middle of opening a block or of collecting a victim. Putting the units
//! elsewhere at once would open and collect again inside that; so the row waits in memory until
//! [`Ftl::rescue`] is called, which happens only where no such operation is half done. Meanwhile
//! its block is neither victim nor free.

use crate::core::{Entry, Ftl, FtlError, GC, Row};
use base::Time;
use nand::BlockId;

impl Ftl {
    /// Sets aside a row whose program failed. Its block takes no more programs; what it holds stays
    /// readable until it is moved.
    pub(crate) fn set_aside(&mut self, stream: usize, row: Row) {
        self.nand.mark_bad(BlockId(row.block));
        self.leave_lane(stream, row.block);
        self.failed.push(row);
    }
    /// Puts the units of rows that were set aside into the cold stream, and lets their blocks be
    /// emptied and retired (ftl-I9).
    ///
    /// # Errors
    /// The device became read-only; units that have no new row stay in memory.
    pub(crate) fn rescue(&mut self, now: Time) -> Result<(), FtlError> {
        while let Some(row) = self.failed.first() {
            let (block, units) = (row.block, row.entries.len());
            for slot in 0..units {
                let entry = &self.failed[0].entries[slot];
                if entry.lpn != crate::config::NONE {
                    let entry: Entry = entry.clone();
                    let from = self.layout.ppn(block, self.failed[0].row, slot as u32);
                    // Putting a unit drops it from the row that was set aside; another failure only
                    // adds rows at the end.
                    let start = now.max(self.log.batch_end);
                    self.put_shared(start, GC, entry, from)?;
                }
            }
            self.failed.remove(0);
            self.retire(block);
        }
        Ok(())
    }
    /// Programs everything that is in row buffers, failed rows included: afterwards L2P names
    /// programmed slots only (ftl-I3).
    pub(crate) fn empty_buffers(&mut self, now: Time) -> Result<(), FtlError> {
        loop {
            self.issue_all(now)?;
            if self.failed.is_empty() {
                return Ok(());
            }
            if self.opening_cold {
                return Err(
                    self.end_of_life("a program failed when the last room for it was being made")
                );
            }
            self.rescue(now)?;
        }
    }
    /// Gives a failed block to the collection, or retires it at once if it holds no valid slot.
    fn retire(&mut self, block: u32) {
        self.blocks[block as usize].failing = true;
        let pool = self.pool_of(block);
        self.pools[pool].failing += 1;
        self.close_block(block);
        self.check_life();
    }
}
