//! The queue in front of one device: submits commands, and knows by marks which completed writes
//! are durable.

use crate::batch::{Batch, Held, Kind, Sent, Watch};
use crate::command::Command;
use crate::durability::{Durability, WriteMark};
use crate::elevator::{Elevator, How};
use crate::flushing::{Flushing, UnderWay};
use crate::observe::{Observer, Probe, Sample, Work};
use crate::order_plug::{OrderPlug, send};
use crate::plug::{Plug, Write};
use crate::scheduler::background_max;
use crate::split::{Part, split};
use crate::stats::QueueStats;
use base::{BlockSize, Bytes, Lba, SECTORS_PER_BLOCK, Time};
use blockdev::{
    BlockDevice, Caps, Class, DevError, Op, PackedWrite, Remap, Remapped, Reply, Request,
    Scheduler, Ticket,
};
use rt::{Condvar, Mutex};
use std::io;
use std::sync::Arc;

/// Reads, or discards, at the device at once: the depth of an eMMC command queue.
const DEPTH: usize = 32;

/// The queue of one device. All requests of a file system and its journal pass through it.
pub struct Queue {
    device: Arc<dyn BlockDevice>,
    /// `None`: every request goes to the device at once.
    elevator: Option<Elevator>,
    background_max: usize,
    caps: Caps,
    state: Mutex<State>,
    flush_ended: Condvar,
}

#[derive(Default)]
struct State {
    durability: Durability,
    stats: QueueStats,
    observer: Observer,
}

impl State {
    fn begin(&mut self, request: &Request, kind: Kind) {
        self.stats.add(request);
        if kind != Kind::Durable {
            self.durability.submitted(1);
        }
    }
}

impl Queue {
    /// A queue in front of `device`, without a scheduler.
    pub fn new(device: Arc<dyn BlockDevice>) -> Arc<Queue> {
        Queue::behind(None, device, Scheduler::None)
    }

    /// A queue in front of `device`, which takes `depth` commands of the scheduler's at once.
    ///
    /// # Errors
    /// The host starts no thread for one of these commands.
    pub fn scheduled(
        device: Arc<dyn BlockDevice>,
        scheduler: Scheduler,
        depth: usize,
    ) -> io::Result<Arc<Queue>> {
        let elevator = Elevator::start(&device, scheduler, depth)?;
        Ok(Queue::behind(elevator, device, scheduler))
    }

    fn behind(
        elevator: Option<Elevator>,
        device: Arc<dyn BlockDevice>,
        scheduler: Scheduler,
    ) -> Arc<Queue> {
        let caps = device.caps();
        let state = Mutex::named("block queue", State::default());
        Arc::new(Queue {
            elevator,
            background_max: background_max(scheduler),
            device,
            caps,
            state,
            flush_ended: Condvar::new(),
        })
    }

    /// Requests of write-back that a task may have on the way at once: one without a scheduler,
    /// as nothing lets a sync pass what has been sent.
    pub fn background_max(&self) -> usize {
        self.background_max
    }

    fn submit(&self, request: Request, how: How) -> Ticket {
        match &self.elevator {
            None => self.device.submit(request),
            Some(elevator) => elevator.submit(request, how),
        }
    }

    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        match &self.elevator {
            None => self.device.wait(ticket),
            Some(elevator) => elevator.wait(ticket),
        }
    }

    /// The promises of the device.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Reads `sectors` sectors.
    ///
    /// # Errors
    /// What the device says.
    pub fn read(&self, lba: Lba, sectors: u64) -> Result<Bytes, DevError> {
        let request = Request::read(lba, sectors);
        self.state.lock().stats.add(&request);
        Ok(self.wait(self.submit(request, How::Awaited))?.into_bytes())
    }

    /// Reads `count` whole blocks of this size, one answer per block. Where the device answers in
    /// whole blocks nothing is copied, so keeping one block may keep others in memory.
    ///
    /// # Errors
    /// What the device says.
    pub fn read_blocks(
        &self,
        lba: Lba,
        count: u64,
        size: BlockSize,
    ) -> Result<Vec<Bytes>, DevError> {
        self.read_split(lba, count, size, |piece, part| piece.slice(part))
    }

    /// As [`read_blocks`](Self::read_blocks), but each block has memory of its own, so that keeping
    /// one keeps no other: blocks are copied where the device does not answer that way.
    ///
    /// # Errors
    /// What the device says.
    pub fn read_apart(
        &self,
        lba: Lba,
        count: u64,
        size: BlockSize,
    ) -> Result<Vec<Bytes>, DevError> {
        let copy: Part = |piece, part| Bytes::copy_from_slice(&piece[part]);
        self.read_split(lba, count, size, copy)
    }

    fn read_split(
        &self,
        lba: Lba,
        count: u64,
        size: BlockSize,
        part: Part,
    ) -> Result<Vec<Bytes>, DevError> {
        let request = Request::read(lba, size.sectors_of(count));
        self.state.lock().stats.add(&request);
        let reply = self.wait(self.submit(request, How::Awaited))?;
        Ok(split(reply, size, part))
    }

    /// Reads many runs of (first sector, sectors) with up to 32 commands at the device. One answer
    /// per run, in their order.
    pub fn read_many(&self, runs: &[(Lba, u64)]) -> Vec<Result<Bytes, DevError>> {
        let mut answers = Vec::with_capacity(runs.len());
        for chunk in runs.chunks(DEPTH) {
            let send = |&(lba, sectors): &(Lba, u64)| {
                let request = Request::read(lba, sectors);
                self.state.lock().stats.add(&request);
                self.submit(request, How::Awaited)
            };
            let tickets: Vec<_> = chunk.iter().map(send).collect();
            let wait = |ticket| self.wait(ticket).map(|r| r.into_bytes());
            answers.extend(tickets.into_iter().map(wait));
        }
        answers
    }

    /// Writes and waits; the data may sit in the device cache afterwards.
    ///
    /// # Errors
    /// What the device says.
    pub fn write(self: &Arc<Self>, lba: Lba, class: Class, bytes: Bytes) -> Result<(), DevError> {
        self.write_one(Write::new(lba, class, bytes, false))
    }

    /// Writes and waits; the data is non-volatile afterwards. Without FUA in the device a flush
    /// follows the write.
    ///
    /// # Errors
    /// What the device says.
    pub fn write_fua(
        self: &Arc<Self>,
        lba: Lba,
        class: Class,
        bytes: Bytes,
    ) -> Result<(), DevError> {
        self.write_one(Write::new(lba, class, bytes, true))
    }

    fn write_one(self: &Arc<Self>, write: Write) -> Result<(), DevError> {
        send(self, [Command::Single(write)]).wait()
    }

    /// Starts to gather writes.
    pub fn plug(self: &Arc<Self>) -> Plug {
        Plug::new(self.clone())
    }

    /// Starts to gather groups of non-volatile writes whose order a power cut respects.
    pub fn order_plug(self: &Arc<Self>) -> OrderPlug {
        OrderPlug::new(self.clone())
    }

    /// Writes that others wait for, too, as one batch.
    pub fn watched(self: &Arc<Self>, watched: Vec<Watch>) -> Batch {
        Batch::of_watched(self.clone(), watched)
    }

    /// An empty held batch, to which writes can be added that ride along.
    pub fn held(self: &Arc<Self>) -> Held {
        Batch::new(self.clone()).split_held()
    }

    /// Discards sectors; a no-op on a device that cannot. A discard is volatile like a cached
    /// write: the answer is the mark that a flush has to cover before anything may vouch for it
    /// (hazards-H19).
    ///
    /// # Errors
    /// What the device says.
    pub fn discard(&self, lba: Lba, sectors: u64) -> Result<WriteMark, DevError> {
        let mut answers = self.discard_many(&[(lba, sectors)]);
        answers.pop().expect("one answer for one run")
    }

    /// Discards many runs of (first sector, sectors), as [`discard`](Self::discard) does with one,
    /// with up to 32 commands at the device. One answer for each run, in their order.
    pub fn discard_many(&self, runs: &[(Lba, u64)]) -> Vec<Result<WriteMark, DevError>> {
        if !self.caps.discard {
            return vec![Ok(WriteMark::NONE); runs.len()];
        }
        let mut answers = Vec::with_capacity(runs.len());
        for chunk in runs.chunks(DEPTH) {
            let send = |&(lba, sectors): &(Lba, u64)| {
                let request = Request::discard(lba, sectors);
                self.begin(&request, Kind::Cached);
                Sent {
                    ticket: self.submit(request, How::AtOnce),
                    kind: Kind::Cached,
                    sectors: 0,
                }
            };
            let sent: Vec<Sent> = chunk.iter().map(send).collect();
            let wait = |sent| {
                let (result, mark) = self.wait_write(sent, Time::default());
                result.map(|()| mark)
            };
            answers.extend(sent.into_iter().map(wait));
        }
        answers
    }

    /// Points homes at other pages, all of them or none, and waits. Like a cached write it is
    /// volatile at completion (remap-S3) and goes into the marks: the answer is the mark that a
    /// flush has to cover before anything may vouch for the homes.
    ///
    /// # Errors
    /// What the device says: then no home has changed.
    pub fn remap(&self, remap: Remap) -> Result<(Remapped, WriteMark), DevError> {
        let kind = self.kind_of(remap.fua);
        let remap = Remap {
            fua: kind == Kind::Durable && remap.fua,
            ..remap
        };
        let request = Request::remap(remap);
        {
            let mut state = self.state.lock();
            state.begin(&request, kind);
            state.observer.submitted(None);
        }
        let ticket = self.submit(request, How::AtOnce);
        let result = self.wait(ticket);
        let mark = {
            let mut state = self.state.lock();
            // Beside a REMAP nothing is measured.
            state.observer.completed(0, Time::default(), result.is_ok());
            match kind {
                Kind::Durable => WriteMark::NONE,
                // A REMAP puts no block into the cache.
                Kind::Cached | Kind::FuaByFlush => state.durability.completed(0),
            }
        };
        let reply = result?;
        if kind == Kind::FuaByFlush {
            self.ensure_flushed(mark)?;
        }
        Ok((reply.remapped.unwrap_or_default(), mark))
    }

    /// Sends a flush and waits for it. Without a volatile cache there is nothing to send.
    ///
    /// # Errors
    /// What the device says.
    pub fn flush(&self) -> Result<(), DevError> {
        let under_way = self.begin_flush();
        self.end_flush(under_way)
    }

    /// Sends a flush and does not wait for it. It covers what had completed by now (hazards-H17),
    /// and others may join it.
    pub fn start_flush(self: &Arc<Self>) -> Flushing {
        Flushing {
            queue: self.clone(),
            under_way: self.begin_flush(),
        }
    }

    fn begin_flush(&self) -> UnderWay {
        let request = Request::flush();
        let (start, probe) = {
            let mut state = self.state.lock();
            let mut probe = None;
            if self.caps.volatile_cache {
                let dirty = state.durability.dirty_sectors();
                probe = state
                    .observer
                    .begin(Work::Flush, 1, dirty.div_ceil(SECTORS_PER_BLOCK));
                state.observer.submitted(None);
                state.stats.add(&request);
            }
            // Numbered before the device sees it: what completes in between is not counted as
            // covered.
            (state.durability.flush_started(), probe)
        };
        let ticket = self
            .caps
            .volatile_cache
            .then(|| self.submit(request, How::AtOnce));
        UnderWay {
            ticket,
            start,
            probe,
        }
    }

    pub(crate) fn end_flush(&self, flush: UnderWay) -> Result<(), DevError> {
        let since = rt::now();
        let result = match flush.ticket {
            Some(ticket) => self.wait(ticket).map(|_| ()),
            None => Ok(()),
        };
        let result = {
            let mut state = self.state.lock();
            if flush.ticket.is_some() {
                state.observer.completed(0, since, result.is_ok());
            }
            if let Some(probe) = flush.probe {
                state.observer.end(probe, since, result.is_ok());
            }
            state.durability.flush_ended(flush.start, result)
        };
        self.flush_ended.notify_all();
        result
    }

    /// The cached writes whose completion has been seen so far.
    pub fn mark(&self) -> WriteMark {
        self.state.lock().durability.mark()
    }

    /// True if a flush that started after `mark` was taken has completed (or the device has no
    /// volatile cache).
    pub fn is_flushed(&self, mark: WriteMark) -> bool {
        !self.caps.volatile_cache || self.state.lock().durability.is_durable(mark)
    }

    /// True if a flush is under way that started after `mark` was taken: [`Queue::ensure_flushed`]
    /// would join it.
    pub fn is_flushing(&self, mark: WriteMark) -> bool {
        self.state.lock().durability.is_flushing(mark)
    }

    /// True if a flush would have something to do, as far as the host knows.
    pub fn cache_dirty(&self) -> bool {
        self.caps.volatile_cache && self.state.lock().durability.cache_dirty()
    }

    /// 4 KiB blocks written through the cache that no flush has covered, as far as the host knows:
    /// an upper bound of what the cache holds, for it may have evicted some.
    pub fn dirty_blocks(&self) -> u64 {
        let sectors = self.state.lock().durability.dirty_sectors();
        sectors.div_ceil(SECTORS_PER_BLOCK)
    }

    /// Begins or ends taking samples of what commands cost.
    pub fn observe(&self, on: bool) {
        self.state.lock().observer.switch(on);
    }

    /// The samples taken since the last call, oldest first; the newest 64 at most.
    pub fn take_samples(&self) -> Vec<Sample> {
        self.state.lock().observer.take()
    }

    /// Returns once a flush that started after `mark` has completed: one that has, one that is
    /// under way, or its own (hazards-H17).
    ///
    /// # Errors
    /// What the device says of the caller's own flush.
    pub fn ensure_flushed(&self, mark: WriteMark) -> Result<(), DevError> {
        if !self.caps.volatile_cache {
            return Ok(());
        }
        let mut state = self.state.lock();
        while !state.durability.is_durable(mark) {
            if !state.durability.is_flushing(mark) {
                drop(state);
                return self.flush();
            }
            self.flush_ended.wait(&mut state);
        }
        state.stats.flushes_joined += 1;
        Ok(())
    }

    /// The figures so far.
    pub fn stats(&self) -> QueueStats {
        self.state.lock().stats.clone()
    }

    pub(crate) fn count_merges(&self, merges: u64) {
        self.state.lock().stats.merges += merges;
    }

    /// Sends a write. `among` several non-volatile ones it goes through the cache where FUA would
    /// flush for each of them; the waiter flushes for all.
    pub(crate) fn send_write(&self, write: Write, among: bool) -> Sent {
        let one_flush = write.fua && among && self.caps.fua_flushes && self.caps.volatile_cache;
        let kind = match one_flush {
            true => Kind::FuaByFlush,
            false => self.kind_of(write.fua),
        };
        let fua = write.fua && self.caps.fua && !one_flush;
        let how = match (write.fua, write.background) {
            (true, _) => How::AtOnce,
            (false, true) => How::Background,
            (false, false) => How::Awaited,
        };
        let sectors = write.sectors;
        let request = Request {
            op: Op::Write {
                lba: write.lba,
                pieces: write.pieces,
                fua,
            },
        };
        self.begin(&request, kind);
        let ticket = self.submit(request, how);
        Sent {
            ticket,
            kind,
            sectors,
        }
    }

    /// Sends writes as one packed command. All of them are non-volatile at completion.
    pub(crate) fn send_pack(&self, writes: Vec<Write>) -> Sent {
        let sectors = writes.iter().map(|w| w.sectors).sum();
        let entry = |write: Write| PackedWrite {
            lba: write.lba,
            fua: write.fua && self.caps.fua,
            pieces: write.pieces,
        };
        let request = Request::pack(writes.into_iter().map(entry).collect());
        let kind = Kind::Durable;
        self.begin(&request, kind);
        let ticket = self.submit(request, How::AtOnce);
        Sent {
            ticket,
            kind,
            sectors,
        }
    }

    /// What the completion of a write means on this device.
    pub(crate) fn kind_of(&self, fua: bool) -> Kind {
        match (fua, self.caps.fua, self.caps.volatile_cache) {
            (_, _, false) | (true, true, true) => Kind::Durable,
            (true, false, true) => Kind::FuaByFlush,
            (false, _, true) => Kind::Cached,
        }
    }

    /// Waits for one command; also answers the mark that covers it. `since` is when the
    /// wait began, if the command is measured.
    pub(crate) fn wait_write(&self, sent: Sent, since: Time) -> (Result<(), DevError>, WriteMark) {
        let result = self.wait(sent.ticket).map(|_| ());
        let mut state = self.state.lock();
        let blocks = sent.sectors.div_ceil(SECTORS_PER_BLOCK);
        state.observer.completed(blocks, since, result.is_ok());
        let mark = match sent.kind {
            Kind::Durable => WriteMark::NONE,
            Kind::Cached | Kind::FuaByFlush => state.durability.completed(sent.sectors),
        };
        (result, mark)
    }

    fn begin(&self, request: &Request, kind: Kind) {
        let mut state = self.state.lock();
        state.begin(request, kind);
        state.observer.submitted(Some(kind));
    }

    /// Begins to measure commands that are about to be sent together, if all of them are of one
    /// kind.
    pub(crate) fn probe_commands(&self, commands: &[Command]) -> Option<Probe> {
        let writes = || commands.iter().flat_map(Command::writes);
        let fua = writes().next()?.fua;
        if writes().any(|w| w.fua != fua) {
            return None;
        }
        let state = self.state.lock();
        let work = match self.kind_of(fua) {
            // One flush is sent behind several of them (`send_write`).
            Kind::Durable if self.caps.fua_flushes && commands.len() > 1 => Work::Fua,
            // The observer measures these by itself, whoever sent them.
            Kind::Durable => return None,
            Kind::FuaByFlush => Work::Fua,
            Kind::Cached => Work::Cached,
        };
        let sectors: u64 = writes().map(|w| w.sectors).sum();
        let blocks = sectors.div_ceil(SECTORS_PER_BLOCK);
        state.observer.begin(work, commands.len() as u64, blocks)
    }

    pub(crate) fn observed(&self, probe: Probe, waiting_since: Time, ok: bool) {
        let mut state = self.state.lock();
        state.observer.end(probe, waiting_since, ok);
    }
}
