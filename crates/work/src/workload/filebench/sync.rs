//! What threads wait for beside files: semaphores, and events at a fixed rate.

use base::{Nanos, Time};
use rt::{Condvar, Mutex};

/// The semaphore of one `semblock` in one thread.
pub struct Sem {
    state: Mutex<Posts>,
    changed: Condvar,
    /// Most posts (`highwater`); 0: any number.
    most: u64,
}

#[derive(Default)]
struct Posts {
    count: u64,
    /// Its thread or the run has ended, so nobody waits any more.
    closed: bool,
}

impl Sem {
    /// A semaphore without posts.
    pub fn new(most: u64) -> Sem {
        Sem {
            state: Mutex::named("filebench semaphore", Posts::default()),
            changed: Condvar::named("filebench semaphore"),
            most,
        }
    }

    /// Takes `count` posts, and waits for them until `deadline` at the latest.
    pub fn take(&self, count: u64, deadline: Time) {
        let mut state = self.state.lock();
        while state.count < count && !state.closed {
            if self.changed.wait_until(&mut state, deadline) {
                return;
            }
        }
        state.count = state.count.saturating_sub(count);
        self.changed.notify_all();
    }

    /// Gives `count` posts. With `blocking` it first waits while there are as many as there may be.
    pub fn post(&self, count: u64, blocking: bool, deadline: Time) {
        let mut state = self.state.lock();
        while blocking && self.most > 0 && state.count >= self.most && !state.closed {
            if self.changed.wait_until(&mut state, deadline) {
                return;
            }
        }
        state.count = state.count.saturating_add(count);
        self.changed.notify_all();
    }

    /// Wakes all that wait; nobody waits any more.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}

/// Events at a fixed rate, of which each caller takes some and waits until they have happened.
pub struct Events {
    taken: Mutex<u64>,
    rate: u64,
}

impl Events {
    /// `rate` events per second; with 0 nobody waits.
    pub fn new(rate: u64) -> Events {
        Events {
            taken: Mutex::named("filebench events", 0),
            rate,
        }
    }

    /// Takes `count` events; returns when the last of them happens, if the run began at `start`.
    pub fn take(&self, count: u64, start: Time) -> Time {
        if self.rate == 0 {
            return start;
        }
        let mut taken = self.taken.lock();
        *taken = taken.saturating_add(count);
        let nanos = u128::from(*taken) * 1_000_000_000 / u128::from(self.rate);
        start
            + Nanos(
                u64::try_from(nanos)
                    .unwrap_or(u64::MAX / 2)
                    .min(u64::MAX / 2),
            )
    }

    /// True if there is a rate.
    pub fn limit(&self) -> bool {
        self.rate > 0
    }
}
