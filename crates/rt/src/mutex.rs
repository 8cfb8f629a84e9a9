//! `Mutex`: a parking_lot mutex in both worlds. In a simulation a task that finds it locked waits
//! in a FIFO queue, and the unlocker takes the mutex on behalf of the first waiter; in random
//! schedules the unlocker sometimes only wakes that waiter, so that another task may come first.

use crate::core::{Core, here};
use crate::leader::about_to_wait;
use crate::order;
use crate::task::{LockWait, Site, Wait, Wake};
use crate::world::{Binding, core};
use parking_lot::lock_api::RawMutex as _;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

/// Mutual exclusion. Does not poison.
pub struct Mutex<T: ?Sized> {
    name: &'static str,
    /// Number of the wait queue; 0 outside of a simulation and while no task waits.
    queue: AtomicU32,
    /// The holding task plus one; 0 outside of a simulation.
    holder: AtomicU32,
    world: Binding,
    inner: parking_lot::Mutex<T>,
}

/// Guard of [`Mutex`].
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(crate) lock: &'a Mutex<T>,
    /// Empty only while a condvar waits.
    pub(crate) inner: Option<parking_lot::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// A new mutex.
    pub const fn new(value: T) -> Self {
        Self::named("", value)
    }
    /// A new mutex with a name, for deadlock reports and the lock order check.
    pub const fn named(name: &'static str, value: T) -> Self {
        Mutex {
            name,
            queue: AtomicU32::new(0),
            holder: AtomicU32::new(0),
            world: Binding::new(),
            inner: parking_lot::Mutex::new(value),
        }
    }
    /// The value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks, waiting as long as it takes.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let site = here();
        self.check_world();
        MutexGuard {
            lock: self,
            inner: Some(self.lock_at(core(), site)),
        }
    }
    /// Locks if the mutex is free.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let site = here();
        self.check_world();
        let core = core();
        if let Some(core) = core {
            core.scheduling_point(site);
        }
        let inner = self.inner.try_lock()?;
        self.note_taken(core, site);
        Some(MutexGuard {
            lock: self,
            inner: Some(inner),
        })
    }
    /// The value, without locking.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
    #[inline]
    #[track_caller]
    fn check_world(&self) {
        self.world
            .check("mutex", self.name, || self.inner.is_locked());
    }
    pub(crate) fn lock_at(
        &self,
        core: Option<&Core>,
        site: Site,
    ) -> parking_lot::MutexGuard<'_, T> {
        order::before(core, self.name, site);
        let inner = match core {
            None => self.inner.try_lock().unwrap_or_else(|| {
                about_to_wait();
                self.inner.lock()
            }),
            Some(core) => {
                core.scheduling_point(site);
                self.inner
                    .try_lock()
                    .unwrap_or_else(|| self.lock_slow(core, site))
            }
        };
        self.note_taken(core, site);
        inner
    }
    #[cold]
    fn lock_slow(&self, core: &Core, site: Site) -> parking_lot::MutexGuard<'_, T> {
        let wait = LockWait {
            verb: "lock",
            name: self.name,
            addr: self.addr(),
            holder: &self.holder,
        };
        loop {
            core.may_park(site);
            core.enqueue(&self.queue, true);
            if core.park(Wait::Lock(wait), site) == Wake::Granted {
                // SAFETY: the unlocker locked the raw mutex on our behalf (`hand_over`), and no
                // guard for that exists.
                return unsafe { self.inner.make_guard_unchecked() };
            }
            if let Some(inner) = self.inner.try_lock() {
                return inner;
            }
        }
    }
    #[inline]
    fn note_taken(&self, core: Option<&Core>, site: Site) {
        if let Some(core) = core {
            self.holder.store(core.task().id + 1, Ordering::Relaxed);
        }
        order::acquired(core, self.addr(), self.name, site);
    }
    /// Gives the lock back.
    #[inline]
    pub(crate) fn release(&self, inner: parking_lot::MutexGuard<'_, T>) {
        if self.holder.load(Ordering::Relaxed) != 0 {
            self.holder.store(0, Ordering::Relaxed);
        }
        if cfg!(debug_assertions) {
            order::released(core(), self.addr(), self.name);
        }
        let queued = self.queue.load(Ordering::Relaxed) != 0;
        drop(inner);
        if queued && let Some(core) = core() {
            self.hand_over(core);
        }
    }
    /// Takes the lock for the first waiter. In random schedules sometimes only wakes it, so that
    /// others may barge in as in the real world.
    #[cold]
    fn hand_over(&self, core: &Core) {
        let barging = core.coin();
        let mut st = core.st.borrow_mut();
        let Some(waiter) = st.queues.remove_at(&self.queue, 0) else {
            return;
        };
        if barging {
            core.wake(&mut st, waiter, Wake::Notified);
        } else {
            // SAFETY: the raw lock is used as a mutex only; the waiter makes the guard that unlocks
            // it.
            let free = unsafe { self.inner.raw().try_lock() };
            debug_assert!(free, "nobody else ran since the unlock");
            self.holder.store(waiter.task + 1, Ordering::Relaxed);
            core.wake(&mut st, waiter, Wake::Granted);
        }
    }
    fn addr(&self) -> usize {
        (&raw const self.queue).addr()
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.inner
            .as_ref()
            .expect("the guard holds its lock outside of Condvar::wait")
    }
}
impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.inner
            .as_mut()
            .expect("the guard holds its lock outside of Condvar::wait")
    }
}
impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            self.lock.release(inner);
        }
    }
}
impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}
impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}
impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_struct("Mutex");
        match self.inner.try_lock() {
            Some(value) => d.field("value", &&*value),
            None => d.field("value", &format_args!("(locked)")),
        };
        d.field("name", &self.name).finish()
    }
}
