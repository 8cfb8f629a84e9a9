//! Write-back: allocates blocks for dirty pages, submits the pages, and puts what maps them into
//! the running transaction.
//!
//! Others enter here in two places: [`Ext4::write_pages`] writes pages of one file, in the way that
//! its caller says, and [`Ext4::write_old_pages`] those of all files that have become old.
//! (An operation that changes one page inside of its own handle sends that page with the handle,
//! by [`Ext4::submit_ordered`]; nothing else is written back by it.)

use crate::Ext4;
use crate::extent::INSERT_NODES_MAX;
use crate::fault;
use crate::file::small::Route;
use crate::inode::{Flight, Inode};
use crate::map::Span;
use crate::options::DataMode;
use crate::space::Right;
use crate::tx::Tx;
use base::cost::ext4 as cost;
use base::{BlockNo, BlockSize, Bytes, Lba, Mutant, SECTOR_BYTES, Time};
use block::{Batch, Class, Plug};
use fscore::{DirtyRun, Errno, FsError, FsResult, Sends, Take};
use journal::DataPath;
use ondisk::ext4::Extent;
use std::collections::BTreeMap;
use std::ops::Range;

/// The maximum of pages taken at once (Linux: 2048 blocks per extent of write-back).
const RUN_PAGES_MAX: usize = 2048;
/// Blocks that mapping one piece may change: bitmap, descriptor, inode; and for each new tree block
/// its bitmap, its descriptor, itself and the node it splits.
pub(crate) const MAP_CREDITS: u32 = 4 + 4 * INSERT_NODES_MAX;

impl Ext4 {
    /// Submits the dirty pages of `range` in the given way. Does not wait for the data, except for
    /// pages that are dirty again while an earlier write of them is still on its way. With
    /// [`DataPath::WithLog`] it answers the data that was neither sent nor given to a transaction;
    /// the flights of the inode send it when they land, at the latest.
    ///
    /// # Errors
    /// ENOSPC for pages without promise (they stay dirty); damage; errors of the journal.
    pub(crate) fn write_pages(
        &self,
        inode: &Inode,
        range: Range<u64>,
        way: Way,
    ) -> FsResult<Option<Batch>> {
        let path = way.path;
        let _wb = inode.wb.lock();
        if inode.core().gone {
            // The inode was freed while this task waited: pages under this number belong to a new
            // inode by now.
            return Ok(None);
        }
        let mut from = range.start;
        let mut plain = Plain::new(self, way);
        let outcome = loop {
            match self
                .pages
                .take_dirty(inode.ino, from..range.end, RUN_PAGES_MAX)
            {
                Take::Nothing => break Ok(()),
                Take::Busy(_) => {
                    plain.send(self, inode);
                    self.land_flights(inode);
                }
                Take::Run(run) => {
                    from = run.range().end;
                    if let Err(e) = self.write_run(inode, &run, &mut plain) {
                        break Err(e);
                    }
                }
            }
        };
        let last = plain.submit(self, inode);
        outcome.map(|()| last.filter(|_| path == DataPath::WithLog))
    }

    fn write_run(&self, inode: &Inode, run: &DirtyRun, plain: &mut Plain) -> FsResult<()> {
        let mut i = 0;
        while i < run.pages.len() {
            let lblk = (run.first + i as u64) as u32;
            let want = (run.pages.len() - i) as u32;
            let step = match self.lookup_span(inode, lblk, want) {
                Ok(Span::Data { start, len }) => match self.route(plain.small, start, len) {
                    Route::Log(len) => self.log_mapped(inode, run, i, (start, len)),
                    Route::Home(len) => {
                        let pages = &run.pages[i..i + len as usize];
                        if plain.holds(start, len) {
                            // Only a damaged mapping leads to one block twice; one plug must not
                            // hold it twice.
                            plain.send(self, inode);
                        }
                        plain.add(start, pages, u64::from(lblk));
                        self.settle_mapped(
                            inode,
                            u64::from(lblk)..u64::from(lblk) + u64::from(len),
                        );
                        Ok(len)
                    }
                },
                Ok(span) => self.write_new(plain, inode, run, i, span),
                Err(e) => Err(e),
            };
            match step {
                Ok(len) => i += len as usize,
                Err(e) => {
                    self.pages.give_back(inode.ino, run, i);
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// Ends the promises that were made for pages which turned out to be mapped.
    pub(super) fn settle_mapped(&self, inode: &Inode, range: Range<u64>) {
        let were = self.pages.mapped(inode.ino, range);
        if were > 0 {
            self.drop_promise(inode, were);
        }
    }

    /// Maps and submits pages from position `i` on, over a hole or an unwritten extent. Answers how
    /// many.
    fn write_new(
        &self,
        plain: &mut Plain,
        inode: &Inode,
        run: &DirtyRun,
        i: usize,
        span: Span,
    ) -> FsResult<u32> {
        let lblk = run.first as u32 + i as u32;
        let logged = plain.small || self.holds_unwritten(inode, lblk, span)?;
        let (span, credits) = match logged {
            true => self.logged_front(span),
            false => (span, 0),
        };
        let delayed = &run.delayed[i..i + span.len() as usize];
        let delayed = delayed.iter().filter(|&&d| d).count() as u64;
        self.transact(MAP_CREDITS + credits, |tx| {
            // The promise is not taken before there is a handle: if none starts, the pages keep
            // their promise.
            let from = run.first + i as u64;
            let wanted = from..from + u64::from(span.len());
            let taken = self.take_promise(inode, span, wanted, delayed);
            tx.pool = taken.blocks;
            tx.right = plain.unpromised;
            let convert = matches!(span, Span::Unwritten { .. });
            let mapped = self.map_piece(tx, inode, lblk, span);
            let first = run.first + i as u64;
            let len = mapped.as_ref().map_or(0, |(_, len)| *len);
            let done = self.pages.mapped(inode.ino, first..first + u64::from(len));
            if delayed > 0 {
                let rest = taken.rest(first + u64::from(len));
                self.return_promise(inode, span, &mut tx.pool, (delayed - done, rest))?;
            }
            let (start, len) = mapped?;
            let part = Part {
                run,
                i,
                len,
                convert,
                background: plain.background,
            };
            match logged {
                true => self.log_part(tx, inode, &part, start)?,
                false => self.submit_part(tx, inode, &part, start, plain)?,
            }
            self.settle_written(tx, inode, part.range().end)?;
            if !logged {
                tx.tell_of(self, inode);
            }
            Ok(len)
        })
    }

    /// Makes `span`, or the front of it, a written extent.
    fn map_piece(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        lblk: u32,
        span: Span,
    ) -> FsResult<(BlockNo, u32)> {
        let _tree = inode.tree.write();
        match span {
            Span::Data { start, len } => Ok((start, len)),
            Span::Unwritten { start, len } => {
                self.convert_written(tx, inode, lblk, len)?;
                Ok((start, len))
            }
            Span::Hole { len } => self.map_hole(tx, inode, lblk, len),
        }
    }

    /// Allocates blocks for the front of a hole. The `tree` lock is held.
    pub(crate) fn map_hole(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        lblk: u32,
        len: u32,
    ) -> FsResult<(BlockNo, u32)> {
        self.map_hole_as(tx, inode, lblk, len, false)
    }

    /// Allocates like [`Ext4::map_hole`], and marks the blocks as unwritten if asked to, which only
    /// extents can express.
    pub(super) fn map_hole_as(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        lblk: u32,
        len: u32,
        unwritten: bool,
    ) -> FsResult<(BlockNo, u32)> {
        if !inode.core().has_extents() {
            self.check_no_pointers(inode)?;
            let got = self.map_hole_by_pointers(tx, inode, lblk, len)?;
            self.add_clusters(inode, got.len.into())?;
            return Ok((got.start, got.len));
        }
        let got = self.place_hole(tx, inode, lblk, len)?;
        let new = Extent {
            logical: lblk,
            len: got.len,
            physical: got.start,
            unwritten,
        };
        if let Err(e) = self.insert_extent(tx, inode, new) {
            if matches!(e, FsError::Posix(_)) && got.clusters > 0 {
                self.free_clusters(tx, got.start, got.clusters)?;
            }
            return Err(e);
        }
        self.add_clusters(inode, got.clusters.into())?;
        Ok((got.start, got.len))
    }

    /// Submits pages that have just been mapped.
    fn submit_part(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        part: &Part<'_>,
        start: BlockNo,
        plain: &mut Plain,
    ) -> FsResult<()> {
        match plain.path {
            DataPath::Cached => self.send_ordered(tx, inode, part, start)?,
            // Pages that lie together go in one command, the others in one pack, because each
            // command or pack costs as much as a flush.
            DataPath::Direct | DataPath::WithLog => {
                if plain.holds(start, part.len) {
                    plain.send(self, inode);
                }
                plain.add(start, part.pages(), part.range().start);
                let convert = part.convert;
                if let Some(batch) = plain.submit(self, inode) {
                    self.add_ordered(tx, batch, convert)?;
                }
            }
        }
        Ok(())
    }

    /// Brings the inode up to date with pages up to `end` that have just been mapped (file-F2).
    fn settle_written(&self, tx: &mut Tx<'_>, inode: &Inode, end: u64) -> FsResult<()> {
        {
            let mut core = inode.core();
            let size = core.size.min(end * self.block());
            if size > core.disk.size() {
                core.disk.set_size(size);
            }
            core.datasync_tid = tx.tid();
            core.sync_tid = tx.tid();
        }
        self.put_inode(tx, inode)
    }

    /// Submits one dirty page that has a block, and makes the transaction wait for it: with
    /// data=ordered, or always if its content lay elsewhere before (`moved`: inline-L3). `wb` is
    /// held.
    pub(crate) fn submit_ordered(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        index: u64,
        moved: bool,
    ) -> FsResult<()> {
        let Take::Run(run) = self.pages.take_dirty(inode.ino, index..index + 1, 1) else {
            return Ok(());
        };
        let span = self.lookup_span(inode, index as u32, 1);
        let Ok(Span::Data { start, .. }) = span else {
            self.pages.give_back(inode.ino, &run, 0);
            return span.map(|_| ());
        };
        let part = Part {
            run: &run,
            i: 0,
            len: 1,
            convert: moved,
            background: false,
        };
        self.send_ordered(tx, inode, &part, start)
    }

    /// Submits part of a run to blocks from `start` on.
    fn send_ordered(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        part: &Part<'_>,
        start: BlockNo,
    ) -> FsResult<()> {
        let mut plug = self.queue.plug();
        fill_plug(
            &mut plug,
            DataPath::Cached,
            self.block_size.lba(start),
            part.pages(),
        );
        let mut batch = submit(plug, part.background, inode);
        let watch = batch.watch();
        inode.flights.lock().push_back(Flight {
            pages: part.range(),
            watch,
        });
        self.add_ordered(tx, batch, part.convert)
    }

    /// Makes the transaction wait for data, if the mount option asks for it or the blocks were
    /// unwritten so far (hazards-H23, fallocate-U2).
    fn add_ordered(&self, tx: &mut Tx<'_>, mut batch: Batch, convert: bool) -> FsResult<()> {
        let skip = convert && rt::mutant(Mutant::ConvertUnordered);
        let ordered = self.options.data == DataMode::Ordered;
        if !self.has_log() {
            if convert {
                // A failure is noted when the flight lands.
                let _ = batch.watch().wait_written();
            }
            return Ok(());
        }
        match (ordered || convert) && !skip {
            true => tx.add_ordered(batch),
            false => Ok(()),
        }
    }

    /// Waits for all data of the inode that is on its way. A failure is kept for the next fsync.
    pub(crate) fn land_flights(&self, inode: &Inode) {
        self.land_while(inode, |_| true);
    }

    /// Waits for data of the inode, in the order in which it was sent, as long as there is some and
    /// `more` says so of the number of its flights. The lock of the flights is held meanwhile, so
    /// that a task that finds no flight knows that all have landed (file-F3, sync-F4).
    pub(super) fn land_while(&self, inode: &Inode, more: impl Fn(usize) -> bool) {
        let mut flights = inode.flights.lock();
        while more(flights.len()) {
            let Some(flight) = flights.pop_front() else {
                return;
            };
            let written = flight.watch.wait_written();
            self.pages.written(inode.ino, flight.pages);
            {
                let mut core = inode.core();
                core.data_mark = core.data_mark.max(written.mark);
            }
            if let Err(e) = written.result {
                let what = format!("writing data of inode {}", inode.ino);
                let error = fault::device(&what)(e);
                inode.core().write_errors.note(error);
            }
        }
    }

    /// Waits for the data that earlier calls sent, then starts write-back of pages older than
    /// `older_than`.
    pub(crate) fn write_old_pages(&self, older_than: Option<Time>) -> FsResult<()> {
        self.land_all();
        for ino in self.pages.dirty_files(older_than) {
            let Some(inode) = self.inodes.get(ino) else {
                continue;
            };
            leave_unpromised(self.write_in_steps(&inode))?;
        }
        Ok(())
    }

    /// Waits for all data that is on its way.
    pub(super) fn land_all(&self) {
        for inode in self.inodes.all() {
            if !inode.flights.lock().is_empty() {
                self.land_flights(&inode);
            }
        }
    }

    /// Submits all dirty pages of a file in steps, so that writers and fsyncs of the file get their
    /// turn between two steps. Pages on their way cannot be evicted, so at most a quarter of the
    /// cache is on its way.
    fn write_in_steps(&self, inode: &Inode) -> FsResult<()> {
        let limit = self.pages.limit_pages();
        let step = (RUN_PAGES_MAX as u64).min(limit / 8).max(1);
        let mut from = 0;
        while let Some(first) = self.pages.next_dirty(inode.ino, from..u64::MAX) {
            from = first + step;
            self.write_pages(inode, first..from, Way::BACKGROUND)?;
            self.land_while(inode, |_| self.pages.busy_pages() > limit / 4);
        }
        Ok(())
    }
}

/// Ignores ENOSPC of a write-back that no caller asked for: pages without promise belong to a write
/// that is under way and will report ENOSPC itself.
pub(super) fn leave_unpromised<T>(written: FsResult<T>) -> FsResult<()> {
    match written {
        Err(e) if e.errno() == Errno::NoSpc => Ok(()),
        other => other.map(drop),
    }
}

/// By which path, and with which rights, dirty pages are written back.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub path: DataPath,
    /// All of them through the log (`small.rs`).
    pub small: bool,
    /// By which right pages without a promise get blocks (reserve-R2).
    pub unpromised: Right,
    /// Nobody waits for it: an I/O scheduler may let others pass (Linux: `WB_SYNC_NONE`).
    pub background: bool,
}

impl Way {
    /// Through the cache of the device, and by no right of a caller: for pages that have their
    /// blocks or a promise of them, and for a write that is under way to report ENOSPC itself.
    pub const BACKGROUND: Way = Way {
        path: DataPath::Cached,
        small: false,
        unpromised: Right::Nobodys,
        background: true,
    };
    /// As [`BACKGROUND`](Self::BACKGROUND), for a caller that waits (Linux: `WB_SYNC_ALL`).
    pub const AWAITED: Way = Way {
        background: false,
        ..Way::BACKGROUND
    };
}

/// `len` pages of a run from position `i` on.
pub(super) struct Part<'r> {
    pub run: &'r DirtyRun,
    pub i: usize,
    pub len: u32,
    /// The blocks were unwritten, or their content lay in the inode.
    pub convert: bool,
    /// As in [`Way`].
    pub background: bool,
}

impl Part<'_> {
    pub fn pages(&self) -> &[Bytes] {
        &self.run.pages[self.i..self.i + self.len as usize]
    }
    /// The indices of the pages in the file.
    pub fn range(&self) -> Range<u64> {
        let first = self.run.first + self.i as u64;
        first..first + u64::from(self.len)
    }
}

/// Pages over blocks that are mapped and written: they need no handle and no order.
struct Plain {
    path: DataPath,
    small: bool,
    unpromised: Right,
    background: bool,
    size: BlockSize,
    plug: Plug,
    pages: Vec<Range<u64>>,
    /// The blocks in the plug, as ranges: first block to one past the last.
    blocks: BTreeMap<u64, u64>,
}

impl Plain {
    fn new(fs: &Ext4, way: Way) -> Plain {
        Plain {
            path: way.path,
            small: way.small,
            unpromised: way.unpromised,
            background: way.background,
            size: fs.block_size,
            plug: fs.queue.plug(),
            pages: Vec::new(),
            blocks: BTreeMap::new(),
        }
    }

    /// True if one of these blocks is in the plug.
    fn holds(&self, start: BlockNo, len: u32) -> bool {
        let before = self.blocks.range(..start.0 + u64::from(len)).next_back();
        before.is_some_and(|(_, &end)| end > start.0)
    }

    fn add(&mut self, start: BlockNo, pages: &[Bytes], first: u64) {
        fill_plug(&mut self.plug, self.path, self.size.lba(start), pages);
        self.pages.push(first..first + pages.len() as u64);
        self.blocks.insert(start.0, start.0 + pages.len() as u64);
    }

    /// Submits what was gathered; the task that lands the inode's flights waits for it.
    fn send(&mut self, fs: &Ext4, inode: &Inode) {
        drop(self.submit(fs, inode));
    }

    /// Submits what was gathered, and answers the batch so that something besides the flights can
    /// wait for it.
    fn submit(&mut self, fs: &Ext4, inode: &Inode) -> Option<Batch> {
        if self.plug.is_empty() {
            return None;
        }
        self.blocks.clear();
        let plug = std::mem::replace(&mut self.plug, fs.queue.plug());
        let mut batch = match self.path {
            DataPath::WithLog => plug.hold(),
            DataPath::Cached | DataPath::Direct => submit(plug, self.background, inode),
        };
        let watch = batch.watch();
        let flights = self.pages.drain(..).map(|pages| Flight {
            pages,
            watch: watch.clone(),
        });
        inode.flights.lock().extend(flights);
        Some(batch)
    }
}

fn submit(plug: Plug, background: bool, inode: &Inode) -> Batch {
    Sends(inode.ino).scope(|| match background {
        true => plug.background().submit(),
        false => plug.submit(),
    })
}

fn fill_plug(plug: &mut Plug, path: DataPath, mut lba: Lba, pages: &[Bytes]) {
    rt::charge_run(
        cost::WRITEBACK_PAGE,
        cost::WRITEBACK_NEXT_PAGE,
        pages.len() as u64,
    );
    for page in pages {
        match path {
            DataPath::Cached => plug.write(lba, Class::Data, page.clone()),
            DataPath::Direct | DataPath::WithLog => {
                plug.write_fua(lba, Class::Data, page.clone());
            }
        }
        lba = lba.plus((page.len() / SECTOR_BYTES) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::mkfs::{DeviceContent, MkfsOptions, plan};
    use block::Queue;
    use fscore::{Caller, Creds, FileKind, FileSystem, Home};
    use std::sync::Arc;

    const HELD_BACK: u64 = 500;

    fn by_user<T>(call: impl FnOnce() -> T) -> T {
        Caller::new(1000, 1000, Vec::new()).scope(call)
    }

    fn file(fs: &Ext4, name: &[u8]) -> Arc<Inode> {
        let creds = Creds::default();
        let made = fs.create(fs.root(), name, FileKind::File, 0o644, 0, creds);
        fs.inode(made.expect("room for a name").ino).expect("there")
    }

    /// A volume of which a user has taken all blocks that are not held back.
    fn full() -> Arc<Ext4> {
        let time = rt::WallTime::default();
        let options = MkfsOptions::new(16 << 20, [3; 16], [5; 16], time);
        let queue = Queue::new(Arc::new(blockdev::Ram::new(16 << 20)));
        let plan = plan(&options).expect("a volume");
        plan.write(&queue, DeviceContent::Zeros).expect("written");
        let mut sb = crate::superblock::read_block(&queue, BlockSize::KIB4, BlockNo(0))
            .map(|block| ondisk::ext4::Superblock::parse(&block[1024..]).expect("ours"))
            .expect("read");
        sb.set_reserved_blocks(HELD_BACK);
        crate::superblock::write_in_place(&queue, &mut sb).expect("written");
        let options = MountOptions::parse("cache=1").expect("options");
        let fs = Ext4::mount(queue, options).expect("mounted");
        let full = file(&fs, b"full");
        let mut end = 0;
        while let Ok(n) = by_user(|| fs.write(full.ino, end, &[7; 4096])) {
            end += n as u64;
        }
        fs
    }

    #[test]
    fn a_page_without_promise_gets_blocks_by_the_right_of_its_writer_only() {
        let fs = full();
        let inode = file(&fs, b"f");
        let free = || fs.statfs().expect("statfs").blocks_free;
        let before = free();
        // A page as a write that is under way makes it.
        let page = [1; 4096];
        let zeros = fs.zero_page();
        (fs.pages).write(inode.ino, 0, 0, &page, &zeros, Home::Unknown);
        let refused = fs.write_pages(&inode, 0..1, Way::BACKGROUND);
        let refused = refused.map(drop).map_err(|e| e.errno());
        assert_eq!(refused, Err(Errno::NoSpc), "the superuser writes back");
        fs.writeback(Time(u64::MAX)).expect("nobody is told");
        let other = file(&fs, b"other");
        for _ in 0..2 {
            // The write is larger than the cache: pages that others have made dirty are written
            // back, and then the file's own pages.
            (fs.write(other.ino, 0, &vec![2; 1 << 20])).expect("he may, and is not told");
            (fs.write(other.ino, 0, &vec![3; 1 << 20])).expect("he may, and is not told");
            (fs.write(inode.ino, 40_960, &vec![4; 1 << 19])).expect("he may, and is not told");
        }
        let way = Way {
            unpromised: Right::Caller,
            ..Way::BACKGROUND
        };
        let by_itself = by_user(|| fs.write_pages(&inode, 0..1, way));
        let by_itself = by_itself.map(drop).map_err(|e| e.errno());
        assert_eq!(by_itself, Err(Errno::NoSpc));
        assert!(free() + 256 + 128 + 8 >= before, "{} of {before}", free());
        fs.write_pages(&inode, 0..1, way).expect("by his right");
        fs.unmount().expect("unmount");
    }
}
