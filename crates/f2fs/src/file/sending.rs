//! A batch of pages on its way from the cache to the device: those that were taken and have no
//! place yet, and those that have one and stand in a plug.

use super::placement::Facts;
use super::{BATCH_PAGES, DataStats};
use crate::F2fs;
use crate::inode::Inode;
use crate::ops::Op;
use base::cost::f2fs as cost;
use base::{BlockNo, Bytes};
use block::{Class, Plug};
use fscore::{DirtyRun, FsResult};
use ondisk::f2fs::{BlockAddr, Log, Nid};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Pages that are being sent.
pub(super) struct Sending {
    plug: Plug,
    class: Class,
    pub log: Log,
    /// Blocks that are mapped are overwritten.
    pub in_place: bool,
    /// Runs of pages in the plug.
    runs: Vec<Range<u64>>,
    /// Blocks in the plug.
    pub over: BTreeSet<BlockAddr>,
    /// Something in the plug has got a new block.
    pub mapped: bool,
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
            log: facts.log(),
            in_place: facts.in_place(),
            runs: Vec::new(),
            over: BTreeSet::new(),
            mapped: false,
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

    pub fn add(&mut self, addr: BlockAddr, page: Bytes, index: u64) {
        let lba = BlockNo(u64::from(addr.0)).lba();
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
        let plug = std::mem::replace(&mut self.plug, fs.queue.plug());
        let watch = inode.flights.add_runs(self.runs.drain(..), plug.submit());
        fs.content.took_off(inode.ino);
        if let (Some(tx), Some(watch), true) = (op.tx(), watch, self.mapped) {
            // writeback-W4.
            tx.data_sent(watch);
        }
        self.mapped = false;
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
