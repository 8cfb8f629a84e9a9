//! Space: freed blocks come back by epochs, cleaning runs beside operations, volumes and rings fill
//! up, operations are too large for one epoch; with cuts in the middle of each.

use super::common::{disk, sim, try_mount_alone, volume};
use super::images::pattern;
use super::world::{self, Cut, PLAIN, is_full};
use base::{Nanos, Rng};
use blockdev::SpecDisk;
use fscore::{FileSystem, FsResult};
use rt::{Mutex, SimConfig};
use std::sync::Arc;
use testkit::Brief;
use varve_f2fs::F2fs;

fn mount(disk: &Arc<SpecDisk>, more: &str) -> Arc<F2fs> {
    try_mount_alone(disk, more).expect("mount")
}

fn cut_and_mount(ring: u32, disk: &SpecDisk, seed: u64) -> (Arc<SpecDisk>, Arc<F2fs>) {
    let next = super::common::disk(ring, disk.power_off(seed), seed);
    let fs = mount(&next, PLAIN);
    (next, fs)
}

/// A life on a volume of 64 MiB of which `full` percent are taken, with cuts.
fn live(seed: u64, ring: u32, full: u64, steps: u32, cuts: usize) -> Vec<Cut> {
    let outcome = world::live(SimConfig::random(seed), seed, (ring, full), steps, cuts);
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed}: {failure} {}", outcome.replay);
    }
    outcome.value.expect("no failure")
}

fn judge(cuts: &[Cut], ring: u32, seed: u64) {
    for (n, cut) in cuts.iter().enumerate() {
        if let Err(why) = cut.judge(ring, PLAIN) {
            panic!("ring {ring}, seed {seed}, cut {n}: {why}");
        }
    }
}

#[test]
fn a_small_life_and_its_cuts() {
    for ring in [16, 64] {
        let cuts = live(3, ring, 20, 60, 12);
        judge(&cuts, ring, 3);
    }
}

/// Cleaning beside operations, under random load on a volume that is nearly full.
#[test]
fn an_aged_volume_and_its_cuts() {
    for (ring, seed) in [(16, 11), (64, 12), (1024, 13)] {
        let cuts = live(seed, ring, 85, 150, 12);
        judge(&cuts, ring, seed);
    }
}

/// Writes files until there is no room; answers how many pages went in.
fn fill(fs: &F2fs, round: u32) -> FsResult<u64> {
    let content = pattern(u64::from(round), 64 << 10);
    let mut pages = 0;
    for n in 0.. {
        let made = fs.make(fs.root(), format!("r{round}n{n}"));
        let ino = match made {
            Err(e) if is_full(&e) => return Ok(pages),
            made => made?,
        };
        for at in 0..16 {
            match fs.write(ino, at * content.len() as u64, &content) {
                Err(e) if is_full(&e) => return Ok(pages),
                Ok(n) if n < content.len() => return Ok(pages + (n / 4096) as u64),
                n => pages += (n? / 4096) as u64,
            }
        }
    }
    unreachable!("no volume is endless")
}

fn empty(fs: &F2fs) {
    let names = fs.readdir(fs.root(), 0, 100_000).expect("names");
    for entry in names.iter().filter(|e| !e.name.starts_with(b".")) {
        fs.unlink(fs.root(), &entry.name).expect("unlink");
    }
}

/// What is deleted can be filled again, without an unmount; what a full volume has logged can be
/// applied and recovered.
#[test]
fn a_full_volume_gives_back_what_is_deleted() {
    for ring in [16, 64, 1024] {
        let left = sim(1, || {
            let disk = disk(ring, volume(ring), 1);
            let fs = mount(&disk, PLAIN);
            let first = fill(&fs, 0).expect("filled");
            fs.sync().expect("a full volume is synced");
            assert!(first > 3_000, "{first} pages of 64 MiB");
            for round in 1..4 {
                empty(&fs);
                let again = fill(&fs, round).expect("filled again");
                assert!(
                    again + 64 >= first,
                    "round {round}: {again} of {first} pages"
                );
                // Full, in the ring, and the power goes.
            }
            fs.sync().expect("sync");
            fs.check();
            let before = fs.statfs().expect("statfs").blocks_free;
            let (disk, fs) = cut_and_mount(ring, &disk, 5);
            fs.check();
            assert_eq!(fs.statfs().expect("statfs").blocks_free, before);
            empty(&fs);
            fs.sync().expect("sync");
            fs.unmount().expect("unmount");
            disk.visible()
        });
        super::common::fsck(ring, &left);
    }
}

/// A file whose blocks lie in as many runs as possible.
fn fragmented(fs: &F2fs, pages: u64) -> base::Ino {
    let a = fs.file("large");
    let b = fs.file("other");
    let content = pattern(1, 4096);
    for index in 0..pages {
        fs.write(a, index * 4096, &content).expect("room");
        fs.write(b, index * 4096, &content).expect("room");
        if index % 128 == 127 {
            fs.sync().expect("sync");
        }
    }
    fs.sync().expect("sync");
    a
}

/// hazards-F63: a truncation of more than an operation may log, cut anywhere. What lay behind the
/// new end never comes back, and no block is lost.
#[test]
fn a_large_truncation_is_cut_anywhere() {
    const PAGES: u64 = 1500;
    for ring in [16, 1024] {
        let cuts = sim(7, || {
            let disk = disk(ring, volume(ring), 7);
            let fs = mount(&disk, PLAIN);
            let ino = fragmented(&fs, PAGES);
            let over = Mutex::named("over", false);
            rt::scope(|s| {
                let watcher = s.spawn("cuts", || {
                    let mut rng = Rng::named(7, "cuts");
                    let mut seen = Vec::new();
                    while !*over.lock() {
                        seen.push(disk.snapshot(rng.below(u64::MAX)));
                        rt::sleep(Nanos(rng.below(200_000)));
                    }
                    seen
                });
                fs.resize(ino, 5000).expect("truncated");
                fs.fsync(ino, false).expect("fsync");
                *over.lock() = true;
                let mut seen = watcher.join().expect("cuts");
                seen.push(disk.snapshot(1));
                seen
            })
        });
        assert!(cuts.len() > 4, "{} cuts", cuts.len());
        let step = cuts.len().div_ceil(12);
        let last = cuts.len() - 1;
        for (n, image) in cuts.into_iter().enumerate() {
            if n % step != 0 && n != last {
                continue;
            }
            let left = sim(1, || after_truncation(ring, image, PAGES, n == last));
            super::common::fsck(ring, &left);
        }
    }
}

fn after_truncation(
    ring: u32,
    image: blockdev::Image,
    pages: u64,
    durable: bool,
) -> blockdev::Image {
    let disk = disk(ring, image, 1);
    let fs = mount(&disk, PLAIN);
    let ino = fs.find(b"large");
    let size = fs.getattr(ino).expect("getattr").size;
    let whole = size == pages * 4096;
    assert!(whole && !durable || size == 5000, "size {size}");
    if !whole {
        // Grown again: zeros.
        fs.resize(ino, pages * 4096).expect("grown");
        let bytes = fs.content(ino);
        assert!(
            base::bytes::is_zero(&bytes[5000..]),
            "what was cut off is back"
        );
        let sectors = fs.getattr(ino).expect("getattr").sectors;
        assert!(sectors <= 8 * 4, "{sectors} sectors are left");
    }
    fs.check();
    fs.unmount().expect("unmount");
    disk.visible()
}

/// truncate-Z3: an inode without links is freed in several operations; cut anywhere, all of it is
/// free in the end.
#[test]
fn a_large_removal_is_cut_anywhere() {
    for ring in [16, 64] {
        let (before, cuts) = sim(9, || {
            let disk = disk(ring, volume(ring), 9);
            let fs = mount(&disk, PLAIN);
            let before = fs.statfs().expect("statfs").blocks_free;
            fragmented(&fs, 1500);
            let over = Mutex::named("over", false);
            let cuts = rt::scope(|s| {
                let watcher = s.spawn("cuts", || {
                    let mut rng = Rng::named(9, "cuts");
                    let mut seen = Vec::new();
                    while !*over.lock() {
                        rt::sleep(Nanos(rng.below(200_000)));
                        seen.push(disk.snapshot(rng.below(u64::MAX)));
                    }
                    seen
                });
                for name in ["large", "other"] {
                    fs.unlink(fs.root(), name.as_bytes()).expect("unlink");
                }
                fs.sync().expect("sync");
                *over.lock() = true;
                watcher.join().expect("cuts")
            });
            assert_eq!(fs.statfs().expect("statfs").blocks_free, before);
            (before, cuts)
        });
        let step = cuts.len().div_ceil(8).max(1);
        for image in cuts.into_iter().step_by(step) {
            let left = sim(1, || {
                let disk = disk(ring, image, 1);
                let fs = mount(&disk, PLAIN);
                empty(&fs);
                fs.sync().expect("sync");
                fs.check();
                assert_eq!(fs.statfs().expect("statfs").blocks_free, before);
                fs.unmount().expect("unmount");
                disk.visible()
            });
            super::common::fsck(ring, &left);
        }
    }
}

/// Many tasks and a ring that is always full: all go on.
#[test]
fn tasks_in_a_full_ring_go_on() {
    for seed in 0..4 {
        sim(seed, || {
            let disk = disk(16, volume(16), seed);
            let fs = mount(&disk, PLAIN);
            rt::scope(|s| {
                let tasks: Vec<_> = (0..6)
                    .map(|task| {
                        let fs: Arc<F2fs> = fs.clone();
                        s.spawn(&format!("task {task}"), move || {
                            for n in 0..60 {
                                let name = format!("t{task}n{n}{}", "x".repeat(100));
                                let ino = fs.file(&name);
                                fs.write(ino, 0, &[1; 5000]).expect("write");
                                if n % 7 == 0 {
                                    fs.fsync(ino, false).expect("fsync");
                                }
                                if n % 2 == 0 {
                                    fs.unlink(fs.root(), name.as_bytes()).expect("unlink");
                                }
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.join().expect("no panic");
                }
            });
            fs.check();
            let (_, fs) = cut_and_mount(16, &disk, seed);
            fs.check();
            fs.unmount().expect("unmount");
        });
    }
}
