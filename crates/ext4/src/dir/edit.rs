//! A change of one block: it is edited in a copy, and the byte ranges that differ are stored. So a
//! journal that records modified bytes sees an insert as some dozens of bytes, whatever code made
//! the change.

use super::DirIo;
use base::Bytes;
use fscore::FsResult;

/// Two changed ranges with at most this many equal bytes between them are stored as one.
const JOIN_GAP: usize = 16;

/// Bytes that are compared at once before they are looked at one by one.
const PIECE: usize = 64;

/// A block under change.
pub(super) struct Edit {
    lblk: u32,
    old: Bytes,
    new: Vec<u8>,
}

impl Edit {
    /// Begins a change of `old`, the content of block `lblk`.
    pub(super) fn of(lblk: u32, old: &Bytes) -> Edit {
        Edit {
            lblk,
            old: old.clone(),
            new: old.to_vec(),
        }
    }
    /// Begins a change that ends in the content `new`.
    pub(super) fn replace(lblk: u32, old: &Bytes, new: Vec<u8>) -> Edit {
        assert_eq!(old.len(), new.len(), "a block keeps its length");
        Edit {
            lblk,
            old: old.clone(),
            new,
        }
    }
    /// The block, to be changed.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.new
    }
    /// Writes the ranges that differ; answers the new content.
    pub(super) fn store(self, io: &mut dyn DirIo) -> FsResult<Bytes> {
        for (start, end) in changed_ranges(&self.old, &self.new) {
            io.write(self.lblk, start, &self.new[start..end])?;
        }
        Ok(self.new.into())
    }
}

/// The ranges in which two blocks of one length differ, ascending; ranges with few equal bytes
/// between them are joined.
fn changed_ranges(old: &[u8], new: &[u8]) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let pieces = old.chunks(PIECE).zip(new.chunks(PIECE)).enumerate();
    for (n, (a, b)) in pieces.filter(|(_, (a, b))| a != b) {
        for at in (0..a.len()).filter(|&at| a[at] != b[at]) {
            let at = n * PIECE + at;
            match ranges.last_mut() {
                Some((_, end)) if at - *end <= JOIN_GAP => *end = at + 1,
                _ => ranges.push((at, at + 1)),
            }
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_exactly_what_differs() {
        let old = vec![0u8; 100];
        let mut new = old.clone();
        assert_eq!(changed_ranges(&old, &new), vec![]);
        new[0] = 1;
        new[17] = 1; // 16 equal bytes between: joined
        new[40] = 1;
        new[99] = 1;
        assert_eq!(
            changed_ranges(&old, &new),
            vec![(0, 18), (40, 41), (99, 100)]
        );
    }
}
