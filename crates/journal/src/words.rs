//! A set of the 8-byte words of a block. The words of the first 4 KiB are 512 bits, one cache line,
//! which is all that most volumes need. Those of a larger block have memory of their own, from the
//! first store on that touches one of them.

use base::{BLOCK_BYTES, BlockSize};
use std::ops::Range;

/// Bytes of one word.
pub(crate) const WORD_BYTES: usize = 8;
const WORDS: usize = BLOCK_BYTES / WORD_BYTES;
const LANES: usize = WORDS / 64;
/// Lanes of the largest block beyond its first 4 KiB.
const FAR_LANES: usize = BlockSize::MAX.bytes() / WORD_BYTES / 64 - LANES;

/// A set of words of one block.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum WordMap {
    /// All words of the block, whatever its size.
    All,
    /// These.
    Some {
        /// Of the first 4 KiB.
        near: [u64; LANES],
        /// Beyond, if there is one.
        far: Option<Box<[u64; FAR_LANES]>>,
    },
}

impl Default for WordMap {
    fn default() -> WordMap {
        WordMap::NONE
    }
}

impl WordMap {
    pub const NONE: WordMap = WordMap::Some {
        near: [0; LANES],
        far: None,
    };
    pub const ALL: WordMap = WordMap::All;

    /// Adds every word that a store of `len` bytes at `offset` touches.
    pub fn mark(&mut self, offset: usize, len: usize) {
        let WordMap::Some { near, far } = self else {
            return;
        };
        if len == 0 {
            return;
        }
        for word in offset / WORD_BYTES..=(offset + len - 1) / WORD_BYTES {
            let lane = match word.checked_sub(WORDS) {
                None => &mut near[word / 64],
                Some(beyond) => {
                    let far = far.get_or_insert_with(|| Box::new([0; FAR_LANES]));
                    &mut far[beyond / 64]
                }
            };
            *lane |= 1 << (word % 64);
        }
    }

    /// Adds the words of `other`.
    pub fn add(&mut self, other: &WordMap) {
        let (WordMap::Some { near, far }, WordMap::Some { near: n, far: f }) = (&mut *self, other)
        else {
            *self = WordMap::ALL;
            return;
        };
        join(near, n);
        match (far, f) {
            (_, None) => {}
            (Some(far), Some(more)) => join(&mut far[..], &more[..]),
            (far @ None, Some(more)) => *far = Some(more.clone()),
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
        let (near, far) = match (self, other) {
            (WordMap::All, _) => return true,
            (WordMap::Some { .. }, WordMap::All) => return false,
            (WordMap::Some { near, far }, WordMap::Some { .. }) => (near, far),
        };
        let WordMap::Some { near: n, far: f } = other else {
            return false;
        };
        let none = [0; FAR_LANES];
        let far_of = |far: &Option<Box<[u64; FAR_LANES]>>| far.as_deref().copied().unwrap_or(none);
        within(n, near) && (f.is_none() || within(&far_of(f), &far_of(far)))
    }

    /// The words of a block of `len` bytes, as ranges of bytes, neighbours joined, ascending.
    pub fn runs(&self, len: usize) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let (near, far) = match self {
            WordMap::All => {
                runs.push(0..len);
                return runs;
            }
            WordMap::Some { near, far } => (near, far),
        };
        let beyond = far.iter().flat_map(|far| far.iter());
        let lanes = near.iter().chain(beyond);
        for (n, lane) in lanes.enumerate().take(len.div_ceil(64 * WORD_BYTES)) {
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

/// Adds the words of `more` to those of `lanes`.
fn join(lanes: &mut [u64], more: &[u64]) {
    for (lane, more) in lanes.iter_mut().zip(more) {
        *lane |= more;
    }
}

/// True if each of `words` is one of `lanes`.
fn within(words: &[u64], lanes: &[u64]) -> bool {
    words
        .iter()
        .zip(lanes)
        .all(|(word, lane)| word & !lane == 0)
}

impl std::fmt::Debug for WordMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.runs(BlockSize::MAX.bytes()))
            .finish()
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
    fn words_beyond_4_kib_are_as_exact_as_those_before() {
        let len = BlockSize::MAX.bytes();
        let near = {
            let mut map = WordMap::NONE;
            map.mark(4090, 2);
            map
        };
        let mut map = near.clone();
        map.mark(4095, 2);
        map.mark(len - 1, 1);
        assert_eq!(map.runs(len), [4088..4104, len - 8..len]);
        assert_eq!(map.runs(4096).last(), Some(&(4088..4096)));
        assert!(map.covers(&near) && !near.covers(&map) && !near.covers(&WordMap::ALL));
        assert!(WordMap::ALL.covers(&map) && near.clone().union(&map) == map);
        assert_eq!(map.clone().union(&near), map);
        assert_eq!(WordMap::ALL.runs(len).last(), Some(&(0..len)));
        assert_eq!(map.union(&WordMap::ALL), WordMap::ALL);
        let a = vec![0; len];
        let mut b = a.clone();
        b[40_000] = 1;
        let differs = WordMap::difference(&a, &b).runs(len);
        assert_eq!((differs.len(), &differs[0]), (1, &(40_000..40_008)));
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
