//! fallocate on ranges that a file already has: punching holes, zeroing, collapsing and inserting
//! ranges.
//!
//! - Z1 `wb` is held from dropping the pages of a range to the last change of its mapping, and no
//!   page of the file is on its way to the device (file-F3);
//! - Z2 content before and behind a range is not touched: pages that the range covers in part are
//!   zeroed in the cache, as by a write;
//! - Z3 a range is worked off in handles that are extended while the journal has room: small
//!   changes are atomic, large ones can be cut in between (in Linux, too), each part with a whole
//!   tree;
//! - Z4 no page is delayed when a range is worked off (promise-B3): write-back has told the device
//!   the size, and a range that drops the last page of the file takes no size along
//!   (ext4-inode-N2).

use super::writeback::{MAP_CREDITS, Way};
use crate::Ext4;
use crate::cluster::AtOnce;
use crate::extent::{CUT_CREDITS, SHIFT_CREDITS, STEP_CREDITS, Step};
use crate::inode::Inode;
use crate::map::Span;
use crate::space::Right;
use crate::tx::Tx;
use fscore::{Errno, FsResult, Home};
use ondisk::ext4::EXTENT_UNWRITTEN_LEN_MAX;
use std::ops::Range;

impl Ext4 {
    /// Frees the blocks of a range; it reads as zeros. The gate is held exclusively.
    pub(super) fn punch(&self, inode: &Inode, range: Range<u64>) -> FsResult<()> {
        let size = inode.core().size;
        // As in Linux, blocks behind the end of the file are left alone.
        let range = range.start..range.end.min(size.next_multiple_of(self.block()));
        if range.is_empty() {
            return Ok(());
        }
        let _wb = inode.wb.lock();
        let blocks = self.blank_pages(inode, &range, size)?;
        let by_map = !inode.core().has_extents();
        self.transact(CUT_CREDITS.max(STEP_CREDITS) + 1, |tx| {
            match by_map {
                true => self.trim_range(tx, inode, blocks)?,
                false => tx.by(Right::Owed, |tx| self.cut_range(tx, inode, blocks))?,
            }
            self.note_reshaped(tx, inode, None)
        })
    }

    /// Frees the blocks of a range of a file with a block map.
    fn trim_range(&self, tx: &mut Tx<'_>, inode: &Inode, blocks: Range<u64>) -> FsResult<()> {
        while self.trim_block_map(tx, inode, blocks.clone())? == Step::More {
            inode.core().datasync_tid = tx.tid();
            self.put_inode(tx, inode)?;
            tx.ensure(STEP_CREDITS + 1)?;
        }
        Ok(())
    }

    /// Makes a range read as zeros and keep, or get, its blocks. The gate is held exclusively.
    pub(super) fn zero_range(
        &self,
        inode: &Inode,
        range: Range<u64>,
        keep_size: bool,
    ) -> FsResult<()> {
        let size = inode.core().size;
        let grown = (!keep_size && range.end > size).then_some(range.end);
        let whole = {
            let _wb = inode.wb.lock();
            self.blank_pages(inode, &range, size)?
        };
        let (mut lblk, last) = (range.start / self.block(), range.end.div_ceil(self.block()));
        while lblk < last {
            let some = || self.blank_some(inode, lblk..last, &whole);
            lblk += u64::from(self.with_room(some)?);
        }
        self.transact(1, |tx| self.note_reshaped(tx, inode, grown))
    }

    /// Maps the front of a hole, or makes a written extent within `whole` unwritten. Answers how
    /// many blocks.
    fn blank_some(&self, inode: &Inode, blocks: Range<u64>, whole: &Range<u64>) -> FsResult<u32> {
        let wb = inode.wb.lock();
        let (lblk, most) = (blocks.start, u64::from(EXTENT_UNWRITTEN_LEN_MAX));
        let want = (blocks.end - lblk).min(most) as u32;
        let len = match self.lookup_span(inode, lblk as u32, want)? {
            Span::Unwritten { len, .. } => return Ok(len),
            Span::Hole { .. } => {
                drop(wb);
                return self.allocate_some(inode, lblk as u32, blocks.end - lblk);
            }
            Span::Data { len, .. } => len,
        };
        if lblk < whole.start {
            // The range covers this block in part only; that part was zeroed in the cache.
            return Ok(len.min((whole.start - lblk) as u32));
        }
        if lblk >= whole.end {
            return Ok(len);
        }
        let len = len.min((whole.end - lblk) as u32);
        self.transact(MAP_CREDITS, |tx| {
            let _tree = inode.tree.write();
            self.convert_unwritten(tx, inode, lblk as u32, len)?;
            inode.core().datasync_tid = tx.tid();
            self.put_inode(tx, inode)
        })?;
        Ok(len)
    }

    /// Takes a range out of a file; what lies behind it moves forward. The gate is held
    /// exclusively.
    pub(super) fn collapse(&self, inode: &Inode, range: Range<u64>) -> FsResult<()> {
        let size = inode.core().size;
        if range.end >= size {
            return Err(Errno::Inval.into());
        }
        let (from, to) = (range.start / self.block(), range.end / self.block());
        self.reshape(inode, (from, to), |tx, at_once| {
            tx.right = Right::Owed;
            self.promise_steps(tx, at_once.map_or(1, |all| all.splits))?;
            self.cut_range(tx, inode, from..to)?;
            if let Some(all) = at_once {
                tx.ensure(all.credits)?;
            }
            let mut next = to;
            loop {
                if at_once.is_none() {
                    tx.ensure(SHIFT_CREDITS)?;
                }
                let shift = (to - from) as u32;
                let Some(behind) = self.shift_down(tx, inode, next, shift)? else {
                    break;
                };
                next = behind;
                inode.core().datasync_tid = tx.tid();
                self.put_inode(tx, inode)?;
            }
            inode.core().set_size(size - (range.end - range.start));
            self.note_reshaped(tx, inode, None)
        })
    }

    /// Makes a hole in a file; what lies there moves back. The gate is held exclusively.
    pub(super) fn insert(&self, inode: &Inode, range: Range<u64>) -> FsResult<()> {
        let (size, len) = {
            let core = inode.core();
            (core.size, range.end - range.start)
        };
        if range.start >= size {
            return Err(Errno::Inval.into());
        }
        let last = self.last_mapped(inode)?.unwrap_or(0);
        let most = crate::extent::size_max(self.block_size);
        if size.checked_add(len).is_none_or(|end| end > most)
            || last + len / self.block() >= most / self.block()
        {
            return Err(Errno::FBig.into());
        }
        let (from, shift) = (range.start / self.block(), (len / self.block()) as u32);
        self.reshape(inode, (from, from), |tx, at_once| {
            // A full disk is noticed before anything is changed.
            self.promise_steps(tx, at_once.map_or(1, |all| all.splits))?;
            if let Some(all) = at_once {
                tx.ensure(all.credits)?;
            }
            inode.core().set_size(size + len);
            let mut bound = 1 << 32;
            loop {
                if at_once.is_none() {
                    tx.ensure(SHIFT_CREDITS)?;
                }
                let Some(start) = self.shift_up(tx, inode, from, bound, shift)? else {
                    break;
                };
                bound = start;
                inode.core().datasync_tid = tx.tid();
                self.put_inode(tx, inode)?;
            }
            self.note_reshaped(tx, inode, None)
        })
    }

    /// Runs `work`, which changes what lies at or behind block `from`, after all pages from there
    /// on were written and dropped from the cache (Z1). It moves what lies at or behind block
    /// `moved`, and learns whether that has to be in one handle (cluster-C7).
    fn reshape<'f>(
        &'f self,
        inode: &Inode,
        (from, moved): (u64, u64),
        work: impl FnOnce(&mut Tx<'f>, Option<AtOnce>) -> FsResult<()>,
    ) -> FsResult<()> {
        self.close_window_of(inode);
        self.write_pages(inode, 0..u64::MAX, Way::AWAITED)?;
        let _wb = inode.wb.lock();
        self.land_flights(inode);
        let dropped = self.pages.drop_range(inode.ino, from..u64::MAX);
        self.drop_promise(inode, dropped);
        let at_once = self.moved_at_once(inode, moved)?;
        self.transact(CUT_CREDITS.max(SHIFT_CREDITS) + 1, |tx| work(tx, at_once))
    }

    /// Frees what is mapped within `blocks`.
    fn cut_range(&self, tx: &mut Tx<'_>, inode: &Inode, blocks: Range<u64>) -> FsResult<()> {
        let mut next = blocks.start;
        // The loop ends because each turn moves on.
        while let Some(behind) = self.cut_some(tx, inode, next..blocks.end)? {
            next = behind;
            inode.core().datasync_tid = tx.tid();
            self.put_inode(tx, inode)?;
            // Z3.
            tx.ensure(CUT_CREDITS + 1)?;
        }
        Ok(())
    }

    /// Drops the pages that a range covers and zeroes the covered parts of the pages at its ends
    /// (Z2). Answers the blocks that it covers whole. `wb` is held.
    fn blank_pages(&self, inode: &Inode, range: &Range<u64>, size: u64) -> FsResult<Range<u64>> {
        self.close_window_of(inode);
        self.land_flights(inode);
        let first = range.start.div_ceil(self.block());
        let whole = first..(range.end / self.block()).max(first);
        let ends = match range.start / self.block() == range.end / self.block() {
            true => [range.clone(), 0..0],
            false => [
                range.start..first * self.block(),
                range.end / self.block() * self.block()..range.end,
            ],
        };
        for part in ends {
            self.zero_part(inode, part.start..part.end.min(size))?;
        }
        let dropped = self.pages.drop_range(inode.ino, whole.clone());
        self.drop_promise(inode, dropped);
        Ok(whole)
    }

    /// Writes zeros to part of one page, unless it reads as zeros anyway.
    fn zero_part(&self, inode: &Inode, part: Range<u64>) -> FsResult<()> {
        if part.is_empty() {
            return Ok(());
        }
        let (index, at) = (
            part.start / self.block(),
            (part.start % self.block()) as usize,
        );
        let zeros = &self.zero_page()[..(part.end - part.start) as usize];
        let state = self.pages.state(inode.ino, index);
        let known = state.is_some_and(|s| s.home != Home::Unknown);
        let mapped = matches!(self.lookup_span(inode, index as u32, 1)?, Span::Data { .. });
        if !known && !mapped {
            return Ok(());
        }
        if self.logs_data(inode) {
            return self.write_journaled(inode, part.start, zeros).map(drop);
        }
        let base = match self.pages.get(inode.ino, index) {
            Some(page) => page,
            None => self.fill(inode, index, index + 1)?,
        };
        self.pages
            .write(inode.ino, index, at, zeros, &base, Home::Known);
        Ok(())
    }

    /// Sets the times, and the size if it has grown.
    fn note_reshaped(&self, tx: &mut Tx<'_>, inode: &Inode, grown: Option<u64>) -> FsResult<()> {
        {
            let mut core = inode.core();
            core.touch(true);
            if let Some(size) = grown {
                core.grow(size);
            }
            core.sync_tid = tx.tid();
            core.datasync_tid = tx.tid();
        }
        self.put_inode(tx, inode)
    }
}
