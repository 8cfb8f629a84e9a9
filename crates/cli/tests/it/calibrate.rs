//! `varve device calibrate` as a user runs it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{varve, words};
use std::fs;
use std::path::Path;
use std::process::Output;
use tempfile::{TempDir, tempdir_in};

/// A folder that is not in memory, where there is one.
fn folder() -> TempDir {
    tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn calibrate(args: &[&str]) -> Output {
    varve(&[&["device", "calibrate"], args].concat())
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().into()
}

/// Measured so briefly, on a machine that others use, a profile may miss; then that is told.
fn measured(out: &Output) {
    let missed = words(out).contains("does not describe this device");
    assert_eq!(out.status.success(), !missed, "{}", words(out));
}

/// Reads that are faster the more they read fit no model.
#[test]
fn a_profile_that_misses_is_written_and_not_recommended() {
    let dir = folder();
    let percentiles = |us: f64| {
        let at = |p: u32, f: f64| (format!("{p}.000000"), serde_json::json!(us * f * 1000.0));
        serde_json::Value::Object(
            [at(10, 0.99), at(50, 1.0), at(90, 1.01)]
                .into_iter()
                .collect(),
        )
    };
    let job = |name: &str, size: &str, us: f64| {
        let of = |us: f64| serde_json::json!({ "total_ios": 900, "iops": 1e6 / us, "clat_ns": { "percentile": percentiles(us) } });
        serde_json::json!({
            "jobname": name, "error": 0, "job options": { "rw": "randread", "bs": size }, "read": of(us), "write": of(us),
            "sync": { "total_ios": 0, "lat_ns": { "percentile": percentiles(us) } },
        })
    };
    let jobs = [
        job("a", "4k", 90_000.0),
        job("b", "64k", 100.0),
        job("c", "128k", 3.0),
        job("d", "16k", 5000.0),
        job("e", "256k", 50_000.0),
    ];
    let all = serde_json::json!({ "fio version": "fio-3.39", "global options": { "direct": "1", "ioengine": "psync" }, "jobs": jobs });
    let (fio, card) = (
        text(&dir.path().join("fio.json")),
        text(&dir.path().join("card.toml")),
    );
    fs::write(&fio, all.to_string()).unwrap();
    let out = calibrate(&["--fio", &fio, "-o", &card]);
    let said = words(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(
        said.contains("does not describe") && !said.contains("Compare the schemes"),
        "{said}"
    );
    assert!(Path::new(&card).is_file());
}

#[test]
fn a_folder_is_measured_and_left_as_it_was() {
    let dir = folder();
    let (card, place) = (
        text(&dir.path().join("card.toml")),
        dir.path().join("place"),
    );
    fs::create_dir(&place).unwrap();
    let out = calibrate(&[
        &text(&place),
        "--size",
        "16",
        "--seconds",
        "0.01",
        "-o",
        &card,
    ]);
    measured(&out);
    assert!(
        words(&out).contains("What cannot be seen from outside"),
        "{}",
        words(&out)
    );
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    let shown = varve(&["device", "show", &card]);
    assert!(
        words(&shown).contains("timing measured (default)"),
        "{}",
        words(&shown)
    );
    // The profile is there: it is not replaced by chance.
    let again = calibrate(&[&text(&place), "-o", &card]);
    assert_eq!(again.status.code(), Some(2), "{}", words(&again));
    assert!(words(&again).contains("--force"), "{}", words(&again));
}

#[test]
fn content_is_lost_only_with_the_word_for_it() {
    let dir = folder();
    let (card, file) = (
        text(&dir.path().join("card.toml")),
        dir.path().join("photos"),
    );
    let content = vec![7; 17 << 20];
    fs::write(&file, &content).unwrap();
    let out = calibrate(&[&text(&file), "--size", "16", "-o", &card]);
    assert_eq!(out.status.code(), Some(2), "{}", words(&out));
    assert!(
        words(&out).contains("--write") && words(&out).contains("photos"),
        "{}",
        words(&out)
    );
    assert!(fs::read(&file).unwrap() == content, "the file was changed");
    let out = calibrate(&[
        &text(&file),
        "--size",
        "16",
        "--write",
        "--seconds",
        "0.01",
        "-o",
        &card,
    ]);
    measured(&out);
    let after = fs::read(&file).unwrap();
    assert!(
        after.len() == content.len() && after[16 << 20..] == content[16 << 20..],
        "beyond --size"
    );
    assert!(after[..16 << 20] != content[..16 << 20]);
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_done() {
    let dir = folder();
    let at = |name: &str| text(&dir.path().join(name));
    fs::write(dir.path().join("short"), "x").unwrap();
    fs::write(dir.path().join("no.json"), "WRITE: bw=1MiB/s").unwrap();
    fs::write(dir.path().join("csd"), "00ff").unwrap();
    let refused = [
        (vec![at("nothing")], 2, "name a folder"),
        (vec![at("short"), "--write".into()], 1, "too short"),
        (
            vec![at(""), "--size".into(), "1".into()],
            2,
            "at least 16 MiB",
        ),
        (
            vec![at(""), "--like".into(), "floppy".into()],
            2,
            "unknown device profile `floppy`",
        ),
        (
            vec!["--fio".into(), at("no.json")],
            2,
            "--output-format=json",
        ),
        (vec!["--fio".into(), at("missing.json")], 2, "missing.json"),
        (vec!["/dev/shm".into()], 2, "in memory"),
        (vec![], 2, "<PATH>"),
    ];
    for (args, code, why) in refused {
        let card = at("card.toml");
        let args: Vec<&str> = args
            .iter()
            .map(String::as_str)
            .chain(["-o", &card])
            .collect();
        let out = calibrate(&args);
        assert_eq!(out.status.code(), Some(code), "{args:?}: {}", words(&out));
        assert!(words(&out).contains(why), "{args:?}: {}", words(&out));
        assert!(!Path::new(&card).exists(), "{args:?}");
    }
}

#[test]
fn the_job_file_is_printed() {
    let out = calibrate(&["--fio-job"]);
    assert!(
        out.status.success() && words(&out).contains("[durable-4k]"),
        "{}",
        words(&out)
    );
}
