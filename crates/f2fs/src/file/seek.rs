//! Finds where data and holes begin (`SEEK_DATA`, `SEEK_HOLE`).

use super::BLOCK;
use super::inline::is_inline;
use crate::F2fs;
use crate::inode::Inode;
use fscore::{Errno, FsResult, SeekMode};
use ondisk::f2fs::BlockAddr;

impl F2fs {
    /// The next data, or the next hole, at or behind `offset`, as Linux F2FS reports them: a page
    /// with a block is data, a page without an address is a hole. A page that is reserved and was
    /// never written is neither: both searches pass it. In an open atomic write everything counts
    /// as data, because its outcome is not known yet.
    ///
    /// # Errors
    /// ENXIO at or behind the end, and if no data follows.
    pub(crate) fn seek_file(&self, inode: &Inode, offset: u64, mode: SeekMode) -> FsResult<u64> {
        let _gate = inode.gate.read();
        // While it is held, a page with content is dirty or has a block.
        let _wb = inode.wb.lock();
        let (size, one_piece) = {
            let core = inode.core();
            if core.gone {
                return Err(Errno::Stale.into());
            }
            let whole = is_inline(&core) || core.atomic_size.is_some();
            (core.atomic_size.unwrap_or(core.fields.size), whole)
        };
        if offset >= size {
            return Err(Errno::NxIo.into());
        }
        if one_piece {
            return Ok(if mode == SeekMode::Data { offset } else { size });
        }
        let last = size.div_ceil(BLOCK);
        let mut index = offset / BLOCK;
        // Ends: a run has a page at least.
        while index < last {
            let run = self.lookup(inode, &mut inode.tree.lock(), index, last - index)?;
            let end = index + run.len;
            let found = match (mode, run.addr) {
                (SeekMode::Hole, BlockAddr::NULL) => Some(index),
                (SeekMode::Hole, _) | (SeekMode::Data, BlockAddr::NULL) => None,
                (SeekMode::Data, BlockAddr::NEW) => self.pages.next_dirty(inode.ino, index..end),
                (SeekMode::Data, _) => Some(index),
            };
            if let Some(at) = found {
                return Ok((at * BLOCK).max(offset));
            }
            index = end;
        }
        match mode {
            SeekMode::Data => Err(Errno::NxIo.into()),
            SeekMode::Hole => Ok(size),
        }
    }
}
