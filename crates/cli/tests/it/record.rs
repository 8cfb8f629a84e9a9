//! `varve record` as a user runs it: strace of Debian makes the recording, so these need it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{command, varve_in, words};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// A shell that appends to a log in a child, replaces a file, and makes and renames a folder.
const SCRIPT: &str = "echo one >> log; (echo two >> log); echo new > f.tmp; mv f.tmp f; sync f; \
                      mkdir d; echo x > d/x; mv d e; rm -r e; echo said; exit 7";

#[test]
fn names_in_a_recording_cannot_drive_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let lines = [
        r#"1 1.000000 openat(AT_FDCWD, "/a/q\33[31mx\nforged", O_WRONLY|O_CREAT, 0644) = 3</a/q> <0.000010>"#,
        r#"1 1.000100 pwrite64(3</a/q>, ""..., 4096, 0) = 4096 <0.000010>"#,
        r#"1 1.000200 fsync(3</a/q>) = 0 <0.000010>"#,
    ];
    fs::write(dir.path().join("evil.strace"), lines.join("\n") + "\n").unwrap();
    let args = [
        "replay",
        "evil.strace",
        "--by",
        "file",
        "--schemes",
        "jbd2",
        "--size",
        "64",
    ];
    let out = varve_in(dir.path()).args(args).output().unwrap();
    let said = words(&out);
    assert!(out.status.success(), "{said}");
    assert!(
        said.contains("\\u{1b}[31mx\\nforged") || said.contains("\\x1b[31mx\\nforged"),
        "{said}"
    );
    assert!(!said.contains('\u{1b}'), "{said}");
}

#[test]
fn a_command_is_recorded_and_replayed_on_each_scheme() {
    let dir = tempfile::tempdir().unwrap();
    let mut record = varve_in(dir.path());
    let out = record
        .args(["record", "-o", "r.strace", "--", "sh", "-c", SCRIPT])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(7), "{}", words(&out));
    assert_eq!(out.stdout, b"said\n", "standard output is the command's");
    assert!(
        words(&out).contains("varve replay r.strace"),
        "{}",
        words(&out)
    );
    let text = fs::read_to_string(dir.path().join("r.strace")).unwrap();
    assert!(!text.contains("two"), "no content is kept");
    let replay = |args: &[&str]| {
        let out = varve_in(dir.path())
            .args(["replay", "r.strace", "--strict"])
            .args(args)
            .output();
        let out = out.unwrap();
        assert!(out.status.success(), "{}", words(&out));
        words(&out)
    };
    let stats = replay(&["--stats", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    let calls = &stats["stats"]["calls"];
    for (kind, count) in [
        ("write", 4),
        ("fsync", 1),
        ("rename", 2),
        ("mkdir", 1),
        ("rmdir", 1),
    ] {
        assert_eq!(calls[kind], count, "{kind}: {calls}");
    }
    let rules = stats["reading"]["rules"].as_object().unwrap();
    assert!(
        !rules.keys().any(|rule| rule.starts_with("strace-S9")),
        "{rules:?}"
    );
    let said = replay(&["--schemes", "jbd2,emmc", "--size", "64", "--pace", "none"]);
    assert!(said.contains("names and sizes as recorded"), "{said}");
}

#[test]
fn a_file_that_is_there_and_a_command_that_is_not_are_told() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kept"), "mine").unwrap();
    let record = |args: &[&str]| {
        let out = varve_in(dir.path())
            .arg("record")
            .args(args)
            .output()
            .unwrap();
        (out.status.code(), words(&out))
    };
    let (code, said) = record(&["-o", "kept", "--", "true"]);
    assert!(code == Some(2) && said.contains("--force"), "{said}");
    assert_eq!(fs::read(dir.path().join("kept")).unwrap(), b"mine");
    let (code, said) = record(&["-o", "r", "--", "./missing"]);
    assert!(
        code == Some(1) && said.contains("nothing was recorded"),
        "{said}"
    );
    assert!(!dir.path().join("r").exists());
    let (code, said) = record(&["-o", "no/r", "--", "true"]);
    assert!(
        code == Some(1) && said.contains("no/r cannot be made"),
        "{said}"
    );
}

#[test]
fn a_signal_is_handed_on_and_the_recording_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("r");
    let mut record = command();
    record
        .current_dir(&dir)
        .args(["record", "-o", "r", "--", "sh", "-c"]);
    record
        .arg("echo a > a; exec sleep 60")
        .stderr(Stdio::null());
    let mut child = record.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !fs::read_to_string(&file).is_ok_and(|text| text.contains("sleep")) {
        assert!(Instant::now() < until, "the command begins");
        thread::sleep(Duration::from_millis(20));
    }
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(128 + 15));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("killed by SIGTERM"), "strace ended by itself");
}

/// `cp` of coreutils copies within the kernel. The file's name is one that a shell takes apart.
#[test]
fn a_copy_and_a_sync_of_all_are_replayed_by_the_line_that_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("from"), vec![7; 30_000]).unwrap();
    let name = "it's \"my\" card.strace";
    let script = "cp from to; sync";
    let out = varve_in(dir.path())
        .args(["record", "-o", name, "--", "sh", "-c", script])
        .output()
        .unwrap();
    let said = words(&out);
    assert!(out.status.success(), "{said}");
    let line = |text: &str, begin: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(begin));
        line.unwrap_or_else(|| panic!("{begin}: {text}"))
            .to_string()
    };
    let hint = line(&said, "Compare the schemes on it: ");
    assert_eq!(shlex::split(&hint).unwrap(), ["varve", "replay", name]);
    let replay = |args: &[&str]| {
        let out = varve_in(dir.path()).arg("replay").args(args).output();
        let out = out.unwrap();
        assert!(out.status.success(), "{}", words(&out));
        words(&out)
    };
    let stats = replay(&[name, "--strict", "--stats", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["stats"]["written_bytes"], 30_000, "{stats}");
    assert_eq!(stats["stats"]["calls"]["sync"], 1, "{stats}");
    let said = replay(&[name, "--schemes", "jbd2", "--size", "64"]);
    let again = line(&said, "again: ");
    let words = shlex::split(&again).unwrap();
    assert_eq!(words[2], name, "{again}");
    let rest: Vec<&str> = words[2..].iter().map(String::as_str).collect();
    assert_eq!(line(&replay(&rest), "again: "), again);
}
