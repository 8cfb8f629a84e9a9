//! Random programs cut at fault levels L2 and L3, on chips with one and with two bits per cell; recovery is cut, too. Nothing
//! flushed is lost, nothing impossible appears.
//!
//! `VARVE_FTL_CUTS=N` makes N times as many lives.

mod common;

use base::{Rng, Time};
use common::{
    BURST, CALM, CONFIG, FAILING, GEOMETRY, Mix, Oracle, TIMING, WIDE, WIDE_CONFIG, step_of, unit,
    with_area,
};
use varve_ftl::nand::{
    BitErrors, BlockId, Cell, Cells, Ecc, FaultLevel, Geometry, Media, Nand, PageAddr, Pairing,
};
use varve_ftl::{Config, Ftl};

/// Two bits per cell, with the pages of the other profile beside them.
const fn paired(geometry: Geometry, pairing: Pairing) -> Geometry {
    Geometry {
        pairing,
        pages_per_block: geometry.pages_per_block * 2,
        blocks_per_plane: geometry.blocks_per_plane + 4,
        nop: 1,
        ..geometry
    }
}

fn power_up(media: Media, cells: Cells) -> Nand {
    let mut nand = Nand::new(media, TIMING);
    nand.set_cells(cells);
    nand
}

fn fresh(geometry: Geometry, config: Config, cells: Cells) -> Ftl {
    let mut ftl = Ftl::format(power_up(Media::blank(geometry), cells), config).unwrap();
    ftl.settle();
    ftl
}

fn mount(media: Media, config: Config, cells: Cells, what: &str) -> (Ftl, Time) {
    Ftl::mount(power_up(media, cells), config, Time(0)).unwrap_or_else(|e| panic!("{what}: {e}"))
}

/// Lives of one device: run, cut, recover (with cuts inside recovery), check, run on.
fn lives(geometry: Geometry, config: Config, level: FaultLevel, mix: Mix, seed: u64, count: u64) {
    let cells = Cells {
        seed,
        ..Cells::at(level)
    };
    let mut rng = Rng::named(seed, "ftl levels");
    let mut ftl = fresh(geometry, config, cells);
    let mut oracle = Oracle::default();
    let (mut now, mut id) = (Time(0), 0);
    for life in 0..count {
        for _ in 0..20 + rng.below(300) {
            id += 1;
            now = step_of(mix, &mut ftl, &mut oracle, &mut rng, now, id);
        }
        ftl.check();
        let within = 1 + rng.below(3_000_000);
        let cut = Time(now.0 + rng.below(within));
        let what = format!("{level:?}, seed {seed}, life {life}, cut at {cut}");
        let mut media = ftl.power_off(cut, rng.next_u64());
        for nested in 0..rng.below(3) {
            let (ftl, ready) = mount(media, config, cells, &format!("{what}, nested {nested}"));
            media = ftl.power_off(Time(rng.below(ready.0 + 1)), rng.next_u64());
        }
        (ftl, now) = mount(media, config, cells, &what);
        ftl.check();
        oracle = oracle.check(&ftl, cut, &what);
        // What the host has seen stays, whatever happens to the pages it came from.
        oracle.flush(Time(0));
        if rng.one_in(3) {
            let media = ftl.power_off(now, rng.next_u64());
            (ftl, now) = mount(media, config, cells, &what);
            oracle = oracle.check(&ftl, now, &format!("{what}, and once more"));
            oracle.flush(Time(0));
        }
    }
}

fn all(geometry: Geometry, config: Config, mix: Mix, seed: u64, seeds: u64, count: u64) {
    let times = std::env::var("VARVE_FTL_CUTS").map_or(1, |n| n.parse().expect("a number"));
    for level in [FaultLevel::L2, FaultLevel::L3] {
        for seed in seed..seed + seeds * times {
            lives(geometry, config, level, mix, seed, count);
        }
    }
}

#[test]
fn one_bit_per_cell() {
    all(GEOMETRY, CONFIG, CALM, 0, 10, 10);
    all(WIDE, WIDE_CONFIG, BURST, 100, 10, 8);
}

#[test]
fn two_bits_per_cell_at_distance_three() {
    all(paired(GEOMETRY, Pairing::Dist3), CONFIG, CALM, 200, 10, 10);
    all(paired(WIDE, Pairing::Dist3), WIDE_CONFIG, BURST, 300, 10, 8);
}

#[test]
fn two_bits_per_cell_at_distance_six() {
    all(
        paired(GEOMETRY, Pairing::Shadow6),
        CONFIG,
        CALM,
        400,
        10,
        10,
    );
    all(
        paired(WIDE, Pairing::Shadow6),
        WIDE_CONFIG,
        BURST,
        500,
        10,
        8,
    );
}

#[test]
fn with_an_slc_area_and_with_failing_blocks() {
    let area = with_area(CONFIG, 4);
    let roomy = Geometry {
        blocks_per_plane: 34,
        ..paired(GEOMETRY, Pairing::Dist3)
    };
    all(roomy, area, CALM, 600, 6, 8);
    let spare = Geometry {
        blocks_per_plane: 110,
        ..paired(WIDE, Pairing::Dist3)
    };
    all(spare, WIDE_CONFIG, FAILING, 700, 8, 4);
}
