//! `Semaphore`: counted permits, first come first served, so that a task that wants many does not
//! starve.

use crate::condvar::WaitList;
use crate::core::here;
use crate::guards::may_wait;
use crate::task::{Site, Wait};
use crate::world::{Binding, core};
use parking_lot::Mutex as OsMutex;

/// A counter of permits. Permits are given back with [`Semaphore::release`], by any task: there is
/// no guard, so no `Drop` has to wake a task.
pub struct Semaphore {
    name: &'static str,
    world: Binding,
    /// Held for a few instructions only, never over a wait.
    state: OsMutex<State>,
    changed: WaitList,
}

struct State {
    available: u64,
    /// Number of the next comer.
    next: u64,
    /// Number of the waiter that is served next.
    serving: u64,
}

impl Semaphore {
    /// A semaphore with this many permits.
    pub const fn new(permits: u64) -> Self {
        Self::named("", permits)
    }
    /// As `new`, with a name for deadlock reports.
    pub const fn named(name: &'static str, permits: u64) -> Self {
        let state = OsMutex::new(State {
            available: permits,
            next: 0,
            serving: 0,
        });
        Semaphore {
            name,
            world: Binding::new(),
            state,
            changed: WaitList::new(),
        }
    }
    /// Takes `permits`, waiting as long as it takes.
    #[track_caller]
    pub fn acquire(&self, permits: u64) {
        let site = here();
        self.enter(site);
        let mut state = self.state.lock();
        let ticket = state.next;
        state.next += 1;
        while state.serving != ticket || state.available < permits {
            match core() {
                Some(core) => {
                    let how = Wait::Semaphore {
                        name: self.name,
                        permits,
                    };
                    self.changed
                        .wait_in(core, how, site, None, false, || drop(state));
                    state = self.state.lock();
                }
                None => {
                    may_wait();
                    self.changed.real.wait(&mut state);
                }
            }
        }
        state.serving += 1;
        state.available -= permits;
        // The next in line may fit into what is left.
        let wake = state.next != state.serving;
        drop(state);
        if wake {
            self.changed.notify_all();
        }
    }
    /// Takes `permits` if they are available and no task waits.
    #[track_caller]
    pub fn try_acquire(&self, permits: u64) -> bool {
        self.enter(here());
        let mut state = self.state.lock();
        let free = state.next == state.serving && state.available >= permits;
        if free {
            state.available -= permits;
        }
        free
    }
    /// Gives `permits` back (or adds new ones).
    #[track_caller]
    pub fn release(&self, permits: u64) {
        self.enter(here());
        let mut state = self.state.lock();
        state.available = state.available.saturating_add(permits);
        let wake = state.next != state.serving;
        drop(state);
        if wake {
            self.changed.notify_all();
        }
    }
    /// Permits that are free at this moment.
    pub fn available(&self) -> u64 {
        self.state.lock().available
    }
    #[track_caller]
    fn enter(&self, site: Site) {
        self.world.check("semaphore", self.name, || false);
        if let Some(core) = core() {
            core.scheduling_point(site);
        }
    }
}
