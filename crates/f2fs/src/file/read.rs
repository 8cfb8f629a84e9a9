//! Reads file content, through the page cache.

use super::{BLOCK, zero_page};
use crate::F2fs;
use crate::fault;
use crate::inode::Inode;
use base::cost::f2fs as cost;
use base::{BLOCK_BYTES, BlockNo, Bytes, Ino, SECTORS_PER_BLOCK};
use fscore::{Errno, FsResult, Home};
use ondisk::f2fs::BlockAddr;
use std::ops::Range;

/// Pages read ahead of a sequential reader (Linux default: 128 KiB).
const READ_AHEAD_PAGES: u64 = 32;

impl F2fs {
    /// Reads (`FileSystem::read`). Takes the gate shared.
    pub(crate) fn read_file(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        let inode = self.inode(ino)?;
        self.limit_accesses();
        let _gate = inode.gate.read();
        let (size, sequential, inline) = {
            let core = inode.core();
            if core.gone {
                return Err(Errno::Stale.into());
            }
            if core.fields.is_dir() {
                return Err(Errno::IsDir.into());
            }
            let size = core.atomic_size.unwrap_or(core.fields.size);
            (
                size,
                core.read_end == offset,
                super::inline::is_inline(&core),
            )
        };
        if offset >= size || buf.is_empty() {
            return Ok(0);
        }
        let len = (size - offset).min(buf.len() as u64) as usize;
        let pages = len.div_ceil(BLOCK_BYTES) as u64;
        rt::charge_run(cost::READ_PAGE, cost::READ_NEXT_PAGE, pages);
        if inline {
            self.read_inline(&inode, offset, &mut buf[..len])?;
        } else {
            self.read_pages(&inode, offset, &mut buf[..len], size, sequential)?;
        }
        inode.core().read_end = offset + len as u64;
        self.note_access(&inode);
        Ok(len)
    }

    fn read_pages(
        &self,
        inode: &Inode,
        offset: u64,
        buf: &mut [u8],
        size: u64,
        sequential: bool,
    ) -> FsResult<()> {
        let len = buf.len();
        let last = (offset + len as u64 - 1) / BLOCK;
        let ahead = if sequential { READ_AHEAD_PAGES } else { 0 };
        let stop = (last + 1 + ahead).min(size.div_ceil(BLOCK));
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (index, skip) = (at / BLOCK, (at % BLOCK) as usize);
            let part = (BLOCK_BYTES - skip).min(len - done);
            let into = &mut buf[done..done + part];
            match self.page(inode, index, stop)? {
                Some(page) => into.copy_from_slice(&page[skip..skip + part]),
                None => into.fill(0),
            }
            done += part;
        }
        Ok(())
    }

    /// The content of a page; `None`: zeros. Reads ahead up to page `stop`.
    pub(super) fn page(&self, inode: &Inode, index: u64, stop: u64) -> FsResult<Option<Bytes>> {
        if let Some(page) = self.pending_page(inode, index) {
            return Ok(Some(page));
        }
        match self.pages.get(inode.ino, index) {
            Some(page) => Ok(Some(page)),
            None => self.fill(inode, index, stop),
        }
    }

    /// Reads the page `index` from the device, and those up to `stop` that are missing too and
    /// continue it there. Answers the page; `None`: there is no block, it reads as zeros.
    pub(super) fn fill(&self, inode: &Inode, index: u64, stop: u64) -> FsResult<Option<Bytes>> {
        let limit = self.queue.caps().max_transfer_sectors / SECTORS_PER_BLOCK;
        let stop = stop.min(index + limit.max(1));
        let missing = (index + 1..stop).take_while(|&i| self.pages.state(inode.ino, i).is_none());
        let want = 1 + missing.count() as u64;
        loop {
            let run = self.lookup(inode, &mut inode.tree.lock(), index, want)?;
            if !run.addr.is_data() {
                return Ok(None);
            }
            let len = run.len.min(want);
            let bytes = self.read_data(inode, run.addr, len)?;
            // Cleaning takes no gate: if it has moved the page, a checkpoint may have freed the
            // block that was read.
            let again = self.lookup(inode, &mut inode.tree.lock(), index, len)?;
            if again.addr == run.addr && again.len.min(want) == len {
                return Ok(Some(self.keep(inode, index, &bytes, len)));
            }
            if let Some(page) = self.pages.get(inode.ino, index) {
                return Ok(Some(page));
            }
        }
    }

    /// Cleaning: sees to it that these pages are cached, as far as they have blocks and the cache
    /// keeps them.
    pub(crate) fn read_pages_ahead(&self, inode: &Inode, pages: Range<u64>) -> FsResult<()> {
        for index in pages.clone() {
            if self.pages.state(inode.ino, index).is_none() {
                self.fill(inode, index, pages.end)?;
            }
        }
        Ok(())
    }

    /// Puts what was read into the cache; answers the first page.
    fn keep(&self, inode: &Inode, index: u64, bytes: &Bytes, len: u64) -> Bytes {
        // Copies: a slice would keep the whole transfer in memory for as long as one of its pages
        // is cached.
        let page = |n: usize| match len {
            1 => bytes.clone(),
            _ => Bytes::copy_from_slice(&bytes[n * BLOCK_BYTES..(n + 1) * BLOCK_BYTES]),
        };
        for n in 1..len as usize {
            let at = index + n as u64;
            let content = self.cut_tail(inode, at, page(n));
            self.pages.fill(inode.ino, at, content, Home::Known);
        }
        let first = self.cut_tail(inode, index, page(0));
        self.pages
            .fill(inode.ino, index, first.clone(), Home::Known);
        first
    }

    /// Behind the end of a file zeros are read, whatever the block holds.
    fn cut_tail(&self, inode: &Inode, index: u64, page: Bytes) -> Bytes {
        let valid = {
            let core = inode.core();
            if core.fields.is_dir() {
                return page;
            }
            core.fields.size.saturating_sub(index.saturating_mul(BLOCK))
        };
        if valid >= BLOCK || base::bytes::is_zero(&page[valid as usize..]) {
            return page;
        }
        let mut bytes = page.to_vec();
        bytes[valid as usize..].fill(0);
        bytes.into()
    }

    fn read_data(&self, inode: &Inode, addr: BlockAddr, len: u64) -> FsResult<Bytes> {
        let what = format!("reading inode {} at block {addr}", inode.ino);
        let lba = BlockNo(u64::from(addr.0)).lba();
        self.queue
            .read(lba, len * SECTORS_PER_BLOCK)
            .map_err(fault::device(&what))
    }

    /// The content that page `index` has before a write changes part of it.
    pub(super) fn base_of(&self, inode: &Inode, index: u64) -> FsResult<Bytes> {
        let page = self.page(inode, index, index + 1)?;
        Ok(page.unwrap_or_else(zero_page))
    }
}
