//! The condition variable `Condvar`, and the wait list that it shares with channels and semaphores.

use crate::core::{Core, here};
use crate::guards::may_wait;
use crate::mutex::MutexGuard;
use crate::power::PowerLost;
use crate::task::{Site, Wait, Wake};
use crate::time::start;
use crate::world::{Binding, core};
use base::Time;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// A point of time on the real clock.
pub(crate) fn instant(at: Time) -> Instant {
    start() + Duration::from_nanos(at.0)
}

/// Tasks or threads that wait for a notification.
pub(crate) struct WaitList {
    queue: AtomicU32,
    pub(crate) real: parking_lot::Condvar,
}

impl WaitList {
    pub(crate) const fn new() -> WaitList {
        WaitList {
            queue: AtomicU32::new(0),
            real: parking_lot::Condvar::new(),
        }
    }
    /// Suspends the running task until a notification, `deadline`, or (if `abortable`) the power
    /// cut. `before` runs after the registration and gives back what the waker needs.
    pub(crate) fn wait_in(
        &self,
        core: &Core,
        how: Wait,
        site: Site,
        deadline: Option<Time>,
        abortable: bool,
        before: impl FnOnce(),
    ) -> Wake {
        core.may_park(site);
        let waiter = core.enqueue(&self.queue, false);
        if let Some(at) = deadline {
            core.set_timer(at.0);
        }
        core.task().abortable.set(abortable);
        before();
        let wake = core.park(how, site);
        if wake != Wake::Notified {
            core.dequeue(&self.queue, waiter);
        }
        wake
    }
    pub(crate) fn notify_one(&self) {
        match core() {
            Some(core) => drop(core.notify(&self.queue)),
            None => drop(self.real.notify_one()),
        }
    }
    pub(crate) fn notify_all(&self) {
        match core() {
            Some(core) => while core.notify(&self.queue) {},
            None => drop(self.real.notify_all()),
        }
    }
}

/// Condition variable for [`crate::Mutex`].
pub struct Condvar {
    name: &'static str,
    world: Binding,
    list: WaitList,
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    /// A new condition variable.
    pub const fn new() -> Self {
        Self::named("")
    }
    /// A new condition variable with a name for deadlock reports.
    pub const fn named(name: &'static str) -> Self {
        Condvar {
            name,
            world: Binding::new(),
            list: WaitList::new(),
        }
    }
    /// Waits for a notification; spurious wake-ups happen, so wait in a loop.
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_for(guard, None, false, here());
    }
    /// As `wait`, until `deadline`; true if it passed. After a power cut nothing waits for time:
    /// then it gives the lock away once and returns true.
    #[track_caller]
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Time) -> bool {
        matches!(
            self.wait_for(guard, Some(deadline), false, here()),
            Wake::TimedOut | Wake::PowerLost
        )
    }
    /// As `wait`, but ends at a power cut: for waits whose waker needs the device.
    ///
    /// # Errors
    /// If the power is gone.
    #[track_caller]
    pub fn wait_powered<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) -> Result<(), PowerLost> {
        match self.wait_for(guard, None, true, here()) {
            Wake::PowerLost => Err(PowerLost),
            _ => Ok(()),
        }
    }
    #[track_caller]
    fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Time>,
        abortable: bool,
        site: Site,
    ) -> Wake {
        self.world.check("condvar", self.name, || false);
        let Some(core) = core() else {
            may_wait();
            return self.wait_real(guard, deadline);
        };
        let over = deadline.is_some_and(|d| d.0 <= core.now.get());
        let lost = !core.powered.get() && (abortable || deadline.is_some());
        let lock = guard.lock;
        let wake = if over || lost {
            core.may_park(site);
            lock.release(guard.inner.take().expect("the guard holds its lock"));
            core.yield_now(site);
            if lost {
                Wake::PowerLost
            } else {
                Wake::TimedOut
            }
        } else {
            let how = Wait::Condvar {
                name: self.name,
                until: deadline.map(|d| d.0),
            };
            let unlock = || lock.release(guard.inner.take().expect("the guard holds its lock"));
            self.list
                .wait_in(core, how, site, deadline, abortable, unlock)
        };
        guard.inner = Some(lock.lock_at(Some(core), site));
        wake
    }
    fn wait_real<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<Time>) -> Wake {
        let inner = guard.inner.as_mut().expect("the guard holds its lock");
        match deadline {
            None => self.list.real.wait(inner),
            Some(at) if self.list.real.wait_until(inner, instant(at)).timed_out() => {
                return Wake::TimedOut;
            }
            Some(_) => {}
        }
        Wake::Notified
    }
    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.list.notify_one();
    }
    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.list.notify_all();
    }
}
