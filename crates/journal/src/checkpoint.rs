//! The finished transactions from the oldest one on of which an image is not home.
//!
//! - C1: a block waits in the list of the oldest finished transaction of which recovery needs a
//!   record of that block (`rec`, track-D3). Where every record is a full image, this is the
//!   *newest* transaction that logged the block, as in JBD2.
//! - C2: the tail of the log may move up to the oldest transaction that still waits for a block and
//!   not beyond (hazards-H2), and only when the home writes before it are durable (home-M2).

use crate::ring::LogPos;
use base::{BlockNo, Tid};
use std::collections::{BTreeSet, VecDeque};

struct Finished {
    tid: Tid,
    start: LogPos,
    waiting: BTreeSet<BlockNo>,
}

/// The checkpoint list: for each finished transaction the blocks that wait in it.
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

    /// Numbers are consecutive, so the place of a transaction follows from the oldest one.
    fn place(&self, tid: Tid) -> usize {
        let oldest = self.finished.front().map_or(tid, |f| f.tid);
        let place = tid.0.wrapping_sub(oldest.0) as usize;
        assert!(
            self.finished.get(place).is_some_and(|f| f.tid == tid),
            "C1: a block waits in the list of a transaction that is still listed, not of {tid}"
        );
        place
    }

    fn find(&mut self, tid: Tid) -> &mut Finished {
        let place = self.place(tid);
        &mut self.finished[place]
    }

    /// Where a listed transaction begins.
    pub fn start_of(&self, tid: Tid) -> LogPos {
        self.finished[self.place(tid)].start
    }

    /// A block of transaction `tid` is home, moves elsewhere, or was freed.
    pub fn leave(&mut self, tid: Tid, block: BlockNo) {
        let waited = self.find(tid).waiting.remove(&block);
        assert!(waited, "C1: block {block} waits for transaction {tid}");
        self.trim();
    }

    /// Moves a block from the list of `from` to that of `to`, which is younger and therefore still
    /// exists.
    pub fn refile(&mut self, block: BlockNo, from: Tid, to: Tid) {
        assert!(to.gt(from), "C1: a block moves to a younger transaction");
        self.find(to).waiting.insert(block);
        self.leave(from, block);
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
        list.leave(Tid(2), BlockNo(12));
        assert_eq!(list.oldest(), Some((Tid(1), LogPos(0))));
        list.leave(Tid(1), BlockNo(10));
        assert_eq!(list.blocks_before(LogPos(1)), [BlockNo(11)]);
        list.leave(Tid(1), BlockNo(11));
        assert_eq!(list.oldest(), None);
    }

    #[test]
    fn block_moves_to_a_younger_transaction() {
        let mut list = CheckpointList::default();
        list.push(Tid(u32::MAX), LogPos(0), set(&[10]));
        list.push(Tid(0), LogPos(4), set(&[]));
        list.push(Tid(1), LogPos(8), set(&[]));
        list.refile(BlockNo(10), Tid(u32::MAX), Tid(1));
        assert_eq!(list.oldest(), Some((Tid(1), LogPos(8))));
    }
}
