//! A sparse vector that forks in constant time: chunks behind reference counts, copied when they
//! are written while shared.
//!
//! Memory is that of the items that were ever set; a fork costs memory only for what changes after
//! it. The hash of a chunk is kept until the chunk is written, so hashing again costs only what
//! changed.

use crate::collections::mix;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A 64-bit digest of a value's content. The default value of the [`CowVec`] it lives in must have
/// fingerprint 0.
pub trait Fingerprint {
    /// The digest.
    fn fingerprint(&self) -> u64;
}

struct Chunk<T> {
    items: Vec<T>,
    /// Hash of `items`; 0: not known.
    hash: AtomicU64,
}

impl<T: Clone> Clone for Chunk<T> {
    fn clone(&self) -> Self {
        Chunk {
            items: self.items.clone(),
            hash: AtomicU64::new(0),
        }
    }
}

/// A vector of fixed length whose items are a default value until set. `N` items per chunk.
#[derive(Clone)]
pub struct CowVec<T, const N: usize> {
    root: Arc<Vec<Option<Arc<Chunk<T>>>>>,
    default: T,
    len: usize,
}

impl<T: Clone, const N: usize> CowVec<T, N> {
    /// `len` items equal to `default`; allocates one pointer per `N` items.
    pub fn new(len: usize, default: T) -> Self {
        CowVec {
            root: Arc::new(vec![None; len.div_ceil(N)]),
            default,
            len,
        }
    }
    /// Number of items.
    pub fn len(&self) -> usize {
        self.len
    }
    /// True if there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The item at `index`.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[inline]
    pub fn get(&self, index: usize) -> &T {
        assert!(index < self.len, "index {index} of {}", self.len);
        match &self.root[index / N] {
            Some(chunk) => &chunk.items[index % N],
            None => &self.default,
        }
    }
    /// The item at `index`, to be changed; copies its chunk if a fork shares it.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> &mut T {
        assert!(index < self.len, "index {index} of {}", self.len);
        let default = &self.default;
        let slot = &mut Arc::make_mut(&mut self.root)[index / N];
        let chunk = slot.get_or_insert_with(|| {
            Arc::new(Chunk {
                items: vec![default.clone(); N],
                hash: AtomicU64::new(0),
            })
        });
        let chunk = Arc::make_mut(chunk);
        *chunk.hash.get_mut() = 0;
        &mut chunk.items[index % N]
    }
    /// Sets the item at `index`.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[inline]
    pub fn set(&mut self, index: usize, value: T) {
        *self.get_mut(index) = value;
    }
    /// The items of all chunks that were ever written, with their indices, in order. Items never
    /// written are skipped.
    pub fn iter_present(&self) -> impl Iterator<Item = (usize, &T)> {
        let len = self.len;
        self.root
            .iter()
            .enumerate()
            .filter_map(|(c, chunk)| chunk.as_ref().map(|chunk| (c, chunk)))
            .flat_map(|(c, chunk)| {
                chunk
                    .items
                    .iter()
                    .enumerate()
                    .map(move |(i, x)| (c * N + i, x))
            })
            .filter(move |(i, _)| *i < len)
    }
}

impl<T: Clone + Fingerprint, const N: usize> CowVec<T, N> {
    /// A digest of the whole content; equal contents give equal digests, whatever their history.
    pub fn content_hash(&self) -> u64 {
        let chunks = self.root.iter().enumerate();
        let sum = chunks.fold(0u64, |sum, (c, chunk)| match chunk {
            None => sum,
            Some(chunk) => match chunk_hash(chunk) {
                0 => sum,
                h => sum.wrapping_add(mix(h ^ mix(c as u64 + 1))),
            },
        });
        mix(sum ^ self.len as u64)
    }
}

/// The hash of one chunk; 0 if every item is the default value.
fn chunk_hash<T: Fingerprint>(chunk: &Chunk<T>) -> u64 {
    /// Stands for "known to be all default" in the cache, where 0 means unknown.
    const ALL_DEFAULT: u64 = u64::MAX;
    let known = chunk.hash.load(Ordering::Relaxed);
    if known != 0 {
        return if known == ALL_DEFAULT { 0 } else { known };
    }
    let sum =
        chunk
            .items
            .iter()
            .enumerate()
            .fold(0u64, |sum, (i, item)| match item.fingerprint() {
                0 => sum,
                f => sum.wrapping_add(mix(f ^ mix(i as u64 + 1))),
            });
    chunk
        .hash
        .store(if sum == 0 { ALL_DEFAULT } else { sum }, Ordering::Relaxed);
    sum
}

impl Fingerprint for bytes::Bytes {
    /// 0 for all-zero content (the default of block-addressed media).
    fn fingerprint(&self) -> u64 {
        crate::fill::fingerprint(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Fingerprint for u32 {
        fn fingerprint(&self) -> u64 {
            u64::from(*self)
        }
    }

    #[test]
    fn a_fork_does_not_see_later_writes() {
        let mut a: CowVec<u32, 8> = CowVec::new(100, 0);
        a.set(50, 7);
        let mut b = a.clone();
        b.set(50, 8);
        a.set(99, 1);
        assert_eq!(
            (*a.get(50), *b.get(50), *a.get(99), *b.get(99)),
            (7, 8, 1, 0)
        );
        assert_eq!(a.iter_present().filter(|(_, v)| **v != 0).count(), 2);
    }

    #[test]
    fn hash_is_of_content_not_of_history() {
        let mut a: CowVec<u32, 8> = CowVec::new(100, 0);
        let blank = a.content_hash();
        a.set(3, 9);
        let nine = a.content_hash();
        assert_ne!(blank, nine);
        a.set(77, 1);
        a.set(77, 0);
        assert_eq!(a.content_hash(), nine);
        a.set(3, 0);
        a.set(4, 9);
        assert_ne!(a.content_hash(), nine, "position counts");
        a.set(4, 0);
        assert_eq!(a.content_hash(), blank);
    }

    #[test]
    #[should_panic(expected = "index 100 of 100")]
    fn out_of_range_is_refused() {
        CowVec::<u32, 64>::new(100, 0).set(100, 1);
    }
}
