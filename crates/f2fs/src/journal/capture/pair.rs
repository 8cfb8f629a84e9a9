//! A block before and after a change, for [`capture`](super): where the two differ.

use ondisk::f2fs::BLOCK_BYTES;
use ondisk::f2fs::journal::attr;
use std::ops::Range;

/// Bytes compared at once: 64 of these are a block.
const CHUNK: usize = 64;
/// Equal bytes between two changed ones that are logged rather than a record of their own.
const GAP: usize = 12;
/// Where the extra attributes of an inode begin.
pub(super) const EXTRA_AT: usize =
    attr::FIELDS[attr::EXTRA_ISIZE.trailing_zeros() as usize].pieces[0].0;
/// Bytes of a directory entry in its array.
pub(super) const ENTRY_BYTES: usize = 11;

/// Chunks of a block, a bit each.
#[derive(Clone, Copy)]
struct Chunks(u64);

impl Chunks {
    /// Those that these bytes lie in.
    fn of(bytes: Range<usize>) -> Chunks {
        if bytes.is_empty() {
            return Chunks(0);
        }
        let (first, last) = (bytes.start / CHUNK, (bytes.end - 1) / CHUNK);
        Chunks(u64::MAX << first & u64::MAX >> (63 - last))
    }

    fn has(self, chunk: usize) -> bool {
        self.0 >> chunk & 1 == 1
    }

    /// One after the other.
    fn each(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let chunk = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(chunk)
        })
    }
}

/// A block before and after, and which chunks of it differ still.
pub(super) struct Pair<'a> {
    pub before: &'a mut [u8],
    pub after: &'a [u8],
    /// Chunks that may differ.
    open: Chunks,
}

impl<'a> Pair<'a> {
    /// `None` if nothing differs.
    pub fn new(before: &'a mut [u8], after: &'a [u8]) -> Option<Pair<'a>> {
        assert!(
            before.len() == BLOCK_BYTES && after.len() == BLOCK_BYTES,
            "whole blocks are compared"
        );
        let (b, a) = (before.as_chunks::<CHUNK>().0, after.as_chunks::<CHUNK>().0);
        let differ = b.iter().zip(a).enumerate();
        let open = differ.fold(0, |open, (n, (b, a))| open | u64::from(b != a) << n);
        (open != 0).then_some(Pair {
            before,
            after,
            open: Chunks(open),
        })
    }

    /// The first byte of `range` that differs. Chunks that are settled are not looked at again.
    pub fn next(&mut self, range: Range<usize>) -> Option<usize> {
        let (b, a) = (
            self.before.as_chunks::<CHUNK>().0,
            self.after.as_chunks::<CHUNK>().0,
        );
        for chunk in Chunks(self.open.0 & Chunks::of(range.clone()).0).each() {
            if b[chunk] == a[chunk] {
                self.open.0 &= !(1 << chunk);
                continue;
            }
            let at = range.start.max(chunk * CHUNK);
            let end = range.end.min((chunk + 1) * CHUNK);
            let (b, a) = (&self.before[at..end], &self.after[at..end]);
            if let Some(n) = b.iter().zip(a).position(|(b, a)| b != a) {
                return Some(at + n);
            }
        }
        None
    }

    /// Something may differ near the byte at `at`.
    pub fn may_differ(&self, at: usize) -> bool {
        self.open.has(at / CHUNK)
    }

    /// The first word of `words` that differs.
    pub fn next_word(&mut self, words: Range<usize>) -> Option<usize> {
        self.next(4 * words.start..4 * words.end).map(|at| at / 4)
    }

    /// `range` is logged, in which something differed.
    pub fn settle(&mut self, range: Range<usize>) {
        self.before[range.clone()].copy_from_slice(&self.after[range]);
    }

    /// Whatever differs in `range`, as bytes.
    pub fn rest(&mut self, range: Range<usize>, mut log: impl FnMut(u16, &[u8])) {
        let mut from = range.start;
        while let Some(start) = self.next(from..range.end) {
            let mut end = start + 1;
            while let Some(more) = self.next(end..range.end.min(end + GAP)) {
                end = more + 1;
            }
            log(start as u16, &self.after[start..end]);
            self.settle(start..end);
            from = end;
        }
    }

    /// A record did something to `range` that the bytes after need not say.
    pub fn stir(&mut self, range: Range<usize>) {
        self.open.0 |= Chunks::of(range).0;
    }

    /// The attributes of `mask` are logged.
    pub fn settle_attrs(&mut self, mask: u32) {
        for (at, len) in attr::fields(mask).flat_map(|field| field.pieces) {
            self.settle(at..at + len);
        }
    }

    pub fn is_settled(&self) -> bool {
        self.open.each().all(|chunk| {
            let bytes = chunk * CHUNK..(chunk + 1) * CHUNK;
            self.before[bytes.clone()] == self.after[bytes]
        })
    }
}
