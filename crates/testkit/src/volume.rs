//! A volume under test as the harnesses here see it: it is mounted, filled, mounted again, cut, and
//! judged by the checkers of its own file system.

use crate::brief::Brief;
use crate::shadow::{Mix, Shadow, Tree, race, read_tree};
use base::Rng;
use fscore::FileSystem;
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
