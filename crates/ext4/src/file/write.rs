//! Writing into the page cache, and holding back tasks that dirty too much of it.

use super::writeback::{Way, leave_unpromised};
use crate::Ext4;
use crate::inode::Inode;
use crate::map::Span;
use crate::space::Right;
use base::cost::ext4 as cost;
use base::{BLOCK_BYTES, Bytes};
use fscore::{Accepted, Errno, FsResult, Home};

/// Pages that a heavy writer sends at once: one command of 512 KiB. The queue has no I/O scheduler
/// that would let the requests of an fsync pass those of write-back, so write-back must not fill
/// the queue: then an fsync waits only for what the device is working on, as behind Linux's CFQ.
const CHUNK_PAGES: usize = 128;

/// [`CHUNK_PAGES`] where pages may be larger than 4 KiB.
const fn chunk_pages(page_bytes: usize) -> usize {
    match page_bytes > BLOCK_BYTES {
        true => CHUNK_PAGES * BLOCK_BYTES / page_bytes,
        false => CHUNK_PAGES,
    }
}

/// The maximum of pages that are taken at once: as many as a request of FUSE has.
const WHOLE_PAGES_MAX: usize = 256;

/// By which right a page over `span` gets the blocks that write-back will need for it; `None` if it
/// needs none because it has a written block.
fn right_to(span: Span) -> Option<Right> {
    match span {
        Span::Data { .. } => None,
        Span::Hole { .. } => Some(Right::Caller),
        // reserve-R3.
        Span::Unwritten { .. } => Some(Right::Owed),
    }
}

/// One page of a write.
struct Part<'a> {
    index: u64,
    /// Byte offset inside the page.
    at: usize,
    data: &'a [u8],
}

impl Part<'_> {
    fn end(&self, block: u64) -> u64 {
        self.index * block + (self.at + self.data.len()) as u64
    }
}

impl Ext4 {
    /// Writes file content; answers how many bytes were written.
    pub(crate) fn write_file(&self, inode: &Inode, offset: u64, data: &[u8]) -> FsResult<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > self.size_max_of(inode)) {
            return Err(Errno::FBig.into());
        }
        self.balance_dirty(inode, data.len())?;
        let _gate = inode.gate.write();
        if inode.core().gone {
            return Err(Errno::Stale.into());
        }
        if !Accepted::here() {
            inode.check_not_immutable()?;
        }
        let pages = data.len().div_ceil(self.block_size.bytes()) as u64;
        rt::charge_run(cost::WRITE_PAGE, cost::WRITE_NEXT_PAGE, pages);
        if let Some(done) = self.write_inline(inode, offset, data)? {
            return Ok(done);
        }
        self.update_times(inode)?;
        if self.logs_data(inode) {
            return self.write_journaled(inode, offset, data);
        }
        let mut done = 0;
        while done < data.len() {
            let step = match self.write_whole(inode, offset + done as u64, &data[done..]) {
                Ok(0) => self.write_one(inode, offset + done as u64, &data[done..]),
                other => other,
            };
            match step {
                Ok(len) => done += len,
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        self.settle_size(inode, offset + done as u64)?;
        Ok(done)
    }

    /// Takes the whole pages at the front of `data` as far as none is cached and all are mapped in
    /// the same way: then one look at the mapping, one promise and one visit to the cache do for
    /// all of them. Answers how many bytes were taken; 0 if the pages have to be taken one by one.
    /// The promise is made before a page is dirty (file-F1).
    fn write_whole(&self, inode: &Inode, pos: u64, data: &[u8]) -> FsResult<usize> {
        let bytes = self.block_size.bytes();
        let pages = (data.len() / bytes).min(WHOLE_PAGES_MAX) as u64;
        if pages < 2 || !pos.is_multiple_of(self.block()) {
            return Ok(0);
        }
        let first = pos / self.block();
        let cached = self.pages.next_cached(inode.ino, first..first + pages);
        let free = cached.unwrap_or(first + pages) - first;
        if free < 2 {
            return Ok(0);
        }
        let span = self.lookup_span(inode, first as u32, free as u32)?;
        let count = u64::from(span.len());
        let home = match right_to(span) {
            None => Home::Known,
            Some(right) if self.promise_pages(inode, first..first + count, right)? => Home::Delayed,
            // Near the end of the space the promise for all of them may fail where that for each
            // page does not.
            Some(_) => return Ok(0),
        };
        let len = count as usize * bytes;
        // The size is raised before the pages are in the cache: write-back that finds them also
        // writes the size, as far as it has mapped them (ext4-inode-N2).
        self.extend(inode, pos + len as u64);
        self.pages.write_new(inode.ino, first, &data[..len], home);
        Ok(len)
    }

    /// Takes the part of `data` that belongs to the page at `pos`.
    fn write_one(&self, inode: &Inode, pos: u64, data: &[u8]) -> FsResult<usize> {
        let at = (pos % self.block()) as usize;
        let len = (self.block_size.bytes() - at).min(data.len());
        let part = Part {
            index: pos / self.block(),
            at,
            data: &data[..len],
        };
        self.write_part(inode, &part).map(|()| len)
    }

    fn write_part(&self, inode: &Inode, part: &Part<'_>) -> FsResult<()> {
        let state = self.pages.state(inode.ino, part.index);
        let has_place = matches!(state, Some(s) if s.home != Home::Unknown);
        let wanted = match has_place {
            true => None,
            false => right_to(self.lookup_span(inode, part.index as u32, 1)?),
        };
        let base = self.base_of(inode, part, wanted.is_none())?;
        let home = match wanted {
            None => Home::Known,
            Some(right) if self.promise_or_make_room(inode, part.index, right)? => Home::Delayed,
            Some(_) => return self.write_through(inode, part, &base),
        };
        self.pages
            .write(inode.ino, part.index, part.at, part.data, &base, home);
        self.extend(inode, part.end(self.block()));
        Ok(())
    }

    fn extend(&self, inode: &Inode, end: u64) {
        let mut core = inode.core();
        core.size = core.size.max(end);
    }

    /// The content of the page before the write, as far as the write leaves any of it.
    fn base_of(&self, inode: &Inode, part: &Part<'_>, is_mapped: bool) -> FsResult<Bytes> {
        if let Some(page) = self.pages.get(inode.ino, part.index) {
            return Ok(page);
        }
        let whole = part.data.len() == self.block_size.bytes();
        if whole || !is_mapped || part.index * self.block() >= inode.core().size {
            return Ok(self.zero_page());
        }
        self.fill(inode, part.index, part.index + 1)
    }

    /// Writes a page for which no promise is left: it is allocated and submitted now, or refused
    /// (file-F1).
    fn write_through(&self, inode: &Inode, part: &Part<'_>, base: &Bytes) -> FsResult<()> {
        let size = inode.core().size;
        let index = part.index;
        self.pages
            .write(inode.ino, index, part.at, part.data, base, Home::Unknown);
        self.extend(inode, part.end(self.block()));
        // The caller's right is checked here, because no promise was made before.
        let way = Way {
            unpromised: Right::Caller,
            ..Way::BACKGROUND
        };
        let written = self.write_pages(inode, index..index + 1, way);
        if written.is_err() {
            let _wb = inode.wb.lock();
            self.land_flights(inode);
            let state = self.pages.state(inode.ino, index);
            if state.is_some_and(|s| s.home != Home::Unknown) {
                // Write-back by another task found a block for the page meanwhile, and wrote the
                // size to the device.
                return Ok(());
            }
            // The page has never had a block, so what is read again is a hole.
            let delayed = self.pages.drop_range(inode.ino, index..index + 1);
            self.drop_promise(inode, delayed);
            self.take_size_back(inode, size)?;
        }
        written.map(drop)
    }

    /// Takes back the size after a refused write that had made the file longer. Write-back of the
    /// page that was last before may already have written a size on the device, up to the end of
    /// that page (ext4-inode-N2).
    fn take_size_back(&self, inode: &Inode, size: u64) -> FsResult<()> {
        {
            let mut core = inode.core();
            if core.disk.size() <= size {
                core.size = size;
                return Ok(());
            }
            core.set_size(size);
        }
        self.transact(1, |tx| {
            tx.tell_of(self, inode);
            self.put_inode(tx, inode)
        })
    }

    /// Sets modification and change time, at most once per tick.
    pub(super) fn update_times(&self, inode: &Inode) -> FsResult<()> {
        {
            let core = inode.core();
            let now = core.now();
            if core.disk.modify_time() == now && core.disk.change_time() == now {
                return Ok(());
            }
        }
        self.transact(1, |tx| {
            inode.core().touch(true);
            tx.tell_of(self, inode);
            self.put_inode(tx, inode)
        })
    }

    /// Sets the size on the device at once if the write that made the file longer ended in a mapped
    /// block; else write-back sets it. The end of a write inside the file is not a size that the
    /// file ever had.
    fn settle_size(&self, inode: &Inode, end: u64) -> FsResult<()> {
        let (size, on_disk) = {
            let core = inode.core();
            (core.size, core.disk.size())
        };
        if end <= on_disk || end < size {
            return Ok(());
        }
        let last = (end - 1) / self.block();
        let known = self
            .pages
            .state(inode.ino, last)
            .is_some_and(|s| s.home == Home::Known);
        if !known {
            return Ok(());
        }
        self.transact(1, |tx| {
            {
                let mut core = inode.core();
                let size = core.size.min(end);
                if size > core.disk.size() {
                    core.disk.set_size(size);
                }
            }
            tx.tell_of(self, inode);
            self.put_inode(tx, inode)
        })
    }

    /// Writes pages back when they fill too much of the cache. No lock is held.
    ///
    /// As in Linux's `balance_dirty_pages`, a task that dirties much is held at the speed of the
    /// device, with some data always on its way and never all at once. A task that dirties little
    /// beside it goes on, until half as much again is dirty.
    fn balance_dirty(&self, inode: &Inode, bytes: usize) -> FsResult<()> {
        let limit = self.pages.limit_pages() / 2;
        let pages = bytes as u64 / self.block();
        let dirty = self.pages.dirty_pages() + pages;
        if dirty + self.pages.busy_pages() > 2 * limit {
            // None of the dirty and busy pages can be evicted, so some of them have to land first.
            self.land_all();
        }
        if dirty <= limit {
            return Ok(());
        }
        // As many pages as come in are sent.
        let chunk = chunk_pages(self.block_size.bytes()).max(pages as usize);
        let chunk = chunk.min(limit as usize / 4).max(1);
        if let Some(front) = self.pages.dirty_front(inode.ino, chunk) {
            // Without an I/O scheduler the piece that was sent last lands first: so two pieces are
            // never on the way, and the device idles only for a moment.
            let most = self.queue.background_max();
            self.land_while(inode, |on_the_way| {
                on_the_way >= most || self.pages.busy_pages() > limit
            });
            return leave_unpromised(self.write_pages(inode, front, Way::BACKGROUND));
        }
        if dirty <= limit + limit / 2 && self.pages.has_dirty_file_of(chunk) {
            return Ok(());
        }
        for ino in self.pages.dirty_files(None) {
            if let Some(inode) = self.inodes.get(ino) {
                leave_unpromised(self.write_pages(&inode, 0..u64::MAX, Way::BACKGROUND))?;
                self.land_flights(&inode);
            }
        }
        Ok(())
    }
}
