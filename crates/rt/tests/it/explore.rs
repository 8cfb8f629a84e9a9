//! Schedules that look for rare interleavings: which bugs each kind finds.

use std::sync::Arc;
use varve_rt::atomic::{AtomicU64, Ordering};
use varve_rt::{self as rt, Policy, Sim, SimConfig, each_schedule};

/// Two tasks add by load and store; the sum is too small if one meets the other in between.
fn lost_update(policy: Policy, seed: u64) -> (bool, u64) {
    let cfg = SimConfig {
        policy,
        ..SimConfig::seeded(seed)
    };
    let outcome = Sim::new(cfg).run(|| {
        let sum = Arc::new(AtomicU64::new(0));
        rt::scope(|s| {
            for name in ["a", "b"] {
                s.spawn(name, || {
                    let n = sum.load(Ordering::SeqCst);
                    sum.store(n + 1, Ordering::SeqCst);
                });
            }
        });
        sum.load(Ordering::SeqCst)
    });
    let points = outcome.points;
    (outcome.unwrap() == 1, points)
}

/// `a` writes 1, 2; `b` looks at it twice, before and behind: needs two delays.
fn seen_between(policy: Policy) -> (bool, u64) {
    let cfg = SimConfig {
        policy,
        ..SimConfig::default()
    };
    let outcome = Sim::new(cfg).run(|| {
        let (flag, turn) = (AtomicU64::new(0), AtomicU64::new(0));
        rt::scope(|s| {
            s.spawn("a", || {
                flag.store(1, Ordering::SeqCst);
                let seen = turn.load(Ordering::SeqCst);
                flag.store(2, Ordering::SeqCst);
                turn.store(seen + 10, Ordering::SeqCst);
            });
            s.spawn("b", || {
                let first = flag.load(Ordering::SeqCst);
                turn.store(1, Ordering::SeqCst);
                let second = flag.load(Ordering::SeqCst);
                if first == 0 && second != 0 {
                    turn.store(100, Ordering::SeqCst);
                }
            });
        });
        turn.load(Ordering::SeqCst)
    });
    let points = outcome.points;
    (outcome.unwrap() >= 100, points)
}

#[test]
fn fifo_order_shows_no_lost_update_and_one_delay_does() {
    let mut lost = Vec::new();
    let runs = each_schedule(1, |policy| {
        let (found, points) = lost_update(policy, 1);
        if found {
            lost.push(policy);
        }
        points
    });
    assert!(!lost_update(Policy::Fifo, 1).0);
    assert!(!lost.is_empty() && lost.len() < runs as usize, "{lost:?}");
    let again = lost.iter().all(|policy| lost_update(*policy, 1).0);
    assert!(again, "a schedule is repeatable");
}

#[test]
fn what_needs_two_delays_is_found_with_two() {
    let found = |delays| {
        let mut found = 0;
        let runs = each_schedule(delays, |policy| {
            let (seen, points) = seen_between(policy);
            found += u64::from(seen);
            points
        });
        (found, runs)
    };
    assert_eq!(found(0), (0, 1));
    assert_eq!(found(1).0, 0);
    assert!(found(2).0 > 0);
    assert!(found(2).1 < 1000, "{:?}", found(2));
}

#[test]
fn pct_finds_a_lost_update() {
    let policy = Policy::Pct {
        depth: 2,
        points: 8,
    };
    let found = (0..100).filter(|seed| lost_update(policy, *seed).0).count();
    assert!((5..95).contains(&found), "{found} of 100");
    let twice = |seed| (lost_update(policy, seed), lost_update(policy, seed));
    assert!((0..20).map(twice).all(|(a, b)| a == b), "repeatable");
}

/// A task that is never ready together with the other one reads and writes back; true if what the
/// other one added in one go is lost.
fn lost_while_others_sleep(policy: Policy, seed: u64) -> bool {
    let config = SimConfig {
        policy,
        ..SimConfig::seeded(seed)
    };
    let outcome = Sim::new(config).run(|| {
        let count = Arc::new(AtomicU64::new(0));
        let other = Arc::clone(&count);
        let adder = rt::spawn("adder", move || {
            rt::sleep(base::Nanos(1000));
            other.fetch_add(10, Ordering::Relaxed);
        });
        let seen = count.load(Ordering::Relaxed);
        count.store(seen + 1, Ordering::Relaxed);
        adder.join().unwrap();
        count.load(Ordering::Relaxed) != 11
    });
    outcome.value.unwrap()
}

#[test]
fn a_stall_brings_tasks_together_that_are_never_ready_at_one_time() {
    let pct = Policy::Pct {
        depth: 3,
        points: 8,
    };
    let stalls = Policy::Stalls {
        one_in: 4,
        below: 4000,
    };
    let found = |policy| {
        (0..100)
            .filter(|seed| lost_while_others_sleep(policy, *seed))
            .count()
    };
    assert_eq!(found(pct), 0);
    assert!((5..95).contains(&found(stalls)), "{}", found(stalls));
    assert_eq!(found(stalls), found(stalls), "repeatable");
}
