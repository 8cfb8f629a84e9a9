//! Segments of the main area: which blocks are valid (SIT), who owns them (SSA), the six logs, LFS
//! and SSR allocation, discard.
//!
//! After a power cut a mount finds a whole state. The last durable checkpoint names blocks by
//! address, and so do the node blocks that roll-forward finds behind it. Both are right as long as
//! those blocks keep their content, and their owners can be found:
//!
//! - table-V1 to table-V3 ([`table`]): a block that was valid at any moment since the last durable
//!   checkpoint is not given out, and a segment that lost its last valid block is free only behind
//!   the next checkpoint;
//! - V4 a block is overwritten in place only for the owner of the address slot that names it at
//!   that moment, and only if it is file data. Directory blocks and nodes are never overwritten in
//!   place: a checkpoint refers to their content, not to what an operation makes of it;
//! - V5 the next block of a log is fixed when the one before it is allocated, and between two
//!   checkpoints only allocation moves it: so the chain that footers of nodes form
//!   ([`Placed::next`]) misses no block of its log;
//! - V6 the summary entry of a block changes only when the block gets an owner
//!   ([`allocate`](crate::F2fs::allocate), or recovery), so (table-V1) the entry of a block which
//!   the last checkpoint knows stays until the next one: a summary block may be written, or torn,
//!   at any time. Summaries of closed segments are durable before the checkpoint behind their
//!   closing;
//! - V7 a SIT block is written over the copy that the last checkpoint does not use; the bitmap in
//!   the pack makes the new copy count;
//! - V8 a block is discarded when it is neither valid nor held, and it is not given out until the
//!   device has answered.

mod alloc;
mod checkpoint;
mod choice;
mod discard;
mod free;
mod home;
mod load;
mod map;
mod redo;
mod ssa;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use checkpoint::{SegsToWrite, lba};
pub(crate) use free::Owned;
pub(crate) use home::{HomeChanges, HomeToWrite};
pub(crate) use load::{OpenLog, SegsOnDisk};
pub(crate) use map::BlockMap;
pub(crate) use table::State;
#[cfg(test)]
pub(crate) use tests::geometry as test_geometry;

use crate::bell::Bell;
use base::{Nanos, Time};
use block::Queue;
use choice::Rules;
use discard::Discards;
use ondisk::f2fs::{AllocType, BlockAddr, Geometry, Log, SegNo, SummaryBlock, SummaryKind};
use rt::Mutex;
use rt::atomic::{AtomicU32, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;
pub(crate) use table::Table;

/// The table in memory.
pub(crate) struct Segments {
    inner: Mutex<Inner>,
    /// Sections that dirty nodes and directory blocks would fill, as
    /// [`balance`](crate::F2fs::balance) saw it last.
    pressure: AtomicU32,
    /// Sections kept for cleaning.
    pub reserved_sections: u32,
    lfs: bool,
    clock: Clock,
    /// Something is to be discarded, for the task.
    discard_bell: Bell,
    /// One round of discards at a time.
    discard_turn: Mutex<()>,
    queue: Arc<Queue>,
    geo: Geometry,
}

/// The clock of the volume: seconds that it was mounted.
struct Clock {
    before: u64,
    mounted: Time,
}

impl Clock {
    fn now(&self) -> u64 {
        self.before + (rt::now() - self.mounted).0 / Nanos::from_secs(1).0
    }
}

pub(super) struct Inner {
    table: Table,
    /// In the order of [`Log::ALL`].
    logs: Vec<OpenLog>,
    /// Summaries of segments closed since the last checkpoint.
    closed: BTreeMap<SegNo, SummaryBlock>,
    sit_bitmap: Vec<u8>,
    /// Segments whose entries stand in the SIT journal.
    journal: Vec<SegNo>,
    /// See [`Rules`].
    node_holes: bool,
    /// Sections that are being cleaned.
    cleaning: Vec<u32>,
    cursor: SegNo,
    victim_cursor: u32,
    discards: Discards,
    /// With a journal (home-V9).
    home: Option<home::HomeMaps>,
}

/// A block that was allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    /// Its address.
    pub addr: BlockAddr,
    /// The next one that this log will hand out: what the footer of a node block names, for
    /// roll-forward.
    pub next: BlockAddr,
}

/// Where a log of the main area writes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// Which.
    pub log: Log,
    /// Into a free segment, or into holes.
    pub alloc: AllocType,
    /// Its segment.
    pub seg: SegNo,
    /// The next block, counted in the segment; in a record 512, if it is full.
    pub next: u16,
}

impl Segments {
    /// Segments without a valid block that can be written now.
    pub fn free(&self) -> u32 {
        self.inner.lock().table.free()
    }
    /// Sections of such segments only.
    pub fn free_sections(&self) -> u32 {
        self.inner.lock().table.free_sections()
    }
    /// Segments without a valid block that the next checkpoint frees.
    pub fn prefree(&self) -> u32 {
        self.inner.lock().table.prefree()
    }
    /// The next address of a log: what a checkpoint writes down, and where roll-forward begins.
    pub fn next_of(&self, log: Log) -> BlockAddr {
        self.inner.lock().next_of(log)
    }
    /// Where the logs write, in the order of [`Log::ALL`].
    pub fn heads(&self) -> Vec<Head> {
        let head = |open: &OpenLog| Head {
            log: open.log,
            alloc: open.alloc,
            seg: open.segno,
            next: open.next,
        };
        self.inner.lock().logs.iter().map(head).collect()
    }
    /// Valid blocks, of data and nodes.
    pub fn valid_blocks(&self) -> u64 {
        self.inner.lock().table.total()
    }
    /// So many sections will be needed for what is dirty: logs fill holes the earlier.
    pub fn set_pressure(&self, sections: u32) {
        if self.pressure.load(Ordering::Relaxed) != sections {
            self.pressure.store(sections, Ordering::Relaxed);
        }
    }
    /// No checkpoint follows the last one (`checkpoint=disable`; called right behind one), or they
    /// do again.
    pub fn set_checkpoints_off(&self, off: bool) {
        self.inner.lock().table.set_frozen(off);
    }
    /// State, kind and valid blocks of a segment.
    pub fn look(&self, seg: SegNo) -> (State, Log, BlockMap) {
        let table = &self.inner.lock().table;
        (table.state(seg), table.kind(seg), table.valid_map(seg))
    }
    /// A section is being cleaned from now on: no log opens a segment of it.
    pub fn begin_cleaning(&self, section: u32) {
        self.inner.lock().cleaning.push(section);
    }
    /// None is any more.
    pub fn end_cleaning(&self) {
        self.inner.lock().cleaning.clear();
    }
    /// Bytes in memory.
    pub fn memory(&self) -> u64 {
        let inner = self.inner.lock();
        let summaries = (inner.logs.len() + inner.closed.len()) * base::BLOCK_BYTES;
        let home = inner.home.as_ref().map_or(0, home::HomeMaps::memory);
        (summaries + inner.sit_bitmap.len()) as u64 + inner.table.memory() + home
    }
    /// Blocks that a log can still take in its segment.
    pub fn left_in(&self, log: Log) -> u64 {
        let inner = self.inner.lock();
        let open = &inner.logs[log.index()];
        let blocks = inner.table.held_map(open.segno).inverted();
        blocks.ones().filter(|&i| i >= open.next.into()).count() as u64
    }
    /// Blocks taken since the mount.
    pub fn ever_taken(&self) -> u64 {
        self.inner.lock().table.ever_taken()
    }
    /// Blocks that may be taken, of all segments.
    pub fn usable(&self) -> u64 {
        self.inner.lock().table.usable()
    }
    /// Blocks that are neither valid nor usable: they wait for a checkpoint, or for apply.
    pub fn deferred(&self) -> u64 {
        self.inner.lock().table.deferred()
    }
    /// For the choice of victims: the table, and where the last search ended.
    pub fn with_table<R>(&self, look: impl FnOnce(&Table, &mut u32) -> R) -> R {
        let inner = &mut *self.inner.lock();
        look(&inner.table, &mut inner.victim_cursor)
    }
    /// Checks the counts by a rescan: table-V2, table-V3, and that each log stands where it may
    /// write.
    ///
    /// # Panics
    /// If they differ.
    pub fn check(&self) {
        let inner = self.inner.lock();
        inner.table.check();
        for log in &inner.logs {
            assert_eq!(
                inner.table.state(log.segno),
                State::Open,
                "table-V2: {} log",
                log.log
            );
            let next = inner.table.next_usable(log.segno, log.next.into());
            assert_eq!(next, Some(log.next.into()), "table-V1: {} log", log.log);
        }
    }

    /// Free sections are so few that logs fill holes (Linux `f2fs_need_SSR`).
    pub fn is_short(&self) -> bool {
        !self.lfs && self.free_sections() <= self.low()
    }

    fn low(&self) -> u32 {
        // Linux `f2fs_need_SSR`: what is dirty, the reserve, and as much again.
        self.pressure.load(Ordering::Relaxed) + 2 * self.reserved_sections
    }
}

impl Inner {
    fn next_of(&self, log: Log) -> BlockAddr {
        let open = &self.logs[log.index()];
        self.table.addr(open.segno, open.next.into())
    }

    fn choose(&mut self, log: Log, lfs: bool, low: u32) -> Option<(SegNo, AllocType)> {
        let rules = Rules {
            lfs,
            node_holes: self.node_holes,
            low,
            cleaning: &self.cleaning,
            discarding: self.discards.under_way(),
        };
        choice::choose(
            &self.table,
            &self.logs[log.index()],
            &rules,
            &mut self.cursor,
        )
    }

    /// The log leaves its segment for another one, whose owners are `owners`.
    fn switch(&mut self, log: Log, to: (SegNo, AllocType), mut owners: SummaryBlock) {
        owners.set_kind(kind_of(log));
        let (segno, alloc) = to;
        let first = self.table.next_usable(segno, 0);
        let next = first.expect("table-V1: only segments with usable blocks are chosen") as u16;
        self.table.open(segno, log);
        self.discards.forget(segno);
        let open = OpenLog {
            log,
            segno,
            next,
            alloc,
            owners,
        };
        let left = std::mem::replace(&mut self.logs[log.index()], open);
        self.closed.insert(left.segno, left.owners);
        self.table.close(left.segno);
    }
}

fn kind_of(log: Log) -> SummaryKind {
    if log.is_node() {
        SummaryKind::Node
    } else {
        SummaryKind::Data
    }
}

impl Inner {
    /// The number of the log that writes a segment.
    fn log_in(&self, segno: SegNo) -> Option<usize> {
        self.logs.iter().position(|log| log.segno == segno)
    }
}
