//! Reading.

use crate::Ext4;
use crate::fault;
use crate::inode::{Core, Inode, coarse_now};
use crate::map::Span;
use crate::options::Atime;
use base::{BLOCK_BYTES, BlockNo, Bytes};
use fscore::{FsResult, Home};
use ondisk::ext4::InodeFlags;

/// Pages read ahead of a sequential reader (Linux default: 128 KiB).
const READ_AHEAD_PAGES: u64 = 32;
const DAY_SECS: i64 = 86400;

static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

impl Ext4 {
    /// A page of zeros.
    pub(super) fn zero_page(&self) -> Bytes {
        Bytes::from_static(&ZEROS[..self.block_size.bytes()])
    }

    /// Reads file content.
    pub(crate) fn read_file(&self, inode: &Inode, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        let _gate = inode.gate.read();
        let (size, sequential) = {
            let core = inode.core();
            (core.size, core.read_end == offset)
        };
        if offset >= size || buf.is_empty() {
            return Ok(0);
        }
        let len = (size - offset).min(buf.len() as u64) as usize;
        if inode.is_inline() {
            let content = self.inline_content(inode)?;
            let from = offset as usize;
            buf[..len].copy_from_slice(&content[from..from + len]);
            return Ok(len);
        }
        let pages = len.div_ceil(self.block_size.bytes()) as u64;
        rt::charge_each(base::cost::ext4::READ_PAGE, pages);
        let last = (offset + len as u64 - 1) / self.block();
        let ahead = if sequential { READ_AHEAD_PAGES } else { 0 };
        let stop = (last + 1 + ahead).min(size.div_ceil(self.block()));
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (index, skip) = (at / self.block(), (at % self.block()) as usize);
            let page = match self.pages.get(inode.ino, index) {
                Some(page) => page,
                None => self.fill(inode, index, stop)?,
            };
            let part = (self.block_size.bytes() - skip).min(len - done);
            buf[done..done + part].copy_from_slice(&page[skip..skip + part]);
            done += part;
        }
        inode.core().read_end = offset + len as u64;
        self.note_access(inode)?;
        Ok(len)
    }

    /// Fills the page `index` and those up to `stop` that are missing too and continue it on the device. Answers the page.
    pub(super) fn fill(&self, inode: &Inode, index: u64, stop: u64) -> FsResult<Bytes> {
        let limit = self.queue.caps().max_transfer_sectors / self.block_size.sectors();
        let stop = stop.min(index + limit.max(1));
        let missing = (index + 1..stop).take_while(|&i| self.pages.state(inode.ino, i).is_none());
        let want = 1 + missing.count() as u32;
        let (start, len) = match self.lookup_span(inode, index as u32, want)? {
            Span::Data { start, len } => (start, len),
            // Not worth a place in the cache.
            Span::Hole { .. } | Span::Unwritten { .. } => return Ok(self.zero_page()),
        };
        if self.logs_data(inode) {
            let page = self.journal.read(start).map_err(fault::journal)?;
            let page = self.cut_tail(inode, index, page);
            self.pages.fill(inode.ino, index, page.clone(), Home::Known);
            return Ok(page);
        }
        let bytes = self.read_data(inode, start, len)?;
        // Copies: a slice would keep the whole transfer in memory for as long as one of its pages is cached.
        let page = |n: usize| match len {
            1 => bytes.clone(),
            _ => Bytes::copy_from_slice(
                &bytes[n * self.block_size.bytes()..(n + 1) * self.block_size.bytes()],
            ),
        };
        for n in 1..len as usize {
            let at = index + n as u64;
            let content = self.cut_tail(inode, at, page(n));
            self.pages.fill(inode.ino, at, content, Home::Known);
        }
        let first = self.cut_tail(inode, index, page(0));
        self.pages
            .fill(inode.ino, index, first.clone(), Home::Known);
        Ok(first)
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

    pub(super) fn read_data(&self, inode: &Inode, start: BlockNo, len: u32) -> FsResult<Bytes> {
        let what = format!("reading inode {} at block {start}", inode.ino);
        let sectors = self.block_size.sectors_of(len.into());
        self.queue
            .read(self.block_size.lba(start), sectors)
            .map_err(fault::device(&what))
    }

    /// Sets the access time if the mount options ask for it.
    pub(crate) fn note_access(&self, inode: &Inode) -> FsResult<()> {
        if !self.can_write() || !self.wants_atime(&inode.core()) {
            return Ok(());
        }
        // Reading goes on when the journal has ended.
        if self.journal.aborted().is_some() {
            return Ok(());
        }
        self.transact(1, |tx| {
            inode.core().disk.set_access_time(coarse_now());
            self.put_inode(tx, inode)
        })
    }

    fn wants_atime(&self, core: &Core) -> bool {
        let disk = &core.disk;
        if core.gone || disk.flags().has(InodeFlags::NO_ATIME) {
            return false;
        }
        let (now, last) = (coarse_now(), disk.access_time());
        match self.options.atime {
            Atime::Never => false,
            Atime::Strict => now != last,
            Atime::Relative => {
                last <= disk.modify_time()
                    || last <= disk.change_time()
                    || now.secs - last.secs >= DAY_SECS
            }
        }
    }
}
