//! One index block: the root (behind `.` and `..` in block 0) or an interior node.
//!
//! The records stay in the block, because a lookup reads a dozen of up to five hundred.

use super::super::edit::Edit;
use super::super::layout;
use super::super::{DirIo, DirRead, corrupt, read_block};
use base::Bytes;
use fscore::FsResult;
use ondisk::ext4::{DxBlock, DxEntry, DxRootInfo, DxShape};

/// An index block whose checksum, count, limit and order are right.
pub(super) struct Index {
    pub lblk: u32,
    shape: DxShape,
    bytes: Bytes,
}

impl Index {
    /// Reads the root.
    pub fn root(io: &dyn DirRead) -> FsResult<Index> {
        let bytes = read_block(io, 0)?;
        let shape =
            layout::root_shape(io.facts(), &bytes).map_err(|why| corrupt(io.facts(), 0, why))?;
        Ok(Index {
            lblk: 0,
            shape,
            bytes,
        })
    }
    /// Reads an interior node.
    pub fn node(io: &dyn DirRead, lblk: u32) -> FsResult<Index> {
        let bytes = read_block(io, lblk)?;
        let shape =
            layout::node_shape(io.facts(), &bytes).map_err(|why| corrupt(io.facts(), lblk, why))?;
        Ok(Index { lblk, shape, bytes })
    }
    /// What only the root holds.
    pub fn root_info(&self) -> Option<DxRootInfo> {
        self.shape.root
    }
    /// Number of records, at least one.
    pub fn len(&self) -> usize {
        self.shape.len()
    }
    /// Record `n`, if there is one.
    pub fn get(&self, n: usize) -> Option<DxEntry> {
        (n < self.len()).then(|| self.shape.entry(&self.bytes, n))
    }
    /// The record that leads to `hash`: the last one whose own hash is not larger.
    pub fn find(&self, hash: u32) -> usize {
        self.shape.find(&self.bytes, hash)
    }
    /// True if no entry can be added.
    pub fn is_full(&self) -> bool {
        self.shape.count >= self.shape.limit
    }
    /// The records, to be changed.
    pub fn records(&self) -> DxBlock {
        self.shape.records(&self.bytes)
    }
    /// Writes the block with other records.
    pub fn store(&mut self, io: &mut dyn DirIo, records: &DxBlock) -> FsResult<()> {
        let mut edit = Edit::of(self.lblk, &self.bytes);
        layout::put_index(io.facts(), edit.bytes(), records);
        self.bytes = edit.store(io)?;
        self.shape = DxShape {
            root: records.root,
            limit: records.limit,
            count: records.entries.len() as u16,
        };
        Ok(())
    }
}
