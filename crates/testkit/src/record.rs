//! A device that records every request with the times at which it was submitted, and at which its
//! submitter learnt of the completion.
//!
//! The device below decides by the order in which requests reach it, so the log has them in that
//! order: a request is sent and logged under one lock, which no wait takes while it waits.

use base::{Map, Time};
use blockdev::{BlockDevice, Caps, DevError, Reply, Request, Ticket};
use rt::Mutex;

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Event {
    /// When the request was submitted.
    pub submitted: Time,
    /// When its submitter learnt of the completion; `None` until then.
    pub completed: Option<Time>,
    /// True if it failed.
    pub failed: bool,
    /// The request itself; payloads are shared, not copied.
    pub request: Request,
}

/// A device that keeps all requests in the order of submission.
pub struct Record<D> {
    inner: D,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    events: Vec<Event>,
    open: Map<u64, usize>,
}

impl<D: BlockDevice> Record<D> {
    /// Records what goes to `inner`.
    pub fn new(inner: D) -> Record<D> {
        Record {
            inner,
            log: Mutex::named("record", Log::default()),
        }
    }
    /// The requests since this was called last.
    pub fn take(&self) -> Vec<Event> {
        let mut log = self.log.lock();
        log.open.clear();
        std::mem::take(&mut log.events)
    }
    /// The device below.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: BlockDevice> BlockDevice for Record<D> {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }
    fn submit(&self, request: Request) -> Ticket {
        let mut log = self.log.lock();
        let event = Event {
            submitted: rt::now(),
            completed: None,
            failed: false,
            request: request.clone(),
        };
        let ticket = self.inner.submit(request);
        let index = log.events.len();
        log.events.push(event);
        log.open.insert(ticket.0, index);
        ticket
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let result = self.inner.wait(ticket);
        let mut log = self.log.lock();
        if let Some(index) = log.open.remove(&ticket.0) {
            log.events[index].completed = Some(rt::now());
            log.events[index].failed = result.is_err();
        }
        result
    }
}
