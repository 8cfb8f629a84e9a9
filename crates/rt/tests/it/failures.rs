//! Failures that a simulation reports, and uses that it refuses.

use base::{Nanos, Time};
use std::cell::RefCell;
use std::sync::Arc;
use varve_rt::atomic::{AtomicU64, Ordering};
use varve_rt::{self as rt, Condvar, Failure, Mutex, Outcome, PowerLost, RwLock, Sim, SimConfig};

const MS: Nanos = Nanos::from_millis(1);

fn run<T>(f: impl FnOnce() -> T) -> Outcome<T> {
    Sim::new(SimConfig {
        quiet: true,
        ..SimConfig::default()
    })
    .run(f)
}

/// The message of the panic that ended the simulation.
#[track_caller]
fn panic_of<T>(out: &Outcome<T>) -> String {
    match &out.first_failure {
        Some(Failure::Panic { message, .. }) => message.clone(),
        _ => panic!("expected a panic, got {out}"),
    }
}

#[test]
fn a_lone_sleeper_meets_the_time_limit() {
    let cfg = SimConfig {
        time_limit: Time(10_000_000),
        ..SimConfig::default()
    };
    let out = Sim::new(cfg).run(|| {
        loop {
            rt::sleep(MS);
        }
    });
    let Some(Failure::Limit {
        limit, task, time, ..
    }) = &out.first_failure
    else {
        panic!("{out}")
    };
    assert_eq!(
        (limit.as_str(), task.as_str()),
        ("virtual time 10000000 ns", "main")
    );
    assert_eq!(*time, Time(10_000_000));
}

#[test]
fn a_lone_sleeper_meets_the_step_limit_with_and_without_fast_paths() {
    for fast_path in [true, false] {
        let cfg = SimConfig {
            step_limit: 1000,
            fast_path,
            ..SimConfig::default()
        };
        let out = Sim::new(cfg).run(|| {
            loop {
                rt::sleep(MS);
            }
        });
        assert!(
            matches!(&out.first_failure, Some(Failure::Limit { limit, .. }) if limit == "1000 steps")
        );
        assert_eq!(out.end, Time(999_000_000));
    }
}

#[test]
fn spinning_is_reported_whether_it_yields_sleeps_zero_or_locks() {
    let stop = AtomicU64::new(0);
    let flag = Mutex::new(false);
    let spins: [&dyn Fn(); 4] = [
        &|| rt::yield_now(),
        &|| rt::sleep(Nanos(0)),
        &|| drop(flag.try_lock()),
        &|| assert_eq!(stop.load(Ordering::SeqCst), 0),
    ];
    for spin in spins {
        let cfg = SimConfig {
            no_progress_limit: 1000,
            ..SimConfig::default()
        };
        let out = Sim::new(cfg).run(|| {
            let flag = Arc::new(Mutex::new(false));
            rt::sleep(MS);
            while !*flag.lock() {
                spin();
            }
        });
        let Some(Failure::NoProgress {
            switches,
            task,
            time,
            tasks,
        }) = &out.first_failure
        else {
            panic!("{out}")
        };
        assert!(
            *switches >= 1000 && *time == Time(1_000_000) && task == "main",
            "{out}"
        );
        assert_eq!(tasks.len(), 1);
    }
}

#[test]
fn work_with_progress_is_not_spinning() {
    let cfg = SimConfig {
        no_progress_limit: 100,
        ..SimConfig::default()
    };
    let out = Sim::new(cfg).run(|| {
        for _ in 0..1000 {
            (0..50).for_each(|_| rt::yield_now());
            rt::sleep(Nanos(1));
        }
    });
    out.unwrap();
}

#[test]
fn tasks_that_outlive_main_are_reported() {
    let out = run(|| {
        drop(rt::spawn("finishes", || rt::sleep(MS)));
        drop(rt::spawn("daemon", || {
            let (lock, never) = (Mutex::new(()), Condvar::named("stop"));
            never.wait(&mut lock.lock());
        }));
        5
    });
    assert_eq!(out.value, Some(5));
    let Some(Failure::TasksLeft {
        tasks,
        after_cut: false,
    }) = &out.first_failure
    else {
        panic!("{out}")
    };
    assert_eq!(tasks.len(), 1);
    assert!(
        tasks[0].task == "daemon" && tasks[0].waits_for.contains("`stop`"),
        "{out}"
    );
}

#[test]
fn a_daemon_without_end_uses_up_the_run_out_budget() {
    let out = Sim::new(SimConfig {
        run_out: 50,
        ..SimConfig::default()
    })
    .run(|| {
        drop(rt::spawn("ticker", || {
            loop {
                rt::sleep(MS);
            }
        }));
    });
    let Some(Failure::TasksLeft { tasks, .. }) = &out.first_failure else {
        panic!("{out}")
    };
    assert_eq!(tasks[0].task, "ticker");
    assert!(out.end < Time(60_000_000), "{out}");
}

#[test]
fn readers_are_named_as_holders() {
    let out = run(|| {
        let lock = Arc::new(RwLock::named("tree", ()));
        let (l1, l2) = (lock.clone(), lock.clone());
        drop(rt::spawn("reader", move || {
            let _r = l1.read();
            let own = Mutex::new(());
            Condvar::named("never").wait(&mut own.lock());
        }));
        rt::yield_now();
        rt::spawn("writer", move || drop(l2.write()))
            .join()
            .unwrap();
    });
    let Some(Failure::Deadlock { tasks, .. }) = &out.first_failure else {
        panic!("{out}")
    };
    let writer = tasks.iter().find(|t| t.task == "writer").unwrap();
    assert!(writer.waits_for.contains("write `tree`"), "{out}");
    if cfg!(debug_assertions) {
        assert_eq!(writer.holder.as_deref(), Some("task `reader`"));
    }
}

#[test]
fn locking_twice_is_a_deadlock_with_oneself() {
    let out = run(|| {
        let lock = Mutex::named("once", ());
        let _a = lock.lock();
        let _b = lock.lock();
    });
    let Some(Failure::Deadlock { tasks, .. }) = &out.first_failure else {
        panic!("{out}")
    };
    assert_eq!(tasks[0].holder.as_deref(), Some("task `main`"));
}

#[test]
#[cfg(debug_assertions)]
fn the_lock_order_is_learned_and_both_sites_are_reported() {
    let program = || {
        let (a, b, c) = (
            Mutex::named("inode", ()),
            Mutex::named("handle", ()),
            Mutex::named("page", ()),
        );
        {
            let _a = a.lock();
            let _b = b.lock();
        }
        {
            let _b = b.lock();
            let _c = c.lock();
        }
        let _c = c.lock();
        let _a = a.lock();
    };
    let text = panic_of(&run(program));
    assert!(
        text.contains("lock order: `inode` is taken at crates/rt/tests/it/failures.rs:"),
        "{text}"
    );
    assert!(text.contains("while `page` is held"), "{text}");
    assert!(
        text.contains("`handle` was taken at crates/rt/tests/it/failures.rs:"),
        "{text}"
    );
    assert!(text.contains("while `inode` was held"), "{text}");
    assert!(text.contains("`page` was taken at"), "{text}");
    // The same in the real world.
    let real = rt::foreign(program).unwrap_err();
    assert!(
        real.downcast_ref::<String>()
            .unwrap()
            .starts_with("lock order: `inode`")
    );
}

#[test]
fn no_yield_refuses_every_wait() {
    let lock = || Mutex::new(());
    let waits: [(&str, &dyn Fn()); 5] = [
        ("sleep", &|| rt::sleep(MS)),
        ("charge", &|| rt::charge(MS)),
        ("yield", &|| rt::yield_now()),
        ("condvar", &|| Condvar::new().wait(&mut lock().lock())),
        ("recv", &|| assert!(rt::channel::<u8>(1).1.recv().is_ok())),
    ];
    for (name, wait) in waits {
        let out = run(|| rt::no_yield(wait));
        let text = panic_of(&out);
        assert!(
            text.starts_with("rt::no_yield: task `main` would wait at crates/rt/tests/it/"),
            "{name}: {text}"
        );
    }
    run(|| {
        rt::no_yield(|| drop(lock().lock()));
        rt::sleep(MS);
    })
    .unwrap();
}

#[test]
fn a_contended_lock_inside_no_yield_panics() {
    let out = run(|| {
        let lock = Arc::new(Mutex::named("busy", ()));
        let other = lock.clone();
        drop(rt::spawn("holder", move || {
            let _g = other.lock();
            rt::sleep(MS);
        }));
        rt::yield_now();
        rt::no_yield(|| drop(lock.lock()));
    });
    assert!(panic_of(&out).starts_with("rt::no_yield"));
}

struct OnDrop<F: FnMut()>(F);
impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn waiting_while_unwinding_ends_the_simulation_and_not_the_process() {
    let out = run(|| {
        drop(rt::spawn("other", || rt::sleep(Nanos::from_millis(5))));
        let _waits = OnDrop(|| {
            assert!(rt::unwinding());
            rt::sleep(MS);
        });
        panic!("the first panic");
    });
    let Some(Failure::Panic {
        message,
        parked_at: Some(site),
        ..
    }) = &out.first_failure
    else {
        panic!("{out}")
    };
    assert!(
        message.starts_with("the first panic at crates/rt/tests/it/failures.rs"),
        "{message}"
    );
    assert!(site.starts_with("crates/rt/tests/it/failures.rs"), "{site}");
    assert_eq!(out.end, Time(0));
    // The thread can run further simulations, also ones that wait.
    run(|| {
        assert!(!rt::unwinding());
        rt::spawn("t", || rt::sleep(MS)).join().unwrap();
    })
    .unwrap();
}

#[test]
fn free_locks_may_be_taken_while_unwinding() {
    let seen = RefCell::new(0);
    let out = run(|| {
        let lock = Mutex::new(41);
        let _d = OnDrop(|| *seen.borrow_mut() = *lock.lock() + 1);
        panic!("planted");
    });
    assert!(panic_of(&out).starts_with("planted"));
    assert_eq!(*seen.borrow(), 42);
}

#[test]
fn foreign_catches_counts_depth_and_marks_the_run() {
    let out = run(|| {
        assert_eq!(rt::foreign_depth(), 0);
        let inner = rt::foreign(|| rt::foreign(rt::foreign_depth).unwrap());
        assert_eq!(inner.unwrap(), 2);
        let payload = rt::foreign(|| std::panic::resume_unwind(Box::new(7u8))).unwrap_err();
        assert_eq!(*payload.downcast_ref::<u8>().unwrap(), 7);
        assert!(!rt::unwinding() && rt::foreign_depth() == 0);
        rt::sleep(MS);
        3
    });
    // The program went on, but a swallowed panic is a failure all the same.
    assert_eq!((out.value, out.end), (Some(3), Time(1_000_000)));
    assert!(matches!(out.first_failure, Some(Failure::Panic { .. })));
    assert!(rt::foreign(|| 1).is_ok_and(|n| n == 1));
}

#[test]
#[cfg(debug_assertions)]
fn an_object_refuses_another_world() {
    // Used in the real world, then in a simulation.
    let lock = Mutex::named("shared", 0);
    drop(lock.lock());
    let text = panic_of(&run(|| drop(lock.lock())));
    assert!(
        text.starts_with("rt mutex `shared` belongs to the real world and is used in simulation"),
        "{text}"
    );
    // Used in one simulation, then in another; reading it in the real world afterwards is fine.
    let lock = RwLock::new(1);
    run(|| drop(lock.write())).unwrap();
    assert!(
        panic_of(&run(|| drop(lock.read())))
            .starts_with("rt rwlock (unnamed) belongs to simulation")
    );
    assert_eq!(*lock.read(), 1);
    // Held by a task that was left over: a clear error instead of a hang.
    let lock = Arc::new(Mutex::named("kept", ()));
    let inner = lock.clone();
    run(move || {
        let _g = inner.lock();
        Condvar::new().wait(&mut Mutex::new(()).lock());
    });
    let text = rt::foreign(|| drop(lock.lock())).unwrap_err();
    assert!(
        text.downcast_ref::<String>()
            .unwrap()
            .contains("still held by a task left over")
    );
}

#[test]
fn a_simulation_inside_of_a_simulation_is_refused() {
    let out = run(|| drop(run(|| 1)));
    assert!(panic_of(&out).starts_with("Sim::run inside of a simulation"));
}

#[test]
fn deep_stacks_are_reported() {
    #[inline(never)]
    fn deep(n: usize) -> usize {
        let frame = std::hint::black_box([n; 128]);
        if n == 0 {
            frame[0]
        } else {
            deep(n - 1) + frame[1]
        }
    }
    let out = run(|| rt::spawn("shallow", || deep(10)).join().unwrap());
    assert!(out.stack_high_water < 256 << 10, "{out}");
    out.unwrap();
    let out = run(|| rt::spawn("deep", || deep(600)).join().unwrap());
    let Some(Failure::StackDepth { task, used, size }) = &out.first_failure else {
        panic!("{out}")
    };
    assert_eq!((task.as_str(), *size), ("deep", 1 << 20));
    assert!(*used > 600 * 1024 && *used == out.stack_high_water, "{out}");
    // The pooled stack was cleaned: the next simulation is measured by itself.
    let out = run(|| rt::spawn("shallow", || deep(10)).join().unwrap());
    assert!(out.stack_high_water < 256 << 10, "{out}");
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_watchdog_names_a_task_that_stands_still() {
    let cfg = SimConfig {
        watchdog: Nanos::from_millis(300),
        ..SimConfig::default()
    };
    let out = Sim::new(cfg).run(|| {
        rt::spawn("sleeps for real", || {
            std::thread::sleep(std::time::Duration::from_millis(1200))
        })
        .join()
        .unwrap();
    });
    assert_eq!(out.stalls, ["sleeps for real"]);
    out.unwrap();
}

#[test]
fn many_tasks_and_a_dropped_handle() {
    let out = run(|| {
        let tasks: Vec<_> = (0..5000)
            .map(|i| rt::spawn("t", move || rt::sleep(Nanos(i))))
            .collect();
        drop(tasks);
        rt::sleep(MS);
    });
    assert_eq!(out.tasks, 5001);
    out.unwrap();
}

#[test]
fn a_panic_in_a_scope_ends_the_simulation_before_the_borrow_ends() {
    let after = AtomicU64::new(0);
    let out = run(|| {
        let local = vec![1u64; 100];
        rt::scope(|s| {
            s.spawn("borrows", || {
                rt::sleep(MS);
                after.fetch_add(local[7], Ordering::SeqCst);
            });
            panic!("in the body");
        })
    });
    assert!(panic_of(&out).starts_with("in the body"));
    assert!(out.payload.is_some() && after.into_inner() == 0);
}

#[test]
fn a_scope_waits_for_its_tasks_and_hands_on_their_panics() {
    let join = SimConfig {
        quiet: true,
        on_panic: rt::OnPanic::Join,
        ..SimConfig::default()
    };
    let out = Sim::new(join.clone()).run(|| {
        let mut done = false;
        rt::scope(|s| {
            s.spawn("late", || {
                rt::sleep(MS);
                done = true;
            });
            let bad = s.spawn("joined", || panic!("planted"));
            assert!(bad.join().is_err());
        });
        done
    });
    assert_eq!(out.value, Some(true));
    let out = Sim::new(join).run(|| {
        rt::scope(|s| {
            s.spawn("not joined", || panic!("planted"));
        });
    });
    assert!(out.value.is_none());
    assert_eq!(
        out.payload.unwrap().downcast_ref::<&str>(),
        Some(&"a scoped task panicked")
    );
}

#[test]
fn channels_end_when_one_side_is_gone() {
    run(|| {
        let (send, recv) = rt::channel::<u8>(1);
        let waiting = rt::spawn("receiver", move || (recv.recv(), recv.recv()));
        rt::yield_now();
        send.send(1).unwrap();
        drop(send);
        assert_eq!(
            waiting.join().unwrap(),
            (Ok(1), Err(rt::RecvError::Disconnected))
        );
        let (send, recv) = rt::channel::<u8>(1);
        let waiting = rt::spawn("sender", move || (send.send(1), send.send(2)));
        rt::yield_now();
        drop(recv);
        let (first, second) = waiting.join().unwrap();
        assert!(first.is_ok() && second == Err(rt::SendError::Disconnected(2)));
    })
    .unwrap();
}

// ---- power
// -----------------------------------------------------------------------------------------------------

/// A task that writes to a device with 1 ms per command until that fails.
fn writer() -> u64 {
    let mut done = 0;
    while rt::sleep_until_power(rt::now() + MS).is_ok() {
        done += 1;
    }
    done
}

#[test]
fn a_power_cut_stops_time_and_tasks_run_out() {
    let out = run(|| {
        let writers: Vec<_> = (0..3).map(|_| rt::spawn("writer", writer)).collect();
        let (send, recv) = rt::channel::<u8>(1);
        let receiver = rt::spawn("receiver", move || recv.recv());
        let sleeper = rt::spawn("sleeper", || rt::sleep(Nanos::from_secs(3600)));
        let shared = Arc::new((Mutex::new(()), Condvar::new()));
        let waiter = {
            let s = shared.clone();
            rt::spawn("waiter", move || s.1.wait_powered(&mut s.0.lock()))
        };
        let timed = {
            let s = shared.clone();
            rt::spawn("timed", move || {
                s.1.wait_until(&mut s.0.lock(), Time(u64::MAX))
            })
        };
        rt::sleep_until(Time(10_500_000));
        rt::power_cut();
        assert!(!rt::powered());
        rt::sleep(Nanos::from_secs(1));
        assert_eq!(rt::sleep_until_power(rt::now() + MS), Err(PowerLost));
        assert_eq!(receiver.join().unwrap(), Err(rt::RecvError::PowerLost));
        assert_eq!(waiter.join().unwrap(), Err(PowerLost));
        assert!(timed.join().unwrap());
        sleeper.join().unwrap();
        drop(send);
        writers.into_iter().map(|w| w.join().unwrap()).sum::<u64>()
    });
    assert_eq!(out.end, Time(10_500_000));
    assert_eq!(out.unwrap(), 30);
}

#[test]
fn a_completion_at_the_very_time_of_the_cut_is_delivered() {
    for main_first in [true, false] {
        let out = run(move || {
            let cut = || {
                rt::sleep_until(Time(3_000_000));
                rt::power_cut();
            };
            let (a, b) = if main_first {
                let c = rt::spawn("cutter", cut);
                (rt::spawn("writer", writer), c)
            } else {
                let w = rt::spawn("writer", writer);
                (w, rt::spawn("cutter", cut))
            };
            b.join().unwrap();
            a.join().unwrap()
        });
        assert_eq!(out.unwrap(), 3);
    }
}

#[test]
fn a_retry_loop_that_ignores_the_cut_is_reported() {
    let out = Sim::new(SimConfig {
        run_out: 1000,
        ..SimConfig::default()
    })
    .run(|| {
        drop(rt::spawn("stubborn", || {
            rt::sleep(Nanos::from_secs(1));
            while rt::sleep_until_power(rt::now() + MS).is_err() {
                rt::sleep(MS);
            }
        }));
        rt::sleep(MS);
        rt::power_cut();
    });
    let Some(Failure::TasksLeft {
        tasks,
        after_cut: true,
    }) = &out.first_failure
    else {
        panic!("{out}")
    };
    assert_eq!(tasks[0].task, "stubborn");
}

#[test]
fn a_forgotten_notify_on_the_error_path_is_a_deadlock_after_the_cut() {
    let out = run(|| {
        let shared = Arc::new((Mutex::named("journal", false), Condvar::named("committed")));
        let other = shared.clone();
        let daemon = rt::spawn("commit", move || {
            if rt::sleep_until_power(rt::now() + MS).is_ok() {
                *other.0.lock() = true;
                other.1.notify_all();
            }
        });
        drop(rt::spawn("cutter", rt::power_cut));
        let mut done = shared.0.lock();
        while !*done {
            shared.1.wait(&mut done);
        }
        drop(done);
        daemon.join().unwrap();
    });
    let Some(Failure::Deadlock {
        tasks,
        after_cut: true,
    }) = &out.first_failure
    else {
        panic!("{out}")
    };
    assert_eq!(tasks.len(), 1);
    assert!(tasks[0].waits_for.contains("condvar `committed`"), "{out}");
}

// ---- stack overflow
// --------------------------------------------------------------------------------------------

#[inline(never)]
fn without_end(n: u64) -> u64 {
    let frame = std::hint::black_box([n; 64]);
    if frame[63] == u64::MAX {
        0
    } else {
        without_end(n + 1) + frame[0]
    }
}

/// Run by the next test in a process of its own.
#[test]
#[ignore = "overflows its stack"]
fn child_overflows() {
    run(|| rt::spawn("deep-thought", || without_end(0)).join().unwrap()).unwrap();
}

#[test]
fn a_stack_overflow_names_the_task() {
    let exe = std::env::current_exe().unwrap();
    let child = std::process::Command::new(exe)
        .args([
            "--ignored",
            "--exact",
            "failures::child_overflows",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success());
    assert!(
        text.contains("rt: stack overflow in simulated task `deep-thought`, stack of 1024 KiB"),
        "{text}"
    );
}
