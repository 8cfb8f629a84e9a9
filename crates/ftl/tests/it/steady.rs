//! Steady state: write amplification compared with the closed form, wear, failing blocks, end of
//! life.

use crate::common;
use base::{Rng, Time, fill};
use common::{CONFIG, GEOMETRY, Oracle, TIMING, fresh, step};
use varve_ftl::nand::{BlockId, Geometry, Media, Nand, Pairing};
use varve_ftl::{Config, Ftl, FtlError};

/// Greedy collection, uniform random overwrite: A = Np / (Np - X0 + 1), X0 = 1/2 - (Np/a) W0(-k a
/// e^{-k a}), k = 1 + 1/(2 Np) (the form of Desnoyers, SYSTOR 2012).
fn greedy_formula(np: f64, alpha: f64) -> f64 {
    let k = 1.0 + 1.0 / (2.0 * np);
    let x = -k * alpha * (-k * alpha).exp();
    // The branch of W with -1 < W < 0: iterate w = x e^-w.
    let mut w = 0.0;
    for _ in 0..10_000 {
        w = x * f64::exp(-w);
    }
    let x0 = 0.5 - np / alpha * w;
    np / (np - x0 + 1.0)
}

fn amplification(blocks: u32, np: u32, rho: f64) -> (f64, f64) {
    let geometry = Geometry {
        channels: 1,
        dies_per_channel: 1,
        planes: 1,
        blocks_per_plane: blocks,
        pages_per_block: np,
        page_bytes: 512,
        spare_bytes: 64,
        nop: 1,
        endurance: 1_000_000,
        pairing: Pairing::None,
    };
    let units = |data: u32| (f64::from(data * np) / (1.0 + rho)) as u64;
    // The map does not take part: its areas come on top of the data blocks of the formula.
    let mut config = Config {
        unit_bytes: 512,
        units: units(blocks),
        lanes: 1,
        gc_slack: 0,
        checkpoint_blocks: u32::MAX / 2,
        slc: None,
        housekeeping: varve_ftl::Housekeeping::PLAIN,
    };
    let area = loop {
        match varve_ftl::Layout::new(&config, &geometry) {
            Ok(layout) if config.units == units(blocks - 2 * layout.area) => break layout.area,
            Ok(layout) => config.units = units(blocks - 2 * layout.area),
            Err(_) => config.units -= u64::from(np),
        }
    };
    let mut ftl = fresh(geometry, config);
    let mut rng = Rng::named(3, "uniform");
    let data = fill::zeros(512);
    let mut write = |ftl: &mut Ftl, n: u64| {
        for _ in 0..n {
            let lpn = rng.below(config.units) as u32;
            ftl.advance(Time(u64::MAX));
            ftl.write(Time(0), lpn, data.clone()).unwrap();
        }
    };
    write(&mut ftl, config.units * 6);
    let before = ftl.stats();
    write(&mut ftl, config.units * 5);
    let after = ftl.stats();
    ftl.check();
    let host = (after.host_units - before.host_units) as f64;
    let simulated = 1.0 + (after.gc_units - before.gc_units) as f64 / host;
    // Blocks that can never hold counted data: those kept free (reserve, lanes, slack), and on
    // average half of each of the two open blocks.
    let data_blocks = f64::from(blocks - 2 * area);
    let idle = f64::from(varve_ftl::RESERVE + config.lanes + config.gc_slack) + 1.0;
    let alpha = f64::from((blocks - 2 * area) * np) / config.units as f64 * (data_blocks - idle)
        / data_blocks;
    (simulated, greedy_formula(f64::from(np), alpha))
}

#[test]
fn greedy_write_amplification_meets_the_closed_form() {
    assert!(
        (greedy_formula(32.0, 1.25) - 2.510).abs() < 0.001,
        "evaluated independently, to three digits"
    );
    assert!(
        (greedy_formula(64.0, 1.10) - 5.242).abs() < 0.001,
        "evaluated independently, to three digits"
    );
    let (simulated, formula) = amplification(1040, 32, 0.25);
    let off = (simulated / formula - 1.0).abs();
    assert!(
        off < 0.006,
        "simulated {simulated:.4}, formula {formula:.4}, off by {:.2} %",
        off * 100.0
    );
}

#[test]
fn a_device_without_any_spare_room_still_collects() {
    // The maximum of units that the layout allows on these chips.
    let mut config = Config {
        gc_slack: 0,
        ..CONFIG
    };
    while varve_ftl::Layout::new(
        &Config {
            units: config.units + 1,
            ..config
        },
        &GEOMETRY,
    )
    .is_ok()
    {
        config.units += 1;
    }
    let mut ftl = fresh(GEOMETRY, config);
    let units = config.units as u32;
    for lpn in 0..units {
        ftl.advance(Time(u64::MAX));
        ftl.write(Time(0), lpn, common::unit(512, lpn, 1)).unwrap();
    }
    assert_eq!(
        ftl.stats().gc_units,
        0,
        "ftl-I7: blocks that are all valid are not collected"
    );
    let mut rng = Rng::named(7, "tight");
    for id in 0..20_000 {
        let lpn = rng.below(u64::from(units)) as u32;
        ftl.advance(Time(u64::MAX));
        ftl.write(Time(0), lpn, common::unit(512, lpn, id)).unwrap();
        if rng.one_in(50) {
            ftl.flush(Time(0)).unwrap();
        }
    }
    ftl.check();
}

#[test]
fn wear_stays_even_under_uniform_load() {
    let mut ftl = fresh(GEOMETRY, CONFIG);
    let mut rng = Rng::named(4, "wear");
    for id in 0..60_000u32 {
        let lpn = rng.below(600) as u32;
        ftl.advance(Time(u64::MAX));
        ftl.write(Time(0), lpn, common::unit(512, lpn, id)).unwrap();
    }
    let wear = ftl.wear();
    let (min, max) = (wear.iter().min().unwrap(), wear.iter().max().unwrap());
    assert!(
        *min > 20 && max - min < max / 3 + 5,
        "erase counts from {min} to {max}"
    );
}

#[test]
fn failing_blocks_lose_nothing() {
    let geometry = Geometry {
        blocks_per_plane: 26,
        ..GEOMETRY
    };
    for seed in 0..6 {
        let mut rng = Rng::named(seed, "failing");
        let mut ftl = fresh(geometry, CONFIG);
        let mut oracle = Oracle::default();
        let mut now = Time(0);
        for id in 1..3000 {
            if id % 500 == 250 {
                let block = BlockId(rng.below(u64::from(geometry.blocks())) as u32);
                match rng.one_in(2) {
                    true => ftl.nand_mut().fail_next_program(block),
                    false => ftl.nand_mut().fail_next_erase(block),
                }
            }
            now = step(&mut ftl, &mut oracle, &mut rng, now, id);
            if id % 300 == 0 {
                ftl.check();
                let media = ftl.clone().power_off(now, 1);
                let (next, _) = Ftl::mount(Nand::new(media, TIMING), CONFIG, Time(0)).unwrap();
                next.check();
                oracle.check(&next, now, &format!("seed {seed}, operation {id}"));
            }
        }
    }
}

#[test]
fn a_worn_out_device_turns_read_only_with_the_reason_and_keeps_its_data() {
    let mut ftl = fresh(
        Geometry {
            endurance: 40,
            ..GEOMETRY
        },
        Config {
            checkpoint_blocks: 200,
            ..CONFIG
        },
    );
    let mut rng = Rng::named(6, "worn");
    let mut newest = vec![0; 600];
    let error = loop {
        let lpn = rng.below(600) as u32;
        let id = rng.below(1 << 30) as u32 + 1;
        ftl.advance(Time(u64::MAX));
        match ftl.write(Time(0), lpn, common::unit(512, lpn, id)) {
            Ok(_) => newest[lpn as usize] = id,
            Err(e) => break e,
        }
    };
    assert!(
        matches!(&error, FtlError::ReadOnly(why) if !why.is_empty()),
        "{error}"
    );
    assert!(ftl.read_only().is_some());
    for (lpn, id) in newest.iter().enumerate() {
        let got = common::id_of(&ftl.content(lpn as u32).unwrap());
        assert!(got == *id || *id == 0, "unit {lpn} holds {got}, was {id}");
    }
}

#[test]
fn factory_bad_blocks_are_left_alone() {
    let mut media = Media::blank(Geometry {
        blocks_per_plane: 24,
        ..GEOMETRY
    });
    let bad = [0, 5, 17, 30].map(BlockId);
    bad.iter().for_each(|b| media.mark_bad(*b));
    let mut ftl = Ftl::format(Nand::new(media, TIMING), CONFIG).unwrap();
    let mut rng = Rng::named(8, "bad");
    let mut oracle = Oracle::default();
    let mut now = Time(0);
    for id in 1..4000 {
        now = step(&mut ftl, &mut oracle, &mut rng, now, id);
    }
    let media = ftl.power_off(Time(now.0 + 1_000_000_000), 0);
    assert!(bad.iter().all(|b| media.wear(*b) == 0));
}

#[test]
fn neighbours_in_a_row_cost_one_array_read() {
    let mut ftl = fresh(GEOMETRY, CONFIG);
    for lpn in 0..8 {
        ftl.write(Time(0), lpn, common::unit(512, lpn, 1)).unwrap();
    }
    let end = ftl.flush(Time(0)).unwrap();
    let before = ftl.clone().nand_mut().stats().reads;
    let (data, done) = ftl.read(end, 0..4);
    assert_eq!(data.unwrap().len(), 4);
    assert_eq!(ftl.nand_mut().stats().reads - before, 1);
    assert_eq!((done - end).0, 25_000 + 4 * 512 * 10);
    assert!(matches!(
        ftl.read(end, 599..601).0,
        Err(FtlError::OutOfRange(600))
    ));
}
