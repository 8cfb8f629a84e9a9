//! Which blocks of file data the log may still hold, in a file system that writes its other data
//! directly.
//!
//! A block of data that is logged at one time and written home directly at another is in danger:
//! recovery would replay the older image over the newer content (track-D6), and a task that reads
//! home would miss an image that has not got there. So this set holds each logged block for as long
//! as the log may hold its image.
//!
//! - L1: a block is in the set from the moment its data joins a transaction until the superblock on
//!   the medium names a tail after the last transaction that logged it (home-M2: it is home and
//!   durable then, and recovery sees none of its images), or until it is freed, which revokes it.
//! - L2: a task that writes file data first looks its blocks up, under the lock that keeps others
//!   from logging the same file, and logs those that are in the set.
//! - L3: when a block leaves the set, the buffer cache drops its content, because direct writes
//!   will make that content stale.

use base::{BlockNo, Tid};
use std::collections::BTreeMap;

/// The blocks, each with the last transaction that logged it.
#[derive(Default)]
pub(crate) struct LoggedData(BTreeMap<BlockNo, Tid>);

impl LoggedData {
    /// Transaction `tid` has an image of the block.
    pub fn logged(&mut self, block: BlockNo, tid: Tid) {
        self.0.insert(block, tid);
    }

    /// The block was freed.
    pub fn freed(&mut self, block: BlockNo) {
        self.0.remove(&block);
    }

    /// The tail on the medium is transaction `tid`: the blocks that leave (L1).
    pub fn released(&mut self, tid: Tid) -> Vec<BlockNo> {
        let gone = self.0.extract_if(.., |_, last| tid.gt(*last));
        gone.map(|(block, _)| block).collect()
    }

    /// The first run of neighbours in the set, among `len` blocks from `start` on.
    pub fn first_of(&self, start: BlockNo, len: u32) -> Option<(BlockNo, u32)> {
        let mut range = self.0.range(start..start.plus(len.into()));
        let (&first, _) = range.next()?;
        let more = range
            .zip(1..)
            .take_while(|((b, _), n)| **b == first.plus(*n));
        Some((first, 1 + more.count() as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_stays_until_the_tail_has_passed_its_last_image() {
        let mut data = LoggedData::default();
        for (block, tid) in [(10, 1), (11, 1), (13, 2), (11, 3)] {
            data.logged(BlockNo(block), Tid(tid));
        }
        assert_eq!(data.first_of(BlockNo(0), 100), Some((BlockNo(10), 2)));
        assert_eq!(data.first_of(BlockNo(11), 1), Some((BlockNo(11), 1)));
        assert_eq!(data.first_of(BlockNo(12), 1), None);
        assert_eq!(data.released(Tid(1)), []);
        assert_eq!(data.released(Tid(3)), [BlockNo(10), BlockNo(13)]);
        assert_eq!(data.first_of(BlockNo(0), 100), Some((BlockNo(11), 1)));
        data.freed(BlockNo(11));
        assert_eq!(data.first_of(BlockNo(0), 100), None);
    }
}
