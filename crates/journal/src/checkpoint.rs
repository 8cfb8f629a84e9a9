//! The finished transactions whose images are not all home, oldest first.
//!
//! - C1: a block waits in the list of the *newest* finished transaction that logged it (JBD2's re-file rule; right because
//!   every image is full).
//! - C2: the tail of the log may move to the oldest transaction that still waits for a block, not beyond (H2), and only
//!   after a device flush that started when all earlier blocks were home.

use crate::ring::LogPos;
use base::{BlockNo, Tid};
use std::collections::{BTreeSet, VecDeque};

struct Finished {
    tid: Tid,
    start: LogPos,
    waiting: BTreeSet<BlockNo>,
}

/// The list.
#[derive(Default)]
pub(crate) struct CheckpointList {
    finished: VecDeque<Finished>,
}

impl CheckpointList {
    /// Adds the newest transaction.
    pub fn push(&mut self, tid: Tid, start: LogPos, waiting: BTreeSet<BlockNo>) {
        self.finished.push_back(Finished {
            tid,
            start,
            waiting,
        });
        self.trim();
    }

    /// A block of transaction `tid` is home, was logged again, or was freed.
    pub fn done(&mut self, tid: Tid, block: BlockNo) {
        if let Some(f) = self.finished.iter_mut().find(|f| f.tid == tid) {
            f.waiting.remove(&block);
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.finished.front().is_some_and(|f| f.waiting.is_empty()) {
            self.finished.pop_front();
        }
    }

    /// Transaction and position of the oldest one that waits: where the tail may go (C2).
    pub fn oldest(&self) -> Option<(Tid, LogPos)> {
        self.finished.front().map(|f| (f.tid, f.start))
    }

    /// The blocks of the oldest transactions: as many as it takes to bring the tail to `upto`.
    pub fn blocks_before(&self, upto: LogPos) -> Vec<BlockNo> {
        let old = self.finished.iter().take_while(|f| f.start < upto);
        let blocks: BTreeSet<BlockNo> = old.flat_map(|f| f.waiting.iter().copied()).collect();
        blocks.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(blocks: &[u64]) -> BTreeSet<BlockNo> {
        blocks.iter().map(|&b| BlockNo(b)).collect()
    }

    #[test]
    fn tail_waits_for_the_oldest_block() {
        let mut list = CheckpointList::default();
        list.push(Tid(1), LogPos(0), set(&[10, 11]));
        list.push(Tid(2), LogPos(4), set(&[12]));
        list.done(Tid(2), BlockNo(12));
        assert_eq!(list.oldest(), Some((Tid(1), LogPos(0))));
        list.done(Tid(1), BlockNo(10));
        assert_eq!(list.blocks_before(LogPos(1)), [BlockNo(11)]);
        list.done(Tid(1), BlockNo(11));
        assert_eq!(list.oldest(), None);
    }
}
