//! Reading file content, through the page cache, with read-ahead.

use crate::Ext4;
use crate::fault;
use crate::inode::{Core, Inode, coarse_now, to_wall};
use crate::map::Span;
use base::cost::ext4 as cost;
use base::{BlockNo, Bytes, fill};
use fscore::{FsResult, Home, NoAccessTime};
use ondisk::ext4::InodeFlags;
use std::ops::Range;

/// Cached pages that are taken under one lock.
const FRONT_PAGES: u64 = 64;

impl Ext4 {
    /// A page of zeros.
    pub(crate) fn zero_page(&self) -> Bytes {
        fill::zeros(self.block_size.bytes())
    }

    /// Reads file content.
    pub(crate) fn read_file(&self, inode: &Inode, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        let _gate = inode.gate.read();
        let size = inode.core().size;
        if offset >= size || buf.is_empty() {
            return Ok(0);
        }
        let len = (size - offset).min(buf.len() as u64) as usize;
        if inode.is_inline() {
            let content = self.inline_content(inode)?;
            let there = content.get(offset as usize..).unwrap_or_default();
            let there = &there[..there.len().min(len)];
            buf[..len].fill(0);
            buf[..there.len()].copy_from_slice(there);
            self.note_access(inode)?;
            return Ok(len);
        }
        let pages = len.div_ceil(self.block_size.bytes()) as u64;
        rt::charge_run(cost::READ_PAGE, cost::READ_NEXT_PAGE, pages);
        let last = (offset + len as u64 - 1) / self.block();
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let index = at / self.block();
            let mut skip = (at % self.block()) as usize;
            for page in self.pages_from(inode, offset, index..last + 1)? {
                let part = (self.block_size.bytes() - skip).min(len - done);
                buf[done..done + part].copy_from_slice(&page[skip..skip + part]);
                done += part;
                skip = 0;
                if done == len {
                    break;
                }
            }
        }
        inode.core().read_ahead.ended(offset + len as u64);
        self.note_access(inode)?;
        Ok(len)
    }

    /// The contents of at least one page from the front of `wanted` on: those that are cached, or
    /// those that one request to the device brings, for a read that began at byte `offset`.
    fn pages_from(&self, inode: &Inode, offset: u64, wanted: Range<u64>) -> FsResult<Vec<Bytes>> {
        let front = wanted.start..wanted.end.min(wanted.start + FRONT_PAGES);
        let cached = self.pages.get_front(inode.ino, front.clone());
        if !cached.is_empty() {
            return Ok(cached);
        }
        let count = wanted.end - wanted.start;
        let (size, want) = {
            let mut core = inode.core();
            // Only the first miss of a read tells the read-ahead where the reader is.
            let want = match wanted.start == offset / self.block() {
                true => core.read_ahead.miss(offset, count, self.block()),
                false => count,
            };
            (core.size, want)
        };
        let stop = (wanted.start + want).min(size.div_ceil(self.block()));
        if want == count {
            return self.fill_pages(inode, wanted.start, stop);
        }
        let _filling = inode.filling.lock();
        // Another task may have read the page ahead meanwhile.
        let cached = self.pages.get_front(inode.ino, front);
        match cached.is_empty() {
            true => self.fill_pages(inode, wanted.start, stop),
            false => Ok(cached),
        }
    }

    /// Reads page `index` into the cache, with the missing pages up to `stop` that follow it on the
    /// device. Answers page `index`.
    pub(super) fn fill(&self, inode: &Inode, index: u64, stop: u64) -> FsResult<Bytes> {
        let pages = self.fill_pages(inode, index, stop)?;
        Ok(pages.into_iter().next().expect("one page at least"))
    }

    /// Does what [`Ext4::fill`] does, but answers all pages.
    fn fill_pages(&self, inode: &Inode, index: u64, stop: u64) -> FsResult<Vec<Bytes>> {
        let limit = self.queue.caps().max_transfer_sectors / self.block_size.sectors();
        let stop = stop.min(index + limit.max(1)).max(index + 1);
        let next = self.pages.next_cached(inode.ino, index + 1..stop);
        let want = (next.unwrap_or(stop) - index) as u32;
        let (start, len) = match self.lookup_span(inode, index as u32, want)? {
            Span::Data { start, len } => (start, len),
            // Pages of zeros are not worth a place in the cache.
            Span::Hole { len } | Span::Unwritten { len, .. } => {
                return Ok(vec![self.zero_page(); len as usize]);
            }
        };
        let len = match self.journal.data_in_log(start, len) {
            // small-S2: the log holds newer content, so home may be older.
            Some((first, _)) if first > start => (first.0 - start.0) as u32,
            Some(_) => 0,
            None => len,
        };
        if len == 0 || self.logs_data(inode) {
            let page = self.journal.read(start).map_err(fault::journal)?;
            let page = self.cut_tail(inode, index, page);
            self.pages.fill(inode.ino, index, page.clone(), Home::Known);
            return Ok(vec![page]);
        }
        let pages = self.read_data(inode, start, len)?;
        let cut = |(at, page)| self.cut_tail(inode, at, page);
        let pages: Vec<Bytes> = (index..).zip(pages).map(cut).collect();
        let ino = inode.ino;
        self.pages.fill_run(ino, index, pages.clone(), Home::Known);
        Ok(pages)
    }

    /// Behind the end of the file zeros are read, whatever the block holds.
    fn cut_tail(&self, inode: &Inode, index: u64, page: Bytes) -> Bytes {
        let valid = inode.core().size.saturating_sub(index * self.block());
        if valid >= self.block() || base::bytes::is_zero(&page[valid as usize..]) {
            return page;
        }
        let mut bytes = page.to_vec();
        bytes[valid as usize..].fill(0);
        bytes.into()
    }

    /// Reads `len` blocks from `start` on.
    pub(crate) fn read_data(
        &self,
        inode: &Inode,
        start: BlockNo,
        len: u32,
    ) -> FsResult<Vec<Bytes>> {
        let what = || format!("reading inode {} at block {start}", inode.ino);
        (self.queue)
            .read_apart(self.block_size.lba(start), len.into(), self.block_size)
            .map_err(|e| fault::device(&what())(e))
    }

    /// Sets the access time if the mount options ask for it.
    pub(crate) fn note_access(&self, inode: &Inode) -> FsResult<()> {
        if NoAccessTime::here() || !self.can_write() || !self.wants_atime(&inode.core()) {
            return Ok(());
        }
        // Reading goes on after the journal has aborted.
        if self.journal.aborted().is_some() {
            return Ok(());
        }
        self.transact(1, |tx| {
            inode.core().disk.set_access_time(coarse_now());
            // The access time of a directory is not worth a full commit.
            tx.tell();
            self.put_inode(tx, inode)
        })
    }

    fn wants_atime(&self, core: &Core) -> bool {
        let disk = &core.disk;
        if core.gone || disk.flags().has(InodeFlags::NO_ATIME) {
            return false;
        }
        let [now, last, modified, changed] = [
            core.now(),
            disk.access_time(),
            disk.modify_time(),
            disk.change_time(),
        ]
        .map(to_wall);
        self.options.atime.is_due(now, last, modified, changed)
    }
}
