//! Tasks that make, empty and remove open files are cut at random moments, and so is the mount that
//! cleans up after them.

use super::{image, view::View};
use crate::common::cut_disk::{Tear, caps};
use crate::common::{Image, check_ram, have_tools, said};
use base::{Ino, Nanos, Rng};
use block::Queue;
use blockdev::{Image as Content, SpecDisk};
use fscore::{Creds, FileKind, FileSystem, FsError, RenameMode};
use rt::{Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::{Ext4, MountOptions};

const MIB: u64 = 16;
const TASKS: u64 = 3;
const STEPS: u32 = 40;

struct Task {
    fs: Arc<Ext4>,
    name: String,
    /// The file with the name, and those that are open without one.
    ino: Option<Ino>,
    held: Vec<Ino>,
    rng: Rng,
}

impl Task {
    fn make(&mut self) -> Result<Ino, FsError> {
        let (root, name, creds) = (self.fs.root(), self.name.as_bytes(), Creds::default());
        if self.rng.one_in(4) {
            let ino = self.fs.tmpfile(root, 0o600, creds)?.ino;
            self.fs.link(ino, root, name)?;
            self.fs.release(ino)?;
            return Ok(ino);
        }
        let made = self
            .fs
            .create(root, name, FileKind::File, 0o600, 0, creds)?;
        Ok(made.ino)
    }

    fn step(&mut self) -> Result<(), FsError> {
        let root = self.fs.root();
        let ino = match self.ino {
            Some(ino) => ino,
            None => {
                let ino = self.make()?;
                *self.ino.insert(ino)
            }
        };
        match self.rng.below(10) {
            0..=2 => {
                let len = 1 + self.rng.below(60_000) as usize;
                let at = self.rng.below(200_000);
                self.fs.write(ino, at, &vec![3; len])?;
            }
            3 | 4 => {
                self.fs.resize(ino, self.rng.below(100_000))?;
            }
            5 => self.fs.fsync(ino, false)?,
            6 | 7 => {
                self.ino = None;
                if self.rng.one_in(3) {
                    self.fs.unlink(root, self.name.as_bytes())?;
                    return Ok(());
                }
                self.fs.open(ino)?;
                self.held.push(ino);
                if self.rng.one_in(2) {
                    self.fs.unlink(root, self.name.as_bytes())?;
                    return Ok(());
                }
                // The name goes to a new file, which replaces the old one.
                let (other, creds) = (format!("{}'", self.name), Creds::default());
                let kind = FileKind::File;
                let made = (self.fs).create(root, other.as_bytes(), kind, 0o600, 0, creds)?;
                let (from, to) = (other.as_bytes(), self.name.as_bytes());
                self.fs.rename(root, from, root, to, RenameMode::Replace)?;
                self.ino = Some(made.ino);
            }
            8 if !self.held.is_empty() => {
                let at = self.rng.below(self.held.len() as u64) as usize;
                let ino = self.held.swap_remove(at);
                self.fs.release(ino)?;
            }
            _ => rt::sleep(Nanos::from_micros(self.rng.below(1000))),
        }
        Ok(())
    }
}

/// Options with which commits happen all the time, also between two handles of one operation, and
/// metadata goes home soon after them.
fn eager(options: &str) -> MountOptions {
    let mut options = MountOptions::parse(options).expect("options");
    options.commit_interval = Some(Nanos::from_micros(20));
    options.writeback_expire = Some(Nanos::from_millis(2));
    options
}

/// States that cuts may leave of one run.
fn life(seed: u64, start: &Content, options: &str) -> Vec<Content> {
    let options = eager(options);
    let start = start.clone();
    let outcome = Sim::new(SimConfig::random(seed)).run(move || {
        let disk = SpecDisk::from_image(caps(MIB << 20, Tear::Blocks), start, seed);
        let fs = Ext4::mount(Queue::new(disk.clone()), options).expect("mounts");
        let busy = Arc::new(rt::Mutex::new(TASKS));
        let spawn = |n: u64| {
            let mut task = Task {
                fs: fs.clone(),
                name: format!("f{n}"),
                ino: None,
                held: Vec::new(),
                rng: Rng::named(seed, &format!("task {n}")),
            };
            let busy = busy.clone();
            rt::spawn("task", move || {
                let done = (0..STEPS).try_for_each(|_| task.step());
                *busy.lock() -= 1;
                done
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
        let mut rng = Rng::named(seed, "cuts");
        let mut cuts = Vec::new();
        while *busy.lock() > 0 {
            rt::sleep(Nanos(rng.below(2_000_000)));
            if rng.one_in(8) {
                fs.journal().checkpoint_all().expect("goes home");
            }
            cuts.push(disk.snapshot(rng.next_u64()));
        }
        for task in tasks {
            task.join().expect("no panic").expect("no error");
        }
        fs.unmount().expect("unmounts");
        cuts
    });
    outcome.unwrap()
}

/// States that cuts may leave of the mount that follows, and the state after that mount.
fn next_life(seed: u64, cut: &Content, options: &str) -> Vec<Content> {
    let options = eager(options);
    let cut = cut.clone();
    let outcome = Sim::new(SimConfig::random(seed)).run(move || {
        let disk = SpecDisk::from_image(caps(MIB << 20, Tear::Blocks), cut, seed);
        let mounting = {
            let disk = disk.clone();
            rt::spawn("mount", move || {
                let fs = Ext4::mount(Queue::new(disk), options).expect("mounts");
                fs.sync().expect("syncs");
                fs.unmount().expect("unmounts");
            })
        };
        let mut rng = Rng::named(seed, "cuts");
        let mut cuts = Vec::new();
        for _ in 0..6 {
            rt::sleep(Nanos(rng.below(1_500_000)));
            cuts.push(disk.snapshot(rng.next_u64()));
        }
        mounting.join().expect("no panic");
        cuts.push(disk.visible());
        cuts
    });
    outcome.unwrap()
}

/// Checks that e2fsck ends the orphans of a state and finds no fault afterwards.
fn judged_by_e2fsck(image: &Image, content: &Content) {
    image.store(&content.to_ram(MIB << 20));
    let (code, text) = image.fsck_repair();
    assert!(code.is_some_and(|code| code < 2), "{text}");
    // Messages of e2fsck that it also prints for a volume that Linux left: the list of what it
    // ends, the mark that is set from the mount on, slots whose block it clears at the end, and
    // totals of the superblock that are in no transaction.
    const FINE: [&str; 11] = [
        "orphaned inode",
        "Pass ",
        "recovering journal",
        "files",
        "FILE SYSTEM WAS MODIFIED",
        "Feature orphan_present is set but orphan file is clean.",
        "is not clean.",
        "Free blocks count wrong (",
        "Free inodes count wrong (",
        "Fix? yes",
        "Clear? yes",
    ];
    let fine = |line: &&str| line.is_empty() || FINE.iter().any(|words| line.contains(words));
    let odd: Vec<&str> = text.lines().filter(|line| !fine(line)).collect();
    assert!(odd.is_empty(), "{odd:?} of\n{text}");
    image.fsck();
}

fn explore(seeds: std::ops::Range<u64>, options: &str) {
    if !have_tools() {
        return;
    }
    let image = image(MIB, 2, &[]);
    let start: Content = image.load().blocks().into_iter().collect();
    let (mut states, mut orphans) = (0, 0);
    for seed in seeds {
        for (n, cut) in life(seed, &start, options).iter().enumerate() {
            let later = next_life(seed * 1000 + n as u64, cut, options);
            let (last, between) = later.split_last().expect("the end");
            let mended: Vec<Content> = (between.iter())
                .map(|cut| next_life(1, cut, options).pop().expect("the end"))
                .collect();
            for end in mended.iter().chain([last]) {
                let ram = end.to_ram(MIB << 20);
                let report = check_ram(&ram);
                assert!(report.is_clean(), "seed {seed}, cut {n}: {}", said(&report));
                assert_eq!(View::of(&ram).named(), []);
            }
            orphans += between
                .iter()
                .filter(|cut| !View::of(&cut.to_ram(MIB << 20)).named().is_empty())
                .count();
            states += 1 + between.len();
            // e2fsck does not read a log of deltas, only what its replay leaves.
            if n % 8 == 0 && options.contains("emmc") {
                image.store(&last.to_ram(MIB << 20));
                image.fsck();
            } else if n % 8 == 0 {
                judged_by_e2fsck(&image, cut);
                judged_by_e2fsck(&image, &between[n % between.len()]);
            }
        }
    }
    assert!(states > 100 && orphans > 0, "{states}, {orphans}");
}

#[test]
fn ordered() {
    explore(0..4, "");
}

#[test]
fn deltas() {
    explore(10..14, "scheme=emmc");
}

#[test]
fn journaled_data() {
    explore(20..23, "data=journal");
}

/// Run by hand: `FROM=1000 SEEDS=50 OPTIONS=scheme=emmc`.
#[test]
#[ignore = "as many seeds as asked for"]
fn many() {
    let number = |key| std::env::var(key).ok().and_then(|s| s.parse().ok());
    let (from, seeds) = (number("FROM").unwrap_or(0), number("SEEDS").unwrap_or(50));
    explore(
        from..from + seeds,
        &std::env::var("OPTIONS").unwrap_or_default(),
    );
}
