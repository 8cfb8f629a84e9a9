//! One index block: the root (behind `.` and `..` in block 0) or an interior node.

use super::super::edit::Edit;
use super::super::layout;
use super::super::{DirIo, DirRead, corrupt, read_block};
use base::Bytes;
use fscore::FsResult;
use ondisk::ext4::DxBlock;

/// An index block whose checksum, count, limit and order are right.
pub(super) struct Index {
    pub lblk: u32,
    pub dx: DxBlock,
    bytes: Bytes,
}

impl Index {
    /// Reads the root.
    pub fn root(io: &dyn DirRead) -> FsResult<Index> {
        let bytes = read_block(io, 0)?;
        let dx =
            layout::parse_root(io.facts(), &bytes).map_err(|why| corrupt(io.facts(), 0, why))?;
        Ok(Index { lblk: 0, dx, bytes })
    }
    /// Reads an interior node.
    pub fn node(io: &dyn DirRead, lblk: u32) -> FsResult<Index> {
        let bytes = read_block(io, lblk)?;
        let dx =
            layout::parse_node(io.facts(), &bytes).map_err(|why| corrupt(io.facts(), lblk, why))?;
        Ok(Index { lblk, dx, bytes })
    }
    /// True if no entry can be added.
    pub fn is_full(&self) -> bool {
        self.dx.entries.len() >= usize::from(self.dx.limit)
    }
    /// Writes the block back.
    pub fn store(&mut self, io: &mut dyn DirIo) -> FsResult<()> {
        let mut edit = Edit::of(self.lblk, &self.bytes);
        layout::put_index(io.facts(), edit.bytes(), &self.dx);
        self.bytes = edit.store(io)?;
        Ok(())
    }
}
