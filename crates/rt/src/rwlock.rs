//! `RwLock`: many readers or one writer, first come first served in a simulation.

use crate::core::{Core, here};
use crate::leader::about_to_wait;
use crate::order;
use crate::task::{LockWait, Site, Wait, Wake};
use crate::world::{Binding, core};
use parking_lot::lock_api::RawRwLock as _;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

/// Readers-writer lock. Does not poison. A waiting writer holds up new readers, so a task must not
/// take the read lock twice.
pub struct RwLock<T: ?Sized> {
    name: &'static str,
    queue: AtomicU32,
    /// The writing task plus one.
    writer: AtomicU32,
    world: Binding,
    inner: parking_lot::RwLock<T>,
}

/// Shared guard.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    inner: Option<parking_lot::RwLockReadGuard<'a, T>>,
}

/// Exclusive guard.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    inner: Option<parking_lot::RwLockWriteGuard<'a, T>>,
}

impl<T> RwLock<T> {
    /// A new lock.
    pub const fn new(value: T) -> Self {
        Self::named("", value)
    }
    /// A new lock with a name, for deadlock reports and the lock order check.
    pub const fn named(name: &'static str, value: T) -> Self {
        RwLock {
            name,
            queue: AtomicU32::new(0),
            writer: AtomicU32::new(0),
            world: Binding::new(),
            inner: parking_lot::RwLock::new(value),
        }
    }
    /// The value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Shared access.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let site = here();
        let core = self.enter(site);
        order::before(core, self.name, site);
        let inner = match core {
            None => self.inner.try_read().unwrap_or_else(|| {
                about_to_wait();
                self.inner.read()
            }),
            Some(core) => self.free_read().unwrap_or_else(|| {
                self.wait(core, false, site);
                // SAFETY: `pump` took the raw lock shared on our behalf, and no guard for that
                // exists.
                unsafe { self.inner.make_read_guard_unchecked() }
            }),
        };
        order::acquired(core, self.addr(), self.name, site);
        RwLockReadGuard {
            lock: self,
            inner: Some(inner),
        }
    }
    /// Exclusive access.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let site = here();
        let core = self.enter(site);
        order::before(core, self.name, site);
        let inner = match core {
            None => self.inner.try_write().unwrap_or_else(|| {
                about_to_wait();
                self.inner.write()
            }),
            Some(core) => self.free_write().unwrap_or_else(|| {
                self.wait(core, true, site);
                // SAFETY: `pump` took the raw lock exclusively on our behalf, and no guard for that
                // exists.
                unsafe { self.inner.make_write_guard_unchecked() }
            }),
        };
        self.note_writer(core, site);
        RwLockWriteGuard {
            lock: self,
            inner: Some(inner),
        }
    }
    /// Shared access if no writer has it or waits for it.
    #[track_caller]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        let site = here();
        let core = self.enter(site);
        let inner = self.free_read()?;
        order::acquired(core, self.addr(), self.name, site);
        Some(RwLockReadGuard {
            lock: self,
            inner: Some(inner),
        })
    }
    /// Exclusive access if the lock is free.
    #[track_caller]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let site = here();
        let core = self.enter(site);
        let inner = self.free_write()?;
        self.note_writer(core, site);
        Some(RwLockWriteGuard {
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
    fn enter(&self, site: Site) -> Option<&Core> {
        self.world
            .check("rwlock", self.name, || self.inner.is_locked());
        let core = core();
        if let Some(core) = core {
            core.scheduling_point(site);
        }
        core
    }
    fn free_read(&self) -> Option<parking_lot::RwLockReadGuard<'_, T>> {
        if self.queue.load(Ordering::Relaxed) == 0 {
            self.inner.try_read()
        } else {
            None
        }
    }
    fn free_write(&self) -> Option<parking_lot::RwLockWriteGuard<'_, T>> {
        if self.queue.load(Ordering::Relaxed) == 0 {
            self.inner.try_write()
        } else {
            None
        }
    }
    #[cold]
    fn wait(&self, core: &Core, exclusive: bool, site: Site) {
        let verb = if exclusive { "write" } else { "read" };
        let wait = LockWait {
            verb,
            name: self.name,
            addr: self.addr(),
            holder: &self.writer,
        };
        core.may_park(site);
        core.enqueue(&self.queue, exclusive);
        let wake = core.park(Wait::Lock(wait), site);
        debug_assert_eq!(
            wake,
            Wake::Granted,
            "only `pump` wakes a waiter of an rwlock"
        );
    }
    fn note_writer(&self, core: Option<&Core>, site: Site) {
        if let Some(core) = core {
            self.writer.store(core.task().id + 1, Ordering::Relaxed);
        }
        order::acquired(core, self.addr(), self.name, site);
    }
    /// After an unlock: takes the lock for the first waiters, as many as go together.
    #[cold]
    fn pump(&self) {
        let Some(core) = core() else { return };
        let mut st = core.st.borrow_mut();
        while let Some(waiter) = st.queues.front(&self.queue) {
            // SAFETY: the waiter makes the guard that unlocks what is taken here.
            let raw = unsafe { self.inner.raw() };
            let taken = if waiter.exclusive {
                raw.try_lock_exclusive()
            } else {
                raw.try_lock_shared()
            };
            if !taken {
                break;
            }
            if waiter.exclusive {
                self.writer.store(waiter.task + 1, Ordering::Relaxed);
            }
            st.queues.remove_at(&self.queue, 0);
            core.wake(&mut st, waiter, Wake::Granted);
        }
    }
    #[inline]
    fn released(&self) {
        if cfg!(debug_assertions) {
            order::released(core(), self.addr(), self.name);
        }
        if self.queue.load(Ordering::Relaxed) != 0 {
            self.pump();
        }
    }
    fn addr(&self) -> usize {
        (&raw const self.queue).addr()
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        drop(self.inner.take());
        self.lock.released();
    }
}
impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.lock.writer.load(Ordering::Relaxed) != 0 {
            self.lock.writer.store(0, Ordering::Relaxed);
        }
        drop(self.inner.take());
        self.lock.released();
    }
}
impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("a guard holds its lock")
    }
}
impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("a guard holds its lock")
    }
}
impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("a guard holds its lock")
    }
}
impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}
impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_struct("RwLock");
        match self.inner.try_read() {
            Some(value) => d.field("value", &&*value),
            None => d.field("value", &format_args!("(locked)")),
        };
        d.field("name", &self.name).finish()
    }
}
