//! What logging adds to seven operations: the figures behind `LOG_RECORD`, `LOG_END` and
//! their neighbours in `base::cost::f2fs`, and a check that what an operation is charged is what it
//! takes.
//!
//! An operation is done two thousand times on a volume with a journal and on one without; the
//! difference is logging. Clocks of a machine that others use say little, so one round can also be
//! done alone, for a program that counts instructions:
//! `valgrind --tool=callgrind --toggle-collect='*logged*counted*' cost --logged mkdir journaled`.

use super::common::{ALL, ROOT, Times, dirs, each, name};
use super::{create, mounted};
use base::{Ino, Nanos};
use fscore::{FileSystem, RenameMode};
use std::sync::Arc;
use varve_f2fs::F2fs;

/// The operations, and their rows with and without a journal.
pub const OPS: [(&str, [&str; 2]); 7] = [
    ("mkdir", ["mkdir-plain", "mkdir-journaled"]),
    ("rmdir", ["rmdir-plain", "rmdir-journaled"]),
    ("create", ["create-plain", "create-journaled"]),
    ("create-4KB", ["create-4KB-plain", "create-4KB-journaled"]),
    ("unlink", ["unlink-plain", "unlink-journaled"]),
    ("unlink-4KB", ["unlink-4KB-plain", "unlink-4KB-journaled"]),
    ("rename", ["rename-plain", "rename-journaled"]),
];

/// A volume on which one of the operations can be done.
pub struct Load {
    fs: Arc<F2fs>,
    dirs: Vec<Ino>,
    op: &'static str,
}

impl Load {
    /// Makes what `op` needs, and writes it.
    pub fn prepared(op: &'static str, journal: bool) -> Load {
        let fs = mounted(journal);
        let dirs = dirs(&*fs);
        let load = Load { fs, dirs, op };
        match op {
            "rmdir" => load.mkdirs(),
            "unlink" | "rename" => load.creates(&[]),
            "unlink-4KB" => load.creates(&[7; 4096]),
            _ => {}
        }
        load.fs.sync().expect("durable");
        load
    }

    fn mkdirs(&self) {
        each(&self.dirs, |dir, n| {
            self.fs.mkdir(dir, &name(n), 0o755, ROOT).expect("room");
        });
    }

    fn creates(&self, data: &[u8]) {
        each(&self.dirs, |dir, n| {
            let ino = create(&self.fs, dir, n);
            if !data.is_empty() {
                self.fs.write(ino, 0, data).expect("room");
            }
        });
        if !data.is_empty() {
            self.fs.writeback(rt::now() + Nanos(1)).expect("written");
        }
    }

    /// All operations of a round, in a function that a profiler finds.
    #[inline(never)]
    pub fn counted(&self) {
        match self.op {
            "mkdir" => self.mkdirs(),
            "rmdir" => each(&self.dirs, |dir, n| {
                self.fs.rmdir(dir, &name(n)).expect("empty");
            }),
            "create" => self.creates(&[]),
            "create-4KB" => self.creates(&[7; 4096]),
            "unlink" | "unlink-4KB" => each(&self.dirs, |dir, n| {
                self.fs.unlink(dir, &name(n)).expect("there");
            }),
            "rename" => each(&self.dirs, |dir, n| {
                let to = format!("moved {n}");
                let moved =
                    (self.fs).rename(dir, &name(n), dir, to.as_bytes(), RenameMode::Replace);
                moved.expect("room");
            }),
            other => panic!("no operation {other}"),
        }
    }
}

/// The operation frees an inode, which is in no record of a list.
pub fn frees(op: &str) -> bool {
    matches!(op, "rmdir" | "unlink" | "unlink-4KB")
}

/// Records that one of the operations leaves.
pub fn records(op: &'static str) -> f64 {
    let load = Load::prepared(op, true);
    let so_far = || {
        load.fs.sync().expect("durable");
        let stats = load.fs.journal_stats().expect("a journal");
        stats.plane.records
    };
    let before = so_far();
    load.counted();
    let records = so_far() - before;
    load.fs.unmount().expect("unmounts");
    records as f64 / ALL as f64
}

/// All operations, with a journal and without.
pub fn round(times: &mut Times) {
    for (op, rows) in OPS {
        for (row, journal) in rows.into_iter().zip([false, true]) {
            let load = Load::prepared(op, journal);
            times.add(row, ALL, || load.counted());
            load.fs.unmount().expect("unmounts");
        }
    }
}

/// One round of the operation with this name; prints the nanoseconds of each.
///
/// # Panics
/// There is no such operation.
pub fn alone(name: &str, journal: bool) {
    let op = OPS.into_iter().find(|(op, _)| *op == name);
    let (op, _) = op.expect("the name of an operation");
    let load = Load::prepared(op, journal);
    let start = rt::now();
    load.counted();
    println!("{op}\t{}", (rt::now() - start).0 / ALL);
}
