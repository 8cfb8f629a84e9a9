//! Free node numbers: found by searching the NAT block by block, and kept as a bitmap for each
//! block that was searched.
//!
//! A number is in the pool if its block was searched, the number was free at the last checkpoint
//! or, with a journal, after the last committed epoch (nat-T2), and no operation has taken it
//! since. Each block is searched once; numbers that a checkpoint or commit frees later in searched
//! blocks are added.

use ondisk::f2fs::{NAT_PER_BLOCK, Nid};
use std::collections::BTreeMap;

const PER_BLOCK: u32 = NAT_PER_BLOCK as u32;
const WORDS: usize = NAT_PER_BLOCK.div_ceil(64);

type Bitmap = [u64; WORDS];

/// The pool.
pub(super) struct FreePool {
    /// Of the searched blocks: which numbers are free.
    searched: BTreeMap<u32, Bitmap>,
    /// Free ones in `searched`.
    free: u64,
    /// Where the last number came from: the next one comes from here or behind.
    hand: u32,
    /// The next block to search.
    next_search: u32,
    blocks: u32,
}

impl FreePool {
    /// Bytes of the maps.
    pub fn memory(&self) -> u64 {
        (self.searched.len() * size_of::<Bitmap>()) as u64
    }

    pub fn new(blocks: u32, next: Nid) -> FreePool {
        let start = next.0 / PER_BLOCK % blocks;
        FreePool {
            searched: BTreeMap::new(),
            free: 0,
            hand: start,
            next_search: start,
            blocks,
        }
    }

    /// Takes a number: the lowest of the current block, else of the next one that has any.
    pub fn take(&mut self) -> Option<Nid> {
        if self.free == 0 {
            return None;
        }
        let some = |(_, map): &(&u32, &mut Bitmap)| map.iter().any(|&w| w != 0);
        let hand = self.hand;
        let (&block, map) = match self.searched.range_mut(hand..).find(some) {
            Some(found) => found,
            None => self.searched.range_mut(..hand).find(some)?,
        };
        let word = map.iter().position(|&w| w != 0)?;
        let bit = map[word].trailing_zeros();
        map[word] &= map[word] - 1;
        self.free -= 1;
        self.hand = block;
        Some(Nid(block * PER_BLOCK + word as u32 * 64 + bit))
    }

    /// Blocks to search next, at most `most`; none if all were.
    pub fn to_search(&self, most: u32) -> Vec<u32> {
        let open = self.unsearched();
        let turn = (0..self.blocks).map(|n| (self.next_search + n) % self.blocks);
        turn.filter(|b| !self.searched.contains_key(b))
            .take(most.min(open) as usize)
            .collect()
    }

    /// `found` are the free entries of `block`.
    pub fn searched(&mut self, block: u32, found: &[u32]) {
        let mut map = [0; WORDS];
        for &index in found {
            map[index as usize / 64] |= 1 << (index % 64);
        }
        self.free += found.len() as u64;
        let before = self.searched.insert(block, map);
        assert!(before.is_none(), "nat-T2: NAT block {block} searched twice");
        self.next_search = (block + 1) % self.blocks;
    }

    /// A number is free again: it was taken and not used, or a checkpoint has made its freeing
    /// durable.
    pub fn give_back(&mut self, nid: Nid) {
        self.free += u64::from(self.turn(nid, true));
    }

    /// A number is in use, whether it was given out here or not (roll-forward takes numbers without
    /// asking).
    pub fn used(&mut self, nid: Nid) {
        self.free -= u64::from(self.turn(nid, false));
    }

    /// True if the number can be handed out.
    #[cfg(test)]
    pub fn is_free(&self, nid: Nid) -> bool {
        let map = self.searched.get(&(nid.0 / PER_BLOCK));
        let index = nid.0 % PER_BLOCK;
        map.is_some_and(|map| map[index as usize / 64] & 1 << (index % 64) != 0)
    }

    /// True if the block was searched.
    pub fn has_searched(&self, block: u32) -> bool {
        self.searched.contains_key(&block)
    }

    /// Sets the bit of a number in a searched block; true if it was another one.
    fn turn(&mut self, nid: Nid, free: bool) -> bool {
        let (index, block) = (nid.0 % PER_BLOCK, nid.0 / PER_BLOCK);
        let Some(map) = self.searched.get_mut(&block) else {
            return false;
        };
        let (word, mask) = (&mut map[index as usize / 64], 1u64 << (index % 64));
        let was = *word & mask != 0;
        *word = if free { *word | mask } else { *word & !mask };
        was != free
    }

    /// Blocks that were not searched.
    pub fn unsearched(&self) -> u32 {
        self.blocks - self.searched.len() as u32
    }

    /// True if none is left, and none to be found.
    pub fn is_exhausted(&self) -> bool {
        self.free == 0 && self.unsearched() == 0
    }

    /// True if fewer numbers are left than this number of blocks holds, and a search could find
    /// more.
    pub fn is_low(&self, blocks: u32) -> bool {
        self.free < u64::from(blocks * PER_BLOCK) && self.unsearched() > 0
    }

    /// A number near which the next mount will find free ones.
    pub fn next(&self) -> Nid {
        match self.free {
            0 => Nid(self.next_search * PER_BLOCK),
            _ => Nid(self.hand * PER_BLOCK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_handed_out_once() {
        let mut pool = FreePool::new(3, Nid(PER_BLOCK + 7));
        assert_eq!(
            pool.to_search(2),
            [1, 2],
            "begins where the checkpoint says"
        );
        pool.searched(1, &[0, 64, 454]);
        pool.searched(2, &[]);
        let first = pool.take();
        assert_eq!(first, Some(Nid(PER_BLOCK)));
        pool.used(Nid(PER_BLOCK + 64));
        assert_eq!(pool.take(), Some(Nid(PER_BLOCK + 454)));
        assert_eq!(pool.take(), None);
        assert!(!pool.is_exhausted(), "block 0 was not searched");
        assert_eq!(pool.to_search(8), [0]);
        pool.searched(0, &[5]);
        pool.give_back(Nid(PER_BLOCK + 1));
        assert_eq!(pool.take(), Some(Nid(PER_BLOCK + 1)), "near the last one");
        assert_eq!(pool.take(), Some(Nid(5)), "then around");
        assert!(pool.is_exhausted() && pool.to_search(8).is_empty());
        pool.give_back(Nid(5));
        pool.give_back(Nid(5));
        assert_eq!(
            (pool.free, pool.take(), pool.take()),
            (1, Some(Nid(5)), None)
        );
    }
}
