//! One client: its messages, its queues, its requests.
//!
//! - V1: requests of a queue are answered in their order (virtqueue-R3), each after it is complete.
//! - V2: before a queue stops, memory goes away or the connection ends, every submitted request is
//!   complete; what no longer can be answered is dropped, and the client may ask for it again.
//! - V3: in write-through mode a write is answered when it is durable; on the way into that mode
//!   the device is flushed, so that earlier answers are durable too. A guest that knows neither
//!   flush nor the choice of mode gets write-through. A client that comes back from another server
//!   has told its choice to that one, and need not repeat it: so it gets write-through, too, until
//!   it says otherwise. It is known by a queue that has answers when it first starts.
//! - V4: requests of a client wait while those under way have [`UNDER_WAY_BYTES`] of data. They
//!   are taken when some of these are answered, without another kick.
//! - V5: once the server ends, or the device has lost its power, what is taken is refused
//!   (served-S5), and a request that was refused for that reason gets no answer: the connection
//!   ends, and the next server does it, as after a kill.
//! - V6: a device that began blank with this server holds nothing that an earlier server answered.
//!   So a queue that has answers, or notes, from before is refused until this server has worked for
//!   a client that had none.
//! - V7: where no notes tell what is under way, a queue begins at its used index. A client that
//!   names another place knows of requests in between, of which nobody can say whether they are
//!   done; it is refused.

use super::blk::{self, Asked, Asking, feature};
use super::inflight::Inflight;
use super::memory::Memory;
use super::message::{Head, Message, REGIONS_MAX, Rings, Shape};
use super::server::Options;
use super::virtqueue::Ring;
use super::wire;
use crate::socket::Close;
use crate::{Command, Pending, Served};
use base::{Bytes, Time};
use blockdev::{DevError, DevErrorKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// Features that are no matter of the device.
const PROTOCOL_FEATURES: u64 = 1 << 30;
const INDIRECT_DESC: u64 = 1 << 28;
const EVENT_IDX: u64 = 1 << 29;
const VERSION_1: u64 = 1 << 32;

/// Features of the protocol: several queues, answers to every message, messages to the client (User
/// Mode Linux has no interrupt without them), the configuration space, notes of what is under way.
const PROTOCOL: u64 = 1 | REPLY_ACK | 1 << 5 | 1 << 9 | INFLIGHT;
const REPLY_ACK: u64 = 1 << 3;
const INFLIGHT: u64 = 1 << 12;

/// Bytes of data of a client's requests that are under way, beyond which no other is taken (V4).
const UNDER_WAY_BYTES: u64 = 64 << 20;

/// A client.
pub(super) struct Session<'a> {
    served: &'a Served,
    options: &'a Options,
    stream: UnixStream,
    features: u64,
    protocol: u64,
    write_back: bool,
    /// The client has chosen the mode in this session (V3).
    has_chosen: bool,
    /// This server has worked for a client that began with it (V6).
    knows: bool,
    /// A queue was refused because of V6.
    is_foreign: bool,
    memory: Option<Memory>,
    inflight: Option<Inflight>,
    queues: Vec<Queue>,
    /// Bytes of the requests that are under way (V4).
    under_way: u64,
    /// What goes with the next answer.
    to_send: Option<OwnedFd>,
    /// The way to the client is kept, because it takes its end for that of the device.
    _to_client: Option<OwnedFd>,
}

#[derive(Default)]
struct Queue {
    size: u32,
    rings: Option<Rings>,
    /// Where the client says that it begins (V7).
    base: Option<u32>,
    kick: Option<OwnedFd>,
    call: Option<OwnedFd>,
    enabled: bool,
    /// It has worked in this session.
    has_worked: bool,
    /// Works from the kick on until it is stopped.
    ring: Option<Ring>,
    asked: VecDeque<(Asking, Option<Pending>)>,
}

impl<'a> Session<'a> {
    /// `knows` says whether this server has worked for a client that began with it (V6).
    pub fn new(
        served: &'a Served,
        options: &'a Options,
        stream: UnixStream,
        knows: bool,
    ) -> Session<'a> {
        let queues = usize::from(options.queues.clamp(1, 16));
        Session {
            served,
            options,
            stream,
            features: 0,
            protocol: 0,
            write_back: true,
            has_chosen: false,
            knows,
            is_foreign: false,
            memory: None,
            inflight: None,
            queues: (0..queues).map(|_| Queue::default()).collect(),
            under_way: 0,
            to_send: None,
            _to_client: None,
        }
    }

    /// Serves the client to its end, and says why that came, and whether the server has worked for
    /// a client that began with it (V6).
    pub fn run(mut self) -> (Close, bool) {
        let why = loop {
            if let Err(why) = self.turn() {
                break why;
            }
        };
        // V2.
        for n in 0..self.queues.len() {
            self.drop_asked(n);
        }
        let worked = self.queues.iter().any(|queue| queue.has_worked);
        (why, self.knows || worked && !self.is_foreign)
    }

    /// Takes what the guest offers, answers what is complete, and waits for more.
    fn turn(&mut self) -> Result<(), Close> {
        let mut due = None;
        let mut left = false;
        for n in 0..self.queues.len() {
            left |= self.take(n)?;
        }
        for n in 0..self.queues.len() {
            let next = self.answer_due(n)?;
            due = [due, next].into_iter().flatten().min();
        }
        if left && self.has_room() {
            // V4: no kick tells of what was left.
            due = Some(rt::now());
        }
        if self.wait(due)? {
            let (head, payload, files) = wire::receive(&self.stream, self.served)?;
            self.handle(&head, &payload, files)?;
        }
        Ok(())
    }

    /// Waits for a message, which it tells, or for a kick, the time, or the end.
    fn wait(&self, due: Option<Time>) -> Result<bool, Close> {
        let end = self.served.end_fd();
        let mut fds = vec![
            PollFd::new(&self.stream, PollFlags::IN),
            PollFd::new(&end, PollFlags::IN),
        ];
        let working = self.queues.iter().filter(|queue| queue.works());
        let kicks: Vec<&OwnedFd> = working.filter_map(|queue| queue.kick.as_ref()).collect();
        fds.extend(kicks.iter().map(|kick| PollFd::new(*kick, PollFlags::IN)));
        let span = due.map(|due| due - rt::now());
        let span = span.map(|span| Timespec {
            tv_sec: (span.0 / 1_000_000_000) as i64,
            tv_nsec: (span.0 % 1_000_000_000) as i64,
        });
        match poll(&mut fds, span.as_ref()) {
            Err(Errno::INTR) => return Ok(false),
            Err(e) => return Err(Close::broken(format!("waiting for the client: {e}"))),
            Ok(_) if self.served.is_ended() => return Err(Close::ByServer),
            Ok(_) => {}
        }
        for (fd, kick) in fds[2..].iter().zip(kicks) {
            if fd.revents().contains(PollFlags::IN) {
                // A client may hand over what is no event: it would be ready for ever, and say
                // nothing.
                let read = rustix::io::read(kick, &mut [0u8; 8]);
                if !matches!(read, Ok(8) | Err(Errno::AGAIN | Errno::INTR)) {
                    return Err(Close::broken("a kick that is no event"));
                }
            } else if !fd.revents().is_empty() {
                return Err(Close::broken("a kick that cannot be waited for"));
            }
        }
        Ok(!fds[0].revents().is_empty())
    }

    /// True if another request may be taken (V4).
    fn has_room(&self) -> bool {
        self.under_way < UNDER_WAY_BYTES
    }

    /// Submits what the guest offers in a queue; true if something may be left for want of room.
    fn take(&mut self, n: usize) -> Result<bool, Close> {
        if !self.queues[n].enabled {
            return Ok(false);
        }
        // V4.
        while self.under_way < UNDER_WAY_BYTES {
            if !self.take_one(n)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Submits the next request of a queue; false if there is none.
    fn take_one(&mut self, n: usize) -> Result<bool, Close> {
        let write_through = self.writes_through();
        let (queue, Some(memory)) = (&mut self.queues[n], &self.memory) else {
            return Ok(false);
        };
        let Some(ring) = &mut queue.ring else {
            return Ok(false);
        };
        let Some(chain) = ring.take(memory)? else {
            return Ok(false);
        };
        let asking = Asking::parse(chain, memory, self.served, self.options, write_through)?;
        let pending = match &asking.asked {
            Asked::Run(command) => Some(self.served.submit(command.clone())),
            Asked::Answer(..) => None,
        };
        self.under_way += asking.bytes;
        queue.asked.push_back((asking, pending));
        Ok(true)
    }

    /// Answers what is due, in order (V1), and tells when the next one will be.
    fn answer_due(&mut self, n: usize) -> Result<Option<Time>, Close> {
        let mut answered = false;
        let mut next = None;
        while let Some((_, pending)) = self.queues[n].asked.front() {
            let due = pending.as_ref().and_then(|p| self.served.due(p));
            if due.is_some_and(|due| due > rt::now()) {
                next = due;
                break;
            }
            answered |= self.answer_first(n)?;
        }
        if answered {
            self.call(n)?;
        }
        Ok(next)
    }

    /// Waits for the first request of a queue and answers it.
    fn answer_first(&mut self, n: usize) -> Result<bool, Close> {
        let queue = &mut self.queues[n];
        let Some((asking, pending)) = queue.asked.pop_front() else {
            return Ok(false);
        };
        self.under_way -= asking.bytes;
        let outcome = pending.map(|pending| self.served.finish(pending));
        if matches!(&outcome, Some(Err(e)) if e.kind == DevErrorKind::PowerLost) {
            // V5.
            return Err(Close::ByServer);
        }
        let (data, status) = told(&asking.asked, outcome);
        let (Some(memory), Some(ring)) = (&self.memory, &mut queue.ring) else {
            return Ok(false);
        };
        let len = asking.answer(memory, &data, status)?;
        ring.answer(memory, asking.head, len)?;
        Ok(true)
    }

    fn call(&mut self, n: usize) -> Result<(), Close> {
        let queue = &mut self.queues[n];
        if let (Some(memory), Some(ring), Some(call)) = (&self.memory, &mut queue.ring, &queue.call)
            && ring.wants_call(memory)?
        {
            // A full counter is a call that was not taken yet.
            let _ = rustix::io::write(call, &1u64.to_ne_bytes());
        }
        Ok(())
    }

    /// Completes what a queue was asked for, and answers all of it.
    fn finish_asked(&mut self, n: usize) -> Result<(), Close> {
        let mut answered = false;
        while !self.queues[n].asked.is_empty() {
            answered |= self.answer_first(n)?;
        }
        match answered {
            true => self.call(n),
            false => Ok(()),
        }
    }

    /// Completes what a queue was asked for, and answers none of it (V2).
    fn drop_asked(&mut self, n: usize) {
        for (asking, pending) in self.queues[n].asked.drain(..) {
            self.under_way -= asking.bytes;
            if let Some(pending) = pending {
                // Nobody is there to be told.
                let _ = self.served.finish(pending);
            }
        }
    }

    fn writes_through(&self) -> bool {
        let chosen = self.features & feature::CONFIG_WCE != 0;
        let flushes = self.features & feature::FLUSH != 0;
        match chosen {
            true => !self.write_back,
            false => !flushes,
        }
    }

    /// Carries out a message and answers it.
    fn handle(&mut self, head: &Head, payload: &[u8], files: Vec<OwnedFd>) -> Result<(), Close> {
        let outcome =
            Message::parse(head, payload).and_then(|message| self.carry_out(head, message, files));
        let acks = self.protocol & REPLY_ACK != 0 && head.needs_reply();
        let answer = match &outcome {
            Ok(Some(answer)) => answer.clone(),
            Ok(None) if acks => head.answer_u64(0),
            Err(Close::Broken(_)) if acks => head.answer_u64(1),
            _ => Vec::new(),
        };
        wire::send(&self.stream, self.served, &answer, self.to_send.take())?;
        outcome.map(|_| ())
    }

    fn carry_out(
        &mut self,
        head: &Head,
        message: Message,
        mut files: Vec<OwnedFd>,
    ) -> Result<Option<Vec<u8>>, Close> {
        match message {
            Message::GetFeatures => {
                return Ok(Some(head.answer_u64(self.offered())));
            }
            Message::SetFeatures(features) => self.set_features(features)?,
            Message::SetOwner => {}
            Message::GetProtocolFeatures => return Ok(Some(head.answer_u64(PROTOCOL))),
            Message::SetProtocolFeatures(features) => self.protocol = features & PROTOCOL,
            Message::GetQueueNum => {
                return Ok(Some(head.answer_u64(self.queues.len() as u64)));
            }
            Message::SetMemTable(regions) => self.set_memory(regions, files)?,
            Message::SetVringNum(n, size) => self.queue(n)?.size = size,
            Message::SetVringAddr(n, rings) => self.queue(n)?.rings = Some(rings),
            Message::SetVringBase(n, base) => self.queue(n)?.base = Some(base),
            Message::GetVringBase(n) => return self.stop(head, n).map(Some),
            Message::SetVringKick(n, true) => {
                let kick = event(files)?;
                self.start(n, kick)?;
            }
            Message::SetVringKick(..) => {
                return Err(Close::broken("a queue without an event for its kicks"));
            }
            Message::SetVringCall(n, given) => {
                let call = given.then(|| event(files)).transpose()?;
                let queue = self.queue(n)?;
                queue.call = call;
                queue.tell_what_was();
            }
            // A queue that breaks ends the connection, which tells more.
            Message::SetVringErr(n, _) => self.queue(n).map(|_| ())?,
            Message::SetVringEnable(n, on) => self.queue(n)?.enabled = on,
            Message::SetBackendFd => self._to_client = files.pop(),
            Message::GetConfig(from, len) => {
                let config = blk::config(self.served, self.options, self.write_back);
                return Ok(Some(config_answer(head, from, &config[from..from + len])));
            }
            Message::SetConfig(from, bytes) => self.set_config(from, &bytes)?,
            Message::GetInflight(shape) => return self.make_inflight(head, shape).map(Some),
            Message::SetInflight(shape) => self.set_inflight(shape, files)?,
            Message::Unknown(request) => {
                return Err(Close::broken(format!(
                    "request {request}, which is unknown"
                )));
            }
        }
        Ok(None)
    }

    fn offered(&self) -> u64 {
        let own = PROTOCOL_FEATURES | INDIRECT_DESC | EVENT_IDX | VERSION_1;
        own | blk::features(self.served, self.options)
    }

    /// What the client has agreed on with an earlier server, this one may not know: it would take
    /// rings of one layout for those of another.
    fn set_features(&mut self, features: u64) -> Result<(), Close> {
        let unknown = features & !self.offered();
        if unknown != 0 {
            return Err(Close::broken(format!(
                "features {unknown:#x}, which were not offered"
            )));
        }
        self.features = features;
        Ok(())
    }

    fn queue(&mut self, n: usize) -> Result<&mut Queue, Close> {
        let all = self.queues.len();
        (self.queues.get_mut(n)).ok_or_else(|| Close::broken(format!("queue {n}; there are {all}")))
    }

    /// Makes memory for notes of what is under way, in the queues that start from now on.
    fn make_inflight(&mut self, head: &Head, asked: Shape) -> Result<Vec<u8>, Close> {
        self.may_note()?;
        let (inflight, shape, file) = Inflight::make(asked, self.queues.len())?;
        self.inflight = Some(inflight);
        self.to_send = Some(file);
        Ok(head.answer_shape(shape))
    }

    /// The same in memory that the client brings, with what an earlier server left there.
    fn set_inflight(&mut self, shape: Shape, mut files: Vec<OwnedFd>) -> Result<(), Close> {
        self.may_note()?;
        let (Some(file), true) = (files.pop(), files.is_empty()) else {
            return Err(Close::broken(
                "memory of what is under way without its file",
            ));
        };
        self.inflight = Some(Inflight::map(shape, file, self.queues.len())?);
        Ok(())
    }

    fn may_note(&self) -> Result<(), Close> {
        if self.protocol & INFLIGHT == 0 {
            return Err(Close::broken("notes of what is under way, not agreed upon"));
        }
        match self.queues.iter().any(|queue| queue.ring.is_some()) {
            true => Err(Close::broken(
                "notes of what is under way for queues that work",
            )),
            false => Ok(()),
        }
    }

    /// Replaces the memory; queues that work go on in the new one (V2).
    fn set_memory(
        &mut self,
        regions: Vec<super::message::Region>,
        files: Vec<OwnedFd>,
    ) -> Result<(), Close> {
        debug_assert!(regions.len() <= REGIONS_MAX);
        for n in 0..self.queues.len() {
            self.finish_asked(n)?;
        }
        let memory = Memory::map(regions, files)?;
        let events = self.features & EVENT_IDX != 0;
        for (n, queue) in self.queues.iter_mut().enumerate() {
            if queue.ring.is_some() {
                queue.ring = Some(queue.place(n, &memory, self.inflight.as_ref(), events)?);
            }
        }
        self.memory = Some(memory);
        Ok(())
    }

    fn start(&mut self, n: usize, kick: OwnedFd) -> Result<(), Close> {
        let negotiated = self.features & PROTOCOL_FEATURES != 0;
        self.queue(n)?;
        self.finish_asked(n)?;
        let Some(memory) = &self.memory else {
            return Err(Close::broken("a queue without memory"));
        };
        let events = self.features & EVENT_IDX != 0;
        let queue = &mut self.queues[n];
        let had_notes = match &self.inflight {
            Some(inflight) => inflight.notes(n)?.are_begun()?,
            None => false,
        };
        let ring = queue.place(n, memory, self.inflight.as_ref(), events)?;
        if let (None, Some(told)) = (&self.inflight, queue.base.take())
            && told != u32::from(ring.base())
        {
            // V7.
            let used = ring.base();
            return Err(Close::broken(format!(
                "queue {n} begins at {told}, but its used index is {used}, and no notes say what \
                 is done in between"
            )));
        }
        let is_first = !std::mem::replace(&mut queue.has_worked, true);
        let comes_back = is_first && ring.base() != 0;
        if self.options.blank && !self.knows && is_first && (comes_back || had_notes) {
            // V6.
            self.is_foreign = true;
            return Err(Close::broken(format!(
                "queue {n} was worked by a server before this one, whose device is gone: this one \
                 began blank; reset the guest"
            )));
        }
        if comes_back && !self.has_chosen {
            // V3.
            self.write_back = false;
        }
        queue.ring = Some(ring);
        queue.kick = Some(kick);
        queue.tell_what_was();
        // Without features of the protocol there is no message that enables.
        queue.enabled |= !negotiated;
        Ok(())
    }

    /// Stops a queue (V2) and tells its base, which says nothing of what is done again: that is
    /// done before.
    fn stop(&mut self, head: &Head, n: usize) -> Result<Vec<u8>, Close> {
        self.queue(n)?;
        self.finish_asked(n)?;
        // One at a time, so it needs no room that another queue may hold.
        while self.queues[n].ring.as_ref().is_some_and(Ring::is_behind) {
            self.take_one(n)?;
            self.finish_asked(n)?;
        }
        let queue = &mut self.queues[n];
        let base = queue.ring.take().map_or(0, |ring| ring.base());
        queue.kick = None;
        let mut payload = (n as u32).to_le_bytes().to_vec();
        payload.extend_from_slice(&u32::from(base).to_le_bytes());
        Ok(head.answer(&payload))
    }

    fn set_config(&mut self, from: usize, bytes: &[u8]) -> Result<(), Close> {
        let &[mode] = bytes else {
            return Err(Close::broken("a change of what is fixed"));
        };
        if from != blk::WCE_AT || mode > 1 || self.features & feature::CONFIG_WCE == 0 {
            return Err(Close::broken("a change of what is fixed"));
        }
        let write_back = mode == 1;
        if self.write_back && !write_back {
            // V3.
            for n in 0..self.queues.len() {
                self.finish_asked(n)?;
            }
            let flushed = self.served.run(Command::Flush);
            flushed.map_err(|e| Close::broken(e.to_string()))?;
        }
        self.write_back = write_back;
        self.has_chosen = true;
        Ok(())
    }
}

impl Queue {
    fn works(&self) -> bool {
        self.ring.is_some() && self.enabled
    }

    /// Finds queue number `n` in the memory.
    fn place(
        &self,
        n: usize,
        memory: &Memory,
        inflight: Option<&Inflight>,
        events: bool,
    ) -> Result<Ring, Close> {
        let rings = self.rings;
        let rings = rings.ok_or_else(|| Close::broken("a queue that is nowhere"))?;
        let notes = inflight.map(|inflight| inflight.notes(n)).transpose()?;
        Ring::new(self.size, rings, memory, events, notes)
    }

    /// Tells of answers that a server before this one may have left untold (inflight-I6).
    fn tell_what_was(&self) {
        if let (Some(_), Some(call)) = (&self.ring, &self.call) {
            // A full counter is a call that was not taken yet.
            let _ = rustix::io::write(call, &1u64.to_ne_bytes());
        }
    }
}

/// Data and status of an answer.
fn told(asked: &Asked, outcome: Option<Result<Vec<Bytes>, DevError>>) -> (Vec<Bytes>, u8) {
    match (asked, outcome) {
        (Asked::Answer(status, data), _) => (vec![data.clone()], *status),
        (_, Some(Ok(data))) => (data, blk::OK),
        (_, Some(Err(_)) | None) => (Vec::new(), blk::IOERR),
    }
}

/// The one event of a message. It never blocks: a client may hand over anything.
fn event(mut files: Vec<OwnedFd>) -> Result<OwnedFd, Close> {
    let (Some(event), true) = (files.pop(), files.is_empty()) else {
        return Err(Close::broken("an event that did not come alone"));
    };
    rustix::io::ioctl_fionbio(&event, true)
        .map_err(|e| Close::broken(format!("what is no event: {e}")))?;
    Ok(event)
}

/// A part of the configuration space, exactly as long as it was asked for.
fn config_answer(head: &Head, from: usize, bytes: &[u8]) -> Vec<u8> {
    let mut payload = (from as u32).to_le_bytes().to_vec();
    payload.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    payload.extend_from_slice(&0u32.to_le_bytes());
    payload.extend_from_slice(bytes);
    head.answer(&payload)
}
