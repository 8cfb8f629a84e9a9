//! A layer between queue and device that keeps the commands of the measured part, so that they can
//! be given to the device again.

use base::{Map, Nanos, Time};
use rig::{BlockDevice, Caps, DevError, Reply, Request, Ticket};
use rt::Mutex;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most bytes of content that are kept. The device holds most of them anyway.
pub(super) const MOST_BYTES: u64 = 512 << 20;
/// Most commands that are kept.
const MOST_COMMANDS: usize = 1 << 21;

/// A command, and when it was given.
pub(super) struct Command {
    pub request: Request,
    /// Time since the command before it was given.
    pub after: Nanos,
    /// Number of commands, the first ones, whose end was known when it was given.
    pub ended: usize,
}

/// The commands of a measured part.
#[derive(Default)]
pub(crate) struct Kept {
    pub(super) commands: Vec<Command>,
    bytes: u64,
    last: Time,
    /// Commands whose end nobody has learnt yet.
    open: BTreeSet<usize>,
    tickets: Map<u64, usize>,
    /// There were more than can be kept.
    pub(super) over: bool,
}

impl Kept {
    fn beginning(at: Time) -> Kept {
        Kept {
            last: at,
            ..Kept::default()
        }
    }

    fn add(&mut self, at: Time, ticket: Ticket, request: Request) {
        let written = request.written();
        let pieces = written.iter().flat_map(|write| write.1);
        self.bytes += pieces.map(|piece| piece.bytes.len() as u64).sum::<u64>();
        if self.bytes > MOST_BYTES || self.commands.len() == MOST_COMMANDS {
            *self = Kept {
                over: true,
                ..Kept::default()
            };
            return;
        }
        let index = self.commands.len();
        self.commands.push(Command {
            request,
            after: at - self.last,
            ended: self.open.first().copied().unwrap_or(index),
        });
        self.last = at;
        self.open.insert(index);
        self.tickets.insert(ticket.0, index);
    }

    fn ended(&mut self, ticket: Ticket) {
        if let Some(index) = self.tickets.remove(&ticket.0) {
            self.open.remove(&index);
        }
    }
}

/// The layer. It takes no virtual time.
pub(crate) struct Keep {
    inner: Arc<dyn BlockDevice>,
    /// `None` before the measured part and after it.
    kept: Mutex<Option<Kept>>,
}

impl Keep {
    /// The measured part begins.
    pub fn begin(&self) {
        *self.kept.lock() = Some(Kept::beginning(rt::now()));
    }

    /// It has ended: its commands.
    pub fn end(&self) -> Option<Kept> {
        self.kept.lock().take()
    }
}

impl BlockDevice for Keep {
    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn submit(&self, request: Request) -> Ticket {
        let mut kept = self.kept.lock();
        let Some(kept) = kept.as_mut().filter(|kept| !kept.over) else {
            drop(kept);
            return self.inner.submit(request);
        };
        // The lock is held, so that the order kept is the one in which the device got commands.
        let (at, same) = (rt::now(), request.clone());
        let ticket = self.inner.submit(request);
        kept.add(at, ticket, same);
        ticket
    }

    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let result = self.inner.wait(ticket);
        if let Some(kept) = &mut *self.kept.lock() {
            kept.ended(ticket);
        }
        result
    }

    fn due(&self, ticket: Ticket) -> Option<Time> {
        self.inner.due(ticket)
    }
}

/// The layer of one run: it is made when the device is there.
#[derive(Default)]
pub(crate) struct Keeping(RefCell<Option<Arc<Keep>>>);

impl Keeping {
    /// Puts the layer over `inner`.
    pub fn over(&self, inner: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        let layer = Arc::new(Keep {
            inner,
            kept: Mutex::named("kept commands", None),
        });
        *self.0.borrow_mut() = Some(layer.clone());
        layer
    }

    /// The layer, if it was made.
    pub fn layer(&self) -> Option<Arc<Keep>> {
        self.0.borrow().clone()
    }
}
