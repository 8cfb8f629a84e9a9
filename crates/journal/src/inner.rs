//! The state that the handles and tasks of one journal share: its lock and condition variables, the
//! admission of handles, the loading of blocks.

use crate::adapt::{Adapt, Syncs};
use crate::buffer::{Checked, Look};
use crate::error::Failure;
use crate::fast::Area;
use crate::log_super::LogSuper;
use crate::space::{Admission, Limits};
use crate::state::State;
use crate::transaction::{Running, Shared};
use crate::{JournalError, LogPlace, Options};
use base::{BlockNo, BlockSize, Bytes, Tid};
use block::Queue;
use ondisk::jbd2::Format;
use rt::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The log below a journal.
pub(crate) struct Log {
    pub format: Format,
    pub limits: Limits,
    /// Where fast commits go, if the scheme has any.
    pub area: Option<Area>,
    /// Of the device that the log lies on: that of the homes, or another one.
    pub queue: Arc<Queue>,
    pub place: LogPlace,
    pub superblock: Mutex<LogSuper>,
}

/// The state that handles and tasks share (see the head of this file).
pub(crate) struct Inner {
    /// Of the device of homes.
    pub queue: Arc<Queue>,
    pub options: Options,
    /// Size of all blocks.
    pub block_size: BlockSize,
    /// `None`: preset none.
    pub log: Option<Log>,
    /// track-D2.
    pub full_first: bool,
    pub state: Mutex<State>,
    /// Wakes the commit task.
    pub work: Condvar,
    /// Wakes the write-back task (only at the end).
    pub writeback: Condvar,
    /// A transaction changed its state, or the tail moved.
    pub progress: Condvar,
    /// A load or a home write ended.
    pub buffers: Condvar,
    /// The cost model of `order=adaptive`. Locked for a moment, under no other lock.
    pub adapt: Option<Mutex<Adapt>>,
    /// What the cost model has to know of all fsyncs that are under way.
    pub syncs: Syncs,
    /// Held by the task that writes home. Home writes of one block must not overtake each other.
    pub home: Mutex<()>,
    /// A handle was dropped in the middle of its work (hazards-H21). `Drop` may not lock.
    pub dropped: AtomicBool,
    #[cfg(test)]
    pub plan: Option<&'static [crate::Step]>,
}

impl Inner {
    /// Locks the state; an error if the journal is aborted.
    pub fn lock(&self) -> Result<MutexGuard<'_, State>, JournalError> {
        let mut state = self.state.lock();
        self.check(&mut state)?;
        Ok(state)
    }

    /// As [`lock`](Self::lock), for a handle: also books the time waited for the lock, and charges
    /// the hand-over if it had to wait.
    pub fn lock_for_handle(&self) -> Result<MutexGuard<'_, State>, JournalError> {
        let mut state = self.lock_booked();
        self.check(&mut state)?;
        Ok(state)
    }

    fn lock_booked(&self) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Some(state) => state,
            None => {
                let start = rt::now();
                let mut state = self.state.lock();
                rt::charge(base::cost::sync::LOCK_HANDOVER);
                state.stats.booked(rt::now() - start);
                state
            }
        }
    }

    /// The abort latch. Every wait loop calls it.
    pub fn check(&self, state: &mut State) -> Result<(), JournalError> {
        if state.failure.is_none() {
            if !rt::powered() {
                let why = "the power is gone".into();
                let failure = Failure {
                    why,
                    power_lost: true,
                };
                self.latch(state, failure);
            } else if self.dropped.load(Ordering::SeqCst) {
                let why = "a handle was dropped before it was finished: half an operation must not be committed";
                let failure = Failure {
                    why: why.into(),
                    power_lost: false,
                };
                self.latch(state, failure);
            }
        }
        state.check()
    }

    /// Waits on one of the condition variables; also ends at a power cut, which the next
    /// [`check`](Inner::check) sees.
    pub fn sleep(&self, on: &Condvar, state: &mut MutexGuard<'_, State>) {
        // The error of the wait is ignored: the latch reports the same.
        let _ = on.wait_powered(state);
    }

    /// Keeps the first failure and wakes all waiters.
    pub fn latch(&self, state: &mut State, failure: Failure) {
        if state.failure.is_none() {
            state.failure = Some(Arc::new(failure));
        }
        self.work.notify_all();
        self.writeback.notify_all();
        self.progress.notify_all();
        self.buffers.notify_all();
    }

    /// Latches an error and gives it back.
    pub fn fail(&self, error: JournalError, during: &str) -> JournalError {
        let mut state = self.state.lock();
        self.latch(&mut state, error.to_failure(during));
        error
    }

    /// Asks the commit task for `tid`.
    pub fn request(&self, state: &mut State, tid: Tid) {
        if state.requested.is_none_or(|r| tid.gt(r)) {
            state.requested = Some(tid);
            self.work.notify_all();
        }
    }

    /// Waits for progress and books the time.
    pub fn wait_progress(&self, state: &mut MutexGuard<'_, State>, cause: &'static str) {
        let start = rt::now();
        self.sleep(&self.progress, state);
        state.stats.waited(cause, rt::now() - start);
    }

    /// Joins the running transaction with `credits`, or starts one. Waits for a locked transaction
    /// and for log space; the caller holds no page and no allocator lock.
    pub fn start(&self, credits: u32) -> Result<(Tid, Arc<Shared>), JournalError> {
        let mut state = self.lock_for_handle()?;
        let begun = rt::now();
        rt::charge(base::cost::journal::HANDLE_START);
        state.stats.booked(rt::now() - begun);
        loop {
            self.check(&mut state)?;
            if state.stopping {
                return Err(JournalError::misuse("the journal is being stopped"));
            }
            let Some(log) = &self.log else {
                return Ok((state.next_tid, Arc::default()));
            };
            if state.running.as_ref().is_some_and(|r| r.locked) {
                self.wait_progress(&mut state, "transaction-locked");
                continue;
            }
            match self.admit(&mut state, log, credits) {
                Admission::Granted => return Ok(join(&mut state, credits)),
                Admission::NeverFits => {
                    return Err(JournalError::misuse(format!(
                        "{credits} credits never fit a transaction of this log, at most {} do",
                        log.limits.credits_max()
                    )));
                }
                Admission::TransactionFull => {
                    let tid = state.running.as_ref().expect("a full transaction runs").tid;
                    self.request(&mut state, tid);
                    self.wait_progress(&mut state, "transaction-full");
                }
                Admission::LogFull if self.can_free(&mut state) => {
                    let start = rt::now();
                    drop(state);
                    self.make_room(log)?;
                    state = self.lock()?;
                    state.stats.waited("log-space", rt::now() - start);
                }
                Admission::LogFull => {
                    if let Some(tid) = state.running.as_ref().map(|r| r.tid) {
                        self.request(&mut state, tid);
                    }
                    self.wait_progress(&mut state, "log-space");
                }
            }
        }
    }

    /// Whether `credits` more fit the running transaction now.
    pub fn admit(&self, state: &mut State, log: &Log, credits: u32) -> Admission {
        let free = state.ring().free();
        let (images, revokes) = match &state.running {
            Some(r) => (r.images(), r.revokes.len() as u32),
            None => (0, 0),
        };
        log.limits.admit(images, revokes, credits, free)
    }

    /// True if a checkpoint would move the tail.
    fn can_free(&self, state: &mut State) -> bool {
        let candidate = state.tail_candidate().1;
        state.checkpoints.oldest().is_some() || candidate > state.ring().tail()
    }

    /// Locks the state with the content of `block` in the cache.
    pub fn load(&self, block: BlockNo) -> Result<(MutexGuard<'_, State>, Bytes), JournalError> {
        self.load_if(block, |_| false)
    }

    /// The content of `block`, for reading only. Unlike [`load`](Self::load) it also works after
    /// the journal has ended, because memory still has the last known content; but not without
    /// power.
    pub fn look(&self, block: BlockNo) -> Result<Bytes, JournalError> {
        let ended = |e: &JournalError| !e.is_power_lost();
        self.load_if(block, ended).map(|(_, bytes)| bytes)
    }

    /// As [`look`](Self::look), with what the content was checked as.
    pub fn look_checked(&self, block: BlockNo) -> Result<(Bytes, Option<Checked>), JournalError> {
        let ended = |e: &JournalError| !e.is_power_lost();
        let (state, bytes) = self.load_if(block, ended)?;
        Ok((bytes, state.cache.checked(block)))
    }

    fn load_if(
        &self,
        block: BlockNo,
        passes: impl Fn(&JournalError) -> bool,
    ) -> Result<(MutexGuard<'_, State>, Bytes), JournalError> {
        let mut state = self.lock_booked();
        loop {
            match self.check(&mut state) {
                Err(e) if !passes(&e) => return Err(e),
                _ => {}
            }
            match state.cache.look(block) {
                Look::Hit(bytes) => return Ok((state, bytes)),
                Look::Loading => self.sleep(&self.buffers, &mut state),
                Look::Load(ticket) => {
                    drop(state);
                    let size = self.block_size;
                    let read = self.queue.read(size.lba(block), size.sectors());
                    state = self.state.lock();
                    state
                        .cache
                        .loaded(block, ticket, read.as_ref().ok().cloned());
                    self.buffers.notify_all();
                    if let Err(e) = read {
                        return Err(self.read_failed(&mut state, e.into()));
                    }
                }
            }
        }
    }

    /// A failed read is reported to the caller and does not end the journal, unless the device has
    /// no power.
    fn read_failed(&self, state: &mut State, error: JournalError) -> JournalError {
        if error.is_power_lost() {
            self.latch(state, error.to_failure("read of metadata"));
        }
        error
    }

    /// Loads a run of blocks that are not cached, with one request.
    pub fn load_run(&self, first: BlockNo, count: u64) -> Result<(), JournalError> {
        let mut tickets = Vec::new();
        {
            let mut state = self.lock()?;
            for n in 0..count {
                match state.cache.look(first.plus(n)) {
                    Look::Load(ticket) => tickets.push(Some(ticket)),
                    _ => tickets.push(None),
                }
            }
        }
        let size = self.block_size;
        let read = self.queue.read(size.lba(first), size.sectors_of(count));
        let mut state = self.state.lock();
        for (n, ticket) in tickets.into_iter().enumerate() {
            let Some(ticket) = ticket else { continue };
            let at = n * size.bytes();
            // A copy, so that one cached block does not keep the whole run in memory.
            let cut = |b: &Bytes| Bytes::copy_from_slice(&b[at..at + size.bytes()]);
            let bytes = read.as_ref().ok().map(cut);
            state.cache.loaded(first.plus(n as u64), ticket, bytes);
        }
        self.buffers.notify_all();
        match read {
            Ok(_) => Ok(()),
            Err(e) => Err(self.read_failed(&mut state, e.into())),
        }
    }
}

fn join(state: &mut State, credits: u32) -> (Tid, Arc<Shared>) {
    if state.running.is_none() {
        let tid = state.next_tid;
        state.next_tid = tid.next();
        state.running = Some(Running::new(tid, rt::now()));
    }
    let running = state.running.as_ref().expect("made above");
    running.shared.join(credits);
    (running.tid, running.shared.clone())
}
