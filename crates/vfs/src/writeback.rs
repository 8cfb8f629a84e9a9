//! When dirty pages are written back: the flusher task and the throttling of writers.
//!
//! As Linux does it (Documentation/admin-guide/sysctl/vm.rst): every `dirty_writeback_centisecs` the flusher writes what is
//! older than `dirty_expire_centisecs`; above `dirty_background_bytes` it writes everything; above `dirty_bytes` the writer
//! itself writes back and waits.

use base::{Nanos, Time};
use fscore::{Errno, FileSystem, FsError, FsResult};
use rt::{Condvar, JoinHandle, Mutex};
use std::sync::Arc;

/// How long a throttled writer pauses when its own write-back has not brought the cache below the limit.
const PAUSE: Nanos = Nanos::from_millis(10);
/// Pauses after which a writer goes on all the same (Linux `MAX_PAUSE` is 200 ms).
const PAUSES_MAX: u32 = 20;

/// When dirty pages are written back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WritebackPolicy {
    /// How often the flusher looks (`vm.dirty_writeback_centisecs`); `None`: no flusher task ("timers off").
    pub interval: Option<Nanos>,
    /// Age at which a page is written (`vm.dirty_expire_centisecs`).
    pub expire: Nanos,
    /// Dirty 4 KiB pages above which the flusher writes everything (`vm.dirty_background_bytes`); `None`: no limit.
    pub background_pages: Option<u64>,
    /// Dirty 4 KiB pages above which the writer writes back itself (`vm.dirty_bytes`); `None`: no limit.
    pub limit_pages: Option<u64>,
}

impl WritebackPolicy {
    /// The defaults of Linux with `memory_pages` 4 KiB pages of available memory: 5 s, 30 s, 10 %, 20 %.
    pub const fn linux(memory_pages: u64) -> WritebackPolicy {
        WritebackPolicy {
            interval: Some(Nanos::from_secs(5)),
            expire: Nanos::from_secs(30),
            background_pages: Some(memory_pages / 10),
            limit_pages: Some(memory_pages / 5),
        }
    }
    /// No task, no limit: only sync calls write.
    pub const fn off() -> WritebackPolicy {
        WritebackPolicy {
            interval: None,
            expire: Nanos::from_secs(30),
            background_pages: None,
            limit_pages: None,
        }
    }
}

impl Default for WritebackPolicy {
    /// [`linux`](Self::linux) with 1 GiB.
    fn default() -> Self {
        WritebackPolicy::linux(1 << 18)
    }
}

/// What the policy has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WritebackStats {
    /// Ticks of the flusher.
    pub ticks: u64,
    /// Rounds of the flusher above the background limit.
    pub background_rounds: u64,
    /// Writes that were throttled.
    pub throttled: u64,
    /// Pauses of throttled writers.
    pub pauses: u64,
    /// Rounds of the flusher that failed. Each file's own error comes from its next fsync.
    pub errors: u64,
}

#[derive(Default)]
struct State {
    stop: bool,
    /// A writer saw the background limit passed.
    kicked: bool,
    stats: WritebackStats,
}

struct Shared {
    fs: Arc<dyn FileSystem>,
    policy: WritebackPolicy,
    state: Mutex<State>,
    wake: Condvar,
}

/// The policy at work.
pub(crate) struct Writeback {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Writeback {
    pub(crate) fn start(fs: Arc<dyn FileSystem>, policy: WritebackPolicy) -> Writeback {
        let shared = Arc::new(Shared {
            fs,
            policy,
            state: Mutex::named("vfs writeback", State::default()),
            wake: Condvar::new(),
        });
        let task = policy.interval.map(|interval| {
            let shared = Arc::clone(&shared);
            rt::spawn("vfs-flusher", move || shared.flush_until_stopped(interval))
        });
        Writeback {
            shared,
            task: Mutex::named("vfs flusher task", task),
        }
    }

    pub(crate) fn stats(&self) -> WritebackStats {
        self.shared.state.lock().stats
    }

    pub(crate) fn stop(&self) {
        self.shared.state.lock().stop = true;
        self.shared.wake.notify_all();
        let task = self.task.lock().take();
        if let Some(task) = task
            && let Err(panic) = task.join()
        {
            std::panic::resume_unwind(panic);
        }
    }

    /// Called after a write, without locks: wakes the flusher above the background limit, writes back above the limit.
    ///
    /// # Errors
    /// Of the file system's write-back, if the mount is dead; a single file's error is left to its fsync.
    pub(crate) fn throttle(&self) -> FsResult<()> {
        let policy = &self.shared.policy;
        if policy.background_pages.is_none() && policy.limit_pages.is_none() {
            return Ok(());
        }
        let dirty = self.shared.fs.dirty_pages();
        if above(dirty, policy.background_pages) && policy.interval.is_some() {
            self.shared.kick();
        }
        if !above(dirty, policy.limit_pages) {
            return Ok(());
        }
        self.shared.state.lock().stats.throttled += 1;
        for _ in 0..PAUSES_MAX {
            match self.shared.fs.writeback(rt::now()) {
                Err(error) if is_fatal(&error) => return Err(error),
                Err(_) => return Ok(()),
                Ok(()) => {}
            }
            if !above(self.shared.fs.dirty_pages(), policy.limit_pages) || !rt::powered() {
                return Ok(());
            }
            self.shared.state.lock().stats.pauses += 1;
            rt::sleep(PAUSE);
        }
        Ok(())
    }
}

impl Shared {
    fn kick(&self) {
        let mut state = self.state.lock();
        if !state.kicked {
            state.kicked = true;
            self.wake.notify_all();
        }
    }

    fn flush_until_stopped(&self, interval: Nanos) {
        let mut next = rt::now() + interval;
        loop {
            let mut state = self.state.lock();
            while rt::powered() && !state.stop && !state.kicked && rt::now() < next {
                self.wake.wait_until(&mut state, next);
            }
            if state.stop || !rt::powered() {
                return;
            }
            state.kicked = false;
            drop(state);
            let tick = rt::now() >= next;
            if tick {
                next = rt::now() + interval;
            }
            match self.round(tick) {
                Err(error) if is_fatal(&error) => return,
                Err(_) => self.state.lock().stats.errors += 1,
                Ok(()) => {}
            }
        }
    }

    fn round(&self, tick: bool) -> FsResult<()> {
        let now = rt::now();
        if above(self.fs.dirty_pages(), self.policy.background_pages) {
            self.state.lock().stats.background_rounds += 1;
            self.fs.writeback(now)?;
        } else if tick && now.0 >= self.policy.expire.0 {
            self.fs.writeback(Time(now.0 - self.policy.expire.0))?;
        }
        if tick {
            self.state.lock().stats.ticks += 1;
        }
        Ok(())
    }
}

fn above(dirty: u64, limit: Option<u64>) -> bool {
    limit.is_some_and(|limit| dirty > limit)
}

/// The mount is dead; trying again is no use.
fn is_fatal(error: &FsError) -> bool {
    match error {
        FsError::Io { power_lost, .. } => *power_lost,
        FsError::Aborted { .. } => true,
        FsError::Posix(errno) => *errno == Errno::Shutdown,
        FsError::Incompatible { .. } | FsError::Corrupt { .. } => false,
    }
}
