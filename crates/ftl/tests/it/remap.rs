//! REMAP: what the units hold, at once and after cuts at every operation of the chips; random lives
//! against a model.
// Whether to run the long form is read from the environment.
#![allow(clippy::disallowed_methods)]

use crate::common;
use base::{Rng, Time};
use common::remapping::{Rig, SPLIT, SPLIT_CONFIG, TINY, TINY_CONFIG};
use common::{CONFIG, GEOMETRY, with_area};
use varve_ftl::Config;
use varve_ftl::nand::{BlockId, Geometry};
use varve_ftl::remap::{Batch, Mode, Pair, RemapError};

/// Operations of the chips that a program may take.
const OPERATIONS: usize = 60;

/// Random programs of at most [`OPERATIONS`] operations, with cuts everywhere.
fn programs(geometry: Geometry, config: Config, cap: u32, seeds: std::ops::Range<u64>) -> u64 {
    let mut cuts = 0;
    for seed in seeds {
        let rng = &mut Rng::named(seed, "program");
        let mut rig = Rig::new(geometry, config).filled().cap(cap);
        // Collection is close when a program starts, so that it is part of most programs.
        for _ in 0..rng.below(200) {
            rig.step(rng);
            rig.ftl.check();
            rig.model.check_now(&rig.ftl).unwrap();
        }
        rig.flush();
        rig.settle();
        rig.ftl.keep_operations(true);
        let mut all = Vec::new();
        while all.len() < OPERATIONS {
            rig.step(rng);
            rig.ftl.check();
            rig.model.check_now(&rig.ftl).unwrap();
            all.extend(rig.ftl.take_operations());
        }
        all.truncate(OPERATIONS);
        cuts += rig.cut_everywhere(&all, 1000 * seed).unwrap();
    }
    cuts
}

#[test]
fn every_moment_of_programs_with_several_units_in_a_page() {
    let cuts = programs(TINY, TINY_CONFIG, 18, 0..6);
    assert!(cuts > 1800, "only {cuts} cuts");
}

#[test]
fn every_moment_of_programs_with_several_pages_in_a_unit() {
    let cuts = programs(SPLIT, SPLIT_CONFIG, 1000, 100..105);
    assert!(cuts > 1800, "only {cuts} cuts");
}

#[test]
fn every_moment_of_programs_with_room_for_few_aliases() {
    let cuts = programs(TINY, TINY_CONFIG, 3, 200..205);
    assert!(cuts > 1800, "only {cuts} cuts");
}

/// Uses, cuts and recovers one device again and again.
fn lives(geometry: Geometry, config: Config, seed: u64, steps: u64, cuts: u64) -> Rig {
    lives_of(geometry, config, seed, steps, cuts, 0)
}

/// As `lives`, with a block that fails its next program in one of `failures` steps; 0: none.
fn lives_of(
    geometry: Geometry,
    config: Config,
    seed: u64,
    steps: u64,
    cuts: u64,
    failures: u64,
) -> Rig {
    let rng = &mut Rng::named(seed, "lives");
    let mut rig = Rig::new(geometry, config);
    rig.ftl
        .set_alias_cap(if seed.is_multiple_of(2) { 6 } else { 40 });
    for life in 0..cuts {
        for _ in 0..rng.below(2 * steps / cuts) {
            rig.ftl.advance(rig.now);
            if failures > 0 && rng.one_in(failures) {
                let block = BlockId(rng.below(u64::from(geometry.blocks())) as u32);
                rig.ftl.nand_mut().fail_next_program(block);
            }
            rig.step(rng);
        }
        rig.ftl.check();
        rig.model
            .check_now(&rig.ftl)
            .unwrap_or_else(|e| panic!("seed {seed}, life {life}: {e}"));
        let at = Time(rig.now.0 + rng.below(2_000_000));
        let nested = rng.below(3);
        rig = rig
            .cut(at, rng, nested)
            .unwrap_or_else(|e| panic!("seed {seed}, life {life}, cut at {at}: {e}"));
    }
    rig
}

/// Tier 2, with `VARVE_FTL_CUTS` = number of cuts (10,000 with 100 operations each): one device
/// after the other, in all layouts.
#[test]
fn long_lives() {
    let Some(cuts) = std::env::var("VARVE_FTL_CUTS").ok() else {
        return;
    };
    let cuts: u64 = cuts.parse().expect("VARVE_FTL_CUTS is a number");
    for seed in 0..cuts / 100 {
        match seed % 3 {
            0 => lives(TINY, TINY_CONFIG, 1000 + seed, 10_000, 100),
            1 => lives(SPLIT, SPLIT_CONFIG, 1000 + seed, 10_000, 100),
            _ => lives(GEOMETRY, CONFIG, 1000 + seed, 10_000, 100),
        };
    }
}

#[test]
fn random_lives_with_failing_blocks() {
    let roomy = |g: Geometry| Geometry {
        blocks_per_plane: 80,
        ..g
    };
    for seed in 0..20 {
        lives_of(roomy(TINY), TINY_CONFIG, 300 + seed, 600, 8, 12);
        lives_of(roomy(SPLIT), SPLIT_CONFIG, 350 + seed, 600, 8, 12);
    }
}

#[test]
fn random_lives_with_an_slc_area() {
    let roomy = Geometry {
        blocks_per_plane: TINY.blocks_per_plane + 3,
        ..TINY
    };
    for seed in 0..20 {
        lives(roomy, with_area(TINY_CONFIG, 4), 400 + seed, 800, 10);
    }
}

#[test]
fn random_lives() {
    for seed in 0..20 {
        lives(TINY, TINY_CONFIG, seed, 1500, 20);
        lives(SPLIT, SPLIT_CONFIG, 50 + seed, 1000, 12);
    }
}

#[test]
fn a_batch_sent_again_needs_no_room_and_no_copy() {
    let mut rig = Rig::new(TINY, TINY_CONFIG).filled().cap(2);
    let pairs: Vec<Pair> = (0..2)
        .map(|i| Pair {
            home: i,
            src: i + 4,
            len: 1,
            expect: None,
        })
        .collect();
    let batch = Batch {
        pairs: &pairs,
        mode: Mode::Share,
        require_all: true,
    };
    for _ in 0..3 {
        let done = rig.ftl.remap(Time(0), batch).expect("room for two");
        assert_eq!((done.aliased, done.copied, rig.ftl.aliases()), (2, 0, 2));
        rig.ftl.check();
    }
    let third = [Pair {
        home: 2,
        src: 6,
        len: 1,
        expect: None,
    }];
    let one_more = Batch {
        pairs: &third,
        ..batch
    };
    let e = rig
        .ftl
        .remap(Time(0), one_more)
        .expect_err("the cap is two");
    assert!(matches!(e, RemapError::WouldCopy { units: 1 }), "{e}");
}
