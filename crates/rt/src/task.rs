//! One simulated task: its coroutine, what it waits for, and what reports say about it.

use crate::stack::{Extent, TaskStack};
use crate::values::Values;
use corosensei::{Coroutine, Yielder};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Index of a task in its simulation, in order of creation; 0 is the main task. Never reused.
pub(crate) type TaskId = u32;
pub(crate) type Co = Coroutine<(), (), (), TaskStack>;
/// A source line of the program.
pub(crate) type Site = &'static Location<'static>;

/// The values of a task, the innermost last.
pub(crate) type Locals = RefCell<Values>;

/// A lock that a task holds.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) addr: usize,
    pub(crate) name: &'static str,
    pub(crate) site: Site,
}

/// What a parked task waits for.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// Not waiting: running or ready.
    No,
    Sleep(u64),
    Charge(u64),
    Lock(LockWait),
    Condvar {
        name: &'static str,
        until: Option<u64>,
    },
    Join(TaskId),
    Send {
        name: &'static str,
    },
    Recv {
        name: &'static str,
    },
    Semaphore {
        name: &'static str,
        permits: u64,
    },
    Scope,
    /// Ended the simulation from within and will never run again.
    Ended,
}

/// A wait for a mutex or rwlock.
#[derive(Clone, Copy)]
pub(crate) struct LockWait {
    pub(crate) verb: &'static str,
    pub(crate) name: &'static str,
    /// Address of the lock; compared only, never ordered or hashed.
    pub(crate) addr: usize,
    /// Points at the lock's holder word.
    pub(crate) holder: *const AtomicU32,
}

impl LockWait {
    /// The task that holds the lock exclusively.
    ///
    /// # Safety
    /// The waiting task must still be suspended in its wait: it borrows the lock for all of it.
    pub(crate) unsafe fn holder(&self) -> Option<TaskId> {
        // SAFETY: the lock lives as long as the suspended waiter's borrow (caller's promise).
        unsafe { &*self.holder }
            .load(Ordering::Relaxed)
            .checked_sub(1)
    }
}

/// Why a parked task runs again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wake {
    /// Another task notified it.
    Notified,
    /// The lock it waits for was taken on its behalf.
    Granted,
    /// Its deadline came.
    TimedOut,
    /// The power was cut.
    PowerLost,
}

/// A name in a wait queue. It is stale, and skipped, once the task's generation moved on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiter {
    pub(crate) task: TaskId,
    pub(crate) generation: u32,
    /// For an rwlock: waits for exclusive access.
    pub(crate) exclusive: bool,
}

pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) name: Arc<str>,
    pub(crate) stack: Extent,
    /// The boxed coroutine. A raw pointer, because it must never be dropped while suspended (rule
    /// 4).
    pub(crate) coroutine: Cell<*mut Co>,
    pub(crate) yielder: Cell<*const Yielder<(), ()>>,
    /// Counts wake-ups; makes older registrations stale.
    pub(crate) generation: Cell<u32>,
    pub(crate) wait: Cell<Wait>,
    pub(crate) site: Cell<Site>,
    pub(crate) since: Cell<u64>,
    pub(crate) wake: Cell<Wake>,
    /// A timer of the present generation is in the heap.
    pub(crate) has_timer: Cell<bool>,
    /// The present wait ends at a power cut.
    pub(crate) abortable: Cell<bool>,
    pub(crate) joiner: Cell<Option<Waiter>>,
    pub(crate) finished: Cell<bool>,
    pub(crate) no_yield: Cell<u32>,
    pub(crate) foreign: Cell<u32>,
    /// Message of the panic in progress, left by the panic hook.
    pub(crate) panic_note: RefCell<Option<String>>,
    pub(crate) held: RefCell<Vec<Held>>,
    pub(crate) locals: Locals,
}

impl Task {
    #[track_caller]
    pub(crate) fn new(id: TaskId, name: Arc<str>, stack: Extent) -> Task {
        Task {
            id,
            name,
            stack,
            coroutine: Cell::new(std::ptr::null_mut()),
            yielder: Cell::new(std::ptr::null()),
            generation: Cell::new(0),
            wait: Cell::new(Wait::No),
            site: Cell::new(Location::caller()),
            since: Cell::new(0),
            wake: Cell::new(Wake::Notified),
            has_timer: Cell::new(false),
            abortable: Cell::new(false),
            joiner: Cell::new(None),
            finished: Cell::new(false),
            no_yield: Cell::new(0),
            foreign: Cell::new(0),
            panic_note: RefCell::new(None),
            held: RefCell::new(Vec::new()),
            locals: RefCell::new(Values::new()),
        }
    }
    /// The registration that wakes its present (or next) wait.
    pub(crate) fn waiter(&self, exclusive: bool) -> Waiter {
        Waiter {
            task: self.id,
            generation: self.generation.get(),
            exclusive,
        }
    }
}

/// `` `name` `` or "(unnamed)".
pub(crate) fn quoted(name: &str) -> String {
    if name.is_empty() {
        "(unnamed)".into()
    } else {
        format!("`{name}`")
    }
}
