//! Segments of the main area: which blocks are valid (SIT), who owns them (SSA), the six logs, LFS and SSR allocation, discard.

mod checkpoint;

pub(crate) use checkpoint::{OpenLog, SegsOnDisk, SegsToWrite};

use crate::F2fs;
use crate::ops::Op;
use fscore::FsResult;
use ondisk::f2fs::{BlockAddr, Log, SegNo, Summary};

/// The table in memory.
pub(crate) struct Segments {}

/// A block that was allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    /// Its address.
    pub addr: BlockAddr,
    /// The next one that this log will hand out: what the footer of a node block names, for roll-forward.
    pub next: BlockAddr,
}

impl Segments {
    /// Segments without a valid block that can be written now.
    pub fn free(&self) -> u32 {
        todo!("seg")
    }
    /// Segments without a valid block that the next checkpoint frees.
    pub fn prefree(&self) -> u32 {
        todo!("seg")
    }
    /// The next address of a log: what a checkpoint writes down, and where roll-forward begins.
    pub fn next_of(&self, log: Log) -> BlockAddr {
        let _ = log;
        todo!("seg")
    }
}

impl F2fs {
    /// Takes the next block of `log` for what `owner` says, and invalidates `old` if that is a block (S1: `space` is not touched).
    ///
    /// # Errors
    /// ENOSPC only if not even the reserved segments are left; I/O; damage.
    pub(crate) fn allocate(
        &self,
        op: &Op<'_>,
        log: Log,
        old: BlockAddr,
        owner: Summary,
    ) -> FsResult<Placed> {
        let _ = (op, log, old, owner);
        todo!("seg")
    }

    /// A block is not valid any more. Not reused before the next checkpoint.
    ///
    /// # Errors
    /// Damage: it was not valid.
    pub(crate) fn invalidate(&self, op: &Op<'_>, addr: BlockAddr) -> FsResult<()> {
        let _ = (op, addr);
        todo!("seg")
    }

    /// Whether the block is valid now.
    pub(crate) fn is_valid(&self, addr: BlockAddr) -> FsResult<bool> {
        let _ = addr;
        todo!("seg")
    }

    /// Roll-forward: a block that the last checkpoint did not know is valid and belongs to `owner`; `old` is not any more.
    pub(crate) fn adopt(
        &self,
        op: &Op<'_>,
        addr: BlockAddr,
        old: BlockAddr,
        owner: Summary,
    ) -> FsResult<()> {
        let _ = (op, addr, old, owner);
        todo!("seg")
    }

    /// The owner of a block, from the summary of its segment.
    pub(crate) fn owner_of(&self, addr: BlockAddr) -> FsResult<Summary> {
        let _ = addr;
        todo!("seg")
    }

    /// The segment of an address of the main area.
    pub(crate) fn segno(&self, addr: BlockAddr) -> FsResult<SegNo> {
        self.geo.segno(addr).ok_or_else(|| {
            fscore::FsError::corrupt(format!("block {addr} is not in the main area"))
        })
    }
}
