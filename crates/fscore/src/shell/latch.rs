//! The latch of a mount: the first failure stays, and later calls are told of it.
//!
//! Going on after a failed write of metadata would turn an error into damage, so from the first
//! failure on changes are refused; with `errors=panic` everything is. What counts as a failure is
//! decided by the file system.

use crate::{Errno, FsError, FsResult};
use rt::Mutex;

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
    errors: Errors,
}

#[derive(Clone, Debug)]
enum State {
    /// All operations.
    Alive,
    /// After a failure: reads are accepted, changes are refused.
    Failed(String),
    /// After a failure with `errors=panic`, or a shutdown: every operation is refused.
    Panicked(String),
    /// No operation: the file system is unmounted.
    Closed,
}

impl Latch {
    /// Why a mount that was [shut down](Latch::shut_down) refuses everything.
    pub const SHUT_DOWN: &str = "the file system was shut down";

    /// A mount that accepts everything, and does this about failures.
    pub const fn new(errors: Errors) -> Latch {
        Latch {
            state: Mutex::named("latch", State::Alive),
            errors,
        }
    }

    /// What the mount does about failures.
    pub fn errors(&self) -> Errors {
        self.errors
    }

    /// True before the first failure, until the unmount.
    pub fn is_alive(&self) -> bool {
        matches!(*self.state.lock(), State::Alive)
    }

    /// True after the unmount.
    pub fn is_closed(&self) -> bool {
        matches!(*self.state.lock(), State::Closed)
    }

    /// The first failure, if there was one.
    pub fn failed(&self) -> Option<String> {
        match &*self.state.lock() {
            State::Failed(first) | State::Panicked(first) => Some(first.clone()),
            State::Alive | State::Closed => None,
        }
    }

    /// Checks that operations are accepted at all.
    ///
    /// # Errors
    /// ESHUTDOWN after the unmount; `Aborted` after a failure with `errors=panic`.
    pub fn check_open(&self) -> FsResult<()> {
        match &*self.state.lock() {
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
        let mut state = self.state.lock();
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
        *self.state.lock() = State::Panicked(Latch::SHUT_DOWN.into());
    }

    /// Closes the mount: no operation is accepted any more.
    ///
    /// # Errors
    /// ESHUTDOWN if it was closed before; `Aborted` after a failure. It is closed all the same.
    pub fn close(&self) -> FsResult<()> {
        match std::mem::replace(&mut *self.state.lock(), State::Closed) {
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
