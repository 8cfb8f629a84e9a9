//! Streams, zeros without a program, static wear levelling and end of life, on the real FTL.
#![allow(clippy::disallowed_macros)] // No task and no simulation runs here: printing cannot hold up a yield.

use crate::common;
use base::{Bytes, Nanos, Rng, Time};
use common::{CONFIG, GEOMETRY, TIMING, WIDE, fresh, unit};
use std::collections::BTreeMap;
use varve_ftl::nand::{BlockId, Geometry, Nand};
use varve_ftl::{Config, Counting, Ftl, FtlError, Housekeeping, Policy};

const ALL: Housekeeping = Housekeeping {
    policy: Policy::CostBenefit,
    seed: 1,
    journal_stream: true,
    wear_threshold: 3,
    zero_units: true,
    own_evidence: true,
};

fn with(housekeeping: Housekeeping) -> Config {
    Config {
        housekeeping,
        ..CONFIG
    }
}

fn control(id: u32) -> Bytes {
    let mut raw = vec![0; 512];
    raw[..4].copy_from_slice(&[0xC0, 0x3B, 0x39, 0x98]);
    raw[8..12].copy_from_slice(&id.to_le_bytes());
    raw.into()
}

/// For each unit, the contents since the newest one that is durable.
type Allowed = BTreeMap<u32, Vec<Bytes>>;

/// Writes of data, of control blocks and of zeros, TRIMs and flushes, and cuts at any time: each
/// unit reads its flushed content, or newer.
fn lives(geometry: Geometry, config: Config, seed: u64) {
    let mut rng = Rng::named(seed, "housekeeping");
    let (mut ftl, mut now, mut id) = (fresh(geometry, config), Time(0), 0);
    let zeros = Bytes::from(vec![0; 512]);
    let mut allowed = Allowed::new();
    for life in 0..10 {
        for _ in 0..100 + rng.below(500) {
            id += 1;
            let most = if rng.one_in(2) { 60 } else { 600 };
            let lpn = rng.below(most) as u32;
            ftl.advance(now);
            if rng.one_in(12) {
                now = ftl.flush(now).unwrap();
                allowed
                    .values_mut()
                    .for_each(|v| drop(v.drain(..v.len() - 1)));
                continue;
            }
            let data = match rng.below(6) {
                0 => zeros.clone(),
                1 => control(id),
                _ => unit(512, lpn, id),
            };
            if rng.one_in(25) {
                ftl.trim(now, lpn..lpn + 1).unwrap();
                allowed
                    .entry(lpn)
                    .or_insert_with(|| vec![zeros.clone()])
                    .push(zeros.clone());
            } else {
                ftl.write(now, lpn, data.clone()).unwrap();
                allowed
                    .entry(lpn)
                    .or_insert_with(|| vec![zeros.clone()])
                    .push(data);
            }
            now += Nanos(rng.below(60_000));
        }
        ftl.check();
        let cut = now + Nanos(rng.below(2_000_000));
        let media = ftl.power_off(cut, rng.next_u64());
        let (next, ready) = Ftl::mount(Nand::new(media, TIMING), config, Time(0)).unwrap();
        next.check();
        for (lpn, values) in &mut allowed {
            let got = next.content(*lpn).unwrap();
            assert!(
                values.contains(&got),
                "seed {seed}, life {life}, cut at {cut}: unit {lpn} holds {:?}",
                &got[..12]
            );
            *values = vec![got];
        }
        (ftl, now) = (next, ready);
    }
    assert_eq!(
        ftl.stats().by_cause.total(),
        ftl.stats().programs,
        "programs by cause"
    );
}

#[test]
fn flushed_units_survive_with_all_of_it_on() {
    (0..12).for_each(|seed| lives(GEOMETRY, with(ALL), seed));
    let wide = Config {
        lanes: 4,
        ..with(ALL)
    };
    (20..28).for_each(|seed| lives(WIDE, wide, seed));
}

#[test]
fn a_unit_of_zeros_costs_no_program_and_is_durable_by_a_flush() {
    let only = with(Housekeeping {
        zero_units: true,
        ..Housekeeping::PLAIN
    });
    let mut ftl = fresh(GEOMETRY, only);
    for lpn in 0..8 {
        ftl.write(Time(0), lpn, unit(512, lpn, 1)).unwrap();
    }
    ftl.flush(Time(0)).unwrap();
    let before = ftl.stats();
    for lpn in 0..300 {
        ftl.write(Time(0), lpn, vec![0; 512].into()).unwrap();
    }
    let end = ftl.flush(Time(0)).unwrap();
    let after = ftl.stats();
    assert_eq!(after.zero_units - before.zero_units, 300);
    assert_eq!(after.by_cause.host, before.by_cause.host);
    // Only the eight that held something need a record.
    assert_eq!(after.programs - before.programs, 1, "one page of the log");
    let (next, _) = Ftl::mount(Nand::new(ftl.power_off(end, 0), TIMING), only, Time(0)).unwrap();
    for lpn in 0..8 {
        assert_eq!(next.content(lpn).unwrap(), vec![0; 512]);
    }
}

/// ftl-I6: the maximum of units that the layout allows on these chips, under each policy, with all
/// streams and frequent levelling.
#[test]
fn a_device_without_any_spare_room_still_collects() {
    use Policy::{Choices, CostBenefit, Fifo, Greedy, Random, Windowed};
    for policy in [Greedy, Fifo, Choices(2), CostBenefit, Windowed(4), Random] {
        let own = Housekeeping {
            policy,
            wear_threshold: 1,
            ..ALL
        };
        let fits = |units| {
            let config = Config {
                units,
                gc_slack: 0,
                ..with(own)
            };
            varve_ftl::Layout::new(&config, &GEOMETRY).map(|_| config)
        };
        let config = (600..2000).map_while(|units| fits(units).ok()).last();
        let config = config.expect("600 units fit");
        let mut ftl = fresh(GEOMETRY, config);
        let mut rng = Rng::named(7, "tight");
        for lpn in 0..config.units as u32 {
            ftl.advance(Time(u64::MAX));
            ftl.write(Time(0), lpn, unit(512, lpn, 1)).unwrap();
        }
        for id in 0..10_000 {
            let lpn = rng.below(config.units) as u32;
            let data = match rng.below(8) {
                0 => control(id),
                _ => unit(512, lpn, id),
            };
            ftl.advance(Time(u64::MAX));
            let written = ftl.write(Time(0), lpn, data);
            assert!(written.is_ok(), "ftl-I6: {policy}, write {id}: {written:?}");
            if rng.one_in(50) {
                ftl.flush(Time(0)).unwrap();
            }
        }
        ftl.check();
        assert!(ftl.stats().wear_moves > 0, "{policy}: {:?}", ftl.stats());
    }
}

/// In an ordered group a later unit may be on flash before a record in the log is: zeros are
/// programmed there (group-I11).
#[test]
fn zeros_in_an_ordered_group_keep_their_place() {
    let mut ftl = fresh(GEOMETRY, with(ALL));
    ftl.begin_group(Time(0)).unwrap();
    ftl.write(Time(0), 5, vec![0; 512].into()).unwrap();
    assert_eq!((ftl.stats().zero_units, ftl.group_units()), (0, 1));
    let end = ftl.flush(Time(0)).unwrap();
    ftl.end_group(end);
    ftl.write(end, 5, vec![0; 512].into()).unwrap();
    assert_eq!(ftl.stats().zero_units, 1);
}

/// A journal's control blocks become invalid at the next lap, data at random times (in counting
/// mode, which decides as the real FTL does).
#[test]
fn control_blocks_in_their_own_stream_leave_fewer_holes() {
    let geometry = Geometry {
        blocks_per_plane: 520,
        ..GEOMETRY
    };
    let copies = |journal_stream, ring: u64, data: u64| {
        let own = with(Housekeeping {
            journal_stream,
            ..Housekeeping::PLAIN
        });
        let config = Config {
            units: 26_000,
            ..own
        };
        let mut ftl = Counting::new(config, geometry).unwrap();
        let mut rng = Rng::named(3, "ring");
        for id in 0..400_000 {
            if id % data == 0 {
                ftl.write_control((id / data % ring) as u32).unwrap();
            } else {
                let lpn = ring + rng.below(26_000 - ring);
                ftl.write(lpn as u32).unwrap();
            }
        }
        let stats = ftl.stats();
        assert_eq!(stats.journal_units > 0, journal_stream);
        assert_eq!(stats.by_cause.journal > 0, journal_stream);
        stats.gc_units
    };
    for (ring, data) in [(100, 2), (100, 3), (1000, 2), (1000, 3)] {
        let (mixed, apart) = (copies(false, ring, data), copies(true, ring, data));
        println!("ring {ring}, 1 in {data}: {apart} copies with a stream, {mixed} without");
        assert!(
            apart * 100 < mixed * 90,
            "{apart} copies with a stream, {mixed} without"
        );
    }
}

/// Half of the device is written once, a tenth of it all the time.
fn hot_and_cold(wear_threshold: u32) -> Ftl {
    let geometry = Geometry {
        blocks_per_plane: 40,
        ..GEOMETRY
    };
    let config = Config {
        units: 1500,
        checkpoint_blocks: 10_000,
        ..with(Housekeeping {
            wear_threshold,
            ..Housekeeping::PLAIN
        })
    };
    let mut ftl = fresh(geometry, config);
    let mut rng = Rng::named(4, "cold");
    for lpn in 0..1500 {
        ftl.write(Time(0), lpn, unit(512, lpn, 1)).unwrap();
    }
    for id in 0..150_000u32 {
        ftl.advance(Time(u64::MAX));
        let lpn = rng.below(150) as u32;
        ftl.write(Time(0), lpn, unit(512, lpn, id)).unwrap();
    }
    ftl.check();
    for lpn in 150..1500 {
        assert_eq!(ftl.content(lpn).unwrap(), unit(512, lpn, 1));
    }
    ftl
}

#[test]
fn static_levelling_keeps_erase_counts_together_at_a_bounded_price() {
    let without = hot_and_cold(0).wear_report();
    assert!(without.min <= 2 && without.max > 100, "{without:?}");
    for threshold in [8, 32] {
        let ftl = hot_and_cold(threshold);
        let (wear, stats) = (ftl.wear_report(), ftl.stats());
        assert!(
            wear.max - wear.min <= 2 * threshold + 8,
            "threshold {threshold}: {wear:?}"
        );
        let slots = stats.by_cause.total() * 4;
        assert!(
            stats.wear_moves > 10 && stats.wear_units * u64::from(threshold) <= slots,
            "threshold {threshold}: {} units moved, {slots} slots programmed",
            stats.wear_units
        );
        assert!(wear.projected_bytes > without.projected_bytes);
        println!(
            "threshold {threshold}: {wear:?}, {} moves, {} units",
            stats.wear_moves, stats.wear_units
        );
    }
    println!("without: {without:?}");
}

#[test]
fn the_exported_size_leaves_what_3_9_says() {
    let blocks = |n| Geometry {
        blocks_per_plane: n,
        ..GEOMETRY
    };
    for (per_plane, rho, bad) in [(40, 0.07, 0), (100, 0.25, 4), (500, 0.07, 20)] {
        let geometry = blocks(per_plane);
        let units = with(ALL).units_for(&geometry, rho, bad);
        let config = Config { units, ..with(ALL) };
        let layout = varve_ftl::Layout::new(&config, &geometry).unwrap();
        let slots = u64::from(layout.slots_per_block);
        let left = u64::from(layout.blocks - 2 * layout.area - bad) * slots;
        let fixed = u64::from(varve_ftl::RESERVE + config.lanes + 1 + config.gc_slack + 2);
        let room = left - fixed * slots;
        assert!(
            units as f64 * (1.0 + rho) <= room as f64,
            "not more than there is"
        );
        assert!((units as f64 + 1.0) * (1.0 + rho) > room as f64, "nor less");
        let needs = config.blocks_needed(&geometry, rho) + u64::from(bad);
        assert!(needs <= u64::from(geometry.blocks()) && needs + 4 > u64::from(geometry.blocks()));
    }
}

/// Blocks fail one after the other: the device takes writes down to the floor and not below, says
/// why, and never exports less.
#[test]
fn grown_bad_blocks_use_up_the_spare_and_then_the_device_is_read_only() {
    let geometry = Geometry {
        blocks_per_plane: 30,
        ..GEOMETRY
    };
    let mut ftl = fresh(geometry, CONFIG);
    let (mut rng, mut newest) = (Rng::named(6, "failing"), BTreeMap::new());
    let mut last = ftl.health();
    assert_eq!((last.spare_percent, last.read_only.clone()), (100, None));
    let mut failed = 0;
    let error = loop {
        let health = ftl.health();
        assert!(health.good_blocks >= health.floor_blocks || health.read_only.is_some());
        assert!(health.spare_percent <= last.spare_percent && health.exported_units == 600);
        last = health;
        let lpn = rng.below(600) as u32;
        let id = rng.below(1 << 30) as u32 + 1;
        if rng.one_in(40) {
            let block = BlockId(rng.below(u64::from(geometry.blocks())) as u32);
            ftl.nand_mut().fail_next_program(block);
        }
        ftl.advance(Time(u64::MAX));
        match ftl.write(Time(0), lpn, unit(512, lpn, id)) {
            Ok(_) => drop(newest.insert(lpn, id)),
            Err(e) => break e,
        }
        failed += 1;
        assert!(failed < 200_000, "never read-only");
    };
    let FtlError::ReadOnly(why) = error else {
        panic!("{error}")
    };
    assert!(why.contains("good blocks are left"), "{why}");
    let health = ftl.health();
    assert_eq!(
        health.good_blocks + 1,
        health.floor_blocks,
        "not before the floor"
    );
    assert_eq!((health.spare_percent, &health.read_only), (0, &Some(why)));
    assert!(health.bad_blocks >= 5, "{health:?}");
    for (lpn, id) in &newest {
        let got = common::id_of(&ftl.content(*lpn).unwrap());
        assert!(got == *id, "unit {lpn} holds {got}, was {id}");
    }
    // The next power-up finds the device read-only too, and exports as much.
    let (again, _) = Ftl::mount(
        Nand::new(ftl.power_off(Time(u64::MAX), 0), TIMING),
        CONFIG,
        Time(0),
    )
    .unwrap();
    assert!(again.health().read_only.is_some() && again.layout().units == 600);
}
