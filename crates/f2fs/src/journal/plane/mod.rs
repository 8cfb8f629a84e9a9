//! Control plane: the epochs that are not committed, the operations in them, and the records they
//! gathered. The files below are the data plane: how an operation picks its epoch and logs
//! ([`tx`]), and the lists that take its records. None of them writes to the ring or calls the file
//! system, because every part of the file system that changes something logs it here. Of the ring
//! they have figures only, and of the device only the writes of data that an epoch waits for.
//!
//! An epoch runs (operations may enter), is closed ([`Plane::switch`]), drained ([`Plane::drain`]:
//! no operation is in it any more), collected ([`Plane::collect`]: its lists belong to the
//! committer) and committed ([`Plane::committed`]). One task commits at a time, in order.
//!
//! - P1 at most [`EPOCHS`] epochs, the running one among them, are not committed: a slot is free
//!   when its last epoch is committed, and until then the switch is put off;
//! - P2 an operation appends its records before it leaves its epoch, and an epoch is collected when
//!   no operation is in it: so what was collected is whole operations, and all of them
//!   (f2fs-journal-I4);
//! - P3 no operation waits for a switch or a drain. (With `switch=wait` operations do wait, but in
//!   `ring/locked.rs` and not here.)

mod data;
#[cfg(any(test, feature = "mutants"))]
pub mod explore;
mod figures;
mod gate;
mod gathered;
mod global;
mod ideas;
mod lists;
mod load;
pub mod measured;
#[cfg(test)]
mod tests;
mod touched;
mod tx;
mod world;

pub(crate) use data::{DataSent, EpochData};
pub use figures::PlaneStats;
pub(crate) use gathered::OfVolume;
pub use ideas::Ideas;
pub(crate) use load::Load;
pub(crate) use tx::Tx;

use super::pages::Touched;
use super::{Epoch, UsageDelta};
use base::{BLOCK_BYTES, Mutant, Nanos};
use figures::LockBooks;
use fscore::{FsError, FsResult};
use gate::{Gate, Padded};
use gathered::{Gathered, Pool};
use global::Global;
use lists::{InodeLog, Table};
use ondisk::f2fs::{BlockAddr, Nid};
use rt::Mutex;
use rt::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;
use world::Rt;

/// Epochs between running and committed.
const EPOCHS: usize = 8;
/// Parts of the ring that one epoch may fill.
const EPOCHS_PER_RING: u64 = 4;
/// Parts of what tasks share: tasks with different numbers seldom meet.
const SHARDS: usize = 16;
/// A shard reports its bytes when it has so many, or its part of what an epoch may have.
const REPORT_BYTES: u64 = 4096;

/// The records of one inode in one epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OwnedGroup {
    /// The inode.
    pub ino: Nid,
    /// How many.
    pub records: u32,
    /// Encoded, in the order of lists-D1.
    pub bytes: Vec<u8>,
}

/// What an epoch gathered.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Closed {
    /// Which.
    pub epoch: Epoch,
    /// Records by inode, in the order in which the inodes were registered (by shard).
    pub groups: Vec<OwnedGroup>,
    /// How the counts change.
    pub usage: UsageDelta,
    /// Blocks that were valid before.
    pub freed_blocks: Vec<BlockAddr>,
    /// Node numbers that are free.
    pub freed_nids: Vec<Nid>,
    /// What no group has (tx-O1), until the epoch is trimmed.
    pub own: OfVolume,
    /// Bytes of all records.
    pub bytes: u64,
    /// What `groups` was before images took its place.
    #[cfg(test)]
    pub records: Vec<OwnedGroup>,
}

/// What the tasks of one shard gathered in one epoch.
#[derive(Default)]
struct Part {
    /// The epoch of what was gathered; nothing is left of an older one.
    epoch: u64,
    /// Last epoch that was collected from here.
    collected: u64,
    registered: Vec<Arc<InodeLog>>,
    usage: UsageDelta,
    freed_blocks: Vec<BlockAddr>,
    freed_nids: Vec<Nid>,
    own: OfVolume,
    touched: Vec<Nid>,
    data: Vec<DataSent>,
    bytes: u64,
    reported: u64,
}

impl Part {
    /// An operation of `epoch` appends.
    fn begin(&mut self, epoch: Epoch) {
        assert!(
            epoch.0 > self.collected,
            "f2fs-journal-I4: an operation appends to epoch {}, which has been collected",
            epoch.0
        );
        if self.epoch != epoch.0 {
            assert!(
                self.is_empty(),
                "P1: epoch {} is put over epoch {}",
                epoch.0,
                self.epoch
            );
            self.epoch = epoch.0;
            (self.bytes, self.reported) = (0, 0);
        }
    }

    fn take_over(&mut self, gathered: &Gathered) {
        if !gathered.is_only_records() {
            self.usage += gathered.usage;
            self.freed_blocks.extend(&gathered.freed_blocks);
            self.freed_nids.extend(&gathered.freed_nids);
            self.own.extend(&gathered.own);
            self.touched.extend(&gathered.touched);
            self.data.extend(gathered.data.iter().cloned());
        }
    }

    fn is_empty(&self) -> bool {
        self.registered.is_empty()
            && self.usage.is_none()
            && self.freed_blocks.is_empty()
            && self.freed_nids.is_empty()
            && self.own.is_empty()
            && self.touched.is_empty()
            && self.data.is_empty()
    }
}

struct Shard {
    part: Mutex<Part>,
    /// Last epoch that has something here.
    used: AtomicU64,
}

/// Where one epoch in [`EPOCHS`] gathers.
struct Slot {
    shards: Vec<Padded<Shard>>,
    /// Bytes, as far as they were reported.
    bytes: Padded<AtomicU64>,
}

#[derive(Default)]
struct Control {
    committed: u64,
    collected: u64,
    /// Inodes of epochs that are collected and not committed.
    inodes: VecDeque<(u64, Vec<Nid>)>,
    stats: PlaneStats,
}

/// All epochs that are not committed.
pub(crate) struct Plane {
    gate: Gate<Rt, EPOCHS>,
    pool: Pool,
    slots: Vec<Slot>,
    table: Table,
    control: Mutex<Control>,
    /// An operation ended without an end: nothing can be committed any more.
    broken: AtomicBool,
    /// Bytes that an epoch may have, about.
    cap: u64,
    report: u64,
    pub(super) ideas: Ideas,
    /// With `records=pages`: what epochs touch.
    touched: Option<Touched>,
    /// With `lists=global`.
    global: Option<Global>,
    books: LockBooks,
    /// The last committed epoch, for looks without the lock.
    committed: AtomicU64,
    ring: RingRoom,
}

/// What of the ring is free, for looks without its lock.
struct RingRoom {
    blocks: u64,
    free: AtomicU64,
    /// Bytes of records that are collected and not applied.
    kept: AtomicU64,
}

impl Plane {
    /// Bytes of records that are not collected.
    pub fn memory(&self) -> u64 {
        let shards = self.slots.iter().flat_map(|slot| &slot.shards);
        let own = shards.map(|shard| shard.0.part.lock().own.bytes() as u64);
        self.table.bytes() + own.sum::<u64>()
    }

    /// Epoch `committed` is the last one on the device; `ring_blocks` are free there.
    pub fn new(committed: Epoch, ring_blocks: u32, ideas: Ideas) -> Plane {
        let cap = u64::from(ring_blocks) * BLOCK_BYTES as u64 / EPOCHS_PER_RING;
        let part = || Mutex::named("f2fs log part", Part::default());
        let shard = || {
            Padded(Shard {
                part: part(),
                used: AtomicU64::new(0),
            })
        };
        let slot = || Slot {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            bytes: Padded(AtomicU64::new(0)),
        };
        let control = Control {
            committed: committed.0,
            collected: committed.0,
            ..Control::default()
        };
        Plane {
            gate: Gate::new(committed.0 + 1, SHARDS),
            pool: Pool::new(SHARDS),
            slots: (0..EPOCHS).map(|_| slot()).collect(),
            table: Table::new(),
            control: Mutex::named("f2fs epochs", control),
            broken: AtomicBool::new(false),
            cap,
            ideas,
            global: (!ideas.inode_lists).then(Global::new),
            books: LockBooks::default(),
            report: REPORT_BYTES.min(cap / (4 * SHARDS as u64)).max(1),
            touched: (!ideas.change_records).then(Touched::new),
            committed: AtomicU64::new(committed.0),
            ring: RingRoom {
                blocks: ring_blocks.into(),
                free: AtomicU64::new(ring_blocks.into()),
                kept: AtomicU64::new(0),
            },
        }
    }

    /// The running epoch has as many bytes as one may have.
    pub fn is_full(&self) -> bool {
        self.running_bytes() >= self.cap
    }

    /// The running epoch is half full: time to commit it.
    pub fn is_half_full(&self) -> bool {
        self.running_bytes() >= self.cap / 2
    }

    /// Epochs that are not committed, the running one among them. The number of the committed one
    /// is read first: read last, it may have overtaken the running one that was seen.
    fn uncommitted(&self) -> u64 {
        let committed = self.committed.load(Ordering::Acquire);
        self.gate.running() - committed
    }

    /// True if an epoch is closed and not committed.
    pub fn is_behind(&self) -> bool {
        self.uncommitted() > 1
    }

    /// All slots but one are taken, so that the next switch but one would be put off.
    pub fn is_crowded(&self) -> bool {
        self.uncommitted() >= EPOCHS as u64 - 1
    }

    /// Closed epochs that are not committed, plus the filled part of the running one, in relation
    /// to the number at which operations wait.
    pub fn load(&self) -> Load {
        let closed = self.uncommitted() - 1;
        let bytes = self.running_bytes().min(self.cap);
        Load::of(closed * self.cap + bytes, (EPOCHS as u64 - 2) * self.cap)
    }

    /// Notes how many blocks of the ring are free now.
    pub fn note_free(&self, free: u32) {
        self.ring.free.store(free.into(), Ordering::Release);
    }

    /// Notes that committed epochs with this many bytes of records are applied.
    pub fn note_applied(&self, bytes: u64) {
        self.ring.kept.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// What is kept of an epoch has `kept` bytes, instead of the `collected` ones.
    pub fn kept_instead(&self, collected: u64, kept: u64) {
        self.ring.kept.fetch_add(kept, Ordering::AcqRel);
        self.ring.kept.fetch_sub(collected, Ordering::AcqRel);
    }

    /// Free blocks of the ring, and all of them.
    pub fn room(&self) -> (u64, u64) {
        (self.ring.free.load(Ordering::Acquire), self.ring.blocks)
    }

    /// Bytes of records that are collected and not applied.
    pub fn kept(&self) -> u64 {
        self.ring.kept.load(Ordering::Acquire)
    }

    /// An operation is about to pick its epoch: a full one is closed first, without any wait
    /// (reserve-V2). With `switch=wait` the operation has waited before (locked-T4).
    fn before_pick(&self) {
        if self.ideas.planes && self.is_full() {
            self.switch();
        }
    }

    /// Lets an operation in. It has no epoch before its first change.
    pub fn enter(&self) -> Tx<'_> {
        Tx::new(self)
    }

    /// The epoch that operations go to.
    pub fn running(&self) -> Epoch {
        Epoch(self.gate.running())
    }

    /// The last epoch that logged inode `ino` at all, and the last one that logged more than times:
    /// 0 if it is committed. Operations count from their first record of the inode on; a task that
    /// waits for the epoch waits for their end.
    pub fn last_logged(&self, ino: Nid) -> (Epoch, Epoch) {
        self.table.last(ino)
    }

    fn slot(&self, epoch: u64) -> &Slot {
        &self.slots[(epoch % EPOCHS as u64) as usize]
    }

    fn log_of(&self, ino: Nid) -> Arc<InodeLog> {
        self.table.get(ino)
    }

    /// An operation ends (P2: it is still in its epoch).
    fn append(&self, epoch: Epoch, shard: usize, gathered: &Gathered) {
        let mut fresh = [const { None }; 4];
        let mut more = Vec::new();
        if let Some(global) = &self.global {
            global.file(epoch, &gathered.mixed, &self.books);
        }
        for (i, of) in gathered.inodes().iter().enumerate() {
            let log = of.log.as_ref().expect("a list in use has its inode");
            if of.list.records > 0 && log.append(epoch, &of.list, &self.books) {
                match fresh.get_mut(i) {
                    Some(place) => *place = Some(Arc::clone(log)),
                    None => more.push(Arc::clone(log)),
                }
            }
        }
        let slot = self.slot(epoch.0);
        let shard = &slot.shards[shard % SHARDS].0;
        let unreported = self.books.within(&shard.part, |part| {
            part.begin(epoch);
            part.registered.extend(fresh.into_iter().flatten());
            part.registered.append(&mut more);
            part.bytes += match self.touched {
                Some(_) => gathered.load.bytes() as u64,
                None => gathered.bytes as u64,
            };
            part.take_over(gathered);
            let unreported = part.bytes - part.reported;
            let tells = unreported >= self.report;
            if tells {
                part.reported = part.bytes;
            }
            tells.then_some(unreported)
        });
        if let Some(unreported) = unreported {
            slot.bytes.0.fetch_add(unreported, Ordering::AcqRel);
        }
        if shard.used.load(Ordering::Acquire) != epoch.0 {
            shard.used.store(epoch.0, Ordering::Release);
        }
    }

    /// Bytes of the running epoch, without what operations have not reported yet (in all at most a
    /// quarter of what the epoch may have).
    pub fn running_bytes(&self) -> u64 {
        let running = self.gate.running();
        self.slot(running).bytes.0.load(Ordering::Acquire)
    }

    /// True if something is in the running epoch.
    pub(super) fn is_running_used(&self) -> bool {
        self.is_used(self.gate.running())
    }

    /// True if no operation is in `epoch`, which does not run any more.
    pub(super) fn is_drained(&self, epoch: Epoch) -> bool {
        self.gate.is_empty(epoch.0)
    }

    /// True if something is in `epoch`, or may come.
    fn is_used(&self, epoch: u64) -> bool {
        // An operation appends its records before it leaves.
        let inside = !self.gate.is_empty(epoch);
        let slot = self.slot(epoch);
        let mut shards = slot.shards.iter();
        inside || shards.any(|shard| shard.0.used.load(Ordering::Acquire) == epoch)
    }

    /// Closes the running epoch, if anything is in it and a slot is free (P1). Answers the last
    /// closed one. It does not wait (P3).
    pub fn switch(&self) -> Epoch {
        self.close(false)
    }

    /// Closes the running epoch though nothing is in it: an empty transaction is to follow the last
    /// one (f2fs-commit-K10).
    pub fn close_empty(&self) -> Epoch {
        self.close(true)
    }

    fn close(&self, empty: bool) -> Epoch {
        let mut control = self.control.lock();
        let running = self.gate.running();
        if !empty && !self.is_used(running) {
            return Epoch(running - 1);
        }
        let next = running + 1;
        if next - control.committed > EPOCHS as u64 {
            control.stats.postponed += 1;
            return Epoch(running - 1);
        }
        let start = rt::now();
        self.slot(next).bytes.0.store(0, Ordering::Release);
        self.gate.switch(running);
        let took = rt::now() - start;
        control.stats.switched(took);
        Epoch(running)
    }

    /// Waits until no operation is in `epoch`, which is closed.
    ///
    /// # Errors
    /// An operation ended by a panic: its epoch never empties.
    pub fn drain(&self, epoch: Epoch) -> FsResult<()> {
        let start = rt::now();
        let mut waited = false;
        if self.gate.is_empty(epoch.0) || !rt::mutant(Mutant::F2fsjNoDrain) {
            waited = !self.gate.drain(epoch.0, || self.is_broken());
        }
        self.check()?;
        let took = rt::now() - start;
        self.control.lock().stats.drained(waited, took);
        Ok(())
    }

    /// Takes what the drained `epoch` gathered; [its data](Self::take_data) was taken before.
    /// Epochs are collected in order, each once.
    pub fn collect(&self, epoch: Epoch) -> Closed {
        {
            let mut control = self.control.lock();
            assert_eq!(
                epoch.0,
                control.collected + 1,
                "f2fs-journal-I8: epochs are collected in order, each once"
            );
            control.collected = epoch.0;
        }
        let mut closed = Closed {
            epoch,
            ..Closed::default()
        };
        let (mut logs, mut inodes) = (Vec::new(), Vec::new());
        for shard in &self.slot(epoch.0).shards {
            let mut part = shard.0.part.lock();
            part.collected = epoch.0;
            if part.epoch != epoch.0 {
                continue;
            }
            assert!(
                part.data.is_empty(),
                "f2fs-journal-I1: epoch {} is collected and nobody waits for its data",
                epoch.0
            );
            logs.append(&mut part.registered);
            closed.usage += std::mem::take(&mut part.usage);
            closed.freed_blocks.append(&mut part.freed_blocks);
            closed.freed_nids.append(&mut part.freed_nids);
            closed.own.extend(&std::mem::take(&mut part.own));
            inodes.append(&mut part.touched);
        }
        closed.groups = match &self.global {
            Some(global) => global.take(epoch),
            None => logs.iter().map(|log| log.take(epoch)).collect(),
        };
        let of_groups: usize = closed.groups.iter().map(|g| g.bytes.len()).sum();
        closed.bytes = (of_groups + closed.own.bytes()) as u64;
        let mut control = self.control.lock();
        inodes.extend(closed.groups.iter().map(|group| group.ino));
        control.inodes.push_back((epoch.0, inodes));
        self.ring.kept.fetch_add(closed.bytes, Ordering::AcqRel);
        control.stats.collected(&closed);
        closed
    }

    /// `epoch` is on the device: its slot is free, and its inodes are forgotten if they logged
    /// nothing since.
    pub fn committed(&self, epoch: Epoch) {
        let mut done = Vec::new();
        {
            let mut control = self.control.lock();
            assert!(
                epoch.0 <= control.collected,
                "f2fs-journal-I8: epoch {} is committed before it was collected",
                epoch.0
            );
            control.committed = control.committed.max(epoch.0);
            self.committed.store(control.committed, Ordering::Release);
            while control.inodes.front().is_some_and(|(of, _)| *of <= epoch.0) {
                done.extend(control.inodes.pop_front());
            }
        }
        for (of, inodes) in done {
            self.table.forget(Epoch(of), &inodes);
        }
    }

    /// Figures so far.
    pub fn stats(&self) -> PlaneStats {
        let mut stats = self.control.lock().stats.clone();
        stats.inodes_known = self.table.len() as u64;
        stats
    }

    /// Time in logging, the part of it in and before locks, and how often a lock was waited for,
    /// how long in all and how long at most.
    pub fn lock_sums(&self) -> (Nanos, Nanos, (u64, Nanos, Nanos)) {
        self.books.sums()
    }

    /// Maxima of the figures begin anew.
    pub fn restart_maxima(&self) {
        self.control.lock().stats.bytes_max = 0;
    }

    /// Nothing will be committed any more: an operation was dropped, or data failed. Takes no lock.
    fn break_off(&self) {
        self.broken.store(true, Ordering::Release);
        self.gate.wake_unlocked();
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// # Errors
    /// Something has broken off.
    pub fn check(&self) -> FsResult<()> {
        if self.is_broken() {
            return Err(FsError::Aborted {
                first: "an operation of the running epoch did not end, or its data was not written: nothing more can be committed"
                    .into(),
            });
        }
        Ok(())
    }
}
