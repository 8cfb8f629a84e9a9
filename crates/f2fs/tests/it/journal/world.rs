//! A model of files that knows what a cut may leave: after each cut the names must be those after
//! some operation no older than the last acknowledged one, and each page must hold data written to
//! that page of that file, no older than what was acknowledged.
#![allow(dead_code, clippy::disallowed_methods)]

use super::common;
use base::{Ino, Nanos, Rng};
use blockdev::{Image, SpecDisk};
use fscore::{Errno, FallocateMode, FileSystem, FsError, FsResult, RenameMode};
use rt::{Mutex, Outcome, Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::F2fs;

pub const PAGE: usize = 4096;
/// Out of place; nothing in the background.
pub const PLAIN: &str = "ipu_policy=0";

/// Which name stands for which file (a number that is never used again).
pub type Names = BTreeMap<String, u64>;

/// Versions of a page.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// No older one comes back.
    floor: u64,
    /// It may read as zeros.
    zero: bool,
    /// The last one that a write has taken, and the last one that was tried.
    written: u64,
    highest: u64,
    /// The last one when it was cut off or punched.
    cut_at: u64,
}

const HOLE: Page = Page {
    floor: 0,
    zero: true,
    written: 0,
    highest: 0,
    cut_at: 0,
};

#[derive(Clone, Default)]
struct File {
    ino: Ino,
    pages: Vec<Page>,
    /// Names behind its creation: an fsync of a file speaks of the epochs that logged it, and of
    /// those before.
    born: usize,
}

/// What a cut must and may leave.
#[derive(Clone, Default)]
pub struct Model {
    files: BTreeMap<u64, File>,
    history: Vec<Names>,
    /// Names of this number in the history, or of a later one.
    acked: usize,
}

/// One cut.
pub struct Cut {
    pub image: Image,
    model: Model,
}

/// A volume at work.
pub struct World {
    pub fs: Arc<F2fs>,
    pub model: Arc<Mutex<Model>>,
    pub rng: Rng,
    names: Names,
    next: u64,
    /// Pages that a file may have.
    pub pages_max: u64,
    pub files_max: usize,
}

fn stamp(file: u64, index: u64, version: u64) -> Vec<u8> {
    let words = [file, index, version, !version];
    let one: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    one.repeat(PAGE / 32)
}

/// True if there was no room.
pub fn is_full(e: &FsError) -> bool {
    e.errno() == Errno::NoSpc
}

impl World {
    pub fn new(fs: Arc<F2fs>, seed: u64) -> World {
        let model = Model {
            history: vec![Names::new()],
            ..Model::default()
        };
        World {
            fs,
            model: Arc::new(Mutex::named("model", model)),
            rng: Rng::named(seed, "space"),
            names: Names::new(),
            next: 1,
            pages_max: 60,
            files_max: 40,
        }
    }

    /// The names are `after` from some moment of `work` on, or it fails.
    fn naming<R>(&mut self, after: Names, work: impl FnOnce(&F2fs) -> FsResult<R>) -> FsResult<R> {
        self.model.lock().history.push(after.clone());
        let answer = work(&self.fs);
        match &answer {
            Ok(_) => self.names = after,
            Err(_) => self.model.lock().history.push(self.names.clone()),
        }
        answer
    }

    fn ino(&self, name: &str) -> (u64, Ino) {
        let id = self.names[name];
        (id, self.model.lock().files[&id].ino)
    }

    fn any_name(&mut self) -> Option<String> {
        let n = self.names.len() as u64;
        let at = self.rng.below(n.max(1)) as usize;
        self.names.keys().nth(at).cloned()
    }

    pub fn files(&self) -> usize {
        self.names.len()
    }

    pub fn create(&mut self) -> FsResult<String> {
        let id = self.next;
        self.next += 1;
        let name = format!("file{id}");
        let mut after = self.names.clone();
        after.insert(name.clone(), id);
        {
            let mut model = self.model.lock();
            let born = model.history.len();
            let file = File {
                born,
                ..File::default()
            };
            model.files.insert(id, file);
        }
        let ino = self.naming(after, |fs| fs.make(fs.root(), &name))?;
        let mut model = self.model.lock();
        model.files.get_mut(&id).expect("entered").ino = ino;
        Ok(name.clone())
    }

    pub fn write(&mut self, name: &str, first: u64, count: u64) -> FsResult<()> {
        let (id, ino) = self.ino(name);
        for index in first..first + count {
            let version = self.page(id, index, |page| {
                page.highest += 1;
                page.highest
            });
            let content = stamp(id, index, version);
            let n = self.fs.write(ino, index * PAGE as u64, &content)?;
            self.page(id, index, |page| page.written = version);
            assert_eq!(n, PAGE, "a page is written as a whole");
        }
        Ok(())
    }

    /// A page of a file, which has it from now on.
    fn page<R>(&self, id: u64, index: u64, change: impl FnOnce(&mut Page) -> R) -> R {
        let mut model = self.model.lock();
        let pages = &mut model.files.get_mut(&id).expect("known").pages;
        if pages.len() <= index as usize {
            pages.resize(index as usize + 1, HOLE);
        }
        change(&mut pages[index as usize])
    }

    /// Whatever lies there may be gone.
    fn cut_pages(&self, id: u64, from: u64, to: u64) {
        let mut model = self.model.lock();
        let pages = &mut model.files.get_mut(&id).expect("known").pages;
        for page in pages.iter_mut().take(to as usize).skip(from as usize) {
            (page.zero, page.cut_at) = (true, page.highest);
        }
    }

    pub fn truncate(&mut self, name: &str, pages: u64) -> FsResult<()> {
        let (id, ino) = self.ino(name);
        self.cut_pages(id, pages, u64::MAX);
        if pages > 0 {
            self.page(id, pages - 1, |_| ());
        }
        self.fs.resize(ino, pages * PAGE as u64)
    }

    pub fn punch(&mut self, name: &str, from: u64, to: u64) -> FsResult<()> {
        let (id, ino) = self.ino(name);
        self.cut_pages(id, from, to);
        let (at, len) = (from * PAGE as u64, (to - from) * PAGE as u64);
        self.fs.fallocate(ino, FallocateMode::PunchHole, at, len)
    }

    pub fn unlink(&mut self, name: &str) -> FsResult<()> {
        let mut after = self.names.clone();
        after.remove(name);
        self.naming(after, |fs| fs.unlink(fs.root(), name.as_bytes()))
    }

    pub fn rename(&mut self, from: &str, to: &str) -> FsResult<()> {
        let mut after = self.names.clone();
        let id = after.remove(from).expect("known");
        after.insert(to.into(), id);
        let mode = RenameMode::Replace;
        self.naming(after, |fs| {
            let root = fs.root();
            fs.rename(root, from.as_bytes(), root, to.as_bytes(), mode)
        })
    }

    /// Everything so far is acknowledged: of one file, or of all. One task runs this world.
    fn acknowledge(&self, of: Option<u64>) {
        let mut model = self.model.lock();
        let names = match of {
            Some(id) => model.files[&id].born,
            None => model.history.len() - 1,
        };
        model.acked = model.acked.max(names);
        for (id, file) in &mut model.files {
            if of.is_some_and(|of| of != *id) {
                continue;
            }
            for page in &mut file.pages {
                page.zero = page.written <= page.cut_at;
                page.floor = match page.zero {
                    true => page.cut_at + 1,
                    false => page.written,
                };
            }
        }
    }

    pub fn fsync(&mut self, name: &str) -> FsResult<()> {
        let (id, ino) = self.ino(name);
        self.fs.fsync(ino, false)?;
        self.acknowledge(Some(id));
        Ok(())
    }

    pub fn sync(&mut self) -> FsResult<()> {
        self.fs.sync()?;
        self.acknowledge(None);
        Ok(())
    }

    /// Something random. Room that is missing is no failure.
    pub fn step(&mut self) -> FsResult<()> {
        match self.act() {
            Err(e) if is_full(&e) => Ok(()),
            other => other,
        }
    }

    fn act(&mut self) -> FsResult<()> {
        let Some(name) = self.any_name() else {
            return self.create().map(drop);
        };
        let pages = self.pages_max;
        match self.rng.below(20) {
            0 => self.sync(),
            1..=3 => self.fsync(&name),
            4..=6 if self.names.len() < self.files_max => {
                let name = self.create()?;
                let count = 1 + self.rng.below(pages);
                self.write(&name, 0, count)
            }
            7 | 8 => self.unlink(&name),
            9 => {
                let keep = self.rng.below(pages);
                self.truncate(&name, keep)
            }
            10 => {
                let from = self.rng.below(pages);
                let to = from + 1 + self.rng.below(pages - from);
                self.punch(&name, from, to)
            }
            11 => {
                let to = match self.rng.below(2) {
                    0 => format!("new{}", self.rng.below(8)),
                    _ => self.any_name().expect("one at least"),
                };
                match to == name {
                    true => Ok(()),
                    false => self.rename(&name, &to),
                }
            }
            12 => self.fs.garbage_collect(true).map(drop),
            _ => {
                let first = self.rng.below(pages);
                let count = 1 + self.rng.below((pages - first).min(30));
                self.write(&name, first, count)?;
                match self.rng.below(3) {
                    0 => self.fs.writeback(rt::now()),
                    _ => Ok(()),
                }
            }
        }
    }

    /// The device as a cut at this moment leaves it, and what it must and may hold.
    pub fn cut(&self, disk: &SpecDisk, seed: u64) -> Cut {
        cut(disk, &self.model, seed)
    }
}

/// See [`World::cut`]; for a task beside the world.
pub fn cut(disk: &SpecDisk, model: &Mutex<Model>, seed: u64) -> Cut {
    // What it must hold was so before, what it may hold is so behind.
    let before = model.lock().clone();
    let image = disk.snapshot(seed);
    let mut after = model.lock().clone();
    after.acked = before.acked;
    for (id, file) in &mut after.files {
        let old = before.files.get(id).map_or(&[][..], |file| &file.pages);
        let old = old.iter().chain(std::iter::repeat(&HOLE));
        for (page, old) in file.pages.iter_mut().zip(old) {
            page.floor = page.floor.min(old.floor);
            page.zero |= old.zero;
        }
    }
    Cut {
        image,
        model: after,
    }
}

impl Cut {
    /// Mounts what the cut left, compares, unmounts; fsck.f2fs and our checker have to be content
    /// with the rest.
    ///
    /// # Errors
    /// What is wrong.
    pub fn judge(&self, ring: u32, options: &str) -> Result<(), String> {
        let outcome = Sim::new(SimConfig {
            quiet: true,
            ..SimConfig::seeded(1)
        })
        .run(|| {
            let disk = common::disk(ring, self.image.clone(), 1);
            let fs = common::try_mount_alone(&disk, options).map_err(|e| format!("mount: {e}"))?;
            let compared = self.model.compare(&fs);
            fs.check();
            fs.unmount().map_err(|e| format!("unmount: {e}"))?;
            compared.map(|()| disk.visible())
        });
        if let Some(failure) = outcome.first_failure {
            return Err(failure.to_string());
        }
        common::fsck(ring, &outcome.value.expect("a verdict")?);
        Ok(())
    }
}

impl Model {
    fn compare(&self, fs: &F2fs) -> Result<(), String> {
        let entries = fs
            .readdir(fs.root(), 0, 10_000)
            .map_err(|e| e.to_string())?;
        let found = entries
            .into_iter()
            .map(|e| (String::from_utf8_lossy(&e.name).into_owned(), e.ino));
        let found: BTreeMap<String, Ino> =
            found.filter(|(name, _)| !name.starts_with('.')).collect();
        let possible: Vec<&Names> = self.history[self.acked..]
            .iter()
            .filter(|names| names.keys().eq(found.keys()))
            .collect();
        if possible.is_empty() {
            let then: Vec<&String> = self.history[self.acked].keys().collect();
            let now: Vec<&String> = found.keys().collect();
            return Err(format!(
                "names {now:?} never were those since {then:?} ({} of {})",
                self.acked,
                self.history.len()
            ));
        }
        let mut last = Ok(());
        for names in possible.into_iter().rev() {
            last = self.compare_files(fs, names, &found);
            if last.is_ok() {
                return last;
            }
        }
        last
    }

    fn compare_files(
        &self,
        fs: &F2fs,
        names: &Names,
        found: &BTreeMap<String, Ino>,
    ) -> Result<(), String> {
        for (name, id) in names {
            let pages = &self.files[id].pages;
            let size = fs
                .getattr(found[name])
                .map_err(|e| format!("{name}: {e}"))?
                .size;
            if size > (pages.len() * PAGE) as u64 {
                return Err(format!("{name}: {size} bytes of {} pages", pages.len()));
            }
            for (index, page) in pages.iter().enumerate() {
                let mut bytes = vec![0; PAGE];
                let n = fs
                    .read(found[name], (index * PAGE) as u64, &mut bytes)
                    .map_err(|e| format!("{name}, page {index}: {e}"))?;
                bytes[n..].fill(0);
                page.check(*id, index as u64, &bytes)
                    .map_err(|e| format!("{name} (file {id}, {size} bytes), page {index}: {e}"))?;
            }
        }
        Ok(())
    }
}

impl Page {
    fn check(&self, id: u64, index: u64, bytes: &[u8]) -> Result<(), String> {
        if base::bytes::is_zero(bytes) {
            return match self.zero {
                true => Ok(()),
                false => Err(format!("zeros, {self:?}")),
            };
        }
        let word = |n: usize| u64::from_le_bytes(bytes[n * 8..n * 8 + 8].try_into().expect("8"));
        let version = word(2);
        if bytes != stamp(id, index, version) {
            return Err(format!(
                "other content: {:?}",
                [word(0), word(1), word(2), word(3)]
            ));
        }
        match (self.floor..=self.highest).contains(&version) {
            true => Ok(()),
            false => Err(format!("version {version}, {self:?}")),
        }
    }
}

/// Runs `work` beside a task that cuts at random moments; answers the cuts.
fn with_cuts(
    disk: &SpecDisk,
    model: &Mutex<Model>,
    seed: u64,
    (cuts, each): (usize, Nanos),
    work: impl FnOnce(&dyn Fn() -> bool) + Send,
) -> Vec<Cut> {
    let over = Mutex::named("over", false);
    rt::scope(|s| {
        let watcher = s.spawn("cuts", || {
            let mut rng = Rng::named(seed, "cuts");
            let mut seen = Vec::new();
            while seen.len() < cuts && !*over.lock() {
                rt::sleep(Nanos(rng.below(each.0)));
                seen.push(cut(disk, model, rng.below(u64::MAX)));
            }
            *over.lock() = true;
            seen
        });
        work(&|| *over.lock());
        *over.lock() = true;
        watcher.join().expect("cuts")
    })
}

/// A life on a volume of 64 MiB of which so many percent are taken, with cuts.
pub fn live(
    config: SimConfig,
    seed: u64,
    (ring, full): (u32, u64),
    steps: u32,
    cuts: usize,
) -> Outcome<Vec<Cut>> {
    Sim::new(config).run(move || {
        let disk = common::disk(ring, common::volume(ring), seed);
        let fs = common::try_mount_alone(&disk, PLAIN).expect("mount");
        let mut world = World::new(fs, seed);
        let stat = world.fs.statfs().expect("statfs");
        let wanted = stat.blocks_free * full / 100;
        let files = 20;
        world.files_max = 24;
        world.pages_max = wanted / files;
        for _ in 0..files {
            let name = world.create().expect("room");
            world.write(&name, 0, wanted / files).expect("room");
        }
        world.sync().expect("sync");
        let model = world.model.clone();
        let each = Nanos::from_millis(40);
        let seen = with_cuts(&disk, &model, seed, (cuts, each), |over| {
            for step in 0..steps {
                if over() {
                    break;
                }
                world.step().unwrap_or_else(|e| panic!("step {step}: {e}"));
            }
        });
        world.fs.check();
        seen
    })
}
