//! One commit: a job runs through the steps of its plan.
//!
//! - K1: ordered data is complete before the device flush starts, and that flush is complete before the commit record is sent
//!   (F1, H19). So a durable commit record never vouches for data or log blocks that are not durable.
//! - K2: the superblock names the log's beginning, durably, before a commit record is sent.
//! - K3: log blocks are free when they are taken: the tail on the medium is behind them (ring R2).
//!
//! What a cut leaves: before the commit record is durable recovery finds no commit block and ends the log one
//! transaction earlier; afterwards it finds all of it. There is no third state, because the record is one block and is sent last.

mod compose;
mod plan;

pub use plan::{Action, Phase, Step, Wait, plan_of};

use crate::inner::{Inner, Log};
use crate::ring::LogPos;
use crate::transaction::Image;
use crate::{JournalError, Record};
use base::{BlockNo, Tid};
use block::{Batch, WriteMark};
pub(crate) use compose::Composed;
use std::collections::BTreeSet;

/// The transaction that is being committed.
pub(crate) struct Job<'a> {
    inner: &'a Inner,
    log: &'a Log,
    pub tid: Tid,
    pub start: LogPos,
    /// Log blocks, the commit record included.
    pub blocks: u32,
    pub images: Vec<Image>,
    pub revokes: Vec<BlockNo>,
    pub forgotten: BTreeSet<BlockNo>,
    ordered: Option<Batch>,
    composed: Option<Composed>,
    /// Where the tail may go once the device has flushed what completed before the mark.
    tail: Option<(Tid, LogPos, WriteMark)>,
}

/// The parts of a transaction that its handles made.
pub(crate) struct Parts {
    pub images: Vec<Image>,
    pub revokes: Vec<BlockNo>,
    pub forgotten: BTreeSet<BlockNo>,
    pub ordered: Option<Batch>,
}

impl<'a> Job<'a> {
    /// A job for transaction `tid`, whose `blocks` log blocks begin at `start`.
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
        } = parts;
        let tail = None;
        Job {
            inner,
            log,
            tid,
            start,
            blocks,
            images,
            revokes,
            forgotten,
            ordered,
            composed: None,
            tail,
        }
    }

    /// Runs the plan.
    pub fn run(&mut self) -> Result<(), JournalError> {
        let result = self.run_steps();
        // After a failure somebody still has to wait for the data.
        if let Some(batch) = self.ordered.take() {
            let _ = batch.wait();
        }
        result
    }

    fn run_steps(&mut self) -> Result<(), JournalError> {
        let mut open: Option<Batch> = None;
        for step in self.plan() {
            let begin = rt::now();
            self.enter(step)?;
            if let Some(batch) = self.act(step.action)? {
                match &mut open {
                    Some(all) => all.merge(batch),
                    None => open = Some(batch),
                }
            }
            if step.wait == Wait::Complete
                && let Some(batch) = open.take()
            {
                batch.wait()?;
            }
            self.leave(step, rt::now() - begin);
        }
        open.map_or(Ok(()), |batch| Ok(batch.wait()?))
    }

    fn plan(&self) -> &'static [Step] {
        #[cfg(test)]
        if let Some(plan) = self.inner.plan {
            return plan;
        }
        let scheme = self.inner.options.scheme;
        plan_of(&scheme.expect("only journals with a log commit"))
    }

    fn enter(&self, step: &Step) -> Result<(), JournalError> {
        let mut state = self.inner.lock()?;
        if let Some(committing) = &mut state.committing {
            committing.phase = step.phase;
        }
        Ok(())
    }

    fn leave(&self, step: &Step, span: base::Nanos) {
        let mut state = self.inner.state.lock();
        *state.stats.steps.entry(step.name).or_default() += span;
    }

    /// Starts the work of a step; what it returns has to be waited for.
    fn act(&mut self, action: Action) -> Result<Option<Batch>, JournalError> {
        match action {
            Action::OrderedData => return Ok(self.ordered.take()),
            Action::LogStart => self.log_start()?,
            Action::Compose => self.compose(),
            Action::LogBody => return Ok(Some(self.write_body(false))),
            Action::CommitRecord => return Ok(Some(self.write_record())),
            Action::LogWhole => return Ok(Some(self.write_whole())),
            Action::LogInOrder => {
                self.write_body(true).wait()?;
                return Ok(Some(self.write_record()));
            }
            Action::Flush => self.flush()?,
            Action::Tail => self.move_tail()?,
        }
        Ok(None)
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
        if !superblock.sb.is_clean() && !superblock.features_dirty {
            return Ok(());
        }
        // Whoever moves the tail holds the superblock, so this is the tail on the medium.
        let ((tid, at), clean) = {
            let mut state = self.inner.lock()?;
            let tail = state.ring().tail();
            let block = state.ring().block(tail);
            ((superblock.sb.sequence(), block), superblock.sb.is_clean())
        };
        let tid = if clean { self.tid } else { tid };
        superblock.write(&self.inner.queue, tid, Some(at))
    }

    /// The log blocks, composed once; gives back the ring blocks that they do not need (K3).
    fn compose(&mut self) {
        if self.composed.is_some() {
            return;
        }
        #[cfg(test)]
        let escaping = !self.inner.broken(crate::inner::Fault::NoEscape);
        #[cfg(not(test))]
        let escaping = true;
        let composed = self.encode(escaping);
        let used = composed.blocks.len() as u32;
        let mut state = self.inner.state.lock();
        state.ring().give_back(self.start, self.blocks, used);
        state.stats.composed(&composed);
        // Whoever waits for log space may have enough now.
        self.inner.progress.notify_all();
        drop(state);
        self.blocks = used;
        self.composed = Some(composed);
    }

    fn encode(&mut self, escaping: bool) -> Composed {
        let scheme = self.inner.options.scheme;
        match scheme.expect("only journals with a log commit").record {
            Record::Full => {
                let format = &self.log.format;
                compose::full(format, self.tid, &self.images, &self.revokes, escaping)
            }
            Record::Coalition { commit_block } => {
                let how = compose::Coalition {
                    format: &self.log.format,
                    tid: self.tid,
                    commit_block,
                    full_first: self.inner.full_first,
                    escaping,
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
        let mut plug = self.inner.queue.plug();
        for (n, (class, bytes)) in blocks {
            if !which(n, record) {
                continue;
            }
            let lba = self.home_of(n as u32).lba();
            match fua {
                true => plug.write_fua(lba, class, bytes),
                false => plug.write(lba, class, bytes),
            }
        }
        plug.submit()
    }

    fn write_body(&mut self, fua: bool) -> Batch {
        self.write(fua, |n, record| n != record)
    }

    fn write_record(&mut self) -> Batch {
        self.write(true, |n, record| n == record)
    }

    fn write_whole(&mut self) -> Batch {
        self.write(true, |_, _| true)
    }

    /// Home of the `n`-th log block of this transaction.
    fn home_of(&self, n: u32) -> BlockNo {
        let at = LogPos(self.start.0 + u64::from(n));
        let mut state = self.inner.state.lock();
        self.log.place.block(state.ring().block(at))
    }

    /// K1.
    fn flush(&mut self) -> Result<(), JournalError> {
        self.tail = self.tail_worth_moving()?;
        if !self.inner.queue.cache_dirty() {
            self.inner.state.lock().stats.flushes_skipped += 1;
            return Ok(());
        }
        Ok(self.inner.queue.ensure_flushed(self.inner.queue.mark())?)
    }

    fn tail_worth_moving(&self) -> Result<Option<(Tid, LogPos, WriteMark)>, JournalError> {
        let mut state = self.inner.lock()?;
        let (tid, to) = state.tail_candidate();
        let freed = to.0 - state.ring().tail().0;
        drop(state);
        let worth = freed >= u64::from(self.log.limits.transaction_max);
        // Taken after the candidate: what it vouches for completed before this mark.
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
        superblock.write(&self.inner.queue, tid, Some(block))?;
        self.inner.release_log(to);
        Ok(())
    }
}
