//! A set of the 8-byte words of a block: 512 bits, one cache line. A block smaller than 4 KiB uses
//! the first bits of them.

use base::BLOCK_BYTES;
use std::ops::Range;

/// Bytes of one word.
pub(crate) const WORD_BYTES: usize = 8;
const WORDS: usize = BLOCK_BYTES / WORD_BYTES;
const LANES: usize = WORDS / 64;

/// A set of words of one block.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WordMap([u64; LANES]);

impl WordMap {
    pub const NONE: WordMap = WordMap([0; LANES]);
    pub const ALL: WordMap = WordMap([u64::MAX; LANES]);

    /// Adds every word that a store of `len` bytes at `offset` touches.
    pub fn mark(&mut self, offset: usize, len: usize) {
        if len == 0 {
            return;
        }
        for word in offset / WORD_BYTES..=(offset + len - 1) / WORD_BYTES {
            self.0[word / 64] |= 1 << (word % 64);
        }
    }

    /// Adds the words of `other`.
    pub fn add(&mut self, other: &WordMap) {
        for (lane, more) in self.0.iter_mut().zip(other.0) {
            *lane |= more;
        }
    }

    /// The words that are in either set.
    pub fn union(mut self, other: &WordMap) -> WordMap {
        self.add(other);
        self
    }

    pub fn is_empty(&self) -> bool {
        *self == WordMap::NONE
    }

    /// True if every word of `other` is one of these.
    pub fn covers(&self, other: &WordMap) -> bool {
        self.0.iter().zip(other.0).all(|(lane, o)| o & !lane == 0)
    }

    /// The words of a block of `len` bytes, as ranges of bytes, neighbours joined, ascending.
    pub fn runs(&self, len: usize) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (n, lane) in self
            .0
            .iter()
            .enumerate()
            .take(len.div_ceil(64 * WORD_BYTES))
        {
            let mut rest = *lane;
            while rest != 0 {
                let word = n * 64 + rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let at = word * WORD_BYTES;
                match runs.last_mut() {
                    Some(last) if last.end == at => last.end += WORD_BYTES,
                    _ => runs.push(at..at + WORD_BYTES),
                }
            }
        }
        runs
    }

    /// The words in which two blocks differ.
    pub fn difference(a: &[u8], b: &[u8]) -> WordMap {
        let mut map = WordMap::NONE;
        for word in 0..a.len() / WORD_BYTES {
            let at = word * WORD_BYTES;
            if a[at..at + WORD_BYTES] != b[at..at + WORD_BYTES] {
                map.mark(at, 1);
            }
        }
        map
    }
}

impl std::fmt::Debug for WordMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.runs(BLOCK_BYTES)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_touched_words() {
        let mut map = WordMap::NONE;
        map.mark(7, 2);
        map.mark(100, 0);
        map.mark(4095, 1);
        assert_eq!(map.runs(BLOCK_BYTES), [0..16, 4088..4096]);
        assert!(WordMap::ALL.covers(&map) && !map.covers(&WordMap::ALL));
        assert_eq!(WordMap::ALL.runs(BLOCK_BYTES).first(), Some(&(0..4096)));
        assert_eq!(WordMap::ALL.runs(1024).last(), Some(&(0..1024)));
        assert!(!map.is_empty() && WordMap::NONE.is_empty());
    }

    #[test]
    fn difference_is_what_differs() {
        let a = vec![0; BLOCK_BYTES];
        let mut b = a.clone();
        b[1000] = 1;
        b[1008] = 2;
        let runs = WordMap::difference(&a, &b).runs(BLOCK_BYTES);
        assert_eq!((runs.len(), &runs[0]), (1, &(1000..1016)));
        assert!(WordMap::difference(&a, &a).is_empty());
    }
}
