//! `varve crash --dir`: processes beside the command and its judges, signals while syncs are looked
//! for, and files and mappings of which not everything can be looked at.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::{Room, ended, is_alive, number_in};
use crate::program::words;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Command;

/// Replaces a file without a sync, so that a cut may leave it empty.
const UNSAFE: [&str; 4] = [
    "--setup",
    "echo old > f",
    "--run",
    "echo new > t; mv t f; echo saved >> $VARVE_ACKS",
];

/// A check of it that looks, for the second time at a tree that is none of the first two, as the
/// search for syncs does, for a minute.
const SLOW_CHECK: &str = r#"
    key="$(cd $VARVE_DIR && cksum *) $VARVE_ACKED_COUNT"
    key=$(echo "$key" | cksum)
    if tail -n +3 log | grep -qxF "$key"; then echo $$ > again; sleep 60; fi
    echo "$key" >> log
    grep -qxE 'old|new' $VARVE_DIR/f
"#;

#[test]
fn findings_are_kept_when_a_signal_comes_while_syncs_are_looked_for() {
    let room = Room::new();
    fs::write(room.path().join("log"), "").expect("room");
    let options = ["--check", SLOW_CHECK, "--suggest", "--model", "posix"];
    let options = [&UNSAFE[..], &options[..], &["--jobs", "1"]].concat();
    let running = room.start(&options);
    number_in(&room.path().join("again"));
    let said = ended(running, Signal::TERM);
    assert!(
        said.contains("1 finding") && said.contains("\n1. after"),
        "{said}"
    );
    assert!(said.contains("--suggest: SIGTERM came"), "{said}");
    assert!(said.contains("syncs were not suggested"), "{said}");
    let results = fs::read_to_string(room.path().join("varve-crash/results.json"));
    assert!(results.expect("it is there").contains("SIGTERM came"));
    assert!(room.path().join("varve-crash/finding-1/after").is_dir());
    room.is_left_clean();
}

/// The shell that waits for the end takes away what nobody else can: also where the command has
/// started others.
#[test]
fn of_a_run_that_is_killed_nothing_is_left() {
    let room = Room::new();
    let pids = room.path().join("pids");
    let run = format!(
        "echo a > a; sleep 300 & echo $! > {}; sleep 301",
        pids.display()
    );
    let mut running = room.start(&["--run", &run, "--check", "true"]);
    let command = number_in(&pids);
    running.kill().expect("it runs");
    running.wait().expect("it ends");
    let since = std::time::Instant::now();
    let is_there = || {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("a table of mounts");
        let own = room.path().to_str().expect("a plain name");
        let left = fs::read_dir(room.path().join("tmp")).expect("it is there");
        mounts.contains(own) || left.count() > 0 || is_alive(command)
    };
    while is_there() {
        assert!(
            since.elapsed() < std::time::Duration::from_secs(20),
            "command, mount or folder are still there"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// What a judge leaves behind is for the host to bury: a check may leave a process each time.
#[test]
fn processes_of_judges_are_not_adopted() {
    let room = Room::new();
    let check = r#"
        (sleep 50 &)
        cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' > $VARVE_DIR/../stats
        ! grep -q "^Z $PPID " $VARVE_DIR/../stats
    "#;
    let options = ["--check", check, "--model", "posix", "--jobs", "1"];
    let run = ["--run", "echo a > a; echo b > b; mv a c"];
    room.told(&[&run[..], &options].concat(), 0, &["holds"]);
}

/// A shell may have started others before it became this program.
#[test]
fn processes_that_were_there_before_are_left_alone() {
    let room = Room::new();
    let mut shell = Command::new("sh");
    let text = "sleep 50 >/dev/null 2>&1 & echo $! > before; exec \"$0\" crash --dir --run true --show --allow-unchanged";
    shell.args(["-c", text, env!("CARGO_BIN_EXE_varve")]);
    shell.env("TMPDIR", room.path().join("tmp"));
    let out = shell.current_dir(room.path()).output().expect("a shell");
    let before = number_in(&room.path().join("before"));
    let alive = is_alive(before);
    if let Some(pid) = Pid::from_raw(before) {
        // It is this test's to end.
        let _ = kill_process(pid, Signal::KILL);
    }
    assert!(out.status.success(), "{}", words(&out));
    assert!(alive, "it was ended");
    room.is_left_clean();
}

/// A sparse file may be larger than all memory.
#[test]
fn a_huge_sparse_file_is_judged() {
    let room = Room::new();
    let run = "truncate -s 1T huge && sync huge && echo saved >> $VARVE_ACKS";
    let model = ["--model", "posix,ext4"];
    for judge in [
        ["--judge", "same-or-old=huge"],
        ["--judge", "prefix=huge"],
        [
            "--check",
            "test ! -e $VARVE_DIR/huge || head -c 1 $VARVE_DIR/huge > $VARVE_DIR/../one",
        ],
    ] {
        let out = room.run(&[&["--run", run][..], &judge, &model].concat());
        let said = words(&out);
        assert!(out.status.code().is_some_and(|code| code < 2), "{said}");
        assert!(said.contains("beyond  verdict"), "{said}");
    }
}

/// The kernel may write a page of a mapping back before the program asks for it.
#[test]
fn what_is_not_looked_at_of_a_mapping_is_said() {
    let room = Room::new();
    let script = r#"
import mmap, os
with open("mapped", "w+b") as file:
    file.truncate(4096)
    pages = mmap.mmap(file.fileno(), 4096)
    pages[0:3] = b"abc"
    pages.flush()
"#;
    fs::write(room.path().join("map.py"), script).expect("room");
    let run = format!("python3 '{}'", room.path().join("map.py").display());
    let note = "1 writes are pages of shared mappings";
    room.told(&["--run", &run, "--model", "posix"], 0, &[note]);
    let plain = words(&room.run(&["--run", "echo a > a", "--model", "posix"]));
    assert!(!plain.contains("shared mappings"), "{plain}");
}

#[test]
fn a_device_that_has_no_times_is_refused_by_name() {
    let room = Room::new();
    let options = [
        "--run",
        "true",
        "--suggest",
        "--device",
        "spec:emmc,pack=prefix",
    ];
    room.told(
        &options,
        2,
        &["--device spec:emmc,pack=prefix", "promises have no times"],
    );
}
