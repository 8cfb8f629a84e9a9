//! Power cuts at random times; nested cuts in recovery; every flushed unit reads its newest flushed
//! or a later version.

use crate::common;
use base::{Rng, Time};
use common::{
    BIG_UNITS, BURST, CALM, CONFIG, FAILING, GEOMETRY, Mix, Oracle, SMALL_PAGES, TIMING, WIDE,
    WIDE_CONFIG, fresh, step, step_of, with_area,
};
use varve_ftl::nand::{BlockId, Geometry, Media, Nand, PageAddr};
use varve_ftl::{Config, Ftl, FtlError, Housekeeping};

/// Uses, cuts and recovers one device again and again (with cuts inside recovery), and checks it
/// each time.
fn lives(geometry: Geometry, config: Config, mix: Mix, seed: u64, count: u64) {
    let mut rng = Rng::named(seed, "ftl lives");
    let mut ftl = fresh(geometry, config);
    let mut oracle = Oracle::default();
    let (mut now, mut id) = (Time(0), 0);
    for life in 0..count {
        for _ in 0..20 + rng.below(400) {
            id += 1;
            now = step_of(mix, &mut ftl, &mut oracle, &mut rng, now, id);
            if config.slc.is_some() && rng.one_in(6) {
                let units = 1 + rng.below(40) as u32;
                ftl.fold_idle(now, units).unwrap();
            }
        }
        ftl.check();
        let within = 1 + rng.below(4_000_000);
        let cut = Time(now.0 + rng.below(within));
        let what = format!("seed {seed}, life {life}, cut at {cut}");
        let mut media = ftl.power_off(cut, rng.next_u64());
        for _ in 0..rng.below(3) {
            media = cut_in_recovery(media, config, &mut rng);
        }
        let (next, ready) = Ftl::mount(Nand::new(media, TIMING), config, Time(0))
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        (ftl, now) = (next, ready);
        ftl.check();
        oracle = oracle.check(&ftl, cut, &what);
        oracle.flush(Time(0));
    }
}

fn cut_in_recovery(media: Media, config: Config, rng: &mut Rng) -> Media {
    let (ftl, ready) = Ftl::mount(Nand::new(media, TIMING), config, Time(0)).expect("recovery");
    ftl.power_off(Time(rng.below(ready.0 + 1)), rng.next_u64())
}

#[test]
fn random_lives_with_several_units_in_a_page() {
    (0..12).for_each(|seed| lives(GEOMETRY, CONFIG, CALM, seed, 12));
}

#[test]
fn random_lives_with_several_pages_in_a_unit() {
    (100..106).for_each(|seed| lives(SMALL_PAGES, BIG_UNITS, CALM, seed, 10));
}

#[test]
fn random_lives_of_a_host_that_runs_ahead_of_the_chips() {
    (200..230).for_each(|seed| lives(WIDE, WIDE_CONFIG, BURST, seed, 8));
}

#[test]
fn random_lives_with_failing_blocks() {
    let roomy = Geometry {
        blocks_per_plane: 100,
        ..WIDE
    };
    (300..330).for_each(|seed| lives(roomy, WIDE_CONFIG, FAILING, seed, 4));
}

#[test]
fn random_lives_with_an_slc_area() {
    let roomy = |g: Geometry, blocks| Geometry {
        blocks_per_plane: g.blocks_per_plane + blocks,
        ..g
    };
    let small = with_area(CONFIG, 4);
    (400..412).for_each(|seed| lives(roomy(GEOMETRY, 3), small, CALM, seed, 8));
    let wide = with_area(WIDE_CONFIG, 7);
    (420..435).for_each(|seed| lives(roomy(WIDE, 2), wide, BURST, seed, 8));
    let big = with_area(BIG_UNITS, 3);
    (440..446).for_each(|seed| lives(roomy(SMALL_PAGES, 3), big, CALM, seed, 8));
    let failing = with_area(WIDE_CONFIG, 80);
    (450..465).for_each(|seed| lives(roomy(WIDE, 110), failing, FAILING, seed, 3));
}

/// A cut at the boundary of every operation on the chips, and inside it, while the area is folded.
#[test]
fn every_moment_of_folding() {
    let geometry = Geometry {
        blocks_per_plane: 24,
        ..GEOMETRY
    };
    let config = with_area(CONFIG, 6);
    let mut ftl = fresh(geometry, config);
    let mut oracle = Oracle::default();
    let (mut now, mut cuts, mut rng) = (Time(0), 0, Rng::named(8, "folding"));
    for id in 1..=1200 {
        let lpn = rng.below(600) as u32;
        let (before, folded) = (now, ftl.stats().fold_units);
        let data = common::unit(512, lpn, id);
        now = ftl.write(now, lpn, data).unwrap().unwrap_or(now);
        oracle.write(lpn, id);
        if rng.one_in(16) {
            now = ftl.flush(now).unwrap();
            oracle.flush(now);
        }
        if ftl.stats().fold_units == folded || id < 800 {
            ftl.advance(before);
            continue;
        }
        for i in 0..24 {
            let cut = Time(before.0 + (now.0 - before.0) * i / 23);
            let media = ftl.clone().power_off(cut, id.into());
            let (mut next, ready) = Ftl::mount(Nand::new(media, TIMING), config, Time(0)).unwrap();
            next.check();
            let left = oracle.check(&next, cut, &format!("write {id}, cut at {cut}"));
            while next.fold_idle(ready, 64).unwrap().is_some() {}
            assert_eq!(next.slc_held(), 0, "what was in the area can be folded");
            left.check(&next, ready, "folded after recovery");
            cuts += 1;
        }
    }
    assert!(cuts > 200, "only {cuts} cuts while folding");
}

#[test]
fn every_moment_of_a_short_run() {
    let mut rng = Rng::named(5, "short run");
    let mut ftl = fresh(GEOMETRY, CONFIG);
    let mut oracle = Oracle::default();
    let mut now = Time(0);
    for id in 1..1500 {
        now = step(&mut ftl, &mut oracle, &mut rng, now, id);
        if id > 1300 {
            for cut in [now, Time(now.0 + 30_000), Time(now.0 + 110_000)] {
                let media = ftl.clone().power_off(cut, id.into());
                let (next, _) = Ftl::mount(Nand::new(media, TIMING), CONFIG, Time(0)).unwrap();
                next.check();
                oracle.check(&next, cut, &format!("operation {id}, cut at {cut}"));
            }
        }
    }
    assert!(
        ftl.stats().gc_units > 0 && ftl.stats().checkpoints > 1,
        "the run must reach collection and checkpoints"
    );
}

#[test]
fn a_flushed_trim_stays_and_an_unflushed_one_may_go() {
    let mut ftl = fresh(GEOMETRY, CONFIG);
    ftl.write(Time(0), 7, common::unit(512, 7, 1)).unwrap();
    let end = ftl.flush(Time(0)).unwrap();
    ftl.trim(end, 7..8).unwrap();
    assert_eq!(common::id_of(&ftl.content(7).unwrap()), 0, "zeros at once");
    let lost = ftl.clone().power_off(end, 1);
    let (back, _) = Ftl::mount(Nand::new(lost, TIMING), CONFIG, Time(0)).unwrap();
    assert_eq!(
        common::id_of(&back.content(7).unwrap()),
        1,
        "the record was not on flash"
    );
    let end = ftl.flush(end).unwrap();
    let kept = ftl.power_off(end, 1);
    let (back, _) = Ftl::mount(Nand::new(kept, TIMING), CONFIG, Time(0)).unwrap();
    assert!(!back.is_mapped(7), "flushed");
}

#[test]
fn a_trim_beats_the_buffered_write_before_it() {
    let mut ftl = fresh(GEOMETRY, CONFIG);
    ftl.write(Time(0), 7, common::unit(512, 7, 1)).unwrap();
    ftl.trim(Time(0), 7..8).unwrap();
    ftl.write(Time(0), 8, common::unit(512, 8, 2)).unwrap();
    let end = ftl.flush(Time(0)).unwrap();
    let (back, _) = Ftl::mount(Nand::new(ftl.power_off(end, 1), TIMING), CONFIG, Time(0)).unwrap();
    assert!(!back.is_mapped(7) && back.is_mapped(8));
}

#[test]
fn a_blank_or_foreign_medium_is_refused() {
    let blank = Ftl::mount(Nand::new(Media::blank(GEOMETRY), TIMING), CONFIG, Time(0)).err();
    assert!(
        matches!(blank, Some(FtlError::NotFormatted(_))),
        "{blank:?}"
    );
    let media = fresh(GEOMETRY, CONFIG).power_off(Time(0), 0);
    let other = Config {
        units: 500,
        ..CONFIG
    };
    let error = Ftl::mount(Nand::new(media, TIMING), other, Time(0)).err();
    assert!(
        matches!(&error, Some(FtlError::NotFormatted(why)) if why.contains("600")),
        "{error:?}"
    );
}

#[test]
fn damaged_map_pages_never_panic() {
    let mut rng = Rng::named(9, "damage");
    for _ in 0..60 {
        let mut ftl = fresh(GEOMETRY, CONFIG);
        let mut oracle = Oracle::default();
        let mut now = Time(0);
        for id in 1..200 {
            now = step(&mut ftl, &mut oracle, &mut rng, now, id);
        }
        let mut media = ftl.power_off(now, 1);
        for _ in 0..1 + rng.below(6) {
            let block = BlockId(rng.below(u64::from(GEOMETRY.blocks())) as u32);
            media.damage(PageAddr {
                block,
                page: rng.below(8) as u32,
            });
        }
        if let Ok((mut ftl, ready)) = Ftl::mount(Nand::new(media, TIMING), CONFIG, Time(0)) {
            for id in 1000..1300 {
                let lpn = rng.below(600) as u32;
                ftl.write(ready, lpn, common::unit(512, lpn, id)).unwrap();
            }
        }
    }
}

/// Each erase waits only for what replaces the content of its own block, so dies do not wait for
/// each other's erases.
#[test]
fn random_lives_with_erases_that_wait_for_their_own_evidence_only() {
    let own = |config: Config| Config {
        housekeeping: Housekeeping {
            own_evidence: true,
            ..config.housekeeping
        },
        ..config
    };
    (0..8).for_each(|seed| lives(WIDE, own(WIDE_CONFIG), BURST, seed, 12));
    (0..4).for_each(|seed| lives(GEOMETRY, own(CONFIG), CALM, seed, 12));
    (0..8).for_each(|seed| lives(WIDE, own(with_area(WIDE_CONFIG, 8)), BURST, seed, 8));
}
