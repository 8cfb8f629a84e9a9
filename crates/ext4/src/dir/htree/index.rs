//! One index block: the root (behind `.` and `..` in block 0) or an interior node.

use super::super::edit::Edit;
use super::super::layout::{self, IndexHead, IndexPair};
use super::super::{DirFacts, DirIo, DirRead, corrupt, read_block};
use base::Bytes;
use fscore::FsResult;

/// An index block whose checksum, count and limit are right.
pub(super) struct Index {
    pub lblk: u32,
    pub head: IndexHead,
    bytes: Bytes,
    /// Pairs in use; the hash of the first one is not stored and reads as 0.
    pub pairs: Vec<IndexPair>,
}

impl Index {
    /// Reads the root.
    pub fn root(io: &dyn DirRead) -> FsResult<Index> {
        let bytes = read_block(io, 0)?;
        let head = layout::parse_root(io.facts(), &bytes);
        Index::with(io.facts(), 0, bytes, head)
    }
    /// Reads an interior node.
    pub fn node(io: &dyn DirRead, lblk: u32) -> FsResult<Index> {
        let bytes = read_block(io, lblk)?;
        let head = layout::parse_node(io.facts(), &bytes);
        Index::with(io.facts(), lblk, bytes, head)
    }
    fn with(facts: &DirFacts, lblk: u32, bytes: Bytes, head: Result<IndexHead, String>) -> FsResult<Index> {
        let head = head.map_err(|why| corrupt(facts, lblk, why))?;
        let pairs = layout::index_pairs(&bytes, &head);
        Ok(Index { lblk, head, bytes, pairs })
    }
    /// The last pair whose range begins at or before `hash`.
    pub fn position(&self, hash: u32) -> usize {
        self.pairs[1..].partition_point(|pair| pair.hash <= hash)
    }
    /// True if no pair can be added.
    pub fn is_full(&self) -> bool {
        self.pairs.len() >= self.head.limit
    }
    /// Writes the pairs (and the root's depth) back.
    pub fn store(&self, io: &mut dyn DirIo) -> FsResult<()> {
        assert!(self.pairs.len() <= self.head.limit, "an index block holds at most its limit");
        let mut edit = Edit::of(self.lblk, &self.bytes);
        layout::put_index(io.facts(), edit.bytes(), &self.head, &self.pairs);
        edit.store(io)
    }
}
