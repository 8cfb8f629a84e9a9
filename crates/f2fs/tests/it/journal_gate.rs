//! Checks the gate of F2FSJ's epochs on loom's memory model: every interleaving of a few operations
//! with a committer, and every value that a load may see under acquire and release. The code under
//! test is the shipped source.

#[path = "../../src/journal/plane/gate.rs"]
mod gate;

use gate::{Gate, Park, Word, World};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

struct Loom;

impl World for Loom {
    type Word = Atom;
    type Park = Lounge;
}

struct Atom(AtomicU64);

impl Word for Atom {
    fn new(value: u64) -> Self {
        Atom(AtomicU64::new(value))
    }
    fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
    fn store(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }
    fn add(&self, n: u64) -> u64 {
        self.0.fetch_add(n, Ordering::AcqRel)
    }
    fn sub(&self, n: u64) -> u64 {
        self.0.fetch_sub(n, Ordering::AcqRel)
    }
}

struct Lounge {
    lock: Mutex<()>,
    bell: Condvar,
}

impl Park for Lounge {
    fn new() -> Self {
        Lounge {
            lock: Mutex::new(()),
            bell: Condvar::new(),
        }
    }
    fn wait(&self, mut ready: impl FnMut() -> bool) {
        let mut guard = self.lock.lock().expect("no panic");
        while !ready() {
            guard = self.bell.wait(guard).expect("no panic");
        }
    }
    fn wake(&self) {
        drop(self.lock.lock().expect("no panic"));
        self.bell.notify_all();
    }
    fn wake_unlocked(&self) {
        self.bell.notify_all();
    }
}

/// Two epochs at a time: the third one takes the first one's slot.
const K: usize = 2;

/// A gate, and what each task wrote into each epoch: relaxed, that is without any order of their
/// own, so that a reader which the gate does not order behind the writer sees old values in some
/// run.
struct Stage {
    gate: Gate<Loom, K>,
    /// By task, then by epoch.
    lists: Vec<Vec<AtomicU64>>,
}

impl Stage {
    fn new(tasks: usize, shards: usize, epochs: usize) -> Arc<Stage> {
        let cells = || (0..=epochs).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Stage {
            gate: Gate::new(1, shards),
            lists: (0..tasks).map(|_| cells()).collect(),
        })
    }

    /// Operation of task `task`: writes into the list of its epoch twice, as an operation of two
    /// records.
    fn operate(&self, task: usize) -> u64 {
        let epoch = self.gate.pick(task);
        let list = &self.lists[task][epoch as usize];
        for _ in 0..2 {
            let n = list.load(Ordering::Relaxed);
            list.store(n + 1, Ordering::Relaxed);
        }
        self.gate.leave(epoch, task);
        epoch
    }

    /// Closes `epoch`, drains it, and adds up what is in it.
    fn commit(&self, epoch: u64) -> u64 {
        self.gate.switch(epoch);
        self.gate.drain(epoch, || false);
        let of = |list: &Vec<AtomicU64>| list[epoch as usize].load(Ordering::Relaxed);
        self.lists.iter().map(of).sum()
    }
}

fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// An operation and a committer, every interleaving.
#[test]
fn an_operation_is_in_its_epoch() {
    check(None, || {
        let stage = Stage::new(1, 1, 2);
        let committer = {
            let stage = stage.clone();
            thread::spawn(move || stage.commit(1))
        };
        let epoch = stage.operate(0);
        let found = committer.join().expect("no panic");
        assert_eq!(
            found,
            if epoch == 1 { 2 } else { 0 },
            "f2fs-journal-I4: half of it"
        );
    });
}

/// Two tasks and a committer, on one shard or on two: an epoch is read when all that is in it is
/// there. (At most so many preemptions: all would be hours.)
fn tasks_and_a_commit(shards: usize, preemptions: usize) {
    check(Some(preemptions), move || {
        let stage = Stage::new(2, shards, 2);
        let other = {
            let stage = stage.clone();
            thread::spawn(move || stage.operate(1))
        };
        let committer = {
            let stage = stage.clone();
            thread::spawn(move || stage.commit(1))
        };
        let mine = stage.operate(0);
        let others = other.join().expect("no panic");
        let found = committer.join().expect("no panic");
        let expected = [mine, others].iter().filter(|e| **e == 1).count() as u64;
        assert_eq!(
            found,
            2 * expected,
            "f2fs-journal-I4: half an operation, or one too few ({mine}, {others})"
        );
    });
}

#[test]
fn a_drained_epoch_is_whole_on_one_shard() {
    tasks_and_a_commit(1, 3);
}

#[test]
fn a_drained_epoch_is_whole_on_two_shards() {
    tasks_and_a_commit(2, 3);
}

#[test]
#[ignore = "twenty seconds: four preemptions"]
fn a_drained_epoch_is_whole_after_many_preemptions() {
    tasks_and_a_commit(1, 4);
    tasks_and_a_commit(2, 4);
}

/// Three epochs over two slots: an operation that enters the first one's slot late disturbs no
/// other.
#[test]
fn a_slot_is_used_again() {
    check(Some(5), || {
        let stage = Stage::new(1, 1, 3);
        let committer = {
            let stage = stage.clone();
            thread::spawn(move || [stage.commit(1), stage.commit(2)])
        };
        let first = stage.operate(0);
        let second = stage.operate(0);
        assert!(first <= second, "f2fs-journal-I4: {first} before {second}");
        let found = committer.join().expect("no panic");
        for (epoch, found) in [1, 2].into_iter().zip(found) {
            let mine = [first, second].iter().filter(|e| **e == epoch).count();
            assert_eq!(found, 2 * mine as u64, "f2fs-journal-I4: epoch {epoch}");
        }
    });
}

/// Operations that follow each other (by a lock) are in epochs that do, too.
#[test]
fn a_later_operation_is_in_no_earlier_epoch() {
    check(Some(3), || {
        let stage = Stage::new(2, 2, 3);
        let thing = Arc::new(Mutex::new(0));
        let tasks: Vec<_> = (0..2)
            .map(|task| {
                let (stage, thing) = (stage.clone(), thing.clone());
                thread::spawn(move || {
                    let mut last = thing.lock().expect("no panic");
                    let epoch = stage.operate(task);
                    assert!(
                        *last <= epoch,
                        "f2fs-journal-I4: epoch {epoch} behind {}",
                        *last
                    );
                    *last = epoch;
                })
            })
            .collect();
        stage.gate.switch(1);
        for task in tasks {
            task.join().expect("no panic");
        }
        // No operation is left, so the drain does not wait.
        assert!(stage.gate.drain(1, || false) && stage.gate.is_empty(2));
        stage.gate.wake_unlocked();
    });
}

/// The proof is not blind: an operation that does not look again after it has raised the counter is
/// missing from its epoch.
#[test]
fn a_gate_without_the_second_look_is_caught() {
    let caught = std::panic::catch_unwind(|| {
        check(None, || {
            let stage = Stage::new(1, 1, 2);
            let committer = {
                let stage = stage.clone();
                thread::spawn(move || stage.commit(1))
            };
            let epoch = stage.gate.running();
            stage.lists[0][epoch as usize].store(2, Ordering::Relaxed);
            let found = committer.join().expect("no panic");
            assert!(
                epoch != 1 || found == 2,
                "f2fs-journal-I4: the operation is missing"
            );
        });
    });
    assert!(caught.is_err(), "loom sees no race where there is one");
}
