//! Several tasks on full volumes with large blocks.

use super::{SIZES, mib_of};
use crate::common::{Volume, fresh_of};
use crate::crowd::{MODES, Mode};
use testkit::full::{self, Plan};
use testkit::volume::simulated;

fn volume((kind, options): Mode, block_bytes: u32) -> Volume {
    // Caches of 2 MiB are hardly more than the pages that are always kept.
    let options = options.replace("cache=2", "cache=4");
    Volume::new(fresh_of(kind, mib_of(block_bytes), block_bytes), &options)
}

fn together(mode: Mode, block_bytes: u32, seed: u64, steps: usize) {
    let plan = Plan {
        seed,
        tasks: 4,
        steps,
        room: 64 * u64::from(block_bytes),
        moves: u64::from(block_bytes),
    };
    full::together(&volume(mode, block_bytes), plan, mode.1);
}

#[test]
fn on_threads() {
    for (n, mode) in MODES.into_iter().enumerate() {
        together(mode, SIZES[n % 4], n as u64, 400);
    }
}

#[test]
fn in_random_order() {
    for (n, mode) in MODES.into_iter().enumerate() {
        simulated(n as u64, mode.1, || {
            together(mode, SIZES[(n + 2) % 4], n as u64, 150);
        });
    }
}

#[test]
fn who_fits_is_never_refused() {
    for (n, mode) in MODES.into_iter().enumerate() {
        if mode.0 == varve_ext4::mkfs::Kind::Ext4 {
            full::shared(&volume(mode, SIZES[n % 4]), n as u64, 6);
        }
    }
}
