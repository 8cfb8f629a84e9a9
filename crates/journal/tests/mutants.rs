//! The catalogue of `cargo xtask mutants` for the journal: each guard, removed, is noticed within
//! 200 cuts, and the code with its guards passes the same cuts. docs/design/testing.md says what a
//! line means.

mod directed;
#[path = "it/harness/mod.rs"]
mod harness;

use base::Mutant;
use directed::{stale, twice};
use harness::cells::{self, CELLS, REMAP_CELLS};
use harness::odd::Odd;
use harness::{Setup, Tally, Workload, explore};
use varve_journal::{Home, Preset};

/// States within which a mutant has to be noticed.
const STATES: u64 = 200;
const FIRST: u64 = 1_000_000;

/// Proves what the catalogue says of `mutant`, and says it.
fn noticed(mutant: Mutant, workload: &str, setup: Setup) {
    noticed_from(FIRST, mutant, workload, setup);
}

/// As [`noticed`], from another first state: one from which about every second run of [`STATES`]
/// states meets what the guard is for.
fn noticed_from(first: u64, mutant: Mutant, workload: &str, setup: Setup) {
    let clean = explore(&setup, first, STATES, None, false);
    assert_eq!(clean.first(), None, "the code with its guard");
    let broken = explore(&setup, first, STATES, Some(mutant), true);
    report(mutant, workload, &broken, clean.states);
}

fn report(mutant: Mutant, workload: &str, broken: &Tally, clean: u64) {
    let reached = broken.reached.get(&mutant).copied().unwrap_or(0);
    assert!(reached > 0, "{mutant}: no one asked for its guard");
    let found = broken.first();
    let found = found.unwrap_or_else(|| panic!("{mutant}: not noticed, reached {reached} times"));
    let (_, violation) = &broken.violations[0];
    let property = violation.property;
    let after = broken.first_after;
    println!("{mutant}: {found}");
    println!("mutant|{mutant}|{workload}|{reached}|{property}|{after}|{clean}");
}

/// Few cuts of each life, so that 200 states come from many of them.
fn many(setup: Setup) -> Setup {
    let workload = Workload {
        cuts: 5,
        nested_one_in: 8,
        ..setup.workload
    };
    Setup { workload, ..setup }
}

fn on(preset: Preset, cell: &str) -> Setup {
    let mut cells = CELLS.iter().chain(REMAP_CELLS);
    let found = cells.find(|c| c.name == cell).expect("a cell");
    many(Setup::of(
        preset.scheme().expect("journaled"),
        (found.caps)(),
    ))
}

fn with(mut setup: Setup, change: impl FnOnce(&mut Workload)) -> Setup {
    change(&mut setup.workload);
    setup
}

/// hazards-H1.
#[test]
fn normal_home_write() {
    let setup = with(on(Preset::Emmc, "emmc"), |w| w.small = true);
    noticed(Mutant::NormalHomeWrite, "emmc on emmc", setup);
}

/// hazards-H2.
#[test]
fn refile_deltas() {
    let setup = with(on(Preset::Emmc, "emmc"), |w| {
        w.small = true;
        // Home writes for lack of log space only: the oldest, not all.
        w.checkpoints = false;
        w.log_blocks = (16, 20);
        w.operations = (20, 40);
    });
    noticed(Mutant::RefileDeltas, "emmc on emmc, tiny ring", setup);
}

/// hazards-H2.
#[test]
fn tail_unflushed() {
    let setup = with(on(Preset::Jbd2, "emmc"), |w| w.log_blocks = (16, 20));
    noticed(Mutant::TailUnflushed, "jbd2 on emmc", setup);
}

/// hazards-H2.
#[test]
fn tail_early() {
    let setup = with(on(Preset::Jbd2, "emmc"), |w| w.log_blocks = (16, 20));
    noticed(Mutant::TailEarly, "jbd2 on emmc", setup);
}

/// hazards-H3.
#[test]
fn base_always_valid() {
    noticed(
        Mutant::BaseAlwaysValid,
        "emmc on emmc",
        on(Preset::Emmc, "emmc"),
    );
}

/// hazards-H4.
#[test]
fn untracked_store() {
    let setup = with(on(Preset::Emmc, "emmc"), |w| w.small = true);
    noticed(Mutant::UntrackedStore, "emmc on emmc", setup);
}

/// hazards-H5.
#[test]
fn home_current() {
    noticed(
        Mutant::HomeCurrent,
        "jbd2 on emmc",
        on(Preset::Jbd2, "emmc"),
    );
}

/// hazards-H6.
#[test]
fn no_revoke() {
    let setup = with(on(Preset::Jbd2, "emmc"), |w| {
        w.churn = true;
        w.checkpoints = false;
    });
    noticed(Mutant::NoRevoke, "jbd2 on emmc, churn", setup);
}

/// hazards-H6.
#[test]
fn keep_freed_pending() {
    let setup = with(on(Preset::Jbd2, "emmc"), |w| w.churn = true);
    noticed(Mutant::KeepFreedPending, "jbd2 on emmc, churn", setup);
}

/// hazards-H7: the torn first transaction of a life leaves its coalition block behind; the first
/// one of the next life, at the same place of the ring, logs the same full image.
#[test]
fn reuse_tid() {
    let clean = stale::explore(FIRST, STATES, None);
    assert_eq!(clean.first(), None, "the code with its guard");
    let broken = stale::explore(FIRST, STATES, Some(Mutant::ReuseTid));
    let workload = "emmc on granule-4k, two lives";
    report(Mutant::ReuseTid, workload, &broken, clean.states);
}

/// hazards-H8.
#[test]
fn pack_twice() {
    let clean = twice::explore(FIRST, STATES, None);
    assert_eq!(clean.first(), None, "the code with its guard");
    let broken = twice::explore(FIRST, STATES, Some(Mutant::PackTwice));
    let workload = "ordered plug on packs-prefix";
    report(Mutant::PackTwice, workload, &broken, clean.states);
}

/// hazards-H10: every image poses as a control block of a transaction nearby, on the smallest ring.
#[test]
fn no_escape() {
    let setup = with(on(Preset::Jbd2, "emmc"), |w| {
        w.pose_one_in = 1;
        w.checksums = Some(false);
        w.tasks = 1;
        w.log_blocks = (16, 17);
        w.operations = (20, 40);
    });
    noticed(Mutant::NoEscape, "jbd2 on emmc, posing images", setup);
}

/// hazards-H11.
#[test]
fn clean_before_home() {
    let setup = with(on(Preset::Jbd2, "emmc"), |w| w.nested_one_in = 1);
    noticed(Mutant::CleanBeforeHome, "jbd2 on emmc, nested cuts", setup);
}

/// hazards-H12.
#[test]
fn unreadable_is_zero() {
    let setup = with(on(Preset::Emmc, "emmc"), |w| w.unreadable_one_in = 3);
    noticed(Mutant::UnreadableIsZero, "emmc on emmc, bad sectors", setup);
}

/// hazards-H13: ordinary home writes on a device that tears them.
#[test]
fn no_full_first() {
    let mut scheme = Preset::Coalition.scheme().expect("journaled");
    scheme.home = Home::Copy;
    let setup = with(many(Setup::of(scheme, cells::emmc())), |w| {
        w.small = true;
        w.log_blocks = (16, 20);
    });
    noticed(Mutant::NoFullFirst, "coalition, home=copy on emmc", setup);
}

/// hazards-H14.
#[test]
fn no_coalition_checksum() {
    noticed(
        Mutant::NoCoalitionChecksum,
        "emmc on emmc",
        on(Preset::Emmc, "emmc"),
    );
}

/// hazards-H15.
#[test]
fn no_wrap() {
    let setup = with(on(Preset::Emmc, "emmc"), |w| w.log_blocks = (16, 18));
    noticed(Mutant::NoWrap, "emmc on emmc, tiny ring", setup);
}

/// hazards-H16.
#[test]
fn flush_before_data() {
    noticed(
        Mutant::FlushBeforeData,
        "emmc on emmc",
        on(Preset::Emmc, "emmc"),
    );
}

/// hazards-H19.
#[test]
fn skip_flush() {
    noticed(Mutant::SkipFlush, "jbd2 on emmc", on(Preset::Jbd2, "emmc"));
}

/// hazards-H20.
#[test]
fn pack_any_subset() {
    let setup = on(Preset::FlushAhead, "packs-any");
    noticed(Mutant::PackAnySubset, "flush-ahead on packs-any", setup);
}

/// hazards-H21.
#[test]
fn drop_finishes() {
    let setup = with(on(Preset::Jbd2, "emmc"), |w| w.drop_one_in = 6);
    noticed(Mutant::DropFinishes, "jbd2 on emmc, dropped handles", setup);
}

/// hazards-H24.
#[test]
fn data_beside_record() {
    // Without checkpoints all 12 runs of 200 states that were tried notice it, with them 10.
    let setup = with(on(Preset::Adaptive, "emmc"), |w| w.checkpoints = false);
    let workload = "adaptive on emmc, no checkpoints";
    noticed(Mutant::DataBesideRecord, workload, setup);
}

/// hazards-R1: on a log without checksums, which could tell zeros from images.
#[test]
fn remap_move_unmarked() {
    let setup = with(on(Preset::JftlPaper, "remap"), |w| {
        w.checksums = Some(false)
    });
    let workload = "jftl-paper on remap, no checksums";
    noticed(Mutant::RemapMoveUnmarked, workload, setup);
}

/// hazards-R1.
#[test]
fn remap_zeros_unmarked() {
    let setup = with(on(Preset::JftlPaper, "remap"), |w| {
        w.zeros_one_in = 2;
        w.checksums = Some(false);
    });
    let workload = "jftl-paper on remap, images of zeros";
    noticed(Mutant::RemapZerosUnmarked, workload, setup);
}

/// hazards-R9: every image begins with the magic number.
#[test]
fn remap_escaped() {
    let setup = with(on(Preset::Jftl, "remap"), |w| w.pose_one_in = 1);
    noticed(Mutant::RemapEscaped, "jftl on remap, posing images", setup);
}

/// hazards-R10: escaped images are copied, and the copy is late.
#[test]
fn remap_in_flight() {
    let setup = with(on(Preset::Jftl, "remap"), |w| {
        w.odd = Odd::LateHomes;
        w.pose_one_in = 2;
        w.log_blocks = (16, 20);
        w.operations = (20, 40);
    });
    let workload = "jftl on remap, late home writes";
    noticed_from(2_800_000, Mutant::RemapInFlight, workload, setup);
}

/// hazards-R25.
#[test]
fn remap_stale_source() {
    let setup = with(on(Preset::Jftl, "remap"), |w| {
        w.log_blocks = (16, 17);
        w.operations = (20, 40);
    });
    noticed(Mutant::RemapStaleSource, "jftl on remap, tiny ring", setup);
}

/// hazards-R25, in recovery.
#[test]
fn remap_unexpected() {
    let setup = with(on(Preset::Jftl, "remap"), |w| {
        w.odd = Odd::LateLog;
        w.checksums = Some(true);
        w.nested_one_in = u64::MAX;
        w.lives = 1;
    });
    let workload = "jftl on remap, a log write lands in recovery";
    noticed(Mutant::RemapUnexpected, workload, setup);
}

/// hazards-R12.
#[test]
fn remap_freed() {
    let setup = with(on(Preset::Jftl, "remap"), |w| w.churn = true);
    noticed(Mutant::RemapFreed, "jftl on remap, churn", setup);
}

/// hazards-R12, in recovery.
#[test]
fn remap_revoked() {
    let setup = with(on(Preset::Jftl, "remap"), |w| {
        w.churn = true;
        w.checkpoints = false;
    });
    noticed(Mutant::RemapRevoked, "jftl on remap, churn", setup);
}

/// hazards-R13.
#[test]
fn clean_redirtied() {
    noticed(
        Mutant::CleanRedirtied,
        "jftl on remap",
        on(Preset::Jftl, "remap"),
    );
}

/// hazards-R24.
#[test]
fn remap_error_clean() {
    let setup = with(on(Preset::Jftl, "remap"), |w| w.odd = Odd::RefusesRemaps);
    let workload = "jftl on remap, one in three is refused";
    noticed(Mutant::RemapErrorClean, workload, setup);
}
