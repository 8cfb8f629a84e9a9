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
    assert!(out.status.success(), "{}", words(&out));
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
    assert!(out.status.success(), "{}", words(&out));
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
