//! Locks around state that all operations share.

use base::cost::sync::LOCK_HANDOVER;
use rt::{Mutex, MutexGuard};

/// Takes a lock; a task that has to wait for it is charged the hand-over besides.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Some(guard) => guard,
        None => {
            let guard = mutex.lock();
            rt::charge(LOCK_HANDOVER);
            guard
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Nanos, Time};
    use rt::{Sim, SimConfig};

    #[test]
    fn who_waits_pays_for_the_hand_over() {
        let ends = Sim::new(SimConfig {
            cores: 2,
            ..SimConfig::seeded(1)
        })
        .run(|| {
            let shared = Mutex::named("shared", ());
            let work = || {
                let guard = lock(&shared);
                rt::charge(Nanos(1000));
                drop(guard);
                rt::now()
            };
            rt::scope(|s| {
                let tasks: Vec<_> = (0..2).map(|_| s.spawn("t", work)).collect();
                let ends = tasks.into_iter().map(|t| t.join().expect("no panic"));
                ends.collect::<Vec<_>>()
            })
        });
        let second = Time(2000 + LOCK_HANDOVER.0);
        assert_eq!(ends.unwrap(), [Time(1000), second]);
    }
}
