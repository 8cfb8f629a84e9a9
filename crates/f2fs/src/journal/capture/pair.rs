//! A block before and after a change, for [`capture`](super): which parts are copied before the
//! change, and where they differ afterwards.

use base::bytes::is_zero;
use ondisk::f2fs::journal::attr;
use ondisk::f2fs::{
    BLOCK_BYTES, DENTRY_SLOT_BYTES, DentryLayout, FOOTER_AT, INODE_EXTRA_BYTES_MAX, INODE_NID_SLOT0,
};
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

/// Parts of a block, in chunks of 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parts(u64);

impl Parts {
    /// The whole block.
    pub const ALL: Parts = Parts(u64::MAX);
    /// Nothing of it.
    pub const NONE: Parts = Parts(0);
    /// Of an inode: all that stands before addresses or content, and the numbers of nodes behind
    /// them.
    pub fn of_fields() -> Parts {
        let end = EXTRA_AT + usize::from(INODE_EXTRA_BYTES_MAX);
        Parts::of(0..end).and(4 * INODE_NID_SLOT0..FOOTER_AT)
    }

    /// The chunks that these bytes lie in.
    ///
    /// # Panics
    /// They leave the block.
    pub fn of(bytes: Range<usize>) -> Parts {
        assert!(bytes.end <= BLOCK_BYTES, "bytes of a block");
        if bytes.is_empty() {
            return Parts::NONE;
        }
        let (first, last) = (bytes.start / CHUNK, (bytes.end - 1) / CHUNK);
        Parts(u64::MAX << first & u64::MAX >> (63 - last))
    }

    /// These words.
    pub fn of_words(words: Range<usize>) -> Parts {
        Parts::of(4 * words.start..4 * words.end)
    }

    /// What an entry of `slots` slots from `slot` on takes: bits, entries, name.
    pub fn of_entry(layout: &DentryLayout, slot: usize, slots: usize) -> Parts {
        let part = |array: &Range<usize>, each: usize| {
            let from = array.start + slot * each;
            Parts::of(from.min(array.end)..(from + slots * each).min(array.end))
        };
        let (entries, names) = (
            part(&layout.entries, ENTRY_BYTES),
            part(&layout.names, DENTRY_SLOT_BYTES),
        );
        Parts(Parts::of(layout.bitmap.clone()).0 | entries.0 | names.0)
    }

    /// These parts, and the chunks of these bytes.
    pub fn and(self, bytes: Range<usize>) -> Parts {
        Parts(self.0 | Parts::of(bytes).0)
    }

    fn has(self, chunk: usize) -> bool {
        self.0 >> chunk & 1 == 1
    }

    /// The chunks, one after the other.
    fn chunks(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let chunk = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(chunk)
        })
    }

    /// Nothing but these parts differs.
    pub fn have_all(self, before: &[u8], after: &[u8]) -> bool {
        let (b, a) = (before.as_chunks::<CHUNK>().0, after.as_chunks::<CHUNK>().0);
        let mut chunks = b.iter().zip(a).enumerate();
        chunks.all(|(n, (b, a))| self.has(n) || b == a)
    }

    /// Keeps what `block` holds there, for [`node`](super::node) or
    /// [`dir_block`](super::dir_block). Test builds keep all of it.
    ///
    /// # Panics
    /// If a block is not 4096 bytes long.
    pub fn keep(self, before: &mut [u8], block: &[u8]) {
        assert!(
            before.len() == BLOCK_BYTES && block.len() == BLOCK_BYTES,
            "whole blocks are kept"
        );
        if cfg!(debug_assertions) || self == Parts::ALL {
            before.copy_from_slice(block);
            return;
        }
        let (before, block) = (before.as_chunks_mut::<CHUNK>().0, block.as_chunks().0);
        for chunk in self.chunks() {
            before[chunk] = block[chunk];
        }
    }
}

/// A block before and after, and which chunks of it differ still.
pub(super) struct Pair<'a> {
    pub before: &'a mut [u8],
    pub after: &'a [u8],
    /// Chunks of which `before` holds what was there. The others did not change.
    kept: Parts,
    /// Of those, chunks that may differ.
    open: Parts,
}

impl<'a> Pair<'a> {
    /// `None` if nothing differs in `kept`.
    pub fn new(before: &'a mut [u8], after: &'a [u8], kept: Parts) -> Option<Pair<'a>> {
        assert!(
            before.len() == BLOCK_BYTES && after.len() == BLOCK_BYTES,
            "whole blocks are compared"
        );
        let mut open = 0;
        let (b, a) = (before.as_chunks::<CHUNK>().0, after.as_chunks::<CHUNK>().0);
        for chunk in kept.chunks() {
            open |= u64::from(b[chunk] != a[chunk]) << chunk;
        }
        (open != 0).then_some(Pair {
            before,
            after,
            kept,
            open: Parts(open),
        })
    }

    /// The bytes before are zeros.
    pub fn fresh(before: &'a mut [u8], after: &'a [u8]) -> Pair<'a> {
        assert!(
            before.len() == BLOCK_BYTES && after.len() == BLOCK_BYTES,
            "whole blocks are compared"
        );
        let mut open = 0;
        let chunks = before.as_chunks_mut::<CHUNK>().0;
        for (n, (b, a)) in chunks
            .iter_mut()
            .zip(after.as_chunks::<CHUNK>().0)
            .enumerate()
        {
            let used = !is_zero(a);
            open |= u64::from(used) << n;
            if used || cfg!(debug_assertions) {
                b.fill(0);
            }
        }
        Pair {
            before,
            after,
            kept: Parts(open),
            open: Parts(open),
        }
    }

    /// `before` holds all of `range`.
    pub fn load(&mut self, range: Range<usize>) {
        for chunk in Parts(Parts::of(range).0 & !self.kept.0).chunks() {
            let bytes = chunk * CHUNK..(chunk + 1) * CHUNK;
            self.before[bytes.clone()].copy_from_slice(&self.after[bytes]);
            self.kept.0 |= 1 << chunk;
        }
    }

    /// A byte as it was.
    pub fn was(&self, at: usize) -> u8 {
        match self.kept.has(at / CHUNK) {
            true => self.before[at],
            false => self.after[at],
        }
    }

    /// The first byte of `range` that differs. Chunks that are settled are not looked at again.
    pub fn next(&mut self, range: Range<usize>) -> Option<usize> {
        let (b, a) = (
            self.before.as_chunks::<CHUNK>().0,
            self.after.as_chunks::<CHUNK>().0,
        );
        for chunk in Parts(self.open.0 & Parts::of(range.clone()).0).chunks() {
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

    /// A record did something to `range`, which is loaded, that the bytes after need not say.
    pub fn stir(&mut self, range: Range<usize>) {
        self.open.0 |= Parts::of(range).0;
    }

    /// The attributes of `mask` are logged.
    pub fn settle_attrs(&mut self, mask: u32) {
        for (at, len) in attr::fields(mask).flat_map(|field| field.pieces) {
            self.settle(at..at + len);
        }
    }

    pub fn is_settled(&self) -> bool {
        self.open.chunks().all(|chunk| {
            let bytes = chunk * CHUNK..(chunk + 1) * CHUNK;
            self.before[bytes.clone()] == self.after[bytes]
        })
    }
}
