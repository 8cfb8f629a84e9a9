//! A layer that notes what passes to a device, and when: for time lines and for what a log holds.

use crate::{BlockDevice, Caps, DevError, Reply, Request, Ticket};
use base::{Map, Time};
use rt::Mutex;
use std::sync::Arc;

/// A command that passed, with the note that was made of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed<N> {
    /// What [`Tap`] was asked to note of the request.
    pub note: N,
    /// When it was submitted.
    pub submitted: Time,
    /// When its submitter learnt of its end; `None` if it has not learnt yet.
    pub ended: Option<Time>,
}

/// Makes a note of a request; `None`: it is not kept.
type Noter<N> = dyn Fn(&Request) -> Option<N> + Send + Sync;

/// A device that notes what passes to `inner`. It takes no virtual time.
pub struct Tap<N> {
    inner: Arc<dyn BlockDevice>,
    noter: Box<Noter<N>>,
    log: Mutex<Log<N>>,
}

struct Log<N> {
    passed: Vec<Passed<N>>,
    /// The place in `passed` of each command whose end nobody has learnt yet.
    open: Map<u64, usize>,
}

impl<N> Tap<N> {
    /// Listens to what goes to `inner`; `noter` says what is kept of each request.
    pub fn new(
        inner: Arc<dyn BlockDevice>,
        noter: impl Fn(&Request) -> Option<N> + Send + Sync + 'static,
    ) -> Tap<N> {
        let log = Log {
            passed: Vec::new(),
            open: Map::default(),
        };
        Tap {
            inner,
            noter: Box::new(noter),
            log: Mutex::named("tap", log),
        }
    }

    /// Takes what has passed so far, in the order of submission. The end of a command that is under
    /// way is not noted any more.
    pub fn take(&self) -> Vec<Passed<N>> {
        let mut log = self.log.lock();
        log.open.clear();
        std::mem::take(&mut log.passed)
    }
}

impl<N: Send> BlockDevice for Tap<N> {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn submit(&self, request: Request) -> Ticket {
        let note = (self.noter)(&request);
        let mut log = self.log.lock();
        let submitted = rt::now();
        // The lock is held, so that the order kept is the one in which the device got commands.
        let ticket = self.inner.submit(request);
        if let Some(note) = note {
            let index = log.passed.len();
            log.passed.push(Passed {
                note,
                submitted,
                ended: None,
            });
            log.open.insert(ticket.0, index);
        }
        ticket
    }

    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let result = self.inner.wait(ticket);
        let mut log = self.log.lock();
        if let Some(index) = log.open.remove(&ticket.0) {
            log.passed[index].ended = Some(rt::now());
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, Op, Ram};
    use base::{Bytes, Lba};

    fn write(at: u64) -> Request {
        Request::write(Lba(at), Class::Data, Bytes::from(vec![7; 512]))
    }

    #[test]
    fn what_is_noted_is_kept_in_order_with_its_end() {
        let noter = |request: &Request| match request.op {
            Op::Write { lba, .. } => Some(lba.0),
            _ => None,
        };
        let tap = Tap::new(Arc::new(Ram::new(64 << 10)), noter);
        let tickets: Vec<Ticket> = [5, 3].map(|at| tap.submit(write(at))).into();
        let flush = tap.submit(Request::flush());
        tap.wait(flush).unwrap();
        tap.wait(tickets[1]).unwrap();
        let passed = tap.take();
        let notes: Vec<(u64, bool)> = passed.iter().map(|p| (p.note, p.ended.is_some())).collect();
        assert_eq!(notes, [(5, false), (3, true)]);
        tap.wait(tickets[0]).unwrap();
        assert!(
            tap.take().is_empty(),
            "what was taken is not noted any more"
        );
    }
}
