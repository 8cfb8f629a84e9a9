//! A bell wakes a background task (one that commits, applies or searches for node numbers), so that
//! the task works before an operation has to wait for its result.
//!
//! - B1 no ring is lost: the flag is set before the ringing operation takes the lock under which
//!   the task waits, and the task reads the flag under that lock;
//! - B2 ringing waits for nothing but that lock, and only the first ring until the task hears it
//!   takes the lock and wakes the task.

use base::Nanos;
use rt::atomic::{AtomicBool, Ordering};

/// How long a task waits for its bell before it looks by itself. The bell suffices: who makes work
/// rings.
pub(crate) const LOOK: Nanos = Nanos::from_secs(60);

/// Something is to be done.
pub(crate) struct Bell(AtomicBool);

impl Bell {
    /// Not rung.
    pub fn new() -> Bell {
        Bell(AtomicBool::new(false))
    }

    /// Sets the bell. True if it was not set: then the caller wakes the task that listens (B2).
    pub fn set(&self) -> bool {
        !self.0.load(Ordering::Acquire) && !self.0.swap(true, Ordering::AcqRel)
    }

    /// True if it was rung since the last call: the task asks under its lock (B1).
    pub fn heard(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}
