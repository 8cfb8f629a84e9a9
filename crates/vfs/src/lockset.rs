//! Locks by inode number, of which an operation takes one or two (vfs-V2). It takes both at once or
//! waits, so they need no order among each other.

use base::Ino;
use rt::{Condvar, Mutex};
use std::collections::BTreeSet;

/// The set of locked inode numbers.
pub(crate) struct LockSet {
    held: Mutex<BTreeSet<Ino>>,
    freed: Condvar,
}

impl LockSet {
    pub(crate) fn new() -> LockSet {
        LockSet {
            held: Mutex::named("vfs directory locks", BTreeSet::new()),
            freed: Condvar::new(),
        }
    }
    /// Runs `f` with `a` and `b` (which may be equal) locked.
    pub(crate) fn with<R>(&self, a: Ino, b: Ino, f: impl FnOnce() -> R) -> R {
        let mut held = self.held.lock();
        while held.contains(&a) || held.contains(&b) {
            self.freed.wait(&mut held);
        }
        held.insert(a);
        held.insert(b);
        drop(held);
        let result = f();
        let mut held = self.held.lock();
        held.remove(&a);
        held.remove(&b);
        self.freed.notify_all();
        result
    }
}
