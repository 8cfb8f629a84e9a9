//! Write-back: dirty pages get a block, or keep theirs, and go to the device.
//!
//! Pages travel in batches of at most a segment, each inside one `Op`: mapping, validity and counts change together (D2). A batch is
//! not waited for: `land` does, for whoever needs it (fsync, truncation, a checkpoint, the next write-back).

use super::placement::Facts;
use super::{BATCH_PAGES, Content, DataStats, Place};
use crate::F2fs;
use crate::cost;
use crate::inode::Inode;
use crate::map::Tree;
use crate::ops::Op;
use base::{BlockNo, Bytes, Ino, Mutant, Time};
use block::{Class, Plug};
use fscore::{DirtyRun, Errno, FsError, FsResult, Take};
use ondisk::f2fs::{BlockAddr, Log, Nid, Summary};
use rt::MutexGuard;
use std::collections::BTreeSet;
use std::ops::Range;

/// The `wb` lock of the inode.
pub(crate) type Held<'a> = MutexGuard<'a, ()>;

/// What became of a batch.
enum Batch {
    /// Nothing dirty is left.
    Done,
    /// It is full; there may be more from this page on.
    More(u64),
    /// This page is still on its way.
    Busy(u64),
}

impl F2fs {
    /// Submits the dirty pages of `range`, taking an `Op` for each batch. Waits for none. The caller may hold the gate, nothing below.
    pub(crate) fn write_pages(&self, inode: &Inode, range: Range<u64>) -> FsResult<()> {
        self.write_batches(inode, range, Place::Policy)
    }

    /// The same for an fsync, whose few pages may go in place.
    pub(crate) fn sync_pages(&self, inode: &Inode) -> FsResult<()> {
        self.write_batches(inode, 0..u64::MAX, Place::Sync)
    }

    fn write_batches(&self, inode: &Inode, range: Range<u64>, place: Place) -> FsResult<()> {
        if !self.pages.is_dirty(inode.ino) {
            return Ok(());
        }
        self.check_writable()?;
        let facts = self.facts(inode, place);
        let mut from = range.start;
        loop {
            // Directories are a checkpoint's, which `balance` may write.
            if !facts.dir {
                self.balance()?;
            }
            match self.with_op(|op| self.write_batch(op, inode, from..range.end, facts))? {
                Batch::Done => return Ok(()),
                Batch::More(next) => from = next,
                Batch::Busy(at) => {
                    from = at;
                    // A failure is kept, and the page is dirty again.
                    let _ = self.land(inode);
                }
            }
        }
    }

    /// The same inside the caller's `Op` (checkpoint: directories; cleaning).
    pub(crate) fn write_pages_in(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        range: Range<u64>,
        place: Place,
    ) -> FsResult<()> {
        let wb = inode.wb.lock();
        self.write_pages_held(op, inode, range, place, &wb)
    }

    /// The same for who holds `wb` already, because nobody else may send these pages by another rule.
    pub(crate) fn write_pages_held(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        range: Range<u64>,
        place: Place,
        wb: &Held<'_>,
    ) -> FsResult<()> {
        let facts = self.facts(inode, place);
        let mut from = range.start;
        loop {
            match self.write_batch_held(op, inode, from..range.end, facts, BATCH_PAGES, wb)? {
                Batch::Done => return Ok(()),
                Batch::More(next) => from = next,
                Batch::Busy(at) => {
                    from = at;
                    let _ = self.land(inode);
                }
            }
        }
    }

    fn write_batch(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        range: Range<u64>,
        facts: Facts,
    ) -> FsResult<Batch> {
        let wb = inode.wb.lock();
        // With a journal: some at a time, until the operation is long. Each logs up to 72 bytes.
        let each = match op.tx() {
            Some(_) => self.op_max() / 512,
            None => BATCH_PAGES,
        };
        self.write_batch_held(op, inode, range, facts, each, &wb)
    }

    fn write_batch_held(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        range: Range<u64>,
        facts: Facts,
        each: usize,
        _wb: &Held<'_>,
    ) -> FsResult<Batch> {
        if inode.core().gone {
            // Freed while we waited: pages under this number belong to a new inode by now.
            return Ok(Batch::Done);
        }
        let mut sending = Sending::new(self, facts);
        let mut from = range.start;
        let outcome = loop {
            let room = BATCH_PAGES - sending.pages;
            if room == 0 || (each < BATCH_PAGES && self.is_long(op)) {
                break Ok(Batch::More(from));
            }
            match self
                .pages
                .take_dirty(inode.ino, from..range.end, room.min(each))
            {
                Take::Nothing => break Ok(Batch::Done),
                Take::Busy(at) => break Ok(Batch::Busy(at)),
                Take::Run(run) => {
                    from = run.range().end;
                    if let Err(e) = self.place_run(op, inode, &run, &mut sending) {
                        break Err(e);
                    }
                }
            }
        };
        sending.send(self, op, inode);
        sending.note(self, inode);
        outcome
    }

    /// Finds a place for each page of a run.
    fn place_run(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        run: &DirtyRun,
        sending: &mut Sending,
    ) -> FsResult<()> {
        for (i, page) in run.pages.iter().enumerate() {
            let index = run.first + i as u64;
            let placed = {
                let mut tree = inode.tree.lock();
                self.place_page(op, inode, &mut tree, index, sending)
            };
            let addr = match placed {
                Ok(addr) => addr,
                Err(e) => {
                    self.pages.give_back(inode.ino, run, i);
                    if matches!(e, FsError::Corrupt { .. }) {
                        // Trying again would fail for ever: the page is lost, the next fsync says so.
                        self.pages.drop_range(inode.ino, index..index + 1);
                        inode.core().write_error.get_or_insert(e.clone());
                    }
                    return Err(e);
                }
            };
            if sending.over.contains(&addr) {
                // Only a damaged mapping leads to one block twice; one plug must not hold it twice.
                sending.send(self, op, inode);
            }
            sending.add(addr, page.clone(), index);
        }
        Ok(())
    }

    /// The block that page `index` goes to; the slot says so afterwards.
    fn place_page(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
        sending: &mut Sending,
    ) -> FsResult<BlockAddr> {
        let slot = self.find_slot(inode, tree, index)?;
        let Some(slot) = slot.filter(|s| s.addr != BlockAddr::NULL) else {
            return Err(FsError::corrupt(format!(
                "inode {}: page {index} is dirty and has no block reserved",
                inode.ino
            )));
        };
        if slot.addr.is_data() && sending.in_place {
            sending.stats.in_place += 1;
            return Ok(slot.addr);
        }
        let owner = Summary {
            nid: slot.nid,
            version: sending.version(self, slot.nid)?,
            ofs_in_node: slot.slot,
        };
        let placed = self.allocate(op, sending.log, slot.addr, owner)?;
        if let Err(e) = self.set_slot(op, inode, tree, index, &slot, placed.addr) {
            // The old block is given up and the slot still names it: no checkpoint may say so.
            self.fail(&e);
            return Err(e);
        }
        sending.stats.out_of_place[sending.log.heat()] += 1;
        sending.mapped = true;
        Ok(placed.addr)
    }

    /// Waits for the data of an inode that is on its way, and settles its pages. A failure is kept for the next fsync as well, and
    /// its pages are dirty again.
    pub(crate) fn land(&self, inode: &Inode) -> FsResult<()> {
        let ino = inode.ino;
        let landed = inode.flights.land(|pages, result| match result {
            Ok(()) => self.pages.written(ino, pages),
            Err(_) => self.pages.unwritten(ino, pages),
        });
        self.content.landed(inode);
        if let Err(e) = &landed {
            inode.core().write_error.get_or_insert(e.clone());
            if inode.is_dir() {
                self.fail(e);
            }
        }
        landed.map(drop)
    }

    /// Waits for all data on its way: whatever a checkpoint maps has been written (D2).
    ///
    /// # Errors
    /// A block of a directory could not be written. Those of files are dirty again, and their fsync says so.
    pub(crate) fn land_all(&self) -> FsResult<()> {
        self.land_each(true)
    }

    /// The same for `sync`, which hears of all failures.
    pub(crate) fn land_files(&self) -> FsResult<()> {
        self.land_each(false)
    }

    fn land_each(&self, only_dirs_count: bool) -> FsResult<()> {
        let mut first = Ok(());
        if only_dirs_count && rt::mutant(Mutant::F2fsMapBeforeData) {
            return first;
        }
        for ino in self.content.flying() {
            let Some(inode) = self.inodes.get(ino) else {
                // Freed: it has landed.
                self.content.flying.lock().remove(&ino);
                continue;
            };
            let landed = self.land(&inode);
            if inode.is_dir() || !only_dirs_count {
                first = first.and(landed);
            }
        }
        first
    }

    /// Starts to write back what became dirty before `older_than` (`None`: everything); lands what earlier calls sent. Directories wait
    /// for the checkpoint.
    pub(crate) fn writeback_files(&self, older_than: Option<Time>) -> FsResult<()> {
        // Failures are kept in the inodes.
        let _ = self.land_all();
        let dirs: BTreeSet<Ino> = self.pages.dirty_meta_files().into_iter().collect();
        for ino in self.pages.dirty_files(older_than) {
            if dirs.contains(&ino) {
                continue;
            }
            let Some(inode) = self.inodes.get(ino) else {
                continue;
            };
            match self.write_pages(&inode, 0..u64::MAX) {
                // Kept for the fsync of that file.
                Err(FsError::Corrupt { .. }) => {}
                Err(e) if e.errno() == Errno::Stale => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Dirty pages that write-back can write.
    pub(crate) fn dirty_file_pages(&self) -> u64 {
        let all = self.pages.dirty_pages();
        all.saturating_sub(self.pages.dirty_meta_pages())
    }

    /// Cleaning: makes page `index` dirty as it is, so that `write_pages_in` moves it. False if it has no block.
    pub(crate) fn unsettle_page(&self, inode: &Inode, index: u64) -> FsResult<bool> {
        let dir = inode.is_dir();
        while !self.pages.make_dirty(inode.ino, index, dir) {
            // A full cache may let it go again at once; then it is written into it.
            let Some(page) = self.fill(inode, index, index + 1)? else {
                return Ok(false);
            };
            let known = fscore::Home::Known;
            // Nothing of it: a writer may have changed the page since it was read.
            self.pages
                .write(inode.ino, index, 0, &page[..0], &page, known);
        }
        Ok(true)
    }

    /// What write-back did so far.
    pub fn data_stats(&self) -> DataStats {
        *self.content.stats.lock()
    }
}

impl Content {
    fn flying(&self) -> Vec<Ino> {
        self.flying.lock().iter().copied().collect()
    }

    pub(super) fn took_off(&self, ino: Ino) {
        self.flying.lock().insert(ino);
    }

    /// Takes the inode off the list, unless something has been sent again: that is looked at under the lock, and who sends adds to the
    /// flights first.
    fn landed(&self, inode: &Inode) {
        let mut flying = self.flying.lock();
        if inode.flights.is_empty() {
            flying.remove(&inode.ino);
        }
    }
}

/// Pages that are being sent.
struct Sending {
    plug: Plug,
    class: Class,
    log: Log,
    /// Blocks that are mapped are overwritten.
    in_place: bool,
    /// Runs of pages in the plug.
    runs: Vec<Range<u64>>,
    /// Blocks in the plug.
    over: BTreeSet<BlockAddr>,
    /// Something in the plug has got a new block.
    mapped: bool,
    /// Of the whole batch.
    pages: usize,
    stats: DataStats,
    /// The version of the last node, which is most often that of the next one.
    version: Option<(Nid, u8)>,
}

impl Sending {
    fn new(fs: &F2fs, facts: Facts) -> Sending {
        Sending {
            plug: fs.queue.plug(),
            class: if facts.dir {
                Class::Dentry
            } else {
                Class::Data
            },
            log: facts.log(),
            in_place: facts.in_place(),
            runs: Vec::new(),
            over: BTreeSet::new(),
            mapped: false,
            pages: 0,
            stats: DataStats::default(),
            version: None,
        }
    }

    fn version(&mut self, fs: &F2fs, nid: Nid) -> FsResult<u8> {
        match self.version {
            Some((of, version)) if of == nid => Ok(version),
            _ => {
                let version = fs.nat_get(nid)?.version;
                self.version = Some((nid, version));
                Ok(version)
            }
        }
    }

    fn add(&mut self, addr: BlockAddr, page: Bytes, index: u64) {
        let lba = BlockNo(u64::from(addr.0)).lba();
        self.plug.write(lba, self.class, page);
        self.over.insert(addr);
        self.pages += 1;
        match self.runs.last_mut() {
            Some(run) if run.end == index => run.end += 1,
            _ => self.runs.push(index..index + 1),
        }
    }

    /// Submits what was gathered; whoever lands the flights waits for it, and the commit of the epoch that maps it (I1).
    fn send(&mut self, fs: &F2fs, op: &Op<'_>, inode: &Inode) {
        if self.plug.is_empty() {
            return;
        }
        let pages: u64 = self.runs.iter().map(|run| run.end - run.start).sum();
        let each = match self.class {
            Class::Dentry => cost::META_BLOCK,
            _ => cost::WRITEBACK_PAGE,
        };
        cost::charge(each, pages);
        self.over.clear();
        let plug = std::mem::replace(&mut self.plug, fs.queue.plug());
        let watch = inode.flights.add_runs(self.runs.drain(..), plug.submit());
        fs.content.took_off(inode.ino);
        if let (Some(tx), Some(watch), true) = (op.tx(), watch, self.mapped) {
            tx.data_sent(watch);
        }
        self.mapped = false;
    }

    /// Tells fsync what happened, and counts it.
    fn note(&self, fs: &F2fs, inode: &Inode) {
        let moved: u64 = self.stats.out_of_place.iter().sum();
        {
            let mut core = inode.core();
            core.appended |= moved > 0;
            core.updated |= self.stats.in_place > 0;
        }
        let mut stats = fs.content.stats.lock();
        stats.in_place += self.stats.in_place;
        for (sum, n) in stats.out_of_place.iter_mut().zip(self.stats.out_of_place) {
            *sum += n;
        }
        if self.class == Class::Dentry {
            stats.dentry += moved;
        }
    }
}
