//! What would let a wrong test of a program pass, or an answer be misread: judges of nothing, runs
//! elsewhere, explorations of nothing, names that drive a terminal, JSON that is not only JSON.

use super::Room;
use crate::program::{text, words};
use serde_json::Value;
use std::fs;

/// A judge with a misspelt path is content with every tree, so it is none.
#[test]
fn a_judge_needs_something_to_judge() {
    let room = Room::new();
    let run = "echo 1 > config.tmp; mv config.tmp config.json";
    for judge in [
        "same-or-old=confg.json",
        "prefix=logg",
        "same-or-old=/etc/passwd",
        "parse=toml",
        "sqlite=*.db",
    ] {
        let wanted = [
            "no such file at any time",
            "the run made config.json, config.tmp",
        ];
        room.told(&["--run", run, "--judge", judge], 2, &wanted);
    }
    let wanted = ["git=../..: no such repository at any time"];
    room.told(&["--run", run, "--judge", "git=../.."], 2, &wanted);
    for judge in ["sqlite=", "sqlite=x:"] {
        room.told(&["--run", run, "--judge", judge], 2, &["behind"]);
    }
    room.told(&["--run", run, "--judge", "parse=json"], 1, &["1 finding"]);
}

#[test]
fn a_run_that_changes_nothing_tells_nothing() {
    let room = Room::new();
    let elsewhere = room.path().join("elsewhere");
    let run = format!("echo a > {}; sync -f .", elsewhere.display());
    for run in [&*run, ""] {
        let wanted = ["no change in $VARVE_DIR was recorded"];
        room.told(&["--run", run], 3, &wanted);
    }
    room.told(&["--run", &run, "--allow-unchanged"], 0, &["holds"]);
}

#[test]
fn files_that_are_open_elsewhere_are_named() {
    let room = Room::new();
    let (other, read) = (room.path().join("other"), room.path().join("read"));
    fs::write(&read, "x").expect("room");
    let run = format!(
        "exec 3>{} 4<{} 5>inside; sleep 1; echo a > b",
        other.display(),
        read.display()
    );
    let out = room.run(&["--run", &run, "--states", "20"]);
    let said = words(&out);
    assert_eq!(out.status.code(), Some(0), "{said}");
    let note = said
        .lines()
        .find(|line| line.contains("outside of $VARVE_DIR"));
    let note = note.unwrap_or_else(|| panic!("no note in {said}"));
    assert!(
        note.contains(other.to_str().expect("a plain name")),
        "{note}"
    );
    assert!(
        !note.contains("/read") && !note.contains("inside"),
        "{note}"
    );
}

#[test]
fn no_number_asks_for_nothing_or_for_all() {
    let room = Room::new();
    for (option, number) in [("--states", "0"), ("--jobs", "0"), ("--jobs", "999999999")] {
        let wanted = ["invalid value", option];
        room.told(&["--run", "echo a > a", option, number], 2, &wanted);
    }
}

#[test]
fn json_is_one_document() {
    let room = Room::new();
    let run = ["--run", "echo a > a", "--json", "--model", "posix"];
    let json = |more: &[&str]| {
        let out = room.run(&[&run, more].concat());
        assert!(out.status.success(), "{}", words(&out));
        let json: Value = serde_json::from_slice(&out.stdout).expect("one document");
        json
    };
    let all = json(&["--runs", "2"]);
    let calls = |report: &Value| report["calls"].as_u64();
    let counts: Vec<_> = all
        .as_array()
        .expect("an array")
        .iter()
        .map(calls)
        .collect();
    assert_eq!(counts, [Some(2), Some(2)]);
    assert_eq!(calls(&json(&[])), Some(2));
    for text in ["--lint", "--show"] {
        let out = room.run(&[&run[..], &[text]].concat());
        assert_eq!(out.status.code(), Some(2), "{}", words(&out));
    }
}

/// Names, acknowledgements and the words of a judge may hold anything.
#[test]
fn no_name_drives_a_terminal_or_forges_a_line() {
    let room = Room::new();
    let script = "import os\nfor name in (b'a\\x1b]0;t\\x07', b'a\\n9  forged', b'a\\xff', b'a\\xfe', 'a\\u202e'.encode()):\n    open(name, 'w').write('x')\n    os.symlink(name, b's' + name)\n    os.setxattr(name, b'user.' + name, b'1')\n    print('saved \\x1b[2J', flush=True)\n";
    fs::write(room.path().join("names.py"), script).expect("room");
    let run = format!("python3 {}/names.py", room.path().display());
    let bad = |text: &str| {
        let drives = |c: char| c.is_control() && c != '\n' || c == '\u{202e}' || c == '\u{fffd}';
        text.chars().any(drives) || text.contains("\n9  forged")
    };
    let run = ["--run", &run, "--acks", "stdout", "--model", "posix"];
    let check = "test ! -s $VARVE_ACKED || test $(ls $VARVE_DIR | wc -l) -gt 9 || { printf 'why \\033[2J'; false; }";
    let several: [&[&str]; 3] = [&["--show"], &["--lint"], &["--github", "--check", check]];
    for more in several {
        let out = room.run(&[&run, more].concat());
        let said = text(&out.stdout);
        assert!(said.contains("a\\xff") && said.contains("a\\xfe"), "{said}");
        assert!(
            said.contains("a\\x1b]0;t\\x07") && said.contains("a\\n9"),
            "{said}"
        );
        assert!(!bad(&said), "{said:?}");
    }
}

#[test]
fn what_a_mount_lacks_is_named() {
    let room = Room::new();
    let run = "fallocate -l 8192 f && fallocate -c -l 4096 f";
    let wanted = [
        "ended with",
        "fallocate(FALLOC_FL_COLLAPSE_RANGE)",
        "FICLONE",
    ];
    room.told(&["--run", run], 3, &wanted);
    let run = "import os\nopen('f', 'w')\nos.setxattr('f', 'strange.key', b'1')\n";
    fs::write(room.path().join("strange.py"), run).expect("room");
    let run = format!("python3 {}/strange.py", room.path().display());
    let out = room.run(&["--run", &run]);
    assert_eq!(out.status.code(), Some(3), "{}", words(&out));
}

/// The kernel refuses it by itself, and a program then takes another way than elsewhere.
#[test]
fn who_asks_for_a_file_without_a_name_is_told_so() {
    let room = Room::new();
    let ask = "import os\nfor where in ('.', os.getcwd(), '/tmp'):\n    try:\n        os.open(where, os.O_TMPFILE | os.O_RDWR)\n    except OSError as e:\n        open('other', 'w').write(str(e.errno))\n";
    fs::write(room.path().join("ask.py"), ask).expect("room");
    let run = format!("python3 {}/ask.py", room.path().display());
    let out = room.run(&["--run", &run, "--model", "posix"]);
    let said = words(&out);
    assert_eq!(out.status.code(), Some(0), "{said}");
    if said.contains("were not seen") {
        return eprintln!("the host refuses filters of system calls");
    }
    let note = "the volume has refused";
    assert!(
        said.contains(note) && said.contains("open(O_TMPFILE) of ."),
        "{said}"
    );
    assert!(!said.contains("open(O_TMPFILE) of /tmp,"), "{said}");
    // A refusal that a command goes on after is told, too.
    let run = "fallocate -l 8192 f; fallocate -c -l 4096 f || true";
    let wanted = [note, "fallocate(FALLOC_FL_COLLAPSE_RANGE or ", "of f"];
    room.told(&["--run", run, "--model", "posix"], 0, &wanted);
}

/// How often a sync is added is part of the answer.
#[test]
fn a_suggestion_counts_and_says_what_it_does_not_mend() {
    let room = Room::new();
    let script = "import os\nfor n in range(3):\n    with open('t', 'w') as f:\n        f.write(str(n))\n    os.rename('t', 'c')\n    print('saved', n, flush=True)\n";
    fs::write(room.path().join("save.py"), script).expect("room");
    let run = format!("python3 {}/save.py", room.path().display());
    let run = [
        "--run",
        &run,
        "--acks",
        "stdout",
        "--suggest",
        "--judge",
        "same-or-old=c",
    ];
    room.told(
        &run,
        1,
        &["mend: add before", "(3 times in this recording)"],
    );
}
