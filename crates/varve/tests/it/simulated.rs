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

#[test]
fn cuts_are_judged() {
    let found = crash("emmc-odroid-xu4", "emmc", 7, 4).unwrap();
    assert_eq!(found.cuts, 4);
    assert!(found.violations.is_empty(), "{found:?}");
}
