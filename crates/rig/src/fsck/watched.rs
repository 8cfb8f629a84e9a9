//! A device that remembers whether anything was written to it.

use blockdev::{BlockDevice, Caps, DevError, Op, Reply, Request, Ticket};
use rt::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Hands everything on.
pub(super) struct Watched {
    below: Arc<dyn BlockDevice>,
    written: AtomicBool,
}

impl Watched {
    pub fn new(below: Arc<dyn BlockDevice>) -> Arc<Watched> {
        Arc::new(Watched {
            below,
            written: AtomicBool::new(false),
        })
    }

    /// True if anything was written.
    pub fn is_written(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }
}

impl BlockDevice for Watched {
    fn caps(&self) -> Caps {
        self.below.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        if !matches!(request.op, Op::Read { .. } | Op::Flush | Op::Barrier) {
            self.written.store(true, Ordering::Relaxed);
        }
        self.below.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        self.below.wait(ticket)
    }
}
