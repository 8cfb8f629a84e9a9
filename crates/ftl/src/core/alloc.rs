//! Opens blocks for streams: makes room, erases a free block, and retires it if that fails.

use super::program::broken_rules_panic;
use super::streams::{CAUSES, GC, HOST, pool_for};
use super::{Ftl, FtlError};
use crate::RESERVE;
use crate::blocks::{ORDINARY, SLC};
use base::Time;
use nand::BlockId;

impl Ftl {
    /// Opens a block for a lane of a stream. It is erased now (ftl-I8); the least worn one is taken
    /// for the host, the most worn one for cold data.
    pub(crate) fn open_block(
        &mut self,
        now: Time,
        stream: usize,
        lane: usize,
    ) -> Result<u32, FtlError> {
        let pool = pool_for(&self.config, stream);
        let mut drained = false;
        loop {
            match (stream, pool) {
                (HOST, SLC) => self.make_slc_room(now)?,
                (GC, _) => {}
                _ => self.make_room(now)?,
            }
            let durable = self.durable_before();
            let chosen = self.blocks.choose(pool, stream == GC, lane as u32, durable);
            let Some(block) = chosen else {
                if self.blocks.free(pool) == 0 {
                    return Err(self.end_of_life("no free block is left"));
                }
                // Every free block waits for evidence that is still in a buffer (ftl-I2).
                if std::mem::replace(&mut drained, true) {
                    return Err(
                        self.end_of_life("every free block waits for a unit whose program failed")
                    );
                }
                self.drain(now)?;
                if stream != GC && self.streams.failed().is_some() {
                    self.empty_buffers(now)?;
                    self.write_log(now)?;
                }
                continue;
            };
            let start = self.erase_from(now, block);
            self.blocks.take(block);
            self.nand.because(CAUSES[stream]);
            let erased = broken_rules_panic(self.nand.erase(start, BlockId(block)));
            if erased.is_err() {
                self.blocks.spoil(block);
                self.nand.mark_bad(BlockId(block));
                self.check_life();
                self.alive()?;
                continue;
            }
            self.blocks.open(block);
            self.area.block_opened();
            self.scrub.forget(block);
            return Ok(block);
        }
    }
    /// Programs everything that is buffered.
    pub(crate) fn drain(&mut self, now: Time) -> Result<(), FtlError> {
        self.issue_all(now)?;
        self.close_pairs(now, true)?;
        self.write_log(now)
    }
    /// Takes a full block off its lane.
    pub(crate) fn close(&mut self, stream: usize, block: u32) {
        self.leave_lane(stream, block);
        self.blocks.close(block, self.numbers.accepted());
    }
    /// Takes a block off its lane, so that nothing more is appended to it.
    pub(crate) fn leave_lane(&mut self, stream: usize, block: u32) {
        self.streams.leave_lane(stream, block);
        self.pairs.forget(block);
    }
    /// Collects until host or folding may take an ordinary block (ftl-I6).
    fn make_room(&mut self, now: Time) -> Result<(), FtlError> {
        while self.blocks.free(ORDINARY) <= RESERVE {
            self.rescue(now)?;
            self.checkpoint_if_due(now)?;
            if !self.collect_victim(now, ORDINARY)? {
                return Err(self.end_of_life("nothing is left to collect"));
            }
        }
        Ok(())
    }
}
