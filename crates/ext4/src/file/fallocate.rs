//! fallocate: blocks for a range of a file before anything is written there, as unwritten extents.
//!
//! Why no cut shows what the blocks held before:
//!
//! - U1 what fallocate maps is unwritten, and reads as zeros before and after a cut in every data
//!   mode; so no data has to travel with its transaction;
//! - U2 an extent, or the part of one that is written to (the rest is split off and stays
//!   unwritten), becomes written in the handle that hands over its data, and that transaction
//!   commits after the data: `data=ordered` and `data=writeback` wait for the data and flush it
//!   before the commit (in writeback mode for these blocks only: Linux converts at the end of the
//!   write, in every mode); with `data=journal` the content is part of the transaction; without a
//!   journal the data has been written before the mapping can go home, but nothing orders the two
//!   in the device's cache;
//! - U3 a block of which a write changes a part is completed in the cache first, with zeros: none
//!   of its old bytes survives;
//! - U4 the size grows in a handle of its own, when every block below it is mapped; blocks beyond
//!   the end are always unwritten (write-back moves the size in the handle that converts). So a
//!   range for which there is too little room leaves the size as it was, where Linux lets it grow
//!   by what was mapped: nobody has to take a size back, under which others might write by then,
//!   and the kernel of a mount, which learns no size from a request that fails, knows the right
//!   one;
//! - U5 `wb` is held from looking up a hole to mapping it, so that write-back, which works without
//!   the gate, cannot fill the hole in between (file-F3).

use crate::Ext4;
use crate::file::writeback::MAP_CREDITS;
use crate::inode::{Core, Inode};
use crate::map::Span;
use fscore::{Errno, FallocateMode, FsResult};
use ondisk::ext4::EXTENT_UNWRITTEN_LEN_MAX;
use std::ops::Range;

impl Ext4 {
    /// Allocates or frees blocks for `offset..offset + len`, as `mode` says.
    ///
    /// # Errors
    /// EFBIG; EOPNOTSUPP for files with block maps, which know no unwritten blocks, unless holes
    /// are punched; EINVAL for ranges that are not whole clusters where content moves; EPERM by the
    /// flags of the inode; ENOSPC, after the front of the range got its blocks (U4).
    pub(crate) fn allocate_file(
        &self,
        inode: &Inode,
        mode: FallocateMode,
        offset: u64,
        len: u64,
    ) -> FsResult<()> {
        let end = offset
            .checked_add(len)
            .filter(|&end| end <= crate::extent::size_max(self.block_size));
        let end = end.ok_or(Errno::FBig)?;
        let by_map = !self.maps_by_extents(inode);
        if mode == FallocateMode::Unshare || by_map && mode != FallocateMode::PunchHole {
            return Err(Errno::NotSup.into());
        }
        let moves = matches!(
            mode,
            FallocateMode::CollapseRange | FallocateMode::InsertRange
        );
        // cluster-C4: only whole clusters move.
        let unit = self.block() * self.cluster_len(1);
        if len == 0 || moves && !(offset.is_multiple_of(unit) && len.is_multiple_of(unit)) {
            return Err(Errno::Inval.into());
        }
        let _gate = inode.gate.write();
        if inode.core().gone {
            return Err(Errno::Stale.into());
        }
        match mode {
            FallocateMode::Allocate | FallocateMode::KeepSize => inode.check_not_immutable()?,
            _ => inode.check_not_guarded()?,
        }
        // As in Linux, files with inline data get blocks first, because these ranges are about
        // blocks.
        self.leave_inode_if_inline(inode)?;
        self.settle_delayed(inode)?;
        match mode {
            FallocateMode::Allocate => self.reserve(inode, offset..end, true),
            FallocateMode::KeepSize => self.reserve(inode, offset..end, false),
            FallocateMode::PunchHole => self.punch(inode, offset..end),
            FallocateMode::ZeroRange => self.zero_range(inode, offset..end, false),
            FallocateMode::ZeroRangeKeepSize => self.zero_range(inode, offset..end, true),
            FallocateMode::CollapseRange => self.collapse(inode, offset..end),
            FallocateMode::InsertRange => self.insert(inode, offset..end),
            FallocateMode::Unshare => Err(Errno::NotSup.into()),
        }
    }

    /// Gives every hole of a range unwritten blocks, and raises the size if `grow` is set. The gate
    /// is held exclusively.
    fn reserve(&self, inode: &Inode, range: Range<u64>, grow: bool) -> FsResult<()> {
        let (offset, end) = (range.start, range.end);
        let mut lblk = offset / self.block();
        let last = end.div_ceil(self.block());
        while lblk < last {
            let some = || self.allocate_some(inode, lblk as u32, last - lblk);
            lblk += u64::from(self.with_room(some)?);
        }
        self.transact(1, |tx| {
            {
                let mut core = inode.core();
                core.touch(true);
                // U4.
                if grow {
                    core.grow(end);
                }
                core.sync_tid = tx.tid();
                core.datasync_tid = tx.tid();
            }
            tx.tell_of(self, inode);
            self.put_inode(tx, inode)
        })
    }

    /// Skips blocks that are mapped, or maps the front of a hole. Answers how many blocks that
    /// were.
    pub(super) fn allocate_some(&self, inode: &Inode, lblk: u32, want: u64) -> FsResult<u32> {
        // U5.
        let _wb = inode.wb.lock();
        let want = want.min(EXTENT_UNWRITTEN_LEN_MAX.into()) as u32;
        let hole = match self.lookup_span(inode, lblk, want)? {
            Span::Hole { len } => len,
            mapped => return Ok(mapped.len()),
        };
        self.transact(MAP_CREDITS, |tx| {
            let (_, len) = {
                let _tree = inode.tree.write();
                // U1.
                self.map_hole_as(tx, inode, lblk, hole, true)?
            };
            tx.tell_of(self, inode);
            self.put_inode(tx, inode)?;
            Ok(len)
        })
    }
}

impl Core {
    /// Raises the size in memory and the size on the device to `size`, each if it is below.
    pub(super) fn grow(&mut self, size: u64) {
        self.size = self.size.max(size);
        if size > self.disk.size() {
            self.disk.set_size(size);
        }
    }
}
