//! What F2FS's own code costs, in the real world on a RAM device, where `rt::charge` does nothing: the figures behind `src/cost.rs`.
//! `cargo xtask calibrate-cpu` runs it and prints table and measurement side by side. A line: name, nanoseconds (median of rounds).
#![allow(clippy::disallowed_macros)] // No simulation runs here: printing cannot hold up a yield.

use blockdev::Ram;
use fscore::{Creds, FileKind, FileSystem};
use std::sync::Arc;
use varve_f2fs::mkfs::{self, DeviceContent, JournalSize, Options};
use varve_f2fs::{F2fs, JournalOptions, MountOptions};

const BYTES: u64 = 1 << 30;
const ROUNDS: usize = 9;
/// Objects of a round: below every trigger, so that only `sync` writes a checkpoint.
const DIRS: u32 = 20;
const FILES: u32 = 100;
const ROOT: Creds = Creds { uid: 0, gid: 0 };

fn mounted(journal: bool) -> Arc<F2fs> {
    let time = rt::WallTime {
        secs: 1_700_000_000,
        nanos: 0,
    };
    let queue = block::Queue::new(Arc::new(Ram::new(BYTES)));
    let options = Options {
        journal: journal.then_some(JournalSize::Bytes(64 << 20)),
        ..Options::new(BYTES, [3; 16], time)
    };
    let plan = mkfs::plan(&options).expect("a volume");
    plan.write(&queue, DeviceContent::Zeros).expect("written");
    let options = MountOptions {
        timers: false,
        discard: false,
        journal: journal.then(JournalOptions::default),
        ..MountOptions::default()
    };
    F2fs::mount(queue, options).expect("mounts")
}

/// Names, and nanoseconds of one each.
#[derive(Default)]
struct Times(Vec<(&'static str, Vec<f64>)>);

impl Times {
    fn add(&mut self, name: &'static str, count: u64, work: impl FnOnce()) {
        let start = rt::now();
        work();
        self.push(name, (rt::now() - start).0 as f64 / count as f64);
    }
}

impl Times {
    /// A checkpoint, by the block that it writes.
    fn add_checkpoint(&mut self, fs: &F2fs) {
        let before = fs.queue().stats().blocks_written_total();
        let start = rt::now();
        fs.sync().expect("durable");
        let took = (rt::now() - start).0 as f64;
        let blocks = fs.queue().stats().blocks_written_total() - before;
        self.push("checkpoint-block", took / blocks.max(1) as f64);
    }

    fn push(&mut self, name: &'static str, each: f64) {
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some((_, all)) => all.push(each),
            None => self.0.push((name, vec![each])),
        }
    }
}

fn round(times: &mut Times) {
    let fs = mounted(false);
    let all = u64::from(DIRS * FILES);
    let dirs: Vec<_> = (0..DIRS)
        .map(|d| {
            let made = fs.mkdir(fs.root(), format!("d{d}").as_bytes(), 0o755, ROOT);
            made.expect("room").ino
        })
        .collect();
    let name = |n: u32| format!("file {n}").into_bytes();
    let sub = |n: u32| format!("dir {n}").into_bytes();
    let each = |work: &dyn Fn(base::Ino, u32)| {
        for dir in &dirs {
            (0..FILES).for_each(|n| work(*dir, n));
        }
    };
    times.add("create", all, || {
        each(&|dir, n| {
            fs.create(dir, &name(n), FileKind::File, 0o644, 0, ROOT)
                .expect("room");
        });
    });
    times.add("lookup", all, || {
        each(&|dir, n| {
            fs.lookup(dir, &name(n)).expect("there");
        })
    });
    let data = vec![7; 4096];
    let inos: Vec<_> = (dirs.iter())
        .flat_map(|dir| (0..FILES).map(|n| fs.lookup(*dir, &name(n)).expect("there")))
        .collect();
    times.add("write-4k", all, || {
        for ino in &inos {
            fs.write(*ino, 0, &data).expect("room");
        }
    });
    times.add("writeback-page", all, || {
        fs.writeback(rt::now() + base::Nanos(1)).expect("written")
    });
    times.add("mkdir", all, || {
        each(&|dir, n| {
            fs.mkdir(dir, &sub(n), 0o755, ROOT).expect("room");
        })
    });
    times.add_checkpoint(&fs);
    times.add("rmdir", all, || {
        each(&|dir, n| fs.rmdir(dir, &sub(n)).expect("empty"))
    });
    times.add("unlink", all, || {
        each(&|dir, n| fs.unlink(dir, &name(n)).expect("there"))
    });
    fs.unmount().expect("unmounts");
}

/// What the journal adds to an operation, by the creation of a file, and what a block of a transaction costs.
fn journaled_round(times: &mut Times) {
    let all = u64::from(DIRS * FILES);
    let spans = [false, true].map(|journal| {
        let fs = mounted(journal);
        let dirs: Vec<_> = (0..DIRS)
            .map(|d| {
                let made = fs.mkdir(fs.root(), format!("d{d}").as_bytes(), 0o755, ROOT);
                made.expect("room").ino
            })
            .collect();
        fs.sync().expect("durable");
        let start = rt::now();
        for dir in dirs {
            for n in 0..FILES {
                let name = format!("file {n}").into_bytes();
                fs.create(dir, &name, FileKind::File, 0o644, 0, ROOT)
                    .expect("room");
            }
        }
        let made = rt::now();
        let before = fs.queue().stats().blocks_written_total();
        fs.sync().expect("durable");
        let blocks = fs.queue().stats().blocks_written_total() - before;
        if journal {
            let took = (rt::now() - made).0 as f64;
            times.push("log-block", took / blocks.max(1) as f64);
        }
        fs.unmount().expect("unmounts");
        (made - start).0 as f64
    });
    times.push("log-op", (spans[1] - spans[0]) / all as f64);
}

fn main() {
    let mut times = Times::default();
    (0..ROUNDS).for_each(|_| round(&mut times));
    (0..ROUNDS).for_each(|_| journaled_round(&mut times));
    for (name, mut all) in times.0 {
        all.sort_by(f64::total_cmp);
        println!("{name}\t{:.0}", all[all.len() / 2]);
    }
}
