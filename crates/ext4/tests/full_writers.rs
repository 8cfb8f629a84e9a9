//! Several tasks on a volume without room: the last blocks go to one of them, nobody is told anything but ENOSPC, and what was acknowledged is there.

mod common;

use base::{Ino, Rng};
use common::{check_ram, fresh_of, mount, read_all, said};
use fscore::{Creds, Errno, FallocateMode, FileKind, FileSystem, FsResult, SetAttr};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use varve_ext4::Ext4;
use varve_ext4::mkfs::Kind;

const TASKS: u64 = 4;
const FILES: usize = 24;
const LEN_MAX: u64 = 700_000;

/// Files of a task, with what they hold.
struct Writer {
    fs: Arc<Ext4>,
    rng: Rng,
    number: u64,
    files: Vec<Option<(Ino, Vec<u8>)>>,
    /// Calls for which there was no room.
    refused: u64,
}

impl Writer {
    fn new(fs: &Arc<Ext4>, seed: u64, number: u64) -> Writer {
        Writer {
            fs: fs.clone(),
            rng: Rng::named(seed, &format!("writer {number}")),
            number,
            files: (0..FILES).map(|_| None).collect(),
            refused: 0,
        }
    }

    fn name(&self, slot: usize) -> Vec<u8> {
        format!("{}-{slot}", self.number).into_bytes()
    }

    /// What a call answered; `None` if there was no room.
    fn judge<T>(&mut self, what: &str, done: FsResult<T>) -> Option<T> {
        match done {
            Ok(done) => Some(done),
            Err(e) => {
                assert_eq!(e.errno(), Errno::NoSpc, "{what}: {e}");
                self.refused += 1;
                None
            }
        }
    }

    fn step(&mut self) {
        let slot = self.rng.below(FILES as u64) as usize;
        let Some((ino, _)) = self.files[slot] else {
            return self.make(slot);
        };
        match self.rng.below(20) {
            0..=11 => self.write(slot, ino),
            12..=14 => self.truncate(slot, ino),
            15..=16 => self.remove(slot, ino),
            17 => self.allocate(ino),
            18 => {
                let synced = self.fs.fsync(ino, false);
                synced.expect("what was acknowledged has its blocks");
            }
            _ => self.punch(slot, ino),
        }
    }

    fn make(&mut self, slot: usize) {
        let (root, name) = (self.fs.root(), self.name(slot));
        let made = (self.fs).create(root, &name, FileKind::File, 0o644, 0, Creds::default());
        if let Some(attr) = self.judge("create", made) {
            self.fs.open(attr.ino).expect("it is there");
            self.files[slot] = Some((attr.ino, Vec::new()));
        }
    }

    fn content(&mut self, slot: usize) -> &mut Vec<u8> {
        &mut self.files[slot].as_mut().expect("made").1
    }

    fn write(&mut self, slot: usize, ino: Ino) {
        let at = self.rng.below(LEN_MAX);
        let data = vec![self.rng.below(255) as u8 + 1; self.rng.below(60_000) as usize + 1];
        let wrote = self.fs.write(ino, at, &data);
        if let Some(n) = self.judge("write", wrote) {
            let content = self.content(slot);
            content.resize(content.len().max(at as usize + n), 0);
            content[at as usize..at as usize + n].fill(data[0]);
        }
    }

    fn truncate(&mut self, slot: usize, ino: Ino) {
        let size = self.rng.below(LEN_MAX);
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        self.fs.setattr(ino, &set).expect("it needs no room");
        self.content(slot).resize(size as usize, 0);
    }

    fn remove(&mut self, slot: usize, ino: Ino) {
        let (root, name) = (self.fs.root(), self.name(slot));
        self.fs.unlink(root, &name).expect("it needs no room");
        self.fs.release(ino).expect("opened");
        self.files[slot] = None;
    }

    fn allocate(&mut self, ino: Ino) {
        let (at, len) = (self.rng.below(LEN_MAX), self.rng.below(100_000) + 1);
        let done = (self.fs).fallocate(ino, FallocateMode::KeepSize, at, len);
        self.judge("fallocate", done);
    }

    fn punch(&mut self, slot: usize, ino: Ino) {
        let (at, len) = (self.rng.below(LEN_MAX), self.rng.below(100_000) + 1);
        let done = (self.fs).fallocate(ino, FallocateMode::PunchHole, at, len);
        let done = self.judge("punch", done);
        let content = self.content(slot);
        let end = (at + len).min(content.len() as u64) as usize;
        content[end.min(at as usize)..end].fill(0);
        if done.is_none() {
            // Part of it may be done.
            self.remove(slot, ino);
        }
    }
}

/// Runs the tasks, and looks at what they left. Answers how often there was no room.
fn together(options: &str, seed: u64, steps: usize) -> u64 {
    // Blocks of 1 KiB make groups of 8 MiB.
    let ram = fresh_of(Kind::Ext4, 10, 1024);
    let fs = mount(&ram, options);
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| {
            let mut writer = Writer::new(&fs, seed, number);
            rt::spawn("writer", move || {
                (0..steps).for_each(|_| writer.step());
                writer
            })
        })
        .collect();
    let writers: Vec<Writer> = (tasks.into_iter())
        .map(|task| task.join().expect("no panic"))
        .collect();
    fs.check();
    fs.sync().expect("what was acknowledged has its blocks");
    for writer in &writers {
        for (ino, _) in writer.files.iter().flatten() {
            fs.release(*ino).expect("opened");
        }
    }
    fs.unmount().expect("clean");
    let report = check_ram(&ram);
    assert!(
        report.is_clean(),
        "{options}, seed {seed}: {}",
        said(&report)
    );
    let fs = mount(&ram, "ro");
    for writer in &writers {
        for (ino, content) in writer.files.iter().flatten() {
            assert!(
                read_all(&fs, *ino) == *content,
                "{options}, seed {seed}: file {ino}"
            );
        }
    }
    fs.unmount().expect("read only");
    writers.iter().map(|writer| writer.refused).sum()
}

const MODES: [&str; 4] = [
    "cache=2",
    "data=journal,cache=2",
    "scheme=none,cache=2",
    "data=writeback",
];

#[test]
fn on_threads() {
    for (seed, options) in MODES.into_iter().enumerate() {
        assert!(
            together(options, seed as u64, 2500) > 50,
            "{options}: never full"
        );
    }
}

fn simulated(seed: u64, options: &str, steps: usize) {
    let outcome = Sim::new(SimConfig::random(seed)).run(|| together(options, seed, steps));
    let failure = &outcome.first_failure;
    assert!(
        failure.is_none(),
        "{options}: {failure:?}; replay: {}",
        outcome.replay
    );
}

#[test]
fn in_random_order() {
    for (seed, options) in MODES.into_iter().enumerate() {
        simulated(seed as u64, options, 1200);
    }
}

#[test]
#[ignore = "minutes: 40 seeds in each mode, and threads"]
fn for_long() {
    for seed in 100..140 {
        for options in MODES {
            simulated(seed, options, 2000);
            together(options, seed, 2500);
        }
    }
}
