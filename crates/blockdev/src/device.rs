//! The blocking device interface.

use crate::{Caps, DevError, Reply, Request};
use base::Time;

/// Names a submitted request until it is waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// A block device. Requests may complete in any order; a write is volatile until a flush that
/// started after its completion has completed, or, with `fua`, non-volatile at completion (where
/// [`Caps::fua`] is set).
///
/// Contract, run by `testkit::device` against every implementer: each ticket is waited for exactly
/// once; a read submitted after a write has *completed* sees it; after the power is lost every call
/// answers [`DevErrorKind::PowerLost`](crate::DevErrorKind::PowerLost) at once.
pub trait BlockDevice: Send + Sync {
    /// The promises of the device.
    fn caps(&self) -> Caps;
    /// Hands a request to the device; does not wait for its completion (but may wait for room in a
    /// queue).
    fn submit(&self, request: Request) -> Ticket;
    /// Waits until the request is complete.
    ///
    /// # Errors
    /// The device's error for the request.
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError>;
    /// When [`wait`](BlockDevice::wait) will return, by the clock of `rt`, if the device knows that
    /// beforehand. Who cannot block in `wait` sleeps until then together with something else.
    fn due(&self, ticket: Ticket) -> Option<Time> {
        let _ = ticket;
        None
    }
}

impl<D: BlockDevice + ?Sized> BlockDevice for std::sync::Arc<D> {
    fn caps(&self) -> Caps {
        (**self).caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        (**self).submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        (**self).wait(ticket)
    }
    fn due(&self, ticket: Ticket) -> Option<Time> {
        (**self).due(ticket)
    }
}
