//! Reads log blocks with read-ahead.

use crate::log_super::LogSuper;
use crate::{JournalError, LogBlock};
use base::{Bytes, SECTORS_PER_BLOCK};
use block::Queue;

/// Blocks read with one request: 128 KiB, as in Linux.
const WINDOW: u32 = 32;

/// A window over the log that moves forward.
pub(crate) struct LogReader<'a> {
    queue: &'a Queue,
    log: &'a LogSuper,
    first: u32,
    /// Contents of the blocks from `first` on.
    window: Vec<Bytes>,
}

impl<'a> LogReader<'a> {
    pub fn new(queue: &'a Queue, log: &'a LogSuper) -> LogReader<'a> {
        LogReader {
            queue,
            log,
            first: 0,
            window: Vec::new(),
        }
    }

    /// The content of a log block.
    pub fn read(&mut self, at: LogBlock) -> Result<Bytes, JournalError> {
        if !self.covers(at) {
            self.fill(at)?;
        }
        Ok(self.window[(at.0 - self.first) as usize].clone())
    }

    fn covers(&self, at: LogBlock) -> bool {
        self.first <= at.0 && ((at.0 - self.first) as usize) < self.window.len()
    }

    /// Reads from `at` as far as the log is contiguous on the device.
    fn fill(&mut self, at: LogBlock) -> Result<(), JournalError> {
        let place = &self.log.place;
        let home = place.block(at);
        let end = self.log.sb.blocks_count().min(at.0 + WINDOW);
        let contiguous = |n: &u32| place.block(LogBlock(*n)) == home.plus((*n - at.0).into());
        let count = (at.0..end).take_while(contiguous).count() as u64;
        self.window = self
            .queue
            .read_blocks(home.lba(), count * SECTORS_PER_BLOCK)?;
        self.first = at.0;
        Ok(())
    }
}
