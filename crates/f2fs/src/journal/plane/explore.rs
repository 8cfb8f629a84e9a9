//! Explores the planes under schedules that look for trouble: operations of a few tasks on a few
//! inodes, a committer, and a ledger that is compared in the end. Used by tests and by the
//! catalogue of mutants.
//!
//! An operation changes the count of one inode or two, under their locks, and logs the new counts
//! one by one, so a half-logged operation is possible. Some operations give their locks back before
//! they end, as write-back does. Operations also add to the usage, free a block and a node number,
//! end an inode, which they log in no list, and now and then ask for an fsync of what they saw. The
//! committer makes epochs durable, in a ledger. Asserted:
//! - f2fs-journal-I4 all records of an operation are in one epoch; the counts of an inode rise by
//!   one from record to record and from epoch to epoch;
//! - f2fs-journal-I7 what an fsync was asked for is in the ledger when it returns;
//! - tx-O1 what an operation logs in no list is in the epoch of its records, each once;
//! - sums, freed blocks and freed numbers are those of the operations, each once.

use super::{Closed, Ideas, Plane};
use crate::journal::{Epoch, UsageDelta};
use fscore::FsResult;
use ondisk::f2fs::journal::{Content, Record, Records};
use ondisk::f2fs::{BlockAddr, Log, Nid};
use rt::atomic::{AtomicU64, Ordering};
use rt::{Mutex, Outcome, Sim, SimConfig};
use std::collections::BTreeMap;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// Tasks.
    pub tasks: u32,
    /// Operations of each.
    pub ops: u32,
    /// Inodes that they share.
    pub inodes: u32,
    /// Switches of an additional task, which switches whatever the committer does.
    pub switches: u32,
    /// Fsync after each so many operations of a task; 0: never.
    pub fsync_each: u32,
}

/// What is durable.
#[derive(Default)]
struct Ledger {
    committed: Epoch,
    /// Last count of each inode.
    counts: BTreeMap<u32, u64>,
    /// Records of each operation, and the epoch that has them.
    ops: BTreeMap<u64, (u64, u64)>,
    usage: UsageDelta,
    blocks: Vec<BlockAddr>,
    nids: Vec<Nid>,
}

/// What a run covered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Covered {
    /// Epochs that were committed.
    pub epochs: u64,
    /// Drains that waited.
    pub drain_waits: u64,
    /// Switches put off.
    pub postponed: u64,
    /// Operations that met a switch between their first record and their end.
    pub straddled: u64,
}

struct World {
    plane: Plane,
    life: Life,
    inodes: Vec<Mutex<u64>>,
    ledger: Mutex<Ledger>,
    next_op: AtomicU64,
    straddled: AtomicU64,
}

/// Number of the first inode.
const FIRST: u32 = 10;

impl World {
    fn new(life: Life, ideas: Ideas) -> World {
        World {
            plane: Plane::new(Epoch(0), 1024, ideas),
            life,
            inodes: (0..life.inodes).map(|_| Mutex::new(0)).collect(),
            ledger: Mutex::new(Ledger::default()),
            next_op: AtomicU64::new(1),
            straddled: AtomicU64::new(0),
        }
    }

    /// One operation; answers an inode and the count that it gave it.
    fn operate(&self, task: u32, n: u32) -> (usize, u64) {
        let op = self.next_op.fetch_add(1, Ordering::SeqCst);
        let first = (task + n) as usize % self.inodes.len();
        let second = (first + 1 + n as usize % 2) % self.inodes.len();
        let (low, high) = (first.min(second), first.max(second));
        let tx = self.plane.enter();
        let mut counts = vec![(low, self.inodes[low].lock())];
        if high != low && n % 3 != 2 {
            counts.push((high, self.inodes[high].lock()));
        }
        let of = counts.len() as u8;
        let mut begun = Epoch(0);
        for (inode, count) in &mut counts {
            **count += 1;
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&op.to_le_bytes());
            bytes[8..16].copy_from_slice(&count.to_le_bytes());
            bytes[16] = of;
            let nid = Nid(FIRST + *inode as u32);
            let record = Record::Bytes {
                content: Content::Node,
                nid,
                at: 0,
                bytes: &bytes,
            };
            tx.log(nid, &record);
            begun = tx.epoch();
        }
        let seen = (low, *counts[0].1);
        tx.count(UsageDelta {
            blocks: 1,
            nodes: -2,
            inodes: 3,
        });
        tx.freed_block(BlockAddr(op as u32));
        tx.freed_nid(Nid(op as u32));
        tx.inode_ended(Nid(op as u32), of);
        tx.log_free(Nid(FIRST), &freed(op));
        if n.is_multiple_of(2) {
            // As write-back does.
            drop(counts);
        }
        let switched = self.plane.running() > begun;
        self.straddled
            .fetch_add(u64::from(switched), Ordering::SeqCst);
        tx.end();
        seen
    }

    fn work(&self, task: u32) {
        for n in 0..self.life.ops {
            let (inode, count) = self.operate(task, n);
            if self.life.fsync_each > 0 && n % self.life.fsync_each == 0 {
                self.fsync(inode, count);
                // Changes by another operation, which may not have ended yet, count as well.
                let other = (inode + 1) % self.inodes.len();
                let count = *self.inodes[other].lock();
                self.fsync(other, count);
            }
        }
    }

    fn fsync(&self, inode: usize, count: u64) {
        let ino = FIRST + inode as u32;
        let (any, _) = self.plane.last_logged(Nid(ino));
        self.commit(any).expect("nothing fails");
        let ledger = self.ledger.lock();
        let durable = ledger.counts.get(&ino).copied().unwrap_or(0);
        assert!(
            durable >= count,
            "f2fs-journal-I7: an fsync of inode {ino} at {count} left {durable} (epoch {} of {})",
            any.0,
            ledger.committed.0
        );
    }

    /// Commits up to `upto`: one at a time.
    fn commit(&self, upto: Epoch) -> FsResult<()> {
        let mut ledger = self.ledger.lock();
        while ledger.committed < upto {
            let epoch = Epoch(ledger.committed.0 + 1);
            if self.plane.running() == epoch && self.plane.switch() < epoch {
                break;
            }
            self.plane.drain(epoch)?;
            self.plane.take_data(epoch)?;
            let closed = self.plane.collect(epoch);
            // The device.
            rt::yield_now();
            ledger.enter(&closed);
            self.plane.committed(epoch);
        }
        Ok(())
    }

    fn live(&self) -> Covered {
        rt::scope(|s| {
            for task in 0..self.life.tasks {
                s.spawn(&format!("task {task}"), move || self.work(task));
            }
            s.spawn("switcher", || {
                for _ in 0..self.life.switches {
                    self.plane.switch();
                    rt::yield_now();
                }
            });
            s.spawn("committer", || {
                for _ in 0..self.life.switches.div_ceil(3) {
                    let running = self.plane.running();
                    self.commit(running).expect("nothing fails");
                    rt::yield_now();
                }
            });
        });
        let running = self.plane.running();
        self.commit(running).expect("nothing fails");
        self.settle()
    }

    fn settle(&self) -> Covered {
        let ledger = self.ledger.lock();
        let ops = u64::from(self.life.tasks * self.life.ops);
        assert_eq!(
            ledger.ops.len() as u64,
            ops,
            "f2fs-journal-I4: operations are missing"
        );
        let n = ops as i64;
        let usage = UsageDelta {
            blocks: n,
            nodes: -2 * n,
            inodes: 3 * n,
        };
        assert_eq!(ledger.usage, usage, "sums of the epochs");
        let mut blocks: Vec<u64> = ledger.blocks.iter().map(|b| u64::from(b.0)).collect();
        let mut nids: Vec<u64> = ledger.nids.iter().map(|n| u64::from(n.0)).collect();
        blocks.sort_unstable();
        nids.sort_unstable();
        let all: Vec<u64> = (1..=ops).collect();
        assert_eq!(blocks, all, "freed blocks, each once");
        assert_eq!(nids, all, "freed numbers, each once");
        for (i, count) in self.inodes.iter().enumerate() {
            let durable = ledger.counts.get(&(FIRST + i as u32)).copied();
            assert_eq!(durable.unwrap_or(0), *count.lock(), "inode {i}");
        }
        let stats = self.plane.stats();
        assert_eq!(stats.inodes_known, 0, "lists of committed epochs are kept");
        Covered {
            epochs: stats.collected,
            drain_waits: stats.drain_waits,
            postponed: stats.postponed,
            straddled: self.straddled.load(Ordering::SeqCst),
        }
    }
}

impl Ledger {
    /// An epoch is durable.
    fn enter(&mut self, closed: &Closed) {
        assert_eq!(closed.epoch.0, self.committed.0 + 1, "f2fs-journal-I8");
        self.committed = closed.epoch;
        let mut here: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for group in &closed.groups {
            let mut records = 0;
            for record in Records::new(&group.bytes) {
                let Ok(Record::Bytes { nid, bytes, .. }) = record else {
                    panic!("another record than was logged: {record:?}");
                };
                records += 1;
                assert_eq!(nid, group.ino, "a record in another inode's group");
                let word = |at: usize| {
                    let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
                    u64::from_le_bytes(bytes)
                };
                let count = self.counts.entry(nid.0).or_default();
                let (op, now, of) = (word(0), word(8), u64::from(bytes[16]));
                assert_eq!(
                    now,
                    *count + 1,
                    "f2fs-journal-I4: inode {nid} goes from {count} to {now} in epoch {}",
                    closed.epoch.0
                );
                *count = now;
                here.entry(op).or_insert((0, of)).0 += 1;
            }
            assert_eq!(records, group.records, "the group's number of records");
        }
        self.enter_own(closed, &here);
        for (op, (found, of)) in here {
            assert_eq!(
                found, of,
                "f2fs-journal-I4: {found} of {of} records of operation {op} are in epoch {}",
                closed.epoch.0
            );
            let before = self.ops.insert(op, (of, closed.epoch.0));
            assert_eq!(
                before, None,
                "f2fs-journal-I4: operation {op} is in two epochs"
            );
        }
        self.usage += closed.usage;
        self.blocks.extend(&closed.freed_blocks);
        self.nids.extend(&closed.freed_nids);
    }

    /// What the operations of an epoch, whose records are `here`, say in no list.
    fn enter_own(&self, closed: &Closed, here: &BTreeMap<u64, (u64, u64)>) {
        let mut ends = closed.own.ends.clone();
        ends.sort_unstable();
        let expected = here
            .iter()
            .map(|(&op, &(_, of))| (Nid(op as u32), of as u8));
        let expected: Vec<_> = expected.collect();
        let epoch = closed.epoch.0;
        assert_eq!(
            ends, expected,
            "f2fs-journal-I4: ends of inodes are in epoch {epoch}, and the records of their operations are not"
        );
        let frees = Records::new(&closed.own.frees).map(|record| record.expect("encoded"));
        let mut frees: Vec<_> = frees.map(|record| format!("{record:?}")).collect();
        frees.sort();
        let mut expected: Vec<_> = here.keys().map(|&op| format!("{:?}", freed(op))).collect();
        expected.sort();
        assert_eq!(
            frees, expected,
            "f2fs-journal-I4: freed blocks of epoch {epoch}"
        );
    }
}

/// What an operation says of a block that it frees.
fn freed(op: u64) -> Record<'static> {
    Record::BlockRun {
        addr: BlockAddr(op as u32),
        count: 1,
        alloc: false,
        log: Log::WarmData,
    }
}

/// Runs one exploration in a simulation.
pub fn explore(life: Life, config: SimConfig) -> Outcome<Covered> {
    explore_with(life, Ideas::ALL, config)
}

/// Runs one exploration in a simulation, with some ideas left out.
pub fn explore_with(life: Life, ideas: Ideas, config: SimConfig) -> Outcome<Covered> {
    Sim::new(config).run(|| World::new(life, ideas).live())
}

/// Runs one exploration on OS threads.
pub fn stress(life: Life, ideas: Ideas) -> Covered {
    World::new(life, ideas).live()
}
