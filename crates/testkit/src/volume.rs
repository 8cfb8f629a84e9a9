//! A volume under test as the harnesses here see it: it is mounted, filled, mounted again, cut, and
//! judged by the checkers of its own file system.

use crate::brief::{Brief, pattern};
use crate::shadow::{Mix, Shadow, Tree, race, read_tree};
use base::Rng;
use fscore::{FallocateMode, FileFlags, FileSystem, FsError};
use rt::{Sim, SimConfig};
use std::sync::Arc;

/// A volume on a device in memory, and how it is mounted.
pub trait Volume: Sized {
    /// Its file system.
    type Fs: FileSystem;
    /// Mounts it.
    fn mount(&self) -> Arc<Self::Fs>;
    /// A copy of the device as it is now: a cut that loses nothing.
    fn fork(&self) -> Self;
    /// Panics if what the file system counts in memory does not agree.
    fn check(fs: &Self::Fs);
    /// Panics if a checker finds a fault in the volume, which is not mounted.
    fn judge(&self);
    /// True if what was synced is there after a cut.
    fn outlives_cuts(&self) -> bool {
        true
    }
}

/// Runs `body` in a simulation with a random schedule.
///
/// # Panics
/// With the line that repeats it, if something fails in there.
pub fn simulated<R>(seed: u64, what: &str, body: impl FnOnce() -> R) -> R {
    let outcome = Sim::new(SimConfig::random(seed)).run(body);
    let failure = &outcome.first_failure;
    assert!(
        failure.is_none(),
        "{what}, seed {seed}: {failure:?}; replay: {}",
        outcome.replay
    );
    outcome.value.expect("no failure")
}

/// Random operations on names, compared with a shadow of the tree, with a cut and a remount in the
/// middle; then an unmount, and the verdict of the checkers. Answers the tree that is left.
///
/// # Panics
/// If the tree, or a checker, disagrees.
pub fn wander(volume: &impl Volume, seed: u64, steps: u32, mix: Mix) -> Tree {
    let mut rng = Rng::named(seed, "names");
    let mut fs = volume.mount();
    let mut shadow = Shadow::new(&*fs);
    for round in 0..2 {
        for _ in 0..steps / 2 {
            shadow.step(&*fs, &mut rng, mix);
        }
        assert_eq!(read_tree(&*fs, 7), shadow.tree());
        if round == 0 {
            fs.sync().expect("sync");
            if volume.outlives_cuts() {
                let cut = volume.fork().mount();
                assert_eq!(read_tree(&*cut, 50), shadow.tree());
            }
            fs.unmount().expect("unmount");
            volume.judge();
            fs = volume.mount();
            assert_eq!(read_tree(&*fs, 100), shadow.tree());
        }
    }
    fs.unmount().expect("unmount");
    volume.judge();
    shadow.tree()
}

/// What changes a file with the flag of `chattr +S` is durable when the call returns.
///
/// # Panics
/// If it is not so.
pub fn the_sync_flag_holds(volume: &impl Volume) {
    const SIZE: usize = 50_000;
    let fs = volume.mount();
    let file = fs.file("f");
    let set = fs.file_flags(file).expect("flags") | FileFlags::SYNC;
    fs.set_file_flags(file, set).expect("chattr +S");
    let is_there = |what: &str| {
        let cut = volume.fork().mount();
        let attr = |fs: &dyn FileSystem| fs.getattr(file).map(|a| (a.size, a.sectors));
        let (left, now) = (attr(&*cut), attr(&*fs));
        let of = |e: FsError| e.errno();
        assert_eq!(left.map_err(of), now.map_err(of), "{what}");
        assert!(cut.content(file) == fs.content(file), "{what}");
    };
    let wrote = fs.write(file, 0, &pattern(1, SIZE));
    assert_eq!(wrote.expect("room"), SIZE);
    is_there("a write");
    for (mode, offset, len) in [
        (FallocateMode::Allocate, 60_000, 20_000),
        (FallocateMode::KeepSize, 200_000, 40_000),
        (FallocateMode::PunchHole, 8192, 8192),
        (FallocateMode::ZeroRange, 20_480, 4096),
        (FallocateMode::CollapseRange, 4096, 4096),
        (FallocateMode::InsertRange, 4096, 8192),
    ] {
        let done = fs.fallocate(file, mode, offset, len);
        done.unwrap_or_else(|e| panic!("{mode:?}: {e}"));
        is_there(&format!("{mode:?}"));
    }
    for size in [3000, 70_000] {
        fs.resize(file, size).expect("a size");
        is_there(&format!("truncation to {size} bytes"));
    }
    fs.unmount().expect("unmount");
    volume.judge();
}

/// Many tasks on the same few names under random schedules: no deadlock, no lost inode, a clean
/// volume. `volume` makes one, because a device belongs to the world that it was made in.
///
/// # Panics
/// If it is not so.
pub fn races<V: Volume>(volume: impl Fn() -> V) {
    for seed in 0..6 {
        let volume = simulated(seed, "a race", || {
            let volume = volume();
            let fs = volume.mount();
            for name in ["p", "q"] {
                fs.dir(name);
            }
            let done = race(&*fs, seed);
            assert!(done > 50, "work was done: {done}");
            read_tree(&*fs, 3);
            fs.unmount().expect("unmount");
            volume
        });
        volume.judge();
    }
}
