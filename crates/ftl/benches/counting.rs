//! Benchmarks of counting mode: page writes in the steady state, on a small device and on one of
//! 512 GiB, and the memory that the large one takes.
#![allow(clippy::disallowed_macros)] // No task and no simulation runs here: printing cannot hold up a yield.

#[path = "../tests/common/uniform.rs"]
#[allow(dead_code)]
mod uniform;

use base::Rng;
use divan::counter::ItemsCount;
use varve_ftl::nand::{Geometry, Pairing};
use varve_ftl::{Config, Counting, Housekeeping, Policy};

const BATCH: u32 = 1_000_000;

/// A device of `gib` GiB in units of 4 KiB, with 7 % more cells.
fn device(gib: u64, rho: f64) -> Counting {
    let config = Config {
        unit_bytes: 4096,
        units: gib << 18,
        lanes: 32,
        gc_slack: 2,
        checkpoint_blocks: 64,
        slc: None,
        housekeeping: Housekeeping::PLAIN,
    };
    let mut geometry = Geometry {
        channels: 8,
        dies_per_channel: 4,
        planes: 1,
        blocks_per_plane: 1,
        pages_per_block: 256,
        page_bytes: 16384,
        spare_bytes: 128,
        nop: 1,
        endurance: 3000,
        pairing: Pairing::None,
    };
    geometry.blocks_per_plane = config.blocks_needed(&geometry, rho).div_ceil(32) as u32;
    Counting::new(config, geometry).expect("the numbers make a device")
}

fn filled(gib: u64, rho: f64, overwrites: u64) -> (Counting, Rng) {
    let (mut ftl, mut rng) = (device(gib, rho), Rng::named(1, "bench"));
    let units = ftl.layout().units;
    (0..units).for_each(|lpn| ftl.write(lpn).expect("in range"));
    (0..overwrites).for_each(|_| random(&mut ftl, &mut rng));
    (ftl, rng)
}

fn random(ftl: &mut Counting, rng: &mut Rng) {
    let lpn = rng.below(u64::from(ftl.layout().units)) as u32;
    ftl.write(lpn).expect("in range");
}

/// The device of the tables in docs/results/write-amplification.md, 1024 blocks of 64 units.
#[divan::bench]
fn steady_1024_x_64(bencher: divan::Bencher) {
    let mut ftl = uniform::device((1024, 64, 0.25), Policy::Greedy);
    let mut rng = Rng::named(1, "bench");
    (0..BATCH).for_each(|_| random(&mut ftl, &mut rng));
    bencher
        .counter(ItemsCount::new(BATCH))
        .bench_local(|| (0..BATCH).for_each(|_| random(&mut ftl, &mut rng)));
}

/// 4 GiB with 25 % more cells, random overwrites.
#[divan::bench]
fn steady_4_gib(bencher: divan::Bencher) {
    let (mut ftl, mut rng) = filled(4, 0.25, 3 << 20);
    bencher
        .counter(ItemsCount::new(BATCH))
        .bench_local(|| (0..BATCH).for_each(|_| random(&mut ftl, &mut rng)));
}

/// 4 GiB with 25 % more cells, every unit overwritten in turn.
#[divan::bench]
fn sequential_4_gib(bencher: divan::Bencher) {
    let (mut ftl, _) = filled(4, 0.25, 0);
    let (units, mut at) = (ftl.layout().units, 0);
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for _ in 0..BATCH {
            ftl.write(at).expect("in range");
            at = (at + 1) % units;
        }
    });
}

/// 512 GiB with 25 % more cells, random overwrites; the maps take 1.3 GB, so that each write misses
/// every cache.
#[divan::bench]
fn steady_512_gib(bencher: divan::Bencher) {
    let (mut ftl, mut rng) = filled(512, 0.25, 40 << 20);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find(|l| l.starts_with("VmRSS"));
    println!(
        "512 GiB: tables {:.3} GB, process {}",
        ftl.memory_bytes() as f64 / 1e9,
        resident.unwrap_or("unknown")
    );
    bencher
        .counter(ItemsCount::new(BATCH))
        .bench_local(|| (0..BATCH).for_each(|_| random(&mut ftl, &mut rng)));
    println!(
        "512 GiB: amplification {:.3}",
        ftl.stats().amplification().unwrap_or(0.0)
    );
}

fn main() {
    divan::main();
}
