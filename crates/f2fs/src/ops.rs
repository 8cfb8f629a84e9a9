//! The lock on metadata: either many operations hold it to make changes, or one checkpoint holds it
//! alone.
//!
//! Invariants:
//! - O1 in-memory metadata (node blocks, NAT, SIT, counts, directory pages) changes only under an
//!   [`Op`]; except that an apply gives nodes and directory pages other places (apply-A7), and
//!   releases blocks (apply-A6), beside operations;
//! - O2 while a [`Freeze`] exists no other `Op` does: what a checkpoint saves is a state between
//!   operations;
//! - O3 a task holds at most one `Op`, because a waiting freeze keeps new ones out, so the second
//!   would never come;
//! - O4 the freeze that closes an epoch ([`Ops::freeze_to_switch`]) waits for operations inside,
//!   and for no other freeze; every other freeze waits for it.
//!
//! The time that an operation waits to enter is counted under the cause of the freeze that it met
//! (Linux: `cp_rwsem`).

use crate::journal::Tx;
use base::{Nanos, Time};
use rt::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::BTreeMap;

base::words! {
    /// Why operations are kept out.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub enum Cause {
        /// The checkpoint interval has passed.
        Timer => "checkpoint-timer",
        /// A background checkpoint of the policy `checkpoint-5-bg`.
        Background => "checkpoint-background",
        /// Too many dirty NAT entries.
        DirtyNat => "checkpoint-dirty-nat",
        /// Too many dirty node blocks.
        DirtyNodes => "checkpoint-dirty-nodes",
        /// Too many segments that a checkpoint would free.
        Prefree => "checkpoint-prefree",
        /// An fsync that roll-forward cannot serve.
        Fsync => "checkpoint-fsync",
        /// `sync`, `syncfs`.
        Sync => "checkpoint-sync",
        /// Unmount.
        Umount => "checkpoint-umount",
        /// FITRIM.
        Trim => "checkpoint-trim",
        /// FIFREEZE.
        FsFreeze => "checkpoint-freeze",
        /// Cleaning in the foreground: there are too few free segments.
        ForegroundGc => "gc-foreground",
        /// Cleaning in the background.
        BackgroundGc => "gc-background",
        /// End of roll-forward recovery.
        Recovery => "recovery",
        /// `checkpoint=enable` after a time without checkpoints.
        Enable => "checkpoint-enable",
        /// The ring of the journal has no room for the next transaction.
        Ring => "apply-ring",
        /// A journal with `switch=wait` closes an epoch.
        Switch => "journal-switch",
    }
}

/// What freezes cost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FreezeStats {
    /// Freezes.
    pub freezes: u64,
    /// Time during which operations were kept out.
    pub held: Nanos,
    /// Longest of them.
    pub held_max: Nanos,
    /// Operations that had to wait.
    pub waiters: u64,
    /// Sum of their waits.
    pub waited: Nanos,
    /// Longest wait.
    pub waited_max: Nanos,
}

#[derive(Default)]
struct Books {
    current: Option<Cause>,
    /// Freezes that exist or are asked for, without the next one.
    others: u32,
    /// A task is closing an epoch.
    switching: bool,
    by_cause: BTreeMap<Cause, FreezeStats>,
}

impl Books {
    fn note_wait(&mut self, cause: Cause, waited: Nanos) {
        let sum = self.by_cause.entry(cause).or_default();
        sum.waiters += 1;
        sum.waited += waited;
        sum.waited_max = sum.waited_max.max(waited);
    }
}

/// The gate in front of all metadata.
pub(crate) struct Ops {
    lock: RwLock<()>,
    books: Mutex<Books>,
    /// An epoch was closed.
    switched: Condvar,
}

/// The right to change metadata, beside others.
pub(crate) struct Op<'a> {
    _shared: Option<RwLockReadGuard<'a, ()>>,
    tx: Option<Tx<'a>>,
}

/// The right to change metadata, alone. [`Freeze::end`] gives it back.
pub(crate) struct Freeze<'a> {
    ops: &'a Ops,
    op: Op<'a>,
    _alone: RwLockWriteGuard<'a, ()>,
    cause: Cause,
    since: Time,
}

impl Ops {
    pub fn new() -> Ops {
        Ops {
            lock: RwLock::named("f2fs operations", ()),
            books: Mutex::named("f2fs freezes", Books::default()),
            switched: Condvar::named("f2fs switched"),
        }
    }

    /// Lets an operation in, after the freeze that may be under way.
    pub fn enter(&self) -> Op<'_> {
        let inside = |shared| Op {
            _shared: Some(shared),
            tx: None,
        };
        if let Some(shared) = self.lock.try_read() {
            return inside(shared);
        }
        let start = rt::now();
        let met = self.books.lock().current;
        let shared = self.lock.read();
        let waited = rt::now() - start;
        if waited > Nanos(0) {
            let mut books = self.books.lock();
            let cause = met.or(books.current).unwrap_or(Cause::Sync);
            books.note_wait(cause, waited);
        }
        inside(shared)
    }

    /// Runs an operation that changes metadata (O1) and logs at most `most` bytes. Its records
    /// belong to one epoch, which is picked at its first change, when it holds all locks that
    /// protect what it changes until its end (f2fs-journal-I4).
    pub fn run<R>(&self, tx: Option<Tx<'_>>, most: usize, work: impl FnOnce(&Op<'_>) -> R) -> R {
        let mut op = Op { tx, ..self.enter() };
        let result = work(&op);
        if let Some(tx) = op.tx.take() {
            let bytes = tx.bytes();
            debug_assert!(
                bytes <= most,
                "an operation has logged {bytes} bytes, and room for {most} is kept"
            );
            tx.end();
        }
        result
    }

    /// Keeps operations out, once those inside have ended.
    pub fn freeze(&self, cause: Cause) -> Freeze<'_> {
        let since = rt::now();
        {
            let mut books = self.books.lock();
            books.others += 1;
            while books.switching {
                self.switched.wait(&mut books);
            }
            books.current.get_or_insert(cause);
        }
        self.frozen(cause, since)
    }

    /// A freeze for the task that closes an epoch (O4). `None` if another task freezes, or is about
    /// to: that task may wait for a commit, and it keeps operations out anyway.
    pub fn freeze_to_switch(&self) -> Option<Freeze<'_>> {
        let since = rt::now();
        {
            let mut books = self.books.lock();
            assert!(!books.switching, "O4: two close an epoch at a time");
            if books.others > 0 {
                return None;
            }
            books.switching = true;
            books.current = Some(Cause::Switch);
        }
        Some(self.frozen(Cause::Switch, since))
    }

    fn frozen(&self, cause: Cause, since: Time) -> Freeze<'_> {
        let alone = self.lock.write();
        self.books.lock().current = Some(cause);
        Freeze {
            ops: self,
            op: Op {
                _shared: None,
                tx: None,
            },
            _alone: alone,
            cause,
            since,
        }
    }

    /// Notes that an operation waited for what `cause` stands for, although no freeze kept it out:
    /// it did the work itself, or waited for the task that did.
    pub fn note_wait(&self, cause: Cause, waited: Nanos) {
        self.books.lock().note_wait(cause, waited);
    }

    /// What freezes cost so far, by cause.
    pub fn stats(&self) -> BTreeMap<Cause, FreezeStats> {
        self.books.lock().by_cause.clone()
    }
}

impl<'a> Op<'a> {
    /// What the operation logs; `None` without a journal, and for the holder of a freeze.
    pub fn tx(&self) -> Option<&Tx<'a>> {
        self.tx.as_ref()
    }
}

impl<'a> Freeze<'a> {
    /// The operation as which the holder of the freeze changes metadata.
    pub fn op(&self) -> &Op<'a> {
        &self.op
    }

    /// Why operations are kept out.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Lets operations in again.
    pub fn end(self) {
        let held = rt::now() - self.since;
        let mut books = self.ops.books.lock();
        books.current = None;
        match self.cause {
            Cause::Switch => {
                books.switching = false;
                self.ops.switched.notify_all();
            }
            _ => books.others -= 1,
        }
        let sum = books.by_cause.entry(self.cause).or_default();
        sum.freezes += 1;
        sum.held += held;
        sum.held_max = sum.held_max.max(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::{Sim, SimConfig};

    #[test]
    fn a_wait_counts_for_the_freeze_that_was_met() {
        let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
            let ops = Ops::new();
            rt::scope(|s| {
                let freeze = ops.freeze(Cause::Timer);
                let waiter = s.spawn("waiter", || {
                    drop(ops.enter());
                    rt::now()
                });
                rt::sleep(Nanos::from_millis(3));
                let end = rt::now();
                freeze.end();
                let entered = waiter.join().expect("no panic");
                assert_eq!(entered, end, "O2: an operation runs beside a freeze");
            });
            ops.stats()[&Cause::Timer]
        });
        let stats = outcome.unwrap();
        let span = Nanos::from_millis(3);
        assert_eq!((stats.freezes, stats.held, stats.held_max), (1, span, span));
        assert_eq!(
            (stats.waiters, stats.waited, stats.waited_max),
            (1, span, span)
        );
    }

    #[test]
    fn a_freeze_waits_for_those_inside() {
        let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
            let ops = Ops::new();
            rt::scope(|s| {
                let op = ops.enter();
                let freezer = s.spawn("freezer", || {
                    ops.freeze(Cause::Sync).end();
                    rt::now()
                });
                rt::sleep(Nanos::from_millis(2));
                let end = rt::now();
                drop(op);
                let frozen = freezer.join().expect("no panic");
                assert_eq!(frozen, end, "O2: a freeze beside an operation");
            });
        });
        outcome.unwrap();
    }

    /// O4: the holder of a freeze waits for a commit, and the commit's leader closes an epoch, in
    /// every schedule.
    #[test]
    fn who_freezes_may_wait_for_who_closes_an_epoch() {
        let mut beside = 0;
        let runs = rt::each_schedule(2, |policy| {
            let config = SimConfig {
                policy,
                ..SimConfig::default()
            };
            let outcome = Sim::new(config).run(|| {
                let ops = Ops::new();
                let (committed, commits) = rt::channel(1);
                rt::scope(|s| {
                    s.spawn("operation", || {
                        let op = ops.enter();
                        rt::yield_now();
                        drop(op);
                    });
                    s.spawn("freezer", || {
                        let freeze = ops.freeze(Cause::FsFreeze);
                        commits.recv().expect("a leader");
                        freeze.end();
                    });
                    let leader = s.spawn("leader", || {
                        let freeze = ops.freeze_to_switch();
                        let alone = freeze.is_some();
                        if let Some(freeze) = freeze {
                            freeze.end();
                        }
                        committed.send(()).expect("somebody asks");
                        alone
                    });
                    leader.join().expect("no panic")
                })
            });
            let points = outcome.points;
            beside += u64::from(!outcome.unwrap());
            points
        });
        assert!(beside > 0 && runs > beside, "{beside} of {runs}");
    }
}
