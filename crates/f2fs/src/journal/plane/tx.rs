//! What one operation logs, gathered until the operation ends.
//!
//! - f2fs-journal-I4 the records of one operation are all in one epoch: the epoch is picked once,
//!   the records are gathered here, and go to the lists of their inodes at the end, while the epoch
//!   is still held open; so half an operation is never seen;
//! - an operation picks its epoch at its first change, when it has taken the locks (gates, or `wb`)
//!   that order it with others that change the same things: one that still waits for such a lock
//!   has no epoch yet. So the later of two operations that change one thing is in no earlier epoch;
//! - O1 the end of an inode, and blocks of files that are freed, go to no list of an inode: they
//!   have no order among the records of their epoch, because neither a number nor a block that is
//!   freed in it is given out again in it (f2fs-journal-I6). Who redoes the epoch does both when
//!   all else is done, and nobody waits for the epoch on their account: who took the name, or
//!   changed the map, has logged that with an inode that can be synced.

use super::gathered::{Gathered, OfVolume};
use super::{DataSent, Plane};
use crate::journal::{Epoch, UsageDelta};
use base::cost::f2fs::{EPOCH_OP, LOG_COMPARE, LOG_END, LOG_RECORD};
use base::{Mutant, Nanos};
use ondisk::f2fs::journal::{Record, attr};
use ondisk::f2fs::{BlockAddr, Nid};
use std::cell::{Cell, RefCell};

/// Bytes of blocks that a journal of pages logs for one byte of records, about.
const PAGES_PER_RECORDS: usize = 16;

/// Records of one operation. They go to the lists of their inodes when it ends ([`Tx::end`];
/// nothing else may end it).
pub(crate) struct Tx<'a> {
    plane: &'a Plane,
    shard: usize,
    /// 0 before the first change.
    epoch: Cell<u64>,
    ended: Cell<bool>,
    held: RefCell<Option<Box<Gathered>>>,
}

/// False for a change of times alone, which an fdatasync does not wait for.
fn is_data(record: &Record<'_>) -> bool {
    !matches!(record, Record::InodeAttr { mask, .. } if mask & !attr::TIMES == 0)
}

impl<'a> Tx<'a> {
    pub(super) fn new(plane: &'a Plane) -> Tx<'a> {
        Tx {
            plane,
            shard: rt::task_number(),
            epoch: Cell::new(0),
            ended: Cell::new(false),
            held: RefCell::new(None),
        }
    }

    /// The epoch of the operation; the first call picks it (f2fs-journal-I4): before the first
    /// change, when all its locks are held.
    pub fn epoch(&self) -> Epoch {
        if self.epoch.get() == 0 {
            *self.held.borrow_mut() = Some(self.plane.pool.take(self.shard));
            self.plane.before_pick();
            self.plane.books.logging(|| self.charge_pass());
            self.epoch.set(self.plane.gate.pick(self.shard));
        } else if rt::MUTANTS
            && self.epoch.get() != self.plane.gate.running()
            && rt::mutant(Mutant::F2fsjHalfOperation)
        {
            // The records so far stay in their epoch; later ones belong to the epoch that runs
            // then.
            self.leave();
            self.epoch.set(0);
            return self.epoch();
        }
        Epoch(self.epoch.get())
    }

    /// Half of what taking part in an epoch costs, at its start and at its end.
    fn charge_pass(&self) {
        match &self.plane.global {
            Some(global) => global.pass(&self.plane.books),
            None => rt::charge(Nanos(EPOCH_OP.0 / 2)),
        }
    }

    fn gather<R>(&self, work: impl FnOnce(Epoch, &mut Gathered) -> R) -> R {
        let epoch = self.epoch();
        let mut held = self.held.borrow_mut();
        let gathered = held.as_mut();
        work(
            epoch,
            gathered.expect("an operation with an epoch has buffers"),
        )
    }

    /// Logs a change of something that belongs to inode `ino`. The lock of what it describes is
    /// held: it orders records (lists-D1).
    pub fn log(&self, ino: Nid, record: &Record<'_>) {
        debug_assert!(ino.0 > 0, "a record of no inode: {record:?}");
        self.gather(|epoch, gathered| {
            let appends = self.charge_record(gathered, ino, record);
            let of = gathered.of(self.plane, ino);
            let log = of.log.as_ref().expect("a list in use has its inode");
            let bytes = match &self.plane.global {
                None => {
                    let number = log.note(epoch, is_data(record));
                    let before = of.list.bytes.len();
                    of.list.begin(number);
                    record.encode(&mut of.list.bytes);
                    of.list.bytes.len() - before
                }
                Some(global) => {
                    log.touch(epoch, is_data(record));
                    let number = global.number();
                    gathered.mixed.add(ino, number, record, appends)
                }
            };
            gathered.bytes += bytes;
            if let Some(touched) = &self.plane.touched {
                touched.log(epoch, record, bytes, &mut gathered.load);
            }
        });
    }

    /// An inode is freed: its node, with all that it has, and its number (O1). A journal of pages
    /// has a record of it with the inode.
    pub fn inode_ended(&self, ino: Nid, version: u8) {
        if !self.plane.ideas.change_records {
            return self.log(ino, &Record::NodeDel { nid: ino, version });
        }
        rt::charge(LOG_END);
        self.gather(|_, gathered| {
            gathered.own.ends.push((ino, version));
            gathered.bytes += OfVolume::END_BYTES;
        });
    }

    /// Blocks of inode `ino`, no directory, are free: `record` says which (O1). A journal of pages
    /// has it with the inode.
    pub fn log_free(&self, ino: Nid, record: &Record<'_>) {
        if !self.plane.ideas.change_records {
            return self.log(ino, record);
        }
        self.gather(|_, gathered| {
            let before = gathered.own.frees.len();
            record.encode(&mut gathered.own.frees);
            gathered.bytes += gathered.own.frees.len() - before;
        });
    }

    /// What making and encoding it costs, or, in a journal of pages, write access to the blocks.
    /// Answers how many entries lists get of it.
    fn charge_record(&self, gathered: &mut Gathered, ino: Nid, record: &Record<'_>) -> u32 {
        self.plane
            .books
            .logging(|| match self.plane.ideas.change_records {
                true => {
                    rt::charge(LOG_RECORD);
                    1
                }
                false => gathered.touches.by(ino, record),
            })
    }

    /// Notes that the operation concerns inode `ino` as well, whether one of its fields changes or
    /// not: a name that leads to the inode changes, and its new times may equal the old ones within
    /// the clock's tick. A sync of the inode waits for this epoch (fsync-Z1).
    pub fn touch(&self, ino: Nid) {
        self.gather(|epoch, gathered| {
            self.plane.log_of(ino).touch(epoch, true);
            gathered.touched.push(ino);
        });
    }

    /// Bytes of all records so far: an operation that can be split goes on in another one when they
    /// reach a bound.
    pub fn bytes(&self) -> usize {
        self.held.borrow().as_ref().map_or(0, |held| held.bytes)
    }

    /// The operation is the first one of its epoch to change a node or directory page.
    pub fn first_touch(&self) {
        if self.plane.touched.is_some() {
            self.gather(|_, gathered| gathered.load.blocks += 1);
        }
    }

    /// Like [`bytes`](Self::bytes), as the measure by which an operation goes on in another one.
    /// With `records=pages` the touched blocks count too, divided by `PAGES_PER_RECORDS`, because
    /// their room in the ring is as much larger than the room for records as a block is than a few
    /// records.
    pub fn so_far(&self) -> usize {
        let held = self.held.borrow();
        held.as_ref().map_or(0, |held| {
            held.bytes.max(held.load.bytes() / PAGES_PER_RECORDS)
        })
    }

    /// Counts what the operation takes and gives back.
    pub fn count(&self, delta: UsageDelta) {
        if !delta.is_none() {
            self.gather(|_, gathered| gathered.usage += delta);
        }
    }

    /// A block was valid until now: it is released when this epoch has been applied
    /// (f2fs-journal-I6).
    pub fn freed_block(&self, addr: BlockAddr) {
        self.gather(|_, gathered| gathered.freed_blocks.push(addr));
    }

    /// A node number becomes free: it is handed out again when this epoch is committed.
    pub fn freed_nid(&self, nid: Nid) {
        self.gather(|_, gathered| gathered.freed_nids.push(nid));
    }

    /// The write of data that this operation has mapped is under way: the epoch is not committed
    /// before that write has completed, and never if it fails (f2fs-journal-I1).
    pub fn data_sent(&self, sent: DataSent) {
        self.gather(|_, gathered| gathered.data.push(sent));
    }

    /// A block was compared with what it was before, to find records.
    pub fn compared(&self) {
        if self.plane.ideas.change_records {
            self.plane.books.logging(|| rt::charge(LOG_COMPARE));
        }
    }

    /// Ends the operation: its records go to the lists of their inodes.
    pub fn end(self) {
        self.leave();
        self.ended.set(true);
    }

    fn leave(&self) {
        let Some(held) = self.held.take() else {
            return;
        };
        let epoch = Epoch(self.epoch.get());
        self.plane.books.logging(|| {
            self.plane.append(epoch, self.shard, &held);
            self.charge_pass();
        });
        self.plane.pool.give(self.shard, held);
        self.plane.gate.leave(epoch.0, self.shard);
    }
}

/// Nothing waits here and no lock is taken. An operation that panics never leaves its epoch, which
/// can thus never be committed: what it has changed in memory is not in the journal.
impl Drop for Tx<'_> {
    fn drop(&mut self) {
        if self.ended.get() || self.epoch.get() == 0 {
            return;
        }
        self.plane.break_off();
        debug_assert!(
            rt::unwinding(),
            "f2fs-journal-I4: an operation in epoch {} was dropped instead of ended",
            self.epoch.get()
        );
    }
}
