//! What a contended mutex costs the task that waits for it: the figure behind
//! `base::cost::sync::LOCK_HANDOVER`. The span runs from just before the release in one thread to
//! the first instruction behind the lock in another, less what the two clock readings and an
//! uncontended lock take; the lower quartile of many. `cargo xtask calibrate-cpu` runs this bench.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // No simulation runs here: printing cannot hold up a yield.

use base::{Nanos, Time};
use std::sync::atomic::{AtomicU64, Ordering};
use varve_rt::{self as rt, Mutex};

const ROUNDS: u64 = 4000;
/// How long the lock is held while the other waits: about what work on a list takes.
const HELD: Nanos = Nanos(300);

fn hold(span: Nanos) {
    let start = rt::now();
    while rt::now() - start < span {
        std::hint::spin_loop();
    }
}

fn quartile(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all[all.len() / 4]
}

fn contended() -> u64 {
    let released = Mutex::new(Time(0));
    // The round in which the waiter is about to lock, and the last round that is over.
    let (asking, over) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut took = Vec::new();
    rt::scope(|s| {
        let waiter = s.spawn("waiter", || {
            let mut took = Vec::new();
            for round in 1..=ROUNDS {
                while over.load(Ordering::Acquire) != round - 1
                    || asking.load(Ordering::Acquire) != round * 2 - 1
                {
                    std::hint::spin_loop();
                }
                asking.store(round * 2, Ordering::Release);
                let at = *released.lock();
                took.push((rt::now() - at).0);
                over.store(round, Ordering::Release);
            }
            took
        });
        for round in 1..=ROUNDS {
            let mut guard = released.lock();
            asking.store(round * 2 - 1, Ordering::Release);
            while asking.load(Ordering::Acquire) != round * 2 {
                std::hint::spin_loop();
            }
            hold(HELD);
            *guard = rt::now();
            drop(guard);
            while over.load(Ordering::Acquire) != round {
                std::hint::spin_loop();
            }
        }
        took = waiter.join().expect("no panic");
    });
    quartile(took)
}

fn alone() -> u64 {
    let mutex = Mutex::new(Time(0));
    let one = |_| {
        let at = rt::now();
        *mutex.lock() = at;
        (rt::now() - at).0
    };
    quartile((0..ROUNDS).map(one).collect())
}

fn main() {
    if std::env::args().any(|a| a == "--test") {
        // `cargo test --benches` asks whether it builds, no more.
        return;
    }
    println!(
        "sync/lock-handover\t{}",
        contended().saturating_sub(alone())
    );
}
