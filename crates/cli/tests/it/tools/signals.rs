//! What a command leaves when it gets a signal: no process, no mount and no unrequested file; and
//! the results that were complete.

use super::{empty, fails, made};
use crate::program::{folder, good, text};
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts the program with words of which the last may hold spaces; temporary files go to
/// `dir/tmp`.
fn start(dir: &Path, line: &str, last: &str) -> Child {
    let words = line.split_whitespace();
    let last = (!last.is_empty()).then_some(last);
    start_with(dir, words.chain(last))
}

fn start_with<'a>(dir: &Path, words: impl IntoIterator<Item = &'a str>) -> Child {
    fs::create_dir_all(dir.join("tmp")).unwrap();
    // A shell that runs the tests in the background may have them ignore signals, and ignored
    // signals are inherited.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_varve")]);
    command.current_dir(dir).args(words);
    command.env("TMPDIR", dir.join("tmp"));
    command.process_group(0);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

fn send(signal: &str, pid: u32) {
    let mut kill = Command::new("kill");
    let sent = kill.args(["-s", signal, &pid.to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Processes whose parent is `pid`, as far as they are no zombies.
fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let name = entry.unwrap().file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let mut words = rest.split(' ');
        let (state, parent) = (words.next(), words.next());
        if parent == Some(&pid.to_string()[..]) && state != Some("Z") {
            found.push(child);
        }
    }
    found
}

fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// The end of a command that got `signal`, with its exit code and words.
fn ended(child: Child, signal: &str, code: i32, words: &[&str]) -> Output {
    let out = child.wait_with_output().unwrap();
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{signal}: {said}");
    for word in words.iter().chain([&signal]) {
        assert!(said.contains(word), "`{word}` in: {said}");
    }
    out
}

/// A comparison whose first run is short and whose second takes minutes.
const LONG: &str = "compare --jobs 1 --size 64 --workload sqlite:insert=40,update=0,delete=0 --out report --schemes";

#[test]
fn a_comparison_ends_with_its_workers_and_keeps_what_is_complete() {
    let dir = folder();
    let dir = dir.path();
    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        // Many short runs: one after the other, so that some are complete and some are not.
        let schemes = "jbd2,coalition,flush-ahead,emmc,adaptive,none,jbd2+data=journal,emmc+data=journal,\
                       coalition+data=journal,flush-ahead+data=journal,jbd2+data=writeback,emmc+data=writeback,\
                       coalition+data=writeback,adaptive+data=writeback,adaptive+data=journal,flush-ahead+data=writeback";
        let child = start(dir, LONG, schemes);
        let pid = child.id();
        let mut workers: Vec<u32> = Vec::new();
        until("three workers, one after the other", || {
            for worker in children(pid) {
                if !workers.contains(&worker) {
                    workers.push(worker);
                }
            }
            workers.len() >= 3
        });
        send(signal, pid);
        ended(child, signal, code, &["runs were complete", "incomplete"]);
        until("no worker is left", || !workers.iter().any(|&w| lives(w)));
        let results = fs::read_to_string(dir.join("report/results.json")).unwrap();
        let results: Value = serde_json::from_str(&results).unwrap();
        let runs = results["runs"].as_array().unwrap().len();
        assert!((1..16).contains(&runs), "{runs}");
        let why = results["incomplete"].as_str().unwrap();
        assert_eq!(why, format!("SIG{signal} after {runs} of 16 runs"));
        let page = fs::read_to_string(dir.join("report/index.html")).unwrap();
        assert!(page.contains("Incomplete: SIG"));
        let names: Vec<_> = fs::read_dir(dir.join("report")).unwrap().collect();
        assert_eq!(names.len(), 2);
    }
}

/// A command that is killed cannot end its workers: they end by themselves.
#[test]
fn workers_do_not_outlive_a_command_that_was_killed() {
    let dir = folder();
    let dir = dir.path();
    let long = "sqlite:insert=1000000,update=0,delete=0";
    for line in [
        format!("compare --size 64 --workload {long} --schemes jbd2,emmc"),
        "crash --workload ace:2 --jobs 2".into(),
        "paper emmc --jobs 2".into(),
    ] {
        let mut child = start(dir, &line, "");
        let pid = child.id();
        let mut workers = Vec::new();
        until("workers", || {
            workers = children(pid);
            workers.len() >= 2
        });
        child.kill().unwrap();
        child.wait().unwrap();
        until("no worker is left", || !workers.iter().any(|&w| lives(w)));
    }
}

/// A worker that begins after its command was killed gets no signal any more, and its task may
/// stand complete in its input.
#[test]
fn a_worker_whose_command_has_ended_does_not_begin() {
    for name in ["worker", "crash-worker", "paper-worker"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
        command.arg(name).env("VARVE_WORKER_OF", "1");
        let out = command.stdin(Stdio::null()).output().unwrap();
        let said = text(&out.stderr);
        assert!(said.contains("has ended"), "{name}: {said}");
        assert_eq!(out.status.code(), Some(1), "{name}");
    }
}

/// An interrupt before anything is complete leaves nothing, and says so.
#[test]
fn nothing_complete_nothing_written() {
    let dir = folder();
    let dir = dir.path();
    let long = "compare --size 64 --workload sqlite:insert=1000000,update=0,delete=0 --schemes jbd2 --out report";
    for line in [long, "paper emmc --only fig13 --out report"] {
        let child = start(dir, line, "");
        let pid = child.id();
        until("a worker", || !children(pid).is_empty());
        send("INT", pid);
        ended(child, "INT", 130, &["was complete", "nothing is written"]);
        assert_eq!(fs::read_dir(dir.join("report")).unwrap().count(), 0);
    }
}

#[test]
fn a_campaign_keeps_its_cases() {
    let dir = folder();
    let dir = dir.path();
    let child = start(dir, "crash --workload ace:1 --jobs 1 --out report", "");
    let pid = child.id();
    // The cases are done one after the other by one worker, which reads them: what it was given is
    // how far it is. A program that starts reads a few times as well.
    until("a worker", || !children(pid).is_empty());
    let worker = children(pid)[0];
    let read = || {
        let io = fs::read_to_string(format!("/proc/{worker}/io")).unwrap_or_default();
        let bytes = io
            .lines()
            .find_map(|l| l.strip_prefix("syscr: ")?.parse::<u64>().ok());
        bytes.unwrap_or(0)
    };
    let first = read();
    until("a few cases", || read() > first + 64);
    send("TERM", pid);
    ended(child, "TERM", 143, &["cases were complete", "incomplete"]);
    until("no worker is left", || !lives(worker));
    let results = fs::read_to_string(dir.join("report/results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    let cases = results["cases"].as_array().unwrap().len();
    let why = results["incomplete"].as_str().unwrap();
    assert!(
        cases >= 1 && why.starts_with(&format!("SIGTERM after {cases} of ")),
        "{why}"
    );
}

/// A command under way: it ends with all that it started, and neither its mount nor a file is left.
#[test]
fn a_command_that_is_being_cut_leaves_nothing_behind() {
    let dir = folder();
    let dir = dir.path();
    empty(dir, "image", 16);
    if !Path::new("/dev/fuse").exists() || !made(dir, "mke2fs -q -F -t ext4 image") {
        eprintln!("skipped: needs FUSE and mke2fs");
        return;
    }
    // The second one keeps the image open, and does not end when it is asked to.
    for script in [
        "touch begun; sleep 1000; true",
        "trap '' TERM; exec 3<$VARVE_DEVICE; touch begun; sleep 1000; true",
    ] {
        let child = start(dir, "crash --image image --out report --run", script);
        let pid = child.id();
        until("the command", || dir.join("begun").exists());
        fs::remove_file(dir.join("begun")).unwrap();
        let mut shells = children(pid);
        let below: Vec<u32> = shells.iter().flat_map(|&s| children(s)).collect();
        shells.extend(below);
        assert!(!shells.is_empty());
        send("TERM", pid);
        ended(child, "TERM", 143, &["nothing is written"]);
        until("no process is left", || !shells.iter().any(|&s| lives(s)));
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let tmp = dir.join("tmp");
        assert!(!mounts.contains(tmp.to_str().unwrap()), "{mounts}");
        assert_eq!(fs::read_dir(tmp).unwrap().count(), 0);
    }
    // The states are being judged: those that were are kept.
    let script = "for n in 1 2 3 4 5 6 7 8; do dd if=/dev/urandom of=$VARVE_DEVICE bs=4096 seek=300$n count=1 conv=notrunc,fsync 2>/dev/null; done";
    let judge = "echo x >> judged; sleep 0.2";
    let line = [
        "crash", "--image", "image", "--out", "report", "--judge", judge, "--run", script,
    ];
    let child = start_with(dir, line);
    until("three states", || {
        fs::read_to_string(dir.join("judged")).is_ok_and(|text| text.lines().count() >= 3)
    });
    send("INT", child.id());
    ended(child, "INT", 130, &["cuts were complete", "incomplete"]);
    let results = fs::read_to_string(dir.join("report/results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    assert!(
        results["states"].as_u64().unwrap() >= 2 && results["bad"] == 0,
        "{results}"
    );
    assert!(
        results["incomplete"]
            .as_str()
            .unwrap()
            .starts_with("SIGINT after ")
    );
    assert_eq!(fs::read_dir(dir.join("tmp")).unwrap().count(), 0);
}

/// Options that a program under cuts has no use for, by name.
#[test]
fn what_counts_for_nothing_is_refused() {
    let dir = folder();
    empty(dir.path(), "image", 1);
    for option in [
        "--jobs 2",
        "--timeout 5",
        "--no-prune",
        "--no-fsck",
        "--deep-one-in 3",
        "--nested-one-in 3",
        "--moments 3",
    ] {
        let said = fails(
            dir.path(),
            &format!("crash --image image {option} --run true"),
            2,
        );
        let name = option.split(' ').next().unwrap();
        assert!(said.contains(name) && said.contains("--image"), "{said}");
    }
}

/// Sizes have units; the result folder asks for what the results take, and nothing is left in it.
#[test]
fn sizes_and_room() {
    let dir = folder();
    let dir = dir.path();
    good(dir, "mkfs --size 24M --journal 4096k -b 4k --seed 1 a");
    good(dir, "mkfs --size 24 --journal 4 --seed 1 b");
    assert!(fs::read(dir.join("a")).unwrap() == fs::read(dir.join("b")).unwrap());
    assert_eq!(fs::metadata(dir.join("a")).unwrap().len(), 24 << 20);
    good(dir, "mkfs --fs f2fs --size 64M -J size=1M c");
    good(dir, "device new emmc-odroid-xu4 d --size 64M");
    for (line, word) in [
        ("mkfs --size 512MB e", "512MB"),
        ("mkfs --size 1.5G e", "1.5G"),
        ("compare --size 1000k", "whole number of MiB"),
        ("compare --journal 99999999T", "no size"),
        ("mkfs --fs f2fs --size 64 -J size=1x e", "-J size=1x"),
    ] {
        let said = fails(dir, line, 2);
        assert!(said.contains(word), "{line}: {said}");
    }
    assert!(!dir.join("e").exists());

    let small = dir.join("small");
    fs::create_dir(&small).unwrap();
    let mount = "mount -t tmpfs -o size=4m none small";
    if !super::is_root() || !made(dir, mount) {
        eprintln!("skipped: needs root for a small file system");
        return;
    }
    let line = "compare --size 64 --workload sqlite:insert=10,update=0,delete=0 --schemes jbd2 --out small/report";
    let out = crate::program::run(dir, line);
    // Stops when it is full.
    let _ = fs::write(small.join("filler"), vec![1; 4 << 20]);
    let refused = crate::program::run(dir, "compare --schemes jbd2 --out small/other");
    let left: Vec<_> = fs::read_dir(small.join("other")).unwrap().collect();
    assert!(made(dir, "umount small"));
    assert!(out.status.success(), "{}", text(&out.stderr));
    let said = text(&refused.stderr);
    let told = said.contains("output folder small/other") && said.contains("--out");
    assert!(refused.status.code() == Some(1) && told, "{said}");
    assert!(left.is_empty(), "{left:?}");
}
