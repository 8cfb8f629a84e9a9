//! Submitted writes that somebody has to wait for.

use crate::Queue;
use crate::durability::WriteMark;
use crate::observe::Probe;
use blockdev::{DevError, Ticket};
use rt::Mutex;
use std::sync::Arc;

/// Submitted writes. Dropping it unwaited keeps the queue's cache marked dirty for good, so that no flush is ever
/// skipped on its account; still, wait for it.
#[must_use = "somebody has to wait for these writes"]
pub struct Batch {
    queue: Arc<Queue>,
    tickets: Vec<Sent>,
    watched: Vec<Watch>,
    volatile: bool,
    probe: Option<Probe>,
}

/// One command on its way.
pub(crate) struct Sent {
    pub ticket: Ticket,
    pub kind: Kind,
    pub sectors: u64,
}

/// What became of writes.
#[derive(Clone, Debug)]
#[must_use]
pub struct Written {
    /// A flush that covers it covers all of them; [`WriteMark::NONE`] if none went through the cache (H19).
    pub mark: WriteMark,
    /// The first failure among them.
    pub result: Result<(), DevError>,
}

/// A second pair of eyes on submitted writes: whoever comes first waits for the device, the others for him.
#[derive(Clone)]
pub struct Watch(Arc<Mutex<Watched>>);

enum Watched {
    Pending(Batch),
    Done(Written),
}

impl Watch {
    /// Waits until the writes are complete.
    ///
    /// # Errors
    /// The first failure among them, the same for everyone.
    pub fn wait(&self) -> Result<(), DevError> {
        self.wait_written().result
    }

    /// The same; also answers what a flush has to cover.
    pub fn wait_written(&self) -> Written {
        let mut state = self.0.lock();
        if let Watched::Pending(batch) = &mut *state {
            let empty = Batch::new(batch.queue.clone());
            let outcome = std::mem::replace(batch, empty).wait_written();
            *state = Watched::Done(outcome);
        }
        match &*state {
            Watched::Done(outcome) => outcome.clone(),
            Watched::Pending(_) => unreachable!("waited for above"),
        }
    }
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
            watched: Vec::new(),
            volatile: false,
            probe: None,
        }
    }
    /// True if some of it may be volatile at completion.
    pub fn is_volatile(&self) -> bool {
        self.volatile
    }
    /// Lets somebody else wait for the writes gathered so far, too: the batch may go to a journal transaction while the
    /// page cache has to know when its pages have left.
    pub fn watch(&mut self) -> Watch {
        let volatile = self.volatile;
        let empty = Batch::new(self.queue.clone());
        let inner = std::mem::replace(self, empty);
        let watch = Watch(Arc::new(Mutex::named("batch", Watched::Pending(inner))));
        self.volatile = volatile;
        self.watched.push(watch.clone());
        watch
    }
    pub(crate) fn push(&mut self, sent: Sent) {
        self.volatile |= sent.kind == Kind::Cached;
        self.tickets.push(sent);
    }
    pub(crate) fn set_probe(&mut self, probe: Option<Probe>) {
        self.probe = probe;
    }
    /// Number of commands.
    pub fn len(&self) -> usize {
        let watched = self.watched.iter().map(|w| match &*w.0.lock() {
            Watched::Pending(batch) => batch.len(),
            Watched::Done(_) => 0,
        });
        self.tickets.len() + watched.sum::<usize>()
    }
    /// True if nothing was submitted.
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty() && self.watched.is_empty()
    }
    /// Takes over the writes of `other`.
    pub fn merge(&mut self, other: Batch) {
        self.probe = None;
        self.volatile |= other.volatile;
        self.tickets.extend(other.tickets);
        self.watched.extend(other.watched);
    }
    /// Waits for all of them.
    ///
    /// # Errors
    /// The first failure; the others are waited for all the same.
    pub fn wait(self) -> Result<(), DevError> {
        self.wait_written().result
    }
    /// The same; also answers what a flush has to cover.
    pub fn wait_written(self) -> Written {
        let mut mark = WriteMark::NONE;
        let mut result = Ok(());
        let mut needs_flush = false;
        let mut before_last = rt::now();
        for sent in self.tickets {
            before_last = rt::now();
            let kind = sent.kind;
            let (one, covers) = self.queue.wait_write(sent);
            mark = mark.max(covers);
            needs_flush |= one.is_ok() && kind == Kind::FuaByFlush;
            result = result.and(one);
        }
        for watch in self.watched {
            let written = watch.wait_written();
            mark = mark.max(written.mark);
            result = result.and(written.result);
        }
        let mut probe = self.probe;
        if needs_flush && result.is_ok() {
            result = self.queue.ensure_flushed(mark);
            probe.as_mut().into_iter().for_each(Probe::flush_of_its_own);
        }
        if let Some(probe) = probe {
            self.queue.observed(probe, before_last, result.is_ok());
        }
        Written { mark, result }
    }
}
