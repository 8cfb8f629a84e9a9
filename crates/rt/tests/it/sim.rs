//! Tests of the simulated world: clock, cores, schedules, failures, power.

use base::{Nanos, Time};
use std::sync::Arc;
use varve_rt::{self as rt, Condvar, Failure, Mutex, Policy, Sim, SimConfig};

const MS: Nanos = Nanos::from_millis(1);

fn quiet() -> SimConfig {
    SimConfig {
        quiet: true,
        ..SimConfig::default()
    }
}

#[test]
fn virtual_cores_share_the_load() {
    for (cores, expected) in [(1, 4), (2, 2), (4, 1), (8, 1)] {
        let cfg = SimConfig {
            cores,
            ..SimConfig::default()
        };
        let out = Sim::new(cfg).run(|| {
            let tasks: Vec<_> = (0..4)
                .map(|i| rt::spawn(&format!("t{i}"), || rt::charge(MS)))
                .collect();
            tasks.into_iter().for_each(|t| t.join().unwrap());
            rt::now()
        });
        assert_eq!(out.end, Time(expected * 1_000_000), "{cores} cores");
        assert_eq!(out.unwrap(), Time(expected * 1_000_000));
    }
}

#[test]
fn sleepers_wake_in_order_of_time_then_of_arrival() {
    let out = Sim::new(SimConfig::default()).run(|| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = [30, 10, 20, 10]
            .into_iter()
            .enumerate()
            .map(|(i, ms)| {
                let log = log.clone();
                rt::spawn("sleeper", move || {
                    rt::sleep(Nanos::from_millis(ms));
                    log.lock().push((i, rt::now().0 / 1_000_000));
                })
            })
            .collect();
        tasks.into_iter().for_each(|t| t.join().unwrap());
        log.lock().clone()
    });
    assert_eq!(out.unwrap(), [(1, 10), (3, 10), (2, 20), (0, 30)]);
}

#[test]
fn the_wall_clock_is_the_epoch_plus_now() {
    let out = Sim::new(SimConfig::default()).run(|| {
        rt::sleep(Nanos(1_500_000_000));
        rt::wall()
    });
    assert_eq!(
        out.unwrap(),
        rt::WallTime {
            secs: 1_704_067_201,
            nanos: 500_000_000
        }
    );
}

#[test]
fn a_deadlock_names_everybody_with_line_and_holder() {
    let out = Sim::new(quiet()).run(|| {
        let (a, b) = (
            Arc::new(Mutex::named("a", ())),
            Arc::new(Condvar::named("never")),
        );
        let (a2, b2) = (a.clone(), b.clone());
        let holder = rt::spawn("holder", move || {
            let mut guard = Mutex::new(());
            let _a = a2.lock();
            let mut own = {
                guard.get_mut();
                guard.lock()
            };
            b2.wait(&mut own);
        });
        rt::sleep(MS);
        let waiter = rt::spawn("waiter", move || drop(a.lock()));
        drop(holder);
        waiter.join().unwrap();
    });
    let Some(Failure::Deadlock {
        tasks,
        after_cut: false,
    }) = &out.first_failure
    else {
        panic!("{out}")
    };
    let text = out.first_failure.as_ref().unwrap().to_string();
    let by_name = |n: &str| tasks.iter().find(|t| t.task == n).unwrap();
    assert!(
        by_name("main")
            .waits_for
            .contains("waits for the end of task `waiter` at crates/rt/tests/it/sim.rs:"),
        "{text}"
    );
    assert!(
        by_name("holder")
            .waits_for
            .contains("condvar `never` at crates/rt/tests/it/sim.rs:"),
        "{text}"
    );
    assert!(
        by_name("waiter")
            .waits_for
            .contains("waits to lock `a` at crates/rt/tests/it/sim.rs:"),
        "{text}"
    );
    assert_eq!(
        by_name("waiter").holder.as_deref(),
        Some("task `holder`"),
        "{text}"
    );
    assert_eq!(by_name("waiter").since, Time(1_000_000));
}

#[test]
fn a_panic_ends_the_simulation_and_nobody_runs_again() {
    let after = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let seen = after.clone();
    let out = Sim::new(quiet()).run(move || {
        let other = seen.clone();
        let sleeper = rt::spawn("other", move || {
            rt::sleep(Nanos::from_millis(2));
            other.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        let bad = rt::spawn("bad", || {
            rt::sleep(MS);
            panic!("planted {}", rt::now());
        });
        let _ = bad.join();
        seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let _ = sleeper.join();
    });
    assert_eq!(after.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert!(out.value.is_none());
    match out.first_failure {
        Some(Failure::Panic {
            task,
            time,
            message,
            parked_at: None,
        }) => {
            assert_eq!((task.as_str(), time), ("bad", Time(1_000_000)));
            assert!(
                message.starts_with("planted 1000000 at crates/rt/tests/it/sim.rs:"),
                "{message}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        out.payload.unwrap().downcast_ref::<String>().unwrap(),
        "planted 1000000"
    );
}

#[test]
fn replay_line_reproduces() {
    let program = || {
        let total = Arc::new(Mutex::new(0u64));
        let tasks: Vec<_> = (0..5)
            .map(|i| {
                let total = total.clone();
                rt::spawn("t", move || {
                    for _ in 0..10 {
                        *total.lock() += i;
                        rt::charge(Nanos(i * 100));
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|t| t.join().unwrap());
    };
    let cfg = SimConfig {
        cores: 2,
        policy: Policy::Random { yield_one_in: 3 },
        ..SimConfig::seeded(77)
    };
    let first = Sim::new(cfg).run(program);
    let again = Sim::new(first.replay.parse().unwrap()).run(program);
    assert_eq!(
        (first.trace_hash, first.switches, first.end),
        (again.trace_hash, again.switches, again.end)
    );
}

#[test]
fn charged_time_is_that_of_all_cores_at_the_callers_percent() {
    let config = SimConfig {
        cores: 2,
        cpu_percent: 200,
        ..SimConfig::seeded(1)
    };
    let outcome = Sim::new(config).run(|| {
        rt::scope(|s| {
            for _ in 0..4 {
                s.spawn("t", || rt::charge_each(Nanos(100), 5));
            }
        });
        rt::charge_each(Nanos(100), 0);
        rt::sleep(Nanos(1_000_000));
        (rt::charged(), rt::now())
    });
    // Four times 500 ns, twice as dear, on two cores.
    assert_eq!(outcome.unwrap(), (Nanos(4000), Time(1_002_000)));
    assert_eq!(rt::charged(), Nanos(0));
}
