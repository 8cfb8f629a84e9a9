//! Benchmarks of page writes through NAND and FTL: fresh, and in the steady state of garbage
//! collection.

use base::{Rng, Time, fill};
use divan::counter::ItemsCount;
use varve_ftl::nand::{Geometry, Media, Nand, Pairing, Timing};
use varve_ftl::{Config, Ftl};

const UNITS: u64 = 64 << 10;
const BATCH: u32 = 10_000;

fn device() -> Ftl {
    let config = Config {
        unit_bytes: 4096,
        units: UNITS,
        lanes: 4,
        gc_slack: 2,
        checkpoint_blocks: 64,
        slc: None,
        housekeeping: varve_ftl::Housekeeping::PLAIN,
    };
    let one = Geometry {
        channels: 1,
        dies_per_channel: 4,
        planes: 1,
        blocks_per_plane: 1,
        pages_per_block: 128,
        page_bytes: 16384,
        spare_bytes: 128,
        nop: 1,
        endurance: 1_000_000,
        pairing: Pairing::None,
    };
    let blocks = config.blocks_needed(&one, 0.07).div_ceil(4) as u32;
    let timing = Timing {
        read_us: 50.0,
        program_us: 800.0,
        erase_us: 3000.0,
        bus_ns_per_byte: 5.0,
        program_bus_ns_per_byte: None,
        spare_on_bus: true,
        cache_program: true,
        bus_gaps: false,
    };
    let media = Media::blank(Geometry {
        blocks_per_plane: blocks,
        ..one
    });
    Ftl::format(Nand::new(media, timing), config).expect("format")
}

fn write(ftl: &mut Ftl, rng: &mut Rng, now: &mut Time) {
    let lpn = rng.below(UNITS) as u32;
    *now += base::Nanos(100_000);
    ftl.advance(*now);
    ftl.write(*now, lpn, fill::filled(lpn as u8, 4096))
        .expect("write");
}

#[divan::bench]
fn fresh_device(bencher: divan::Bencher) {
    bencher
        .counter(ItemsCount::new(BATCH))
        .with_inputs(|| (device(), Rng::named(1, "bench"), Time(0)))
        .bench_refs(|(ftl, rng, now)| (0..BATCH).for_each(|_| write(ftl, rng, now)));
}

#[divan::bench]
fn steady_state(bencher: divan::Bencher) {
    let (mut ftl, mut rng, mut now) = (device(), Rng::named(1, "bench"), Time(0));
    (0..3 * UNITS).for_each(|_| write(&mut ftl, &mut rng, &mut now));
    bencher
        .counter(ItemsCount::new(BATCH))
        .bench_local(|| (0..BATCH).for_each(|_| write(&mut ftl, &mut rng, &mut now)));
}

#[divan::bench]
fn recovery(bencher: divan::Bencher) {
    let (mut ftl, mut rng, mut now) = (device(), Rng::named(1, "bench"), Time(0));
    (0..UNITS).for_each(|_| write(&mut ftl, &mut rng, &mut now));
    let config = Config {
        unit_bytes: 4096,
        units: UNITS,
        lanes: 4,
        gc_slack: 2,
        checkpoint_blocks: 64,
        slc: None,
        housekeeping: varve_ftl::Housekeeping::PLAIN,
    };
    let timing = Timing {
        read_us: 50.0,
        program_us: 800.0,
        erase_us: 3000.0,
        bus_ns_per_byte: 5.0,
        program_bus_ns_per_byte: None,
        spare_on_bus: true,
        cache_program: true,
        bus_gaps: false,
    };
    bencher.bench_local(|| {
        let media = ftl.clone().power_off(now, 1);
        Ftl::mount(Nand::new(media, timing), config, Time(0)).expect("mount")
    });
}

fn main() {
    divan::main();
}
