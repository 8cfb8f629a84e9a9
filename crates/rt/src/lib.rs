//! The runtime of both worlds: time, tasks, locks, randomness, trace.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

use base::{Nanos, Rng, Time};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall-clock time: seconds and nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WallTime {
    /// Seconds.
    pub secs: i64,
    /// Nanoseconds below one second.
    pub nanos: u32,
}

/// Mutual exclusion. Does not poison.
pub struct Mutex<T: ?Sized>(parking_lot::Mutex<T>);
/// Guard of [`Mutex`].
pub type MutexGuard<'a, T> = parking_lot::MutexGuard<'a, T>;
impl<T> Mutex<T> {
    /// A new mutex.
    pub const fn new(value: T) -> Self {
        Mutex(parking_lot::Mutex::new(value))
    }
    /// A new mutex with a name for deadlock reports.
    pub const fn named(_name: &'static str, value: T) -> Self {
        Self::new(value)
    }
    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}
impl<T: ?Sized> Mutex<T> {
    /// Locks, waiting as long as it takes.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }
    /// Locks if nobody holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }
    /// The value, without locking.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}
/// Readers-writer lock. Does not poison.
pub struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);
/// Shared guard.
pub type RwLockReadGuard<'a, T> = parking_lot::RwLockReadGuard<'a, T>;
/// Exclusive guard.
pub type RwLockWriteGuard<'a, T> = parking_lot::RwLockWriteGuard<'a, T>;
impl<T> RwLock<T> {
    /// A new lock.
    pub const fn new(value: T) -> Self {
        RwLock(parking_lot::RwLock::new(value))
    }
    /// A new lock with a name for deadlock reports.
    pub const fn named(_name: &'static str, value: T) -> Self {
        Self::new(value)
    }
    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}
impl<T: ?Sized> RwLock<T> {
    /// Shared access.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read()
    }
    /// Exclusive access.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write()
    }
}
/// Condition variable for [`Mutex`].
pub struct Condvar(parking_lot::Condvar);
impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}
impl Condvar {
    /// A new condition variable.
    pub const fn new() -> Self {
        Condvar(parking_lot::Condvar::new())
    }
    /// Waits for a notification; spurious wake-ups happen, so wait in a loop.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.0.wait(guard)
    }
    /// As `wait`, until `deadline`; true if it passed.
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Time) -> bool {
        self.0
            .wait_until(guard, start() + Duration::from_nanos(deadline.0))
            .timed_out()
    }
    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
/// A running task.
pub struct JoinHandle<T>(std::thread::JoinHandle<T>);
impl<T> JoinHandle<T> {
    /// Waits for the end of the task.
    ///
    /// # Errors
    /// The payload of its panic.
    pub fn join(self) -> std::thread::Result<T> {
        self.0.join()
    }
}
/// Starts a task.
pub fn spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    JoinHandle(
        std::thread::Builder::new()
            .name(name.into())
            .spawn(f)
            .expect("thread starts"),
    )
}
fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}
/// Monotonic time.
pub fn now() -> Time {
    Time(start().elapsed().as_nanos() as u64)
}
/// Wall time, for inode time stamps. Simulated: a fixed epoch plus `now`.
pub fn wall() -> WallTime {
    let d = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    WallTime {
        secs: d.as_secs() as i64,
        nanos: d.subsec_nanos(),
    }
}
/// Waits for a span of time.
pub fn sleep(span: Nanos) {
    std::thread::sleep(Duration::from_nanos(span.0))
}
/// Waits until a point in time.
pub fn sleep_until(at: Time) {
    sleep(at - now())
}
/// Spends CPU time on a virtual core; nothing in the real world.
pub fn charge(_span: Nanos) {}
/// Lets others run.
pub fn yield_now() {
    std::thread::yield_now()
}
/// The random stream `name` of this world.
pub fn rng(name: &str) -> Rng {
    Rng::named(now().0, name)
}
/// Mixes a word into the trace hash of the simulation.
pub fn trace(_word: u64) {}
