//! Each idea of F2FSJ left out in turn: what a cut leaves, and that no task waits for ever where
//! operations wait for a switch.

use super::common::{disk, sim, try_mount, try_mount_alone, volume};
use super::world::{Cut, PLAIN, World};
use base::{Nanos, Rng};
use fscore::{Creds, Errno, FileKind, FileSystem, FsResult, RenameMode};
use rt::{Policy, Sim, SimConfig};
use testkit::Brief;
use varve_f2fs::{CommitReason, F2fs, JournalStats, WaitCause};

const KEYS: [(&str, [&str; 2]); 4] = [
    ("records", ["changes", "pages"]),
    ("lists", ["inode", "global"]),
    ("switch", ["open", "wait"]),
    ("fast-forward", ["on", "off"]),
];

/// Options that leave out the ideas whose bits are set.
fn options(left_out: u32) -> String {
    let keys = KEYS.iter().enumerate();
    let words =
        keys.map(|(n, (key, values))| format!("{key}={}", values[(left_out >> n & 1) as usize]));
    words.collect::<Vec<_>>().join(",")
}

/// All 16 of them.
fn choices() -> impl Iterator<Item = (u32, String)> {
    (0..16).map(|n| (n, options(n)))
}

/// A life of one task, with a cut behind every few of its steps.
fn cuts(seed: u64, ring: u32, options: &str, steps: u32) -> Vec<Cut> {
    sim(seed, || {
        let device = disk(ring, volume(ring), seed);
        let options = format!("{PLAIN},{options}");
        let mut world = World::new(try_mount_alone(&device, &options).expect("mounts"), seed);
        (world.files_max, world.pages_max) = (12, 30);
        let mut cuts = Vec::new();
        for step in 0..steps {
            world.step().unwrap_or_else(|e| panic!("step {step}: {e}"));
            if step % 6 == 5 {
                cuts.push(world.cut(&device, seed + u64::from(step)));
            }
        }
        world.fs.check();
        let stats = world.fs.journal_stats().expect("a journal");
        assert!(stats.commits() > 3, "{stats:?}");
        cuts
    })
}

/// All ideas, each one left out alone, and none.
#[test]
fn a_cut_leaves_whole_epochs_without_each_idea() {
    whole_epochs(|left_out| matches!(left_out.count_ones(), 0 | 1 | 4));
}

#[test]
#[ignore = "half a minute: those of which two or three are left out"]
fn a_cut_leaves_whole_epochs_with_each_choice() {
    whole_epochs(|left_out| matches!(left_out.count_ones(), 2 | 3));
}

fn whole_epochs(wanted: fn(u32) -> bool) {
    for (n, options) in choices().filter(|(n, _)| wanted(*n)) {
        let ring = [16, 64][(n.count_ones() % 2) as usize];
        let seed = 40 + u64::from(n);
        for (at, cut) in cuts(seed, ring, &options, 48).iter().enumerate() {
            let judged = cut.judge(ring, &format!("{PLAIN},{options}"));
            assert_eq!(
                judged,
                Ok(()),
                "{options}, ring {ring}, seed {seed}, cut {at}"
            );
        }
    }
}

/// What one idea made can be recovered with another: what lies in the ring says what it is.
#[test]
fn another_choice_recovers_it() {
    for (made, mounted) in [(15, 0), (0, 15), (6, 9), (1, 14)] {
        let made = options(made);
        for cut in cuts(7, 64, &made, 30) {
            let mounted = format!("{PLAIN},{}", options(mounted));
            let judged = cut.judge(64, &mounted);
            assert_eq!(judged, Ok(()), "{made}, then {mounted}");
        }
    }
}

/// Errors that tasks get which work on the same names: no room, or another task was faster.
fn may_fail<T>(result: FsResult<T>) -> Option<T> {
    match result {
        Ok(done) => Some(done),
        Err(e) if matches!(e.errno(), Errno::NoEnt | Errno::Exist | Errno::NoSpc) => None,
        Err(e) => panic!("{e}"),
    }
}

fn act(fs: &F2fs, rng: &mut Rng) {
    let root = fs.root();
    let mut name = || format!("name {}", rng.below(6)).into_bytes();
    let (name, other) = (name(), name());
    let found = may_fail(fs.lookup(root, &name));
    match (rng.below(10), found) {
        (0..=2, _) | (_, None) => {
            let creds = Creds::default();
            may_fail(fs.create(root, &name, FileKind::File, 0o644, 0, creds));
        }
        (3, _) => {
            may_fail(fs.rename(root, &name, root, &other, RenameMode::Replace));
        }
        (4, _) => {
            may_fail(fs.unlink(root, &name));
        }
        (5..=7, Some(ino)) => {
            let size = 1 + rng.below(30_000) as usize;
            // The file may be gone.
            let _ = fs.write(ino, rng.below(9) << 12, &vec![size as u8; size]);
        }
        (8, Some(ino)) => {
            let _ = fs.fsync(ino, rng.below(2) == 0);
        }
        (_, Some(_)) => fs.sync().expect("syncs"),
    }
}

/// A hunt for deadlocks: several tasks on a tiny ring, of which some own the commits and all wait
/// for switches. The simulation reports when no task can go on.
#[test]
fn nobody_waits_for_ever_for_a_switch() {
    let (mut waits, mut runs) = (0, 0);
    for seed in 0..48_u64 {
        let ring = [16, 24, 64][seed as usize % 3];
        let policy = match seed % 2 {
            0 => Policy::Random { yield_one_in: 4 },
            _ => Policy::Pct {
                depth: 5,
                points: 20_000,
            },
        };
        let config = SimConfig {
            policy,
            cores: 4,
            ..SimConfig::seeded(seed)
        };
        // With and without the other ideas, and with tasks in the background.
        let options = options(4 + [0, 2, 11][seed as usize / 3 % 3]);
        let outcome = Sim::new(config).run(|| {
            let device = disk(ring, volume(ring), seed);
            let fs = match seed % 4 {
                0 => try_mount(&device, &options),
                _ => try_mount_alone(&device, &options),
            };
            let fs = fs.expect("mounts");
            rt::scope(|s| {
                for task in 0..4 {
                    let fs = &fs;
                    s.spawn(&format!("task {task}"), move || {
                        let mut rng = Rng::named(seed * 10 + task, "hunt");
                        for _ in 0..30 {
                            act(fs, &mut rng);
                        }
                    });
                }
                s.spawn("writer back", || {
                    for _ in 0..5 {
                        rt::sleep(Nanos(300_000));
                        fs.writeback(rt::now() + Nanos(1)).expect("written");
                    }
                });
            });
            fs.check();
            let stats = fs.journal_stats().expect("a journal");
            fs.unmount().expect("unmounts");
            stats.switch_waits.waits
        });
        if let Some(failure) = outcome.first_failure {
            panic!("seed {seed}, {options}: {failure} {}", outcome.replay);
        }
        waits += outcome.value.expect("no failure");
        runs += 1;
    }
    assert!(waits > runs / 3, "{waits} waits in {runs} runs");
}

/// bell-B2, reserve-V2: an operation that fills an epoch rings for the task that commits it and
/// goes on: it waits neither for a commit nor for an apply, and not for the interval to pass
/// either.
#[test]
fn full_epochs_are_committed_by_a_task_and_nobody_waits() {
    const RING: u32 = 64;
    let config = SimConfig {
        cores: 4,
        ..SimConfig::seeded(5)
    };
    let outcome = Sim::new(config).run(|| {
        let device = disk(RING, volume(RING), 5);
        let fs = try_mount(&device, "nodiscard,commit=300").expect("mounts");
        for n in 0..3_000 {
            let name = format!("file {n}").into_bytes();
            fs.file(&name);
            // As long as a slow benchmark takes.
            rt::sleep(Nanos::from_micros(20));
        }
        let stats = fs.journal_stats().expect("a journal");
        fs.unmount().expect("unmounts");
        stats
    });
    let stats = outcome.unwrap();
    let by_cap = stats.by_reason.get(&CommitReason::Cap).copied();
    assert!(by_cap.unwrap_or(0) >= 2, "{:?}", stats.by_reason);
    assert!(stats.applied > 0, "{stats:?}");
    assert!(stats.waits.is_empty(), "{:?}", stats.waits);
}

/// Tasks that make files as fast as they can on a ring that holds a part of it. Answers the
/// figures, and the longest operation.
fn rush(options: &str, ring: u32, files: u64) -> (JournalStats, Nanos) {
    const TASKS: u64 = 3;
    let config = SimConfig {
        cores: 6,
        ..SimConfig::seeded(7)
    };
    let outcome = Sim::new(config).run(|| {
        let device = disk(ring, volume(ring), 7);
        let fs = try_mount(&device, &format!("nodiscard,{options}")).expect("mounts");
        let worst = rt::scope(|s| {
            let make = |task| {
                let mut worst = Nanos(0);
                for n in 0..files / TASKS {
                    let name = format!("task {task}, file {n}").into_bytes();
                    let start = rt::now();
                    fs.file(&name);
                    worst = worst.max(rt::now() - start);
                }
                worst
            };
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| s.spawn(&format!("task {task}"), move || make(task)))
                .collect();
            let worst = tasks.into_iter().map(|t| t.join().expect("no panic"));
            worst.max().expect("tasks")
        });
        fs.check();
        let stats = fs.journal_stats().expect("a journal");
        fs.unmount().expect("unmounts");
        (stats, worst)
    });
    outcome.unwrap()
}

/// pace-L1 to pace-L4: operations that come faster than commits and applies follow pause, each a
/// little, and none waits for these.
#[test]
fn nobody_waits_for_a_commit_or_an_apply_where_all_pause() {
    let (stats, worst) = rush("commit=300", 64, 3_000);
    let causes: Vec<_> = stats.waits.keys().copied().collect();
    assert_eq!(causes, [WaitCause::Pace], "{:?}", stats.waits);
    let paced = stats.waits[&WaitCause::Pace];
    assert!(
        paced.waited_max <= Nanos::from_micros(500),
        "pace-L2: {paced:?}"
    );
    assert!(stats.apply.epochs > 3, "{:?}", stats.apply);
    assert!(worst < Nanos::from_millis(2), "{worst:?}");
    // pace-L7.
    let (waiting, longest) = rush("commit=300,switch=wait", 64, 3_000);
    let causes: Vec<_> = waiting.waits.keys().copied().collect();
    assert!(!causes.is_empty(), "nobody waits");
    assert!(
        causes
            .iter()
            .all(|cause| [WaitCause::Epoch, WaitCause::Ring].contains(cause)),
        "pace-L7: {causes:?}"
    );
    assert!(longest > worst, "{longest:?}, {worst:?}");
}
