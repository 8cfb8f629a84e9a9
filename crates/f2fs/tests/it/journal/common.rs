//! Helpers that make, mount, cut, remount and check volumes with a journal.
#![allow(dead_code, clippy::disallowed_methods)]

use super::{SCHEME, images};
use base::Mutant;
use block::{Caps, Queue};
use blockdev::{Image, Ram, SpecDisk};
use fscore::FsResult;
use rt::{Outcome, Sim, SimConfig};
use std::cell::Cell;
use std::sync::Arc;
use varve_f2fs::mkfs::Options;
use varve_f2fs::{F2fs, MountOptions};

/// Size of the F2FS, MiB. The ring lies behind it.
pub const VOLUME_MIB: u64 = 64;
/// Rings of these many blocks: the smallest, one that wraps, one that hardly does.
pub const RINGS: [u32; 3] = [16, 64, 1024];

/// Bytes of the device for a ring of so many blocks.
pub fn device_bytes(ring: u32) -> u64 {
    images::bytes_with_ring(VOLUME_MIB, ring)
}

/// Options of a volume with a ring of so many blocks.
pub fn options(ring: u32) -> Options {
    images::options_with_ring(VOLUME_MIB, ring)
}

/// A fresh volume in memory.
pub fn fresh(ring: u32) -> Arc<Ram> {
    images::made(&options(ring))
}

/// A fresh volume with a ring of so many blocks, as content of a device.
pub fn volume(ring: u32) -> Image {
    fresh(ring).blocks().into_iter().collect()
}

/// What a device promises: blocks are old or new after a cut, in any order.
pub fn caps(ring: u32) -> Caps {
    images::caps(device_bytes(ring))
}

/// A device with this content.
pub fn disk(ring: u32, content: Image, seed: u64) -> Arc<SpecDisk> {
    SpecDisk::from_image(caps(ring), content, seed)
}

/// Mounts with these options beside those of the suite.
///
/// # Errors
/// What the mount says.
pub fn try_mount(disk: &Arc<SpecDisk>, more: &str) -> FsResult<Arc<F2fs>> {
    let options = MountOptions::parse(&format!("{SCHEME},{more}"))?;
    F2fs::mount(Queue::new(disk.clone()), options)
}

/// Mounts with the journal.
pub fn mount(disk: &Arc<SpecDisk>, more: &str) -> Arc<F2fs> {
    try_mount(disk, more).unwrap_or_else(|e| panic!("mount with `{SCHEME},{more}`: {e}"))
}

/// Mounts without background tasks: an operation that would wait for them does their work.
///
/// # Errors
/// What the mount says.
pub fn try_mount_alone(disk: &Arc<SpecDisk>, more: &str) -> FsResult<Arc<F2fs>> {
    let options = MountOptions {
        timers: false,
        ..MountOptions::parse(&format!("{SCHEME},{more}"))?
    };
    F2fs::mount(Queue::new(disk.clone()), options)
}

/// Cuts the power and mounts what is left. The mount before is lost.
pub fn cut_and_mount(
    ring: u32,
    disk: &Arc<SpecDisk>,
    more: &str,
    seed: u64,
) -> (Arc<SpecDisk>, Arc<F2fs>) {
    let next = self::disk(ring, disk.power_off(seed), seed);
    let fs = mount(&next, more);
    (next, fs)
}

/// Runs tasks in a simulation whose schedule depends on `seed`.
pub fn sim<R>(seed: u64, body: impl FnOnce() -> R) -> R {
    let outcome: Outcome<R> = Sim::new(SimConfig::random(seed)).run(body);
    if let Some(failure) = outcome.first_failure {
        panic!("seed {seed}: {failure} {}", outcome.replay);
    }
    outcome.value.expect("no failure")
}

/// Has fsck.f2fs judge the F2FS in this content, where it is installed. The volume must have been
/// unmounted: what lies in the ring is unknown to it.
pub fn fsck(ring: u32, content: &Image) {
    images::judge(&content.to_ram(device_bytes(ring)));
}

/// A mistake that lives are made with, or none, and how often its guard was asked for.
#[derive(Default)]
pub struct Mistake {
    pub mutant: Option<Mutant>,
    reached: Cell<u64>,
}

impl Mistake {
    pub fn of(mutant: Mutant) -> Mistake {
        Mistake {
            mutant: Some(mutant),
            ..Mistake::default()
        }
    }
    /// A life with it; what goes wrong then is not printed.
    pub fn within(&self, config: SimConfig) -> Sim {
        Sim::new(SimConfig {
            mutant: self.mutant,
            quiet: self.mutant.is_some(),
            ..config
        })
    }
    /// Counts what a life asked.
    pub fn asked<T>(&self, life: &Outcome<T>) {
        let asked = self.mutant.and_then(|m| life.reached.get(&m).copied());
        self.reached.set(self.reached.get() + asked.unwrap_or(0));
    }
    pub fn reached(&self) -> u64 {
        self.reached.get()
    }
}
