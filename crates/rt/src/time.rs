//! Clocks, sleeping, CPU time, random streams and the trace.

use crate::config::WallTime;
use crate::core::here;
use crate::guards::may_wait;
use crate::task::Wait;
use crate::world::core;
use base::collections::fingerprint;
use base::{Nanos, Rng, Time};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The real instant of time 0.
pub(crate) fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// Monotonic time: virtual, or since the first call in this process.
#[inline]
pub fn now() -> Time {
    match core() {
        Some(core) => Time(core.now.get()),
        None => Time(start().elapsed().as_nanos() as u64),
    }
}

/// Wall time, for inode time stamps. Simulated: a fixed epoch plus `now`.
pub fn wall() -> WallTime {
    match core() {
        Some(core) => {
            let epoch = core.cfg.epoch;
            let nanos = core.now.get() + u64::from(epoch.nanos);
            WallTime {
                secs: epoch.secs + (nanos / 1_000_000_000) as i64,
                nanos: (nanos % 1_000_000_000) as u32,
            }
        }
        None => {
            let d = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            WallTime {
                secs: d.as_secs() as i64,
                nanos: d.subsec_nanos(),
            }
        }
    }
}

/// Waits for a span of time. After a power cut it returns at once (and lets others run).
#[track_caller]
pub fn sleep(span: Nanos) {
    match core() {
        Some(core) => {
            let at = core.now.get().saturating_add(span.0);
            core.sleep_until(at, Wait::Sleep(at), here());
        }
        None => {
            may_wait();
            std::thread::sleep(Duration::from_nanos(span.0));
        }
    }
}

/// Waits until a point in time. After a power cut it returns at once (and lets others run).
#[track_caller]
pub fn sleep_until(at: Time) {
    match core() {
        Some(core) => core.sleep_until(at.0, Wait::Sleep(at.0), here()),
        None => sleep(at - now()),
    }
}

/// Spends CPU time on a virtual core; nothing in the real world. Costs more than 10 ns itself: not
/// for inner loops.
#[track_caller]
pub fn charge(span: Nanos) {
    if let Some(core) = core() {
        core.charge(span.0, here());
    }
}

/// Spends `n` times `each`, as one [`charge`]; nothing if that is none.
#[track_caller]
pub fn charge_each(each: Nanos, n: u64) {
    if n > 0 {
        charge(Nanos(each.0.saturating_mul(n)));
    }
}

/// Spends what `n` things take that are done together, as one [`charge`]: `first`, and `next` for
/// each further one; nothing if there is none.
#[track_caller]
pub fn charge_run(first: Nanos, next: Nanos, n: u64) {
    if let Some(further) = n.checked_sub(1) {
        charge(Nanos(
            first.0.saturating_add(next.0.saturating_mul(further)),
        ));
    }
}

/// CPU time charged in this simulation so far, of all cores together; nothing in the real world.
/// The difference of two calls over the virtual time between them, and over the cores, is how busy
/// they were.
pub fn charged() -> Nanos {
    core().map_or(Nanos(0), |core| Nanos(core.charged.get()))
}

/// Lets others run.
#[track_caller]
pub fn yield_now() {
    match core() {
        Some(core) => core.yield_now(here()),
        None => {
            may_wait();
            std::thread::yield_now();
        }
    }
}

/// The random stream `name` of this world, from its beginning: in a simulation a function of (seed,
/// name) only, in the real world of the process.
pub fn rng(name: &str) -> Rng {
    match core() {
        Some(core) => Rng::named(core.cfg.seed, name),
        None => Rng::named(real_seed(), name),
    }
}

fn real_seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().build_hasher().finish())
}

/// Mixes a word into the trace hash of the simulation.
#[inline]
pub fn trace(word: u64) {
    if let Some(core) = core() {
        core.mix(word);
    }
}

/// Name of the running task or thread, for messages.
pub fn task_name() -> String {
    match core() {
        Some(core) => core.task().name.to_string(),
        None => std::thread::current()
            .name()
            .unwrap_or("(unnamed thread)")
            .to_string(),
    }
}

/// A small number of the running task or thread, for spreading load over shards: two tasks may have
/// the same number.
#[inline]
pub fn task_number() -> usize {
    match core() {
        Some(core) => core.task().id as usize,
        None => THREAD.with(|n| *n),
    }
}

thread_local! {
    static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
}
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Mixes a text into the trace hash of the simulation.
pub fn trace_str(text: &str) {
    trace(fingerprint(text.as_bytes()));
}
