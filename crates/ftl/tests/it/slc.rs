//! The SLC area: bursts, the drop in speed when it is full, folding in idle time, and refused
//! configurations.

use crate::common;
use base::{Rng, Time};
use common::{AREA, CONFIG, GEOMETRY, TIMING, fresh, unit, with_area};
use std::collections::BTreeMap;
use varve_ftl::nand::{BlockId, Geometry, Nand};
use varve_ftl::{Config, Ftl, FtlError, SlcArea};

const BLOCKS: Geometry = Geometry {
    blocks_per_plane: 40,
    ..GEOMETRY
};

fn device(blocks: u32) -> Ftl {
    fresh(BLOCKS, with_area(CONFIG, blocks))
}

/// Writes `range` as fast as the chips take it; answers when each row was programmed.
fn stream(ftl: &mut Ftl, mut now: Time, range: std::ops::Range<u32>) -> Vec<Time> {
    let mut ends = Vec::new();
    for lpn in range {
        ftl.advance(now);
        if let Some(end) = ftl.write(now, lpn, unit(512, lpn, 1)).unwrap() {
            now = end;
            ends.push(end);
        }
    }
    ends
}

#[test]
fn a_burst_into_the_area_is_faster_and_a_longer_one_falls_off_the_cliff() {
    let mut with = device(10);
    assert_eq!(with.slc_units(), 160);
    // 12 us + 22 us over the bus + 30 us, and now and then 250 us for an erase, against 100 us and
    // 500 us.
    let fast = stream(&mut with, Time(0), 0..152);
    let without = stream(&mut fresh(BLOCKS, CONFIG), Time(0), 0..152);
    let end = |ends: &[Time]| ends.last().unwrap().0;
    assert!(end(&fast) * 3 < end(&without) * 2, "{fast:?} {without:?}");
    assert_eq!(with.stats().fold_units, 0, "no folding yet");
    assert_eq!(with.slc_held(), 152);
    let start = *fast.last().unwrap();
    let slow = stream(&mut with, start, 152..600);
    let per_row = |ends: &[Time], from: Time| (end(ends) - from.0) / ends.len() as u64;
    assert!(
        per_row(&slow, start) > 2 * per_row(&fast, Time(0)),
        "the cliff: a row takes {} ns, before {} ns",
        per_row(&slow, start),
        per_row(&fast, Time(0))
    );
    let pause = slow.windows(2).map(|w| w[1].0 - w[0].0).max().unwrap();
    // Folding a block of 4 rows: on two dies at least two programs of 100 us each, before the erase
    // of 250 us.
    assert!(pause > 450_000, "longest pause {pause} ns");
    // For each block that a lane opens, another one is folded.
    assert!(with.stats().fold_units >= 600 - 160);
    assert_eq!(with.stats().gc_units, 0, "folding is counted apart");
    assert!(with.slc_held() <= with.slc_units());
    with.check();
}

#[test]
fn folding_in_idle_time_makes_room_for_the_next_burst() {
    let mut ftl = device(10);
    stream(&mut ftl, Time(0), 0..160);
    assert_eq!(ftl.need(), 2, "the area is full");
    let mut now = ftl.flush(Time(1 << 30)).unwrap();
    let begin = now;
    while let Some(end) = ftl.fold_idle(now, 8).unwrap() {
        assert!(end >= now);
        now = end;
    }
    assert_eq!(ftl.stats().fold_units, 160);
    assert_eq!((ftl.slc_held(), ftl.need()), (0, 0));
    // 40 rows on two dies, 100 us each, at the speed of ordinary cells.
    assert!(now.0 - begin.0 >= 40 / 2 * 100_000, "{begin} {now}");
    let folded = ftl.stats().fold_units;
    let again = stream(&mut ftl, now, 200..352);
    assert_eq!(ftl.stats().fold_units, folded, "nobody waits for folding");
    let all = again.last().unwrap().0 - now.0;
    let without = stream(&mut fresh(BLOCKS, CONFIG), Time(0), 200..352);
    assert!(all * 3 < without.last().unwrap().0 * 2, "{all} ns");
    for lpn in 0..160 {
        assert_eq!(common::id_of(&ftl.content(lpn).unwrap()), 1);
    }
}

#[test]
fn what_is_in_the_area_is_read_at_its_speed() {
    let mut ftl = device(10);
    stream(&mut ftl, Time(0), 0..8);
    let now = ftl.flush(Time(1 << 30)).unwrap();
    let (_, end) = ftl.read(now, 0..1);
    assert_eq!(end.0 - now.0, 12_000 + 5_120, "tR of the mode, 512 bytes");
    stream(&mut ftl, now, 8..160);
    let mut now = Time(1 << 31);
    while let Some(end) = ftl.fold_idle(now, 8).unwrap() {
        now = end;
    }
    let now = Time(now.0 + (1 << 30));
    let (_, end) = ftl.read(now, 0..1);
    assert_eq!(end.0 - now.0, 25_000 + 5_120, "tR of ordinary cells");
}

#[test]
fn units_that_were_written_side_by_side_are_read_side_by_side_after_folding() {
    let read = |ftl: &mut Ftl, now: Time| ftl.read(now, 0..8).1.0 - now.0;
    let mut ftl = device(10);
    stream(&mut ftl, Time(0), 0..160);
    let mut now = ftl.flush(Time(1 << 30)).unwrap();
    while let Some(end) = ftl.fold_idle(now, 8).unwrap() {
        now = end;
    }
    let folded = read(&mut ftl, Time(1 << 32));
    let mut never = fresh(BLOCKS, CONFIG);
    stream(&mut never, Time(0), 0..160);
    never.flush(Time(1 << 30)).unwrap();
    assert_eq!(
        folded,
        read(&mut never, Time(1 << 32)),
        "two rows on two dies"
    );
}

/// The host drops all that the second victim holds when it is its turn, then fills the area.
#[test]
fn a_victim_that_the_host_empties_between_two_steps_does_not_stop_folding() {
    let mut ftl = device(10);
    stream(&mut ftl, Time(0), 0..160);
    let now = ftl.flush(Time(1 << 30)).unwrap();
    // Rows of four units on two lanes: each of the first two blocks has every other row.
    let now = ftl.fold_idle(now, 4).unwrap().unwrap();
    assert_eq!(ftl.stats().fold_units, 4, "a row of the first");
    for row in [1, 3, 5, 7] {
        ftl.trim(now, row * 4..row * 4 + 4).unwrap();
    }
    stream(&mut ftl, now, 160..600);
    assert!(ftl.slc_held() <= ftl.slc_units());
    ftl.check();
}

#[test]
fn reads_equal_a_naive_map_after_any_mix() {
    for seed in 0..8 {
        let mut rng = Rng::named(seed, "slc mix");
        let mut ftl = device(3 + rng.below(12) as u32);
        let mut model = BTreeMap::new();
        let mut now = Time(0);
        for id in 1..4000 {
            let lpn = rng.below(600) as u32;
            ftl.advance(now);
            match rng.below(20) {
                0 => now = ftl.flush(now).unwrap(),
                1 => {
                    ftl.trim(now, lpn..lpn + 1).unwrap();
                    model.remove(&lpn);
                }
                2 => {
                    now = ftl
                        .fold_idle(now, rng.below(50) as u32)
                        .unwrap()
                        .unwrap_or(now)
                }
                _ => {
                    ftl.write(now, lpn, unit(512, lpn, id)).unwrap();
                    model.insert(lpn, id);
                }
            }
            now += base::Nanos(rng.below(50_000));
        }
        ftl.check();
        assert!(ftl.stats().fold_units > 500 && ftl.stats().gc_units > 0);
        for lpn in 0..600 {
            let want = model.get(&lpn).copied().unwrap_or(0);
            let (data, _) = ftl.read(now, lpn..lpn + 1);
            assert_eq!(common::id_of(&data.unwrap()[0]), want, "unit {lpn}");
        }
    }
}

#[test]
fn a_medium_with_another_area_is_refused() {
    let media = device(10).power_off(Time(0), 0);
    for config in [CONFIG, with_area(CONFIG, 9)] {
        let error = Ftl::mount(Nand::new(media.clone(), TIMING), config, Time(0)).err();
        assert!(
            matches!(&error, Some(FtlError::NotFormatted(why)) if why.contains("10 blocks")),
            "{error:?}"
        );
    }
}

#[test]
fn impossible_areas_are_refused_by_field() {
    let refused = |area: SlcArea| {
        let config = Config {
            slc: Some(area),
            ..CONFIG
        };
        let nand = Nand::new(varve_ftl::nand::Media::blank(BLOCKS), TIMING);
        Ftl::format(nand, config).err().unwrap().to_string()
    };
    for (area, what) in [
        (SlcArea { blocks: 2, ..AREA }, "2 lanes need 3"),
        (SlcArea { blocks: 60, ..AREA }, "there are 80"),
        (
            SlcArea {
                bits_per_cell: 1,
                ..AREA
            },
            "slc.bits_per_cell = 1",
        ),
        (
            SlcArea {
                endurance: 0,
                ..AREA
            },
            "slc.endurance = 0",
        ),
    ] {
        assert!(refused(area).contains(what), "{}", refused(area));
    }
}

#[test]
fn a_worn_out_area_makes_the_device_read_only_and_loses_nothing() {
    let mut ftl = device(5);
    let mut last = BTreeMap::new();
    let mut broken = 0;
    for id in 1..2000 {
        let lpn = id % 600;
        if id % 100 == 0 {
            // The map areas come first: two of them, of the same size.
            let block = 2 * ftl.layout().area + broken % 5;
            ftl.nand_mut().fail_next_erase(BlockId(block));
            broken += 1;
        }
        match ftl.write(Time(u64::from(id) << 20), lpn, unit(512, lpn, id)) {
            Ok(_) => last.insert(lpn, id),
            Err(FtlError::ReadOnly(why)) => {
                assert!(why.contains("SLC area is worn out"), "{why}");
                break;
            }
            Err(e) => panic!("{e}"),
        };
    }
    assert!(ftl.read_only().is_some(), "three of five blocks must fail");
    for (lpn, id) in last {
        assert_eq!(common::id_of(&ftl.content(lpn).unwrap()), id);
    }
}
