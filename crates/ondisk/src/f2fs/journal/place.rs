//! The place of the journal: its region, and the block of the device for each index of the ring.

use std::ops::Range;

/// Blocks of the region in front of the ring: the two superblocks of the journal.
pub const RING_AT: u32 = 2;
/// Fewest blocks of the region, the two superblocks among them.
pub const RING_MIN_BLOCKS: u32 = 16;

/// The region of a journal, as the F2FS superblock describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalArea {
    /// Its first block on the device: behind the last block of the F2FS.
    pub start: u64,
    /// Its blocks: two superblocks, and the ring.
    pub blocks: u32,
    /// UUID of the journal, repeated in its superblocks.
    pub uuid: [u8; 16],
}

impl JournalArea {
    /// Block of a copy of the journal's superblock: 0 or 1.
    pub const fn super_block(&self, copy: usize) -> u64 {
        self.start + copy as u64
    }
    /// The ring; `None` if the region is too small for one, or ends behind the last possible block.
    pub const fn ring(&self) -> Option<RingArea> {
        let end = self.start.checked_add(self.blocks as u64);
        if self.blocks < RING_MIN_BLOCKS || end.is_none() {
            return None;
        }
        Some(RingArea {
            first: self.start + RING_AT as u64,
            blocks: self.blocks - RING_AT,
        })
    }
}

/// The ring: its last block is followed by its first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingArea {
    /// Its first block on the device.
    pub first: u64,
    /// Its blocks.
    pub blocks: u32,
}

impl RingArea {
    /// The ring index `n` blocks behind `index`.
    ///
    /// # Panics
    /// The ring has no blocks.
    pub const fn step(&self, index: u32, n: u64) -> u32 {
        ((index as u64 + n % self.blocks as u64) % self.blocks as u64) as u32
    }
    /// Blocks from `from` on, up to but without `to`: 0 to one less than the ring has.
    pub const fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from {
            to - from
        } else {
            self.blocks - from + to
        }
    }
    /// Block of the device.
    pub const fn block(&self, index: u32) -> u64 {
        self.first + (index % self.blocks) as u64
    }
    /// The blocks of the device under `n` blocks from `index` on: one run, or two where they go
    /// over the end. No more than the ring has.
    pub fn runs(&self, index: u32, n: u32) -> impl Iterator<Item = Range<u64>> {
        let (index, n) = (index % self.blocks, n.min(self.blocks));
        let straight = n.min(self.blocks - index);
        let run = |from: u32, len: u32| {
            let from = self.first + u64::from(from);
            from..from + u64::from(len)
        };
        let both = [run(index, straight), run(0, n - straight)];
        both.into_iter().filter(|run| !run.is_empty())
    }
    /// Blocks that may be written when `used` of them, from the tail on, are still needed.
    pub const fn free(&self, used: u32) -> u32 {
        self.blocks.saturating_sub(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offset_and_length() {
        let area = JournalArea {
            start: 1000,
            blocks: RING_MIN_BLOCKS,
            uuid: [0; 16],
        };
        assert_eq!((area.super_block(0), area.super_block(1)), (1000, 1001));
        let ring = area.ring().expect("large enough");
        assert_eq!((ring.first, ring.blocks), (1002, 14));
        for index in 0..14 {
            for n in 0..=14 {
                let runs: Vec<Range<u64>> = ring.runs(index, n).collect();
                let flat: Vec<u64> = runs.iter().cloned().flatten().collect();
                let expected: Vec<u64> = (0..n)
                    .map(|k| ring.block(ring.step(index, k.into())))
                    .collect();
                assert_eq!(flat, expected, "{index} {n}");
                assert_eq!(runs.len(), usize::from(n > 0) + usize::from(index + n > 14));
                let to = ring.step(index, n.into());
                assert_eq!(ring.distance(index, to), n % 14);
                assert_eq!(ring.free(n), 14 - n);
            }
        }
        assert_eq!(ring.runs(3, 99).flatten().count(), 14);
        assert_eq!(ring.step(13, u64::MAX), ((13 + u64::MAX % 14) % 14) as u32);
    }

    #[test]
    fn regions_that_cannot_be() {
        let area = |start, blocks| JournalArea {
            start,
            blocks,
            uuid: [0; 16],
        };
        assert_eq!(area(5, 15).ring(), None);
        assert_eq!(area(u64::MAX - 15, 16).ring(), None);
        assert!(area(u64::MAX - 16, 16).ring().is_some());
    }
}
