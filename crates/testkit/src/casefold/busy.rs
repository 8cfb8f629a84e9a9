//! Directories in which case does not count, on volumes without room and under many tasks.

use super::{Casefold, end, folded_dir, names};
use crate::brief::{Brief, errno};
use crate::volume::simulated;
use base::{Ino, Rng};
use fscore::{Errno, FileSystem, FsResult, RenameMode};
use std::collections::BTreeMap;

/// Blocks that are free on a volume that is to be full.
const ROOM: u64 = 64;
/// Tasks at once.
const TASKS: u64 = 4;
/// Names that all of them try to make.
const RACES: u64 = 30;

/// Names that a task knows, in small letters, with their inodes and the spelling that stands there.
type Known = BTreeMap<String, (String, Ino)>;

/// The name in a spelling at random, of a length that fills blocks of a directory soon.
fn spelt(rng: &mut Rng, name: &str) -> String {
    let mut turned = String::new();
    for c in name.chars() {
        match rng.below(3) {
            0 => turned.extend(c.to_uppercase()),
            1 => turned.extend(c.to_lowercase()),
            _ => turned.push(c),
        }
        // Folds to nothing.
        if rng.below(40) == 0 {
            turned.push('\u{200d}');
        }
    }
    turned
}

/// One of the names of a task: those of two tasks never fold to the same.
fn name_of(task: u64, n: u64) -> String {
    // As long as it may be with ignorable characters in it.
    format!("t{task} stra\u{df}e {n:03} {}", "\u{e4}b".repeat(20))
}

/// What a task does in one directory, and knows of it.
struct Namer {
    dir: Ino,
    rng: Rng,
    task: u64,
    /// How many names there may be.
    count: u64,
    known: Known,
    /// Calls that found no room.
    refused: u64,
}

impl Namer {
    fn new(dir: Ino, seed: u64, task: u64, count: u64) -> Namer {
        Namer {
            dir,
            rng: Rng::named(seed, &format!("namer {task}")),
            task,
            count,
            known: Known::new(),
            refused: 0,
        }
    }

    /// A name that is there.
    fn some(&mut self) -> Option<String> {
        let len = self.known.len() as u64;
        let n = self.rng.below(len.max(1)) as usize;
        self.known.keys().nth(n).cloned()
    }

    /// A call that may find no room (casefold-N4).
    fn done<T>(&mut self, what: &str, result: FsResult<T>) -> Option<T> {
        match result {
            Ok(done) => Some(done),
            Err(e) if e.errno() == Errno::NoSpc => {
                self.refused += 1;
                None
            }
            Err(e) => panic!("casefold-N4: {what}: {e}"),
        }
    }

    fn step(&mut self, fs: &dyn FileSystem) {
        match self.rng.below(8) {
            0..=3 => self.make(fs),
            4 | 5 => self.remove(fs),
            6 => self.rename(fs),
            _ => self.exchange(fs),
        }
    }

    fn make(&mut self, fs: &dyn FileSystem) {
        let name = name_of(self.task, self.rng.below(self.count));
        let asked = spelt(&mut self.rng, &name);
        let made = fs.make(self.dir, &asked);
        if self.known.contains_key(&name) {
            assert_eq!(errno(made), Errno::Exist, "casefold-N1: {asked}");
            return;
        }
        if let Some(ino) = self.done("create", made) {
            let wrote = fs.write(ino, 0, &[7; 4096]);
            let _ = self.done("write", wrote);
            self.known.insert(name, (asked, ino));
        } else {
            let found = fs.lookup(self.dir, asked.as_bytes());
            assert_eq!(errno(found), Errno::NoEnt, "casefold-N4: {asked}");
        }
    }

    fn remove(&mut self, fs: &dyn FileSystem) {
        let Some(name) = self.some() else { return };
        let asked = spelt(&mut self.rng, &name);
        let gone = fs.unlink(self.dir, asked.as_bytes());
        gone.unwrap_or_else(|e| panic!("casefold-N4: unlink {asked}: {e}"));
        self.known.remove(&name);
        let found = fs.lookup(self.dir, name.as_bytes());
        assert_eq!(errno(found), Errno::NoEnt, "{asked}");
    }

    /// One name becomes another in spellings at random, or changes places with it.
    fn moved(
        &mut self,
        fs: &dyn FileSystem,
        from: &str,
        to: &str,
        mode: RenameMode,
    ) -> FsResult<String> {
        let (old, new) = (spelt(&mut self.rng, from), spelt(&mut self.rng, to));
        fs.rename(self.dir, old.as_bytes(), self.dir, new.as_bytes(), mode)?;
        Ok(new)
    }

    fn rename(&mut self, fs: &dyn FileSystem) {
        let Some(from) = self.some() else { return };
        let to = name_of(self.task, self.rng.below(self.count));
        let moved = self.moved(fs, &from, &to, RenameMode::Replace);
        // Onto itself nothing happens, and the place of a target keeps its spelling.
        if let Some(new) = self.done("rename", moved).filter(|_| from != to) {
            let (_, ino) = self.known.remove(&from).expect("known");
            let stands = self.known.remove(&to).map_or(new, |(spelt, _)| spelt);
            self.known.insert(to, (stands, ino));
        }
    }

    fn exchange(&mut self, fs: &dyn FileSystem) {
        let (Some(a), Some(b)) = (self.some(), self.some()) else {
            return;
        };
        let moved = self.moved(fs, &a, &b, RenameMode::Exchange);
        if self.done("exchange", moved).is_some() {
            let (first, second) = (self.known[&a].1, self.known[&b].1);
            self.known.get_mut(&a).expect("known").1 = second;
            self.known.get_mut(&b).expect("known").1 = first;
        }
    }
}

/// The names of a directory are those that the tasks know, as they stand there, and each leads to
/// its inode in capitals, too.
fn compare(fs: &dyn FileSystem, dir: Ino, tasks: &[Namer]) {
    let known = || tasks.iter().flat_map(|task| &task.known);
    let mut spelt: Vec<Vec<u8>> = known()
        .map(|(_, (spelt, _))| spelt.as_bytes().to_vec())
        .collect();
    spelt.sort();
    assert!(names(fs, dir) == spelt, "casefold-N4: other names");
    for (name, (_, ino)) in known() {
        let found = fs.lookup(dir, name.to_uppercase().as_bytes());
        assert_eq!(found.ok(), Some(*ino), "casefold-N1: {name}");
    }
}

/// One task on a volume that it fills again and again, over remounts: names are made, removed,
/// moved and exchanged in other spellings until there is no room, and beyond (casefold-N4).
///
/// # Panics
/// If it is not so, or a checker finds a fault.
pub fn full(volume: &impl Casefold, seed: u64) {
    let mut fs = volume.mount();
    let dir = folded_dir(&*fs, "dir");
    // A file takes all, and gives so many blocks back.
    let filler = fs.file("filler");
    let mut bytes = 0;
    let full = loop {
        match fs.write(filler, bytes, &[1; 64 * 4096]) {
            Ok(wrote) => bytes += wrote as u64,
            Err(e) => break e.errno(),
        }
    };
    assert_eq!(full, Errno::NoSpc);
    fs.sync().expect("it fits");
    fs.resize(filler, bytes - ROOM * 4096).expect("shorter");
    fs.sync().expect("it fits");
    let mut namer = Namer::new(dir, seed, 0, 2 * ROOM);
    for round in 0..3 {
        let before = namer.refused;
        for _ in 0..3 * ROOM {
            namer.make(&*fs);
        }
        for _ in 0..ROOM {
            namer.step(&*fs);
        }
        assert!(namer.refused > before, "round {round}: it was never full");
        compare(&*fs, dir, std::slice::from_ref(&namer));
        end(volume, &fs);
        fs = volume.mount();
        compare(&*fs, dir, std::slice::from_ref(&namer));
        // Half of them go, so that there is room for others.
        for _ in 0..namer.known.len() / 2 {
            namer.remove(&*fs);
        }
    }
    end(volume, &fs);
}

/// Several tasks in one directory: each has names of its own, which it makes, removes, moves and
/// exchanges in any spelling, and all race for others (casefold-N5).
///
/// # Panics
/// If it is not so, or a checker finds a fault.
pub fn writers<V: Casefold<Fs: 'static>>(volume: &V, seed: u64) {
    let fs = volume.mount();
    let dir = folded_dir(&*fs, "dir");
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let fs = fs.clone();
            rt::spawn("namer", move || {
                let mut namer = Namer::new(dir, seed, task, 40);
                let mut won = Vec::new();
                for n in 0..RACES {
                    for _ in 0..12 {
                        namer.step(&*fs);
                    }
                    let asked = spelt(&mut namer.rng, &name_of(TASKS, n));
                    match fs.make(dir, &asked) {
                        Ok(ino) => won.push((n, asked, ino)),
                        Err(e) => assert_eq!(e.errno(), Errno::Exist, "casefold-N5: {asked}"),
                    }
                }
                (namer, won)
            })
        })
        .collect();
    let (mut namers, mut races) = (Vec::new(), Namer::new(dir, seed, TASKS, RACES));
    for task in tasks {
        let (namer, won) = task.join().expect("no panic");
        namers.push(namer);
        for (n, asked, ino) in won {
            let before = races.known.insert(name_of(TASKS, n), (asked, ino));
            assert!(before.is_none(), "casefold-N5: two tasks made one name");
        }
    }
    assert_eq!(
        races.known.len() as u64,
        RACES,
        "casefold-N5: nobody made it"
    );
    namers.push(races);
    compare(&*fs, dir, &namers);
    end(volume, &fs);
    let fs = volume.mount();
    compare(&*fs, dir, &namers);
    end(volume, &fs);
}

/// [`writers`] on threads, and under random schedules. `volume` makes one, because a device belongs
/// to the world that it was made in.
///
/// # Panics
/// As there.
pub fn many_writers<V: Casefold<Fs: 'static>>(volume: impl Fn() -> V, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        writers(&volume(), seed);
        simulated(seed, "names of several tasks", || writers(&volume(), seed));
    }
}
