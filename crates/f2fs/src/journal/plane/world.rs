//! Instantiates the gate with the runtime's atomics and locks.

use super::gate::{Park, Word, World};
use base::Nanos;
use rt::atomic::{AtomicU64, Ordering};
use rt::{Condvar, Mutex};

/// The runtime's world.
pub(super) struct Rt;

impl World for Rt {
    type Word = AtomicU64;
    type Park = Lounge;
}

impl Word for AtomicU64 {
    fn new(value: u64) -> Self {
        AtomicU64::new(value)
    }
    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }
    fn store(&self, value: u64) {
        self.store(value, Ordering::Release);
    }
    fn add(&self, n: u64) -> u64 {
        self.fetch_add(n, Ordering::AcqRel)
    }
    fn sub(&self, n: u64) -> u64 {
        self.fetch_sub(n, Ordering::AcqRel)
    }
}

/// How often a waiting task looks by itself on real threads: an operation that panics wakes it
/// without a lock, and the task may miss that.
const LOOK_AGAIN: Nanos = Nanos(1_000_000_000);

/// The place where a drain waits.
pub(super) struct Lounge {
    lock: Mutex<()>,
    bell: Condvar,
}

impl Park for Lounge {
    fn new() -> Self {
        Lounge {
            lock: Mutex::named("f2fs drain", ()),
            bell: Condvar::named("f2fs drain"),
        }
    }
    fn wait(&self, mut ready: impl FnMut() -> bool) {
        let mut guard = self.lock.lock();
        while !ready() {
            if rt::in_simulation() {
                self.bell.wait(&mut guard);
            } else {
                self.bell.wait_until(&mut guard, rt::now() + LOOK_AGAIN);
            }
        }
    }
    fn wake(&self) {
        drop(self.lock.lock());
        self.bell.notify_all();
    }
    fn wake_unlocked(&self) {
        self.bell.notify_all();
    }
}
