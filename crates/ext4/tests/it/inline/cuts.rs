//! The crash argument (inline-L1, inline-L3), judged at random cuts of a device that loses what it
//! was not told to flush: small files are written, resized and synced by several tasks; after each
//! cut every byte is one that was promised or came later.

use crate::common::cut_disk::{Tear, caps};
use crate::common::{Image as File, have_tools};
use base::{BlockNo, Ino, Nanos, Rng, SECTORS_PER_BLOCK, Time};
use block::Queue;
use blockdev::{Image, SpecDisk};
use fscore::{Creds, FileKind, FileSystem, FsError, SetAttr};
use rt::{Mutex, Sim, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::check::{Options, check};
use varve_ext4::{Ext4, MountOptions};

const BYTES: u64 = 24 << 20;
const FILES: usize = 3;
/// The maximum size of a file, bytes: far more than an inode holds.
const LEN_MAX: u64 = 700;

/// The states that a file may have after a cut.
#[derive(Clone, Debug)]
struct Promise {
    /// The current content.
    now: Vec<u8>,
    /// Values that each byte may have, besides 0 where it was ever cut off or never written since
    /// `zero`.
    values: Vec<Vec<u8>>,
    /// Sizes that it may have.
    sizes: Vec<usize>,
}

impl Promise {
    fn of(now: Vec<u8>) -> Promise {
        let mut values: Vec<Vec<u8>> = now.iter().map(|&b| vec![b]).collect();
        values.resize(LEN_MAX as usize, vec![0]);
        Promise {
            sizes: vec![now.len()],
            now,
            values,
        }
    }

    fn note(&mut self) {
        for (at, values) in self.values.iter_mut().enumerate() {
            values.push(self.now.get(at).copied().unwrap_or(0));
        }
        self.sizes.push(self.now.len());
    }

    fn judge(&self, found: &[u8]) -> Result<(), String> {
        if !self.sizes.contains(&found.len()) {
            return Err(format!("{} bytes, not of {:?}", found.len(), self.sizes));
        }
        let wrong = (0..found.len()).find(|&at| !self.values[at].contains(&found[at]));
        match wrong {
            Some(at) => Err(format!(
                "byte {at} is {}, not of {:?}",
                found[at], self.values[at]
            )),
            None => Ok(()),
        }
    }
}

type Promises = Arc<Mutex<Vec<Promise>>>;

fn work(fs: &Ext4, ino: Ino, n: usize, all: &Promises, rng: &mut Rng) -> Result<(), FsError> {
    for version in 1..40u8 {
        match rng.below(8) {
            0..=3 => {
                let size = all.lock()[n].now.len() as u64;
                let at = match rng.one_in(2) {
                    true => size,
                    false => rng.below(size + 1),
                };
                let len = (1 + rng.below(90)).min(LEN_MAX - at) as usize;
                let data = vec![version; len];
                {
                    // What a write brings may show from its beginning on.
                    let mut all = all.lock();
                    let end = at as usize + len;
                    let longer = all[n].now.len().max(end);
                    all[n].now.resize(longer, 0);
                    all[n].now[at as usize..end].fill(version);
                    all[n].note();
                }
                fs.write(ino, at, &data)?;
            }
            4 => {
                // The write is not made longer, because in a hole it would map a block without
                // order, as data=writeback allows.
                let most = all.lock()[n].now.len() as u64 + 1;
                let size = match rng.one_in(3) {
                    true => 0,
                    false => rng.below(most),
                };
                {
                    let mut all = all.lock();
                    all[n].now.resize(size as usize, 0);
                    all[n].note();
                }
                fs.resize(ino, size)?;
            }
            5..=6 => {
                fs.fsync(ino, rng.one_in(2))?;
                let mut all = all.lock();
                all[n] = Promise::of(all[n].now.clone());
            }
            _ => rt::sleep(Nanos::from_micros(rng.below(3000))),
        }
    }
    Ok(())
}

struct Cut {
    content: Image,
    promises: Vec<Promise>,
}

fn name(n: usize) -> Vec<u8> {
    format!("file {n}").into_bytes()
}

fn life(seed: u64, start: &Image, options: &str) -> Vec<Cut> {
    let mut options = MountOptions::parse(options).expect("options");
    options.writeback_expire = Some(Nanos::from_millis(2));
    let content = start.clone();
    let outcome = Sim::new(SimConfig::random(seed)).run(move || {
        let disk = SpecDisk::from_image(caps(BYTES, Tear::Blocks), content, seed);
        let fs = Ext4::mount(Queue::new(disk.clone()), options).expect("mounts");
        let all: Promises = Arc::new(Mutex::new(vec![Promise::of(Vec::new()); FILES]));
        let busy = Arc::new(Mutex::new(FILES));
        let mut inos = Vec::new();
        for n in 0..FILES {
            let creds = Creds::default();
            let made = fs.create(fs.root(), &name(n), FileKind::File, 0o644, 0, creds);
            inos.push(made.expect("room").ino);
        }
        fs.sync().expect("synced");
        let tasks: Vec<_> = (0..FILES)
            .map(|n| {
                let (fs, all, busy, ino) = (fs.clone(), all.clone(), busy.clone(), inos[n]);
                rt::spawn("writer", move || {
                    let mut rng = Rng::named(seed, &format!("writer {n}"));
                    let outcome = work(&fs, ino, n, &all, &mut rng);
                    *busy.lock() -= 1;
                    outcome
                })
            })
            .collect();
        let flusher = {
            let (fs, busy) = (fs.clone(), busy.clone());
            rt::spawn("flusher", move || {
                while *busy.lock() > 0 {
                    rt::sleep(Nanos::from_micros(900));
                    fs.writeback(Time(u64::MAX)).expect("writes back");
                    fs.journal().checkpoint_all().expect("goes home");
                }
            })
        };
        let mut rng = Rng::named(seed, "cuts");
        let mut cuts = Vec::new();
        while *busy.lock() > 0 {
            rt::sleep(Nanos(rng.below(900_000)));
            let promises = all.lock().clone();
            let content = match rng.one_in(2) {
                true => disk.snapshot_lost(),
                false => disk.snapshot(rng.next_u64()),
            };
            cuts.push(Cut { content, promises });
        }
        for task in tasks {
            task.join().expect("no panic").expect("no error");
        }
        flusher.join().expect("no panic");
        fs.unmount().expect("unmounts");
        cuts
    });
    outcome.unwrap()
}

fn judge(cut: &Cut, options: &str) -> Result<(), String> {
    let options = MountOptions::parse(options).expect("options");
    let outcome = Sim::new(SimConfig::seeded(1)).run(|| {
        let device = Arc::new(cut.content.to_ram(BYTES));
        let queue = Queue::new(device);
        let fs = Ext4::mount(queue.clone(), options).map_err(|e| format!("mount: {e}"))?;
        for (n, promise) in cut.promises.iter().enumerate() {
            let ino = fs
                .lookup(fs.root(), &name(n))
                .map_err(|e| format!("{n}: {e}"))?;
            let size = fs.getattr(ino).map_err(|e| format!("{n}: {e}"))?.size;
            let mut found = vec![0; size as usize];
            fs.read(ino, 0, &mut found)
                .map_err(|e| format!("{n}: {e}"))?;
            promise
                .judge(&found)
                .map_err(|e| format!("file {n}: {e}"))?;
        }
        fs.unmount().map_err(|e| format!("unmount: {e}"))?;
        let read = |block: BlockNo| queue.read(block.lba(), SECTORS_PER_BLOCK);
        let report = check(&read, &Options::new(BYTES / 4096));
        match report.is_clean() {
            true => Ok(()),
            false => Err(format!("not consistent: {}", report.findings[0])),
        }
    });
    match (outcome.value, outcome.first_failure) {
        (Some(answer), _) => answer,
        (None, failure) => Err(format!("{failure:?}")),
    }
}

fn holds(seeds: std::ops::Range<u64>, options: &str) {
    if !have_tools() {
        return;
    }
    let image = File::new(BYTES >> 20, &["-O", "inline_data", "-J", "size=4"]);
    let start: Image = image.load().blocks().into_iter().collect();
    let mut judged = 0;
    for seed in seeds {
        for (n, cut) in life(seed, &start, options).iter().enumerate() {
            judged += 1;
            if let Err(why) = judge(cut, options) {
                panic!("{options}, seed {seed}, cut {n}: {why}");
            }
        }
    }
    assert!(judged > 60, "only {judged} cuts");
}

#[test]
fn ordered() {
    holds(0..8, "data=ordered");
}

/// inline-L3: in every data mode.
#[test]
fn writeback() {
    holds(100..104, "data=writeback");
    holds(104..108, "order=flush-ahead,data=writeback");
}

#[test]
fn journaled() {
    holds(200..206, "data=journal");
}

#[test]
fn deltas() {
    holds(300..306, "scheme=emmc");
}

/// Ways in which content leaves an inode.
#[derive(Clone, Copy, Debug)]
enum Leave {
    Write,
    Truncate,
    Allocate,
}

impl Leave {
    const ALL: [Leave; 3] = [Leave::Write, Leave::Truncate, Leave::Allocate];

    fn run(self, fs: &Ext4, ino: Ino) -> Result<(), FsError> {
        let longer = SetAttr {
            size: Some(3000),
            ..SetAttr::default()
        };
        match self {
            Leave::Write => fs.write(ino, 120, &[8; 600]).map(drop),
            Leave::Truncate => fs.setattr(ino, &longer).map(drop),
            Leave::Allocate => fs.fallocate(ino, fscore::FallocateMode::Allocate, 0, 8192),
        }
    }
}

/// The content of a small file after a cut. Its content was promised by an fsync and has left the
/// inode since; another task has committed that transaction, and the device has lost everything
/// that it was not told to keep.
fn after_leaving(start: &Image, options: &str, leave: Leave) -> Vec<u8> {
    let promised = [7; 120];
    let parsed = MountOptions::parse(options).expect("options");
    let again = parsed.clone();
    let start = start.clone();
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let disk = SpecDisk::from_image(caps(BYTES, Tear::Blocks), start, 1);
        let fs = Ext4::mount(Queue::new(disk.clone()), parsed).expect("mounts");
        let make = |name: &[u8]| fs.file(name);
        let (file, other) = (make(b"file"), make(b"other"));
        fs.write(file, 0, &promised).expect("room");
        fs.fsync(file, false).expect("durable");
        leave.run(&fs, file).expect("room");
        fs.write(other, 0, b"x").expect("room");
        fs.fsync(other, false).expect("durable");
        let cut = disk.snapshot_lost().to_ram(BYTES);
        fs.unmount().expect("unmounts");
        let fs = Ext4::mount(Queue::new(Arc::new(cut)), again).expect("mounts");
        let file = fs.find(b"file");
        let mut found = vec![0; promised.len()];
        fs.read(file, 0, &mut found).expect("readable");
        fs.unmount().expect("unmounts");
        found
    });
    outcome.unwrap()
}

/// inline-L3, with certainty: `emmc` commits by one write that flushes nothing, so only the wait
/// for the flushed block keeps what was durable.
#[test]
fn what_was_durable_in_the_inode_is_in_the_block_that_a_commit_maps() {
    if !have_tools() {
        return;
    }
    let image = File::new(BYTES >> 20, &["-O", "inline_data", "-J", "size=4"]);
    let start: Image = image.load().blocks().into_iter().collect();
    for options in [
        "scheme=emmc,data=writeback",
        "scheme=emmc,data=ordered",
        "scheme=emmc,data=journal",
        "scheme=jbd2,data=writeback",
        "order=flush-ahead,data=writeback",
        "scheme=coalition,data=writeback",
    ] {
        for leave in Leave::ALL {
            let found = after_leaving(&start, options, leave);
            assert_eq!(found, [7; 120], "{options}, {leave:?}");
        }
    }
}
