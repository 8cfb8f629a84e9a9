//! Reserving: a hole gets an address slot that says NEW, counted in `space` and in the inode (S1, D1).

use crate::F2fs;
use crate::inode::Inode;
use crate::map::{Slot, Tree};
use crate::ops::Op;
use fscore::{Errno, FsResult};
use ondisk::f2fs::{BlockAddr, max_file_blocks};

use super::BLOCK;

/// Largest file, bytes (Linux `s_maxbytes`).
pub(super) const SIZE_MAX: u64 = max_file_blocks() * BLOCK;

impl F2fs {
    /// Reserves a block for page `index` if it has none. Answers the slot as it was. The caller puts the inode.
    ///
    /// # Errors
    /// ENOSPC, EFBIG: nothing is reserved.
    pub(super) fn reserve(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
    ) -> FsResult<Slot> {
        let slot = self.make_slot(op, inode, tree, index)?;
        if slot.addr == BlockAddr::NULL {
            self.claim_blocks(op, 1)?;
            if let Err(e) = self.set_slot(op, inode, tree, index, &slot, BlockAddr::NEW) {
                self.return_blocks(op, 1);
                return Err(e);
            }
            let mut core = inode.core();
            core.fields.blocks += 1;
            core.changed();
        }
        Ok(slot)
    }

    /// EFBIG unless `offset..offset + len` lies in the largest file; answers the end.
    pub(super) fn check_end(&self, offset: u64, len: u64) -> FsResult<u64> {
        let end = offset.checked_add(len).filter(|&end| end <= SIZE_MAX);
        end.ok_or_else(|| Errno::FBig.into())
    }
}
