//! One bit for each of the 512 blocks of a segment.

use ondisk::f2fs::{BLOCKS_PER_SEG, VALID_MAP_BYTES};

const WORDS: usize = VALID_MAP_BYTES / 8;

/// A map of a segment's blocks; block 0 is the highest bit of the first word, as in the SIT.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct BlockMap([u64; WORDS]);

impl BlockMap {
    /// From the bytes of a SIT entry.
    pub fn from_bytes(bytes: &[u8; VALID_MAP_BYTES]) -> BlockMap {
        let (words, _) = bytes.as_chunks::<8>();
        let mut map = BlockMap::default();
        for (word, raw) in map.0.iter_mut().zip(words) {
            *word = u64::from_be_bytes(*raw);
        }
        map
    }

    /// The bytes of a SIT entry.
    pub fn to_bytes(self) -> [u8; VALID_MAP_BYTES] {
        let mut bytes = [0; VALID_MAP_BYTES];
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (raw, word) in words.iter_mut().zip(self.0) {
            *raw = word.to_be_bytes();
        }
        bytes
    }

    /// Bit `i`.
    pub fn has(&self, i: u32) -> bool {
        self.0[(i / 64) as usize] & mask(i) != 0
    }

    /// Sets bit `i`; says what it was.
    pub fn set(&mut self, i: u32) -> bool {
        let word = &mut self.0[(i / 64) as usize];
        let was = *word & mask(i) != 0;
        *word |= mask(i);
        was
    }

    /// Clears bit `i`; says what it was.
    pub fn clear(&mut self, i: u32) -> bool {
        let word = &mut self.0[(i / 64) as usize];
        let was = *word & mask(i) != 0;
        *word &= !mask(i);
        was
    }

    /// Bits that are set.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }

    /// The first bit from `from` on that is clear.
    pub fn next_clear(&self, from: u32) -> Option<u32> {
        self.inverted().next_set(from)
    }

    /// The first bit from `from` on that is set.
    pub fn next_set(&self, from: u32) -> Option<u32> {
        if from >= BLOCKS_PER_SEG {
            return None;
        }
        let at = (from / 64) as usize;
        let head = self.0[at] & (u64::MAX >> (from % 64));
        if head != 0 {
            return Some(at as u32 * 64 + head.leading_zeros());
        }
        let next = (at + 1..WORDS).find(|&i| self.0[i] != 0)?;
        Some(next as u32 * 64 + self.0[next].leading_zeros())
    }

    /// Sets the bits that `other` has.
    pub fn add(&mut self, other: &BlockMap) {
        for (word, theirs) in self.0.iter_mut().zip(other.0) {
            *word |= theirs;
        }
    }

    /// Bits of this map that `other` has not.
    pub fn without(&self, other: &BlockMap) -> BlockMap {
        let mut map = *self;
        for (word, theirs) in map.0.iter_mut().zip(other.0) {
            *word &= !theirs;
        }
        map
    }

    /// Clear bits as set ones.
    pub fn inverted(&self) -> BlockMap {
        BlockMap(self.0.map(|w| !w))
    }

    /// Runs of neighbouring set bits: first and length.
    pub fn runs(self) -> impl Iterator<Item = (u32, u32)> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let first = self.next_set(from)?;
            from = self.next_clear(first).unwrap_or(BLOCKS_PER_SEG);
            Some((first, from - first))
        })
    }

    /// Numbers of the set bits.
    pub fn ones(self) -> impl Iterator<Item = u32> {
        self.runs().flat_map(|(first, len)| first..first + len)
    }
}

fn mask(i: u32) -> u64 {
    1 << (63 - i % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::f2fs::bits;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_the_sit_counts(bytes in proptest::collection::vec(any::<u8>(), VALID_MAP_BYTES), from in 0u32..512) {
            let bytes: [u8; VALID_MAP_BYTES] = bytes.try_into().expect("64");
            let map = BlockMap::from_bytes(&bytes);
            prop_assert_eq!(map.to_bytes(), bytes);
            prop_assert_eq!(map.count(), bits::count_bits(&bytes));
            let bit = |i: &u32| bits::test_bit(&bytes, *i as usize);
            prop_assert!((0..512).all(|i| map.has(i) == bit(&i)));
            prop_assert_eq!(map.next_set(from), (from..512).find(bit));
            prop_assert_eq!(map.next_clear(from), (from..512).find(|i| !bit(i)));
            prop_assert_eq!(map.ones().collect::<Vec<_>>(), (0..512).filter(bit).collect::<Vec<_>>());
        }
    }

    #[test]
    fn runs_of_the_ends() {
        let mut map = BlockMap::default();
        assert_eq!(map.runs().count(), 0);
        assert_eq!(map.next_clear(512), None);
        assert!(!map.set(0) && !map.set(1) && !map.set(511) && map.set(511));
        assert_eq!(map.runs().collect::<Vec<_>>(), [(0, 2), (511, 1)]);
        assert_eq!(map.inverted().runs().collect::<Vec<_>>(), [(2, 509)]);
        assert!(map.clear(511) && !map.clear(511));
        let all = BlockMap::default().inverted();
        assert_eq!((all.count(), all.runs().next()), (512, Some((0, 512))));
        assert_eq!(all.without(&map).count(), 510);
    }
}
