//! The blocks of a log that are for fast commits: where they lie, and that they hold nothing before
//! the first fast commit (fast-W11).

use crate::log_super::LogSuper;
use crate::{JournalError, LogBlock};
use base::bytes::is_zero;
use base::{Mutant, fill};
use block::{Class, Queue};
use ondisk::jbd2::Superblock;
use std::sync::Arc;

/// The blocks of a log that are for fast commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    first: u32,
    len: u32,
    /// Its blocks, the one that stays free included.
    all: u32,
}

impl Area {
    /// The area that a superblock names, if it has one, without its last block: where all blocks of
    /// an area hold fast commits, recovery by Linux (6.18) and by e2fsck (1.47) looks at the block
    /// behind the log, and refuses the log or drops all of them (docs/results/fast-commit.md).
    /// `to_the_end`: [`FastBug::FullArea`](crate::FastBug::FullArea).
    pub fn of(sb: &Superblock, to_the_end: bool) -> Option<Area> {
        let first = sb.fast_commit_first();
        let all = sb.blocks_count().checked_sub(first)?;
        let free = u32::from(!to_the_end && !rt::mutant(Mutant::FastFullArea));
        let len = all.checked_sub(free)?;
        (sb.fast_commit_blocks() > 0 && len > 0).then_some(Area { first, len, all })
    }

    /// Its first block.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// How many blocks may hold fast commits.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// fast-W11. Writes zeros, durably, where something else lies. The log is empty.
    ///
    /// # Errors
    /// The device fails.
    pub fn clear(&self, queue: &Arc<Queue>, log: &LogSuper) -> Result<(), JournalError> {
        let size = log.place.block_size();
        let zeros = fill::zeros(size.bytes());
        let mut plug = queue.plug();
        let mut dirty = false;
        // Also the last one, which stays free: recovery reads it.
        for n in self.first..self.first + self.all {
            let at = log.place.lba(LogBlock(n));
            if !is_zero(&queue.read(at, size.sectors())?) {
                plug.write(at, Class::FastCommit, zeros.clone());
                dirty = true;
            }
        }
        plug.submit().wait()?;
        match dirty {
            true => Ok(queue.flush()?),
            false => Ok(()),
        }
    }
}
