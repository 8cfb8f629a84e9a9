//! Writes into the page cache, or into the inode block if the content is inline.

use super::inline::{is_inline, room};
use super::{BLOCK, Why, zero_page};
use crate::F2fs;
use crate::inode::Inode;
use crate::ops::Op;
use base::cost::f2fs as cost;
use base::{BLOCK_BYTES, Bytes, Ino};
use fscore::{Accepted, Errno, FsResult, Home};
use ondisk::f2fs::BlockAddr;

/// Pages that a heavy writer sends at once.
const CHUNK_PAGES: usize = 128;

/// One page of a write.
pub(super) struct Part<'a> {
    pub index: u64,
    /// Byte offset inside the page.
    pub at: usize,
    pub data: &'a [u8],
}

/// How far a write has its blocks.
struct Reserved {
    /// Pages before this one have a block, from where the last run began.
    to: u64,
    /// Behind the last page of the write.
    end: u64,
}

/// The parts of `data` at `offset`, page by page.
pub(super) fn parts(offset: u64, data: &[u8]) -> impl Iterator<Item = Part<'_>> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let pos = offset + done as u64;
        let at = (pos % BLOCK) as usize;
        let len = (BLOCK_BYTES - at).min(data.len() - done);
        let part = Part {
            index: pos / BLOCK,
            at,
            data: &data[done..done + len],
        };
        done += len;
        (len > 0).then_some(part)
    })
}

impl F2fs {
    /// Writes (`FileSystem::write`). Takes the gate.
    pub(crate) fn write_file(&self, ino: Ino, offset: u64, data: &[u8]) -> FsResult<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let end = self.check_end(offset, data.len() as u64)?;
        let inode = self.inode(ino)?;
        self.balance()?;
        self.balance_dirty(&inode, data.len())?;
        let _gate = inode.gate.write();
        let pages = data.len().div_ceil(BLOCK_BYTES) as u64;
        rt::charge_run(cost::WRITE_PAGE, cost::WRITE_NEXT_PAGE, pages);
        if !Accepted::here() {
            inode.check_not_immutable()?;
        }
        self.continue_truncate(&inode)?;
        let (inline, room, pending) = {
            let core = inode.core();
            if core.gone {
                return Err(Errno::Stale.into());
            }
            if core.fields.is_dir() {
                return Err(Errno::IsDir.into());
            }
            (is_inline(&core), room(&core), core.atomic_size.is_some())
        };
        if pending {
            return self.write_pending(&inode, offset, data);
        }
        if inline {
            if end <= room {
                self.with_op(|op| {
                    self.write_inline(op, &inode, offset, data)?;
                    self.settle(op, &inode, end)
                })?;
                return Ok(data.len());
            }
            self.with_op(|op| self.leave_inline(op, &inode))?;
        }
        self.write_gated(&inode, offset, data)
    }

    /// Writes into pages. The gate is held, the content is not inline. Answers how much fitted
    /// before the error, if any did.
    pub(super) fn write_gated(&self, inode: &Inode, offset: u64, data: &[u8]) -> FsResult<usize> {
        let mut done = 0;
        while done < data.len() {
            let pos = offset + done as u64;
            let most = self.batch_pages() as usize * BLOCK_BYTES - (pos % BLOCK) as usize;
            let chunk = &data[done..data.len().min(done + most)];
            if done > 0 && self.balance_between().is_err() {
                break;
            }
            match self.write_chunk(inode, pos, chunk) {
                Ok(n) => done += n,
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// One `Op` of a write.
    fn write_chunk(&self, inode: &Inode, offset: u64, chunk: &[u8]) -> FsResult<usize> {
        let end = offset + chunk.len() as u64;
        // Reading waits for the device: before the `Op`.
        let mut bases = [
            (offset, !offset.is_multiple_of(BLOCK)),
            (end, !end.is_multiple_of(BLOCK)),
        ]
        .map(|(at, cut)| {
            let index = at / BLOCK;
            (cut && self.pages.state(inode.ino, index).is_none()).then_some(index)
        });
        if bases[0] == bases[1] {
            bases[1] = None;
        }
        let mut read = Vec::with_capacity(2);
        for index in bases.into_iter().flatten() {
            read.push((index, self.base_of(inode, index)?));
        }
        self.with_op(|op| self.write_parts(op, inode, offset, chunk, read))
    }

    /// The same inside an `Op`; `read` are the pages that it changes in part.
    fn write_parts(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        offset: u64,
        chunk: &[u8],
        mut read: Vec<(u64, Bytes)>,
    ) -> FsResult<usize> {
        let mut done = 0;
        let mut outcome = Ok(());
        let mut reserved = Reserved {
            to: 0,
            end: (offset + chunk.len() as u64).div_ceil(BLOCK),
        };
        for part in parts(offset, chunk) {
            let base = read
                .extract_if(.., |(index, _)| *index == part.index)
                .next();
            let base = base.map(|(_, base)| base);
            match self.write_part(op, inode, &part, base, &mut reserved) {
                Ok(()) => done += part.data.len(),
                Err(e) => {
                    outcome = Err(e);
                    break;
                }
            }
        }
        if done > 0 {
            self.settle(op, inode, offset + done as u64)?;
            return Ok(done);
        }
        // Nodes may have been made on the way to a block that could not be had.
        self.put_inode(op, inode)?;
        outcome.map(|()| 0)
    }

    fn write_part(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        part: &Part<'_>,
        base: Option<Bytes>,
        reserved: &mut Reserved,
    ) -> FsResult<()> {
        let cached = self.pages.state(inode.ino, part.index);
        let base = match cached {
            // Let go of it, or the page would be copied.
            Some(_) => zero_page(),
            None => base.unwrap_or_else(zero_page),
        };
        let unknown = cached.is_none_or(|s| s.home == Home::Unknown);
        if unknown && part.index >= reserved.to {
            let mut tree = inode.tree.lock();
            let most = reserved.end - part.index;
            let pages = self.reserve_run(op, inode, &mut tree, part.index, most)?;
            reserved.to = part.index + pages;
        }
        let known = Home::Known;
        self.pages
            .write(inode.ino, part.index, part.at, part.data, &base, known);
        Ok(())
    }

    /// Size, times and blocks after a write up to `end` (file-D2).
    fn settle(&self, op: &Op<'_>, inode: &Inode, end: u64) -> FsResult<()> {
        {
            let mut core = inode.core();
            if end > core.fields.size {
                core.fields.size = end;
                core.changed();
            }
            core.touch(true);
        }
        self.put_inode(op, inode)
    }

    /// Zeroes part of one page that has a block, in the cache. The gate is held. Answers whether
    /// there was anything to zero.
    pub(super) fn zero_part(
        &self,
        inode: &Inode,
        index: u64,
        at: usize,
        len: usize,
    ) -> FsResult<bool> {
        let Some(base) = self.page(inode, index, index + 1)? else {
            return Ok(false);
        };
        if base::bytes::is_zero(&base[at..at + len]) {
            return Ok(false);
        }
        let zeros = &zero_page()[..len];
        let known = Home::Known;
        self.pages.write(inode.ino, index, at, zeros, &base, known);
        Ok(true)
    }

    /// Writes pages back when they fill too much of the cache. No lock is held. Like Linux's
    /// `balance_dirty_pages`, it holds a task that dirties many pages at the speed of the device.
    fn balance_dirty(&self, inode: &Inode, bytes: usize) -> FsResult<()> {
        let limit = self.pages.limit_pages() / 2;
        let dirty = self.dirty_file_pages() + bytes as u64 / BLOCK;
        if dirty <= limit {
            return Ok(());
        }
        let chunk = CHUNK_PAGES.min(limit as usize / 4).max(1);
        if let Some(front) = self.pages.dirty_front(inode.ino, chunk) {
            // Without an I/O scheduler what was sent last lands first: two pieces are never on the
            // way, and none only for a moment. With one a sync passes them, so the device may have
            // as many as there is room for.
            let alone = self.queue.background_max() == 1;
            if alone || self.pages.busy_pages() > limit {
                let _ = self.land(inode);
            }
            return self.write_pages(inode, front, Why::Background);
        }
        if dirty <= limit + limit / 2 && self.pages.has_dirty_file_of(chunk) {
            return Ok(());
        }
        self.write_files(None, Why::Background)
    }

    /// The address of page `index` as its slot says.
    pub(super) fn addr_of(&self, inode: &Inode, index: u64) -> FsResult<BlockAddr> {
        let slot = self.find_slot(inode, &mut inode.tree.lock(), index)?;
        Ok(slot.map_or(BlockAddr::NULL, |s| s.addr))
    }
}
