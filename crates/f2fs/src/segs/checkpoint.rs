//! Where segments and checkpoints meet: what a mount gives to the table, what a checkpoint takes from it.
//!
//! Order of a checkpoint, all under its freeze: [`flush_segs`](crate::F2fs::flush_segs) after the last block was allocated, the pack, then
//! [`segs_committed`](crate::F2fs::segs_committed) once the pack is durable. If a write of it fails, the latter is never called.

use super::Segments;
use crate::F2fs;
use crate::ops::Freeze;
use crate::options::MountOptions;
use block::{Plug, Queue};
use fscore::FsResult;
use ondisk::f2fs::{AllocType, Checkpoint, Geometry, Log, SegNo, SitEntry, SummaryBlock};
use std::sync::Arc;

/// A log as a checkpoint sees it.
#[derive(Clone, Debug)]
pub(crate) struct OpenLog {
    /// Which.
    pub log: Log,
    /// Its segment.
    pub segno: SegNo,
    /// The next block it takes, counted in the segment, below 512.
    pub next: u16,
    /// How it takes blocks.
    pub alloc: AllocType,
    /// Owners of the blocks of its segment; the journal in it means nothing.
    pub owners: SummaryBlock,
}

/// What the checkpoint that is mounted says of segments.
pub(crate) struct SegsOnDisk<'a> {
    /// Counts and the version bitmap of the SIT; its numbers are checked ([`Checkpoint::check`]).
    pub cp: &'a Checkpoint,
    /// Entries that count more than those in the SIT. Segment numbers are not checked.
    pub sit_journal: Vec<(SegNo, SitEntry)>,
    /// The six logs, in the order of [`Log::ALL`].
    pub logs: Vec<OpenLog>,
}

/// What a checkpoint writes down of segments.
pub(crate) struct SegsToWrite {
    /// The version bitmap of the SIT, with the blocks turned that were put into the plug.
    pub sit_bitmap: Vec<u8>,
    /// At most 6 entries for the SIT journal.
    pub sit_journal: Vec<(SegNo, SitEntry)>,
    /// The six logs, in the order of [`Log::ALL`].
    pub logs: Vec<OpenLog>,
    /// Segments that are free once the checkpoint is durable: without a valid block, and no log's.
    pub free_segments: u32,
}

impl Segments {
    /// The table of the volume: reads the SIT copies that the bitmap names, applies the journal.
    ///
    /// # Errors
    /// I/O; damage: an entry that contradicts itself, a log in a segment that another one has.
    pub fn load(
        queue: &Arc<Queue>,
        geo: &Geometry,
        options: &MountOptions,
        from: SegsOnDisk<'_>,
    ) -> FsResult<Segments> {
        let _ = (queue, geo, options, from);
        todo!("seg")
    }

    /// True if something of it differs from the last checkpoint.
    pub fn is_dirty(&self) -> bool {
        todo!("seg")
    }

    /// Blocks allocated since the last checkpoint (Linux `alloc_valid_block_count`).
    pub fn allocated(&self) -> u64 {
        todo!("seg")
    }
}

impl F2fs {
    /// Puts into `plug` what a checkpoint writes of the segments: SIT blocks into their other copies (what does not fit into the
    /// journal), summaries of segments that were closed.
    ///
    /// # Errors
    /// I/O of blocks that have to be read for it.
    pub(crate) fn flush_segs(&self, freeze: &Freeze<'_>, plug: &mut Plug) -> FsResult<SegsToWrite> {
        let _ = (freeze, plug);
        todo!("seg")
    }

    /// The checkpoint is durable: segments that it freed may be taken, blocks freed before it may be reused.
    pub(crate) fn segs_committed(&self, freeze: &Freeze<'_>) {
        let _ = freeze;
        todo!("seg")
    }

    /// Discards what checkpoints freed (with the option `discard`). Under no lock; not under a freeze.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn discard_freed(&self) -> FsResult<()> {
        todo!("seg")
    }

    /// Discards free runs of at least `min` blocks in the blocks `from..to` of the volume (FITRIM), right after a checkpoint; answers
    /// how many blocks. Under no lock.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn discard_free(&self, from: u64, to: u64, min: u32) -> FsResult<u64> {
        let _ = (from, to, min);
        todo!("seg")
    }
}
