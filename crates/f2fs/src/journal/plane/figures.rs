//! Statistics of the control and data planes.

use super::Closed;
use base::Nanos;
use base::cost::sync::LOCK_HANDOVER;
use rt::Mutex;
use rt::atomic::{AtomicU64, Ordering};

/// What epochs and their lists did so far.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct PlaneStats {
    /// Epochs that were closed: as many as were opened, less the running one.
    pub switches: u64,
    /// Time that switches took, all together.
    pub switching: Nanos,
    /// Switches that were put off because too many epochs were on their way.
    pub postponed: u64,
    /// Epochs that were drained.
    pub drains: u64,
    /// Drains that found an operation still inside.
    pub drain_waits: u64,
    /// Time that the committer waited in these drains.
    pub draining: Nanos,
    /// The longest of these waits.
    pub draining_max: Nanos,
    /// Epochs that were collected.
    pub collected: u64,
    /// Lists in the collected epochs: one per inode and epoch.
    pub lists: u64,
    /// Most lists in one epoch.
    pub lists_max: u64,
    /// Records in these lists. Ends of inodes and freed blocks are in none (tx-O1).
    pub records: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// Most bytes of records in one epoch.
    pub bytes_max: u64,
    /// Inodes that have logged something which is not committed yet.
    pub inodes_known: u64,
}

/// Books of the locks that operations take to log.
#[derive(Default)]
pub(super) struct LockBooks {
    logging: AtomicU64,
    locking: AtomicU64,
    waits: AtomicU64,
    waited: AtomicU64,
    waited_max: AtomicU64,
}

/// Virtual time; in the real world always the same.
fn clock() -> base::Time {
    match rt::in_simulation() {
        true => rt::now(),
        false => base::Time(0),
    }
}

impl LockBooks {
    /// Runs `work` under `lock`. A task that had to wait for the lock is charged the hand-over
    /// besides.
    pub fn within<T, R>(&self, lock: &Mutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
        let start = clock();
        let mut guard = match lock.try_lock() {
            Some(guard) => guard,
            None => {
                let guard = lock.lock();
                let waited = (clock() - start).0;
                self.waits.fetch_add(1, Ordering::Relaxed);
                self.waited.fetch_add(waited, Ordering::Relaxed);
                self.waited_max.fetch_max(waited, Ordering::Relaxed);
                rt::charge(LOCK_HANDOVER);
                guard
            }
        };
        let result = work(&mut guard);
        drop(guard);
        let span = (clock() - start).0;
        if span > 0 {
            self.locking.fetch_add(span, Ordering::Relaxed);
        }
        result
    }

    /// Runs a part of logging.
    pub fn logging<R>(&self, work: impl FnOnce() -> R) -> R {
        if !rt::in_simulation() {
            return work();
        }
        let start = rt::now();
        let result = work();
        let span = (rt::now() - start).0;
        if span > 0 {
            self.logging.fetch_add(span, Ordering::Relaxed);
        }
        result
    }

    /// See [`Plane::lock_sums`](super::Plane::lock_sums).
    pub fn sums(&self) -> (Nanos, Nanos, (u64, Nanos, Nanos)) {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let span = |n| Nanos(of(n));
        let waits = (of(&self.waits), span(&self.waited), span(&self.waited_max));
        (span(&self.logging), span(&self.locking), waits)
    }
}

impl PlaneStats {
    pub(super) fn switched(&mut self, took: Nanos) {
        assert!(
            took == Nanos(0) || !rt::in_simulation(),
            "plane-P3: a switch waited for {took}"
        );
        self.switches += 1;
        self.switching += took;
    }

    pub(super) fn drained(&mut self, waited: bool, took: Nanos) {
        self.drains += 1;
        if waited {
            self.drain_waits += 1;
            self.draining += took;
            self.draining_max = self.draining_max.max(took);
        }
    }

    pub(super) fn collected(&mut self, closed: &Closed) {
        self.collected += 1;
        let lists = closed.groups.len() as u64;
        self.lists += lists;
        self.lists_max = self.lists_max.max(lists);
        self.records += closed
            .groups
            .iter()
            .map(|g| u64::from(g.records))
            .sum::<u64>();
        self.bytes += closed.bytes;
        self.bytes_max = self.bytes_max.max(closed.bytes);
    }
}
