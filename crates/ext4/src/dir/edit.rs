//! A change of one block: it is edited in a copy, and the byte ranges that differ are stored. So a
//! journal that records modified bytes sees an insert as some dozens of bytes, whatever code made
//! the change.

use super::DirIo;
use base::Bytes;
use base::bytes::changed_ranges;
use fscore::FsResult;

/// Two changed ranges with at most this many equal bytes between them are stored as one.
const JOIN_GAP: usize = 16;

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
        let ranges = changed_ranges(&self.old, &self.new, JOIN_GAP);
        let pieces: Vec<_> = ranges.map(|r| (r.start, &self.new[r])).collect();
        if !pieces.is_empty() {
            io.write(self.lblk, &pieces)?;
        }
        Ok(self.new.into())
    }
}
