//! Submitted writes that somebody has to wait for.

use crate::Queue;
use blockdev::{DevError, Ticket};
use std::sync::Arc;

/// Submitted writes. Dropping it unwaited keeps the queue's cache marked dirty for good, so that no flush is ever
/// skipped on its account; still, wait for it.
#[must_use = "somebody has to wait for these writes"]
pub struct Batch {
    queue: Arc<Queue>,
    tickets: Vec<(Ticket, Kind)>,
}

/// What the completion means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Volatile until a flush.
    Cached,
    /// Non-volatile.
    Durable,
    /// FUA on a device that has none: a flush has to follow.
    FuaByFlush,
}

impl Batch {
    pub(crate) fn new(queue: Arc<Queue>) -> Batch {
        Batch {
            queue,
            tickets: Vec::new(),
        }
    }
    pub(crate) fn push(&mut self, ticket: Ticket, kind: Kind) {
        self.tickets.push((ticket, kind));
    }
    /// Number of commands.
    pub fn len(&self) -> usize {
        self.tickets.len()
    }
    /// True if nothing was submitted.
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }
    /// Takes over the writes of `other`.
    pub fn merge(&mut self, other: Batch) {
        self.tickets.extend(other.tickets);
    }
    /// Waits for all of them.
    ///
    /// # Errors
    /// The first failure; the others are waited for all the same.
    pub fn wait(self) -> Result<(), DevError> {
        let mut outcome = Ok(());
        let mut needs_flush = false;
        for (ticket, kind) in self.tickets {
            let one = self.queue.wait_write(ticket, kind);
            needs_flush |= one.is_ok() && kind == Kind::FuaByFlush;
            outcome = outcome.and(one);
        }
        outcome?;
        if needs_flush {
            self.queue.flush()
        } else {
            Ok(())
        }
    }
}
