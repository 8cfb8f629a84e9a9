//! fallocate: blocks for a range of a file before anything is written there, as unwritten extents.
//!
//! Why no cut shows what the blocks held before:
//!
//! - U1 what fallocate maps is unwritten, and reads as zeros before and after a cut in every data mode; so no data has to travel
//!   with its transaction;
//! - U2 an extent, or the part of one that is written to (the rest is split off and stays unwritten), becomes written in the
//!   handle that hands over its data, and that transaction commits after it: `data=ordered` and `data=writeback` wait for
//!   the data and flush it before the commit (in writeback mode for these blocks only: Linux converts at the end of the
//!   write, in every mode); with `data=journal` the content is part of the transaction; without a journal the data has been
//!   written before the mapping can go home, but nothing orders the two in the device's cache;
//! - U3 a block of which a write changes a part is whole in the cache first, from zeros: none of its old bytes survives;
//! - U4 the size on the device grows in the handle that maps the last block below it; blocks beyond the end are always
//!   unwritten (write-back moves the size in the handle that converts);
//! - U5 `wb` is held from looking up a hole to mapping it: write-back, which works without the gate, finds no hole filled behind
//!   its back (F3).

use super::{BLOCK, SIZE_MAX};
use crate::Ext4;
use crate::file::writeback::MAP_CREDITS;
use crate::inode::{Core, Inode};
use crate::map::Span;
use fscore::{Errno, FallocateMode, FsResult};
use ondisk::ext4::EXTENT_UNWRITTEN_LEN_MAX;

impl Ext4 {
    /// Gives `offset..offset + len` blocks.
    ///
    /// # Errors
    /// EFBIG; EOPNOTSUPP for other modes and for files with block maps, which know no unwritten blocks; ENOSPC, with the front of the
    /// range allocated.
    pub(crate) fn allocate_file(
        &self,
        inode: &Inode,
        mode: FallocateMode,
        offset: u64,
        len: u64,
    ) -> FsResult<()> {
        let end = offset.checked_add(len).filter(|&end| end <= SIZE_MAX);
        let end = end.ok_or(Errno::FBig)?;
        let size = match mode {
            FallocateMode::Allocate => Some(end),
            FallocateMode::KeepSize => None,
            _ => return Err(Errno::NotSup.into()),
        };
        if !inode.core().has_extents() {
            return Err(Errno::NotSup.into());
        }
        if len == 0 {
            return Err(Errno::Inval.into());
        }
        let _gate = inode.gate.write();
        if inode.core().gone {
            return Err(Errno::Stale.into());
        }
        let mut lblk = offset / BLOCK;
        let last = end.div_ceil(BLOCK);
        // Ends: each turn moves on, or is the only one after room was made.
        let mut made_room = false;
        while lblk < last {
            match self.allocate_some(inode, lblk as u32, last - lblk, size) {
                Ok(blocks) => {
                    lblk += u64::from(blocks);
                    made_room = false;
                }
                Err(e) if e.errno() == Errno::NoSpc && !made_room => {
                    self.make_room()?;
                    made_room = true;
                }
                Err(e) => return Err(e),
            }
        }
        self.transact(1, |tx| {
            {
                let mut core = inode.core();
                core.touch(true);
                if let Some(size) = size {
                    core.grow(size);
                }
                core.sync_tid = tx.tid();
                core.datasync_tid = tx.tid();
            }
            self.put_inode(tx, inode)
        })
    }

    /// Passes over blocks that are mapped, or maps the front of a hole. Answers how many blocks.
    fn allocate_some(
        &self,
        inode: &Inode,
        lblk: u32,
        want: u64,
        size: Option<u64>,
    ) -> FsResult<u32> {
        let _wb = inode.wb.lock();
        let want = want.min(EXTENT_UNWRITTEN_LEN_MAX.into()) as u32;
        let hole = match self.lookup_span(inode, lblk, want)? {
            Span::Hole { len } => len,
            mapped => return Ok(mapped.len()),
        };
        self.transact(MAP_CREDITS, |tx| {
            let (_, len) = {
                let _tree = inode.tree.write();
                self.map_hole_as(tx, inode, lblk, hole, true)?
            };
            if let Some(size) = size {
                inode
                    .core()
                    .grow(size.min((u64::from(lblk) + u64::from(len)) * BLOCK));
            }
            self.put_inode(tx, inode)?;
            Ok(len)
        })
    }
}

impl Core {
    /// Raises the size in memory and that on the device to `size`, each if it is below.
    fn grow(&mut self, size: u64) {
        self.size = self.size.max(size);
        if size > self.disk.size() {
            self.disk.set_size(size);
        }
    }
}
