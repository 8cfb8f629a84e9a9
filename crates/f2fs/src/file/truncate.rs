//! Changing the size of a file, and giving its content up.

use super::inline::{is_inline, room};
use super::reserve::SIZE_MAX;
use super::{BLOCK, Place};
use crate::F2fs;
use crate::inode::Inode;
use crate::ops::Op;
use base::BLOCK_BYTES;
use fscore::{Errno, FsResult};

impl F2fs {
    /// Sets the size (`setattr`): the gate is held by the caller, no `Op`. Sets modification and change time.
    ///
    /// # Errors
    /// EFBIG; EISDIR; EBUSY while an atomic write is open; ENOSPC if inline data needs a block.
    pub(crate) fn set_size(&self, inode: &Inode, size: u64) -> FsResult<()> {
        if size > SIZE_MAX {
            return Err(Errno::FBig.into());
        }
        let (old, inline, room) = {
            let core = inode.core();
            let errno = match &core {
                c if c.gone => Some(Errno::Stale),
                c if c.fields.is_dir() => Some(Errno::IsDir),
                c if c.atomic_size.is_some() => Some(Errno::Busy),
                _ => None,
            };
            if let Some(errno) = errno {
                return Err(errno.into());
            }
            (core.fields.size, is_inline(&core), room(&core))
        };
        if !inline && size <= old {
            return self.shrink(inode, size);
        }
        self.with_op(|op| {
            if inline && size > room {
                self.leave_inline(op, inode)?;
            } else if inline && size < old {
                self.zero_inline(op, inode, size..room)?;
            }
            self.resize(op, inode, size)
        })
    }

    fn resize(&self, op: &Op<'_>, inode: &Inode, size: u64) -> FsResult<()> {
        {
            let mut core = inode.core();
            core.fields.size = size;
            core.changed();
            core.touch(true);
        }
        self.put_inode(op, inode)
    }

    /// Cuts off what lies in blocks behind `size`. The last page is zeroed from there on and sent out of place in the same `Op`: after a
    /// cut the file has the old end with what was behind it, or the new one with zeros (D4).
    fn shrink(&self, inode: &Inode, size: u64) -> FsResult<()> {
        let (last, at) = (size / BLOCK, (size % BLOCK) as usize);
        if at > 0 {
            // Reading and landing wait for the device: before the `Op`.
            self.page(inode, last, last + 1)?;
        }
        let _ = self.land(inode);
        self.with_op(|op| self.shrink_in(op, inode, size))
    }

    fn shrink_in(&self, op: &Op<'_>, inode: &Inode, size: u64) -> FsResult<()> {
        let (last, at) = (size / BLOCK, (size % BLOCK) as usize);
        // Held until the last page is sent: anybody else would send it in place.
        let wb = inode.wb.lock();
        let _ = self.land(inode);
        let zeroed = at > 0 && self.zero_part(inode, last, at, BLOCK_BYTES - at)?;
        let from = size.div_ceil(BLOCK);
        self.pages.drop_range(inode.ino, from..u64::MAX);
        // The size first: if damage ends the truncation, blocks behind the end are legal.
        self.resize(op, inode, size)?;
        let truncated = self.truncate_map(op, inode, &mut inode.tree.lock(), from);
        self.put_inode(op, inode)?;
        truncated?;
        if zeroed && self.addr_of(inode, last)?.is_data() {
            self.write_pages_held(op, inode, last..last + 1, Place::Fresh, &wb)?;
        }
        Ok(())
    }

    /// Frees all content of an inode that is being freed (no gate, nobody else has it), inside the `Op` of its eviction.
    pub(crate) fn drop_content(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        self.forget_pending(inode);
        let _wb = inode.wb.lock();
        // What failed is given up with the rest.
        let _ = self.land(inode);
        self.pages.drop_range(inode.ino, 0..u64::MAX);
        if self.has_map(inode) {
            self.truncate_map(op, inode, &mut inode.tree.lock(), 0)?;
        }
        Ok(())
    }

    /// Content lies in blocks: neither in the inode, nor is it a device number.
    fn has_map(&self, inode: &Inode) -> bool {
        use ondisk::f2fs::Inline;
        let core = inode.core();
        let fields = &core.fields;
        let inline = fields.inline.has(Inline::DATA) || fields.inline.has(Inline::DENTRY);
        !inline && (fields.is_regular() || fields.is_dir() || fields.is_symlink())
    }
}
