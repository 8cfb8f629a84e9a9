//! Measures what a switch, a lock and a task cost in both worlds: `cargo bench -p varve-rt`.

use base::Nanos;
use corosensei::{Coroutine, CoroutineResult};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use varve_rt::{self as rt, Condvar, Mutex, RwLock, Sim, SimConfig};

fn main() {
    divan::main();
}

/// Operations per measured call, so that the set-up of a simulation does not show.
const N: u64 = 100_000;

/// Times `f`, which performs `N` operations inside of a simulation.
fn simulated(bencher: Bencher<'_, '_>, f: impl Fn() + Sync) {
    let cfg = || SimConfig {
        no_progress_limit: u64::MAX / 128,
        ..SimConfig::default()
    };
    bencher
        .counter(ItemsCount::new(N))
        .bench(|| Sim::new(cfg()).run(&f).unwrap());
}

/// Times `f`, which performs `N` operations in the real world.
fn real(bencher: Bencher<'_, '_>, f: impl Fn() + Sync) {
    bencher.counter(ItemsCount::new(N)).bench(f);
}

/// The floor: one resume and one suspend of a bare coroutine.
#[divan::bench]
fn raw_resume_and_suspend(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        let mut co = Coroutine::new(|y, ()| (0..N).for_each(|_| y.suspend(())));
        while let CoroutineResult::Yield(()) = co.resume(()) {}
    });
}

#[divan::bench(args = [2, 32, 1000])]
fn switch_task_to_task(bencher: Bencher<'_, '_>, tasks: u64) {
    simulated(bencher, || in_tasks(tasks, || rt::yield_now()));
}

#[divan::bench(args = [2, 32, 1000])]
fn sleep_with_others(bencher: Bencher<'_, '_>, tasks: u64) {
    simulated(bencher, || in_tasks(tasks, || rt::sleep(Nanos(100))));
}

fn in_tasks(tasks: u64, f: impl Fn() + Sync) {
    rt::scope(|s| {
        for _ in 0..tasks {
            s.spawn("t", || (0..N / tasks).for_each(|_| f()));
        }
    });
}

#[divan::bench]
fn sleep_alone(bencher: Bencher<'_, '_>) {
    simulated(bencher, || (0..N).for_each(|_| rt::sleep(Nanos(100))));
}

#[divan::bench]
fn charge_alone(bencher: Bencher<'_, '_>) {
    simulated(bencher, || (0..N).for_each(|_| rt::charge(Nanos(100))));
}

fn lock_unlock() {
    let m = Mutex::new(0u64);
    (0..N).for_each(|_| *black_box(&m).lock() += 1);
}

#[divan::bench]
fn mutex_uncontended_simulated(bencher: Bencher<'_, '_>) {
    simulated(bencher, lock_unlock);
}

#[divan::bench]
fn mutex_uncontended_real(bencher: Bencher<'_, '_>) {
    real(bencher, lock_unlock);
}

/// The floor of the one above.
#[divan::bench]
#[allow(clippy::disallowed_types)]
fn mutex_uncontended_parking_lot(bencher: Bencher<'_, '_>) {
    let m = parking_lot::Mutex::new(0u64);
    real(bencher, || (0..N).for_each(|_| *black_box(&m).lock() += 1));
}

fn read_unlock() {
    let m = RwLock::new(1u64);
    (0..N).for_each(|_| assert_eq!(*black_box(&m).read(), 1));
}

#[divan::bench]
fn rwlock_read_simulated(bencher: Bencher<'_, '_>) {
    simulated(bencher, read_unlock);
}

#[divan::bench]
fn rwlock_read_real(bencher: Bencher<'_, '_>) {
    real(bencher, read_unlock);
}

#[divan::bench]
fn mutex_handed_over(bencher: Bencher<'_, '_>) {
    simulated(bencher, || {
        let m = Mutex::new(0u64);
        in_tasks(4, || {
            let mut g = m.lock();
            rt::yield_now();
            *g += 1;
        });
    });
}

#[divan::bench]
fn condvar_round_trip(bencher: Bencher<'_, '_>) {
    simulated(bencher, || {
        let (turn, changed) = (Mutex::new(0u64), Condvar::new());
        let play = |me: u64| {
            for _ in 0..N {
                let mut t = turn.lock();
                while *t != me {
                    changed.wait(&mut t);
                }
                *t = 1 - me;
                changed.notify_one();
            }
        };
        rt::scope(|s| {
            s.spawn("ping", || play(0));
            s.spawn("pong", || play(1));
        });
    });
}

#[divan::bench]
fn channel_message(bencher: Bencher<'_, '_>) {
    simulated(bencher, || {
        let (send, recv) = rt::channel(16);
        let sum = rt::spawn("receiver", move || recv.iter().sum::<u64>());
        (0..N).for_each(|n| send.send(n).expect("the receiver is there"));
        drop(send);
        black_box(sum.join().expect("no panic"));
    });
}

#[divan::bench]
fn spawn_and_join_simulated(bencher: Bencher<'_, '_>) {
    simulated(bencher, || {
        (0..N).for_each(|_| rt::spawn("t", || ()).join().expect("no panic"))
    });
}

#[divan::bench]
fn spawn_and_join_real(bencher: Bencher<'_, '_>) {
    bencher.bench(|| rt::spawn("t", || ()).join().expect("no panic"));
}

/// Nine tasks, from set-up to the outcome.
#[divan::bench]
fn whole_small_simulation(bencher: Bencher<'_, '_>) {
    bencher.bench(|| {
        let out = Sim::new(SimConfig::default()).run(|| {
            let tasks: Vec<_> = (0..8)
                .map(|_| rt::spawn("t", || rt::sleep(Nanos(5))))
                .collect();
            tasks.into_iter().for_each(|t| t.join().expect("no panic"));
        });
        out.unwrap()
    });
}
