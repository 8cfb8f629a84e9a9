//! Tests the crash argument of fsync and roll-forward: tasks make, write, truncate, sync and remove
//! files under random schedules on a device whose cut leaves the worst. After each cut the volume
//! is mounted, cut again during recovery, and every file is checked.
//!
//! Each block of each file says which file, which page and which version it is, so that a lost
//! acknowledged write, another file's bytes and half an fsync all show.
#![allow(dead_code, missing_docs, clippy::disallowed_methods)]

pub mod lives;

use crate::common::{MIB, caps};
use base::{BLOCK_BYTES, Ino, Mutant, Nanos, Rng, Time};
use block::Queue;
use blockdev::{Image, SpecDisk};
use fscore::{Creds, Errno, FileKind, FileSystem, FsError, XattrMode};
use rt::{Mutex, Outcome, Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::Brief;
use testkit::mutants::Seen;
use varve_f2fs::{F2fs, FsyncMode, MountOptions};

pub const VOLUME_MIB: u64 = 64;
const PAGES: usize = 24;
/// Far pages: behind the addresses of the inode, and below an indirect node.
const FAR: [u64; 2] = [1200, 4000];
const CREDS: Creds = Creds {
    uid: 0,
    gid: 0,
    umask: 0,
};

/// One file from its making to its removal.
#[derive(Clone, Debug, Default)]
pub struct Life {
    id: u64,
    /// Newest version of each page; 0: never written, or cut off.
    newest: BTreeMap<u64, u64>,
    highest: BTreeMap<u64, u64>,
    size: u64,
    acked: Option<Acked>,
    /// An fsync is under way.
    syncing: bool,
}

#[derive(Clone, Debug)]
pub struct Acked {
    versions: BTreeMap<u64, u64>,
    size_min: u64,
    size_max: u64,
    attribute: u8,
}

/// What a name may stand for after a cut.
#[derive(Clone, Debug, Default)]
pub struct Name {
    lives: Vec<Life>,
    may_be_absent: bool,
}

pub type Names = BTreeMap<(Option<u8>, u8), Name>;

fn stamp(id: u64, page: u64, version: u64) -> Vec<u8> {
    let words = [0x7661_7276_6566_u64, id, page, version];
    let one: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    one.repeat(BLOCK_BYTES / 32)
}

fn read_stamp(bytes: &[u8]) -> Result<Option<(u64, u64, u64)>, String> {
    if bytes.iter().all(|&b| b == 0) {
        return Ok(None);
    }
    let word = |n: usize| u64::from_le_bytes(bytes[n * 8..n * 8 + 8].try_into().expect("8 bytes"));
    if bytes.chunks(32).any(|c| c != &bytes[..32]) || word(0) != 0x7661_7276_6566 {
        return Err(format!("no stamp: {:02x?}...", &bytes[..40]));
    }
    Ok(Some((word(1), word(2), word(3))))
}

struct Task {
    fs: Arc<F2fs>,
    names: Arc<Mutex<Names>>,
    ids: Arc<Mutex<u64>>,
    /// Directory, if not the root; name.
    key: (Option<u8>, u8),
    dir: Ino,
    ino: Option<Ino>,
    attribute: u8,
    rng: Rng,
}

impl Task {
    fn with<R>(&self, f: impl FnOnce(&mut Name) -> R) -> R {
        f(self.names.lock().entry(self.key).or_default())
    }

    fn life<R>(&self, f: impl FnOnce(&mut Life) -> R) -> R {
        self.with(|n| f(n.lives.last_mut().expect("a file")))
    }

    fn make(&mut self) -> Result<(), FsError> {
        let id = {
            let mut ids = self.ids.lock();
            *ids += 1;
            *ids
        };
        self.with(|n| {
            n.lives.push(Life {
                id,
                ..Life::default()
            })
        });
        self.attribute = 0;
        let name = [self.key.1];
        let made = self
            .fs
            .create(self.dir, &name, FileKind::File, 0o644, 0, CREDS)?;
        self.ino = Some(made.ino);
        Ok(())
    }

    fn write(&mut self, ino: Ino) -> Result<(), FsError> {
        let first = match self.rng.below(8) {
            0 => FAR[self.rng.below(2) as usize],
            _ => self.rng.below(PAGES as u64),
        };
        let last = first + 1 + self.rng.below(3);
        for page in first..last {
            let (id, version) = self.life(|l| {
                let version = l.highest.entry(page).or_default();
                *version += 1;
                let version = *version;
                l.newest.insert(page, version);
                l.size = l.size.max((page + 1) * BLOCK_BYTES as u64);
                let size = l.size;
                if let Some(acked) = &mut l.acked {
                    acked.size_max = acked.size_max.max(size);
                }
                (l.id, version)
            });
            let data = stamp(id, page, version);
            self.fs.write(ino, page * BLOCK_BYTES as u64, &data)?;
        }
        Ok(())
    }

    fn resize(&mut self, ino: Ino) -> Result<(), FsError> {
        let pages = match self.rng.below(4) {
            0 => 4002,
            _ => self.rng.below(PAGES as u64),
        };
        let size = pages * BLOCK_BYTES as u64;
        self.life(|l| {
            if let Some(acked) = &mut l.acked {
                acked.size_min = acked.size_min.min(size);
                acked.size_max = acked.size_max.max(size);
            }
        });
        self.fs.resize(ino, size)?;
        self.life(|l| {
            l.size = size;
            l.newest.retain(|&page, _| page < pages);
        });
        Ok(())
    }

    fn sync(&mut self, ino: Ino) -> Result<(), FsError> {
        let data_only = self.rng.below(2) == 0;
        self.life(|l| l.syncing = true);
        self.fs.fsync(ino, data_only)?;
        let attribute = self.attribute;
        self.with(|n| {
            let mut life = n.lives.pop().expect("a file");
            life.syncing = false;
            life.acked = Some(Acked {
                versions: life.newest.clone(),
                size_min: life.size,
                size_max: life.size,
                attribute,
            });
            n.lives = vec![life];
            n.may_be_absent = false;
        });
        Ok(())
    }

    fn remove(&mut self) -> Result<(), FsError> {
        self.with(|n| n.may_be_absent = true);
        self.fs.unlink(self.dir, &[self.key.1])?;
        self.ino = None;
        Ok(())
    }

    fn attribute(&mut self, ino: Ino) -> Result<(), FsError> {
        self.attribute += 1;
        let len = if self.rng.below(2) == 0 { 20 } else { 900 };
        let value = vec![self.attribute; len];
        self.fs.setxattr(ino, b"user.v", &value, XattrMode::Any)
    }

    fn run(&mut self, steps: u32) -> Result<(), FsError> {
        self.with(|n| n.may_be_absent = true);
        for _ in 0..steps {
            let Some(ino) = self.ino else {
                self.make()?;
                continue;
            };
            match self.rng.below(16) {
                0..=5 => self.write(ino)?,
                6..=9 => self.sync(ino)?,
                10..=11 => self.resize(ino)?,
                12 => self.remove()?,
                13 => self.attribute(ino)?,
                _ => rt::sleep(Nanos::from_micros(self.rng.below(2000))),
            }
        }
        Ok(())
    }
}

/// One possible future: what the medium holds, and what was promised until then.
pub struct Cut {
    pub content: Image,
    pub names: Names,
}

/// How a life goes.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub options: &'static str,
    pub steps: u32,
    pub mutant: Option<Mutant>,
}

pub fn life_with(seed: u64, start: &Image, setting: Setting) -> Outcome<Vec<Cut>> {
    let options = MountOptions::parse(setting.options).expect("options");
    let content = start.clone();
    let cfg = SimConfig {
        mutant: setting.mutant,
        quiet: setting.mutant.is_some(),
        ..SimConfig::random(seed)
    };
    Sim::new(cfg).run(move || {
        let disk = SpecDisk::from_image(caps(VOLUME_MIB * MIB), content, seed);
        let fs = F2fs::mount(Queue::new(disk.clone()), options).expect("mounts");
        let names = Arc::new(Mutex::new(Names::new()));
        let ids = Arc::new(Mutex::new(0));
        let busy = Arc::new(Mutex::new(4));
        let mut tasks = Vec::new();
        for t in 0..4u8 {
            let dir = match t {
                3 => Some(b'D'),
                _ => None,
            };
            let root = fs.root();
            let at = dir.map(|d| fs.make_dir(root, [d]).expect("a directory"));
            let mut task = Task {
                fs: fs.clone(),
                names: names.clone(),
                ids: ids.clone(),
                key: (dir, b'a' + t),
                dir: at.unwrap_or(root),
                ino: None,
                attribute: 0,
                rng: Rng::named(seed, &format!("task {t}")),
            };
            let busy = busy.clone();
            tasks.push(rt::spawn("writer", move || {
                let result = task.run(setting.steps);
                *busy.lock() -= 1;
                result
            }));
        }
        let flusher = {
            let (fs, busy) = (fs.clone(), busy.clone());
            rt::spawn("flusher", move || {
                let mut round = 0;
                while *busy.lock() > 0 {
                    rt::sleep(Nanos::from_micros(900));
                    let old = rt::now().0.saturating_sub(300_000);
                    fs.writeback(Time(old)).expect("writes back");
                    round += 1;
                    if round % 40 == 0 {
                        fs.sync().expect("checkpoint");
                    }
                }
            })
        };
        let mut cuts = Vec::new();
        let mut rng = Rng::named(seed, "cuts");
        while *busy.lock() > 0 {
            rt::sleep(Nanos(rng.below(1_200_000)));
            let names = names.lock().clone();
            cuts.push(Cut {
                content: disk.snapshot(rng.next_u64()),
                names,
            });
        }
        for task in tasks {
            task.join().expect("no panic").expect("no error");
        }
        flusher.join().expect("no panic");
        fs.unmount().expect("unmounts");
        cuts
    })
}

/// What recovery left, and whether it found something.
struct Recovered {
    image: Image,
    /// During recovery, before its checkpoint was durable.
    again: Option<Image>,
    found: bool,
}

fn judge_in(
    content: &Image,
    names: &Names,
    setting: Setting,
    seed: u64,
    reached: &mut u64,
) -> Result<Recovered, String> {
    let options = MountOptions::parse(setting.options).expect("options");
    let mode = options.fsync;
    let (content, names) = (content.clone(), names.clone());
    let cfg = SimConfig {
        mutant: setting.mutant,
        quiet: setting.mutant.is_some(),
        ..SimConfig::seeded(seed)
    };
    let outcome = Sim::new(cfg).run(move || {
        let disk = SpecDisk::from_image(caps(VOLUME_MIB * MIB), content, seed);
        let watch = disk.clone();
        let done = Arc::new(Mutex::new(false));
        let stop = done.clone();
        let cutter = rt::spawn("cutter", move || {
            let mut rng = Rng::named(seed, "cuts of recovery");
            let mut last = None;
            while !*stop.lock() {
                rt::sleep(Nanos(100_000 + rng.below(1_500_000)));
                if !*stop.lock() {
                    last = Some(watch.snapshot(rng.next_u64()));
                }
                if rng.below(3) == 0 {
                    break;
                }
            }
            last
        });
        let mounted = F2fs::mount(Queue::new(disk.clone()), options);
        *done.lock() = true;
        let again = cutter.join().expect("no panic");
        let fs = mounted.map_err(|e| format!("mount: {e}"))?;
        let found = fs.recovery().is_some();
        let judged = judge_names(&fs, &names, mode);
        judged?;
        for key in names.keys() {
            let Some(dir) = directory(&fs, key.0)? else {
                continue;
            };
            match fs.unlink(dir, &[key.1]) {
                Err(e) if e.errno() != Errno::NoEnt => return Err(format!("unlink: {e}")),
                _ => {}
            }
        }
        fs.unmount().map_err(|e| format!("unmount: {e}"))?;
        let image = disk.visible();
        Ok(Recovered {
            image,
            again,
            found,
        })
    });
    let asked = setting
        .mutant
        .and_then(|m| outcome.reached.get(&m).copied());
    *reached += asked.unwrap_or(0);
    match (outcome.value, outcome.first_failure) {
        (Some(Ok(recovered)), None) => Ok(recovered),
        (Some(Err(why)), _) => Err(why),
        (_, failure) => Err(format!("{failure:?}")),
    }
}

fn directory(fs: &F2fs, dir: Option<u8>) -> Result<Option<Ino>, String> {
    match dir.map(|d| fs.lookup(fs.root(), &[d])) {
        None => Ok(Some(fs.root())),
        Some(Ok(ino)) => Ok(Some(ino)),
        Some(Err(e)) if e.errno() == Errno::NoEnt => Ok(None),
        Some(Err(e)) => Err(format!("lookup of a directory: {e}")),
    }
}

fn judge_names(fs: &F2fs, names: &Names, mode: FsyncMode) -> Result<(), String> {
    for (key, promised) in names {
        let judged = match directory(fs, key.0)? {
            None if promised.may_be_absent => Ok(()),
            None => Err("its directory is lost".into()),
            Some(dir) => judge_name(fs, dir, key.1, promised, mode),
        };
        judged.map_err(|why| format!("file {}: {why}", char::from(key.1)))?;
    }
    Ok(())
}

fn judge_name(
    fs: &F2fs,
    dir: Ino,
    name: u8,
    promised: &Name,
    mode: FsyncMode,
) -> Result<(), String> {
    let ino = match fs.lookup(dir, &[name]) {
        Ok(ino) => ino,
        Err(e) if e.errno() == Errno::NoEnt && promised.may_be_absent => return Ok(()),
        Err(e) => return Err(format!("lookup: {e}")),
    };
    let size = fs.getattr(ino).map_err(|e| e.to_string())?.size;
    if !size.is_multiple_of(BLOCK_BYTES as u64) || size > 5000 * BLOCK_BYTES as u64 {
        return Err(format!("size {size}"));
    }
    let attribute = match fs.getxattr(ino, b"user.v") {
        Ok(value) => value.first().copied().unwrap_or(0),
        Err(e) if e.errno() == Errno::NoData => 0,
        Err(e) => return Err(format!("getxattr: {e}")),
    };
    let mut found = BTreeMap::new();
    for page in 0..size / BLOCK_BYTES as u64 {
        let mut buf = vec![0; BLOCK_BYTES];
        fs.read(ino, page * BLOCK_BYTES as u64, &mut buf)
            .map_err(|e| format!("read: {e}"))?;
        found.insert(page, read_stamp(&buf));
    }
    let mut whys = Vec::new();
    for life in &promised.lives {
        match fits(life, size, attribute, &found, mode) {
            Ok(()) => return Ok(()),
            Err(why) => whys.push(format!("as file {}: {why}", life.id)),
        }
    }
    Err(whys.join("; "))
}

type Stamp = Result<Option<(u64, u64, u64)>, String>;

fn fits(
    life: &Life,
    size: u64,
    attribute: u8,
    found: &BTreeMap<u64, Stamp>,
    mode: FsyncMode,
) -> Result<(), String> {
    let min = life.acked.as_ref().map_or(0, |a| a.size_min);
    if let Some(a) = &life.acked {
        if size < a.size_min || size > a.size_max {
            return Err(format!(
                "size {size}, promised {}..={}",
                a.size_min, a.size_max
            ));
        }
        if attribute < a.attribute {
            return Err(format!("attribute {attribute}, synced {}", a.attribute));
        }
    }
    for (&page, stamp) in found {
        let highest = life.highest.get(&page).copied().unwrap_or(0);
        let acked = life
            .acked
            .as_ref()
            .filter(|_| page * (BLOCK_BYTES as u64) < min);
        let floor = acked
            .and_then(|a| a.versions.get(&page))
            .copied()
            .unwrap_or(0);
        // An fsync under way may have its node on the device and its data not (posix).
        let open = mode == FsyncMode::Posix && life.syncing && highest > floor;
        let why = match stamp {
            Ok(None) if floor == 0 => continue,
            Ok(None) => format!("page {page} is zero, version {floor} was synced"),
            Ok(Some((id, at, version))) => {
                let mine = *id == life.id && *at == page;
                if mine && (floor..=highest).contains(version) {
                    continue;
                }
                format!(
                    "page {page} holds page {at} of file {id}, version {version}; synced {floor}, newest {highest}"
                )
            }
            Err(why) => format!("page {page}: {why}"),
        };
        if !open {
            return Err(why);
        }
    }
    Ok(())
}

/// What a search found.
#[derive(Debug, Default)]
pub struct Search {
    pub seen: Seen,
    /// Cuts of which recovery found something, and cuts of that recovery.
    pub recovered: u64,
    pub again: u64,
}

/// Lives until so many cuts were judged, or one of them is no good. `keep` gets images that
/// recovery left.
pub fn explore(
    first: u64,
    cuts: u64,
    start: &Image,
    setting: Setting,
    keep: &mut Vec<Image>,
) -> Search {
    let mut search = Search::default();
    for seed in first.. {
        let outcome = life_with(seed, start, setting);
        search.seen.asked(setting.mutant, &outcome);
        if let Some(failure) = outcome.first_failure {
            search.seen.found = Some(format!("seed {seed}: {failure} {}", outcome.replay));
            return search;
        }
        for (n, cut) in outcome.value.expect("cuts").iter().enumerate() {
            search.seen.cuts += 1;
            let judge = |content: &Image, search: &mut Search| {
                let one = judge_in(
                    content,
                    &cut.names,
                    setting,
                    seed * 1000 + n as u64,
                    &mut search.seen.reached,
                )?;
                search.recovered += u64::from(one.found);
                Ok::<_, String>(one)
            };
            let result = judge(&cut.content, &mut search).and_then(|one| {
                if let Some(again) = one.again.filter(|_| one.found) {
                    search.again += 1;
                    judge(&again, &mut search).map_err(|e| format!("cut again: {e}"))?;
                }
                Ok(one.image)
            });
            match result {
                Err(why) => {
                    search.seen.found = Some(format!("seed {seed}, cut {n}: {why}"));
                    return search;
                }
                Ok(image) if keep.len() < keep.capacity() && n % 5 == 3 => keep.push(image),
                Ok(_) => {}
            }
            if search.seen.cuts >= cuts {
                return search;
            }
        }
    }
    search
}
