//! Writers on a volume that is full most of the time, for the tests of file systems.
//!
//! Several tasks change files of their own at random, in every way in which blocks are taken or
//! given back, while the volume has room for hardly anything. Each task knows what its files have
//! to hold. Four rules hold for every file system:
//!
//! - F1 a call is done or answers ENOSPC, or EOPNOTSUPP if it is a fallocate. Never refused are
//!   calls that give blocks back (unlink, rmdir, a truncation to a smaller size), and a sync,
//!   because what was acknowledged has its blocks;
//! - F2 a refused call has changed nothing, except where a part may be done: a write says how much,
//!   `fallocate` may have allocated the front, and after a hole, zeros or a shift the content is
//!   unknown (the task then removes the file);
//! - F3 what was answered is there, at once and after a remount: no byte is lost, and none is in
//!   two files;
//! - F4 tasks that together never want more than the volume has are never refused, however fast
//!   they take and give back ([`share`]).

use crate::volume::{Volume, simulated};
use base::{Ino, Rng};
use fscore::{
    Creds, Errno, FallocateMode, FileKind, FileSystem, FsResult, RenameMode, SetAttr, XattrMode,
};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// Most files of a task.
const FILES: usize = 24;
/// Most directories of a task.
const DIRS: usize = 6;
/// Largest file, bytes.
const LEN_MAX: u64 = 700_000;
/// A page of the kernel's cache, bytes.
const PAGE: u64 = 4096;
/// Name of the attribute that files have.
const XATTR: &[u8] = b"user.full";

/// How a volume is filled and used.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seed of what the tasks do.
    pub seed: u64,
    /// Number of tasks.
    pub tasks: u64,
    /// Number of steps of each task.
    pub steps: usize,
    /// Bytes that are free when the tasks begin; one file takes the rest.
    pub room: u64,
    /// Bytes of which offset and length of a range that moves (collapse, insert) are multiples.
    pub moves: u64,
}

/// The files that the tasks have left, and what they have to hold.
pub struct Crowd {
    writers: Vec<Writer>,
    filler: Ino,
    /// Number of calls for which there was no room, or not enough for a whole write.
    pub refused: u64,
}

/// A file, and what it has to hold.
struct Held {
    ino: Ino,
    content: Vec<u8>,
    xattr: Option<Vec<u8>>,
}

struct Writer {
    fs: Arc<dyn FileSystem>,
    rng: Rng,
    number: u64,
    files: Vec<Option<Held>>,
    dirs: Vec<bool>,
    refused: u64,
    /// As in [`Plan`].
    moves: u64,
}

/// Takes all but `room` bytes of the volume, runs the tasks, and returns what they know.
///
/// # Panics
/// A rule is broken.
pub fn run(fs: &Arc<dyn FileSystem>, plan: Plan) -> Crowd {
    let filler = fill(&**fs, plan.room);
    let tasks: Vec<_> = (0..plan.tasks)
        .map(|number| {
            let mut writer = Writer::new(fs, plan, number);
            rt::spawn("writer", move || {
                (0..plan.steps).for_each(|_| writer.step());
                writer
            })
        })
        .collect();
    let writers: Vec<Writer> = (tasks.into_iter())
        .map(|task| task.join().expect("no panic"))
        .collect();
    let refused = writers.iter().map(|writer| writer.refused).sum();
    fs.sync().expect("F1: what was acknowledged has its blocks");
    Crowd {
        writers,
        filler,
        refused,
    }
}

/// Runs tasks that each make a file of a share of the volume, write or allocate it, and remove it,
/// again and again.
///
/// # Panics
/// One of them is refused (F4).
pub fn share(fs: &Arc<dyn FileSystem>, plan: Plan) {
    let stat = fs.statfs().expect("mounted");
    // An eighth is left for the trees that map the files.
    let bytes = stat.blocks_available * u64::from(stat.block_bytes) / plan.tasks * 7 / 8;
    let tasks: Vec<_> = (0..plan.tasks)
        .map(|number| {
            let fs = fs.clone();
            rt::spawn("sharer", move || {
                for round in 0..plan.steps {
                    take_share(&*fs, number, bytes, round);
                }
            })
        })
        .collect();
    for task in tasks {
        task.join().expect("no panic");
    }
}

/// Fills and uses a volume ([`run`]), has it judged, compares all of it after a remount, removes
/// it, and has the volume judged again. Answers how often there was no room.
///
/// # Panics
/// If a rule is broken, or a checker finds a fault.
pub fn together<V: Volume>(volume: &V, plan: Plan, what: &str) -> u64
where
    V::Fs: 'static,
{
    let fs = volume.mount();
    let any: Arc<dyn FileSystem> = fs.clone();
    let mut crowd = run(&any, plan);
    V::check(&fs);
    crowd.close();
    fs.unmount().expect("clean");
    volume.judge();
    let fs = volume.mount();
    crowd.compare(&*fs, &format!("{what}, seed {}", plan.seed));
    crowd.remove(&*fs);
    V::check(&fs);
    fs.unmount().expect("clean");
    volume.judge();
    crowd.refused
}

/// Three tasks share a volume ([`share`]), which is then unmounted.
///
/// # Panics
/// If one of them is refused (F4).
pub fn shared<V: Volume>(volume: &V, seed: u64, steps: usize)
where
    V::Fs: 'static,
{
    let fs = volume.mount();
    let any: Arc<dyn FileSystem> = fs.clone();
    let plan = Plan {
        seed,
        tasks: 3,
        steps,
        room: 0,
        moves: PAGE,
    };
    share(&any, plan);
    V::check(&fs);
    fs.unmount().expect("clean");
}

/// How writers are run on volumes of several modes.
pub struct Modes<M, const N: usize> {
    /// The modes.
    pub modes: [M; N],
    /// Runs the writers in one of them with a seed, so many steps each, and checks what they left;
    /// answers how often there was no room.
    pub together: fn(M, u64, usize) -> u64,
}

impl<M: Copy + Debug, const N: usize> Modes<M, N> {
    /// Once in each mode on threads; hardly any room means many refusals.
    ///
    /// # Panics
    /// If a rule is broken, or there were few refusals.
    pub fn on_threads(&self, steps: usize) {
        for (seed, mode) in (0..).zip(self.modes) {
            let refused = (self.together)(mode, seed, steps);
            assert!(refused > 20, "{mode:?}: refused {refused} times only");
        }
    }

    /// Once in each mode under a random schedule.
    ///
    /// # Panics
    /// If a rule is broken.
    pub fn in_random_order(&self, steps: usize) {
        for (seed, mode) in (0..).zip(self.modes) {
            self.simulated(mode, seed, steps);
        }
    }

    /// Long, with these seeds, both ways.
    ///
    /// # Panics
    /// If a rule is broken.
    pub fn for_long(&self, seeds: Range<u64>) {
        for seed in seeds {
            for mode in self.modes {
                self.simulated(mode, seed, 1000);
                (self.together)(mode, seed, 2500);
            }
        }
    }

    fn simulated(&self, mode: M, seed: u64, steps: usize) {
        let run = || (self.together)(mode, seed, steps);
        simulated(seed, &format!("{mode:?}"), run);
    }
}

/// Makes a file of `bytes` bytes, and removes it.
fn take_share(fs: &dyn FileSystem, number: u64, bytes: u64, round: usize) {
    let taken = try_share(fs, number, bytes);
    if let Err(e) = taken {
        panic!("F4: task {number}, round {round}: {e}");
    }
}

fn try_share(fs: &dyn FileSystem, number: u64, bytes: u64) -> FsResult<()> {
    const CHUNK: u64 = 120_000;
    let (root, name) = (fs.root(), format!("share{number}"));
    let creds = Creds::default();
    let made = fs.create(root, name.as_bytes(), FileKind::File, 0o644, 0, creds)?;
    let ino = made.ino;
    if number.is_multiple_of(2) {
        fs.fallocate(ino, FallocateMode::Allocate, 0, bytes)?;
    } else {
        let data = vec![number as u8; CHUNK as usize];
        let mut at = 0;
        while at < bytes {
            let len = CHUNK.min(bytes - at);
            at += fs.write(ino, at, &data[..len as usize])? as u64;
        }
    }
    fs.unlink(root, name.as_bytes())
}

/// Makes a file that takes all that is free but `room` bytes.
fn fill(fs: &dyn FileSystem, room: u64) -> Ino {
    let creds = Creds::default();
    let made = fs.create(fs.root(), b"filler", FileKind::File, 0o644, 0, creds);
    let ino = made.expect("an empty volume").ino;
    let (mut end, mut step) = (0, 1 << 20);
    while step >= PAGE {
        match take(fs, ino, end, step) {
            Ok(n) => end += n,
            // A smaller piece may still fit.
            Err(e) if e.errno() == Errno::NoSpc => step /= 2,
            Err(e) => panic!("filling: {e}"),
        }
    }
    set_size(fs, ino, end.saturating_sub(room)).expect("F1: it gives back");
    fs.sync().expect("F1");
    ino
}

/// Makes a file `len` bytes longer, and returns by how many. ext4 without extents has no blocks
/// without content, so it gets content there.
fn take(fs: &dyn FileSystem, ino: Ino, at: u64, len: u64) -> FsResult<u64> {
    match fs.fallocate(ino, FallocateMode::Allocate, at, len) {
        Err(e) if e.errno() == Errno::NotSup => {
            let wrote = fs.write(ino, at, &vec![0; len as usize])?;
            Ok(wrote as u64)
        }
        done => done.map(|()| len),
    }
}

fn set_size(fs: &dyn FileSystem, ino: Ino, size: u64) -> FsResult<()> {
    let set = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    fs.setattr(ino, &set).map(drop)
}

impl Crowd {
    /// Releases the open files, which has to be done before an unmount.
    pub fn close(&self) {
        for writer in &self.writers {
            for held in writer.files.iter().flatten() {
                writer.fs.release(held.ino).expect("opened");
            }
        }
    }

    /// Compares all files with what a file system holds (F3).
    ///
    /// # Panics
    /// A file differs; the message names it.
    pub fn compare(&self, fs: &dyn FileSystem, what: &str) {
        for writer in &self.writers {
            for (slot, held) in writer.files.iter().enumerate() {
                let (dir, name) = (fs.root(), writer.name(slot));
                let there = fs.lookup(dir, &name).ok();
                assert_eq!(there, held.as_ref().map(|held| held.ino), "{what}: F3");
                if let Some(held) = held {
                    held.compare(fs, what);
                }
            }
            for (slot, made) in writer.dirs.iter().enumerate() {
                let there = fs.lookup(fs.root(), &writer.dir_name(slot)).is_ok();
                assert_eq!(there, *made, "{what}: F3: directory {slot}");
            }
        }
    }

    /// Removes all files and directories.
    ///
    /// # Panics
    /// A removal fails (F1).
    pub fn remove(&mut self, fs: &dyn FileSystem) {
        for writer in &mut self.writers {
            for slot in 0..FILES {
                if writer.files[slot].take().is_some() {
                    let name = writer.name(slot);
                    fs.unlink(fs.root(), &name).expect("F1: it gives back");
                }
            }
        }
        let size = set_size(fs, self.filler, 0);
        size.expect("F1: it gives back");
    }
}

impl Held {
    fn compare(&self, fs: &dyn FileSystem, what: &str) {
        let ino = self.ino;
        let mut found = vec![0; self.content.len() + 1];
        let n = fs.read(ino, 0, &mut found).expect("readable");
        assert_eq!(n, self.content.len(), "{what}: F3: size of inode {ino}");
        let differs = (0..n).find(|&at| found[at] != self.content[at]);
        let differs = differs.map(|at| (at, found[at], self.content[at]));
        assert_eq!(differs, None, "{what}: F3: inode {ino}: at, found, wanted");
        let xattr = fs.getxattr(ino, XATTR).ok();
        assert_eq!(xattr, self.xattr, "{what}: F3: attribute of inode {ino}");
    }
}

impl Writer {
    fn new(fs: &Arc<dyn FileSystem>, plan: Plan, number: u64) -> Writer {
        Writer {
            fs: fs.clone(),
            rng: Rng::named(plan.seed, &format!("writer {number}")),
            number,
            files: (0..FILES).map(|_| None).collect(),
            dirs: vec![false; DIRS],
            refused: 0,
            moves: plan.moves,
        }
    }

    /// A long name, so that the directory grows.
    fn name(&self, slot: usize) -> Vec<u8> {
        format!("{}-{slot}-{}", self.number, "n".repeat(60)).into_bytes()
    }

    fn dir_name(&self, slot: usize) -> Vec<u8> {
        format!("{}-dir{slot}", self.number).into_bytes()
    }

    /// The answer of a call; `None` if there was no room (F1).
    fn judge<T>(&mut self, what: &str, done: FsResult<T>) -> Option<T> {
        match done {
            Ok(done) => Some(done),
            Err(e) => {
                assert_eq!(e.errno(), Errno::NoSpc, "F1: {what}: {e}");
                self.refused += 1;
                None
            }
        }
    }

    fn step(&mut self) {
        let slot = self.rng.below(FILES as u64) as usize;
        let Some(held) = &self.files[slot] else {
            return self.make(slot);
        };
        let ino = held.ino;
        match self.rng.below(32) {
            0..=9 => self.write(slot, ino),
            10..=12 => self.write_pages(slot, ino),
            13..=14 => self.write_direct(slot, ino),
            15..=18 => self.truncate(slot, ino),
            19..=21 => self.remove(slot),
            22 => self.allocate(slot, ino),
            23 => self.sync(ino),
            24..=25 => self.blank(slot, ino),
            26 => self.rename(slot),
            27..=28 => self.set_xattr(slot, ino),
            29 => self.directory(),
            30 => self.shift(slot, ino),
            _ => {
                let held = self.files[slot].as_ref();
                held.expect("made").compare(&*self.fs, "at once");
            }
        }
    }

    fn make(&mut self, slot: usize) {
        let (root, name) = (self.fs.root(), self.name(slot));
        let made = (self.fs).create(root, &name, FileKind::File, 0o644, 0, Creds::default());
        if let Some(attr) = self.judge("create", made) {
            self.fs.open(attr.ino).expect("it is there");
            self.files[slot] = Some(Held {
                ino: attr.ino,
                content: Vec::new(),
                xattr: None,
            });
        }
    }

    fn content(&mut self, slot: usize) -> &mut Vec<u8> {
        &mut self.files[slot].as_mut().expect("made").content
    }

    /// Takes note of what a range holds now.
    fn note(&mut self, slot: usize, at: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let (at, end) = (at as usize, at as usize + data.len());
        let content = self.content(slot);
        if content.len() < end {
            content.resize(end, 0);
        }
        content[at..end].copy_from_slice(data);
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        let mut data = vec![self.rng.below(255) as u8 + 1; len as usize];
        // Sectors differ, so that blocks which change places show.
        for (n, part) in data.chunks_mut(512).enumerate() {
            part[0] = n as u8;
        }
        data
    }

    /// Writes as write(2) does.
    fn write(&mut self, slot: usize, ino: Ino) {
        let at = self.rng.below(LEN_MAX);
        let len = self.rng.below(60_000) + 1;
        let data = self.bytes(len);
        let wrote = self.fs.write(ino, at, &data);
        if let Some(n) = self.judge("write", wrote) {
            self.refused += u64::from(n < data.len());
            self.note(slot, at, &data[..n]);
        }
    }

    /// Writes as the kernel writes back the pages of a shared mapping: only those below the end of
    /// the file, and those that find no room are left out.
    fn write_pages(&mut self, slot: usize, ino: Ino) {
        let size = self.content(slot).len() as u64;
        if size == 0 {
            return;
        }
        let first = self.rng.below(size.div_ceil(PAGE));
        let end = size.div_ceil(PAGE).min(first + 1 + self.rng.below(24));
        for page in first..end {
            let at = page * PAGE;
            let data = self.bytes(PAGE.min(size - at));
            let wrote = self.fs.write(ino, at, &data);
            if let Some(n) = self.judge("a page", wrote) {
                self.note(slot, at, &data[..n]);
            }
        }
    }

    /// Writes as a direct write does: whole sectors, as far as there is room, durable at once.
    fn write_direct(&mut self, slot: usize, ino: Ino) {
        let at = self.rng.below(LEN_MAX / 512) * 512;
        let len = 512 * (1 + self.rng.below(100));
        let data = self.bytes(len);
        let mut done = 0;
        while done < data.len() {
            let wrote = self.fs.write(ino, at + done as u64, &data[done..]);
            match self.judge("direct write", wrote) {
                Some(n) => done += n,
                None => break,
            }
        }
        self.note(slot, at, &data[..done]);
        self.sync(ino);
    }

    fn truncate(&mut self, slot: usize, ino: Ino) {
        let size = self.rng.below(LEN_MAX);
        let set = set_size(&*self.fs, ino, size);
        if size <= self.content(slot).len() as u64 {
            assert!(set.is_ok(), "F1: a truncation: {set:?}");
        }
        // Content that moves out of the inode needs a block.
        if self.judge("truncate", set).is_some() {
            self.content(slot).resize(size as usize, 0);
        }
    }

    fn remove(&mut self, slot: usize) {
        let (root, name) = (self.fs.root(), self.name(slot));
        let held = self.files[slot].take().expect("made");
        self.fs.unlink(root, &name).expect("F1: it gives back");
        self.fs.release(held.ino).expect("opened");
    }

    fn allocate(&mut self, slot: usize, ino: Ino) {
        let (at, len) = (self.rng.below(LEN_MAX), self.rng.below(100_000) + 1);
        let keeps = self.rng.one_in(2);
        let mode = match keeps {
            true => FallocateMode::KeepSize,
            false => FallocateMode::Allocate,
        };
        let done = self.fs.fallocate(ino, mode, at, len);
        if matches!(&done, Err(e) if e.errno() == Errno::NotSup) {
            return;
        }
        let done = self.judge("fallocate", done).is_some();
        let size = self.fs.getattr(ino).expect("there").size as usize;
        let before = self.content(slot).len();
        let wanted = before.max((at + len) as usize);
        match (keeps, done) {
            (true, _) => assert_eq!(size, before, "F2"),
            (false, true) => assert_eq!(size, wanted, "F1"),
            (false, false) => assert!((before..=wanted).contains(&size), "F2"),
        }
        self.content(slot).resize(size, 0);
    }

    /// Punches a hole, or writes zeros.
    fn blank(&mut self, slot: usize, ino: Ino) {
        let (at, len) = (self.rng.below(LEN_MAX), self.rng.below(100_000) + 1);
        let mode = match self.rng.one_in(2) {
            true => FallocateMode::PunchHole,
            false => FallocateMode::ZeroRangeKeepSize,
        };
        let done = self.fs.fallocate(ino, mode, at, len);
        if matches!(&done, Err(e) if e.errno() == Errno::NotSup) {
            return;
        }
        if self.judge("punch or zero", done).is_none() {
            // A part of it may be done, so what the file holds is unknown, and it goes.
            return self.remove(slot);
        }
        let content = self.content(slot);
        let end = ((at + len) as usize).min(content.len());
        content[end.min(at as usize)..end].fill(0);
    }

    /// Takes blocks out of the middle of a file, or inserts a hole there.
    fn shift(&mut self, slot: usize, ino: Ino) {
        // Whole blocks of the volume, and whole clusters.
        let stat = self.fs.statfs().expect("mounted");
        let unit = self.moves.max(u64::from(stat.block_bytes));
        let blocks = self.content(slot).len() as u64 / unit;
        if blocks < 4 {
            return;
        }
        let (at, len) = (self.rng.below(blocks - 2) * unit, unit);
        let collapse = self.rng.one_in(2);
        let mode = match collapse {
            true => FallocateMode::CollapseRange,
            false => FallocateMode::InsertRange,
        };
        let done = self.fs.fallocate(ino, mode, at, len);
        if matches!(&done, Err(e) if e.errno() == Errno::NotSup) {
            return;
        }
        if self.judge("shift", done).is_none() {
            return self.remove(slot);
        }
        let range = at as usize..(at + len) as usize;
        let content = self.content(slot);
        match collapse {
            true => drop(content.drain(range)),
            false => drop(content.splice(range.start..range.start, vec![0; unit as usize])),
        }
    }

    fn sync(&mut self, ino: Ino) {
        let data_only = self.rng.one_in(2);
        let synced = self.fs.fsync(ino, data_only);
        synced.expect("F1: what was acknowledged has its blocks");
    }

    /// Renames a file over another one.
    fn rename(&mut self, from: usize) {
        let to = self.rng.below(FILES as u64) as usize;
        if from == to {
            return;
        }
        let (root, old, new) = (self.fs.root(), self.name(from), self.name(to));
        let mode = RenameMode::Replace;
        let renamed = self.fs.rename(root, &old, root, &new, mode);
        if self.judge("rename", renamed).is_some() {
            if let Some(over) = self.files[to].take() {
                self.fs.release(over.ino).expect("opened");
            }
            self.files[to] = self.files[from].take();
        }
    }

    fn set_xattr(&mut self, slot: usize, ino: Ino) {
        let len = self.rng.below(600) + 1;
        let value = self.bytes(len);
        let set = (self.fs).setxattr(ino, XATTR, &value, XattrMode::Any);
        if self.judge("setxattr", set).is_some() {
            self.files[slot].as_mut().expect("made").xattr = Some(value);
        }
    }

    fn directory(&mut self) {
        let slot = self.rng.below(DIRS as u64) as usize;
        let (root, name) = (self.fs.root(), self.dir_name(slot));
        if self.dirs[slot] {
            self.fs.rmdir(root, &name).expect("F1: it gives back");
            self.dirs[slot] = false;
        } else {
            let made = self.fs.mkdir(root, &name, 0o755, Creds::default());
            self.dirs[slot] = self.judge("mkdir", made).is_some();
        }
    }
}
