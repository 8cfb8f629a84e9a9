//! Collapsing and inserting ranges (`FALLOC_FL_COLLAPSE_RANGE`, `FALLOC_FL_INSERT_RANGE`): pages
//! are copied to their new places.
//!
//! Each batch of copies is written out of place, within its own `Op` (file-D4). So after a cut the
//! pages up to some page have their new places and those behind it the old ones (or the other way
//! round, by the direction of the shift), and no page was overwritten by another page whose copy
//! was lost.

use super::{BATCH_PAGES, BLOCK, Why};
use crate::F2fs;
use crate::inode::Inode;
use crate::ops::Op;
use base::{Bytes, Ino};
use fscore::{Errno, FsResult, Home};
use ondisk::f2fs::BlockAddr;
use std::ops::Range;

impl F2fs {
    /// Removes `offset..offset + len` from a file; what lies behind it moves forward. Both have to
    /// be multiples of 4096.
    ///
    /// # Errors
    /// EINVAL if they are not, or the range reaches the end of the file; those of `fallocate`.
    pub fn collapse_range(&self, ino: Ino, offset: u64, len: u64) -> FsResult<()> {
        self.shaping(ino, offset, len, |inode, size| {
            if offset.checked_add(len).is_none_or(|end| end >= size) {
                return Err(Errno::Inval.into());
            }
            let shift = len / BLOCK;
            let mut to = offset / BLOCK;
            let end = size.div_ceil(BLOCK) - shift;
            while to < end {
                let next = end.min(to + self.shift_pages());
                self.copy_pages(inode, to + shift, to..next)?;
                to = next;
            }
            self.set_size(inode, size - len)
        })
    }

    /// Inserts a hole of `len` bytes at `offset`; what lies there moves back. Both have to be
    /// multiples of 4096.
    ///
    /// # Errors
    /// EINVAL if they are not, or `offset` is not in the file; EFBIG; those of `fallocate`.
    pub fn insert_range(&self, ino: Ino, offset: u64, len: u64) -> FsResult<()> {
        self.shaping(ino, offset, len, |inode, size| {
            if offset >= size {
                return Err(Errno::Inval.into());
            }
            self.check_end(size, len)?;
            self.set_size(inode, size + len)?;
            let (start, shift) = (offset / BLOCK, len / BLOCK);
            let mut end = size.div_ceil(BLOCK);
            while end > start {
                let from = start.max(end.saturating_sub(self.shift_pages()));
                self.copy_pages(inode, from, from + shift..end + shift)?;
                end = from;
            }
            self.punch_parts(start..start + shift).try_for_each(|part| {
                self.balance_between()?;
                self.with_op(|op| {
                    self.punch_pages(op, inode, part)?;
                    self.put_inode(op, inode)
                })
            })
        })
    }

    /// Pages of a batch. With a journal each logs up to 72 bytes: reserved, written, its old block
    /// freed.
    fn shift_pages(&self) -> u64 {
        match self.journal {
            Some(_) => self.batch_pages() / 2,
            None => BATCH_PAGES as u64,
        }
    }

    fn shaping(
        &self,
        ino: Ino,
        offset: u64,
        len: u64,
        work: impl FnOnce(&Inode, u64) -> FsResult<()>,
    ) -> FsResult<()> {
        self.guarded(|| {
            self.check_writable()?;
            if len == 0 || !offset.is_multiple_of(BLOCK) || !len.is_multiple_of(BLOCK) {
                return Err(Errno::Inval.into());
            }
            let inode = self.inode(ino)?;
            self.balance()?;
            let _gate = inode.gate.write();
            self.check_shapeable(&inode)?;
            inode.check_not_guarded()?;
            self.continue_truncate(&inode)?;
            self.leave_inline_now(&inode)?;
            let size = inode.core().fields.size;
            work(&inode, size)
        })
    }

    /// Gives the pages `to` what lies from page `from` on; holes stay holes. At most one batch.
    fn copy_pages(&self, inode: &Inode, from: u64, to: Range<u64>) -> FsResult<()> {
        self.balance()?;
        let mut pages = Vec::with_capacity((to.end - to.start) as usize);
        for i in 0..to.end - to.start {
            let hole = self.addr_of(inode, from + i)? == BlockAddr::NULL;
            pages.push(match hole {
                true => None,
                false => Some(self.base_of(inode, from + i)?),
            });
        }
        let _ = self.land(inode);
        self.with_op(|op| self.put_pages(op, inode, to, pages))
    }

    /// Makes `pages` those of `to`; `None` is a hole.
    fn put_pages(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        to: Range<u64>,
        pages: Vec<Option<Bytes>>,
    ) -> FsResult<()> {
        // Held until the pages are sent, because another task would send them in place.
        let wb = inode.wb.lock();
        for (index, page) in to.clone().zip(pages) {
            let Some(page) = page else {
                self.punch_held(op, inode, index..index + 1, &wb)?;
                continue;
            };
            self.reserve(op, inode, &mut inode.tree.lock(), index)?;
            let known = Home::Known;
            self.pages.write(inode.ino, index, 0, &page, &page, known);
        }
        inode.core().changed();
        self.put_inode(op, inode)?;
        self.write_pages_within(op, inode, to, Why::Rewrite, &wb)
    }
}
