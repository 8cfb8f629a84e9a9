//! A flush that is under way.

use crate::Queue;
use crate::durability::FlushStart;
use crate::observe::Probe;
use blockdev::{DevError, Ticket};
use std::sync::Arc;

/// A flush whose start is numbered. Others may join it ([`Queue::ensure_flushed`]), so it must be
/// waited for, on every path: a task that joins a flush which is never waited for waits for ever.
#[must_use = "somebody has to wait for the flush"]
pub struct Flushing {
    pub(crate) queue: Arc<Queue>,
    pub(crate) under_way: UnderWay,
}

/// A flush, apart from its queue.
pub(crate) struct UnderWay {
    /// `None` without a volatile cache: there was nothing to send.
    pub ticket: Option<Ticket>,
    pub start: FlushStart,
    pub probe: Option<Probe>,
}

impl Flushing {
    /// Waits for its end.
    ///
    /// # Errors
    /// What the device says: nothing is covered then (durability-B3).
    pub fn wait(self) -> Result<(), DevError> {
        self.queue.end_flush(self.under_way)
    }
}
