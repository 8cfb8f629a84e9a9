//! Batches: writes that are submitted or held back, for which the caller has to wait.

use crate::Queue;
use crate::durability::WriteMark;
use crate::observe::Probe;
use crate::plug::{Write, send_all};
use blockdev::{DevError, DevErrorKind, Ticket};
use rt::{Mutex, MutexGuard};
use std::sync::Arc;

/// Submitted writes. Dropping it unwaited keeps the queue's cache marked dirty for good, so that no
/// flush is ever skipped on its account; still, wait for it.
///
/// A batch may also hold writes back ([`Plug::hold`](crate::Plug::hold)): then the first waiter
/// sends them, unless an ordered plug has taken them along before
/// ([`OrderPlug::lead`](crate::OrderPlug::lead)).
#[must_use = "somebody has to wait for these writes"]
pub struct Batch {
    queue: Arc<Queue>,
    /// Not sent yet.
    held: Vec<Write>,
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

/// The outcome of writes.
#[derive(Clone, Debug)]
#[must_use]
pub struct Written {
    /// A flush that covers this mark covers all of the writes; [`WriteMark::NONE`] if none went
    /// through the cache (hazards-H19).
    pub mark: WriteMark,
    /// The first failure among them.
    pub result: Result<(), DevError>,
}

/// A second handle on submitted writes: the first holder that waits waits for the device, the
/// others wait for the first.
#[derive(Clone)]
pub struct Watch(Arc<Mutex<Watched>>);

enum Watched {
    Pending(Batch),
    Done(Written),
}

/// Non-volatile writes that are held back, split off a batch, to be sent ahead of something else in
/// one command. Each may have been sent before that, by a task that could not wait.
#[must_use = "nobody else sends what nobody watches"]
pub struct Held {
    own: Batch,
    watched: Vec<Watch>,
    /// Their failure is not the failure of the rest: see [`Held::take_along`].
    passengers: Vec<Watch>,
}

impl Held {
    /// Blocks held back, without those that a waiter has sent since.
    pub fn blocks(&self) -> u64 {
        let own: u64 = self.own.held.iter().map(|w| w.sectors).sum();
        let watched = self.watched.iter().chain(&self.passengers);
        let watched = watched.map(|w| match &*w.0.lock() {
            Watched::Pending(batch) => batch.held.iter().map(|w| w.sectors).sum(),
            Watched::Done(_) => 0,
        });
        (own + watched.sum::<u64>()).div_ceil(base::SECTORS_PER_BLOCK)
    }

    /// Takes along the writes of `other`, which nothing depends on: if they fail, only those that
    /// wait for them learn of it.
    pub fn take_along(&mut self, other: Held) {
        self.own.held.extend(other.own.held);
        self.passengers.extend(other.watched);
        self.passengers.extend(other.passengers);
    }

    /// True if there is nothing to send, or to wait for.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.watched.is_empty() && self.passengers.is_empty()
    }

    /// Makes a batch again: the first waiter sends it. What was taken along is left to those that
    /// wait for it.
    pub fn into_batch(self) -> Batch {
        let mut batch = self.own;
        batch.watched.extend(self.watched);
        batch
    }

    /// Takes all of it to the device by `send`: holders of a [`Watch`] wait until that has ended,
    /// and get its outcome. If that fails, what was taken along goes alone, and `send` gets the
    /// rest once more: the same bytes for the same places.
    ///
    /// # Errors
    /// The error of `send`; or that of a part that had been sent before: then nothing is sent.
    pub(crate) fn carry(
        self,
        mut send: impl FnMut(Vec<Write>) -> Result<(), DevError>,
    ) -> Result<(), DevError> {
        let (carried, earlier) = pending(&self.watched);
        let mut writes = self.own.held.clone();
        writes.extend(carried.iter().flat_map(|state| state.held()));
        let result = earlier.and_then(|()| {
            let (passengers, _) = pending(&self.passengers);
            let mut all = writes.clone();
            all.extend(passengers.iter().flat_map(|state| state.held()));
            let result = send(all);
            let apart = !passengers.is_empty() && may_be_its_own(&result);
            for mut state in passengers {
                let own = match apart {
                    true => send_all(&self.own.queue, state.held()).wait(),
                    false => result.clone(),
                };
                state.done(own);
            }
            match apart {
                true => send(writes),
                false => result,
            }
        });
        for mut state in carried {
            state.done(result.clone());
        }
        result
    }
}

/// True for a failure of one write of many.
fn may_be_its_own(result: &Result<(), DevError>) -> bool {
    matches!(result, Err(e) if e.kind != DevErrorKind::PowerLost)
}

/// Those of `watched` that have not been sent yet, locked; and the first failure of the others.
fn pending(watched: &[Watch]) -> (Vec<MutexGuard<'_, Watched>>, Result<(), DevError>) {
    let (mut open, mut earlier) = (Vec::new(), Ok(()));
    for watch in watched {
        let state = watch.0.lock();
        match &*state {
            Watched::Pending(_) => open.push(state),
            Watched::Done(written) => earlier = earlier.and(written.result.clone()),
        }
    }
    (open, earlier)
}

impl Watched {
    /// The writes that are held back. They stay until their outcome is known, so that writes never
    /// sent are not taken for done.
    fn held(&self) -> Vec<Write> {
        match self {
            Watched::Pending(batch) => batch.held.clone(),
            Watched::Done(_) => Vec::new(),
        }
    }

    /// Non-volatile writes have ended.
    fn done(&mut self, result: Result<(), DevError>) {
        *self = Watched::Done(Written {
            mark: WriteMark::NONE,
            result,
        });
    }
}

impl Watch {
    /// Waits until the writes are complete.
    ///
    /// # Errors
    /// The first failure among them, equal for all holders.
    pub fn wait(&self) -> Result<(), DevError> {
        self.wait_written().result
    }

    /// True if both are of the same writes.
    pub fn is_of(&self, other: &Watch) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// As [`wait`](Self::wait); also answers what a flush has to cover.
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

/// What the completion of a write promises.
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
            held: Vec::new(),
            tickets: Vec::new(),
            watched: Vec::new(),
            volatile: false,
            probe: None,
        }
    }
    /// Writes that others wait for, too.
    pub(crate) fn of_watched(queue: Arc<Queue>, watched: Vec<Watch>) -> Batch {
        Batch {
            watched,
            ..Batch::new(queue)
        }
    }
    /// True if some of it may be volatile at completion.
    pub fn is_volatile(&self) -> bool {
        self.volatile
    }
    /// Makes a second handle to wait for the writes gathered so far: the batch may go to a journal
    /// transaction while the page cache has to know when its pages have been written.
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
    pub(crate) fn hold(&mut self, writes: Vec<Write>) {
        self.held = writes;
    }
    /// Splits off what is held back, so that it can go along with something else.
    pub fn split_held(&mut self) -> Held {
        let mut own = Batch::new(self.queue.clone());
        std::mem::swap(&mut own.held, &mut self.held);
        let held = |watch: &Watch| match &*watch.0.lock() {
            Watched::Pending(batch) => {
                !batch.held.is_empty() && batch.tickets.is_empty() && batch.watched.is_empty()
            }
            Watched::Done(_) => false,
        };
        let all = std::mem::take(&mut self.watched).into_iter();
        let (watched, others) = all.partition(held);
        self.watched = others;
        Held {
            own,
            watched,
            passengers: Vec::new(),
        }
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
    /// True if nothing was submitted, and nothing is held back.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.tickets.is_empty() && self.watched.is_empty()
    }
    /// Takes over the writes of `other`.
    pub fn merge(&mut self, other: Batch) {
        self.probe = None;
        self.volatile |= other.volatile;
        self.held.extend(other.held);
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
    /// As [`wait`](Self::wait); also answers what a flush has to cover.
    pub fn wait_written(self) -> Written {
        let mut mark = WriteMark::NONE;
        let mut result = Ok(());
        let late = (!self.held.is_empty()).then(|| send_all(&self.queue, self.held));
        let mut needs_flush = false;
        let mut before_last = rt::now();
        for sent in self.tickets {
            before_last = rt::now();
            let kind = sent.kind;
            let (one, covers) = self.queue.wait_write(sent, before_last);
            mark = mark.max(covers);
            needs_flush |= one.is_ok() && kind == Kind::FuaByFlush;
            result = result.and(one);
        }
        let watched = self.watched.iter().map(Watch::wait_written);
        for written in watched.chain(late.map(Batch::wait_written)) {
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
