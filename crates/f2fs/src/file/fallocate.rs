//! `fallocate`: reserves blocks ahead of writes, punches holes, zeroes ranges.
//!
//! - A1 the size grows in the operation that completes the range. A range for which there is too
//!   little room leaves the size as it was, where Linux lets it grow by what was done: nobody has
//!   to take a size back, under which others might write by then, and the kernel of a mount, which
//!   learns no size from a request that fails, knows the right one. Until then its blocks are
//!   behind the end, and marked as meant (`FADVISE_KEEP_SIZE`) by the operation that reserves them:
//!   a checkpoint may come between two operations, and roll-forward takes blocks that are not
//!   meant for content. The last operation takes the mark away, unless it was there before.

use super::inline::is_inline;
use super::writeback::Held;
use super::{BATCH_PAGES, BLOCK};
use crate::F2fs;
use crate::inode::Inode;
use crate::journal::OP_MAX;
use crate::ops::Op;
use crate::segs::Owned;
use base::{BLOCK_BYTES, Ino};
use fscore::{Errno, FallocateMode, FsResult};
use ondisk::f2fs::{Advise, BlockAddr};
use std::ops::Range;

/// What a part of a range that has been worked off does to the end of the file.
#[derive(Clone, Copy)]
enum End {
    /// The range is completed up to this byte: the file is at least so long (A1). With `unmark`
    /// only this range meant blocks behind the end.
    Grown { end: u64, unmark: bool },
    /// Blocks up to this byte are meant, also behind the end.
    Meant(u64),
    /// Nothing; more parts of the range follow, or none lies behind the end.
    Open,
}

/// What becomes of the size.
#[derive(Clone, Copy)]
enum Grow {
    /// It stays.
    Never,
    /// It grows at the end of the range, and then the mark goes with `unmark`.
    Size { unmark: bool },
}

impl Grow {
    /// As the caller wants it for this file, before anything is reserved.
    fn of(inode: &Inode, grow: bool) -> Grow {
        let unmark = !inode.core().fields.advise.has(Advise::KEEP_SIZE);
        match grow {
            true => Grow::Size { unmark },
            false => Grow::Never,
        }
    }
}

impl End {
    /// After the pages before `done` of `range` have been worked off, which may grow the file as
    /// `grow` says.
    fn after(done: u64, range: &Range<u64>, grow: Grow) -> End {
        let end = (done * BLOCK).min(range.end);
        match grow {
            Grow::Size { unmark } if end == range.end => End::Grown { end, unmark },
            _ if end > range.start => End::Meant(end),
            _ => End::Open,
        }
    }
}

impl F2fs {
    /// `FileSystem::fallocate`, except for the modes that move content (`shift`). Takes the gate.
    /// Blocks are reserved and not allocated, as the kernel does for files that are not pinned.
    pub(crate) fn fallocate_file(
        &self,
        ino: Ino,
        mode: FallocateMode,
        offset: u64,
        len: u64,
    ) -> FsResult<()> {
        if len == 0 {
            return Err(Errno::Inval.into());
        }
        let end = self.check_end(offset, len)?;
        let inode = self.inode(ino)?;
        self.balance()?;
        let _gate = inode.gate.write();
        self.check_shapeable(&inode)?;
        match mode {
            FallocateMode::Allocate | FallocateMode::KeepSize => inode.check_not_immutable()?,
            _ => inode.check_not_guarded()?,
        }
        self.continue_truncate(&inode)?;
        self.leave_inline_now(&inode)?;
        match mode {
            FallocateMode::Allocate => self.reserve_range(&inode, offset..end, true),
            FallocateMode::KeepSize => self.reserve_range(&inode, offset..end, false),
            FallocateMode::PunchHole => self.punch(&inode, offset..end),
            FallocateMode::ZeroRange => self.zero_range(&inode, offset..end, true),
            FallocateMode::ZeroRangeKeepSize => self.zero_range(&inode, offset..end, false),
            FallocateMode::CollapseRange | FallocateMode::InsertRange | FallocateMode::Unshare => {
                Err(Errno::NotSup.into())
            }
        }
    }

    /// A regular file without an open atomic write.
    pub(super) fn check_shapeable(&self, inode: &Inode) -> FsResult<()> {
        let core = inode.core();
        let errno = match &core {
            c if c.gone => Errno::Stale,
            c if c.fields.is_dir() => Errno::IsDir,
            c if !c.fields.is_regular() => Errno::NotSup,
            c if c.atomic_size.is_some() => Errno::Busy,
            _ => return Ok(()),
        };
        Err(errno.into())
    }

    pub(super) fn leave_inline_now(&self, inode: &Inode) -> FsResult<()> {
        if is_inline(&inode.core()) {
            self.with_op(|op| self.leave_inline(op, inode))?;
        }
        Ok(())
    }

    /// Gives every hole of the range a reserved block, batch by batch; the size follows at the end
    /// if it may `grow`.
    fn reserve_range(&self, inode: &Inode, range: Range<u64>, grow: bool) -> FsResult<()> {
        let grow = Grow::of(inode, grow);
        self.each_batch(&range, |op, pages| {
            // Write-back raises the size, too: with a journal it waits (f2fs-journal-I4).
            let _wb = self.journal.is_some().then(|| inode.wb.lock());
            let mut outcome = Ok(());
            let mut done = pages.start;
            while done < pages.end && outcome.is_ok() {
                let most = pages.end - done;
                match self.reserve_run(op, inode, &mut inode.tree.lock(), done, most) {
                    Ok(pages) => done += pages,
                    Err(e) => outcome = Err(e),
                }
            }
            self.reshaped(op, inode, End::after(done, &range, grow))?;
            outcome
        })
    }

    /// After a part of a range has been worked off: times, and what `end` says. `wb` is held.
    fn reshaped(&self, op: &Op<'_>, inode: &Inode, end: End) -> FsResult<()> {
        let clean = !self.pages.is_dirty(inode.ino);
        let mut settled = clean;
        {
            let mut core = inode.core();
            match end {
                End::Grown { end, unmark } => {
                    if unmark {
                        core.fields.advise.0 &= !Advise::KEEP_SIZE.0;
                    }
                    if end > core.fields.size {
                        core.fields.size = end;
                        settled = true;
                    }
                }
                End::Meant(end) if end > core.fields.size => {
                    core.fields.advise = core.fields.advise | Advise::KEEP_SIZE;
                }
                End::Meant(_) | End::Open => {}
            }
            core.changed();
            core.touch(true);
        }
        if settled {
            // The size was set by the caller, or no page is left whose write-back would log it.
            self.put_size(op, inode)?;
        }
        self.put_inode(op, inode)
    }

    /// Runs `work` on the pages that `range` (bytes) touches, one `Op` for each batch.
    fn each_batch(
        &self,
        range: &Range<u64>,
        mut work: impl FnMut(&Op<'_>, Range<u64>) -> FsResult<()>,
    ) -> FsResult<()> {
        let (mut from, last) = (range.start / BLOCK, range.end.div_ceil(BLOCK));
        while from < last {
            let to = last.min(from + self.batch_pages());
            self.balance_between()?;
            self.with_op(|op| work(op, from..to))?;
            from = to;
        }
        Ok(())
    }

    /// Pages that one `Op` reserves, blanks or frees: a segment, as each logs up to 28 bytes; fewer
    /// if the ring is small.
    pub(super) fn batch_pages(&self) -> u64 {
        (BATCH_PAGES * self.op_max() / OP_MAX) as u64
    }

    /// Zeroes the ends of `range` that are parts of pages; answers the pages between them.
    fn zero_ends(&self, inode: &Inode, range: &Range<u64>) -> FsResult<Range<u64>> {
        let whole = range.start.div_ceil(BLOCK)..range.end / BLOCK;
        let (head, tail) = ((range.start % BLOCK) as usize, (range.end % BLOCK) as usize);
        if whole.start > whole.end {
            // Both ends in one page.
            self.zero_part(inode, whole.end, head, tail - head)?;
            return Ok(0..0);
        }
        if head > 0 {
            self.zero_part(inode, whole.start - 1, head, BLOCK_BYTES - head)?;
        }
        if tail > 0 {
            self.zero_part(inode, whole.end, 0, tail)?;
        }
        Ok(whole)
    }

    fn punch(&self, inode: &Inode, range: Range<u64>) -> FsResult<()> {
        let whole = self.zero_ends(inode, &range)?;
        let _ = self.land(inode);
        let mut punched = Ok(());
        for part in self.punch_parts(whole) {
            self.balance_between()?;
            let done = self.with_op(|op| {
                let wb = inode.wb.lock();
                let done = self.punch_held(op, inode, part, &wb);
                self.reshaped(op, inode, End::Open).map(|()| done)
            })?;
            punched = punched.and(done);
        }
        punched
    }

    /// What is punched in one `Op`: everything; with a journal as much as one may log. At least one
    /// part.
    pub(super) fn punch_parts(
        &self,
        pages: Range<u64>,
    ) -> impl Iterator<Item = Range<u64>> + use<> {
        let each = match self.journal {
            Some(_) => self.batch_pages(),
            None => u64::MAX,
        };
        let mut from = Some(pages.start);
        std::iter::from_fn(move || {
            let first = from?;
            let end = pages.end.min(first.saturating_add(each));
            from = (end < pages.end).then_some(end);
            Some(first..end)
        })
    }

    /// Drops pages and frees their blocks.
    pub(super) fn punch_pages(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        pages: Range<u64>,
    ) -> FsResult<()> {
        let wb = inode.wb.lock();
        self.punch_held(op, inode, pages, &wb)
    }

    /// Punches a hole for a caller that already holds `wb`.
    pub(super) fn punch_held(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        pages: Range<u64>,
        _wb: &Held<'_>,
    ) -> FsResult<()> {
        if pages.is_empty() {
            return Ok(());
        }
        if self.pages.is_busy(inode.ino, pages.clone()) {
            let _ = self.land(inode);
        }
        self.pages.drop_range(inode.ino, pages.clone());
        self.punch_map(op, inode, &mut inode.tree.lock(), pages.start, pages.end)
    }

    /// Blocks of whole pages are exchanged for reserved ones: they read as zeros at once, and
    /// nothing is written.
    fn zero_range(&self, inode: &Inode, range: Range<u64>, grow: bool) -> FsResult<()> {
        let whole = self.zero_ends(inode, &range)?;
        let _ = self.land(inode);
        let grow = Grow::of(inode, grow);
        self.each_batch(&range, |op, pages| {
            let mut outcome = Ok(());
            let mut done = pages.start;
            let _wb = inode.wb.lock();
            let _ = self.land(inode);
            while done < pages.end && outcome.is_ok() {
                outcome = self.blank_page(op, inode, done, whole.contains(&done));
                done += u64::from(outcome.is_ok());
            }
            self.reshaped(op, inode, End::after(done, &range, grow))?;
            outcome
        })
    }

    /// Makes a page a reserved one, if `whole`; else only sees that it has a block. `wb` is held.
    fn blank_page(&self, op: &Op<'_>, inode: &Inode, index: u64, whole: bool) -> FsResult<()> {
        let mut tree = inode.tree.lock();
        let slot = self.reserve(op, inode, &mut tree, index)?;
        if !whole {
            return Ok(());
        }
        self.pages.drop_range(inode.ino, index..index + 1);
        if slot.addr.is_data() {
            self.set_slot(op, inode, &mut tree, index, &slot, BlockAddr::NEW)?;
            self.invalidate_all(op, Owned::by(inode.nid(), false), &[slot.addr])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::mkfs::{DeviceContent, Options, plan};
    use block::Queue;
    use blockdev::Ram;
    use fscore::FileSystem;
    use std::sync::Arc;
    use testkit::Brief;

    /// More than one operation reserves.
    const LONG: u64 = 10 << 20;

    fn mounted(ram: &Arc<Ram>) -> Arc<F2fs> {
        F2fs::mount(Queue::new(ram.clone()), MountOptions::default()).expect("mounts")
    }

    /// A1: a range that has been completed leaves no mark, also on the medium, unless one was there
    /// before.
    #[test]
    fn a_completed_range_means_no_blocks_behind_the_end() {
        for mode in [FallocateMode::Allocate, FallocateMode::ZeroRange] {
            for meant_before in [false, true] {
                let bytes = 128 << 20;
                let ram = Arc::new(Ram::new(bytes));
                let volume = plan(&Options::new(bytes, [7; 16], testkit::brief::MADE));
                let device = Queue::new(ram.clone());
                let written = volume
                    .expect("a volume")
                    .write(&device, DeviceContent::Zeros);
                written.expect("room");
                let fs = mounted(&ram);
                let ino = fs.file("f");
                if meant_before {
                    let kept = fs.fallocate(ino, FallocateMode::KeepSize, 0, 3 * LONG);
                    kept.expect("room");
                }
                assert!(LONG / BLOCK > fs.batch_pages(), "several operations");
                fs.fallocate(ino, mode, 0, LONG).expect("room");
                let marked = |fs: &F2fs| {
                    let inode = fs.inode(ino).expect("there");
                    let core = inode.core();
                    assert_eq!(core.fields.size, LONG);
                    core.fields.advise.has(Advise::KEEP_SIZE)
                };
                assert_eq!(marked(&fs), meant_before, "A1: {mode:?}");
                fs.unmount().expect("unmounts");
                let fs = mounted(&ram);
                assert_eq!(marked(&fs), meant_before, "A1: {mode:?}, on the medium");
                fs.unmount().expect("unmounts");
            }
        }
    }
}
