//! `varve crash --dir`: what a test says of the program is told apart from a test that is broken,
//! and what failed calls leave is a finding. Needs a compiler of C.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::Room;
use crate::program::{text, words};
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

const BAD: [&str; 4] = [
    "--run",
    "echo a > a; echo b > b",
    "--check",
    "test ! -s $VARVE_DIR/b -o -s $VARVE_DIR/a",
];

fn read(room: &Room, name: &str) -> String {
    let file = room.path().join("varve-crash").join(name);
    fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The check rejects one tree, and crashes at the next one that it would reject.
#[test]
fn what_a_check_found_before_it_broke_stays_found() {
    let room = Room::new();
    let mark = room.path().join("mark");
    let check = format!(
        "test ! -s $VARVE_DIR/b -o -s $VARVE_DIR/a && exit 0; \
         test -e {mark} && kill -9 $$; touch {mark}; echo a is lost; exit 1",
        mark = mark.display()
    );
    let line = ["--run", BAD[1], "--check", &check, "--model", "posix"];
    let line = [&line[..], &["--jobs", "1"]].concat();
    room.told(&line, 1, &["a is lost", "INCOMPLETE", "the check crashed"]);
    let report: Value = serde_json::from_str(&read(&room, "results.json")).unwrap();
    assert_eq!(report["findings"].as_array().unwrap().len(), 1);
    let part = report["incomplete"].as_str().unwrap();
    assert!(part.contains("trees were judged by then"), "{part}");
}

/// With room for a part alone, write answers less than it was asked for: who does not look at that
/// takes the file for whole.
#[test]
fn a_write_that_finds_room_for_a_part_is_one_that_failed() {
    let room = Room::new();
    let program = "import os\n\
        fd = os.open('c.tmp', os.O_CREAT | os.O_WRONLY, 0o644)\n\
        os.write(fd, b'n' * 100000)\n\
        os.fsync(fd); os.close(fd); os.rename('c.tmp', 'c')\n\
        os.fsync(os.open('.', os.O_RDONLY)); print('saved', flush=True)\n";
    fs::write(room.path().join("short.py"), program).unwrap();
    let run = format!("python3 {}/short.py", room.path().display());
    let full = "echo old > c; dd if=/dev/zero of=fill bs=64k 2>/dev/null; sync; \
        truncate -s -40960 fill; sync";
    let line = ["--size", "16", "--setup", full, "--run", &run];
    let judged = ["--acks", "stdout", "--judge", "same-or-old=c"];
    room.told(&[&line[..], &judged].concat(), 1, &["the volume was full"]);
    let report: Value = serde_json::from_str(&read(&room, "results.json")).unwrap();
    let models = report["models"].as_array().unwrap();
    let device = models.iter().find(|model| model["name"] == "device");
    assert!(
        device.is_some_and(|model| model["bad"].as_u64() > Some(0)),
        "{report}"
    );
}

/// What a judge says is no command of GitHub's runner.
#[test]
fn words_of_a_judge_command_no_runner() {
    let room = Room::new();
    let check = "grep -q . $VARVE_DIR/c || { printf 'empty\\n::stop-commands::x\\n'; exit 1; }";
    let line = [
        "--setup",
        "echo old > c",
        "--run",
        "echo new > c",
        "--github",
    ];
    let out = room.run(&[&line[..], &["--model", "posix", "--check", check]].concat());
    let said = text(&out.stdout);
    let first = said.lines().next().unwrap();
    let word = first
        .strip_prefix("::stop-commands::")
        .expect("the first line");
    let end = said.find(&format!("\n::{word}::\n")).expect("an end");
    assert!(said.find("::stop-commands::x").unwrap() < end, "{said}");
    assert!(said.find("::error ").unwrap() > end, "{said}");
}

#[test]
fn findings_and_a_broken_test_end_differently() {
    let room = Room::new();
    let model = ["--model", "posix"];
    room.told(&[&BAD[..], &model].concat(), 1, &["states are bad"]);
    assert!(read(&room, "junit.xml").contains("<failure"));
    // Results of the run before must not be taken for those of this one.
    let broken = ["--run", "echo a > a; exit 7", "--json"];
    let out = room.run(&[&broken[..], &model].concat());
    assert_eq!(out.status.code(), Some(3), "{}", words(&out));
    let report: Value = serde_json::from_slice(&out.stdout).expect("one document");
    let error = report["error"].as_str().expect("why");
    assert!(error.contains("exit status: 7"), "{error}");
    let junit = read(&room, "junit.xml");
    assert!(
        junit.contains("<error") && !junit.contains("<failure"),
        "{junit}"
    );
    assert!(read(&room, "index.html").contains("No verdict"));
    assert_eq!(read(&room, "results.json"), text(&out.stdout));

    for (options, wanted) in [
        (
            &["--run", "echo a > a", "--fail", "rename=EIO"][..],
            "no such call was made",
        ),
        (
            &["--run", "echo a > a", "--check", "kill -9 $$"],
            "the check crashed (signal 9)",
        ),
        (
            &["--run", "echo a > a", "--check", "false"],
            "before the run",
        ),
        (
            &["--run", "echo a > a", "--check-server", "exit 0"],
            "without an answer",
        ),
        (&["--run", "true"], "no change in $VARVE_DIR"),
        (
            &["--run", "echo a > a", "--model", "device"],
            "--fail CALL=ERROR",
        ),
    ] {
        room.told(options, 3, &[wanted]);
    }
    let github = ["--run", "exit 7", "--github"];
    room.told(&github, 3, &["::error title=the crash test is broken::"]);
    room.told(&["--run", "true", "--model", "nobody"], 2, &["nobody"]);
    // What was found is found, whatever else did not come about.
    let unmet = ["--fail", "rename=EIO"];
    room.told(
        &[&BAD[..], &model, &unmet].concat(),
        1,
        &["no such call was made"],
    );
}

/// What was looked at stands beside the reason why there is no verdict, in all forms of the result.
#[test]
fn a_report_keeps_what_was_looked_at_when_there_is_no_verdict() {
    let room = Room::new();
    let gives_up = ["--run", "echo a > a", "--model", "posix,device", "--json"];
    let unmet = [
        "--run",
        "echo a > a",
        "--model",
        "posix",
        "--fail",
        "rename=EIO",
        "--json",
    ];
    for (run, models, wanted) in [
        (&gives_up[..], 2, "a model gave up"),
        (&unmet[..], 1, "no such call was made"),
    ] {
        let out = room.run(run);
        assert_eq!(out.status.code(), Some(3), "{}", words(&out));
        let report: Value = serde_json::from_slice(&out.stdout).expect("one document");
        let error = report["error"].as_str().expect("why");
        assert!(error.contains(wanted), "{error}");
        assert_eq!(report["models"].as_array().map(Vec::len), Some(models));
        assert!(report["models"][0]["states"].as_u64() > Some(0));
        assert_eq!(read(&room, "results.json"), text(&out.stdout));
        assert!(read(&room, "junit.xml").contains("<error"));
    }
}

#[test]
fn no_sync_is_called_needless_where_only_device_is_asked() {
    let room = Room::new();
    let run = "echo a > a; sync a; echo b > b; sync b || true; echo saved >> $VARVE_ACKS";
    let options = [
        "--run",
        run,
        "--model",
        "device",
        "--fail",
        "fsync=EIO@2",
        "--suggest",
    ];
    let out = room.run(&options);
    let said = words(&out);
    assert!(said.contains("no sync mends it"), "{said}");
    assert!(!said.contains("note: sync: "), "{said}");
}

#[test]
fn a_file_that_is_broken_without_a_cut_is_a_finding() {
    let room = Room::new();
    let save = "echo '{}' > c.json; sync c.json; echo saved >> $VARVE_ACKS";
    let run = [
        "--setup",
        "echo '[1]' > c.json",
        "--run",
        save,
        "--judge",
        "same-or-old=c.json",
    ];
    let fail = ["--fail", "write=ENOSPC:c.json"];
    let wanted = [
        "`write(c.json)` (call 1",
        "failed with ENOSPC",
        "without any power cut; the program went on with `fsync(c.json)`, the acknowledgement of `saved`",
        "write(c.json, 3 bytes at 0) = ENOSPC",
        "no power cut: this is what is there",
        "device",
    ];
    room.told(&[&run[..], &fail].concat(), 1, &wanted);
    assert!(read(&room, "results.json").contains("\"fate\": \"failed\""));
    let state = [
        "--recording",
        "varve-crash/recording",
        "--state",
        "device moment=4",
    ];
    let again = [&state[..], &run[4..], &["--out", "again"]].concat();
    room.told(&again, 1, &["bad: c.json is empty"]);

    // What a failed sync gave up is gone, whatever the next one says.
    let script = "import os\nfd = os.open('log', os.O_RDWR)\nos.write(fd, b'new')\ntry:\n    os.fsync(fd)\nexcept OSError:\n    os.fsync(fd)\nprint('new', flush=True)\n";
    fs::write(room.path().join("log.py"), script).expect("room");
    let run = format!("python3 {}/log.py", room.path().display());
    let check = "test ! -s $VARVE_ACKED || grep -q new $VARVE_DIR/log";
    let options = [
        "--setup",
        "echo old > log",
        "--run",
        &run,
        "--acks",
        "stdout",
        "--check",
        check,
        "--fail",
        "fsync=EIO",
        "--model",
        "device,ext4,f2fs",
    ];
    room.told(
        &options,
        1,
        &[
            "3 bytes of log from 0 on may be gone",
            "device (",
            "ext4 (",
            "f2fs (",
        ],
    );
}

#[test]
fn syncs_of_programs_of_32_bits_are_seen() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let room = Room::new();
    let source = r#"
#include <fcntl.h>
#include <unistd.h>
static long call(long number, long first) {
    long answer;
    __asm__ volatile("int $0x80" : "=a"(answer) : "a"(number), "b"(first) : "memory", "r8", "r9", "r10", "r11");
    return answer;
}
int main(void) {
    int fd = open("f", O_CREAT | O_RDWR, 0644);
    return write(fd, "a", 1) != 1 || call(36, 0) || write(fd, "b", 1) != 1 || call(344, fd);
}
"#;
    fs::write(room.path().join("old.c"), source).expect("room");
    let mut compiler = Command::new("cc");
    let made = compiler
        .args(["-o", "old", "old.c"])
        .current_dir(room.path());
    assert!(made.status().expect("a compiler").success());
    let program = room.path().join("old");
    let calls = room.calls(&["--run", program.to_str().expect("a plain name")]);
    let expected = [
        "creat(f, 0644)",
        "write(f, 1 bytes at 0)",
        "sync(.)",
        "write(f, 1 bytes at 1)",
        "sync(.)",
    ];
    assert_eq!(calls, expected);
}

#[test]
fn who_stays_is_waited_for_as_long_as_was_said() {
    let room = Room::new();
    let since = Instant::now();
    room.told(
        &[
            "--run",
            "echo a > a; sleep 300 &",
            "--timeout",
            "3",
            "--model",
            "posix",
        ],
        0,
        &["are waited for", "within the 3 s of --timeout", "sleep ("],
    );
    let took = since.elapsed();
    assert!(took < Duration::from_secs(9), "{took:?}");
    // One that ends in time is no more than waited for, and what it does counts.
    let run = "echo a > a; (sleep 4; echo late > late) &";
    let calls = room.calls(&["--run", run, "--timeout", "60"]);
    assert_eq!(
        calls.last().map(String::as_str),
        Some("write(late, 5 bytes at 0)")
    );
}

#[test]
fn a_recording_is_kept_over_no_file_of_others() {
    let room = Room::new();
    fs::write(room.path().join("mine"), "precious").expect("room");
    let keep = |file| ["--run", "echo a > a", "--show", "--keep", file];
    room.told(&keep("mine"), 3, &["--keep mine", "choose another name"]);
    let mine = fs::read_to_string(room.path().join("mine"));
    assert_eq!(mine.expect("it is there"), "precious");
    room.told(&keep("kept"), 0, &[]);
    room.told(&keep("kept"), 0, &[]);
}
