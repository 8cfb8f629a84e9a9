//! The journal as the file system sees it: handles, commits, fsync, checkpoints, abort.

use crate::adapt::{Adapt, Syncing, Syncs};
use crate::buffer::{Cache, Checked, Tracking};
use crate::commit::self_committing;
use crate::error::Failure;
use crate::fast::FastState;
use crate::inner::{Inner, Log};
use crate::logged_data::LoggedData;
use crate::ring::Ring;
use crate::state::State;
use crate::{DataNeed, Handle, JournalError, Options, Order, Scheme, Stats, tasks};
use base::{BlockNo, Bytes, Mutant, Tid};
use block::{Batch, Queue, WriteMark};
use rt::{Condvar, JoinHandle, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest run that [`Journal::read_ahead`] reads with one request, blocks.
const READ_AHEAD_RUN: u64 = 32;

/// A running journal. Ends through [`Journal::stop`]; one that is merely dropped is a crash, and
/// its tasks stay behind.
pub struct Journal {
    pub(crate) inner: Arc<Inner>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// The cost model, if the scheme asks for one.
fn adaptive(queue: &Queue, options: &Options) -> Option<Mutex<Adapt>> {
    let scheme = options.scheme.filter(|s| s.order == Order::Adaptive)?;
    queue.observe(true);
    let adapt = Adapt::new(queue.caps(), self_committing(&scheme));
    Some(Mutex::named("journal cost model", adapt))
}

impl Journal {
    /// A journal whose handles have no log below them: changed metadata stays in the cache until
    /// [`Journal::sync_home`], write-back, or the end.
    ///
    /// # Errors
    /// [`JournalError::NoThread`].
    pub fn without_log(queue: Arc<Queue>, options: Options) -> Result<Arc<Journal>, JournalError> {
        Journal::run(Journal::inner(queue, None, None, Tid(1), options))
    }

    pub(crate) fn inner(
        queue: Arc<Queue>,
        log: Option<Log>,
        ring: Option<Ring>,
        next_tid: Tid,
        options: Options,
    ) -> Inner {
        // Without a log every transaction number that is ever given out counts as committed.
        let committed = if log.is_some() {
            next_tid.prev()
        } else {
            next_tid
        };
        let scheme = options.scheme.filter(|_| log.is_some());
        let full_first = scheme.is_some_and(|s| s.full_first_applies(queue.caps()))
            && !rt::mutant(Mutant::NoFullFirst);
        let tracking = match scheme.is_some_and(|s| s.is_coalition()) {
            true => Tracking::On { full_first },
            false => Tracking::Off,
        };
        let state = State {
            cache: Cache::new(options.cache_blocks, tracking),
            running: None,
            committing: None,
            checkpoints: Default::default(),
            home_mark: None,
            done: Default::default(),
            ring,
            next_tid,
            committed,
            commit_time: (0, 0),
            requested: None,
            turn: false,
            task_waits: false,
            logged_data: LoggedData::default(),
            asked: WriteMark::NONE,
            fast: FastState::default(),
            failure: None,
            stopping: false,
            stopped: false,
            stats: Stats::default(),
        };
        let adapt = adaptive(&queue, &options);
        let of_log = log.as_ref().map(|log| log.place.block_size());
        let block_size = of_log.unwrap_or(options.block_size);
        Inner {
            queue,
            adapt,
            syncs: Syncs::default(),
            #[cfg(test)]
            plan: None,
            options,
            block_size,
            log,
            full_first,
            state: Mutex::named("journal", state),
            work: Condvar::new(),
            writeback: Condvar::new(),
            progress: Condvar::new(),
            buffers: Condvar::new(),
            home: Mutex::named("journal home writes", ()),
            dropped: AtomicBool::new(false),
        }
    }

    /// Starts the tasks. Where the host has no thread for one of them, those that have started end,
    /// so that a mount which is refused leaves nothing behind.
    pub(crate) fn run(inner: Inner) -> Result<Arc<Journal>, JournalError> {
        let journal = Journal {
            inner: Arc::new(inner),
            tasks: Mutex::named("journal tasks", Vec::new()),
        };
        let started = journal.start_tasks();
        if started.is_err() {
            journal.discard();
        }
        started.map(|()| Arc::new(journal))
    }

    fn start_tasks(&self) -> Result<(), JournalError> {
        if self.inner.log.is_some() {
            let inner = self.inner.clone();
            self.start_task("jbd2", move || tasks::commit_task(&inner))?;
        }
        if let Some(expire) = self.inner.options.writeback_expire {
            let inner = self.inner.clone();
            self.start_task("writeback", move || tasks::writeback_task(&inner, expire))?;
        }
        Ok(())
    }

    fn start_task(
        &self,
        task: &'static str,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), JournalError> {
        let started = rt::try_spawn(task, body).map_err(|e| JournalError::NoThread {
            task,
            why: e.to_string(),
        })?;
        self.tasks.lock().push(started);
        Ok(())
    }

    /// The scheme; `None`: no journal.
    pub fn scheme(&self) -> Option<Scheme> {
        self.inner.options.scheme
    }

    /// The current content of a metadata block: with the changes of the running transaction.
    ///
    /// # Errors
    /// The device fails the read, or has no power. When the journal has ended, reading goes on.
    pub fn read(&self, block: BlockNo) -> Result<Bytes, JournalError> {
        self.inner.look(block)
    }

    /// As [`Journal::read`]; also as what the content was checked, if [`Journal::note_checked`] was
    /// told and only handles have changed it since.
    ///
    /// # Errors
    /// As [`Journal::read`].
    pub fn read_checked(&self, block: BlockNo) -> Result<(Bytes, Option<Checked>), JournalError> {
        self.inner.look_checked(block)
    }

    /// The file system has found `content`, which it has read of this block, right as `checked`.
    pub fn note_checked(&self, block: BlockNo, content: &Bytes, checked: Checked) {
        let mut state = self.inner.state.lock();
        state.cache.note_checked(block, content, checked);
    }

    /// Brings blocks into the cache, neighbours with one request.
    ///
    /// # Errors
    /// As [`Journal::read`].
    pub fn read_ahead(&self, blocks: &[BlockNo]) -> Result<(), JournalError> {
        let missing: Vec<BlockNo> = {
            let state = match self.inner.lock() {
                Ok(state) => state,
                // Reading goes on, one by one.
                Err(e) if !e.is_power_lost() => return Ok(()),
                Err(e) => return Err(e),
            };
            blocks
                .iter()
                .copied()
                .filter(|b| !state.cache.holds(*b))
                .collect()
        };
        let mut rest = &missing[..];
        while let Some(&first) = rest.first() {
            let mut count = 1;
            while count < READ_AHEAD_RUN && rest.get(count as usize) == Some(&first.plus(count)) {
                count += 1;
            }
            self.inner.load_run(first, count)?;
            rest = &rest[count as usize..];
        }
        Ok(())
    }

    /// Starts a handle that may change up to `credits` blocks. Waits for a locked transaction and
    /// for log space: the caller holds no page and no allocator lock, and no other handle.
    ///
    /// # Errors
    /// More credits than a transaction of this log can hold, or the journal is stopped or aborted.
    pub fn start(&self, credits: u32) -> Result<Handle<'_>, JournalError> {
        Handle::start(&self.inner, credits)
    }

    /// Most credits that one handle can have; `u32::MAX` without a log.
    pub fn credits_max(&self) -> u32 {
        self.inner
            .log
            .as_ref()
            .map_or(u32::MAX, |log| log.limits.credits_max())
    }

    /// The running transaction, if there is one.
    pub fn running_tid(&self) -> Option<Tid> {
        self.inner.state.lock().running.as_ref().map(|r| r.tid)
    }

    /// The newest transaction that may hold a change of the past: the running one, else the one
    /// being committed, else the newest durable one. A caller that does not know when a block was
    /// last changed waits for this one (as Linux does for an inode that it reads).
    pub fn newest_tid(&self) -> Tid {
        let state = self.inner.state.lock();
        let running = state.running.as_ref().map(|r| r.tid);
        running
            .or(state.committing.map(|c| c.tid))
            .unwrap_or(state.committed)
    }

    /// The newest durable transaction. Extents freed in `t` may be used again once
    /// `committed().geq(t)` (hazards-H18).
    pub fn committed(&self) -> Tid {
        self.inner.state.lock().committed
    }

    /// Returns once transaction `tid` is durable; asks for its commit if it runs. The caller holds
    /// no handle. A transaction without any change is dropped instead of committed, which is as
    /// good.
    ///
    /// # Errors
    /// The journal is aborted.
    pub fn commit(&self, tid: Tid) -> Result<(), JournalError> {
        let mut state = self.inner.lock()?;
        while !state.committed.geq(tid) && state.is_open(tid) {
            if self.inner.options.commit_by_caller
                && let Some(log) = &self.inner.log
            {
                state = self.inner.commit_here(log, state)?;
                continue;
            }
            self.inner.request(&mut state, tid);
            self.inner.wait_progress(&mut state, "commit");
            self.inner.check(&mut state)?;
        }
        Ok(())
    }

    /// As [`Journal::commit`], for a caller that also needs `mark` flushed: if the commit sends a
    /// flush, it covers the mark where it still can. This is no promise: the flush of a commit
    /// under way may have begun before (hazards-H17), so the caller checks the mark afterwards.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn commit_covering(&self, tid: Tid, mark: WriteMark) -> Result<(), JournalError> {
        {
            let mut state = self.inner.lock()?;
            state.asked = state.asked.max(mark);
        }
        self.commit(tid)
    }

    /// The first run of neighbours among the `len` blocks from `start` on whose content the log may
    /// still hold as file data. Writing these blocks directly would be undone by replay (track-D6),
    /// and home may be older than the log. They are written with [`Handle::write_journaled_data`],
    /// read with [`Journal::read`], and given up with [`Handle::revoke_data`].
    pub fn data_in_log(&self, start: BlockNo, len: u32) -> Option<(BlockNo, u32)> {
        self.inner.log.as_ref()?;
        self.inner.state.lock().logged_data.first_of(start, len)
    }

    /// True if [`Journal::data_path`] has anything to decide.
    pub fn chooses_data_path(&self) -> bool {
        self.inner.adapt.is_some()
    }

    /// How an fsync should send its data (`order=adaptive`; otherwise always through the cache).
    /// Either way is safe, whatever the answer was for other data of the transaction. The answer is
    /// kept until the fsync ends, because those that run at the same time share a flush.
    pub fn data_path(&self, mut need: DataNeed) -> Syncing<'_> {
        let syncs = &self.inner.syncs;
        let mut syncing = syncs.enter(need);
        let Some(adapt) = &self.inner.adapt else {
            return syncing;
        };
        if need.commits {
            let state = self.inner.state.lock();
            let ordered = state.running.as_ref().and_then(|r| r.ordered.as_ref());
            need.flush_anyway |= ordered.is_some_and(|batch| batch.is_volatile());
        }
        let (path, why) = {
            let mut adapt = adapt.lock();
            adapt.observe(&self.inner.queue.take_samples());
            let dirty = self.inner.queue.dirty_blocks();
            adapt.data(need, syncs.beside(), dirty)
        };
        let mut state = self.inner.state.lock();
        state.stats.chose(path.word(), why.word());
        syncing.path = path;
        syncing
    }

    /// Takes over data of an fsync that is about to wait for transaction `tid`. The data is held
    /// back ([`DataPath::WithLog`](crate::DataPath::WithLog)) and was not added by a handle,
    /// because nothing in `tid` depends on it. If `tid` still runs, the data goes ahead of its
    /// record in the same command; if the data cannot be written, the commit goes on without it.
    /// The caller checks the outcome afterwards.
    pub fn lead(&self, tid: Tid, data: Batch) {
        let mut state = self.inner.state.lock();
        let running = state.running.as_mut().filter(|r| r.tid == tid);
        match running.map(|r| &mut r.led) {
            Some(Some(led)) => led.merge(data),
            Some(none) => *none = Some(data),
            None => {}
        }
    }

    /// Makes everything durable that finished handles changed. Without a log: writes it home (a
    /// flush is the caller's).
    ///
    /// # Errors
    /// The journal is aborted.
    pub fn commit_all(&self) -> Result<(), JournalError> {
        if self.inner.log.is_none() {
            let _home = self.inner.home.lock();
            return self.inner.write_home_all(false);
        }
        let newest = {
            let state = self.inner.lock()?;
            let running = state.running.as_ref().map(|r| r.tid);
            running.or(state.committing.map(|c| c.tid))
        };
        newest.map_or(Ok(()), |tid| self.commit(tid))
    }

    /// Brings all committed blocks home, durably.
    ///
    /// # Errors
    /// The journal is aborted.
    pub fn checkpoint_all(&self) -> Result<(), JournalError> {
        self.inner.checkpoint_all()
    }

    /// Without a log: writes these blocks home now if they are dirty (fsync without a journal; the
    /// flush is the caller's). With a log there is nothing to do.
    ///
    /// # Errors
    /// The journal is aborted.
    pub fn sync_home(&self, blocks: &[BlockNo]) -> Result<(), JournalError> {
        if self.inner.log.is_some() {
            return Ok(());
        }
        let mut sorted = blocks.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let _home = self.inner.home.lock();
        self.inner.write_home(&sorted, false)
    }

    /// The first failure, if the journal is aborted.
    pub fn aborted(&self) -> Option<String> {
        let mut state = self.inner.state.lock();
        self.inner.check(&mut state).err()?;
        state.failure.as_ref().map(|f| f.why.clone())
    }

    /// Ends the journal at once: nothing more is committed.
    pub fn abort(&self, why: impl Into<String>) {
        let failure = Failure {
            why: why.into(),
            power_lost: false,
        };
        self.inner.latch(&mut self.inner.state.lock(), failure);
    }

    /// Aborts as a handle that is dropped half-way does (handle-A1), from a place that may take no
    /// lock: an operation above panicked, so what it left in memory must not be committed.
    pub fn break_off(&self) {
        self.inner.dropped.store(true, Ordering::SeqCst);
    }

    /// As [`abort`](Self::abort), but as if the power were gone: no error is left in the log for
    /// the next mount.
    pub fn cut_off(&self, why: impl Into<String>) {
        let failure = Failure {
            why: why.into(),
            power_lost: true,
        };
        self.inner.latch(&mut self.inner.state.lock(), failure);
    }

    /// Writes committed images home, as the write-back task does when its time comes; the tail
    /// stays where it is, and the device is not flushed.
    ///
    /// # Errors
    /// The journal is aborted.
    pub fn write_back(&self) -> Result<(), JournalError> {
        let _home = self.inner.home.lock();
        self.inner.write_home_all(true)
    }

    /// The blocks of a journal without a log that changed and were not written home, so that the
    /// caller can write them. Afterwards the journal can only be aborted.
    pub fn unwritten(&self) -> Vec<(BlockNo, Bytes)> {
        let mut state = self.inner.state.lock();
        let blocks = state.cache.write_back_list();
        let image = |block| Some((block, state.cache.begin_home(block)?.0));
        blocks.into_iter().filter_map(image).collect()
    }

    /// Figures since the start.
    pub fn stats(&self) -> Stats {
        self.inner.state.lock().stats.clone()
    }

    /// Ends a journal in which no handle was ever started, and its tasks; nothing is written.
    ///
    /// # Panics
    /// A handle was started.
    pub fn discard(&self) {
        {
            let mut state = self.inner.state.lock();
            let unused = state.running.is_none() && state.committing.is_none();
            assert!(
                unused && state.checkpoints.oldest().is_none(),
                "a journal that is discarded has had no handle"
            );
            (state.stopping, state.stopped) = (true, true);
        }
        self.end_tasks();
    }

    /// Commits, brings everything home, marks the log clean, and ends the tasks. May be called
    /// again. No handle is open.
    ///
    /// # Errors
    /// The journal is aborted: the log stays as it is, for recovery. The tasks have ended all the
    /// same.
    pub fn stop(&self) -> Result<(), JournalError> {
        let result = self.wind_down();
        self.end_tasks();
        result
    }

    fn end_tasks(&self) {
        let tasks = {
            let mut state = self.inner.state.lock();
            state.stopped = true;
            self.inner.work.notify_all();
            self.inner.writeback.notify_all();
            std::mem::take(&mut *self.tasks.lock())
        };
        for task in tasks {
            if task.join().is_err() {
                let why = "a journal task panicked";
                let failure = Failure {
                    why: why.into(),
                    power_lost: false,
                };
                self.inner.latch(&mut self.inner.state.lock(), failure);
            }
        }
    }

    fn wind_down(&self) -> Result<(), JournalError> {
        {
            let mut state = self.inner.lock()?;
            if state.stopped {
                return Ok(());
            }
            state.stopping = true;
        }
        self.commit_all()?;
        self.checkpoint_all()?;
        match &self.inner.log {
            Some(log) => self.inner.mark_clean(log),
            None => Ok(()),
        }
    }
}
