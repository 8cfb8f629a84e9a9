//! Compares counting mode with the real FTL, and checks its size.

use crate::common;
use base::{Rng, Time};
use common::{CONFIG, GEOMETRY, fresh, with_area};
use varve_ftl::nand::Geometry;
use varve_ftl::{Config, Counting, Housekeeping, Policy};

const DATA: u32 = 0x5555_5555;

/// Gives the same random commands to both; they must have programmed and erased the same at each
/// check.
fn agree(geometry: Geometry, config: Config, seed: u64, trims: bool) {
    let mut real = fresh(geometry, config);
    let mut counting = Counting::new(config, geometry).unwrap();
    let mut rng = Rng::named(seed, "agree");
    let units = u64::from(real.layout().units);
    let unit = |word: u32| common::unit(config.unit_bytes, word, 1);
    let what = format!("{:?}, seed {seed}", config.housekeeping);
    let before = real.stats();
    let mut checkpoints = before.checkpoints;
    for id in 0..30_000u32 {
        let lpn = match rng.one_in(2) {
            true => rng.below(units) as u32,
            false => rng.below(units / 6) as u32,
        };
        real.advance(Time(u64::MAX));
        if trims && rng.one_in(20) {
            real.trim(Time(0), lpn..lpn + 1).unwrap();
            // Counting mode has no log: its TRIMs are durable at once.
            real.flush(Time(0)).unwrap();
            counting.trim(lpn).unwrap();
            counting.flush().unwrap();
        } else if rng.one_in(16) {
            real.write(
                Time(0),
                lpn,
                unit(u32::from_le_bytes([0xC0, 0x3B, 0x39, 0x98])),
            )
            .unwrap();
            counting.write_control(lpn).unwrap();
        } else if trims && rng.one_in(30) {
            real.write(Time(0), lpn, vec![0; config.unit_bytes as usize].into())
                .unwrap();
            real.flush(Time(0)).unwrap();
            counting.write_zeros(lpn).unwrap();
            counting.flush().unwrap();
        } else {
            real.write(Time(0), lpn, unit(DATA)).unwrap();
            counting.write(lpn).unwrap();
        }
        if rng.one_in(25) {
            real.flush(Time(0)).unwrap();
            counting.flush().unwrap();
        }
        // A full log of the real FTL begins another checkpoint.
        if real.stats().checkpoints > checkpoints {
            checkpoints = real.stats().checkpoints;
            counting.drain();
        }
        if id % 1000 == 999 {
            real.check();
            counting.check();
            let (r, c) = (real.stats(), counting.stats());
            let data = |s: &varve_ftl::FtlStats| {
                let p = s.by_cause;
                let programs = [p.host, p.journal, p.collection, p.wear, p.fold];
                let units = [s.host_units, s.gc_units, s.wear_units, s.fold_units];
                let others = [s.journal_units, s.zero_units, s.wear_moves, s.padded];
                (programs, units, others, s.valid_at_gc)
            };
            assert_eq!(data(&r), data(&c), "{what}, operation {id}");
            let map = r.map_programs - before.map_programs;
            let all = r.programs - before.programs - map;
            assert_eq!(all, c.programs, "{what}: programs of data");
            let erases = real.wear().iter().map(|e| u64::from(*e)).sum::<u64>();
            assert_eq!(erases, c.erases, "{what}: erases of data blocks");
            assert_eq!(real.wear_report(), counting.wear_report(), "{what}");
        }
    }
    let stats = counting.stats();
    assert!(
        stats.gc_units + stats.fold_units > 5000,
        "{what}: collection must have worked"
    );
    assert!(stats.valid_at_gc.iter().sum::<u64>() > 200 || config.slc.is_some());
}

fn housekeeping(policy: Policy) -> Housekeeping {
    Housekeeping {
        policy,
        ..Housekeeping::PLAIN
    }
}

fn endless(config: Config, housekeeping: Housekeeping) -> Config {
    Config {
        checkpoint_blocks: u32::MAX / 2,
        housekeeping,
        ..config
    }
}

#[test]
fn the_real_ftl_programs_and_erases_as_often() {
    use Policy::{Choices, CostBenefit, Fifo, Greedy, Random, Windowed};
    for (seed, policy) in [Greedy, Fifo, Choices(4), CostBenefit, Windowed(8), Random]
        .into_iter()
        .enumerate()
    {
        agree(
            GEOMETRY,
            endless(CONFIG, housekeeping(policy)),
            seed as u64,
            false,
        );
    }
}

#[test]
fn they_agree_on_streams_zeros_trims_and_levelling_too() {
    let all = Housekeeping {
        journal_stream: true,
        wear_threshold: 3,
        zero_units: true,
        ..Housekeeping::PLAIN
    };
    agree(GEOMETRY, endless(CONFIG, all), 11, true);
    let plain = endless(with_area(CONFIG, 6), Housekeeping::PLAIN);
    agree(GEOMETRY, plain, 12, true);
}

/// 512 GiB (and 512 GB) in units of 4 KiB, 7 % over-provisioning.
#[test]
fn half_a_terabyte_fits_into_two_gigabytes() {
    let big = Geometry {
        channels: 8,
        dies_per_channel: 4,
        pages_per_block: 256,
        page_bytes: 16384,
        spare_bytes: 128,
        ..GEOMETRY
    };
    let needs = |units: u64| {
        let config = Config {
            unit_bytes: 4096,
            units,
            lanes: 32,
            ..CONFIG
        };
        let blocks_per_plane = config.blocks_needed(&big, 0.07).div_ceil(32) as u32;
        let geometry = Geometry {
            blocks_per_plane,
            ..big
        };
        (
            Counting::memory_needed(&config, &geometry).unwrap(),
            config,
            geometry,
        )
    };
    let (half_gib, config, geometry) = needs(512 << 8);
    let made = Counting::new(config, geometry).unwrap();
    assert_eq!(
        made.memory_bytes(),
        half_gib,
        "what is foretold is what is taken"
    );
    let (half_tib, ..) = needs(512 << 18);
    assert!(
        (1_000_000_000..1_300_000_000).contains(&half_tib),
        "8.6 bytes per unit, not {half_tib} bytes"
    );
}
