//! Runs the same programs in both worlds, and checks what only a simulation can promise about them.

use base::{Nanos, Set, Time};
use std::sync::Arc;
use varve_rt::atomic::{AtomicU64, Ordering};
use varve_rt::{self as rt, Condvar, Mutex, OnPanic, Policy, RwLock, Semaphore, Sim, SimConfig};

/// Money moves between accounts under two locks each; the sum stays.
fn bank() -> u64 {
    const ACCOUNTS: usize = 8;
    let accounts: Arc<Vec<_>> = Arc::new((0..ACCOUNTS).map(|_| Mutex::new(100u64)).collect());
    let clerks: Vec<_> = (0..4)
        .map(|clerk| {
            let accounts = accounts.clone();
            rt::spawn(&format!("clerk-{clerk}"), move || {
                let mut rng = rt::rng(&format!("clerk-{clerk}"));
                for _ in 0..50 {
                    let (a, b) = (rng.below(8) as usize, rng.below(8) as usize);
                    if a == b {
                        continue;
                    }
                    let mut first = accounts[a.min(b)].lock();
                    rt::charge(Nanos(100));
                    let mut second = accounts[a.max(b)].lock();
                    let amount = rng.below(20).min(*first);
                    *first -= amount;
                    *second += amount;
                }
            })
        })
        .collect();
    clerks.into_iter().for_each(|c| c.join().unwrap());
    accounts.iter().map(|a| *a.lock()).sum()
}

/// A bounded buffer of two condvars, by hand.
fn bounded_buffer() -> u64 {
    #[derive(Default)]
    struct Buffer {
        items: Mutex<std::collections::VecDeque<u64>>,
        not_full: Condvar,
        not_empty: Condvar,
    }
    let buffer = Arc::new(Buffer::default());
    let put = |who: u64| {
        let b = buffer.clone();
        rt::spawn("producer", move || {
            for i in 0..100 {
                let mut items = b.items.lock();
                while items.len() >= 3 {
                    b.not_full.wait(&mut items);
                }
                items.push_back(who * 1000 + i);
                b.not_empty.notify_one();
            }
        })
    };
    let take = || {
        let b = buffer.clone();
        rt::spawn("consumer", move || {
            let mut sum = 0;
            for _ in 0..100 {
                let mut items = b.items.lock();
                while items.is_empty() {
                    b.not_empty.wait(&mut items);
                }
                sum += items.pop_front().unwrap();
                b.not_full.notify_one();
                drop(items);
                rt::yield_now();
            }
            sum
        })
    };
    let producers = [put(1), put(2)];
    let consumers = [take(), take()];
    producers.into_iter().for_each(|p| p.join().unwrap());
    consumers.into_iter().map(|c| c.join().unwrap()).sum()
}

/// Numbers pass three stages; the last one stops when the channel ends.
fn pipeline() -> u64 {
    let (to_square, squares_in) = rt::channel::<u64>(2);
    let (to_sum, sum_in) = rt::channel::<u64>(5);
    let squarers: Vec<_> = (0..2)
        .map(|_| {
            let (input, output) = (squares_in.clone(), to_sum.clone());
            rt::spawn("squarer", move || {
                for n in input.iter() {
                    rt::charge(Nanos(n));
                    output.send(n * n).unwrap();
                }
            })
        })
        .collect();
    drop((squares_in, to_sum));
    let sum = rt::spawn("sum", move || sum_in.iter().sum::<u64>());
    for n in 0..100 {
        to_square.send(n).unwrap();
    }
    drop(to_square);
    squarers.into_iter().for_each(|s| s.join().unwrap());
    sum.join().unwrap()
}

/// Readers never see a half-written pair.
fn readers_and_writers() -> u64 {
    let pair = Arc::new(RwLock::new((0u64, 0u64)));
    rt::scope(|s| {
        for _ in 0..2 {
            s.spawn("writer", || {
                for _ in 0..50 {
                    let mut p = pair.write();
                    p.0 += 1;
                    rt::yield_now();
                    p.1 += 1;
                }
            });
        }
        for _ in 0..4 {
            s.spawn("reader", || {
                for _ in 0..50 {
                    let p = pair.read();
                    let first = p.0;
                    rt::yield_now();
                    assert_eq!(first, p.1);
                }
            });
        }
    });
    let p = pair.read();
    p.0 + p.1
}

/// At most three tasks inside, and the one that wants all permits gets them.
fn semaphore() -> u64 {
    let (permits, inside, most) = (Semaphore::new(3), AtomicU64::new(0), AtomicU64::new(0));
    rt::scope(|s| {
        for _ in 0..6 {
            s.spawn("small", || {
                for _ in 0..20 {
                    permits.acquire(1);
                    let now_inside = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now_inside <= 3);
                    most.fetch_max(now_inside, Ordering::SeqCst);
                    rt::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    permits.release(1);
                }
            });
        }
        s.spawn("large", || {
            for _ in 0..10 {
                permits.acquire(3);
                assert_eq!(inside.load(Ordering::SeqCst), 0);
                permits.release(3);
            }
        });
    });
    assert!(most.load(Ordering::SeqCst) <= 3);
    permits.available()
}

/// `join` hands over the payload of a panic, and no lock is poisoned.
fn panic_in_a_task() -> u64 {
    let value = Arc::new(Mutex::new(1u64));
    let inner = value.clone();
    let bad = rt::spawn("bad", move || {
        let mut guard = inner.lock();
        *guard += 1;
        std::panic::resume_unwind(Box::new("planted"));
    });
    let payload = bad.join().unwrap_err();
    assert_eq!(*payload.downcast_ref::<&str>().unwrap(), "planted");
    *value.lock()
}

/// Sleepers finish in the order of their times.
fn sleep_ordering() -> u64 {
    let log = Mutex::new(Vec::new());
    let base = rt::now();
    rt::scope(|s| {
        for ms in [30u64, 10, 20] {
            let log = &log;
            s.spawn("sleeper", move || {
                rt::sleep_until(base + Nanos::from_millis(ms));
                assert!(rt::now() >= base + Nanos::from_millis(ms));
                log.lock().push(ms);
            });
        }
    });
    log.into_inner().iter().fold(0, |n, ms| n * 100 + ms)
}

/// `wait_until` times out, or not, and says which.
fn timeouts() -> u64 {
    let shared = Arc::new((Mutex::new(false), Condvar::new()));
    let mut flag = shared.0.lock();
    let soon = rt::now() + Nanos::from_millis(5);
    let mut timed_out = false;
    while !timed_out {
        timed_out = shared.1.wait_until(&mut flag, soon);
    }
    assert!(rt::now() >= soon);
    let other = shared.clone();
    let setter = rt::spawn("setter", move || {
        *other.0.lock() = true;
        other.1.notify_all();
    });
    let late = rt::now() + Nanos::from_secs(100);
    while !*flag {
        assert!(!shared.1.wait_until(&mut flag, late));
    }
    drop(flag);
    setter.join().unwrap();
    u64::from(rt::now() < late)
}

type Program = (&'static str, fn() -> u64, u64);

const PROGRAMS: [Program; 8] = [
    ("bank", bank, 800),
    ("bounded buffer", bounded_buffer, 100 * 3000 + 2 * 4950),
    ("pipeline", pipeline, 328_350),
    ("readers and writers", readers_and_writers, 200),
    ("semaphore", semaphore, 3),
    ("panic in a task", panic_in_a_task, 2),
    ("sleep ordering", sleep_ordering, 102_030),
    ("timeouts", timeouts, 1),
];

fn config(seed: Option<u64>) -> SimConfig {
    let cfg = seed.map_or_else(SimConfig::default, SimConfig::random);
    SimConfig {
        quiet: true,
        on_panic: OnPanic::Join,
        cores: 2,
        ..cfg
    }
}

fn expected_failure(name: &str, out: &rt::Outcome<u64>) -> bool {
    match &out.first_failure {
        None => name != "panic in a task",
        Some(rt::Failure::Panic { task, message, .. }) => {
            name == "panic in a task" && task == "bad" && message == "planted"
        }
        Some(_) => false,
    }
}

#[test]
fn every_program_gives_the_same_answer_in_both_worlds() {
    for (name, program, answer) in PROGRAMS {
        assert_eq!(program(), answer, "{name}, real");
        for seed in [None, Some(1), Some(2), Some(3)] {
            let out = Sim::new(config(seed)).run(program);
            assert!(expected_failure(name, &out), "{name}: {out}");
            assert_eq!(out.value, Some(answer), "{name}, {}", out.replay);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for (name, program, _) in PROGRAMS {
        for seed in [None, Some(7)] {
            let run = || Sim::new(config(seed)).run(program);
            let (a, b) = (run(), run());
            assert_eq!(
                (a.trace_hash, a.switches, a.end),
                (b.trace_hash, b.switches, b.end),
                "{name}, {}",
                a.replay
            );
        }
    }
}

#[test]
fn the_fast_paths_are_not_observable() {
    for (name, program, _) in PROGRAMS {
        for (seed, cores) in [(None, 1), (None, 4), (Some(3), 1), (Some(4), 2)] {
            let run = |fast_path| {
                Sim::new(SimConfig {
                    fast_path,
                    cores,
                    ..config(seed)
                })
                .run(program)
            };
            let (a, b) = (run(true), run(false));
            assert_eq!(
                (a.trace_hash, a.switches, a.end),
                (b.trace_hash, b.switches, b.end),
                "{name}"
            );
        }
    }
}

#[test]
fn fifty_seeds_are_reproduced_and_nearly_all_different() {
    let run = |seed| Sim::new(config(Some(seed))).run(bank).trace_hash;
    let first: Vec<u64> = (0..50).map(run).collect();
    let again: Vec<u64> = (0..50).map(run).collect();
    assert_eq!(first, again);
    let different: Set<u64> = first.into_iter().collect();
    assert!(
        different.len() >= 48,
        "only {} different runs",
        different.len()
    );
}

/// Two tasks check a balance, then act on what they saw.
fn check_then_act() -> i64 {
    let balance = Arc::new(Mutex::new(100i64));
    let withdraw = |name: &str| {
        let balance = balance.clone();
        rt::spawn(name, move || {
            if *balance.lock() >= 100 {
                *balance.lock() -= 100;
            }
        })
    };
    let tasks = [withdraw("a"), withdraw("b")];
    tasks.into_iter().for_each(|t| t.join().unwrap());
    *balance.lock()
}

#[test]
fn random_schedules_find_a_race_that_fifo_order_hides() {
    assert_eq!(
        Sim::new(SimConfig::default()).run(check_then_act).unwrap(),
        0
    );
    let found =
        (0..200).filter(|s| Sim::new(SimConfig::random(*s)).run(check_then_act).unwrap() < 0);
    let found = found.count();
    assert!((5..150).contains(&found), "found by {found} of 200 seeds");
}

#[test]
fn random_schedules_interleave_atomics() {
    let lost_update = || {
        let n = AtomicU64::new(0);
        rt::scope(|s| {
            for _ in 0..2 {
                s.spawn("t", || {
                    n.store(n.load(Ordering::SeqCst) + 1, Ordering::SeqCst)
                });
            }
        });
        n.into_inner()
    };
    assert_eq!(Sim::new(SimConfig::default()).run(lost_update).unwrap(), 2);
    let lost = (0..100).filter(|s| Sim::new(SimConfig::random(*s)).run(lost_update).unwrap() == 1);
    assert!(lost.count() > 5);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn two_simulations_run_in_parallel_threads() {
    let alone: Vec<u64> = (0..4)
        .map(|s| Sim::new(config(Some(s))).run(bank).trace_hash)
        .collect();
    let together: Vec<u64> = std::thread::scope(|s| {
        let run = |seed| move || Sim::new(config(Some(seed))).run(bank).trace_hash;
        let threads: Vec<_> = (0..4).map(|seed| s.spawn(run(seed))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(alone, together);
}

fn all_hashes() -> Vec<u64> {
    let run = |seed| PROGRAMS.map(|(_, program, _)| Sim::new(config(seed)).run(program).trace_hash);
    [run(None), run(Some(5))].concat()
}

/// Run by the next test in processes of their own.
#[test]
#[ignore = "prints the hashes for another test"]
#[allow(clippy::disallowed_macros)]
fn child_prints_hashes() {
    println!("hashes {:?}", all_hashes());
}

#[test]
fn another_process_with_other_addresses_gives_the_same_runs() {
    let expected = format!("hashes {:?}", all_hashes());
    for _ in 0..2 {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "worlds::child_prints_hashes",
                "--nocapture",
            ])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout);
        assert!(text.contains(&expected), "{text}\nexpected {expected}");
    }
}

#[test]
fn streams_depend_on_seed_and_name_only() {
    let draw = |seed, name: &'static str| {
        Sim::new(SimConfig::seeded(seed))
            .run(move || rt::rng(name).next_u64())
            .unwrap()
    };
    assert_eq!(draw(1, "a"), draw(1, "a"));
    assert_ne!(draw(1, "a"), draw(2, "a"));
    assert_ne!(draw(1, "a"), draw(1, "b"));
    assert_eq!(draw(1, "a"), base::Rng::named(1, "a").next_u64());
}

#[test]
fn the_trace_has_the_words_of_the_program() {
    let run = |word| {
        Sim::new(SimConfig::default())
            .run(move || rt::trace(word))
            .trace_hash
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn the_real_clock_goes_on() {
    let before = rt::now();
    rt::sleep(Nanos::from_millis(2));
    assert!(rt::now() >= before + Nanos::from_millis(2));
    assert!(rt::now() > Time(0) && rt::wall().secs > 1_700_000_000);
    assert!(rt::powered() && !rt::in_simulation() && !rt::unwinding());
}

/// Two tasks that take turns, each with a value of its own, and one without.
fn turns() -> Vec<Option<u32>> {
    let seen = || rt::local::<u32>().map(|value| *value);
    let tasks: Vec<_> = [Some(7u32), Some(9), None]
        .into_iter()
        .map(|own| {
            rt::spawn("turns", move || {
                let look = || {
                    (0..20).for_each(|_| {
                        rt::yield_now();
                        assert_eq!(seen(), own);
                    });
                    seen()
                };
                match own {
                    Some(own) => rt::with_local(own, look),
                    None => look(),
                }
            })
        })
        .collect();
    (tasks.into_iter().map(|task| task.join().unwrap())).collect()
}

#[test]
fn a_value_belongs_to_its_task_and_its_call() {
    let seen = || rt::local::<u32>().map(|value| *value);
    rt::with_local(1u32, || {
        rt::with_local(2u32, || {
            rt::with_local("of another type", || assert_eq!(seen(), Some(2)));
        });
        assert_eq!(seen(), Some(1), "local-V2");
        let child = rt::spawn("child", move || rt::local::<u32>().is_none());
        assert!(child.join().unwrap(), "local-V1");
    });
    let ended = rt::foreign(|| rt::with_local(3u32, || panic!("planted")));
    assert!(ended.is_err());
    assert_eq!(seen(), None, "local-V2");
    assert_eq!(turns(), [Some(7), Some(9), None]);
    for seed in 0..8 {
        let cfg = SimConfig {
            seed,
            policy: Policy::Random { yield_one_in: 2 },
            ..SimConfig::default()
        };
        let out = Sim::new(cfg).run(|| {
            let (outer, child) = rt::with_local(5u32, || {
                let child = rt::spawn("child", seen);
                (turns(), child.join().unwrap())
            });
            assert_eq!(child, None, "local-V1");
            (outer, seen())
        });
        assert_eq!(out.unwrap(), (vec![Some(7), Some(9), None], None));
    }
}
