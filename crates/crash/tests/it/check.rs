//! The checker of crash states: what fails in one state is blamed on that state, whatever stands
//! beside it.

use blockdev::Image;
use blockdev::spec::{Bound, Choice};
use rt::{Condvar, Mutex};
use std::sync::Arc;
use varve_crash::cells::Cell;
use varve_crash::check::{CheckOptions, Checker};
use varve_crash::ops::Op;
use varve_crash::oracle::Oracle;
use varve_crash::subject::{self, Files};
use varve_crash::traced::{Traced, trace};
use varve_crash::{CrashConfig, Judgement, Script, Target, Volume, tiny_volume};
use vfs::Vfs;

struct Bench {
    config: CrashConfig,
    volume: Volume,
}

fn bench(scheme: &str) -> Bench {
    let stack = tiny_volume(scheme.parse().unwrap(), 1);
    let target = Target::Spec(Cell::all()[0].caps(stack.bytes));
    let volume = Volume::new(&stack, &target).unwrap();
    let mut config = CrashConfig::new(stack, target, 3, Script::Fixed(Vec::new()), 0);
    config.busy = false;
    Bench { config, volume }
}

/// States that hold 0, 1, 2, ... names, each synced.
fn states_by_names(bench: &Bench) -> Vec<Image> {
    let ops = (0..6).flat_map(|n| [Op::Create(format!("/f{n}")), Op::Sync]);
    let script = Script::Fixed(vec![ops.collect()]);
    let traced = trace(&bench.config, &bench.volume, &Files { script }).unwrap();
    assert_eq!(traced.failure, None);
    let mut cursor = traced.trace.cursor();
    let mut states = Vec::new();
    for at in traced.trace.cut_points() {
        cursor.seek(at);
        let state = cursor.image(&Choice::Newest);
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    states
}

/// The different states of the richest cut of a mix, and its oracle as it stands there.
fn states_of_a_mix(bench: &Bench) -> (Vec<Image>, Box<dyn Oracle>) {
    let mix = subject::parse("mix").unwrap();
    let Traced {
        trace, mut oracle, ..
    } = trace(&bench.config, &bench.volume, mix.as_ref()).unwrap();
    let mut cursor = trace.cursor();
    let mut richest = (base::Time(0), Vec::new());
    for at in trace.cut_points() {
        cursor.seek(at);
        let choices = cursor.choices(&Bound::default());
        let mut states: Vec<Image> = choices.iter().map(|c| cursor.image(c)).collect();
        states.sort_by_key(Image::content_hash);
        states.dedup();
        if states.len() > richest.1.len() {
            richest = (at, states);
        }
    }
    let (at, states) = richest;
    oracle.advance(at);
    (states, oracle)
}

fn judged(checker: &Checker<'_>, oracle: &dyn Oracle, states: &[Image]) -> Vec<Judgement> {
    let mut all = Vec::new();
    let mut each = |n, judgement| {
        assert_eq!(n, all.len());
        all.push(judgement);
        true
    };
    checker.check(oracle, states, &mut each).unwrap();
    all
}

/// Does something at states with so many names.
struct At<F>(F);

impl<F: Fn(usize, &Arc<Vfs>, &mut Judgement) + Send> Oracle for At<F> {
    fn advance(&mut self, _: base::Time) {}
    fn epoch(&self) -> u64 {
        0
    }
    fn position(&self) -> usize {
        0
    }
    fn moments(&self) -> Vec<base::Time> {
        Vec::new()
    }
    fn judge(&self, vfs: &Arc<Vfs>, judgement: &mut Judgement) {
        let names = vfs.readdir("/t0").map_or(0, |names| names.len() - 2);
        (self.0)(names, vfs, judgement);
    }
    fn story(&self) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn a_state_that_panics_spins_or_waits_for_ever_is_blamed_alone() {
    let bench = bench("jbd2");
    let states = states_by_names(&bench);
    let note = |names: usize, judgement: &mut Judgement| {
        judgement.violations.push(format!("names {names}"));
    };
    let quiet = At(|names, _: &Arc<Vfs>, judgement: &mut Judgement| note(names, judgement));
    let checker = Checker::new(&bench.config, &bench.volume);
    let calm = judged(&checker, &quiet, &states);
    assert_eq!(checker.checked().sims, 1);
    assert_eq!(
        checker.checked().tasks,
        1,
        "check-K2: a state starts no task"
    );

    let wild = At(|names, _: &Arc<Vfs>, judgement: &mut Judgement| {
        note(names, judgement);
        let lock = Mutex::new(());
        match names {
            2 => panic!("two names"),
            3 => loop {
                drop(lock.lock());
            },
            4 => Condvar::new().wait(&mut lock.lock()),
            _ => {}
        }
    });
    let checker = Checker::new(&bench.config, &bench.volume);
    let all = judged(&checker, &wild, &states);
    let mut met = [0; 7];
    for (calm, wild) in calm.iter().zip(&all) {
        assert_eq!(wild.violations[0], calm.violations[0]);
        let names: usize = calm.violations[0][6..].parse().unwrap();
        met[names] += 1;
        let rest = wild.violations[1..].join(" ");
        let expected = match names {
            2 => "two names",
            3 => "no progress",
            4 => "deadlock",
            _ => {
                assert_eq!(rest, "");
                continue;
            }
        };
        let recovery = rest.starts_with("R1: recovery: ");
        assert!(recovery && rest.contains(expected), "{names}: {rest}");
    }
    assert!(met.iter().all(|n| *n > 0), "{met:?}");
    let checked = checker.checked();
    assert_eq!(checked.states, states.len() as u64);
    assert_eq!((checked.died, checked.timed_out), (met[2] + met[4], met[3]));
    // Alone each of them says the same.
    for (state, together) in states.iter().zip(&all) {
        let alone = judged(&checker, &wild, std::slice::from_ref(state));
        assert_eq!(alone[0].violations, together.violations);
    }
}

#[test]
fn the_closer_look_depends_on_the_state_alone_and_finds_nothing() {
    for scheme in ["jbd2", "emmc"] {
        let bench = bench(scheme);
        let (states, oracle) = states_of_a_mix(&bench);
        let run = |deep_one_in, states: &[Image]| {
            let options = CheckOptions {
                deep_one_in,
                fsck: true,
            };
            let checker = Checker::with(&bench.config, &bench.volume, options);
            let all = judged(&checker, oracle.as_ref(), states);
            let clean = all.iter().all(|j| j.violations.is_empty());
            assert!(clean, "{scheme}: {all:?}");
            (all, checker.checked().deep)
        };
        let count = states.len() as u64;
        assert_eq!((run(0, &states).1, run(1, &states).1), (0, count));
        let (mut forward, some) = run(3, &states);
        assert!(0 < some && some < count, "{some} of {count}");
        let backward: Vec<Image> = states.iter().rev().cloned().collect();
        let (back, again) = run(3, &backward);
        assert_eq!(some, again);
        forward.reverse();
        let losses = |all: &[Judgement]| -> Vec<_> {
            let plain = all.iter().cloned().map(|j| Judgement {
                reached: Default::default(),
                ..j
            });
            plain.collect()
        };
        assert_eq!(losses(&forward), losses(&back));
    }
}

#[test]
fn a_mount_for_writing_that_shows_something_else_is_found() {
    let bench = bench("jbd2");
    let states = states_by_names(&bench);
    let last = std::slice::from_ref(states.last().unwrap());
    let options = CheckOptions {
        deep_one_in: 1,
        fsck: false,
    };
    let checker = Checker::with(&bench.config, &bench.volume, options);
    let writes = At(|_, vfs: &Arc<Vfs>, judgement: &mut Judgement| {
        if vfs.mkdir("/new", 0o700).is_ok() {
            judgement.violations.push("O9: new".into());
        }
    });
    let words = judged(&checker, &writes, last)[0].violations.join(" ");
    assert!(
        words.contains("a mount for writing shows something else") && words.contains("O9: new"),
        "{words}"
    );
    // The directory is there already the next time.
    let words = judged(&checker, &writes, last)[0].violations.join(" ");
    assert!(words.contains("after the next unmount shows"), "{words}");
}

#[cfg(feature = "mutants")]
#[test]
fn guards_of_recovery_are_reached_and_counted_in_every_state() {
    let bench = bench("jbd2");
    let (states, oracle) = states_of_a_mix(&bench);
    let reached = |states: &[Image]| -> u64 {
        let checker = Checker::new(&bench.config, &bench.volume);
        let all = judged(&checker, oracle.as_ref(), states);
        let one = |j: &Judgement| j.reached.get(&base::Mutant::ReuseTid).copied().unwrap_or(0);
        all.iter().map(one).sum()
    };
    let single: u64 = states
        .iter()
        .map(|s| reached(std::slice::from_ref(s)))
        .sum();
    assert!(single > 0);
    assert_eq!(reached(&states), single);
}

#[test]
fn a_tiny_volume_has_a_second_group_with_the_backup_of_its_superblock() {
    let bench = bench("jbd2");
    let traced = trace(
        &bench.config,
        &bench.volume,
        &Files {
            script: Script::Fixed(Vec::new()),
        },
    );
    let image = traced.unwrap().trace.start;
    let magic = |block: u64, at: usize| image.block(block)[at + 56..at + 58].to_vec();
    assert_eq!(magic(0, 1024), magic(32768, 0));
    assert_eq!(magic(32768, 0), [0x53, 0xEF]);
}

#[test]
fn a_torn_superblock_is_not_held_against_a_read_only_mount() {
    let bench = bench("jbd2");
    let (states, oracle) = states_of_a_mix(&bench);
    let options = CheckOptions {
        fsck: true,
        ..CheckOptions::default()
    };
    // As a cut in an unmount leaves it: the log is empty.
    let traced = trace(
        &bench.config,
        &bench.volume,
        &Files {
            script: Script::Fixed(Vec::new()),
        },
    );
    let traced = traced.unwrap();
    let mut cursor = traced.trace.cursor();
    cursor.seek(*traced.trace.cut_points().last().unwrap());
    let mut torn = cursor.image(&Choice::Newest);
    torn.edit_block(0, |bytes| bytes[1024 + 0x34] ^= 1);
    let mut damaged = states[0].clone();
    damaged.edit_block(32768, |bytes| bytes[0x34] ^= 1);
    let quiet = At(|_, _: &Arc<Vfs>, _: &mut Judgement| {});
    let checker = Checker::with(&bench.config, &bench.volume, options);
    assert_eq!(judged(&checker, &quiet, &[torn])[0].violations, [""; 0]);
    let words = judged(&checker, oracle.as_ref(), &[damaged])[0]
        .violations
        .join(" ");
    assert!(words.contains("R4: varve fsck: "), "{words}");
}

#[test]
fn orphans_of_a_cut_are_not_held_against_a_read_only_mount() {
    let mut bench = bench("jbd2");
    bench.config.busy = false;
    let options = CheckOptions {
        fsck: true,
        ..CheckOptions::default()
    };
    // A directory that is removed while it is in use keeps its `..` until it is evicted.
    let ops = [
        Op::Mkdir("/d".into()),
        Op::Create("/f".into()),
        Op::Hold("/f".into()),
        Op::Unlink("/f".into()),
        Op::Rmdir("/d".into()),
        Op::Sync,
    ];
    let script = Script::Fixed(vec![ops.to_vec()]);
    let Traced {
        trace, mut oracle, ..
    } = trace(&bench.config, &bench.volume, &Files { script }).unwrap();
    let mut cursor = trace.cursor();
    let checker = Checker::with(&bench.config, &bench.volume, options);
    for at in trace.cut_points() {
        cursor.seek(at);
        oracle.advance(at);
        let image = cursor.image(&Choice::Newest);
        let all = judged(&checker, oracle.as_ref(), &[image]);
        assert_eq!(all[0].violations, [""; 0]);
    }
}
