//! Every scheme on every device, cut anywhere: each must behave as the committed table
//! (`harness/cells.rs`) says.
//!
//! A test per column. In the long form (`--ignored`) each cell is judged in 10,000 states;
//! `VARVE_STATES` sets another number, `VARVE_CELL` runs that device alone. A violation names the
//! seed of its history: `VARVE_SEED` begins there.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "what was judged goes to stdout, its number may come from the environment; outside of simulations"
)]

use crate::harness::cells::{CELLS, COLUMNS, Cell, Column, Expect, REMAP_CELLS, REMAPPING, TABLE};
use crate::harness::odd::Odd;
use crate::harness::{Setup, Tally, explore};

/// States in each safe cell of the short form; a preset is judged in ten times as many.
const STATES: u64 = 500;
/// States until a cell that is not safe has shown it.
const STATES_DAMAGE: u64 = 3_000;

fn setup(column: &Column, cell: &Cell) -> Setup {
    let mut setup = Setup::of(column.scheme(), (cell.caps)());
    setup.workload.apart = cell.apart;
    setup
}

fn judge(column: &Column, cell: &Cell, expect: Expect, states: u64) -> Result<Tally, String> {
    let setup = setup(column, cell);
    let refused = setup.scheme.check(&setup.caps).err();
    let what = format!("{} on {}", column.name, cell.name);
    // Other histories in every cell.
    let first = number("VARVE_SEED")
        .unwrap_or(1 + base::collections::fingerprint(what.as_bytes()) % 1_000_000 * 10_000);
    match (expect, refused) {
        (Expect::Refused, Some(why)) if why.contains("full-first") => Ok(Tally::default()),
        (Expect::Refused, why) => Err(format!("{what}: not refused as it must be: {why:?}")),
        (_, Some(why)) => Err(format!("{what}: refused: {why}")),
        (Expect::Safe, None) => {
            let tally = explore(&setup, first, states, None, true);
            match tally.first() {
                None => Ok(tally),
                Some(found) => Err(format!("{what}: {found}")),
            }
        }
        (Expect::Damage(why), None) => {
            let tally = explore(&setup, first, STATES_DAMAGE, None, true);
            match tally.first() {
                Some(_) => Ok(tally),
                None => Err(format!("{what}: no violation, but expected: {why:?}")),
            }
        }
    }
}

fn column(name: &str, states: u64) {
    let at = COLUMNS
        .iter()
        .position(|c| c.name == name)
        .expect("a column");
    let column = &COLUMNS[at];
    let mut wrong = Vec::new();
    let (mut judged, mut distinct) = (0, 0);
    let only = std::env::var("VARVE_CELL").ok();
    for (cell, (row, expected)) in CELLS.iter().zip(TABLE) {
        if only.as_ref().is_some_and(|only| only != row) {
            continue;
        }
        assert_eq!(cell.name, *row, "the table has the rows of the matrix");
        match judge(column, cell, expected[at], states) {
            Ok(tally) => {
                judged += tally.states;
                distinct += tally.distinct.len();
                let found = tally.first().unwrap_or_default();
                println!("{name} on {row}: {} states {found}", tally.states);
            }
            Err(text) => wrong.push(text),
        }
    }
    println!("{name}: {judged} states judged, {distinct} different cuts");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A scheme that remaps, on every device that can.
fn remapping(name: &str, states: u64) {
    let column = REMAPPING.iter().find(|c| c.name == name).expect("a column");
    let only = std::env::var("VARVE_CELL").ok();
    let mut wrong = Vec::new();
    for cell in REMAP_CELLS {
        if only.as_ref().is_some_and(|only| only != cell.name) {
            continue;
        }
        let mut cell_setup = setup(column, cell);
        cell_setup.workload.discards = true;
        cell_setup.workload.zeros_one_in = 6;
        let first = number("VARVE_SEED").unwrap_or(
            1 + base::collections::fingerprint(format!("{name} {}", cell.name).as_bytes())
                % 1_000_000
                * 10_000,
        );
        let tally = explore(&cell_setup, first, states, None, true);
        println!("{name} on {}: {} states", cell.name, tally.states);
        wrong.extend(
            tally
                .first()
                .map(|found| format!("{name} on {}: {found}", cell.name)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

macro_rules! remapping {
    ($($test:ident $long:ident = $name:literal,)+) => {
        $(
            #[test]
            fn $test() {
                remapping($name, STATES);
            }
            #[test]
            #[ignore = "long"]
            fn $long() {
                remapping($name, long());
            }
        )+
        #[test]
        fn every_remapping_column_is_tested() {
            let names: Vec<&str> = REMAPPING.iter().map(|c| c.name).collect();
            assert_eq!(names, [$($name),+]);
        }
    };
}

remapping! {
    jftl jftl_long = "jftl",
    jftl_paper jftl_paper_long = "jftl-paper",
    flush_ahead_remap flush_ahead_remap_long = "flush-ahead, home=remap",
    flush_ahead_move flush_ahead_move_long = "flush-ahead, home=remap-move",
}

/// Devices that refuse REMAP, do home writes late, or let a log write of the life before land
/// during recovery (hazards-R10, hazards-R25, hazards-R24).
#[test]
fn remapping_on_odd_devices() {
    for odd in [Odd::RefusesRemaps, Odd::LateHomes, Odd::LateLog] {
        let cell = &REMAP_CELLS[0];
        let mut odd_setup = setup(&REMAPPING[0], cell);
        odd_setup.workload.odd = odd;
        if odd == Odd::LateLog {
            // Such a log cannot be recovered twice, nor without its checksums.
            odd_setup.workload.checksums = Some(true);
            odd_setup.workload.nested_one_in = u64::MAX;
            odd_setup.workload.lives = 1;
        }
        safe(&format!("jftl, {odd:?}"), &odd_setup, STATES);
    }
}

/// Logs that are moved, refused in part, or late.
#[test]
fn moving_on_odd_devices() {
    for odd in [Odd::RefusesRemaps, Odd::LateRemaps, Odd::LateHomes] {
        for (column, cell) in [(1, 0), (3, 1)] {
            let mut odd_setup = setup(&REMAPPING[column], &REMAP_CELLS[cell]);
            odd_setup.workload.odd = odd;
            odd_setup.workload.zeros_one_in = 4;
            odd_setup.workload.discards = true;
            let name = REMAPPING[column].name;
            safe(&format!("{name}, {odd:?}"), &odd_setup, turns());
        }
    }
}

/// Every life has another scheme, and another one recovers its log: a moved log is recovered by
/// those that copy, and one of deltas by those that remap.
#[test]
fn remapping_schemes_take_turns() {
    for cell in REMAP_CELLS {
        let mut setup = setup(&REMAPPING[0], cell);
        setup.workload.mixed = true;
        setup.workload.lives = 5;
        setup.workload.cuts = 16;
        setup.workload.zeros_one_in = 4;
        setup.workload.discards = true;
        safe(&format!("any scheme on {}", cell.name), &setup, turns());
    }
}

/// A moved log is recovered on a device without REMAP.
#[test]
fn moved_logs_are_recovered_on_other_devices() {
    for name in ["emmc", "no-fua"] {
        let mut setup = setup(&REMAPPING[1], &REMAP_CELLS[1]);
        setup.workload.moved = Some(cell(name).caps);
        setup.workload.nested_one_in = 1;
        setup.workload.zeros_one_in = 4;
        safe(&format!("jftl-paper log on {name}"), &setup, turns());
    }
}

fn turns() -> u64 {
    number("VARVE_STATES").unwrap_or(STATES / 2)
}

#[test]
fn remapping_is_refused_where_the_device_cannot() {
    for column in &REMAPPING {
        for cell in CELLS {
            let setup = setup(column, cell);
            let why = setup.scheme.check(&setup.caps).expect_err(cell.name);
            assert!(why.contains("REMAP") && why.contains("home=copy"), "{why}");
        }
    }
}

fn long() -> u64 {
    number("VARVE_STATES").unwrap_or(10_000)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

macro_rules! columns {
    ($($test:ident $long:ident = $name:literal,)+) => {
        $(
            #[test]
            fn $test() {
                column($name, STATES);
            }
            #[test]
            #[ignore = "long"]
            fn $long() {
                column($name, long());
            }
        )+
        #[test]
        fn every_column_is_tested() {
            let names: Vec<&str> = COLUMNS.iter().map(|c| c.name).collect();
            assert_eq!(names, [$($name),+]);
        }
    };
}

columns! {
    jbd2 jbd2_long = "jbd2",
    flush_ahead flush_ahead_long = "flush-ahead",
    coalition_paper coalition_paper_long = "coalition-paper",
    coalition coalition_long = "coalition",
    emmc emmc_long = "emmc",
    emmc_paper emmc_paper_long = "emmc-paper",
    adaptive adaptive_long = "adaptive",
    emmc_full_first emmc_full_first_long = "emmc, full-first=on",
    emmc_no_full_first emmc_no_full_first_long = "emmc, full-first=off",
    coalition_home_copy coalition_home_copy_long = "coalition, home=copy",
    emmc_commit_block emmc_commit_block_long = "emmc, commit-block=on",
}

fn safe(what: &str, setup: &Setup, states: u64) {
    let first = number("VARVE_SEED").unwrap_or(1);
    let tally = explore(setup, first, states, None, true);
    assert_eq!(tally.first(), None, "{what}");
    println!("{what}: {} states", tally.states);
}

/// The scheme changes from life to life, the log is the same.
#[test]
fn schemes_take_turns() {
    for name in ["emmc", "packs-prefix", "no-fua"] {
        let mut setup = setup(&COLUMNS[0], cell(name));
        setup.workload.mixed = true;
        setup.workload.lives = 5;
        setup.workload.cuts = 16;
        safe(&format!("any scheme on {name}"), &setup, STATES);
    }
}

/// A log of deltas, written where home writes are reliable, is recovered where they may be torn:
/// from a full image that recovery logs first, or not at all.
#[test]
fn logs_are_recovered_on_other_devices() {
    for name in ["no-fua", "atomic-4k", "cache-off", "sector-4k"] {
        let mut setup = setup(&COLUMNS[4], cell("emmc"));
        setup.workload.moved = Some(cell(name).caps);
        setup.workload.nested_one_in = 1;
        safe(&format!("emmc log on {name}"), &setup, 2 * STATES);
    }
}

fn cell(name: &str) -> &'static Cell {
    CELLS.iter().find(|c| c.name == name).expect("a cell")
}

/// A normal build holds no switch: the answer is a constant.
#[cfg(not(feature = "mutants"))]
#[test]
fn no_guard_can_be_switched_off() {
    const SWITCHED: bool = varve_rt_is_without_mutants();
    const { assert!(!SWITCHED && !rt::MUTANTS) }
}

/// Compiles only if `rt::mutant` is a `const fn`.
#[cfg(not(feature = "mutants"))]
const fn varve_rt_is_without_mutants() -> bool {
    rt::mutant(base::Mutant::SkipFlush)
}
