//! Changing the size of a file.
//!
//! Shrinking takes many transactions if need be. The first one sets the size and makes the inode an
//! orphan, so that a mount after a crash continues the truncation; the last one ends the orphan
//! state.

use crate::Ext4;
use crate::extent::{Aim, STEP_CREDITS, Step};
use crate::fault;
use crate::file::writeback::Way;
use crate::inode::Inode;
use crate::map::Span;
use crate::tx::Tx;
use base::{BlockNo, Bytes};
use fscore::{Errno, FsResult, Home};

/// The orphan's inode; and a block of the orphan file or, on the list of orphans, the superblock
/// and the neighbour.
pub(crate) const ORPHAN_CREDITS: u32 = 3;

impl Ext4 {
    /// Sets the size of a file. The gate is held exclusively.
    pub(crate) fn set_file_size(&self, inode: &Inode, size: u64) -> FsResult<()> {
        if size > self.size_max_of(inode) {
            return Err(Errno::FBig.into());
        }
        if inode.is_inline() && self.resize_inline(inode, size)? {
            return Ok(());
        }
        self.close_window_of(inode);
        let old = inode.core().size;
        if size > old || size == old && !self.maps_beyond(inode, size)? {
            return self.extend_file(inode, size);
        }
        self.settle_tail(inode, size)?;
        let _wb = inode.wb.lock();
        self.land_flights(inode);
        let zeroed = self.zero_tail(inode, size)?;
        let dropped = self
            .pages
            .drop_range(inode.ino, size.div_ceil(self.block())..u64::MAX);
        self.drop_promise(inode, dropped);
        self.transact(ORPHAN_CREDITS, |tx| {
            self.orphan_add(tx, inode)?;
            if zeroed {
                self.submit_ordered(tx, inode, size / self.block(), false)?;
            }
            {
                let mut core = inode.core();
                core.set_size(size);
                core.touch(true);
                core.datasync_tid = tx.tid();
            }
            tx.tell_of(self, inode);
            self.put_inode(tx, inode)
        })?;
        self.finish_truncate(inode, size)
    }

    /// Writes back the delayed pages before a new end that lie in the same cluster as what is cut
    /// off, because the cluster may be freed with that (promise-B6). The gate is held exclusively.
    fn settle_tail(&self, inode: &Inode, size: u64) -> FsResult<()> {
        let (unit, end) = (self.cluster_len(1), size.div_ceil(self.block()));
        let first = end - end % unit;
        if first == end || self.pages.delayed(inode.ino) == 0 {
            return Ok(());
        }
        self.write_pages(inode, first..end, Way::BACKGROUND)
            .map(drop)
    }

    /// True if blocks lie beyond the end of the file. fallocate can put blocks there without
    /// changing the size, and truncating to the same size frees them.
    fn maps_beyond(&self, inode: &Inode, size: u64) -> FsResult<bool> {
        if !inode.core().has_extents() {
            return Ok(false);
        }
        let _tree = inode.tree.read();
        let path = self.find_path(inode, Aim::Last)?;
        let last = path.leaf().last();
        Ok(last.is_some_and(|e| e.logical_end() > size.div_ceil(self.block())))
    }

    /// Makes a file longer. No block is mapped: the new part is a hole.
    fn extend_file(&self, inode: &Inode, size: u64) -> FsResult<()> {
        self.transact(1, |tx| {
            {
                let mut core = inode.core();
                if size > core.size {
                    core.set_size(size);
                }
                core.touch(true);
            }
            tx.tell_of(self, inode);
            self.put_inode(tx, inode)
        })
    }

    /// Frees what lies beyond `size`, and ends the orphan state of the inode. The times stay as the
    /// first transaction of the truncation set them, also when a mount finishes it: e2fsck leaves
    /// them alone as well, and the clock of that mount may be behind them.
    pub(crate) fn finish_truncate(&self, inode: &Inode, size: u64) -> FsResult<()> {
        self.transact(STEP_CREDITS + ORPHAN_CREDITS, |tx| {
            let from = size.div_ceil(self.block());
            while self.remove_some(tx, inode, from)? == Step::More {
                inode.core().datasync_tid = tx.tid();
                self.put_inode(tx, inode)?;
                tx.tell_of(self, inode);
                tx.ensure(STEP_CREDITS + ORPHAN_CREDITS)?;
            }
            if inode.core().disk.links() > 0 {
                self.orphan_del(tx, inode)?;
            }
            tx.tell_of(self, inode);
            self.put_inode(tx, inode)
        })
    }

    /// After a crash: zeroes the last block behind the end, in case the system that began the
    /// truncation did not come to it (ext4 of Linux does so in a later transaction than the new
    /// size; here it is ordered data of the same). Else the file would show what was cut off as
    /// soon as it grows again. A block that has zeros there is not written, because a cut of the
    /// write may damage it. `wb` is held.
    pub(crate) fn finish_tail(&self, inode: &Inode, size: u64) -> FsResult<()> {
        let (index, at) = (size / self.block(), (size % self.block()) as usize);
        if at == 0 || !inode.core().disk.is_regular() {
            return Ok(());
        }
        let Span::Data { start, .. } = self.lookup_span(inode, index as u32, 1)? else {
            return Ok(());
        };
        // Recovery has brought all content home, and nothing was written since, so the device has
        // the newest content.
        let block = self.read_data(inode, start, 1)?;
        if (block.iter()).all(|block| base::bytes::is_zero(&block[at..]))
            || !self.zero_tail(inode, size)?
        {
            return Ok(());
        }
        self.transact(1, |tx| self.submit_ordered(tx, inode, index, false))
    }

    /// Frees a part of what lies at or beyond block `from`, from the end.
    pub(crate) fn remove_some(&self, tx: &mut Tx<'_>, inode: &Inode, from: u64) -> FsResult<Step> {
        let has_extents = inode.core().has_extents();
        if has_extents {
            self.remove_last(tx, inode, from)
        } else {
            self.trim_block_map(tx, inode, from..u64::MAX)
        }
    }

    /// Zeroes the last page from the new end on. `wb` is held. True if a page has to be written
    /// because of that.
    fn zero_tail(&self, inode: &Inode, size: u64) -> FsResult<bool> {
        let (index, at) = (size / self.block(), (size % self.block()) as usize);
        if at == 0 {
            return Ok(false);
        }
        let state = self.pages.state(inode.ino, index);
        let known = state.is_some_and(|s| s.home != Home::Unknown);
        let span = self.lookup_span(inode, index as u32, 1)?;
        let mapped = matches!(span, Span::Data { .. });
        if !known && !mapped {
            // A hole or an unwritten block reads as zeros already, cached or not.
            return Ok(false);
        }
        if let Span::Data { start, .. } = span
            && self.may_revoke(inode, start, 1)
        {
            self.zero_journaled_tail(inode, start, index, at)?;
            return Ok(false);
        }
        let base = match self.pages.get(inode.ino, index) {
            Some(page) => page,
            None => self.fill(inode, index, index + 1)?,
        };
        let zeros = &self.zero_page()[..self.block_size.bytes() - at];
        self.pages
            .write(inode.ino, index, at, zeros, &base, Home::Known);
        Ok(mapped)
    }

    fn zero_journaled_tail(
        &self,
        inode: &Inode,
        start: BlockNo,
        index: u64,
        at: usize,
    ) -> FsResult<()> {
        let page = match self.pages.get(inode.ino, index) {
            Some(page) => page,
            None => self.journal.read(start).map_err(fault::journal)?,
        };
        let mut page = page.to_vec();
        page[at..].fill(0);
        let page = Bytes::from(page);
        self.transact(1, |tx| tx.write_data(start, page.clone()))?;
        self.pages.drop_range(inode.ino, index..index + 1);
        self.pages.fill(inode.ino, index, page, Home::Known);
        Ok(())
    }
}
