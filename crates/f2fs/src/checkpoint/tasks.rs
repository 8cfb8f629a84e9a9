//! Background tasks of a mount: they end at unmount, and at a power cut.

use crate::F2fs;
use crate::bell::Bell;
use crate::ops::Cause;
use crate::options::{CheckpointPolicy, GcPolicy};
use base::Nanos;
use fscore::{FsError, FsResult};
use std::sync::Arc;

impl F2fs {
    /// Starts the tasks of a mount that may write.
    ///
    /// # Errors
    /// The host starts no thread for one of them; those that have started go on.
    pub(crate) fn start_tasks(self: &Arc<Self>) -> FsResult<()> {
        if self.options.read_only || !self.options.timers {
            return Ok(());
        }
        let CheckpointPolicy {
            triggers,
            background,
            ..
        } = self.options.checkpoint;
        if let Some(interval) = triggers.interval {
            self.start_task("f2fs-checkpoint", move |fs| fs.interval_task(interval))?;
        }
        if self.journal.is_none() && background.is_none() {
            let (interval, expire) = (triggers.flusher_interval, triggers.flusher_expire);
            self.start_task("f2fs-flusher", move |fs| fs.flusher_task(interval, expire))?;
        }
        if let Some(journal) = &self.journal {
            let (interval, idle) = (journal.options.commit, journal.options.idle);
            self.start_task("f2fs-commit", move |fs| fs.commit_task(interval))?;
            self.start_task("f2fs-apply", move |fs| fs.apply_task(idle))?;
        }
        if self.discards() {
            self.start_task("f2fs-discard", F2fs::discard_task)?;
        }
        self.start_task("f2fs-nids", F2fs::nid_task)?;
        if self.options.gc != GcPolicy::Off {
            self.start_task("f2fs-gc", F2fs::clean_when_idle)?;
        }
        if let Some(span) = background {
            self.start_task("f2fs-background", move |fs| fs.background_task(span))?;
        }
        Ok(())
    }

    /// Starts a background task, which ends when [`pause`](Self::pause) tells it to. If it panics,
    /// the mount latches as in an operation (latch-P1).
    ///
    /// # Errors
    /// The host starts no thread.
    pub(crate) fn start_task(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&F2fs) + Send + 'static,
    ) -> FsResult<()> {
        let fs = self.clone();
        let handle = rt::try_spawn(name, move || fs.watched(|| body(&fs)));
        let handle = handle.map_err(|e| FsError::no_thread(name, &e))?;
        self.tasks.lock().push(handle);
        Ok(())
    }

    /// Background tasks work, and do so until they are told to end.
    pub(crate) fn has_tasks(&self) -> bool {
        self.options.timers && !self.cp.state.lock().stopping
    }

    /// Tells all tasks to end, and waits for them.
    pub(crate) fn stop_tasks(&self) {
        self.cp.state.lock().stopping = true;
        self.cp.wake.notify_all();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            // A panic of the task has latched the mount, and was printed when it happened.
            let _ = task.join();
        }
    }

    /// For background tasks: waits so long, or until the volume is unmounted or the power is cut;
    /// true: go on.
    pub(crate) fn pause(&self, span: Nanos) -> bool {
        self.pause_until(span, || false)
    }

    /// The same, or until `bell` is rung.
    pub(crate) fn pause_or(&self, span: Nanos, bell: &Bell) -> bool {
        self.pause_until(span, || bell.heard())
    }

    fn pause_until(&self, span: Nanos, enough: impl Fn() -> bool) -> bool {
        let until = rt::now() + span;
        let mut state = self.cp.state.lock();
        while !state.stopping && rt::powered() {
            if enough() || self.cp.wake.wait_until(&mut state, until) {
                break;
            }
        }
        !state.stopping && rt::powered()
    }

    /// Wakes the task that listens to `bell`. The caller holds gates at most.
    pub(crate) fn ring(&self, bell: &Bell) {
        if bell.set() {
            // bell-B1.
            drop(self.cp.state.lock());
            self.cp.wake.notify_all();
        }
    }

    /// A checkpoint each time the last one is `interval` old.
    fn interval_task(&self, interval: Nanos) {
        let mut span = interval;
        while self.pause(span) {
            let age = rt::now() - self.cp.state.lock().last;
            span = match age < interval {
                true => Nanos(interval.0 - age.0),
                false => interval,
            };
            // A failure has latched the mount: then there is nothing left to do.
            if age >= interval && self.checkpoint(Cause::Timer).is_err() {
                return;
            }
        }
    }

    fn background_task(&self, span: Nanos) {
        while self.pause(span) {
            if self.checkpoint(Cause::Background).is_err() {
                return;
            }
        }
    }
}
