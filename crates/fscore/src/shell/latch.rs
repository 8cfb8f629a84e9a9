//! The latch of a mount: the first failure stays, and later calls are told of it.
//!
//! Going on after a failed write of metadata would turn an error into damage, so from the first
//! failure on changes are refused; with `errors=panic` everything is. What counts as a failure is
//! decided by the file system.
//!
//! A panic is a failure that nobody has thought of, so nothing in memory can be trusted behind it,
//! and a checkpoint or a commit would make half an operation durable. [`Latch::watch`] is the
//! guard:
//!
//! - P1 work that ends by a panic latches the mount for good, whatever `errors=` says: every
//!   operation is refused from then on, and the next mount recovers the volume. The panic goes on
//!   to the caller;
//! - P2 the latch is set while the panic unwinds, before anything that the caller of `watch` holds
//!   is given back. A file system calls `watch` under the lock that keeps its checkpoints out, so a
//!   checkpoint that waited for that lock, and looks at the latch behind it, finds it set. Locks
//!   that the work itself took are given back before;
//! - P3 nothing waits and no lock is taken meanwhile (rule 11): a flag is set, which everyone who
//!   looks at the latch sees.

use crate::{Errno, FsError, FsResult};
use rt::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};

base::words! {
    /// What a mount does about damage, or about a failed write of metadata (`errors=`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub enum Errors: "errors" {
        /// Damage is noted on the volume, the operation fails, and the mount goes on where it can.
        /// After a failed write of metadata changes are refused.
        #[default]
        Continue => "continue",
        /// The mount refuses every change from then on.
        RemountRo => "remount-ro",
        /// The mount refuses everything from then on with EIO (there is no kernel to panic here).
        Panic => "panic",
    }
}

/// Which operations a mount still accepts.
pub struct Latch {
    state: Mutex<State>,
    /// Watched work has panicked (P3).
    panicked: AtomicBool,
    errors: Errors,
}

/// Notes in the latch that work has not ended, unless it is told that it has.
struct Watch<'a, F: Fn()> {
    latch: &'a Latch,
    and: F,
    ended: bool,
}

impl<F: Fn()> Drop for Watch<'_, F> {
    /// P2, P3.
    fn drop(&mut self) {
        if !self.ended {
            self.latch.panicked.store(true, Ordering::Release);
            (self.and)();
        }
    }
}

#[derive(Clone, Debug)]
enum State {
    /// All operations.
    Alive,
    /// After a failure: reads are accepted, changes are refused.
    Failed(String),
    /// After a failure with `errors=panic`, a panic, or a shutdown: every operation is refused.
    Panicked(String),
    /// No operation: the file system is unmounted.
    Closed,
}

impl Latch {
    /// Why a mount that was [shut down](Latch::shut_down) refuses everything.
    pub const SHUT_DOWN: &str = "the file system was shut down";
    /// Why a mount refuses everything after a panic (P1).
    pub const PANICKED: &str = "an operation panicked";

    /// A mount that accepts everything, and does this about failures.
    pub const fn new(errors: Errors) -> Latch {
        Latch {
            state: Mutex::named("latch", State::Alive),
            panicked: AtomicBool::new(false),
            errors,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        if self.panicked.load(Ordering::Acquire) {
            match &*state {
                State::Alive => *state = State::Panicked(Latch::PANICKED.into()),
                State::Failed(first) => *state = State::Panicked(first.clone()),
                State::Panicked(_) | State::Closed => {}
            }
        }
        state
    }

    /// Runs work on the mount; if it panics, the mount refuses everything from then on (P1), and
    /// `and` is called, which may only set flags (P3).
    pub fn watch<T>(&self, work: impl FnOnce() -> T, and: impl Fn()) -> T {
        let mut watch = Watch {
            latch: self,
            and,
            ended: false,
        };
        let done = work();
        watch.ended = true;
        done
    }

    /// What the mount does about failures.
    pub fn errors(&self) -> Errors {
        self.errors
    }

    /// True before the first failure, until the unmount.
    pub fn is_alive(&self) -> bool {
        matches!(*self.state(), State::Alive)
    }

    /// True after the unmount.
    pub fn is_closed(&self) -> bool {
        matches!(*self.state(), State::Closed)
    }

    /// The first failure, if there was one.
    pub fn failed(&self) -> Option<String> {
        match &*self.state() {
            State::Failed(first) | State::Panicked(first) => Some(first.clone()),
            State::Alive | State::Closed => None,
        }
    }

    /// Checks that operations are accepted at all.
    ///
    /// # Errors
    /// ESHUTDOWN after the unmount; `Aborted` after a failure with `errors=panic`, and after a
    /// panic.
    pub fn check_open(&self) -> FsResult<()> {
        match &*self.state() {
            State::Closed => Err(Errno::Shutdown.into()),
            State::Panicked(first) => Err(aborted(first)),
            State::Alive | State::Failed(_) => Ok(()),
        }
    }

    /// Checks that no failure forbids changes. An unmount that is under way does not: what it
    /// writes passes here.
    ///
    /// # Errors
    /// `Aborted` after a failure.
    pub fn check_changes(&self) -> FsResult<()> {
        self.failed().map_or(Ok(()), |first| Err(aborted(&first)))
    }

    /// Latches the mount, if it is alive; true if it was.
    pub fn fail(&self, why: impl Into<String>) -> bool {
        let mut state = self.state();
        let alive = matches!(*state, State::Alive);
        if alive {
            *state = match self.errors {
                Errors::Continue | Errors::RemountRo => State::Failed(why.into()),
                Errors::Panic => State::Panicked(why.into()),
            };
        }
        alive
    }

    /// Ends the mount for all operations, whatever happened before.
    pub fn shut_down(&self) {
        *self.state() = State::Panicked(Latch::SHUT_DOWN.into());
    }

    /// Closes the mount: no operation is accepted any more.
    ///
    /// # Errors
    /// ESHUTDOWN if it was closed before; `Aborted` after a failure. It is closed all the same.
    pub fn close(&self) -> FsResult<()> {
        match std::mem::replace(&mut *self.state(), State::Closed) {
            State::Alive => Ok(()),
            State::Closed => Err(Errno::Shutdown.into()),
            State::Failed(first) | State::Panicked(first) => Err(aborted(&first)),
        }
    }
}

fn aborted(first: &str) -> FsError {
    FsError::Aborted {
        first: first.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_stays_until_the_end() {
        for errors in Errors::ALL {
            let latch = Latch::new(errors);
            assert!(latch.is_alive() && latch.check_changes().is_ok());
            assert!(latch.fail("first") && !latch.fail("second"));
            assert_eq!(latch.failed().as_deref(), Some("first"));
            let refused = latch.check_changes().map_err(|e| e.to_string());
            assert!(refused.is_err_and(|e| e.ends_with(": first")));
            assert_eq!(latch.check_open().is_ok(), errors != Errors::Panic);
            assert!(matches!(latch.close(), Err(FsError::Aborted { .. })));
            assert!(latch.is_closed() && latch.failed().is_none());
            let again = latch.close().map_err(|e| e.errno());
            assert_eq!(again, Err(Errno::Shutdown));
        }
    }

    /// P1: whatever is asked for after a failure, and with a failure before.
    #[test]
    fn a_panic_ends_everything() {
        for errors in Errors::ALL {
            for failed in [None, Some("first")] {
                let latch = Latch::new(errors);
                if let Some(first) = failed {
                    latch.fail(first);
                }
                let calls = AtomicBool::new(false);
                let count = || calls.store(true, Ordering::Release);
                assert_eq!(latch.watch(|| 7, count), 7);
                assert_eq!(
                    (latch.failed().as_deref(), calls.load(Ordering::Acquire)),
                    (failed, false)
                );
                let ended = rt::foreign(|| latch.watch(|| panic!("planted"), count));
                assert!(
                    ended.is_err() && calls.load(Ordering::Acquire),
                    "the panic goes on"
                );
                let first = failed.unwrap_or(Latch::PANICKED);
                assert_eq!(latch.failed().as_deref(), Some(first));
                assert!(!latch.is_alive() && !latch.fail("second"));
                for refused in [latch.check_open(), latch.check_changes(), latch.close()] {
                    let refused = refused.map_err(|e| (e.errno(), e.to_string()));
                    assert!(refused.is_err_and(|(no, e)| no == Errno::Io && e.ends_with(first)));
                }
                assert!(latch.is_closed());
            }
        }
    }

    #[test]
    fn an_unmount_still_writes_and_a_shutdown_ends_everything() {
        let latch = Latch::new(Errors::Continue);
        assert!(latch.close().is_ok() && latch.check_changes().is_ok());
        assert_eq!(
            latch.check_open().map_err(|e| e.errno()),
            Err(Errno::Shutdown)
        );
        assert!(!latch.fail("late"));
        let latch = Latch::new(Errors::Continue);
        latch.shut_down();
        assert!(latch.check_open().is_err() && latch.check_changes().is_err());
    }
}
