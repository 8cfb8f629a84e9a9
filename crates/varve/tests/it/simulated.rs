//! `compare` and `crash` as functions.

use varve::Error;
use varve::simulated::{Experiment, compare, crash};

#[test]
fn equal_arguments_give_equal_runs() {
    let asked = Experiment::new("emmc-odroid-xu4", "sqlite:insert=5").bytes(256 << 20);
    let runs = compare(&asked, &["jbd2", "emmc"]).unwrap();
    assert_eq!((&*runs[0].scheme, &*runs[1].scheme), ("jbd2", "emmc"));
    assert!(runs[1].ops_per_s > runs[0].ops_per_s, "{runs:?}");
    let again = compare(&asked, &["jbd2", "emmc"]).unwrap();
    assert_eq!(format!("{again:?}"), format!("{runs:?}"));
}

#[test]
fn what_is_unknown_is_named_with_what_there_is() {
    let text = |device: &str, scheme: &str| {
        let asked = Experiment::new(device, "sqlite:insert=5").bytes(256 << 20);
        let e = compare(&asked, &[scheme]).unwrap_err();
        assert!(matches!(e, Error::Simulation(_)), "{e}");
        e.to_string()
    };
    assert!(text("emmc-odroid-xu4", "jdb2").contains("jbd2"));
    assert!(text("floppy", "jbd2").contains("emmc-odroid-xu4"));
}

fn cut(workload: &str) -> Experiment {
    Experiment::new("emmc-odroid-xu4", workload).seed(7)
}

#[test]
fn cuts_are_judged() {
    let found = crash(&cut("mix:tasks=2,ops=40"), "emmc", 4).unwrap();
    assert_eq!(found.cuts, 4);
    assert!(found.violations.is_empty(), "{found:?}");
}

/// The same writes with and without a sync: only those that no sync covers may be gone.
#[test]
fn the_operations_of_the_caller_are_what_is_cut() {
    // What is lost of a file is told where the file is there.
    let writes = "create /a; fsync /a; write /a 0+64k";
    let end = "pause 20ms; create /c";
    let synced = cut(&format!("script:{writes}; fsync /a; {end}"));
    let synced = crash(&synced, "jbd2", 12).unwrap();
    let not = crash(&cut(&format!("script:{writes}; {end}")), "jbd2", 12).unwrap();
    assert_eq!((synced.cuts, not.cuts), (12, 12));
    assert_eq!(synced.violations, [""; 0]);
    assert_eq!(not.violations, [""; 0]);
    assert!(synced.bytes_lost < not.bytes_lost, "{synced:?} {not:?}");
}

#[test]
fn a_workload_that_cannot_be_cut_is_told_with_the_reason() {
    let text = |workload: &str| crash(&cut(workload), "jbd2", 1).unwrap_err().to_string();
    let told = text("script:create /a; unlink /b");
    assert!(told.contains("column"), "{told}");
    let told = text("sqlite:insert=5");
    assert!(told.contains("cuts workloads on files"), "{told}");
    let told = text("sql:insert=5");
    assert!(told.contains("unknown workload"), "{told}");
}
