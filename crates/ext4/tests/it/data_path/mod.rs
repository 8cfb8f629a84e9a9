//! The crash argument of the data path: tasks write, truncate, sync, remove and make files under
//! random schedules on a device whose cut leaves the worst; after each cut the volume is mounted
//! and every file is judged.
//!
//! Each sector of each file says which file, which sector and which version it is, so that a lost
//! acknowledged write (hazards-H5, hazards-H6, hazards-H7, hazards-H15, hazards-H17, hazards-H19),
//! another file's bytes (hazards-H16, hazards-H18, hazards-H2) and half an operation (hazards-H21)
//! all show.
#![allow(dead_code, missing_docs, clippy::disallowed_methods)]

pub mod deaths;

pub use crate::common::cut_disk::{MIB, Tear, caps, new_volume, new_volume_for};
use crate::common::{options_of, written};
use base::{BLOCK_BYTES, BlockNo, Ino, Mutant, Nanos, Rng, SECTOR_BYTES, SECTORS_PER_BLOCK, Time};
use block::{BlockDevice, Caps, Queue};
use blockdev::{Image, SpecDisk};
use fscore::{Creds, FallocateMode, FileKind, FileSystem, FsError};
use journal::Home;
use rt::{Mutex, Outcome, Sim, SimConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use testkit::Brief;
use testkit::brief::MADE;
use varve_ext4::check::{Finding, Kind, Options, check};
use varve_ext4::mkfs::{self, JournalSize, LogDevice, MkfsOptions};
use varve_ext4::{Ext4, MountOptions};

const SECTORS_MAX: usize = 30 * 8;

/// A volume and its external journal of 1040 blocks of 4 KiB.
pub fn new_pair(mib: u64) -> (Image, Image) {
    new_pair_of(mib, 4096)
}

/// As [`new_pair`], with blocks of `block_bytes`, and more of them in the journal.
pub fn new_pair_of(mib: u64, block_bytes: u32) -> (Image, Image) {
    let options = MkfsOptions {
        journal: JournalSize::External([7; 16]),
        block_bytes,
        ..options_of(mib)
    };
    let log = LogDevice {
        size_bytes: 4 * MIB + (64 << 10),
        block_bytes,
        uuid: [7; 16],
        user: [3; 16],
        time: MADE,
    };
    let write = |plan: mkfs::Plan| {
        let device = written(&plan, mib * MIB);
        device.blocks().into_iter().collect()
    };
    let home = write(mkfs::plan(&options).expect("a volume"));
    (home, write(log.plan().expect("a journal")))
}

/// One file from its making to its removal, as far as its contents are promised.
#[derive(Clone, Debug, Default)]
pub struct Life {
    id: u64,
    /// Newest version of each sector; 0: never written, or cut off.
    newest: Vec<u64>,
    size: u64,
    /// What the last sync promised.
    acked: Option<Acked>,
    /// Highest version ever of each sector.
    highest: Vec<u64>,
}

#[derive(Clone, Debug)]
pub struct Acked {
    versions: Vec<u64>,
    /// Bounds of the size since the last sync.
    size_min: u64,
    size_max: u64,
}

/// The files that a name may lead to after a cut.
#[derive(Clone, Debug, Default)]
pub struct Name {
    /// Lives that may be found, oldest first.
    lives: Vec<Life>,
    /// The name may be absent.
    may_be_absent: bool,
}

impl Name {
    fn now(&mut self) -> &mut Life {
        self.lives.last_mut().expect("a file")
    }
}

pub type Names = BTreeMap<Vec<u8>, Name>;

fn stamp(id: u64, sector: usize, version: u64) -> Vec<u8> {
    let words = [0x7661_7276_6531_u64, id, sector as u64, version];
    let one: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    one.repeat(SECTOR_BYTES / 32)
}

/// (file, sector, version) of a stamp; `None` for zeros.
fn read_stamp(bytes: &[u8]) -> Result<Option<(u64, u64, u64)>, String> {
    if bytes.iter().all(|&b| b == 0) {
        return Ok(None);
    }
    let word = |n: usize| u64::from_le_bytes(bytes[n * 8..n * 8 + 8].try_into().expect("8 bytes"));
    let whole = bytes.chunks(32).all(|c| c == &bytes[..c.len()]);
    if !whole || word(0) != 0x7661_7276_6531 {
        return Err(format!(
            "no stamp: {:02x?}...",
            &bytes[..40.min(bytes.len())]
        ));
    }
    Ok(Some((word(1), word(2), word(3))))
}

struct Task {
    fs: Arc<Ext4>,
    names: Arc<Mutex<Names>>,
    ids: Arc<Mutex<u64>>,
    name: Vec<u8>,
    ino: Option<Ino>,
    rng: Rng,
}

impl Task {
    fn with<R>(&self, f: impl FnOnce(&mut Name) -> R) -> R {
        f(self.names.lock().entry(self.name.clone()).or_default())
    }

    fn make(&mut self) -> Result<(), FsError> {
        let id = {
            let mut ids = self.ids.lock();
            *ids += 1;
            *ids
        };
        let life = Life {
            id,
            newest: vec![0; SECTORS_MAX],
            highest: vec![0; SECTORS_MAX],
            ..Life::default()
        };
        self.with(|n| n.lives.push(life));
        let root = self.fs.root();
        let attr = self
            .fs
            .create(root, &self.name, FileKind::File, 0o644, 0, Creds::default())?;
        self.ino = Some(attr.ino);
        Ok(())
    }

    fn write(&mut self, ino: Ino) -> Result<(), FsError> {
        let (from, len) = match self.rng.below(3) {
            0 => (
                self.rng.below(SECTORS_MAX as u64) as usize,
                1 + self.rng.below(4) as usize,
            ),
            1 => (
                8 * self.rng.below(30) as usize,
                8 * (1 + self.rng.below(6) as usize),
            ),
            _ => {
                let end = self.with(|n| n.now().size) as usize / SECTOR_BYTES;
                (end, 1 + self.rng.below(24) as usize)
            }
        };
        let to = (from + len).min(SECTORS_MAX);
        if from >= to {
            return Ok(());
        }
        let mut data = Vec::new();
        let before = self.with(|n| n.now().size);
        self.with(|n| {
            let life = n.now();
            for s in from..to {
                life.highest[s] += 1;
                life.newest[s] = life.highest[s];
                data.extend(stamp(life.id, s, life.highest[s]));
            }
            life.size = life.size.max((to * SECTOR_BYTES) as u64);
            let size = life.size;
            if let Some(acked) = &mut life.acked {
                acked.size_max = acked.size_max.max(size);
            }
        });
        let done = match self.fs.write(ino, (from * SECTOR_BYTES) as u64, &data) {
            Ok(done) => done,
            Err(e) if e.errno() == fscore::Errno::NoSpc => 0,
            Err(e) => return Err(e),
        };
        // After a short write, the rest is as before. Versions grow by turns, so the earlier
        // version was one less, or none.
        if done < data.len() {
            let at = self.fs.getattr(ino)?.size;
            let mut buf = vec![0; SECTORS_MAX * SECTOR_BYTES];
            let got = self.fs.read(ino, 0, &mut buf)?;
            self.with(|n| {
                let life = n.now();
                life.size = at.max(before);
                for s in from..to {
                    let part = &buf[s * SECTOR_BYTES..(s + 1) * SECTOR_BYTES];
                    let there = s * SECTOR_BYTES < got;
                    let found = read_stamp(part).expect("a stamp");
                    life.newest[s] = found.filter(|_| there).map_or(0, |(_, _, v)| v);
                }
            });
        }
        Ok(())
    }

    fn resize(&mut self, ino: Ino) -> Result<(), FsError> {
        let size = self.rng.below(SECTORS_MAX as u64 + 1) * SECTOR_BYTES as u64;
        self.with(|n| {
            if let Some(acked) = &mut n.now().acked {
                acked.size_min = acked.size_min.min(size);
                acked.size_max = acked.size_max.max(size);
            }
        });
        self.fs.resize(ino, size)?;
        self.with(|n| {
            let life = n.now();
            life.size = size;
            life.newest[size as usize / SECTOR_BYTES..].fill(0);
        });
        Ok(())
    }

    /// Preallocates blocks for a range; they may never show anything but zeros.
    fn allocate(&mut self, ino: Ino) -> Result<(), FsError> {
        let sectors = SECTORS_MAX as u64;
        let from = self.rng.below(sectors);
        let to = from + 1 + self.rng.below(sectors - from);
        let sector = SECTOR_BYTES as u64;
        let mode = match self.rng.below(2) {
            0 => FallocateMode::Allocate,
            _ => FallocateMode::KeepSize,
        };
        if mode == FallocateMode::Allocate {
            self.with(|n| {
                if let Some(acked) = &mut n.now().acked {
                    acked.size_max = acked.size_max.max(to * sector);
                }
            });
        }
        match self
            .fs
            .fallocate(ino, mode, from * sector, (to - from) * sector)
        {
            Err(e) if e.errno() != fscore::Errno::NoSpc => return Err(e),
            // Without space the front may have been allocated, and the size with it.
            _ => {}
        }
        let size = self.fs.getattr(ino)?.size;
        self.with(|n| n.now().size = size);
        Ok(())
    }

    fn sync(&mut self, ino: Ino) -> Result<(), FsError> {
        let data_only = self.rng.below(2) == 0;
        self.fs.fsync(ino, data_only)?;
        self.with(|n| {
            let mut life = n.lives.pop().expect("a file");
            life.acked = Some(Acked {
                versions: life.newest.clone(),
                size_min: life.size,
                size_max: life.size,
            });
            n.lives = vec![life];
            n.may_be_absent = false;
        });
        Ok(())
    }

    fn remove(&mut self) -> Result<(), FsError> {
        self.with(|n| n.may_be_absent = true);
        self.fs.unlink(self.fs.root(), &self.name)?;
        self.ino = None;
        Ok(())
    }

    fn check(&mut self, ino: Ino) -> Result<(), FsError> {
        let mut buf = vec![0; SECTORS_MAX * SECTOR_BYTES];
        let got = self.fs.read(ino, 0, &mut buf)?;
        let life = self.with(|n| n.now().clone());
        assert_eq!(
            got as u64,
            life.size,
            "size of {:?}",
            self.name.escape_ascii()
        );
        for s in 0..got / SECTOR_BYTES {
            let found = read_stamp(&buf[s * SECTOR_BYTES..][..SECTOR_BYTES]).expect("a stamp");
            let wanted = (life.newest[s] > 0).then_some((life.id, s as u64, life.newest[s]));
            assert_eq!(found, wanted, "sector {s} as read");
        }
        Ok(())
    }

    fn run(&mut self, steps: u32) -> Result<(), FsError> {
        self.with(|n| n.may_be_absent = true);
        for _ in 0..steps {
            let Some(ino) = self.ino else {
                match self.make() {
                    Err(e) if e.errno() == fscore::Errno::NoSpc => {
                        self.with(|n| n.lives.pop());
                        return Ok(());
                    }
                    other => other?,
                }
                continue;
            };
            match self.rng.below(16) {
                0..=6 => self.write(ino)?,
                7..=9 => self.sync(ino)?,
                10..=11 => self.resize(ino)?,
                12 => self.remove()?,
                13 => self.allocate(ino)?,
                14 => self.check(ino)?,
                _ => rt::sleep(Nanos::from_micros(self.rng.below(2000))),
            }
        }
        Ok(())
    }
}

/// A possible state after a cut: what the medium holds, and what was promised until then.
pub struct Cut {
    pub content: Image,
    /// What the device of the log holds, if it is a device of its own.
    pub log: Option<Image>,
    pub names: Names,
}

/// The devices of a volume.
#[derive(Clone)]
pub struct Disks {
    pub home: Arc<SpecDisk>,
    pub log: Option<Arc<SpecDisk>>,
}

impl Disks {
    /// Puts one kind of adversary on both devices; each has times and cuts of its own.
    pub fn new(start: (&Image, Option<&Image>), caps: &Caps, seed: u64) -> Disks {
        let disk = |image: &Image, seed| SpecDisk::from_image(caps.clone(), image.clone(), seed);
        Disks {
            home: disk(start.0, seed),
            log: start.1.map(|log| disk(log, !seed)),
        }
    }

    pub fn mount(&self, options: MountOptions) -> Result<Arc<Ext4>, FsError> {
        let log = self
            .log
            .clone()
            .map(|log| Queue::new(log as Arc<dyn BlockDevice>));
        Ext4::mount_with_journal(Queue::new(self.home.clone()), log, options)
    }

    /// One cut of both devices at the same moment.
    pub fn cut(&self, rng: &mut Rng) -> (Image, Option<Image>) {
        let now = rt::now();
        let home = self.home.snapshot(rng.next_u64());
        let log = self.log.as_ref().map(|log| log.snapshot(rng.next_u64()));
        assert_eq!(rt::now(), now, "no time passes between the two");
        (home, log)
    }
}

pub fn life_of(seed: u64, start: &Image, bytes: u64, tear: Tear, options: &str) -> Vec<Cut> {
    let outcome = life_with(seed, start, (bytes, tear), options, None);
    outcome.unwrap()
}

/// As [`life_of`], with a guard left out.
pub fn life_with(
    seed: u64,
    start: &Image,
    (bytes, tear): (u64, Tear),
    options: &str,
    mutant: Option<Mutant>,
) -> Outcome<Vec<Cut>> {
    life_beside(seed, (start, None), (bytes, tear), options, mutant)
}

/// As [`life_with`], with the log on a device of its own if there is an image of one.
pub fn life_beside(
    seed: u64,
    start: (&Image, Option<&Image>),
    (bytes, tear): (u64, Tear),
    options: &str,
    mutant: Option<Mutant>,
) -> Outcome<Vec<Cut>> {
    let take = |disks: &Disks, rng: &mut Rng, names: Names| {
        let (content, log) = disks.cut(rng);
        Cut {
            content,
            log,
            names,
        }
    };
    life_taking(seed, start, &caps(bytes, tear), options, mutant, take)
}

/// As [`life_beside`], on devices with these promises; `take` is called now and then, with what was
/// promised before.
pub fn life_taking<T: Send + 'static>(
    seed: u64,
    start: (&Image, Option<&Image>),
    caps: &Caps,
    options: &str,
    mutant: Option<Mutant>,
    take: fn(&Disks, &mut Rng, Names) -> T,
) -> Outcome<Vec<T>> {
    let mut options = MountOptions::parse(options).expect("options");
    // Metadata goes home all the time, and the tail of the log moves behind it.
    options.writeback_expire = Some(Nanos::from_millis(2));
    let disks_of = (start.0.clone(), start.1.cloned(), caps.clone());
    let cfg = SimConfig {
        mutant,
        quiet: mutant.is_some(),
        ..SimConfig::random(seed)
    };
    Sim::new(cfg).run(move || {
        let (content, log, caps) = disks_of;
        let disks = Disks::new((&content, log.as_ref()), &caps, seed);
        let fs = disks.mount(options).expect("mounts");
        let names = Arc::new(Mutex::new(Names::new()));
        let ids = Arc::new(Mutex::new(0));
        let busy = Arc::new(Mutex::new(3));
        let mut tasks = Vec::new();
        for t in 0..3u8 {
            let mut task = Task {
                fs: fs.clone(),
                names: names.clone(),
                ids: ids.clone(),
                name: vec![b'a' + t],
                ino: None,
                rng: Rng::named(seed, &format!("task {t}")),
            };
            let busy = busy.clone();
            tasks.push(rt::spawn("writer", move || {
                let outcome = task.run(40);
                *busy.lock() -= 1;
                outcome
            }));
        }
        let flusher = {
            let (fs, busy) = (fs.clone(), busy.clone());
            rt::spawn("flusher", move || {
                while *busy.lock() > 0 {
                    rt::sleep(Nanos::from_micros(700));
                    let now = rt::now();
                    fs.writeback(Time(now.0.saturating_sub(300_000)))
                        .expect("writes back");
                }
            })
        };
        let checkpointer = {
            let (fs, busy) = (fs.clone(), busy.clone());
            rt::spawn("checkpointer", move || {
                while *busy.lock() > 0 {
                    rt::sleep(Nanos::from_millis(5));
                    fs.journal().checkpoint_all().expect("goes home");
                }
            })
        };
        let mut cuts = Vec::new();
        let mut rng = Rng::named(seed, "cuts");
        while *busy.lock() > 0 {
            rt::sleep(Nanos(rng.below(1_500_000)));
            // What was promised before the cut; the cut comes later or at once.
            let names = names.lock().clone();
            cuts.push(take(&disks, &mut rng, names));
        }
        for task in tasks {
            task.join().expect("no panic").expect("no error");
        }
        flusher.join().expect("no panic");
        checkpointer.join().expect("no panic");
        fs.unmount().expect("unmounts");
        cuts
    })
}

pub fn judge(cut: &Cut, bytes: u64, tear: Tear, options: &str) -> Result<(), String> {
    let options = MountOptions::parse(options).expect("options");
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        // A log of `home=remap` can be recovered only on a device that can remap.
        let device: Arc<dyn BlockDevice> = match options.scheme.map(|s| s.home) {
            Some(Home::Remap { .. }) => {
                SpecDisk::from_image(caps(bytes, tear), cut.content.clone(), 1)
            }
            _ => Arc::new(cut.content.to_ram(bytes)),
        };
        let log = cut.log.as_ref().map(|log| log.to_ram(bytes));
        let log = log.map(|log| Arc::new(log) as Arc<dyn BlockDevice>);
        judge_on((device, log), cut, tear, options)
    });
    ended(outcome)
}

/// Judges the files of a cut that the caller has recovered, of an external log as well if there is
/// one.
pub fn judge_recovered(
    cut: &Cut,
    (image, log): (&Image, Option<&Image>),
    bytes: u64,
    tear: Tear,
) -> Result<(), String> {
    let options = MountOptions::parse("scheme=jbd2").expect("options");
    let body = || {
        let ram = |image: &Image| Arc::new(image.to_ram(bytes)) as Arc<dyn BlockDevice>;
        judge_on((ram(image), log.map(ram)), cut, tear, options)
    };
    ended(Sim::new(SimConfig::seeded(1)).run(body))
}

fn ended(outcome: Outcome<Result<(), String>>) -> Result<(), String> {
    match (outcome.value, outcome.first_failure) {
        (Some(Ok(())), None) => Ok(()),
        // A volume that failed is not unmounted, so its tasks are left.
        (Some(Err(why)), _) => Err(why),
        (_, failure) => Err(format!("{failure:?}")),
    }
}

fn judge_on(
    (device, log): (Arc<dyn BlockDevice>, Option<Arc<dyn BlockDevice>>),
    cut: &Cut,
    tear: Tear,
    options: MountOptions,
) -> Result<(), String> {
    let external = log.is_some();
    let fs = Ext4::mount_with_journal(Queue::new(device.clone()), log.map(Queue::new), options)
        .map_err(|e| format!("mount: {e}"))?;
    for (name, promised) in &cut.names {
        judge_name(&fs, name, promised, tear)
            .map_err(|why| format!("file {}: {why}", name.escape_ascii()))?;
    }
    for name in cut.names.keys() {
        match fs.unlink(fs.root(), name) {
            Ok(()) => {}
            Err(e) if e.errno() == fscore::Errno::NoEnt => {}
            Err(e) => return Err(format!("unlink: {e}")),
        }
    }
    fs.unmount().map_err(|e| format!("unmount: {e}"))?;
    let queue = Queue::new(device);
    let sectors = queue.caps().sectors;
    let read = |block: BlockNo| queue.read(block.lba(), SECTORS_PER_BLOCK);
    let mut report = check(&read, &Options::new(sectors / SECTORS_PER_BLOCK));
    // The checker looks at one device only.
    let elsewhere = |f: &Finding| f.kind == Kind::Unsupported;
    report.findings.retain(|f| !(external && elsewhere(f)));
    match report.findings.first() {
        None => Ok(()),
        Some(finding) => Err(format!("not consistent: {finding}")),
    }
}

fn judge_name(fs: &Ext4, name: &[u8], promised: &Name, tear: Tear) -> Result<(), String> {
    let ino = match fs.lookup(fs.root(), name) {
        Ok(ino) => ino,
        Err(e) if e.errno() == fscore::Errno::NoEnt => {
            return if promised.may_be_absent {
                Ok(())
            } else {
                Err("lost".into())
            };
        }
        Err(e) => return Err(format!("lookup: {e}")),
    };
    let size = fs.getattr(ino).map_err(|e| e.to_string())?.size;
    let mut buf = vec![0; size as usize];
    let got = fs
        .read(ino, 0, &mut buf)
        .map_err(|e| format!("read: {e}"))?;
    if got as u64 != size || size > (SECTORS_MAX * SECTOR_BYTES) as u64 || !size.is_multiple_of(512)
    {
        return Err(format!("size {size}, {got} bytes read"));
    }
    let mut found = Vec::new();
    let mut torn = BTreeSet::new();
    for (s, part) in buf.chunks(SECTOR_BYTES).enumerate() {
        found.push(match read_stamp(part) {
            Ok(stamp) => stamp,
            // A write in place that no sync has covered may be torn.
            Err(_) if tear == Tear::Sectors => {
                torn.insert(s);
                None
            }
            Err(why) => return Err(format!("sector {s}: {why}")),
        });
    }
    let block = fs.statfs().map_err(|e| e.to_string())?.block_bytes as usize;
    let torn = Torn {
        sectors: torn,
        page: block.max(BLOCK_BYTES) / SECTOR_BYTES,
    };
    let mut whys = Vec::new();
    for life in &promised.lives {
        match fits(life, size, &found, &torn) {
            Ok(()) => return Ok(()),
            Err(why) => whys.push(format!("as file {}: {why}", life.id)),
        }
    }
    Err(whys.join("; "))
}

type Stamp = Option<(u64, u64, u64)>;

/// Sectors of a file that are garbage.
struct Torn {
    sectors: BTreeSet<usize>,
    /// Sectors of a page.
    page: usize,
}

fn fits(life: &Life, size: u64, found: &[Stamp], torn: &Torn) -> Result<(), String> {
    let (acked, min) = match &life.acked {
        Some(a) => {
            if size < a.size_min || size > a.size_max {
                return Err(format!(
                    "size {size}, promised {}..={}",
                    a.size_min, a.size_max
                ));
            }
            (Some(a), a.size_min)
        }
        None => (None, 0),
    };
    for (s, stamp) in found.iter().enumerate() {
        let floor = acked
            .filter(|_| ((s * SECTOR_BYTES) as u64) < min)
            .map_or(0, |a| a.versions[s]);
        if torn.sectors.contains(&s) {
            // The page cache writes whole pages: a neighbour's write in place may tear what was
            // synced before.
            let from = s / torn.page * torn.page;
            let page = from..(from + torn.page).min(life.highest.len());
            // So may a truncation inside the page, which zeroes its rest.
            let cut_off = min < ((from + torn.page) * SECTOR_BYTES) as u64;
            let rewritten = |s: usize| acked.is_none_or(|a| life.highest[s] > a.versions[s]);
            if floor > 0 && !cut_off && !page.clone().any(rewritten) {
                return Err(format!("sector {s} is torn, and its page was synced"));
            }
            continue;
        }
        match *stamp {
            None if floor == 0 => {}
            None => return Err(format!("sector {s} is zero, version {floor} was synced")),
            Some((id, at, version)) => {
                if id != life.id || at != s as u64 {
                    return Err(format!("sector {s} holds sector {at} of file {id}"));
                }
                if version < floor || version > life.highest[s] {
                    return Err(format!(
                        "sector {s} has version {version}, synced {floor}, newest {}",
                        life.highest[s]
                    ));
                }
            }
        }
    }
    Ok(())
}

pub fn explore(seeds: std::ops::Range<u64>, mib: u64, tear: Tear, options: &str) {
    let judged = explore_with(seeds, mib, tear, options, |cut, seed, n| {
        if let Err(why) = judge(cut, mib * MIB, tear, options) {
            panic!("seed {seed}, cut {n}, {tear:?}, {options:?}: {why}");
        }
    });
    assert!(judged > 50, "only {judged} cuts");
}

/// Hands every cut of these lives to `judge`, with the seed and its number; answers how many cuts
/// there were.
pub fn explore_with(
    seeds: std::ops::Range<u64>,
    mib: u64,
    tear: Tear,
    options: &str,
    judge: impl FnMut(&Cut, u64, usize),
) -> u64 {
    let start = new_volume_for(options, mib);
    explore_from(&start, seeds, (mib, tear, options), judge)
}

/// As [`explore_with`], for a volume of `mib` MiB that is there.
pub fn explore_from(
    start: &Image,
    seeds: std::ops::Range<u64>,
    (mib, tear, options): (u64, Tear, &str),
    mut judge: impl FnMut(&Cut, u64, usize),
) -> u64 {
    let mut judged = 0;
    for seed in seeds {
        let cuts = life_of(seed, start, mib * MIB, tear, options);
        for (n, cut) in cuts.iter().enumerate() {
            judge(cut, seed, n);
            judged += 1;
        }
    }
    judged
}
