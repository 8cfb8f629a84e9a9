//! Volumes that are full most of the time: data whose write was reported as successful is there
//! after a remount, whichever way it was written.
//!
//! Several writers change files of their own at random, in four ways: write(2), direct writes, a
//! shared mapping, `fallocate` that punches. Meanwhile the free space grows and shrinks. A model
//! keeps for each cell of a file the values that it may have: only the new one if the kernel
//! reported success, the old ones and the new one if it reported an error.

use super::place::{Place, VARVE, must, run};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of which the model knows one value.
const CELL: u64 = 512;
const PAGE: u64 = 4096;
/// Pages of a file at most.
const PAGES: u64 = 48;
const WRITERS: u64 = 3;
const O_DIRECT: i32 = 0o40000;

/// A small random generator: the run is the same for the same seed, as far as the writers do not
/// meet.
pub struct Dice(u64);

impl Dice {
    /// The same numbers for the same seed.
    pub fn seeded(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
    /// A range of up to `most` units that ends before `end`.
    pub fn range(&mut self, end: u64, most: u64) -> Range<u64> {
        let start = self.below(end);
        start..(start + 1 + self.below(most)).min(end)
    }
}

/// What a file may hold.
struct Model {
    /// Values that a cell may have.
    cells: Vec<Vec<u8>>,
    /// What was written last and no fsync has vouched for, by cell.
    pending: Vec<Option<u8>>,
    /// Cells that the file has, at least and at most.
    len: (u64, u64),
    /// Cells that it has if the next fsync goes well.
    pending_len: u64,
}

impl Model {
    fn new() -> Model {
        let cells = (PAGES * PAGE / CELL) as usize;
        Model {
            cells: vec![vec![0]; cells],
            pending: vec![None; cells],
            len: (0, 0),
            pending_len: 0,
        }
    }

    /// The kernel has said that it is written.
    fn certain(&mut self, cells: Range<u64>, value: u8) {
        if cells.is_empty() {
            return;
        }
        self.len.0 = self.len.0.max(cells.end);
        self.len.1 = self.len.1.max(cells.end);
        self.set(cells, value);
    }

    /// The same for what makes no file longer.
    fn set(&mut self, cells: Range<u64>, value: u8) {
        for cell in cells {
            self.cells[cell as usize] = vec![value];
            self.pending[cell as usize] = None;
        }
    }

    /// It may be written.
    fn perhaps(&mut self, cells: Range<u64>, value: u8) {
        if cells.is_empty() {
            return;
        }
        self.len.1 = self.len.1.max(cells.end);
        for cell in cells {
            self.cells[cell as usize].push(value);
            // An fsync cannot say which of the two is there.
            self.pending[cell as usize] = None;
        }
    }

    /// The next fsync says whether it is.
    fn pending(&mut self, cells: Range<u64>, value: u8) {
        if cells.is_empty() {
            return;
        }
        self.perhaps(cells.clone(), value);
        self.pending_len = self.pending_len.max(cells.end);
        for cell in cells {
            self.pending[cell as usize] = Some(value);
        }
    }

    fn synced(&mut self, well: bool) {
        for (values, pending) in self.cells.iter_mut().zip(&mut self.pending) {
            if let (Some(value), true) = (pending.take(), well) {
                *values = vec![value];
            }
        }
        let len = std::mem::take(&mut self.pending_len);
        if well {
            self.len.0 = self.len.0.max(len);
        }
    }

    fn truncated(&mut self, len: u64) {
        self.len = (len, len);
        self.pending_len = 0;
        let from = len as usize;
        self.cells[from..].fill(vec![0]);
        self.pending[from..].fill(None);
    }

    /// What is wrong with `found`; afterwards this is what the file holds.
    fn settle(&mut self, found: &[u8]) -> Option<String> {
        let len = found.len() as u64 / CELL;
        let mut wrong = (!(self.len.0..=self.len.1).contains(&len))
            .then(|| format!("{len} cells, may have {:?}", self.len));
        for (i, values) in self.cells.iter_mut().enumerate() {
            let at = i * CELL as usize;
            let cell = found
                .get(at..at + CELL as usize)
                .unwrap_or(&[0; CELL as usize]);
            let one = cell.iter().all(|byte| *byte == cell[0]);
            if !one || !values.contains(&cell[0]) {
                let may = format!(
                    "cell {i} has {} (all alike: {one}), may have {values:?}",
                    cell[0]
                );
                wrong.get_or_insert(may);
            }
            *values = vec![cell[0]];
        }
        self.pending.fill(None);
        self.len = (len, len);
        self.pending_len = 0;
        wrong
    }
}

/// One writer and its file.
struct Writer {
    dice: Dice,
    model: Model,
    path: PathBuf,
    filler: PathBuf,
    value: u8,
    gathers: bool,
    /// Answers that were errors for want of space.
    refused: u64,
    /// What was done since the last remount.
    log: Vec<String>,
    /// What the file held before the unmount.
    seen: Vec<u8>,
}

impl Writer {
    fn new(dir: &Path, seed: u64, number: u64, gathers: bool) -> Writer {
        let path = |what: &str| dir.join(format!("{what}{number}"));
        for what in ["file", "fill"] {
            File::create(path(what)).expect("room for a name");
        }
        Writer {
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (number + 1)),
            model: Model::new(),
            path: path("file"),
            filler: path("fill"),
            value: 0,
            gathers,
            refused: 0,
            log: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn open(&self, path: &Path, flags: i32) -> File {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(flags);
        options.open(path).expect("there")
    }

    /// True if it went well; false if there was no room. Nothing else may be.
    fn judge<T>(&mut self, what: &str, done: io::Result<T>) -> Option<T> {
        match done {
            Ok(done) => {
                self.log.push(format!("{what}: done"));
                Some(done)
            }
            Err(e) if e.raw_os_error() == Some(28) => {
                self.log.push(format!("{what}: no space"));
                self.refused += 1;
                None
            }
            Err(e) => panic!("{what} of {}: {e}", self.path.display()),
        }
    }

    fn steps(&mut self, count: usize) {
        let file = self.open(&self.path, 0);
        for _ in 0..count {
            self.value = self.value % 250 + 1;
            match self.dice.below(16) {
                0..4 => self.write(&file),
                4..6 => self.write_direct(),
                6..9 => self.write_mapping(&file),
                9 => self.truncate(&file),
                10 => self.punch(&file),
                11..13 => self.sync(&file),
                13..15 => self.fill(),
                _ => self.give_back(),
            }
        }
        self.sync(&file);
    }

    fn write(&mut self, file: &File) {
        let cells = self.dice.range(PAGES * PAGE / CELL, 100);
        let data = vec![self.value; ((cells.end - cells.start) * CELL) as usize];
        let wrote = self.judge(
            &format!("write {} {cells:?}", self.value),
            file.write_at(&data, cells.start * CELL),
        );
        // Whole blocks fit, and blocks have whole cells.
        let end = cells.start + wrote.unwrap_or(0) as u64 / CELL;
        match self.gathers {
            true => self.model.pending(cells.start..end, self.value),
            false => self.model.certain(cells.start..end, self.value),
        }
    }

    fn write_direct(&mut self) {
        let pages = self.dice.range(PAGES, 12);
        let cells = pages.start * PAGE / CELL..pages.end * PAGE / CELL;
        let len = ((pages.end - pages.start) * PAGE) as usize;
        let memory = vec![self.value; len + PAGE as usize];
        let skip = memory.as_ptr().align_offset(PAGE as usize);
        let direct = self.open(&self.path, O_DIRECT);
        let done = direct.write_at(&memory[skip..skip + len], pages.start * PAGE);
        let wrote = self.judge(&format!("direct {} {cells:?}", self.value), done);
        let end = cells.start + wrote.unwrap_or(0) as u64 / CELL;
        self.model.certain(cells.start..end, self.value);
        self.model.perhaps(end..cells.end, self.value);
    }

    fn write_mapping(&mut self, file: &File) {
        let pages = file.metadata().expect("open").len() / PAGE;
        if pages == 0 {
            return;
        }
        let cells = self.dice.range(pages * PAGE / CELL, 120);
        let map = format!("mmap -rw 0 {}", pages * PAGE);
        let bytes = (cells.start * CELL, (cells.end - cells.start) * CELL);
        let write = format!("mwrite -S {} {} {}", self.value, bytes.0, bytes.1);
        let path = self.path.to_string_lossy();
        self.log.push(format!("map {} {cells:?}", self.value));
        must("xfs_io", &["-c", &map, "-c", &write, &path]);
        self.model.pending(cells, self.value);
        if self.dice.below(2) == 0 {
            self.sync(file);
        }
    }

    fn truncate(&mut self, file: &File) {
        let cells = self.dice.below(PAGES * PAGE / CELL + 1);
        if self
            .judge(&format!("truncate {cells}"), file.set_len(cells * CELL))
            .is_some()
        {
            self.model.truncated(cells);
        }
    }

    fn punch(&mut self, file: &File) {
        let len = file.metadata().expect("open").len() / CELL;
        if len == 0 {
            return;
        }
        let cells = self.dice.range(len, 60);
        let bytes = (cells.start * CELL, (cells.end - cells.start) * CELL);
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let done = fallocate(file, mode, bytes.0, bytes.1).map_err(io::Error::from);
        match self.judge(&format!("punch {cells:?}"), done) {
            Some(()) => self.model.set(cells, 0),
            None => self.model.perhaps(cells, 0),
        }
    }

    fn sync(&mut self, file: &File) {
        let synced = self.judge("fsync", file.sync_all());
        self.model.synced(synced.is_some());
    }

    /// Takes what is free, but for a few blocks.
    fn fill(&mut self) {
        let filler = self.open(&self.filler, 0);
        let stat = statvfs(&self.filler).expect("mounted");
        let leave = self.dice.below(12);
        let mut take = stat.f_bfree.saturating_sub(leave);
        while take > 0 {
            let end = filler.metadata().expect("open").len();
            let done = fallocate(&filler, FallocateFlags::empty(), end, take * PAGE);
            if self.judge("fill", done.map_err(io::Error::from)).is_some() {
                return;
            }
            take /= 2;
        }
    }

    fn give_back(&mut self) {
        let filler = self.open(&self.filler, 0);
        let len = filler.metadata().expect("open").len();
        let less = self.dice.below(30) * PAGE;
        let cut = filler.set_len(len.saturating_sub(less));
        cut.expect("giving back needs no room");
    }

    /// What a program reads from the kernel's cache is what the file holds: pages without room do
    /// not stay there (write-W5).
    fn coherent(&mut self) {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let cached = std::fs::read(&self.path).expect("there");
            let held = self.read_direct(cached.len());
            let differs = (0..cached.len()).find(|&at| cached[at] != held[at]);
            let Some(at) = differs else {
                self.seen = cached;
                return;
            };
            let path = self.path.display();
            assert!(
                Instant::now() < until,
                "{path}: byte {at} is read as {}, the file holds {}, after\n  {}",
                cached[at],
                held[at],
                self.log.join("\n  ")
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The content past the kernel's cache, zeros behind its end.
    fn read_direct(&self, len: usize) -> Vec<u8> {
        let mut memory = vec![0; len.next_multiple_of(PAGE as usize) + 2 * PAGE as usize];
        let skip = memory.as_ptr().align_offset(PAGE as usize);
        let end = memory.len() - PAGE as usize + skip;
        let direct = self.open(&self.path, O_DIRECT);
        let read = direct.read_at(&mut memory[skip..end], 0);
        let n = read.expect("readable");
        memory[skip..skip + len.max(n)].to_vec()
    }

    fn settle(&mut self) -> Option<String> {
        let found = std::fs::read(&self.path).expect("there");
        let log = std::mem::take(&mut self.log).join("\n  ");
        let changed = (found != self.seen).then(|| {
            let at = (0..).find(|&at| found.get(at) != self.seen.get(at));
            format!(
                "{} bytes, {} before the unmount; differs at {at:?}",
                found.len(),
                self.seen.len()
            )
        });
        let wrong = self.model.settle(&found).or(changed)?;
        Some(format!("{}: {wrong}, after\n  {log}", self.path.display()))
    }
}

/// What a volume is made and mounted with.
struct Case {
    fs: &'static str,
    options: &'static str,
}

pub fn volume(fs: &str) -> Place {
    let place = Place::new(fs);
    let size: &[&str] = match fs {
        "ext4" => &["--size", "32", "--journal", "4"],
        // With room for the journal of F2FSJ.
        _ => &["--size", "96", "-J", "default"],
    };
    let image = place.image();
    must(
        VARVE,
        &[&["mkfs", "--force", "--fs", fs], size, &[&image]].concat(),
    );
    place
}

fn check(place: &Place, fs: &str) {
    match fs {
        "ext4" => place.check(),
        _ => {
            let (code, words) = run("fsck.f2fs", &["--dry-run", &place.image()]);
            assert_eq!(code, 0, "{words}");
        }
    }
}

fn try_case(case: &Case, seed: u64, rounds: usize, steps: usize) {
    let place = volume(case.fs);
    let gathers = case.options.split(',').any(|o| o == "writeback");
    place.mount(case.options);
    let dir = place.dir();
    let mut writers: Vec<_> = (0..WRITERS)
        .map(|number| Writer::new(&dir, seed, number, gathers))
        .collect();
    for round in 0..rounds {
        std::thread::scope(|scope| {
            for writer in &mut writers {
                scope.spawn(|| writer.steps(steps));
            }
        });
        writers.iter_mut().for_each(Writer::coherent);
        place.umount();
        check(&place, case.fs);
        place.mount(case.options);
        let wrong: Vec<_> = writers.iter_mut().filter_map(Writer::settle).collect();
        let Case { fs, options } = case;
        assert!(
            wrong.is_empty(),
            "{fs} {options}, seed {seed}, round {round}: {}",
            wrong.join("\n")
        );
    }
    place.umount();
    let refused: u64 = writers.iter().map(|writer| writer.refused).sum();
    assert!(refused > 0, "the volume was never full");
}

#[test]
fn what_was_acknowledged_on_a_full_volume_is_there() {
    for (seed, fs, options) in [
        (1, "ext4", "scheme=emmc"),
        (2, "ext4", "scheme=jbd2,writeback"),
        (3, "f2fs", "rw"),
        (4, "f2fs", "writeback"),
        (5, "f2fs", "scheme=f2fsj"),
    ] {
        try_case(&Case { fs, options }, seed, 3, 100);
    }
}

#[test]
#[ignore = "a minute: all schemes, many seeds"]
fn what_was_acknowledged_on_a_full_volume_is_there_long() {
    let ext4 = [
        "scheme=jbd2",
        "scheme=flush-ahead",
        "scheme=coalition",
        "scheme=emmc",
        "scheme=adaptive",
        "scheme=none",
        "data=journal",
        "data=writeback",
    ];
    let f2fs = ["rw", "fsync_mode=strict", "scheme=f2fsj"];
    let of =
        |fs, options: &[&'static str]| -> Vec<_> { options.iter().map(|o| (fs, *o)).collect() };
    for seed in 10..15 {
        for (fs, options) in [of("ext4", &ext4), of("f2fs", &f2fs)].concat() {
            for mode in ["", ",writeback"] {
                let options: &'static str = format!("{options}{mode}").leak();
                try_case(&Case { fs, options }, seed, 4, 100);
            }
        }
    }
}
