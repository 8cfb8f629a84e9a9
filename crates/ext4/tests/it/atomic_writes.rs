//! Atomic writes (`file/atomic_write.rs`): after a random cut all parts are there or none, while
//! other tasks commit, write back and empty the log, and while direct writes of the same pages lie
//! between (atomic_write-A1 to atomic_write-A6).
#![allow(clippy::disallowed_methods)]

use crate::data_path::{MIB, Tear, caps, new_volume};
use base::{Bytes, Ino, Nanos, Rng, Time};
use block::Queue;
use blockdev::{Image, SpecDisk};
use fscore::{Errno, FileSystem};
use rt::{Mutex, Sim, SimConfig};
use std::ops::RangeInclusive;
use std::sync::Arc;
use testkit::Brief;
use varve_ext4::{Ext4, MountOptions};

/// The pages that each step writes: some are neighbours, the first steps find holes between.
const PAGES: [u64; 8] = [0, 3, 4, 9, 12, 13, 20, 31];
const STEPS: u8 = 36;

/// A step writes its number into all pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Atomic,
    Direct,
}

/// The kind of a step: two atomic ones, then a direct one.
fn kind(step: u8) -> Step {
    match step % 3 {
        0 => Step::Direct,
        _ => Step::Atomic,
    }
}

struct State {
    acked: u8,
    begun: u8,
}

/// A cut, with the steps that may be the last of what is found.
struct Cut {
    image: Image,
    steps: RangeInclusive<u8>,
}

fn write(fs: &Ext4, ino: Ino, step: u8) {
    match kind(step) {
        Step::Atomic => {
            let parts = PAGES.map(|page| (page * 4096, Bytes::from(vec![step; 4096])));
            fs.write_atomic(ino, &parts).expect("written whole");
        }
        Step::Direct => {
            for page in PAGES {
                let n = fs.write(ino, page * 4096, &[step; 4096]).expect("written");
                assert_eq!(n, 4096);
            }
        }
    }
}

fn life(seed: u64, start: &Image, tear: Tear, bytes: u64, options: &str) -> Vec<Cut> {
    let mut options = MountOptions::parse(options).expect("options");
    options.writeback_expire = Some(Nanos::from_millis(2));
    let (start, caps) = (start.clone(), caps(bytes, tear));
    let outcome = Sim::new(SimConfig::random(seed)).run(move || {
        let disk = SpecDisk::from_image(caps, start, seed);
        let fs = Ext4::mount(Queue::new(disk.clone()), options).expect("mounts");
        let file = fs.file("db");
        fs.fsync(file, false).expect("synced");
        let state = Arc::new(Mutex::new(State { acked: 0, begun: 0 }));
        let busy = Arc::new(Mutex::new(true));
        let writer = {
            let (fs, state, busy) = (fs.clone(), state.clone(), busy.clone());
            rt::spawn("writer", move || {
                for step in 1..=STEPS {
                    state.lock().begun = step;
                    write(&fs, file, step);
                    fs.fsync(file, true).expect("synced");
                    state.lock().acked = step;
                }
                *busy.lock() = false;
            })
        };
        let committer = {
            let (fs, busy) = (fs.clone(), busy.clone());
            rt::spawn("committer", move || {
                let other = fs.file("other");
                let mut n = 0;
                while *busy.lock() {
                    fs.write(other, n * 100, &[1; 100]).expect("written");
                    fs.fsync(other, false).expect("synced");
                    n += 1;
                }
            })
        };
        let flusher = {
            let (fs, busy) = (fs.clone(), busy.clone());
            rt::spawn("flusher", move || {
                let mut round = 0;
                while *busy.lock() {
                    rt::sleep(Nanos::from_micros(700));
                    let now = rt::now();
                    fs.writeback(Time(now.0.saturating_sub(300_000)))
                        .expect("writes back");
                    round += 1;
                    if round % 7 == 0 {
                        fs.journal().checkpoint_all().expect("goes home");
                    }
                }
            })
        };
        let mut cuts = Vec::new();
        let mut rng = Rng::named(seed, "cuts");
        while *busy.lock() {
            rt::sleep(Nanos(rng.below(600_000)));
            let acked = state.lock().acked;
            let image = disk.snapshot(rng.next_u64());
            let steps = acked..=state.lock().begun;
            cuts.push(Cut { image, steps });
        }
        for task in [writer, committer, flusher] {
            task.join().expect("no panic");
        }
        fs.unmount().expect("unmounts");
        cuts
    });
    outcome.unwrap()
}

/// What is wrong with what a cut left.
fn judge(cut: &Cut, bytes: u64, options: &str) -> Result<(), String> {
    let ram = Arc::new(cut.image.to_ram(bytes));
    let fs = Ext4::mount(
        Queue::new(ram),
        MountOptions::parse(options).expect("options"),
    )
    .map_err(|e| format!("no mount: {e}"))?;
    let ino = fs.find("db");
    let mut found = Vec::new();
    for page in PAGES {
        let mut buf = vec![0; 4096];
        fs.read(ino, page * 4096, &mut buf).expect("readable");
        if buf.iter().any(|&byte| byte != buf[0]) {
            return Err(format!("page {page} is torn"));
        }
        found.push(buf[0]);
    }
    let size = fs.getattr(ino).expect("there").size;
    fs.unmount().map_err(|e| format!("no unmount: {e}"))?;
    let whole = found.iter().all(|step| *step == found[0]);
    let direct = (cut.steps.start() + 1..=*cut.steps.end()).any(|s| kind(s) == Step::Direct);
    let known = found.iter().all(|step| cut.steps.contains(step));
    let sized = size == 32 * 4096 || size == 0 && *cut.steps.start() == 0 || direct;
    match known && sized && (whole || direct) {
        true => Ok(()),
        false => Err(format!(
            "{:?} were possible, found {found:?}, {size} bytes",
            cut.steps
        )),
    }
}

fn explore(seeds: std::ops::Range<u64>, mib: u64, tear: Tear, options: &str) {
    explore_on(&new_volume(mib), seeds, mib, tear, options);
}

/// Judges random cuts of lives that begin with `start`, a volume of `mib` MiB.
pub fn explore_on(start: &Image, seeds: std::ops::Range<u64>, mib: u64, tear: Tear, options: &str) {
    let mut mixed = 0;
    for seed in seeds {
        let cuts = life(seed, start, tear, mib * MIB, options);
        assert!(cuts.len() > 20, "only {} cuts", cuts.len());
        for (n, cut) in cuts.iter().enumerate() {
            if let Err(e) = judge(cut, mib * MIB, options) {
                panic!("seed {seed}, cut {n}, {options}: {e}");
            }
            let last = *cut.steps.end();
            mixed += usize::from(cut.steps.clone().count() > 1 && kind(last) == Step::Atomic);
        }
    }
    assert!(mixed > 10, "only {mixed} cuts fell into an atomic write");
}

#[test]
fn all_parts_or_none() {
    explore(0..6, 16, Tear::Blocks, "scheme=jbd2");
    explore(
        10..14,
        16,
        Tear::Blocks,
        "scheme=emmc,small=64,commit-by=caller",
    );
    explore(20..24, 16, Tear::Blocks, "scheme=coalition");
    explore(30..34, 16, Tear::Blocks, "scheme=adaptive,commit-by=caller");
    explore(40..44, 16, Tear::Blocks, "scheme=flush-ahead,discard");
    explore(50..53, 16, Tear::Blocks, "data=journal");
    explore(60..63, 16, Tear::Blocks, "data=writeback");
    explore(70..73, 144, Tear::Sectors, "scheme=jbd2");
}

fn live(mib: u64, body: impl FnOnce(&Ext4) + Send + 'static) {
    let start = new_volume(mib);
    let outcome = Sim::new(SimConfig::seeded(1)).run(move || {
        let disk = SpecDisk::from_image(caps(mib * MIB, Tear::Blocks), start, 1);
        let fs = Ext4::mount(Queue::new(disk), MountOptions::default()).expect("mounts");
        body(&fs);
        fs.unmount().expect("unmounts");
    });
    outcome.unwrap();
}

/// Parts need not be pages: they keep what is beside them, and the later one counts.
#[test]
fn parts_keep_what_is_beside_them() {
    live(16, |fs| {
        let ino = fs.file("a");
        fs.write(ino, 0, &[1; 5000]).expect("written");
        let part = |at: u64, byte: u8, len: usize| (at, Bytes::from(vec![byte; len]));
        let parts = [
            part(10, 2, 20),
            part(4000, 3, 2000),
            part(4090, 4, 10),
            part(9000, 5, 1),
        ];
        fs.write_atomic(ino, &parts).expect("written whole");
        let mut expected = vec![1; 5000];
        expected.resize(9001, 0);
        for (at, data) in &parts {
            expected[*at as usize..][..data.len()].copy_from_slice(data);
        }
        let mut found = vec![9; 9001];
        assert_eq!(fs.read(ino, 0, &mut found).expect("read"), 9001);
        assert!(found == expected);
        fs.drop_caches();
        assert_eq!(fs.read(ino, 0, &mut found).expect("read"), 9001);
        assert!(found == expected, "read again from where it lies");
    });
}

/// What cannot be done whole is refused, and nothing has changed.
#[test]
fn what_is_too_much_is_refused_and_changes_nothing() {
    live(16, |fs| {
        let ino = fs.file("a");
        fs.write(ino, 0, &[1; 4096]).expect("written");
        let many = |count: u64| -> Vec<(u64, Bytes)> {
            let page = Bytes::from(vec![2; 4096]);
            (0..count).map(|n| (n * 4096, page.clone())).collect()
        };
        let errno = |parts: &[(u64, Bytes)]| fs.write_atomic(ino, parts).unwrap_err().errno();
        assert_eq!(errno(&many(100_000)), Errno::FBig);
        assert_eq!(errno(&[(u64::MAX, Bytes::from(vec![1]))]), Errno::FBig);
        let filler = fs.file("filler");
        let mut at = 0;
        while let Ok(n) = fs.write(filler, at, &[3; 65536]) {
            at += n as u64;
        }
        assert_eq!(errno(&many(40)), Errno::NoSpc);
        let mut found = vec![0; 8192];
        assert_eq!(fs.read(ino, 0, &mut found).expect("read"), 4096);
        assert!(found[..4096] == [1; 4096]);
        fs.write_atomic(ino, &many(1)).expect("it has its block");
        let dir = fs.root();
        assert!(fs.write_atomic(dir, &many(1)).is_err());
    });
}

/// Each hole lies in another full leaf of the tree, so each page may need new nodes: a volume that
/// has blocks for the pages and not for the nodes refuses, and stays writable.
#[test]
fn holes_in_many_leaves_are_refused_where_their_nodes_have_no_room() {
    const HOLES: u64 = 8;
    /// More pages than a leaf of 340 extents maps with a hole behind each.
    const APART: u64 = 1000;
    live(64, |fs| {
        let ino = fs.file("a");
        for n in 0..HOLES * APART / 2 {
            // 360 extents of every 1,000 pages are enough.
            if n * 2 % APART < 720 {
                fs.write(ino, n * 2 * 4096, &[1; 4096]).expect("written");
            }
        }
        fs.fsync(ino, false).expect("synced");
        let parts: Vec<(u64, Bytes)> = (0..HOLES)
            .map(|n| ((n * APART + 301) * 4096, Bytes::from(vec![2; 4096])))
            .collect();
        let filler = fs.file("filler");
        let mut at = 0;
        while let Ok(n) = fs.write(filler, at, &[3; 4096]) {
            at += n as u64;
        }
        fs.fsync(filler, false).expect("synced");
        // Room for the pages and a few nodes.
        for left in [14, 15, 30] {
            let size = Some(at - left * 4096);
            let shorter = fscore::SetAttr {
                size,
                ..fscore::SetAttr::default()
            };
            fs.setattr(filler, &shorter).expect("truncated");
            let refused = fs.write_atomic(ino, &parts).map_err(|e| e.errno());
            assert_eq!(refused, Err(Errno::NoSpc), "{left} blocks");
            fs.write(ino, 0, &[4; 10]).expect("the volume is writable");
        }
    });
}
