//! Says which world this OS thread is in, and binds each object to the world that uses it first.

use crate::core::Core;
use parking_lot::Mutex as OsMutex;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of the real world.
pub(crate) const REAL: u64 = 1;
static NEXT: AtomicU64 = AtomicU64::new(REAL + 1);
static RUNNING: OsMutex<BTreeSet<u64>> = OsMutex::new(BTreeSet::new());

thread_local! {
    static CORE: Cell<*const Core> = const { Cell::new(std::ptr::null()) };
}

/// The simulation that runs on this OS thread.
#[inline]
pub(crate) fn core<'a>() -> Option<&'a Core> {
    // SAFETY: `Entered` keeps the pointer set only while the core is borrowed by `Sim::run`, and
    // everything that runs on this OS thread meanwhile is called from there. No caller keeps the
    // reference past its own frame: a frame that is still suspended when the core goes away is
    // never resumed.
    unsafe { CORE.get().as_ref() }
}

/// A number for a new simulation.
pub(crate) fn fresh() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// This thread is inside a simulation until the value is dropped.
pub(crate) struct Entered(u64);

impl Entered {
    /// # Panics
    /// If the thread is in a simulation already.
    pub(crate) fn new(core: &Core) -> Entered {
        assert!(
            CORE.get().is_null(),
            "Sim::run inside of a simulation: run it on another OS thread, or after this one"
        );
        CORE.set(core);
        RUNNING.lock().insert(core.world);
        Entered(core.world)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CORE.set(std::ptr::null());
        RUNNING.lock().remove(&self.0);
    }
}

/// The world that an object belongs to, from its first use on. Empty in release builds.
pub(crate) struct Binding(#[cfg(debug_assertions)] AtomicU64);

impl Binding {
    pub(crate) const fn new() -> Binding {
        Binding(
            #[cfg(debug_assertions)]
            AtomicU64::new(0),
        )
    }
    /// Refuses an object of another world. Objects of a simulation that has ended may be read in
    /// the real world.
    ///
    /// # Panics
    /// If the object belongs to another world (debug builds).
    #[inline]
    #[track_caller]
    pub(crate) fn check(&self, kind: &str, name: &str, is_held: impl Fn() -> bool) {
        #[cfg(debug_assertions)]
        {
            let world = core().map_or(REAL, |c| c.world);
            let bound = self.0.load(Ordering::Relaxed);
            if bound != world {
                self.rebind(bound, world, kind, name, is_held());
            }
        }
        #[cfg(not(debug_assertions))]
        let _ = (kind, name, is_held);
    }
    #[cfg(debug_assertions)]
    #[cold]
    #[track_caller]
    fn rebind(&self, bound: u64, world: u64, kind: &str, name: &str, held: bool) {
        let say = |w: u64| {
            if w == REAL {
                "the real world".to_string()
            } else {
                format!("simulation {w}")
            }
        };
        let free = bound == 0 || (world == REAL && !RUNNING.lock().contains(&bound));
        // Every lock that is made comes by here, so its name is put in quotes only for a panic.
        let quoted = || crate::task::quoted(name);
        assert!(
            free,
            "rt {kind} {} belongs to {} and is used in {}: build it inside of the world that uses it",
            quoted(),
            say(bound),
            say(world)
        );
        assert!(
            bound == 0 || !held,
            "rt {kind} {} is still held by a task left over in {}, which has ended",
            quoted(),
            say(bound)
        );
        // A race of two first uses in the real world writes the same value twice.
        self.0.store(world, Ordering::Relaxed);
    }
}
