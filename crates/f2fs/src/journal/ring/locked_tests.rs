//! Tests of closing an epoch with `switch=wait`: which task waits for which, and that none waits
//! for ever.

use crate::F2fs;
use crate::journal::capture::hooks_tests::mounted;
use crate::journal::{CommitReason, Waits};
use base::{Ino, Nanos, Rng};
use fscore::{Creds, FileKind, FileSystem};
use ondisk::f2fs::Nid;
use ondisk::f2fs::journal::Record;
use rt::{Policy, Sim, SimConfig};

const MILLI: Nanos = Nanos::from_millis(1);

fn sim<R>(config: SimConfig, body: impl FnOnce() -> R) -> R {
    let outcome = Sim::new(config).run(body);
    if let Some(failure) = outcome.first_failure {
        panic!("{failure} {}", outcome.replay);
    }
    outcome.value.expect("no failure")
}

fn create(fs: &F2fs, name: &str) -> Ino {
    let creds = Creds::default();
    let made = fs.create(fs.root(), name.as_bytes(), FileKind::File, 0o644, 0, creds);
    made.expect("room").ino
}

/// An operation that takes 3 ms; a commit 1 ms behind its start; another operation 1 ms later.
/// Answers how long that one took, and what was counted.
fn beside_a_slow_operation(options: &str) -> (Nanos, Waits, u64) {
    let config = SimConfig::seeded(1);
    sim(config, || {
        let fs = mounted(options);
        let ino = create(&fs, "file");
        let took = rt::scope(|s| {
            s.spawn("slow", || {
                fs.with_op(|op| {
                    let tx = op.tx().expect("a journal");
                    tx.log(Nid(ino.0), &Record::OrphanDel);
                    rt::sleep(Nanos(3 * MILLI.0));
                });
            });
            s.spawn("committer", || {
                rt::sleep(MILLI);
                fs.commit_all(CommitReason::Sync).expect("committed");
            });
            let late = s.spawn("late", || {
                rt::sleep(Nanos(2 * MILLI.0));
                let start = rt::now();
                create(&fs, "late");
                rt::now() - start
            });
            late.join().expect("no panic")
        });
        let stats = fs.journal_stats().expect("a journal");
        (took, stats.switch_waits, stats.plane.drain_waits)
    })
}

/// With `switch=wait` an operation waits until those inside have ended and the next epoch is open;
/// with `switch=open` it does not.
#[test]
fn an_operation_waits_for_a_switch_or_does_not() {
    let (took, waits, drained) = beside_a_slow_operation("switch=wait");
    assert!(took >= Nanos(MILLI.0 * 9 / 10), "{took}");
    assert_eq!((waits.waits, drained), (1, 0), "locked-T1");
    assert!(waits.waited > Nanos(0) && waits.waited == waits.waited_max && waits.waited <= took);
    let (took, waits, drained) = beside_a_slow_operation("switch=open");
    assert!(took < Nanos(MILLI.0 / 10), "plane-P3: {took}");
    assert_eq!((waits, drained), (Waits::default(), 1));
}

/// locked-T5: the holder of a freeze commits, while other tasks commit too.
#[test]
fn freezes_beside_commits() {
    for seed in 0..60 {
        let config = match seed % 2 {
            0 => SimConfig::random(seed),
            _ => SimConfig {
                policy: Policy::Pct {
                    depth: 4,
                    points: 2000,
                },
                ..SimConfig::seeded(seed)
            },
        };
        sim(config, || {
            let fs = mounted("switch=wait");
            rt::scope(|s| {
                for task in 0..2 {
                    let fs = &fs;
                    s.spawn("worker", move || {
                        for n in 0..12 {
                            let ino = create(fs, &format!("file {task} {n}"));
                            if n % 4 == 3 {
                                fs.fsync(ino, false).expect("synced");
                            }
                        }
                    });
                }
                s.spawn("committer", || {
                    let mut rng = Rng::named(seed, "committer");
                    for _ in 0..20 {
                        rt::sleep(Nanos(rng.below(8_000)));
                        fs.commit_all(CommitReason::Timer).expect("committed");
                    }
                });
                let mut rng = Rng::named(seed, "freezer");
                for _ in 0..10 {
                    rt::sleep(Nanos(rng.below(8_000)));
                    fs.freeze().expect("frozen");
                    rt::sleep(Nanos(rng.below(3_000)));
                    fs.thaw().expect("thawed");
                }
            });
            fs.check();
        });
    }
}
