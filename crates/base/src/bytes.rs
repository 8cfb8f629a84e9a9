//! Reading and writing integers at byte offsets. `get_*` panics when the range lies outside the
//! slice, so callers check the length of an untrusted structure once, then read its fields.

use crate::fill;
use std::ops::Range;

macro_rules! codec {
    ($get:ident, $put:ident, $ty:ty, $from:ident, $to:ident, $what:literal) => {
        #[doc = concat!("Reads a ", $what, " at byte offset `at`.")]
        #[inline]
        pub fn $get(buf: &[u8], at: usize) -> $ty {
            let mut raw = [0; size_of::<$ty>()];
            raw.copy_from_slice(&buf[at..at + size_of::<$ty>()]);
            <$ty>::$from(raw)
        }
        #[doc = concat!("Writes a ", $what, " at byte offset `at`.")]
        #[inline]
        pub fn $put(buf: &mut [u8], at: usize, value: $ty) {
            buf[at..at + size_of::<$ty>()].copy_from_slice(&value.$to());
        }
    };
}

codec! { get_le16, put_le16, u16, from_le_bytes, to_le_bytes, "little-endian 16-bit integer" }
codec! { get_le32, put_le32, u32, from_le_bytes, to_le_bytes, "little-endian 32-bit integer" }
codec! { get_le64, put_le64, u64, from_le_bytes, to_le_bytes, "little-endian 64-bit integer" }
codec! { get_be16, put_be16, u16, from_be_bytes, to_be_bytes, "big-endian 16-bit integer" }
codec! { get_be32, put_be32, u32, from_be_bytes, to_be_bytes, "big-endian 32-bit integer" }
codec! { get_be64, put_be64, u64, from_be_bytes, to_be_bytes, "big-endian 64-bit integer" }

/// True if every byte is zero.
pub fn is_zero(buf: &[u8]) -> bool {
    // The comparison is the C library's, which is as fast in a build for tests, where no loop of
    // ours becomes vector instructions.
    buf.is_empty() || fill::uniform(buf) == Some(0)
}

/// The ranges in which two slices of one length differ, ascending. Two with at most `gap` equal
/// bytes between them are one.
pub fn changed_ranges<'a>(old: &'a [u8], new: &'a [u8], gap: usize) -> ChangedRanges<'a> {
    assert_eq!(old.len(), new.len(), "the same structure");
    ChangedRanges {
        old,
        new,
        gap,
        next: difference_from(old, new, 0),
    }
}

/// What [`changed_ranges`] answers.
#[derive(Clone, Debug)]
pub struct ChangedRanges<'a> {
    old: &'a [u8],
    new: &'a [u8],
    gap: usize,
    /// Where the next range begins.
    next: Option<usize>,
}

impl Iterator for ChangedRanges<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.next?;
        let mut end = start + 1;
        loop {
            // Any two differences within a word are joined by such a gap.
            while self.gap >= 7
                && let Some(word @ 1..) = difference_at(self.old, self.new, end)
            {
                end += 8 - word.leading_zeros() as usize / 8;
            }
            self.next = difference_from(self.old, self.new, end);
            match self.next {
                Some(at) if at - end <= self.gap => end = at + 1,
                _ => return Some(start..end),
            }
        }
    }
}

/// The first byte at or after `from` in which the two differ.
fn difference_from(old: &[u8], new: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    // A word first, because differences lie close together; where there is none, equality of 64
    // bytes at once is a few vector instructions.
    while let Some(word) = difference_at(old, new, at) {
        if word != 0 {
            return Some(at + word.trailing_zeros() as usize / 8);
        }
        at += 8;
        while let Some(a) = old[at..].first_chunk::<64>()
            && new[at..].first_chunk() == Some(a)
        {
            at += 64;
        }
    }
    let mut rest = old[at..].iter().zip(&new[at..]);
    rest.position(|(a, b)| a != b).map(|n| at + n)
}

/// The differing bits of the eight bytes at `at`, the first byte lowest; `None` if there are fewer.
fn difference_at(old: &[u8], new: &[u8], at: usize) -> Option<u64> {
    let (a, b) = (old[at..].first_chunk()?, new[at..].first_chunk()?);
    Some(u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::{changed_ranges, is_zero};

    /// Compared with a search byte by byte, whatever the distances and the length.
    #[test]
    fn ranges_cover_exactly_what_differs() {
        for len in [0, 1, 7, 64, 100, 200] {
            for step in 1..len.max(2) {
                let old: Vec<u8> = vec![0; len];
                let mut new = old.clone();
                (0..len).step_by(step).for_each(|at| new[at] = 1);
                for gap in [0, 8, 16] {
                    let found: Vec<_> = changed_ranges(&old, &new, gap).collect();
                    let joined = step - 1 <= gap;
                    let last = (0..len).step_by(step).next_back();
                    let expected: Vec<_> = match last {
                        Some(last) if joined => std::iter::once(0..last + 1).collect(),
                        _ => (0..len).step_by(step).map(|at| at..at + 1).collect(),
                    };
                    assert_eq!(found, expected, "{len} {step} {gap}");
                }
            }
        }
    }

    #[test]
    fn equal_slices_have_no_range() {
        assert_eq!(changed_ranges(&[7; 99], &[7; 99], 8).count(), 0);
    }

    #[test]
    fn one_byte_anywhere() {
        for len in [0, 1, 63, 64, 65, 200] {
            let mut buf = vec![0; len];
            assert!(is_zero(&buf));
            for n in 0..len {
                buf[n] = 0x80;
                assert!(!is_zero(&buf), "{n} of {len}");
                buf[n] = 0;
            }
        }
    }
}
