//! One commit: a job runs through the steps of its plan.
//!
//! - K1: a durable commit record never vouches for data or log blocks that are not durable: see F1
//!   and F2.
//! - K2: the superblock names the log's beginning, durably, before a commit record is sent.
//! - K3: log blocks are free when they are taken: the tail on the medium has passed what they held
//!   (ring-R2).
//!
//! The rules of the flush-ahead commit (eMMC paper, IV.B), which hold for every plan:
//!
//! - F1: the flush starts after every ordered write of the transaction that is not held back (F7),
//!   and every log block sent through the cache before it, has completed (hazards-H16), and it has
//!   ended before the record is sent.
//! - F2: each of those completions raised the mark `vouched`; the record is sent only when that
//!   mark is flushed. So a flush is skipped only if the data went out with FUA or another flush has
//!   covered it (hazards-H19). Cached writes force no flush if neither the commit vouches for them
//!   nor a caller of fsync asked for them.
//! - F3: the transaction takes no new handle once its data is waited for, so F2's mark cannot rise
//!   after the flush.
//! - F4: log blocks that are sent without a flush between them and the record are non-volatile at
//!   completion, each is sent once, and where order is what protects them the record is last
//!   (hazards-H20).
//! - F5: a commit is acknowledged when every step is complete. If a device reports failed entries
//!   of a pack, the host driver retries them; a failure that reaches this code aborts the journal
//!   with the step's reason, after everything in flight has been waited for.
//! - F6: body and record are in flight together only where checksums in the record say that the
//!   transaction is complete, or in one pack of a device that keeps a prefix of it. Elsewhere, also
//!   where a cut may keep any subset of a pack, the record waits until the body is non-volatile
//!   (hazards-H20).
//! - F7: ordered data that was held back (`adaptive`) goes in the ordered plug of the log blocks,
//!   in a group before all of them, with FUA. A device that keeps a prefix of a pack gets one
//!   command, if it takes as much; any other device gets the log when the data is non-volatile
//!   (order_plug-O1). So no cut shows a record without the data before it (hazards-H24). Held data
//!   that a task could not wait for any longer has been sent earlier; if that write failed, the
//!   commit fails before its record is sent (order_plug-O4). A plan that does not send its log by
//!   an ordered plug has the data sent and waited for first. Held data that overwrites in place is
//!   not ordered data: it rides along in such a plug, and its failure does not fail the commit.
//!
//! What a cut leaves: until the record is on the medium recovery finds an incomplete transaction
//! and ends the log before it; from then on recovery finds all of it. There is no third state.

mod compose;
mod flight;
mod plan;

use plan::fast_plan_of;
pub(crate) use plan::self_committing;
pub use plan::{Action, Ending, Phase, Step, Wait, ending_of, plan_of};

use crate::devices::{Device, Marks};
use crate::inner::{Inner, Log};
use crate::ring::LogPos;
use crate::transaction::Image;
use crate::{FastBug, JournalError, LogBlock, Order, Record, Scheme};
use base::{BlockNo, Lba, Mutant, Tid};
use block::{Batch, Held, Queue, WriteMark};
#[cfg(test)]
pub(crate) use compose::{Coalition, coalition};
pub(crate) use compose::{CommitTime, Composed, delta_bytes, full_transaction};
use flight::{InFlight, Started};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The transaction that is being committed.
pub(crate) struct Job<'a> {
    inner: &'a Inner,
    log: &'a Log,
    pub tid: Tid,
    pub start: LogPos,
    /// Log blocks, the commit record included.
    pub blocks: u32,
    /// Where a fast commit lies, instead of in the ring.
    area: Option<LogBlock>,
    pub images: Vec<Image>,
    pub revokes: Vec<BlockNo>,
    pub forgotten: BTreeSet<BlockNo>,
    ordered: Option<Batch>,
    /// Data that may ride along with the ordered data that goes ahead.
    led: Option<Batch>,
    /// Ordered data that goes ahead of the log blocks, in their command where that is safe (F7).
    leading: Option<Held>,
    composed: Option<Composed>,
    /// Where the tail may go once the device has flushed what completed before the mark.
    tail: Option<(Tid, LogPos, WriteMark)>,
    flight: InFlight,
    /// Marks that have to be flushed before the record is sent (F2), by device.
    vouched: Marks,
    /// False once a deliberate mistake was made: then F2 need not hold.
    guarded: bool,
    /// The ending that an adaptive plan chose.
    ending: Option<Ending>,
    flushed: bool,
}

/// The parts of a transaction that its handles made.
#[derive(Default)]
pub(crate) struct Parts {
    pub images: Vec<Image>,
    pub revokes: Vec<BlockNo>,
    pub forgotten: BTreeSet<BlockNo>,
    pub ordered: Option<Batch>,
    pub led: Option<Batch>,
}

impl<'a> Job<'a> {
    /// A job for transaction `tid`, which has `blocks` log blocks from `start` on.
    pub fn new(
        inner: &'a Inner,
        log: &'a Log,
        tid: Tid,
        (start, blocks): (LogPos, u32),
        parts: Parts,
    ) -> Job<'a> {
        let Parts {
            images,
            revokes,
            forgotten,
            ordered,
            led,
        } = parts;
        Job {
            inner,
            log,
            tid,
            start,
            blocks,
            area: None,
            images,
            revokes,
            forgotten,
            ordered,
            led,
            leading: None,
            composed: None,
            tail: None,
            flight: InFlight::default(),
            vouched: Marks::default(),
            guarded: true,
            ending: None,
            flushed: false,
        }
    }

    /// A fast commit of transaction `tid`, composed already, from block `first` of its area on. Of
    /// the parts only the data counts.
    pub fn fast(
        inner: &'a Inner,
        log: &'a Log,
        tid: Tid,
        (first, composed): (LogBlock, Composed),
        parts: Parts,
    ) -> Job<'a> {
        let mut job = Job::new(inner, log, tid, (LogPos::default(), 0), parts);
        job.area = Some(first);
        job.composed = Some(composed);
        job
    }

    /// Runs the plan.
    pub fn run(&mut self) -> Result<(), JournalError> {
        let result = self.run_plan();
        // F5: also after a failure everything in flight is waited for, including ordered data that
        // no step reached.
        let leading = self.leading.take().map(Held::into_batch);
        for batch in self.ordered.take().into_iter().chain(leading) {
            self.flight
                .push("data", Started::Writes(Device::Home, batch));
        }
        result.and(self.land())?;
        if self.area.is_some() {
            return Ok(());
        }
        let mut state = self.inner.state.lock();
        *state.stats.plans.entry(self.plan_name()).or_default() += 1;
        Ok(())
    }

    fn plan_name(&self) -> &'static str {
        match (self.scheme().order, self.ending) {
            (Order::FlushEnd, _) | (_, Some(Ending::End)) => "flush-end",
            (Order::Adaptive, _) if !self.flushed => "direct",
            (Order::FlushAhead | Order::Adaptive, _) => "flush-ahead",
        }
    }

    fn run_plan(&mut self) -> Result<(), JournalError> {
        let mut rest = self.plan();
        while let [step, after @ ..] = rest {
            rest = after;
            let begin = rt::now();
            self.enter(step)?;
            match step.action {
                Action::Choose => rest = self.choose(),
                action => self.act(step, action)?,
            }
            self.book(step.name, rt::now() - begin);
            if step.wait == Wait::Complete {
                self.land()?;
            }
        }
        Ok(())
    }

    fn scheme(&self) -> Scheme {
        let scheme = self.inner.options.scheme;
        scheme.expect("only journals with a log commit")
    }

    fn plan(&mut self) -> &'static [Step] {
        #[cfg(test)]
        if let Some(plan) = self.inner.plan.filter(|_| self.area.is_none()) {
            self.guarded = false;
            return plan;
        }
        match self.area {
            Some(_) => fast_plan_of(&self.scheme()),
            None => plan_of(&self.scheme()),
        }
    }

    /// F3. Enters the state that this step begins. A transaction that is committed fast still runs,
    /// and its data was taken from it (fast-W3).
    fn enter(&self, step: &Step) -> Result<(), JournalError> {
        if self.area.is_some() {
            return self.inner.lock().map(drop);
        }
        let mut state = self.inner.lock()?;
        let committing = state.committing.as_mut();
        let committing = committing.expect("F3: the transaction has left the reach of handles");
        assert_eq!(
            committing.tid, self.tid,
            "F3: one transaction commits at a time"
        );
        committing.phase = step.phase;
        Ok(())
    }

    fn book(&self, step: &'static str, span: base::Nanos) {
        let mut state = self.inner.state.lock();
        *state.stats.steps.entry(step).or_default() += span;
    }

    /// Waits for everything on its way; its writes raise the mark (F2).
    fn land(&mut self) -> Result<(), JournalError> {
        let landed = self.flight.land();
        self.vouched.join(landed.marks);
        for (step, span) in landed.spans {
            self.book(step, span);
        }
        landed.result
    }

    /// Starts the work of a step.
    fn act(&mut self, step: &Step, action: Action) -> Result<(), JournalError> {
        match action {
            Action::OrderedData => self.ordered_data(step)?,
            Action::LogStart => self.log_start()?,
            Action::Compose => self.compose(),
            Action::LogBody => {
                let body = self.write(false, |n, record| n != record);
                self.flight
                    .push(step.name, Started::Writes(Device::Log, body));
            }
            Action::CommitRecord => self.write_record(step),
            Action::LogWhole => self.write_whole(step)?,
            Action::LogInOrder => self.write_in_order()?,
            Action::Flush => self.flush(step)?,
            Action::Choose => unreachable!("the loop chooses"),
            Action::Tail => self.move_tail()?,
        }
        Ok(())
    }

    /// F1: from here on the runner waits for it before the next arrow.
    fn ordered_data(&mut self, step: &Step) -> Result<(), JournalError> {
        let mut ordered = self.ordered.take();
        if self.guarded && self.scheme().order == Order::Adaptive {
            self.leading = self.hold(ordered.as_mut());
        }
        let Some(batch) = ordered else {
            return Ok(());
        };
        if batch.is_volatile() && rt::mutant(Mutant::FlushBeforeData) {
            // hazards-H16 unguarded: the flush covers whatever has completed by chance, and the
            // mark of the data is lost.
            self.guarded = false;
            self.inner.queue.flush()?;
            return Ok(batch.wait()?);
        }
        self.flight
            .push(step.name, Started::Writes(Device::Home, batch));
        Ok(())
    }

    /// F7: takes the data that goes ahead of the log blocks, and the data that rides along with it.
    fn hold(&mut self, ordered: Option<&mut Batch>) -> Option<Held> {
        let led = self.led.take().map(|mut led| led.split_held());
        let held = match (ordered.map(Batch::split_held), led) {
            (None, None) => return None,
            (Some(held), None) => held,
            (ordered, Some(led)) => {
                let mut held = ordered.unwrap_or_else(|| self.inner.queue.held());
                held.take_along(led);
                held
            }
        };
        Some(held).filter(|held| !held.is_empty())
    }

    /// K2.
    fn log_start(&mut self) -> Result<(), JournalError> {
        let mut superblock = self.log.superblock.lock();
        let scheme = self.inner.options.scheme;
        if scheme.is_some_and(|s| s.is_coalition()) {
            superblock.set_coalition_feature();
        } else if !self.revokes.is_empty() {
            superblock.set_revoke_feature();
        }
        // home_remap-X7, hazards-R1.
        if self.inner.moves() && !rt::mutant(Mutant::RemapMoveUnmarked) {
            superblock.set_move_feature();
        }
        if !superblock.sb.is_clean() && !superblock.features_dirty {
            return Ok(());
        }
        // Moving the tail requires the lock of the superblock, so this is the tail on the medium.
        let ((tid, at), clean) = {
            let mut state = self.inner.lock()?;
            let tail = state.ring().tail();
            let block = state.ring().block(tail);
            ((superblock.sb.sequence(), block), superblock.sb.is_clean())
        };
        if let Some(area) = self.log.area.filter(|_| clean && !self.keeps_area()) {
            // fast-W11.
            area.clear(&self.log.queue, &superblock)?;
        }
        let tid = if clean { self.tid } else { tid };
        superblock.write(&self.log.queue, tid, Some(at))
    }

    /// The mistake of [`FastBug::NoClear`].
    fn keeps_area(&self) -> bool {
        let scheme = self.inner.options.scheme;
        scheme.is_some_and(|s| s.writes_with(FastBug::NoClear)) || rt::mutant(Mutant::FastNoClear)
    }

    /// The log blocks, composed once; gives back the ring blocks that they do not need (K3).
    fn compose(&mut self) {
        if self.composed.is_some() {
            return;
        }
        let time = {
            let mut state = self.inner.state.lock();
            state.commit_time = compose::commit_time(state.commit_time);
            state.commit_time
        };
        let composed = self.encode(time);
        let used = composed.blocks.len() as u32;
        let mut state = self.inner.state.lock();
        state.ring().give_back(self.start, self.blocks, used);
        state.stats.composed(&composed);
        // A task that waits for log space may have enough now.
        self.inner.progress.notify_all();
        drop(state);
        self.blocks = used;
        self.composed = Some(composed);
    }

    fn encode(&mut self, time: CommitTime) -> Composed {
        let scheme = self.inner.options.scheme;
        match scheme.expect("only journals with a log commit").record {
            Record::Full | Record::Fast => {
                let format = &self.log.format;
                let moved = self.inner.moves();
                let named = (self.tid, time);
                compose::full(format, named, &self.images, &self.revokes, moved)
            }
            Record::Coalition { commit_block } => {
                let how = compose::Coalition {
                    format: &self.log.format,
                    tid: self.tid,
                    time,
                    commit_block,
                    full_first: self.inner.full_first,
                };
                compose::coalition(&how, &mut self.images, &self.revokes)
            }
        }
    }

    fn composed(&mut self) -> &Composed {
        self.compose();
        self.composed.as_ref().expect("composed above")
    }

    /// Writes the log blocks that `which` names by (their number, number of the record).
    fn write(&mut self, fua: bool, which: impl Fn(usize, usize) -> bool) -> Batch {
        let composed = self.composed();
        let record = composed.record;
        let blocks: Vec<_> = composed.blocks.iter().cloned().enumerate().collect();
        let mut plug = self.log.queue.plug();
        for (n, (class, bytes)) in blocks {
            if !which(n, record) {
                continue;
            }
            let lba = self.home_of(n as u32);
            match fua {
                true => plug.write_fua(lba, class, bytes),
                false => plug.write(lba, class, bytes),
            }
        }
        rt::charge_each(base::cost::journal::SEND_BLOCK, plug.len() as u64);
        plug.submit()
    }

    /// K1, F2: nothing that the record vouches for is volatile any more.
    fn check_vouched(&self) {
        assert!(
            !self.guarded || self.is_flushed(WriteMark::NONE),
            "F2: the record of transaction {} would vouch for what is not flushed",
            self.tid
        );
        assert!(
            !self.flight.has_writes(),
            "F1: a record is sent when all that it vouches for has completed"
        );
    }

    fn write_record(&mut self, step: &Step) {
        self.check_vouched();
        assert!(
            self.leading.is_none(),
            "F7: data that was held back is sent before a record that does not take it along"
        );
        let record = self.write(true, |n, record| n == record);
        self.flight
            .push(step.name, Started::Writes(Device::Log, record));
    }

    fn write_whole(&mut self, step: &Step) -> Result<(), JournalError> {
        self.check_vouched();
        let commits_itself = self.composed().commits_itself;
        assert!(
            !self.guarded || commits_itself,
            "F6: this record does not say whether the body is complete"
        );
        if self.leading.is_some() {
            return self.send_in_order(None);
        }
        let whole = self.write(true, |_, _| true);
        self.flight
            .push(step.name, Started::Writes(Device::Log, whole));
        Ok(())
    }

    /// F4, hazards-H20: one pack where a cut keeps a prefix of it; otherwise the record follows
    /// when the body is non-volatile.
    fn write_in_order(&mut self) -> Result<(), JournalError> {
        self.check_vouched();
        let composed = self.composed();
        assert_eq!(
            composed.record + 1,
            composed.blocks.len(),
            "F4: the record is last"
        );
        let record = composed.record;
        self.send_in_order(Some(record))
    }

    /// F7: adds the held data, then the log blocks, with a border before number `last` if there is
    /// one.
    fn send_in_order(&mut self, last: Option<usize>) -> Result<(), JournalError> {
        let blocks = self.composed().blocks.clone();
        let sent = blocks.len() as u64;
        let mut plug = self.log.queue.order_plug();
        if let Some(held) = self.leading.take() {
            plug.lead(held);
        }
        for (n, (class, bytes)) in blocks.into_iter().enumerate() {
            if Some(n) == last {
                plug.barrier();
            }
            plug.write_fua(self.home_of(n as u32), class, bytes);
        }
        rt::charge_each(base::cost::journal::SEND_BLOCK, sent);
        Ok(plug.finish()?)
    }

    /// First sector of the `n`-th log block of this transaction.
    fn home_of(&self, n: u32) -> Lba {
        if let Some(first) = self.area {
            return self.log.place.lba(LogBlock(first.0 + n));
        }
        let at = LogPos(self.start.0 + u64::from(n));
        let mut state = self.inner.state.lock();
        self.log.place.lba(state.ring().block(at))
    }

    /// Where the log holds the plain images, by number of the image.
    pub fn sources(&self) -> Vec<Option<LogPos>> {
        let plain = self.composed.iter().flat_map(|c| &c.plain);
        plain
            .map(|at| at.map(|at| LogPos(self.start.0 + u64::from(at))))
            .collect()
    }

    /// The rest of a plan whose ending depends on what was composed: by the cost model of an
    /// adaptive scheme, where either ending is safe, as F2 holds for both; otherwise by the scheme.
    fn choose(&mut self) -> &'static [Step] {
        let ending = match self.scheme().order {
            Order::Adaptive => self.cheaper(),
            Order::FlushAhead => Ending::Ahead,
            Order::FlushEnd => Ending::End,
        };
        self.ending = Some(ending);
        ending_of(&self.scheme(), ending, self.composed().commits_itself)
    }

    /// The ending that the cost model finds cheaper.
    fn cheaper(&mut self) -> Ending {
        let blocks = self.composed().blocks.len() as u64;
        let queue = &self.inner.queue;
        let asked = self.inner.state.lock().asked;
        let flush = !self.is_flushed(asked);
        let adapt = self.inner.adapt.as_ref();
        // The task that sends held data may keep it locked for as long as the write takes.
        let leading = self.leading.as_ref().map_or(0, Held::blocks);
        let mut adapt = adapt.expect("adaptive schemes have a model").lock();
        adapt.observe(&queue.take_samples());
        let (ending, why) = adapt.log((blocks, leading), flush, queue.dirty_blocks());
        drop(adapt);
        if ending == Ending::End
            && let Some(held) = self.leading.take()
        {
            // F7: this ending takes nothing along.
            let batch = held.into_batch();
            self.flight
                .push("data", Started::Writes(Device::Home, batch));
        }
        let word = match ending {
            Ending::Ahead => "log-ahead",
            Ending::End => "log-end",
        };
        self.inner.state.lock().stats.chose(word, why.word());
        ending
    }

    /// F1, F2. The flush also covers callers of fsync that asked in time.
    fn flush(&mut self, step: &Step) -> Result<(), JournalError> {
        assert!(
            self.ordered.is_none() && !self.flight.has_writes(),
            "F1: the flush starts when the data of the transaction has completed"
        );
        self.tail = self.tail_worth_moving()?;
        let asked = self.inner.lock()?.asked;
        if self.is_flushed(asked) && self.area.is_some() && self.scheme().order == Order::FlushEnd {
            // The last block of a fast commit of Linux always asks for a flush (REQ_PREFLUSH).
            let flushing = self.inner.queue.start_flush();
            self.flight.push(step.name, Started::Flush(flushing));
            return Ok(());
        }
        if self.is_flushed(asked) {
            self.inner.state.lock().stats.flushes_skipped += 1;
            return Ok(());
        }
        if !self.is_flushed(WriteMark::NONE) && rt::mutant(Mutant::SkipFlush) {
            self.guarded = false;
            return Ok(());
        }
        for (queue, wanted) in self.to_flush(asked) {
            if queue.is_flushed(wanted) || self.forgets(&queue) {
                continue;
            }
            let started = match queue.is_flushing(wanted) {
                true => Started::Joined(queue, wanted),
                false => Started::Flush(queue.start_flush()),
            };
            self.flight.push(step.name, started);
            self.flushed = true;
        }
        Ok(())
    }

    /// What the record vouches for and what callers have asked for, by the queue that has to flush
    /// it: one where log and homes are on one device (devices-L1).
    fn to_flush(&self, asked: WriteMark) -> Vec<(Arc<Queue>, WriteMark)> {
        let Marks { home, log } = self.vouched;
        let home = home.max(asked);
        let of_homes = self.inner.queue.clone();
        match self.log.place.is_external() {
            false => vec![(of_homes, home.max(log))],
            true => vec![(of_homes, home), (self.log.queue.clone(), log)],
        }
    }

    /// True if none of these writes is volatile any more.
    fn is_flushed(&self, asked: WriteMark) -> bool {
        let wanted = self.to_flush(asked);
        wanted.iter().all(|(queue, mark)| queue.is_flushed(*mark))
    }

    /// devices-L2 unguarded: one of two devices is not flushed.
    fn forgets(&mut self, queue: &Arc<Queue>) -> bool {
        let of_log = Arc::ptr_eq(queue, &self.log.queue);
        let forgets = self.log.place.is_external()
            && match of_log {
                true => rt::mutant(Mutant::LogDeviceUnflushed),
                false => rt::mutant(Mutant::HomeDeviceUnflushed),
            };
        self.guarded &= !forgets;
        forgets
    }

    fn tail_worth_moving(&self) -> Result<Option<(Tid, LogPos, WriteMark)>, JournalError> {
        let mut state = self.inner.lock()?;
        let (tid, to) = state.tail_candidate();
        let freed = to.0 - state.ring().tail().0;
        drop(state);
        let worth = freed >= u64::from(self.log.limits.transaction_max);
        // The mark is taken after the candidate: the writes that the candidate relies on completed
        // before this mark.
        Ok(worth.then(|| (tid, to, self.inner.queue.mark())))
    }

    fn move_tail(&mut self) -> Result<(), JournalError> {
        let Some((tid, to, mark)) = self.tail.take() else {
            return Ok(());
        };
        let mut superblock = self.log.superblock.lock();
        let block = {
            let mut state = self.inner.lock()?;
            if to <= state.ring().tail() || !self.inner.queue.is_flushed(mark) {
                return Ok(());
            }
            state.ring().block(to)
        };
        superblock.write(&self.log.queue, tid, Some(block))?;
        self.inner.release_log(tid, to);
        Ok(())
    }
}
