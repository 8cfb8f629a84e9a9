//! A batch of pages on its way from the cache to the device: those that were taken and have no
//! place yet, and those that have one and stand in a plug.

use super::placement::Facts;
use super::{BATCH_PAGES, DataStats, Why};
use crate::F2fs;
use crate::flights::First;
use crate::inode::Inode;
use crate::journal::DataSent;
use crate::journal::summed::BlockSum;
use crate::ops::Op;
use base::cost::f2fs as cost;
use base::cost::journal::COMMIT_PER_BLOCK;
use base::{BlockNo, Bytes};
use block::{Batch, Class, Plug};
use fscore::{DirtyRun, FsResult, Sends};
use ondisk::f2fs::journal::DATA_SUMS_MAX;
use ondisk::f2fs::{BlockAddr, Log, Nid};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Pages of one fsync that go with the transaction, at most: non-volatile writes are programmed one
/// by one, a flush takes the cache as a whole, so with many pages the flush is cheaper.
const GROUP_PAGES_MAX: usize = 16;

/// Calls of fsync under way with which pages in place are non-volatile writes, at most: a flush
/// serves all calls that wait for it, so with many calls it is the cheaper way to make such pages
/// durable.
const RIDING_SYNCS_MAX: u64 = 16;

/// Pages that are being sent.
pub(super) struct Sending {
    plug: Plug,
    class: Class,
    /// Nobody waits for it.
    background: bool,
    pub log: Log,
    /// Blocks that are mapped are overwritten.
    pub in_place: bool,
    /// Runs of pages in the plug.
    runs: Vec<Range<u64>>,
    /// Blocks in the plug.
    pub over: BTreeSet<BlockAddr>,
    /// Pages in the plug that have got a new block.
    fresh: Vec<(BlockAddr, Bytes)>,
    /// Their checksums may stand in the transaction (f2fs-commit-K9).
    summed: bool,
    pub stats: DataStats,
    /// The version of the last node, which is most often that of the next one.
    version: Option<(Nid, u8)>,
    /// With a journal: blocks that were taken, and those that they replace.
    pub taken: Vec<BlockAddr>,
    pub replaced: Vec<BlockAddr>,
    /// With a journal: the page behind the last one that got a block.
    pub end: u64,
}

/// Dirty pages that were taken and have no place yet.
pub(super) struct Taken {
    pub runs: VecDeque<DirtyRun>,
    /// Pages that the batch may still take.
    pub room: usize,
}

impl Taken {
    pub fn at_most(pages: usize) -> Taken {
        Taken {
            runs: VecDeque::new(),
            room: pages.clamp(1, BATCH_PAGES),
        }
    }
}

impl Sending {
    pub fn new(fs: &F2fs, facts: Facts) -> Sending {
        Sending {
            plug: fs.queue.plug(),
            class: if facts.dir {
                Class::Dentry
            } else {
                Class::Data
            },
            background: facts.why == Why::Background,
            log: facts.log(),
            in_place: facts.in_place(),
            runs: Vec::new(),
            over: BTreeSet::new(),
            fresh: Vec::new(),
            summed: facts.summed,
            stats: DataStats::default(),
            version: None,
            taken: Vec::new(),
            replaced: Vec::new(),
            end: 0,
        }
    }

    pub fn version(&mut self, fs: &F2fs, nid: Nid) -> FsResult<u8> {
        match self.version {
            Some((of, version)) if of == nid => Ok(version),
            _ => {
                let version = fs.nat.get(nid)?.version;
                self.version = Some((nid, version));
                Ok(version)
            }
        }
    }

    /// Adds a page; `new`: the block is, and the epoch maps it.
    pub fn add(&mut self, addr: BlockAddr, page: Bytes, index: u64, new: bool) {
        let lba = BlockNo(u64::from(addr.0)).lba();
        if new {
            self.fresh.push((addr, page.clone()));
        }
        self.plug.write(lba, self.class, page);
        self.over.insert(addr);
        match self.runs.last_mut() {
            Some(run) if run.end == index => run.end += 1,
            _ => self.runs.push(index..index + 1),
        }
    }

    /// Submits what was gathered. Callers that land the flights wait for it, and so does the commit
    /// of the epoch that maps it (f2fs-journal-I1).
    pub fn send(&mut self, fs: &F2fs, op: &Op<'_>, inode: &Inode) {
        if self.plug.is_empty() {
            return;
        }
        let pages: u64 = self.runs.iter().map(|run| run.end - run.start).sum();
        match self.class {
            Class::Dentry => rt::charge_each(cost::META_BLOCK, pages),
            _ => rt::charge_run(cost::WRITEBACK_PAGE, cost::WRITEBACK_NEXT_PAGE, pages),
        }
        self.over.clear();
        let fresh = std::mem::take(&mut self.fresh);
        let sums = match self.summed {
            true => fs.sum_blocks(op, &fresh),
            false => Vec::new(),
        };
        let plug = std::mem::replace(&mut self.plug, fs.queue.plug());
        let plug = match self.background {
            true => plug.background(),
            false => plug,
        };
        let grouped = self.summed
            && sums.len() == fresh.len()
            && fs.may_group(pages as usize)
            && (!fresh.is_empty() || fs.may_ride());
        let first = match () {
            () if grouped && fresh.is_empty() => First::Rider,
            () if grouped || sums.len() as u64 == pages => First::Commit,
            () => First::Sender,
        };
        let runs = self.runs.drain(..);
        let batch = send_or_hold(plug, grouped, inode);
        let watch = inode.flights.add_runs(runs, batch, first);
        fs.content.took_off(inode.ino);
        if let (Some(tx), Some(watch), false) = (op.tx(), watch, fresh.is_empty()) {
            // writeback-W4.
            tx.data_sent(DataSent {
                watch,
                sums,
                grouped,
            });
        }
    }

    /// Tells fsync what happened, and counts it.
    pub fn note(&self, fs: &F2fs, inode: &Inode) {
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

/// Sends pages, or leaves them to a commit, which sends them with its transaction (f2fs-commit-K11,
/// f2fs-commit-K12). A task that waits for them before does not wait for the commit: it sends them.
pub(super) fn send_or_hold(plug: Plug, grouped: bool, inode: &Inode) -> Batch {
    match grouped {
        true => plug.non_volatile().hold(),
        false => Sends(inode.ino).scope(|| plug.submit()),
    }
}

impl F2fs {
    /// True if so many pages of an fsync go to the device with a transaction: where a write can be
    /// non-volatile by itself, and a flush would cost more.
    pub(super) fn may_group(&self, pages: usize) -> bool {
        let caps = self.queue.caps();
        (1..=GROUP_PAGES_MAX).contains(&pages) && (caps.fua || !caps.volatile_cache)
    }

    /// True if pages in place that an fsync writes go without a flush.
    fn may_ride(&self) -> bool {
        let syncing = self.journal.as_ref().map_or(0, |j| j.syncing());
        syncing <= RIDING_SYNCS_MAX
    }

    /// The checksums of new blocks, for the transaction that maps them; none if they are more than
    /// one has. Recovery may ask for these blocks from now on (summed-Q4).
    pub(super) fn sum_blocks(&self, op: &Op<'_>, fresh: &[(BlockAddr, Bytes)]) -> Vec<BlockSum> {
        let (Some(journal), Some(tx)) = (&self.journal, op.tx()) else {
            return Vec::new();
        };
        if fresh.is_empty() || fresh.len() > DATA_SUMS_MAX {
            return Vec::new();
        }
        rt::charge_each(COMMIT_PER_BLOCK, fresh.len() as u64);
        let sum = |(addr, page): &(BlockAddr, Bytes)| BlockSum::of(*addr, page);
        let sums: Vec<BlockSum> = fresh.iter().map(sum).collect();
        journal.summed.note(tx.epoch(), &sums);
        sums
    }
}
