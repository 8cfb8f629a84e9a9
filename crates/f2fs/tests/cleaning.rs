//! Cleaning under pressure: full and almost full volumes under random overwrites, pinned and open files, power cuts.
//!
//! The short tests overwrite half the size of the device, the long one (`--ignored`) ten times.
#![allow(clippy::disallowed_methods)]

mod common;
mod pressure;

use base::{Ino, Rng, Time};
use block::Queue;
use blockdev::{Image, Ram};
use common::{create, fresh, judge, read_all};
use fscore::{Errno, FileSystem};
use rt::{Sim, SimConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use varve_f2fs::{Cause, F2fs, MountOptions};

const PAGE: u64 = 4096;

/// Half the size of the device.
const SHORT: u64 = 5;
/// Ten times.
const LONG: u64 = 100;

/// Mounts without tasks in the background.
fn mount(ram: &Arc<Ram>, options: &str) -> Arc<F2fs> {
    let options = MountOptions {
        timers: false,
        ..MountOptions::parse(options).expect("options")
    };
    F2fs::mount(Queue::new(ram.clone()), options).expect("mount")
}

/// What a page holds: file, page, version.
fn page(file: u64, index: u64, version: u64) -> Vec<u8> {
    let words = [file, index, version, !version];
    let one: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    one.repeat(PAGE as usize / 32)
}

/// Files of whole pages, and what they hold.
struct Files {
    fs: Arc<F2fs>,
    versions: BTreeMap<u64, (Ino, Vec<u64>)>,
    rng: Rng,
    clock: u64,
    made: u64,
}

impl Files {
    fn new(fs: Arc<F2fs>, seed: u64) -> Files {
        Files {
            fs,
            versions: BTreeMap::new(),
            rng: Rng::named(seed, "churn"),
            clock: 0,
            made: 0,
        }
    }

    /// Makes a file of `pages` pages; false if there is no space.
    fn make(&mut self, pages: u64) -> bool {
        self.made += 1;
        let file = self.made;
        let ino = match create(&self.fs, &format!("file{file}")) {
            Err(e) if e.errno() == Errno::NoSpc => return false,
            made => made.expect("create"),
        };
        self.versions.insert(file, (ino, Vec::new()));
        for index in 0..pages {
            self.clock += 1;
            let version = self.clock;
            match self
                .fs
                .write(ino, index * PAGE, &page(file, index, version))
            {
                Err(e) if e.errno() == Errno::NoSpc => return false,
                written => assert_eq!(written.expect("write"), PAGE as usize),
            }
            let (_, versions) = self.versions.get_mut(&file).expect("made");
            versions.push(version);
        }
        true
    }

    fn pick(&mut self) -> (u64, Ino, u64) {
        let n = self.rng.below(self.versions.len() as u64) as usize;
        let (&file, (ino, pages)) = self.versions.iter().nth(n).expect("below");
        (file, *ino, pages.len() as u64)
    }

    /// Overwrites some pages. That needs no space, so it never fails.
    fn overwrite(&mut self, max: u64) -> u64 {
        let (file, ino, pages) = self.pick();
        if pages == 0 {
            return 1;
        }
        let first = self.rng.below(pages);
        let count = (1 + self.rng.below(max)).min(pages - first);
        for index in first..first + count {
            self.clock += 1;
            let version = self.clock;
            let written = self
                .fs
                .write(ino, index * PAGE, &page(file, index, version));
            let n = written.expect("ENOSPC is not true: the block is the file's own");
            assert_eq!(n as u64, PAGE);
            self.versions.get_mut(&file).expect("picked").1[index as usize] = version;
        }
        count
    }

    fn check(&self) {
        for (file, (ino, versions)) in &self.versions {
            let content = read_all(&self.fs, *ino);
            for (index, &version) in versions.iter().enumerate() {
                let at = index * PAGE as usize;
                let found = &content[at..at + PAGE as usize];
                let expected = page(*file, index as u64, version);
                assert!(found == expected, "file {file}, page {index}");
            }
        }
    }
}

/// Fills the volume up to `percent`, overwrites it, and looks whether all is right.
fn churn(mib: u64, options: &'static str, percent: u64, tenths: u64) {
    let seed = percent ^ options.len() as u64;
    let outcome = Sim::new(SimConfig::seeded(seed)).run(move || {
        let device = fresh(mib);
        let fs = mount(&device, options);
        let mut files = Files::new(fs.clone(), seed);
        let all = fs.statfs().expect("statfs").blocks_free;
        let goal = all * percent / 100;
        while all - fs.statfs().expect("statfs").blocks_free < goal {
            let pages = 1 + files.rng.below(300);
            if !files.make(pages) {
                let left = fs.statfs().expect("statfs").blocks_free;
                assert!(left < 4, "ENOSPC with {left} blocks free");
                break;
            }
        }
        fs.sync().expect("sync");
        let mut left = tenths * mib * (1 << 20) / PAGE / 10;
        while left > 0 {
            left = left.saturating_sub(files.overwrite(24));
            match files.rng.below(64) {
                0 => fs.writeback(Time(u64::MAX)).expect("writeback"),
                1 => {
                    let (_, ino, _) = files.pick();
                    fs.fsync(ino, false).expect("fsync");
                }
                2 if files.rng.below(16) == 0 => fs.sync().expect("sync"),
                3 => drop(fs.garbage_collect(true).expect("cleaning")),
                _ => {}
            }
        }
        files.check();
        let stats = fs.gc_stats();
        println!("{mib} MiB, {options}, {percent} %: {stats:?}");
        fs.unmount().expect("unmount");
        let again = mount(&device, options);
        files.fs = again.clone();
        files.check();
        again.unmount().expect("unmount");
        let content: Image = device.blocks().into_iter().collect();
        (stats, content)
    });
    let (stats, content) = outcome.unwrap();
    judge(&content.to_ram(mib << 20));
    if options.contains("ipu_policy=0") {
        let by_need = stats.sections.get(&Cause::ForegroundGc);
        assert!(by_need.is_some() || !options.contains("lfs"), "{stats:?}");
        assert!(stats.data_blocks > 0, "{stats:?}");
    }
}

#[test]
fn almost_full_and_overwritten() {
    churn(64, "cache=8,ipu_policy=0", 95, SHORT);
}

#[test]
fn almost_full_and_overwritten_128() {
    churn(128, "cache=8,ipu_policy=0", 95, SHORT);
}

#[test]
fn full_and_overwritten() {
    churn(64, "cache=8,ipu_policy=0", 100, SHORT);
}

#[test]
fn full_and_overwritten_in_place() {
    churn(64, "cache=8", 100, SHORT);
}

#[test]
fn almost_full_without_filling_holes() {
    churn(64, "cache=8,mode=lfs,ipu_policy=0", 95, SHORT);
}

#[test]
fn cuts_in_cleaning() {
    for (seed, options) in [
        (1, "cache=2,ipu_policy=0"),
        (2, "cache=2,ipu_policy=0,mode=lfs"),
        (3, "cache=2,ipu_policy=0,fsync_mode=strict,nodiscard"),
    ] {
        let cuts = pressure::live(seed, options, 400, 40, None).unwrap();
        assert!(cuts.len() >= 20, "{}", cuts.len());
        for (n, cut) in cuts.iter().enumerate() {
            if let Err(why) = pressure::judge(cut, options) {
                panic!("{options}, seed {seed}, cut {n}: {why}");
            }
        }
    }
}

#[test]
#[ignore = "minutes: ten times the size of the device"]
fn ten_times_the_device() {
    for mib in [64, 128] {
        for options in [
            "cache=8",
            "cache=8,ipu_policy=0",
            "cache=8,ipu_policy=0,mode=lfs",
            "cache=8,ipu_policy=0,fsync_mode=nobarrier,nodiscard",
        ] {
            for percent in [95, 100] {
                // Without holes to fill, a full volume of this size has no room to clean in.
                if !options.contains("lfs") || percent < 100 {
                    churn(mib, options, percent, LONG);
                }
            }
        }
    }
}
