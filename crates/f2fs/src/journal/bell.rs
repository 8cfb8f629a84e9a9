//! How operations wake the tasks that commit and apply, before anybody has to wait for what these do.
//!
//! - B1 a bell that was rung is heard: it is set before the ringer takes the lock under which the task waits, and the task looks at it under
//!   that lock;
//! - B2 who rings waits for nobody, and rings once until it is heard.

use rt::atomic::{AtomicBool, Ordering};

/// Something is to be done.
pub(crate) struct Bell(AtomicBool);

impl Bell {
    /// Not rung.
    pub fn new() -> Bell {
        Bell(AtomicBool::new(false))
    }

    /// Sets it; true if it was not: then the caller wakes who listens (B2).
    pub fn set(&self) -> bool {
        !self.0.load(Ordering::Acquire) && !self.0.swap(true, Ordering::AcqRel)
    }

    /// True if it was rung since the last call: the task asks under its lock (B1).
    pub fn heard(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}
