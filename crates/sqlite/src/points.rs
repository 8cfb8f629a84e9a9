//! Where another task may run inside of SQLite, for the schedules of a simulation that look for
//! races.
//!
//! SQLite's calls of its VFS are such points everywhere. Between two of them SQLite enters and
//! leaves mutexes and reads and writes the shared memory of the WAL index. Those are points too
//! where [`with_points`] asks for them: a race can lie in such a gap. Elsewhere they are none,
//! because each would cost a look at the schedule and change every schedule that was recorded.
//!
//! A task gives way only while no mutex of SQLite is held: these are mutexes of the process, which
//! another simulation may wait for on another OS thread (sqlite-S4), and what they guard is no
//! state of a database. A connection has none of its own (sqlite-S5).
// SQLite calls from C, on the OS thread of a simulation or outside of any: what is asked for and
// held belongs to that thread.
#![allow(clippy::disallowed_types)]

use std::cell::Cell;

/// What inside of SQLite is a point where another task may run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Points {
    /// Calls of the VFS only.
    #[default]
    Vfs,
    /// Also SQLite's mutexes: before one is entered and behind its leaving.
    Mutexes,
    /// Also each atomic access to shared memory, where SQLite is built so that it calls
    /// [`shared_memory`] before it.
    SharedMemory,
}

std::thread_local! {
    /// What [`with_points`] asks for on this OS thread, on which its simulation runs.
    static POINTS: Cell<Points> = const { Cell::new(Points::Vfs) };
    /// Mutexes of SQLite that this OS thread holds.
    static HELD: Cell<u32> = const { Cell::new(0) };
    /// Points so far. Each change of an atomic of `rt` is one.
    static PASSED: rt::atomic::AtomicU64 = const { rt::atomic::AtomicU64::new(0) };
}

/// Runs `f`, which runs one simulation or several on this OS thread, with these points.
pub fn with_points<R>(points: Points, f: impl FnOnce() -> R) -> R {
    struct Back(Points);
    impl Drop for Back {
        fn drop(&mut self) {
            POINTS.set(self.0);
        }
    }
    let _back = Back(POINTS.replace(points));
    f()
}

/// An access of SQLite to memory that its connections share follows.
pub fn shared_memory() {
    if POINTS.get() >= Points::SharedMemory {
        point();
    }
}

/// A mutex is about to be entered.
pub(crate) fn before_mutex() {
    if POINTS.get() >= Points::Mutexes {
        point();
    }
}

/// A mutex was entered.
pub(crate) fn entered() {
    HELD.set(HELD.get() + 1);
}

/// A mutex was left.
pub(crate) fn left() {
    HELD.set(HELD.get() - 1);
    before_mutex();
}

/// Another task may run, unless a mutex is held.
fn point() {
    if HELD.get() == 0 && rt::in_simulation() {
        // A panic here ends the simulation, which reports it; C takes no error from a mutex.
        let _ = rt::foreign(|| {
            PASSED.with(|passed| passed.fetch_add(1, rt::atomic::Ordering::Relaxed));
        });
    }
}
