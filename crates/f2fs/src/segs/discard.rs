//! Discard of what checkpoints freed, and FITRIM.
//!
//! segs-V8: a task that discards takes the segments out of the logs' reach first, and waits for the
//! device with no lock held.
//!
//! A task of its own discards what checkpoints and applies freed, so that nobody who waits for one
//! of these waits for discards as well (Linux: `issue_discard_thread`). They ring for it, and it
//! sends one round of discards for a ring, many commands at a time. Nothing depends on it: a
//! segment that is to be discarded may be written again before.

use super::map::BlockMap;
use super::table::{Freed, State};
use super::{Inner, Segments};
use crate::bell::LOOK;
use crate::{F2fs, fault};
use base::{BlockNo, SECTORS_PER_BLOCK};
use fscore::FsResult;
use ondisk::f2fs::{BLOCKS_PER_SEG, SegNo};
use std::collections::BTreeMap;

/// The shortest run that is discarded unasked, blocks (Linux `discard_granularity`).
const GRANULARITY: u32 = 16;
/// Segments of one round: that many are out of the logs' reach at once.
const ROUND: usize = 32;

/// What waits to be discarded.
#[derive(Default)]
pub(super) struct Discards {
    pending: BTreeMap<SegNo, BlockMap>,
    under_way: Vec<SegNo>,
}

impl Discards {
    /// Segments that no log may open now.
    pub fn under_way(&self) -> &[SegNo] {
        &self.under_way
    }
    /// A checkpoint freed them.
    pub fn add(&mut self, freed: &[Freed]) {
        for one in freed {
            let blocks = if one.whole {
                BlockMap::default().inverted()
            } else {
                one.blocks
            };
            self.pending.entry(one.seg).or_default().add(&blocks);
        }
    }
    /// The segment is being written again.
    pub fn forget(&mut self, seg: SegNo) {
        self.pending.remove(&seg);
    }
}

impl Inner {
    /// Takes up to a round of segments out of the logs' reach; answers what can be discarded of
    /// them.
    fn begin_discard(
        &mut self,
        reserve: u32,
        mut next: impl FnMut(&mut Inner) -> Option<(SegNo, BlockMap)>,
    ) -> Vec<(SegNo, BlockMap)> {
        let spare = self.table.free().saturating_sub(reserve);
        let mut found = Vec::new();
        let mut free = 0;
        while found.len() < ROUND && free < spare.max(1) {
            let Some((seg, wanted)) = next(self) else {
                break;
            };
            let state = self.table.state(seg);
            let blocks = wanted.without(&self.table.held_map(seg));
            let busy =
                state == State::Open || self.cleaning.contains(&self.table.geo().section(seg));
            if !busy && blocks != BlockMap::default() {
                free += u32::from(state == State::Free);
                self.discards.under_way.push(seg);
                found.push((seg, blocks));
            }
        }
        found
    }
}

impl Segments {
    fn end_discard(&self) {
        self.inner.lock().discards.under_way.clear();
    }
}

impl F2fs {
    /// What is freed is discarded.
    pub(crate) fn discards(&self) -> bool {
        self.options.discard && self.queue.caps().discard
    }

    /// A checkpoint or an apply has freed something: it is to be discarded, by the task if there is
    /// one. Under no lock; not under a freeze.
    pub(crate) fn discard_soon(&self) {
        match () {
            () if !self.discards() => {}
            () if self.has_tasks() => self.ring(&self.segs.discard_bell),
            () => self.discard_freed(),
        }
    }

    /// The task that discards.
    pub(crate) fn discard_task(&self) {
        while self.pause_or(LOOK, &self.segs.discard_bell) {
            self.discard_freed();
        }
    }

    /// Discards a bounded part of what was freed. A discard is a hint, and the checkpoint before it
    /// is durable, so one that fails is no failure of anything.
    fn discard_freed(&self) {
        let _turn = self.segs.discard_turn.lock();
        let found = {
            let mut inner = self.segs.inner.lock();
            inner.begin_discard(self.segs.low(), |inner| inner.discards.pending.pop_first())
        };
        let _ = self.discard_runs(&found, |_| true, GRANULARITY);
        self.segs.end_discard();
    }

    /// Discards free runs of at least `min` blocks in the blocks `from..to` of the volume (FITRIM),
    /// right after a checkpoint; answers how many blocks. Under no lock.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn discard_free(&self, from: u64, to: u64, min: u32) -> FsResult<u64> {
        let mut next = 0;
        let mut blocks = 0;
        while next < self.geo.segments_main {
            let _turn = self.segs.discard_turn.lock();
            let found = {
                let mut inner = self.segs.inner.lock();
                inner.begin_discard(self.segs.low(), |inner| {
                    let seg = SegNo(next);
                    next += 1;
                    (seg.0 < inner.table.geo().segments_main).then(|| {
                        inner.discards.forget(seg);
                        (seg, BlockMap::default().inverted())
                    })
                })
            };
            let result = self.discard_runs(&found, |block| (from..to).contains(&block), min.max(1));
            self.segs.end_discard();
            blocks += result?;
        }
        Ok(blocks)
    }

    /// Discards runs of at least `min` blocks, across the ends of segments; answers how many
    /// blocks.
    fn discard_runs(
        &self,
        found: &[(SegNo, BlockMap)],
        wanted: impl Fn(u64) -> bool,
        min: u32,
    ) -> FsResult<u64> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (seg, blocks) in found {
            let start = u64::from(self.geo.seg_start(*seg));
            for (first, len) in blocks.runs() {
                let (first, end) = (start + u64::from(first), start + u64::from(first + len));
                let first = (first..end).find(|&block| wanted(block)).unwrap_or(end);
                let end = (first..end).find(|&block| !wanted(block)).unwrap_or(end);
                match runs.last_mut() {
                    Some((_, last)) if *last == first => *last = end,
                    _ => runs.push((first, end)),
                }
            }
        }
        runs.retain(|(first, end)| end - first >= u64::from(min));
        let sectors = |&(first, end): &(u64, u64)| {
            let count = (end - first) * SECTORS_PER_BLOCK;
            (BlockNo(first).lba(), count)
        };
        let places: Vec<_> = runs.iter().map(sectors).collect();
        for done in self.queue.discard_many(&places) {
            done.map_err(fault::device("discarding"))?;
        }
        Ok(runs.iter().map(|(first, end)| end - first).sum())
    }
}

const _: () = assert!(GRANULARITY < BLOCKS_PER_SEG);
