//! Whether the kernel hands requests over a ring that it has taken each entry of (ring-Q1).
//!
//! Nothing tells but a request. One that is not delivered waits, and so does one on a host that is
//! overloaded, for any time. So time is no evidence:
//!
//! - F1 a request that has come by any queue proves the ring, however late its answer is;
//! - F2 looks are counted, not seconds: a host that is too busy to run the threads of the ring
//!   looks as seldom. A look counts only while the thread that asks is seen asleep in its call: not
//!   before it was started, and not while it waits for a processor. Where `/proc` does not show
//!   the thread, every look counts: a mount that waited for ever would be worse.

use rt::{JoinHandle, try_spawn};
use rustix::thread::gettid;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// How often is looked, and the looks that count without a request.
const LOOK: base::Nanos = base::Nanos(1_000_000);
const LOOKS: u32 = 5000;

/// A thread that makes the first request.
struct Asking {
    /// Its number; 0: it has not begun.
    id: AtomicI32,
    answered: AtomicBool,
}

/// Makes a request by `ask` in a thread of its own, and says whether it was `heard` by a queue
/// (F1, F2). None: the host has no thread, so nothing is known. A thread whose request is not
/// delivered waits for whoever reads requests later, or for the end of the connection.
pub(super) fn is_heard(
    heard: &AtomicBool,
    ask: impl FnOnce() + Send + 'static,
) -> Option<(bool, JoinHandle<()>)> {
    is_heard_within(LOOKS, heard, is_asleep, ask)
}

fn is_heard_within(
    looks: u32,
    heard: &AtomicBool,
    is_asleep: impl Fn(i32) -> Option<bool>,
    ask: impl FnOnce() + Send + 'static,
) -> Option<(bool, JoinHandle<()>)> {
    let asking = Arc::new(Asking {
        id: AtomicI32::new(0),
        answered: AtomicBool::new(false),
    });
    let own = Arc::clone(&asking);
    let thread = try_spawn("fuse first request", move || {
        own.id
            .store(gettid().as_raw_nonzero().get(), Ordering::Release);
        ask();
        own.answered.store(true, Ordering::Release);
    });
    let thread = thread.ok()?;
    let mut waited = 0;
    loop {
        if heard.load(Ordering::Acquire) || asking.answered.load(Ordering::Acquire) {
            return Some((true, thread));
        }
        if waited >= looks {
            return Some((false, thread));
        }
        rt::sleep(LOOK);
        let id = asking.id.load(Ordering::Acquire);
        // Where nothing is known of it (another namespace's `/proc`, or none) each look counts.
        waited += u32::from(id != 0 && is_asleep(id).unwrap_or(true));
    }
}

/// Whether this thread of ours sleeps in the kernel; `None` if that is not known.
fn is_asleep(thread: i32) -> Option<bool> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    Some(matches!(state_in(&stat)?, 'S' | 'D'))
}

/// The state in a line of `/proc/PID/stat`: behind the name, which may hold anything.
fn state_in(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rt::channel;

    #[test]
    fn a_state_stands_behind_the_name() {
        assert_eq!(state_in("12 (a) S b) R 1 2"), Some('R'));
        assert_eq!(state_in("12 (fuse-ring-0) S 1"), Some('S'));
        assert_eq!(state_in("12"), None);
        assert_eq!(is_asleep(i32::MAX), None, "there is none");
    }

    /// F1.
    #[test]
    fn a_request_that_came_proves_the_ring_before_it_is_answered() {
        let (answer, wait) = channel::<()>(1);
        let heard = Arc::new(AtomicBool::new(false));
        let by_queue = Arc::clone(&heard);
        let ask = move || {
            by_queue.store(true, Ordering::Release);
            let _ = wait.recv();
        };
        let (yes, thread) = is_heard(&heard, ask).expect("a thread");
        assert!(yes, "F1");
        drop(answer);
        thread.join().expect("no panic");
    }

    /// F2: what keeps the processor busy is no sign, however long it takes, and sleep is one.
    #[test]
    fn only_a_sleeping_request_counts() {
        let (heard, until) = (AtomicBool::new(false), rt::now().0 + 1_000_000_000);
        let busy = move || while rt::now().0 < until {};
        let (yes, thread) = is_heard_within(100, &heard, is_asleep, busy).expect("a thread");
        assert!(yes, "F2: it was answered in the end");
        thread.join().expect("no panic");
        let (answer, wait) = channel::<()>(1);
        let ask = move || {
            let _ = wait.recv();
        };
        let (yes, thread) = is_heard_within(100, &heard, is_asleep, ask).expect("a thread");
        assert!(!yes, "nothing came");
        drop(answer);
        thread.join().expect("no panic");
    }

    /// F2: a host that does not show the thread ends the looks, too.
    #[test]
    fn looks_end_where_nothing_shows_the_thread() {
        let (heard, (answer, wait)) = (AtomicBool::new(false), channel::<()>(1));
        let ask = move || {
            let _ = wait.recv();
        };
        let (yes, thread) = is_heard_within(100, &heard, |_| None, ask).expect("a thread");
        assert!(!yes, "nothing came");
        drop(answer);
        thread.join().expect("no panic");
    }
}
