//! Runs in which tasks commit atomic writes, shift, cut, move and overwrite content while others
//! write checkpoints, and a model of what each of their files may hold after a cut.
#![allow(dead_code, missing_docs, clippy::disallowed_methods)]

use crate::common::{MIB, caps, try_mount};
use base::{BLOCK_BYTES, Ino, Mutant, Nanos, Rng};
use block::Queue;
use blockdev::{Image, SpecDisk};
use fscore::{FileSystem, FsResult};
use rt::{Mutex, Outcome, Sim, SimConfig};
use std::collections::BTreeSet;
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::{F2fs, MountOptions};

pub const VOLUME_MIB: u64 = 64;
const BLOCK: u64 = BLOCK_BYTES as u64;
/// Pages of the file that is written atomically: in the inode, in both direct nodes, below an
/// indirect one.
const ATOMIC: [u64; 6] = [0, 1, 900, 1900, 2950, 4100];
const OVERWRITTEN: u64 = 24;

/// What was promised until a cut.
#[derive(Clone, Default, Debug)]
pub struct Promise {
    /// Version of the atomic file that was committed last, and the newest that was begun.
    committed: u64,
    begun: u64,
    /// The file that is being shifted, by name: tokens that must not get lost.
    shifted: Option<(String, BTreeSet<u64>)>,
    /// A file that was durable with 4000 bytes of this value, and may be cut to 1000.
    cut: Option<(String, u8)>,
    /// A file that was durable with 100 inline bytes of this value.
    inline: Option<(String, u8)>,
    /// The file that is overwritten was durable once.
    overwritten: bool,
}

/// One possible future.
pub struct Cut {
    pub content: Image,
    pub promise: Promise,
}

struct Task {
    fs: Arc<F2fs>,
    promise: Arc<Mutex<Promise>>,
    rng: Rng,
}

fn page_of(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(BLOCK_BYTES / 8)
}

/// The value of a page; `None` if it is mixed.
fn value_of(page: &[u8]) -> Option<u64> {
    let value = u64::from_le_bytes(page.get(..8)?.try_into().ok()?);
    (page == page_of(value)).then_some(value)
}

impl Task {
    fn remove(&self, name: &str) -> FsResult<()> {
        self.fs.unlink(self.fs.root(), name.as_bytes())
    }

    fn rest(&mut self) {
        rt::sleep(Nanos::from_micros(self.rng.below(900)));
    }

    fn atomic(&mut self, rounds: u64) -> FsResult<()> {
        let fs = self.fs.clone();
        let ino = self.fs.make(self.fs.root(), "atomic")?;
        for version in 1..=rounds {
            fs.atomic_begin(ino)?;
            self.promise.lock().begun = version;
            for index in ATOMIC {
                fs.write(ino, index * BLOCK, &page_of(version))?;
            }
            self.rest();
            if self.rng.one_in(4) {
                fs.atomic_abort(ino)?;
            } else {
                fs.atomic_commit(ino)?;
                self.promise.lock().committed = version;
            }
        }
        Ok(())
    }

    fn shift(&mut self, rounds: u64) -> FsResult<()> {
        for round in 0..rounds {
            let name = format!("shifted{round}");
            let ino = self.fs.make(self.fs.root(), &name)?;
            let pages = 6 + self.rng.below(10);
            for index in 0..pages {
                self.fs.write(ino, index * BLOCK, &page_of(index + 1))?;
            }
            self.fs.fsync(ino, false)?;
            let tokens: BTreeSet<u64> = (1..=pages).collect();
            self.promise.lock().shifted = Some((name.clone(), tokens));
            self.rest();
            let at = self.rng.below(pages - 2);
            let len = 1 + self.rng.below(pages - at - 1);
            if self.rng.one_in(2) {
                let gone = at + 1..=at + len;
                if let Some((_, tokens)) = &mut self.promise.lock().shifted {
                    tokens.retain(|t| !gone.contains(t));
                }
                self.fs.collapse_range(ino, at * BLOCK, len * BLOCK)?;
            } else {
                self.fs.insert_range(ino, at * BLOCK, len * BLOCK)?;
            }
            self.rest();
            self.promise.lock().shifted = None;
            self.remove(&name)?;
        }
        Ok(())
    }

    fn cut(&mut self, rounds: u64) -> FsResult<()> {
        for round in 0..rounds {
            let (name, value) = (format!("cut{round}"), round as u8 + 1);
            let ino = self.fs.make(self.fs.root(), &name)?;
            self.fs.write(ino, 0, &[value; 4000])?;
            self.fs.fsync(ino, false)?;
            self.promise.lock().cut = Some((name.clone(), value));
            self.fs.resize(ino, 1000)?;
            self.rest();
            self.promise.lock().cut = None;
            self.remove(&name)?;
        }
        Ok(())
    }

    fn inline(&mut self, rounds: u64) -> FsResult<()> {
        for round in 0..rounds {
            let (name, value) = (format!("inline{round}"), round as u8 + 1);
            let ino = self.fs.make(self.fs.root(), &name)?;
            self.fs.write(ino, 0, &[value; 100])?;
            self.fs.fsync(ino, false)?;
            self.promise.lock().inline = Some((name.clone(), value));
            self.fs.write(ino, 5000, &[value; 100])?;
            if self.rng.one_in(2) {
                self.fs.fsync(self.fs.root(), false)?;
            }
            self.rest();
            self.promise.lock().inline = None;
            self.remove(&name)?;
        }
        Ok(())
    }

    fn overwrite(&mut self, rounds: u64) -> FsResult<()> {
        let ino = self.fs.make(self.fs.root(), "over")?;
        for index in 0..OVERWRITTEN {
            self.fs.write(ino, index * BLOCK, &page_of(index + 1))?;
        }
        self.fs.fsync(ino, false)?;
        self.promise.lock().overwritten = true;
        for round in 0..rounds * 4 {
            let index = self.rng.below(OVERWRITTEN);
            let value = (round + 1) << 32 | (index + 1);
            self.fs.write(ino, index * BLOCK, &page_of(value))?;
            self.fs.writeback(rt::now() + Nanos(1))?;
            rt::sleep(Nanos::from_micros(self.rng.below(200)));
        }
        Ok(())
    }
}

/// A life, and the states that cuts in it may leave.
pub fn live(
    seed: u64,
    start: &Image,
    options: &str,
    rounds: u64,
    mutant: Option<Mutant>,
) -> Outcome<Vec<Cut>> {
    let options = MountOptions::parse(options).expect("options");
    let start = start.clone();
    let cfg = SimConfig {
        mutant,
        quiet: mutant.is_some(),
        ..SimConfig::random(seed)
    };
    Sim::new(cfg).run(move || {
        let disk = SpecDisk::from_image(caps(VOLUME_MIB * MIB), start, seed);
        let fs = F2fs::mount(Queue::new(disk.clone()), options).expect("mounts");
        let promise = Arc::new(Mutex::new(Promise::default()));
        let works: [fn(&mut Task, u64) -> FsResult<()>; 5] = [
            Task::atomic,
            Task::shift,
            Task::cut,
            Task::inline,
            Task::overwrite,
        ];
        let busy = Arc::new(Mutex::new(works.len()));
        let tasks = works.into_iter().enumerate().map(|(n, work)| {
            let mut task = Task {
                fs: fs.clone(),
                promise: promise.clone(),
                rng: Rng::named(seed, &format!("task {n}")),
            };
            let busy = busy.clone();
            rt::spawn("task", move || {
                let result = work(&mut task, rounds);
                *busy.lock() -= 1;
                result
            })
        });
        let mut tasks: Vec<_> = tasks.collect();
        let (other, still) = (fs.clone(), busy.clone());
        tasks.push(rt::spawn("checkpoints", move || {
            // A checkpoint that writes no data.
            while *still.lock() > 0 {
                rt::sleep(Nanos::from_micros(700));
                other.fsync(other.root(), false)?;
            }
            Ok(())
        }));
        let mut cuts = Vec::new();
        let mut rng = Rng::named(seed, "cuts");
        while *busy.lock() > 0 {
            rt::sleep(Nanos::from_micros(rng.below(1600)));
            // What returns at this moment was promised before the cut.
            let promise = promise.lock().clone();
            let content = disk.snapshot(rng.next_u64());
            cuts.push(Cut { content, promise });
        }
        for task in tasks {
            task.join().expect("no panic").expect("no error");
        }
        fs.unmount().expect("unmounts");
        cuts
    })
}

/// Mounts what a cut left, and looks whether each file keeps its promise.
pub fn judge(cut: &Cut, options: &str) -> Result<Arc<blockdev::Ram>, String> {
    let ram = Arc::new(cut.content.to_ram(VOLUME_MIB * MIB));
    let fs = try_mount(&ram, options).map_err(|e| format!("it does not mount: {e}"))?;
    let content = |name: &str| {
        let found = fs.lookup(fs.root(), name.as_bytes());
        found.ok().map(|ino| fs.content(ino))
    };
    let promise = &cut.promise;
    let atomic = fs.lookup(fs.root(), b"atomic").ok();
    let pages = atomic.map(|ino| ATOMIC.map(|index| page_at(&fs, ino, index)));
    judge_atomic(pages, promise).map_err(|e| format!("{e}; {:?}", fs.recovery()))?;
    if let Some((name, tokens)) = &promise.shifted {
        let seen = content(name).ok_or("the shifted file is gone")?;
        let seen: BTreeSet<u64> = seen.chunks(BLOCK_BYTES).filter_map(value_of).collect();
        let lost: Vec<&u64> = tokens.difference(&seen).collect();
        if !lost.is_empty() {
            return Err(format!("{name} has lost the pages {lost:?}"));
        }
    }
    if let Some((name, value)) = &promise.cut {
        let seen = content(name).ok_or("the cut file is gone")?;
        if seen != [*value; 4000] && seen != [*value; 1000] {
            let zero = seen.iter().position(|&b| b == 0);
            return Err(format!("{name}: {} bytes, zeros from {zero:?}", seen.len()));
        }
    }
    if let Some((name, value)) = &promise.inline {
        let seen = content(name).ok_or("the inline file is gone")?;
        if seen.get(..100) != Some(&[*value; 100][..]) {
            return Err(format!("{name} has lost what was inline"));
        }
    }
    if promise.overwritten {
        let seen = content("over").ok_or("the overwritten file is gone")?;
        for (index, page) in seen.chunks(BLOCK_BYTES).enumerate() {
            let value = value_of(page).map(|v| v & 0xFFFF_FFFF);
            if value != Some(index as u64 + 1) {
                return Err(format!("page {index} of `over` is {value:?}"));
            }
        }
    }
    fs.unmount().map_err(|e| e.to_string())?;
    Ok(ram)
}

fn page_at(fs: &F2fs, ino: Ino, index: u64) -> Option<u64> {
    let mut page = vec![0; BLOCK_BYTES];
    let n = fs.read(ino, index * BLOCK, &mut page).expect("readable");
    page.truncate(n);
    value_of(&page)
}

fn judge_atomic(seen: Option<[Option<u64>; 6]>, promise: &Promise) -> Result<(), String> {
    let legal = promise.committed..=promise.begun;
    match seen {
        // Nothing was committed: it may be empty, or not there.
        None | Some([None, None, None, None, None, None]) if promise.committed == 0 => Ok(()),
        Some(versions) if versions.iter().all(|v| *v == versions[0]) => match versions[0] {
            Some(version) if legal.contains(&version) => Ok(()),
            other => Err(format!("atomic: {other:?}, {legal:?} are legal")),
        },
        mixed => Err(format!("atomic: {mixed:?}, {legal:?} are legal")),
    }
}
