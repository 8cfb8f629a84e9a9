//! `nandsim-2007` against the time model of the paper's device: one die, one plane, no overlap, so
//! that time is a plain sum.
//!
//! | quantity, 4 KiB unit of 8 pages | microseconds | MB/s |
//! |---|---|---|
//! | write, no erase | 8 x (100 + 20) = 960 | 4.27 |
//! | write, steady state without copies | 960 + 2000 / 4 = 1460 | 2.81 |
//! | read | 8 x (25 + 25) = 400 | 10.24 |
//!
//! What the translation layer programs for itself (checkpoints, log) comes on top; it is counted,
//! printed and taken off.
// Results are printed; no task runs here that printing could hold up.
#![allow(clippy::disallowed_macros)]

use base::{Bytes, Lba, Time};
use blockdev::{Class, FlashStats, Model, Request};
use varve_ctrl::{AnyModel, Profile};

/// Microseconds of a page program, a page read and an erase.
const PROGRAM: f64 = 120.0;
const READ: f64 = 50.0;
const ERASE: f64 = 2000.0;
/// Units of the device: a quarter of the profile's, to be quick.
const UNITS: u64 = 8192;

fn device() -> AnyModel {
    let profile = Profile::builtin("nandsim-2007").unwrap();
    profile.build(Some(UNITS * 4096), None).unwrap()
}

fn unit(n: u64) -> Bytes {
    let mut b = vec![0xA5; 4096];
    b[..8].copy_from_slice(&n.to_le_bytes());
    b.into()
}

/// Writes units one by one from `from` on; answers the time in microseconds and what the chips did.
fn write(m: &mut AnyModel, now: &mut Time, units: std::ops::Range<u64>) -> (f64, FlashStats) {
    let (start, before) = (*now, m.flash_stats().unwrap());
    for n in units {
        let done = m.execute(*now, Request::write(Lba(n * 8), Class::Data, unit(n)));
        done.result.unwrap();
        *now = done.at;
    }
    let after = m.flash_stats().unwrap();
    let took = (*now - start).0 as f64 / 1000.0;
    let did = FlashStats {
        reads: after.reads - before.reads,
        programs: after.programs - before.programs,
        erases: after.erases - before.erases,
        gc_copies: after.gc_copies - before.gc_copies,
        map_programs: after.map_programs - before.map_programs,
        ..FlashStats::default()
    };
    (took, did)
}

#[test]
fn time_is_the_sum_of_the_operations() {
    let mut m = device();
    let mut now = Time(0);
    let (took, did) = write(&mut m, &mut now, 0..2048);
    let sum = did.programs as f64 * PROGRAM + did.erases as f64 * ERASE + did.reads as f64 * READ;
    println!("2048 units: {took} us, {did:?}, sum {sum} us");
    // The last page of a log or of a table is not full, and what is not there does not cross the
    // bus.
    let short = did.map_programs as f64 * 20.0;
    assert!(took <= sum && took >= sum - short && short / sum < 0.01);
    assert_eq!(did.programs, 2048 * 8 + did.map_programs);
    assert_eq!((did.reads, did.gc_copies), (0, 0));
}

#[test]
fn a_sequential_read_is_the_sum_of_the_page_reads() {
    let mut m = device();
    let mut now = Time(0);
    write(&mut m, &mut now, 0..256);
    let start = now;
    for n in 0..256 {
        now = m.execute(now, Request::read(Lba(n * 8), 8)).at;
    }
    assert_eq!((now - start).0, 256 * 400_000);
}

/// Microseconds for a unit, what the layer does for itself taken off.
fn per_unit(took: f64, did: &FlashStats, erases: f64, units: u64) -> f64 {
    let own = did.map_programs as f64 * PROGRAM + (did.erases as f64 - erases) * ERASE;
    println!(
        "{units} units: {:.1} us a unit in all; {} map programs and {} erases of their blocks are {:.1} us of it",
        took / units as f64,
        did.map_programs,
        did.erases as f64 - erases,
        own / units as f64
    );
    (took - own) / units as f64
}

fn within_one_percent(us: f64, expected: f64) {
    let mb = 4096.0 / us;
    println!("{us:.1} us a unit, {mb:.2} MB/s; expected {expected} us");
    assert!((us / expected - 1.0).abs() < 0.01);
}

#[test]
fn a_fresh_device_writes_a_unit_in_960_us() {
    let mut m = device();
    let (took, did) = write(&mut m, &mut Time(0), 0..4096);
    within_one_percent(per_unit(took, &did, 0.0, 4096), 960.0);
}

#[test]
fn in_the_steady_state_without_copies_it_takes_1460_us() {
    let mut m = device();
    let mut now = Time(0);
    write(&mut m, &mut now, 0..UNITS);
    let (took, did) = write(&mut m, &mut now, 0..4096);
    assert_eq!(did.gc_copies, 0);
    within_one_percent(per_unit(took, &did, 1024.0, 4096), 1460.0);
}
