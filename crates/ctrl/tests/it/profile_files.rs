//! Profiles of users: files that are written from a built-in profile and read again, and what is
//! said of wrong ones.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::PathBuf;
use varve_ctrl::Profile;

/// A file with this text in a folder of its own.
fn file(name: &str, text: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("varve-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("card.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn error(name: &str, text: &str, changes: &str) -> String {
    let path = file(name, text);
    let opened = Profile::open(&format!("{}{changes}", path.display()));
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let why = opened.unwrap_err().to_string();
    assert!(why.contains("card.toml"), "{why}");
    why
}

#[test]
fn a_profile_that_is_written_and_read_is_the_same() {
    let changed = [
        "emmc-odroid-xu4,card.cache_kib=4096,timing.fig8.write_us=90,card.pack_order=any-subset",
        "nvme-980pro,vwc=off,slc.on=false",
        "raw-mlc,nand.endurance=500",
    ];
    for device in Profile::names().chain(changed) {
        let text = Profile::text_of(device).unwrap();
        assert!(text.contains("# "), "the comments stay: {device}");
        let wanted = Profile::parse(device).unwrap();
        assert_eq!(Profile::from_toml(&text), Ok(wanted.clone()), "{device}");
        let path = file("same", &text);
        assert_eq!(Profile::open(path.to_str().unwrap()), Ok(wanted));
        let again = Profile::text_of(path.to_str().unwrap());
        assert_eq!(again.unwrap(), text, "{device}");
    }
}

#[test]
fn a_file_takes_changes_as_a_name_does() {
    let text = Profile::text_of("loop-like").unwrap();
    let path = file("changes", &text);
    let opened = Profile::open(&format!("{},fua=true", path.display())).unwrap();
    assert_eq!(opened, Profile::parse("loop-like,fua=true").unwrap());
    let why = error("changes", &text, ",colour=3");
    assert!(why.contains("unknown field `colour`"), "{why}");
}

/// The line on which `start` begins.
fn line(text: &str, start: &str) -> String {
    let at = text.lines().position(|l| l.starts_with(start)).unwrap();
    format!("line {}: ", at + 1)
}

#[test]
fn what_is_wrong_is_told_by_line_field_and_rule() {
    let good = Profile::text_of("emmc-odroid-xu4").unwrap();
    for (from, to, at, words) in [
        (
            "cache_kib = 512",
            "cache_kib = \"much\"",
            "cache_kib",
            "it must be a whole number from 0 to 4294967295",
        ),
        (
            "cache_kib = 512",
            "cache_kb = 512",
            "cache_kb",
            "unknown field `cache_kb`; there are",
        ),
        ("cache_kib = 512", "", "[card]", "missing field `cache_kib`"),
        ("cache_kib = 512", "cache_kib = ", "cache_kib", ""),
        (
            "native_sector = 512",
            "native_sector = 513",
            "native_sector",
            "card.native_sector",
        ),
        (
            "lanes = 4",
            "lanes = 257",
            "lanes",
            "ftl.lanes = 257; it may be 1 to 256",
        ),
        (
            "capacity_mib = 1024",
            "capacity_mib = 0",
            "capacity_mib",
            "1 MiB to",
        ),
        (
            "cpu_percent = 400",
            "cpu_percent = 0",
            "cpu_percent",
            "it may be 1 to 10000",
        ),
        (
            "kind = \"emmc\"",
            "kind = \"sd\"",
            "kind",
            "it may be plain, emmc, raw or nvme",
        ),
        (
            "default_timing = \"fig8\"",
            "default_timing = \"fig9\"",
            "default_timing",
            "it may be fig8, paper-fit",
        ),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        let why = error("wrong", &text, "");
        assert!(why.contains(&line(&text, at)), "{to}: {why}");
        assert!(why.contains(words), "{to}: {why}");
        assert!(!why.contains('\n'), "{why}");
    }
    assert!(error("kind", &good.replacen("kind = \"emmc\"", "", 1), "").contains("`kind`"));
}

#[test]
fn what_is_no_file_with_text_is_refused() {
    for (path, words) in [
        ("/nowhere/card.toml", "No such file"),
        ("/", "no regular file"),
        ("/dev/zero", "no regular file"),
    ] {
        let why = Profile::open(path).unwrap_err().to_string();
        assert!(why.contains(path) && why.contains(words), "{why}");
    }
    assert!(error("long", &"#".repeat((1 << 20) + 1), "").contains("a MiB at most"));
    // A saved device names its profile, and must not open files by it.
    assert!(
        Profile::parse("/dev/zero")
            .unwrap_err()
            .to_string()
            .contains("unknown")
    );
}
