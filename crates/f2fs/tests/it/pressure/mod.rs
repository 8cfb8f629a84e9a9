//! A small, nearly full volume is overwritten and cleaned while its power is cut. Each page
//! contains its file, page number and version, so that lost acknowledged writes and content of
//! other owners are both detected.
#![allow(dead_code, missing_docs, clippy::disallowed_methods)]

mod bare;

use crate::common::{caps, fresh};
use bare::Bare;
use base::{Ino, Mutant, Nanos, Rng};
use block::Queue;
use blockdev::{Image, Ram, SpecDisk};
use fscore::{Errno, FileSystem, FsError};
use rt::{Mutex, Outcome, Sim, SimConfig};
use std::collections::BTreeSet;
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::{F2fs, MountOptions};

const PAGE: usize = 4096;
const MIB: u64 = 64;
const FILES: u64 = 24;

/// Mounts without tasks in the background.
fn mount(queue: Arc<Queue>, options: &str) -> Result<Arc<F2fs>, FsError> {
    let options = MountOptions {
        timers: false,
        ..MountOptions::parse(options).expect("options")
    };
    F2fs::mount(queue, options)
}

fn stamp(file: u64, index: u64, version: u64) -> Vec<u8> {
    let words = [file, index, version, !version];
    let one: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    one.repeat(PAGE / 32)
}

/// Versions of a page.
#[derive(Clone, Copy, Default, Debug)]
struct Page {
    acked: u64,
    highest: u64,
}

type Model = Vec<Vec<Page>>;

/// One cut: what the device holds, and what it must and may.
pub struct Cut {
    image: Image,
    model: Model,
    /// An fsync that wrote no checkpoint was under way.
    bare: Option<Bare>,
}

/// An fsync that is under way: which one, and of which file.
type Syncing = Option<(u64, usize)>;

struct Life {
    fs: Arc<F2fs>,
    inos: Vec<Ino>,
    model: Arc<Mutex<Model>>,
    syncing: Arc<Mutex<Syncing>>,
    /// Fsyncs so far, and those that wrote a checkpoint.
    fsyncs: (u64, BTreeSet<u64>),
    rng: Rng,
}

impl Life {
    fn begin(fs: Arc<F2fs>, seed: u64) -> Result<Life, FsError> {
        let mut rng = Rng::named(seed, "pressure");
        let (mut inos, mut model) = (Vec::new(), Model::new());
        for file in 0..FILES {
            inos.push(fs.make(fs.root(), format!("file{file}"))?);
            model.push(vec![Page::default(); 40 + rng.below(110) as usize]);
        }
        let model = Arc::new(Mutex::new(model));
        let mut life = Life {
            fs,
            inos,
            model,
            syncing: Arc::default(),
            fsyncs: (0, BTreeSet::new()),
            rng,
        };
        for file in 0..FILES as usize {
            let pages = life.model.lock()[file].len();
            life.write(file, 0, pages)?;
        }
        life.sync()?;
        Ok(life)
    }

    fn write(&mut self, file: usize, first: usize, pages: usize) -> Result<(), FsError> {
        for index in first..first + pages {
            let version = {
                let page = &mut self.model.lock()[file][index];
                page.highest += 1;
                page.highest
            };
            let content = stamp(file as u64, index as u64, version);
            self.fs
                .write(self.inos[file], (index * PAGE) as u64, &content)?;
        }
        Ok(())
    }

    fn acked(model: &Mutex<Model>, before: &Model) {
        for (file, old) in model.lock().iter_mut().zip(before) {
            for (page, old) in file.iter_mut().zip(old) {
                page.acked = page.acked.max(old.highest);
            }
        }
    }

    fn sync(&mut self) -> Result<(), FsError> {
        let before = self.model.lock().clone();
        self.fs.sync()?;
        Life::acked(&self.model, &before);
        Ok(())
    }

    fn fsync(&mut self, file: usize) -> Result<(), FsError> {
        let mut before = self.model.lock().clone();
        for (n, pages) in before.iter_mut().enumerate() {
            if n != file {
                pages.clear();
            }
        }
        let checkpoints = self.fs.fsync_checkpoints();
        self.fsyncs.0 += 1;
        *self.syncing.lock() = Some((self.fsyncs.0, file));
        self.fs.fsync(self.inos[file], self.rng.below(2) == 0)?;
        *self.syncing.lock() = None;
        if self.fs.fsync_checkpoints() != checkpoints {
            self.fsyncs.1.insert(self.fsyncs.0);
        }
        Life::acked(&self.model, &before);
        Ok(())
    }

    fn step(&mut self) -> Result<(), FsError> {
        let file = self.rng.below(FILES) as usize;
        let pages = self.model.lock()[file].len();
        match self.rng.below(16) {
            0 => self.sync(),
            1..=3 => self.fs.garbage_collect(true).map(drop),
            4..=6 => self.fsync(file),
            _ => {
                let first = self.rng.below(pages as u64) as usize;
                let count = (1 + self.rng.below(60) as usize).min(pages - first);
                self.write(file, first, count)?;
                self.fs.writeback(rt::now())
            }
        }
    }
}

/// One life with cuts at random moments; a mutant switches a guard off.
pub fn live(
    seed: u64,
    options: &'static str,
    steps: u64,
    cuts: usize,
    mutant: Option<Mutant>,
) -> Outcome<Vec<Cut>> {
    let config = SimConfig {
        mutant,
        quiet: mutant.is_some(),
        ..SimConfig::seeded(seed)
    };
    Sim::new(config).run(move || {
        let image: Image = fresh(MIB).blocks().into_iter().collect();
        let disk = SpecDisk::from_image(caps(MIB << 20), image, seed);
        disk.record();
        let fs = mount(Queue::new(disk.clone()), options).expect("mount");
        let mut life = Life::begin(fs, seed).expect("room");
        let (model, syncing) = (life.model.clone(), life.syncing.clone());
        let over = Mutex::new(false);
        rt::scope(|s| {
            let watcher = s.spawn("cuts", || {
                let mut rng = Rng::named(seed, "cuts");
                let mut seen = Vec::new();
                while seen.len() < cuts && !*over.lock() {
                    rt::sleep(Nanos(rng.below(25_000_000)));
                    let image = disk.snapshot(rng.below(u64::MAX));
                    let model = model.lock().clone();
                    let syncing = *syncing.lock();
                    seen.push((image, model, syncing, rt::now()));
                }
                *over.lock() = true;
                seen
            });
            for _ in 0..steps {
                if *over.lock() {
                    break;
                }
                match life.step() {
                    Err(e) if e.errno() == Errno::NoSpc => panic!("ENOSPC for an overwrite"),
                    step => step.expect("a step"),
                }
            }
            *over.lock() = true;
            let seen = watcher.join().expect("cuts");
            let trace = Arc::new(disk.take_trace().expect("recorded"));
            let cut = |(image, model, syncing, at): (_, _, Syncing, _)| {
                let syncing = syncing.filter(|(n, _)| !life.fsyncs.1.contains(n));
                let trace = trace.clone();
                let bare = syncing.map(|(_, file)| Bare { file, at, trace });
                Cut { image, model, bare }
            };
            seen.into_iter().map(cut).collect()
        })
    })
}

/// Where a page lies.
fn block_of(fs: &F2fs, ino: Ino, index: usize) -> Option<u64> {
    let at = (index * PAGE) as u64;
    let extents = fs.file_extents(ino, at, 1).ok()?;
    let first = extents.first().filter(|e| e.offset <= at)?;
    Some(u64::from(first.block?.0) + (at - first.offset) / PAGE as u64)
}

/// Mounts what a cut left and looks at every page: how many hold old content as [`Bare`] explains
/// it.
///
/// # Errors
/// What is wrong.
pub fn judge(cut: &Cut, options: &'static str) -> Result<u64, String> {
    let (image, model) = (cut.image.clone(), cut.model.clone());
    // sync-Y5: `strict` has no such state.
    let bare = cut.bare.clone().filter(|_| !options.contains("strict"));
    let outcome = Sim::new(SimConfig {
        quiet: true,
        ..SimConfig::seeded(1)
    })
    .run(move || {
        let ram: Arc<Ram> = Arc::new(image.to_ram(MIB << 20));
        let fs = mount(Queue::new(ram.clone()), options).map_err(|e| format!("mount: {e}"))?;
        let mut excused = 0;
        for (file, pages) in model.iter().enumerate() {
            let name = format!("file{file}");
            let ino = fs
                .lookup(fs.root(), name.as_bytes())
                .map_err(|e| format!("{name}: {e}"))?;
            for (index, page) in pages.iter().enumerate() {
                let mut found = vec![0; PAGE];
                fs.read(ino, (index * PAGE) as u64, &mut found)
                    .map_err(|e| format!("{name}, page {index}: {e}"))?;
                let word =
                    |n: usize| u64::from_le_bytes(found[n * 8..n * 8 + 8].try_into().expect("8"));
                let version = word(2);
                let of = |version| stamp(file as u64, index as u64, version);
                let right = found == of(version);
                if right && (page.acked..=page.highest).contains(&version) {
                    continue;
                }
                // bare-B1.
                let bare = bare.as_ref().filter(|bare| bare.file == file);
                if let Some(bare) = bare.filter(|_| page.acked < page.highest)
                    && let Some(block) = block_of(&fs, ino, index)
                    && bare.explains(ino.0.into(), block, |b| {
                        (page.acked + 1..=page.highest).any(|version| b == of(version))
                    })
                {
                    excused += 1;
                    continue;
                }
                if !right {
                    let words = [word(0), word(1), word(2), word(3)];
                    return Err(format!("{name}, page {index}: other content: {words:?}"));
                }
                return Err(format!("{name}, page {index}: version {version}, {page:?}"));
            }
        }
        fs.unmount().map_err(|e| format!("unmount: {e}"))?;
        Ok(excused)
    });
    if let Some(failure) = outcome.first_failure {
        return Err(failure.to_string());
    }
    outcome.value.expect("a verdict")
}
