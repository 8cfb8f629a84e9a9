//! Changes the size of a file, and frees its content.
//!
//! With a journal a large file is truncated in several operations, each of which logs a bounded
//! part:
//! - Z1 the first operation sets the size. If it does not reach the end of the mapping, it marks
//!   the inode (`ADVISE_TRUNC`, which the kernel honours too: blocks beyond the size wait to be
//!   truncated) and logs `Trunc`; the last operation removes the mark;
//! - Z2 the gate is held from the first operation to the last. After a cut or a failure the mark
//!   stands, and the next task that takes the gate to write or to change the size completes the
//!   truncation first ([`continue_truncate`](F2fs::continue_truncate)): so what lay behind the new
//!   end never comes back. Recovery completes it at once for inodes that a record in the ring
//!   names;
//! - Z3 content of an inode without links is freed in the same steps but without a mark, because
//!   the list of orphans names the inode until the last operation.

use super::inline::{is_inline, room};
use super::reserve::SIZE_MAX;
use super::writeback::Held;
use super::{BLOCK, Why};
use crate::F2fs;
use crate::inode::Inode;
use crate::ops::Op;
use base::cost::f2fs as cost;
use base::{BLOCK_BYTES, Mutant};
use fscore::{Errno, FsError, FsResult};
use ondisk::f2fs::Advise;
use ondisk::f2fs::journal::Record;

impl F2fs {
    /// Sets the size (`setattr`): the gate is held by the caller, no `Op`. Sets modification and
    /// change time.
    ///
    /// # Errors
    /// EFBIG; EISDIR; EBUSY while an atomic write is open; ENOSPC if inline data needs a block.
    pub(crate) fn set_size(&self, inode: &Inode, size: u64) -> FsResult<()> {
        if size > SIZE_MAX {
            return Err(Errno::FBig.into());
        }
        self.continue_truncate(inode)?;
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
            // Write-back raises the size, too.
            let _wb = self.journal.is_some().then(|| inode.wb.lock());
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
        self.put_size(op, inode)?;
        self.put_inode(op, inode)
    }

    /// Cuts off what lies in blocks behind `size`. The last page is zeroed from there on and sent
    /// out of place in the same `Op`: after a cut the file has the old end with what was behind it,
    /// or the new one with zeros (file-D4).
    fn shrink(&self, inode: &Inode, size: u64) -> FsResult<()> {
        let (last, at) = (size / BLOCK, (size % BLOCK) as usize);
        if at > 0 {
            // Reading and landing wait for the device: before the `Op`.
            self.page(inode, last, last + 1)?;
        }
        let _ = self.land(inode);
        let more = self.with_op(|op| self.shrink_in(op, inode, size))?;
        match more {
            true => self.truncate_rest(inode, Ok(())),
            false => Ok(()),
        }
    }

    /// Answers whether blocks behind the end are left for other operations (Z1).
    fn shrink_in(&self, op: &Op<'_>, inode: &Inode, size: u64) -> FsResult<bool> {
        let (last, at) = (size / BLOCK, (size % BLOCK) as usize);
        // Held until the last page is sent, because another task would send it in place.
        let wb = inode.wb.lock();
        let _ = self.land(inode);
        let zeroed = at > 0 && self.zero_part(inode, last, at, BLOCK_BYTES - at)?;
        let from = size.div_ceil(BLOCK);
        self.pages.drop_range(inode.ino, from..u64::MAX);
        // The size first: if damage ends the truncation, blocks behind the end are legal.
        self.resize(op, inode, size)?;
        let cut = self.truncate_step(op, inode, &mut inode.tree.lock(), from);
        self.mark_cut(op, inode, cut.more)?;
        self.put_inode(op, inode)?;
        cut.result?;
        if zeroed && self.addr_of(inode, last)?.is_data() {
            self.write_pages_within(op, inode, last..last + 1, Why::Rewrite, &wb)?;
        }
        Ok(cut.more)
    }

    /// Z1. The caller puts the inode.
    fn mark_cut(&self, op: &Op<'_>, inode: &Inode, more: bool) -> FsResult<()> {
        // Z2 (hazards-F63).
        if rt::mutant(Mutant::F2fsjCutUnmarked) {
            return Ok(());
        }
        let from = {
            let mut core = inode.core();
            let advise = &mut core.fields.advise;
            if advise.has(Advise::TRUNC) == more {
                return Ok(());
            }
            advise.0 ^= Advise::TRUNC.0;
            core.changed();
            match more {
                true => core.fields.size.div_ceil(BLOCK),
                false => u64::MAX,
            }
        };
        if let Some(tx) = op.tx() {
            tx.log(inode.nid(), &Record::Trunc { from });
        }
        Ok(())
    }

    /// Frees what lies behind the end of a file whose truncation a cut has interrupted (Z2), if it
    /// is one. The gate is held, no `Op`.
    ///
    /// # Errors
    /// I/O; damage; the mount is latched.
    pub(crate) fn continue_truncate(&self, inode: &Inode) -> FsResult<()> {
        {
            let core = inode.core();
            let waits = core.fields.advise.has(Advise::TRUNC) && core.fields.is_regular();
            if !waits || core.gone {
                return Ok(());
            }
        }
        self.truncate_rest(inode, Ok(()))
    }

    /// The operations behind the first one. `damage` is what that one met.
    fn truncate_rest(&self, inode: &Inode, mut damage: FsResult<()>) -> FsResult<()> {
        loop {
            self.balance()?;
            let cut = self.with_op(|op| {
                let _wb = inode.wb.lock();
                let _ = self.land(inode);
                // Cleaning may have read some of them.
                let from = inode.core().fields.size.div_ceil(BLOCK);
                self.pages.drop_range(inode.ino, from..u64::MAX);
                let cut = self.truncate_step(op, inode, &mut inode.tree.lock(), from);
                let put = self.mark_cut(op, inode, cut.more);
                put.and_then(|()| self.put_inode(op, inode))?;
                Ok::<_, FsError>(cut)
            })?;
            damage = damage.and(cut.result);
            if !cut.more {
                return damage;
            }
        }
    }

    /// Frees content of an inode that the same `Op` frees behind it (without its gate, because no
    /// other task can reach the inode): all of it, or with `bounded` as much as one operation may
    /// log. True if there is more; then the inode stays.
    pub(crate) fn drop_content(&self, op: &Op<'_>, inode: &Inode, bounded: bool) -> FsResult<bool> {
        let wb = inode.wb.lock();
        self.drop_content_within(op, inode, bounded, &wb)
    }

    /// As [`drop_content`](Self::drop_content), where the caller holds `wb`.
    pub(crate) fn drop_content_within(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        bounded: bool,
        _wb: &Held<'_>,
    ) -> FsResult<bool> {
        self.forget_pending(inode);
        // What failed is given up with the rest.
        let _ = self.land(inode);
        if let Some((journal, tx)) = self.journal.as_ref().zip(op.tx())
            && inode.is_dir()
        {
            journal.stamps.drop_all(inode.ino, tx.epoch());
        }
        self.pages.drop_range(inode.ino, 0..u64::MAX);
        if !self.has_map(inode) {
            return Ok(false);
        }
        rt::charge(cost::DROP_MAP);
        let cut = self.drop_map(op, inode, &mut inode.tree.lock(), bounded);
        cut.result.map(|()| cut.more)
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
