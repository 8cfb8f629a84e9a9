//! When dirty pages are written back: the flusher task, and the throttling of writers.
//!
//! Without throttling a fast writer fills memory with dirty pages, and a sync takes as long as all
//! of them need. So the rules are those of Linux (Documentation/admin-guide/sysctl/vm.rst): every
//! `dirty_writeback_centisecs` the flusher writes what is older than `dirty_expire_centisecs`;
//! above `dirty_background_bytes` it writes everything; and writers pause, the longer the nearer
//! the number of dirty pages is to `dirty_bytes` (`balance_dirty_pages`), so that pages become
//! dirty as fast as the flusher cleans them:
//!
//! - D1 up to the middle between both limits no writer pauses (Linux `dirty_freerun_ceiling`);
//! - D2 from the middle on a writer pauses for each page that it has written. The pause grows with
//!   the square of the way to the limit, from nothing to the pause above the limit. The number of
//!   dirty pages settles where the pauses of all writers together equal the time that the device
//!   needs for their pages. (Linux measures the bandwidth of the device and multiplies it by a
//!   factor that falls from 2 to 0 on that way; here nothing is measured);
//! - D3 above the limit a writer pauses until the flusher has brought the number down, but at most
//!   [`LONGEST`] for each call. So a device that hangs blocks no writer for ever, and lets each
//!   write only one call in that time;
//! - D4 without a flusher task nobody pauses below the limit, and a writer above it writes back
//!   itself, for as long as D3 lets one wait.

use base::{BLOCK_BYTES, Nanos, Time};
use fscore::{Errno, FileSystem, FsError, FsResult};
use rt::{Condvar, JoinHandle, Mutex};
use std::sync::Arc;

/// The time after which a writer above the limit looks again, and its pause for a page just below
/// the limit.
const PAUSE: Nanos = Nanos::from_millis(10);
/// The longest pause of one call (Linux `MAX_PAUSE`).
const LONGEST: Nanos = Nanos::from_millis(200);
/// The name of the task.
const FLUSHER: &str = "vfs-flusher";

/// When dirty pages are written back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WritebackPolicy {
    /// How often the flusher looks (`vm.dirty_writeback_centisecs`); `None`: there is no flusher
    /// task.
    pub interval: Option<Nanos>,
    /// Age at which a page is written (`vm.dirty_expire_centisecs`).
    pub expire: Nanos,
    /// Number of dirty 4 KiB pages above which the flusher writes everything
    /// (`vm.dirty_background_bytes`); `None`: no limit.
    pub background_pages: Option<u64>,
    /// Number of dirty 4 KiB pages above which writers wait (`vm.dirty_bytes`), or write back
    /// themselves if there is no flusher; `None`: no limit.
    pub limit_pages: Option<u64>,
}

impl WritebackPolicy {
    /// The defaults of Linux for `memory_pages` 4 KiB pages of available memory: 5 s, 30 s, 10 %
    /// and 20 %.
    pub const fn linux(memory_pages: u64) -> WritebackPolicy {
        WritebackPolicy {
            interval: Some(Nanos::from_secs(5)),
            expire: Nanos::from_secs(30),
            background_pages: Some(memory_pages / 10),
            limit_pages: Some(memory_pages / 5),
        }
    }
    /// How long a writer of `bytes` bytes pauses if `dirty` pages are dirty (D1, D2).
    fn pause(&self, dirty: u64, bytes: usize) -> Nanos {
        let Some(limit) = self.limit_pages else {
            return Nanos(0);
        };
        if dirty > limit {
            return PAUSE;
        }
        let background = self.background_pages.unwrap_or(0).min(limit);
        let free = background + (limit - background) / 2;
        if dirty <= free {
            return Nanos(0);
        }
        // The way to the limit in thousandths, at most 1000.
        let way = (dirty - free).saturating_mul(1000) / (limit - free);
        let pages = bytes.div_ceil(BLOCK_BYTES) as u64;
        let each = PAUSE.0 * way * way / 1_000_000;
        Nanos(each.saturating_mul(pages)).min(LONGEST)
    }

    /// A policy without task and limits: only sync calls write.
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
    /// The policy of [`linux`](Self::linux) for 1 GiB.
    fn default() -> Self {
        WritebackPolicy::linux(1 << 18)
    }
}

/// What the policy has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WritebackStats {
    /// Times that the flusher looked.
    pub ticks: u64,
    /// Rounds of the flusher above the background limit.
    pub background_rounds: u64,
    /// Writes that were throttled: the writer paused, or wrote back itself.
    pub throttled: u64,
    /// Pauses of throttled writers.
    pub pauses: u64,
    /// Rounds of the flusher that failed. The next fsync of each file answers its own error.
    pub errors: u64,
}

#[derive(Default)]
struct State {
    stop: bool,
    /// A writer saw that the background limit is passed.
    kicked: bool,
    stats: WritebackStats,
}

struct Shared {
    fs: Arc<dyn FileSystem>,
    policy: WritebackPolicy,
    state: Mutex<State>,
    wake: Condvar,
}

/// A policy, with its task.
pub(crate) struct Writeback {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Writeback {
    /// The policy without its task.
    pub(crate) fn idle(fs: Arc<dyn FileSystem>, policy: WritebackPolicy) -> Writeback {
        let shared = Arc::new(Shared {
            fs,
            policy,
            state: Mutex::named("vfs writeback", State::default()),
            wake: Condvar::new(),
        });
        Writeback {
            shared,
            task: Mutex::named("vfs flusher task", None),
        }
    }

    /// The policy with the task that it asks for.
    ///
    /// # Errors
    /// The host starts no thread for it.
    pub(crate) fn start(fs: Arc<dyn FileSystem>, policy: WritebackPolicy) -> FsResult<Writeback> {
        let writeback = Writeback::idle(fs, policy);
        if let Some(interval) = policy.interval {
            let shared = Arc::clone(&writeback.shared);
            let task = rt::try_spawn(FLUSHER, move || shared.flush_until_stopped(interval));
            let task = task.map_err(|e| FsError::no_thread(FLUSHER, &e))?;
            *writeback.task.lock() = Some(task);
        }
        Ok(writeback)
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

    /// To be called after a write of `bytes` bytes, without locks. Above the background limit it
    /// wakes the flusher, between the limits it pauses, and above the upper limit it waits (D1 to
    /// D4).
    ///
    /// # Errors
    /// Errors of write-back if the writer has to do it and the mount is dead. An error of one file
    /// is left to its fsync.
    pub(crate) fn throttle(&self, bytes: usize) -> FsResult<()> {
        let policy = &self.shared.policy;
        if policy.background_pages.is_none() && policy.limit_pages.is_none() {
            return Ok(());
        }
        let dirty = self.shared.fs.dirty_pages();
        if above(dirty, policy.background_pages) && policy.interval.is_some() {
            self.shared.kick();
        }
        match policy.interval {
            Some(_) => {
                self.shared.wait_for_flusher(dirty, bytes);
                Ok(())
            }
            None => self.shared.write_back_above_limit(dirty),
        }
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

    /// Pauses as D1 to D3 say.
    fn wait_for_flusher(&self, dirty: u64, bytes: usize) {
        let pause = self.policy.pause(dirty, bytes);
        if pause == Nanos(0) {
            return;
        }
        self.state.lock().stats.throttled += 1;
        self.pause(pause);
        let mut left = Nanos(LONGEST.0 - pause.0);
        while left >= PAUSE && above(self.fs.dirty_pages(), self.policy.limit_pages) {
            if !rt::powered() || self.state.lock().stop {
                return;
            }
            // The flusher is not awake if the background limit is missing or above this one.
            self.kick();
            self.pause(PAUSE);
            left = Nanos(left.0 - PAUSE.0);
        }
    }

    fn pause(&self, span: Nanos) {
        self.state.lock().stats.pauses += 1;
        rt::sleep(span);
    }

    /// Writes back as D4 says.
    fn write_back_above_limit(&self, dirty: u64) -> FsResult<()> {
        if !above(dirty, self.policy.limit_pages) {
            return Ok(());
        }
        self.state.lock().stats.throttled += 1;
        for _ in 0..LONGEST.0 / PAUSE.0 {
            match self.fs.writeback(rt::now()) {
                Err(error) if is_fatal(&error) => return Err(error),
                Err(_) => return Ok(()),
                Ok(()) => {}
            }
            if !above(self.fs.dirty_pages(), self.policy.limit_pages) || !rt::powered() {
                return Ok(());
            }
            self.pause(PAUSE);
        }
        Ok(())
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
        let dirty = self.fs.dirty_pages();
        if above(dirty, self.policy.background_pages) || above(dirty, self.policy.limit_pages) {
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

/// True if the mount is dead, so that another try is no use.
fn is_fatal(error: &FsError) -> bool {
    match error {
        FsError::Io { power_lost, .. } => *power_lost,
        FsError::Aborted { .. } => true,
        FsError::Posix(errno) => *errno == Errno::Shutdown,
        FsError::Options { .. }
        | FsError::Incompatible { .. }
        | FsError::Corrupt { .. }
        | FsError::NoThread { .. } => false,
    }
}
