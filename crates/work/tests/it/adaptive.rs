//! `adaptive` is never more than 3 % below the best fixed order of commit, whatever runs, however
//! long the device takes, and whatever a packed write promises. Virtual time: the figures depend on
//! nothing but the code.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::common::{DEVICES, measured};
use report::results::Run;
use rig::Preset;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// As said in issue and docs: share of the best fixed choice that may be lost.
const LOSS_MAX: f64 = 0.03;

/// Every fixed choice that keeps the promises of a journal.
const FIXED: [Preset; 5] = [
    Preset::Jbd2,
    Preset::FlushAhead,
    Preset::Coalition,
    Preset::CoalitionPaper,
    Preset::Emmc,
];

/// SQLite in each of its journal modes: inserts, updates, deletes are compared one by one.
const SQLITE: [&str; 4] = [
    "sqlite:insert=60,update=60,delete=60,journal=delete",
    "sqlite:insert=60,update=60,delete=60,journal=truncate",
    "sqlite:insert=60,update=60,delete=60,journal=persist",
    "sqlite:insert=60,update=60,delete=60,journal=wal",
];

/// File operations one by one, and PostMark's mix.
const FILES: [&str; 9] = [
    "fsync:op=create,count=80",
    "fsync:op=append,count=80",
    "fsync:op=overwrite,count=80,file=1m",
    "fsync:op=random,count=80,file=1m,sync=fdatasync",
    "fsync:op=replace,count=80",
    "fsync:op=rename,count=80",
    "fsync:op=unlink,count=80",
    "files:count=60,transactions=120,sync=on",
    "files:count=60,transactions=120,sync=off",
];

/// 1 KiB to 4 MiB for each fsync, and a second task that writes 4 KiB blocks.
const SIZES: [&str; 12] = [
    "fsync:op=append,size=1k,count=80",
    "fsync:op=append,size=8k,count=80",
    "fsync:op=append,size=16k,count=80",
    "fsync:op=append,size=32k,count=80",
    "fsync:op=append,size=64k,count=80",
    "fsync:op=append,size=128k,count=60",
    "fsync:op=random,size=32k,count=80,file=4m",
    "fsync:op=random,size=128k,count=60,file=4m",
    "fsync:op=append,size=1m,count=30",
    "fsync:op=append,size=4m,count=12",
    "fsync:op=append,count=80,writer=2048",
    "sqlite:insert=60,update=0,delete=0,writer=2048",
];

/// As in `docs/results/schemes.md`.
const TIMINGS: [&str; 2] = ["fig8", "paper-fit"];

/// What is compared of a run: the rate of each kind of SQLite transaction, else the rate of all
/// operations.
fn rates(run: &Run) -> Vec<(String, f64)> {
    match run.workload.starts_with("sqlite") {
        true => {
            let kinds = run.ops_by_kind.iter();
            kinds.map(|(kind, k)| (kind.clone(), k.ops_per_s)).collect()
        }
        false => vec![("all".into(), run.ops_per_s)],
    }
}

/// One simulation: timing, place in `DEVICES`, workload, scheme.
type Job = (&'static str, usize, &'static str, Preset);

/// Everything that has to be run.
fn jobs(workloads: &[&'static str]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for timing in TIMINGS {
        // The last workloads are the longest.
        for workload in workloads.iter().rev() {
            for preset in FIXED.into_iter().chain([Preset::Adaptive]) {
                jobs.push((timing, 0, *workload, preset));
                if packs(preset) {
                    jobs.push((timing, 1, *workload, preset));
                }
            }
        }
    }
    jobs
}

/// True if what it costs depends on the order of packs: the others are run on one device alone
/// (`cost_table.rs` counts the same commands on both). `emmc` belongs to those, but is the best
/// nearly everywhere: it is taken exactly.
fn packs(preset: Preset) -> bool {
    matches!(preset, Preset::FlushAhead | Preset::Emmc | Preset::Adaptive)
}

/// Runs all jobs, one a core at a time.
fn run_all(jobs: &[Job]) -> BTreeMap<Job, Vec<(String, f64)>> {
    let next = AtomicUsize::new(0);
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let one = |_| {
        let mut mine = Vec::new();
        while let Some(&job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (timing, device, workload, preset) = job;
            let run = measured(preset, DEVICES[device].1, timing, workload, 128);
            mine.push((job, rates(&run)));
        }
        mine
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|n| scope.spawn(move || one(n))).collect();
        let mine = workers.into_iter().flat_map(|w| match w.join() {
            Ok(mine) => mine,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        mine.collect()
    })
}

/// One comparison: what is compared, gain of `adaptive` in per cent, both rates in words.
type Row = (String, f64, String);

fn compare(workloads: &[&'static str]) -> Vec<Row> {
    let all = run_all(&jobs(workloads));
    let mut rows = Vec::new();
    for timing in TIMINGS {
        for (device, (order, _)) in DEVICES.iter().enumerate() {
            for workload in workloads {
                let of = |preset| {
                    let device = if packs(preset) { device } else { 0 };
                    &all[&(timing, device, *workload, preset)]
                };
                for (n, (kind, rate)) in of(Preset::Adaptive).iter().enumerate() {
                    let fixed = FIXED.map(|preset| (preset, of(preset)[n].1));
                    let (best, most) = fixed
                        .into_iter()
                        .max_by(|a, b| a.1.total_cmp(&b.1))
                        .expect("there are some");
                    let what = format!("{timing}, {order}, {workload}, {kind}");
                    let words = format!("{rate:.1}/s, {best} {most:.1}/s");
                    rows.push((what, (rate / most - 1.0) * 100.0, words));
                }
            }
        }
    }
    rows
}

fn assert_close_to_the_best(workloads: &[&'static str]) {
    let mut rows = compare(workloads);
    rows.sort_by(|a, b| a.1.total_cmp(&b.1));
    for (what, gain, words) in &rows {
        eprintln!("{gain:+6.1} %  {what}: {words}");
    }
    let lost = rows.iter().filter(|r| r.1 < -100.0 * LOSS_MAX);
    let lost: Vec<String> = lost
        .map(|(what, gain, words)| format!("{what}: {words}, {gain:+.1} %"))
        .collect();
    assert!(
        lost.is_empty(),
        "adaptive is more than 3 % below a fixed choice:\n{}",
        lost.join("\n")
    );
}

/// Those of `all` at these places.
fn some<const N: usize>(all: &[&'static str], places: [usize; N]) -> [&'static str; N] {
    places.map(|place| all[place])
}

/// A rollback journal and a write-ahead log.
#[test]
fn sqlite_in_two_journal_modes() {
    assert_close_to_the_best(&some(&SQLITE, [0, 3]));
}

#[test]
#[ignore = "long: cargo xtask test --long"]
fn sqlite_in_every_journal_mode() {
    assert_close_to_the_best(&SQLITE);
}

/// A file is made, written over, and replaced, and a mix.
#[test]
fn some_file_operations() {
    assert_close_to_the_best(&some(&FILES, [0, 3, 4, 7]));
}

#[test]
#[ignore = "long: cargo xtask test --long"]
fn file_operations() {
    assert_close_to_the_best(&FILES);
}

/// The smallest and the largest write, one between them, and one beside a writer.
#[test]
fn four_sizes_of_writes_one_beside_a_writer() {
    assert_close_to_the_best(&some(&SIZES, [0, 4, 9, 10]));
}

#[test]
#[ignore = "long: cargo xtask test --long"]
fn small_and_large_writes_alone_and_beside_a_writer() {
    assert_close_to_the_best(&SIZES);
}
