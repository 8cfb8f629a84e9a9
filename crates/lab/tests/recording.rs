//! The two recordings of real applications, if they are here: they are data of others, so they are not in the repository.
//!
//! `VARVE_TRACES` names their folder.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::PathBuf;
use varve_lab::recording::stats::{self, Stats};
use varve_lab::recording::{self, Reading, Recording};

/// A recording by name; `None`, and a word about it, without traces.
fn trace(name: &str) -> Option<(Recording, Reading, Stats)> {
    let Some(folder) = std::env::var_os("VARVE_TRACES") else {
        eprintln!("skipped: no traces (VARVE_TRACES is not set)");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    let (recording, reading) = recording::read_with(&path, true).expect("the recording reads");
    let stats = stats::of(&recording);
    Some((recording, reading, stats))
}

fn near(found: f64, wanted: f64, by: f64) {
    assert!((found - wanted).abs() <= by, "{found}, not {wanted}");
}

#[test]
fn facebook_is_as_its_table_says() {
    let Some((_, reading, stats)) = trace("mobibench-facebook.txt.gz") else {
        return;
    };
    eprintln!("{reading:#?}\n{stats:#?}");
    near(reading.seconds, 117.887, 0.001);
    assert_eq!(reading.threads, 74);
    assert_eq!((stats.syncs, stats.directory_syncs), (997, 316));
    let unlinks = stats.calls["unlink"];
    near(stats.pages_per_sync.mean, 2.42, 0.005);
    near(stats.bytes_per_sync.mean, 8892.0, 1.0);
    assert_eq!(stats.pages_per_sync.median, 3.0);
    near(stats.sync_gap_ms.median, 10.4, 0.05);
    assert_eq!(
        (stats.windows_active, stats.windows, stats.windows_max),
        (17, 24, 311)
    );
    assert_eq!(unlinks, 52, "two of 54 failed");
}

#[test]
fn twitter_is_as_its_table_says() {
    let Some((_, reading, stats)) = trace("mobibench-twitter.txt.gz") else {
        return;
    };
    eprintln!("{reading:#?}\n{stats:#?}");
    near(reading.seconds, 117.886, 0.001);
    assert_eq!(reading.threads, 127);
    assert_eq!((stats.syncs, stats.directory_syncs), (297, 77));
    near(stats.pages_per_sync.mean, 4.24, 0.005);
    near(stats.bytes_per_sync.mean, 16855.0, 1.0);
    assert_eq!((stats.windows_active, stats.windows_max), (24, 35));
    assert_eq!(stats.calls["unlink"], 13);
}
