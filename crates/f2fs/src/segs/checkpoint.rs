//! The interface between segments and checkpoints: what a mount loads into the table, and what a
//! checkpoint takes from it.
//!
//! Order of a checkpoint, all under its freeze: [`flush`](Segments::flush) after the last block was
//! allocated, the pack, then [`committed`](Segments::committed) once the pack is durable. If a
//! write of it fails, the latter is never called.

use super::discard::Discards;
use super::load::{self, OpenLog, SegsOnDisk};
use super::{Clock, Inner, Segments};
use crate::bell::Bell;
use crate::options::MountOptions;
use base::{BLOCK_BYTES, BlockNo, Bytes, Lba};
use block::{Class, Plug, Queue};
use fscore::FsResult;
use ondisk::f2fs::{
    BlockAddr, CpFlags, Geometry, SIT_JOURNAL_MAX, SIT_PER_BLOCK, SegNo, SitEntry, bits,
};
use rt::Mutex;
use rt::atomic::AtomicU32;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a checkpoint writes down of segments.
pub(crate) struct SegsToWrite {
    /// The version bitmap of the SIT, with the blocks turned that were put into the plug.
    pub sit_bitmap: Vec<u8>,
    /// At most 6 entries for the SIT journal.
    pub sit_journal: Vec<(SegNo, SitEntry)>,
    /// The six logs, in the order of [`Log::ALL`](ondisk::f2fs::Log::ALL).
    pub logs: Vec<OpenLog>,
    /// Segments that are free once the checkpoint is durable: those without a valid block that no
    /// log writes.
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
        let mut table = load::table(queue, geo, &from)?;
        load::check_totals(&table, from.cp)?;
        let logs = load::logs(&mut table, from.logs)?;
        let inner = Inner {
            table,
            logs,
            closed: BTreeMap::new(),
            sit_bitmap: from.cp.sit_bitmap().to_vec(),
            journal: from.sit_journal.iter().map(|&(seg, _)| seg).collect(),
            node_holes: from.cp.flags().has(CpFlags::CRC_RECOVERY),
            cleaning: Vec::new(),
            cursor: SegNo(0),
            victim_cursor: 0,
            discards: Discards::default(),
            home: None,
        };
        Ok(Segments {
            inner: Mutex::named("f2fs segments", inner),
            pressure: AtomicU32::new(0),
            reserved_sections: from.cp.reserved_segments() / geo.segs_per_sec,
            lfs: options.lfs,
            clock: Clock {
                before: from.cp.elapsed_time(),
                mounted: rt::now(),
            },
            discard_bell: Bell::new(),
            discard_turn: Mutex::named("f2fs discards", ()),
            queue: queue.clone(),
            geo: *geo,
        })
    }

    /// True if something of it differs from the last checkpoint.
    pub fn is_dirty(&self) -> bool {
        !self.inner.lock().table.touched().is_empty()
    }

    /// Blocks allocated since the last checkpoint (Linux `alloc_valid_block_count`).
    pub fn allocated(&self) -> u64 {
        self.inner.lock().table.allocated()
    }

    /// Puts into `plug` what a checkpoint writes of the segments: SIT blocks into their other
    /// copies (what does not fit into the journal), summaries of segments that were closed. The
    /// caller holds a freeze.
    pub fn flush(&self, plug: &mut Plug) -> SegsToWrite {
        let inner = &mut *self.inner.lock();
        // segs-V6: before the pack.
        for (&segno, summary) in &inner.closed {
            let bytes = Bytes::copy_from_slice(summary.bytes());
            plug.write(lba(self.geo.ssa_block(segno)), Class::Ssa, bytes);
        }
        let (journal, blocks) = share_out(&self.geo, inner.table.touched(), &inner.journal);
        for block in blocks {
            let bytes = sit_block(&self.geo, block, |seg| inner.table.entry(seg));
            put_sit(&self.geo, &mut inner.sit_bitmap, block, bytes, plug);
        }
        let entry = |&seg: &SegNo| (seg, inner.table.entry(seg));
        let sit_journal = journal.iter().map(entry).collect();
        inner.journal = journal;
        SegsToWrite {
            sit_bitmap: inner.sit_bitmap.clone(),
            sit_journal,
            logs: inner.logs.clone(),
            free_segments: inner.table.free() + inner.table.prefree(),
        }
    }

    /// The checkpoint is durable: segments that it freed may be taken, blocks freed before it may
    /// be reused. The caller holds its freeze.
    pub fn committed(&self, discard: bool) {
        let inner = &mut *self.inner.lock();
        let freed = inner.table.committed();
        inner.closed.clear();
        inner.node_holes = true;
        inner.all_is_home();
        if discard && self.queue.caps().discard {
            inner.discards.add(&freed);
        }
    }

    /// F2FSJ: a pack is durable in which these blocks are free (f2fs-journal-I6): they may be
    /// reused, and discarded. Blocks that are valid again stay.
    ///
    /// # Panics
    /// If one is not in the main area.
    pub fn release(&self, blocks: &[BlockAddr], discard: bool) {
        let inner = &mut *self.inner.lock();
        let freed = inner.table.released(blocks);
        if discard && self.queue.caps().discard {
            inner.discards.add(&freed);
        }
    }
}

/// The first sector of a block of the volume.
pub(crate) fn lba(addr: BlockAddr) -> Lba {
    BlockNo(addr.into()).lba()
}

/// Which entries a checkpoint puts into the journal, and which SIT blocks it writes: what has
/// changed since the last one, and what the journal held. Blocks of few entries go to the journal
/// first.
pub(super) fn share_out(
    geo: &Geometry,
    touched: &[SegNo],
    journal: &[SegNo],
) -> (Vec<SegNo>, Vec<u32>) {
    let all: BTreeSet<SegNo> = touched.iter().chain(journal).copied().collect();
    let mut by_block: BTreeMap<u32, Vec<SegNo>> = BTreeMap::new();
    for seg in all {
        by_block.entry(geo.sit_block(seg).0).or_default().push(seg);
    }
    let mut sets: Vec<(u32, Vec<SegNo>)> = by_block.into_iter().collect();
    sets.sort_by_key(|(_, set)| set.len());
    let (mut kept, mut blocks) = (Vec::new(), Vec::new());
    for (block, set) in sets {
        if kept.len() + set.len() <= SIT_JOURNAL_MAX {
            kept.extend(set);
        } else {
            blocks.push(block);
        }
    }
    kept.sort_unstable();
    blocks.sort_unstable();
    (kept, blocks)
}

/// Puts a SIT block into `plug`, over the copy that the last checkpoint does not use (segs-V7).
pub(super) fn put_sit(
    geo: &Geometry,
    bitmap: &mut [u8],
    block: u32,
    bytes: Bytes,
    plug: &mut Plug,
) {
    let second = !bits::test_bit(bitmap, block as usize);
    plug.write(lba(geo.sit_addr(block, second)), Class::Sit, bytes);
    match second {
        true => bits::set_bit(bitmap, block as usize),
        false => bits::clear_bit(bitmap, block as usize),
    };
}

/// A SIT block with these entries.
pub(super) fn sit_block(geo: &Geometry, block: u32, entry: impl Fn(SegNo) -> SitEntry) -> Bytes {
    let mut bytes = vec![0; BLOCK_BYTES];
    let first = block * SIT_PER_BLOCK as u32;
    let end = (first + SIT_PER_BLOCK as u32).min(geo.segments_main);
    for (seg, index) in (first..end).map(SegNo).zip(0..) {
        entry(seg).encode(&mut bytes, index);
    }
    Bytes::from(bytes)
}
