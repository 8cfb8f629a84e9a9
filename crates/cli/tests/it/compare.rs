//! `varve compare` as a user runs it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{command, varve, words};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SMALL: &str = "sqlite:insert=12,update=6,delete=4";

fn compare(out: &Path, more: &[&str]) -> Output {
    let out = out.to_str().expect("the path is UTF-8");
    varve(
        &[
            &["compare", "--size", "64", "--workload", SMALL, "--out", out][..],
            more,
        ]
        .concat(),
    )
}

#[test]
fn same_seed_same_bytes_on_one_and_two_processes() {
    let dirs = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let runs: [&[&str]; 4] = [
        &["--jobs", "1"],
        &["--jobs", "2"],
        &["--jobs", "2"],
        &["--jobs", "2", "--seed", "2"],
    ];
    let mut files = Vec::new();
    for (dir, more) in dirs.iter().zip(runs) {
        let output = compare(dir.path(), more);
        assert!(output.status.success(), "{}", words(&output));
        let read = |name| fs::read(dir.path().join(name)).unwrap();
        files.push((read("results.json"), read("index.html")));
    }
    assert_eq!(files[0], files[1], "one process and two");
    assert_eq!(files[1], files[2], "twice the same");
    assert_ne!(files[2].0, files[3].0, "another seed gives another run");
}

/// Lines of JSON on standard error for programs, nothing for those who ask for quiet; the results
/// are the same.
#[test]
fn progress_is_shown_as_asked_for() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let json = compare(dirs[0].path(), &["--schemes", "jbd2", "--progress", "json"]);
    let quiet = compare(dirs[1].path(), &["--schemes", "jbd2", "-q"]);
    assert!(json.status.success() && quiet.status.success());
    let lines = String::from_utf8(json.stderr).unwrap();
    assert!(!lines.is_empty());
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!(line["progress"], "ext4/jbd2");
        assert!(line["done"].is_u64(), "{line}");
    }
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let ops = |dir: &tempfile::TempDir| {
        let text = fs::read_to_string(dir.path().join("results.json")).unwrap();
        let results: Value = serde_json::from_str(&text).unwrap();
        results["runs"][0]["ops"].clone()
    };
    assert_eq!(last["done"], ops(&dirs[0]), "{last}");
    assert_eq!(String::from_utf8(quiet.stderr).unwrap(), "");
    let results = |dir: &tempfile::TempDir| fs::read(dir.path().join("results.json")).unwrap();
    assert_eq!(results(&dirs[0]), results(&dirs[1]));
    let both = compare(dirs[0].path(), &["-q", "--progress", "json"]);
    assert_eq!(both.status.code(), Some(2), "{}", words(&both));
}

#[test]
fn the_systems_of_the_paper_are_one_word() {
    let dir = tempfile::tempdir().unwrap();
    let output = compare(dir.path(), &["--schemes", "paper,adaptive", "--json"]);
    assert!(output.status.success(), "{}", words(&output));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = results["runs"].as_array().unwrap();
    let schemes: Vec<&str> = runs.iter().map(|r| r["scheme"].as_str().unwrap()).collect();
    let all = [
        "jbd2",
        "coalition-paper",
        "flush-ahead",
        "emmc-paper",
        "adaptive",
    ];
    assert_eq!(schemes, all);
    let again = results["reproduce"].as_str().unwrap();
    assert!(
        again.contains(&format!("--schemes {} ", all.join(","))),
        "{again}"
    );
}

#[test]
fn ext3_runs_beside_ext4() {
    let dir = tempfile::tempdir().unwrap();
    let options = [
        "--fs",
        "ext4,ext3",
        "--schemes",
        "jbd2+data=journal",
        "--json",
    ];
    let output = compare(dir.path(), &options);
    assert!(output.status.success(), "{}", words(&output));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = results["runs"].as_array().unwrap();
    let fs: Vec<&str> = runs.iter().map(|r| r["fs"].as_str().unwrap()).collect();
    assert_eq!(fs, ["ext4", "ext3"]);
}

/// Where a scheme with fast commits can make only full ones, the table, the page and the results
/// say why; elsewhere they say nothing.
#[test]
fn fast_commits_that_cannot_be_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let both = "jbd2,fast-commit,fast-commit+adaptive";
    for (more, whose, why) in [
        (
            &["--fs", "ext3", "--schemes", both][..],
            "ext3/fast-commit, ext3/fast-commit+adaptive",
            "no extents",
        ),
        (
            &["--schemes", "jbd2,fast-commit+data=journal"],
            "ext4/fast-commit+data=journal",
            "data=journal",
        ),
    ] {
        let output = compare(dir.path(), more);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}", words(&output));
        let note = said.lines().find(|line| line.starts_with("note: "));
        let note = note.unwrap_or_else(|| panic!("no note: {said}"));
        let begins = format!("note: {whose}: ");
        assert!(note.starts_with(&begins) && note.contains(why), "{note}");
        let page = fs::read_to_string(dir.path().join("index.html")).unwrap();
        assert!(page.contains("Note: ") && page.contains(why));
        let text = fs::read_to_string(dir.path().join("results.json")).unwrap();
        let results: Value = serde_json::from_str(&text).unwrap();
        for run in results["runs"].as_array().unwrap() {
            let is_fast = run["scheme"].as_str().unwrap().starts_with("fast-commit");
            let notes = run["notes"].as_array().map_or(0, Vec::len);
            assert_eq!(notes, usize::from(is_fast), "{run}");
        }
    }
    let output = compare(dir.path(), &["--schemes", both]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && !said.contains("note: "),
        "{said}"
    );
}

#[test]
fn the_results_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let output = compare(dir.path(), &["--json"]);
    assert!(output.status.success(), "{}", words(&output));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["schema"], 1);
    let runs = results["runs"].as_array().unwrap();
    let schemes: Vec<_> = runs.iter().map(|r| r["scheme"].as_str().unwrap()).collect();
    assert_eq!(
        schemes,
        [
            "jbd2",
            "coalition",
            "flush-ahead",
            "emmc",
            "adaptive",
            "fast-commit",
            "fast-commit+adaptive",
            "none"
        ]
    );
    for run in runs {
        assert_eq!(run["ops"], 22);
        assert!(run["virtual_seconds"].as_f64().unwrap() > 0.0);
        let fsync = &run["latency_us"]["fsync"];
        let at = |p: &str| fsync[p].as_f64().unwrap();
        assert!(0.0 < at("p50") && at("p50") <= at("p99") && at("p99") <= at("max") * 1.001);
        // `adaptive` may need no flush at all.
        let count = |command: &str| run["device"][command].as_u64().unwrap();
        assert!(count("flushes") + count("fua_writes") > 0);
        assert!(run["flash"]["programs"].as_u64().unwrap() > 0);
    }
    let none = runs.len() - 1;
    let blocks = |n: usize, class: &str| runs[n]["blocks"][class].as_u64().unwrap_or(0);
    assert!(blocks(0, "journal_commit") > 0 && blocks(0, "journal_descriptor") > 0);
    assert!(blocks(none, "journal_commit") == 0 && runs[none]["journal_block_ratio"] == 0.0);
    assert!(blocks(0, "data") > 0 && blocks(none, "home") > 0);
    let speed = |n: usize| runs[n]["ops_per_s"].as_f64().unwrap();
    assert!(
        speed(none) > speed(0),
        "a journal costs something: {} and {}",
        speed(0),
        speed(none)
    );
}

/// What the checks of each run judge does not depend on the scheduler, and the line below the table
/// names it.
#[test]
fn each_scheduler_runs_and_is_named() {
    for name in ["none", "cfq-3.10", "mq-deadline", "bfq"] {
        let dir = tempfile::tempdir().unwrap();
        let asked = ["--scheduler", name, "--writeback", "android+interval=2"];
        let output = compare(
            dir.path(),
            &[&asked[..], &["--schemes", "jbd2,emmc"]].concat(),
        );
        let words = words(&output);
        assert!(output.status.success(), "{words}");
        assert!(words.contains(&format!("I/O scheduler {name};")), "{words}");
        assert!(words.contains(&asked.join(" ")), "{words}");
    }
}

/// Without the option it is the one that Linux of the device's time has, and the line that makes
/// the runs again says so.
#[test]
fn the_scheduler_is_that_of_the_devices_time() {
    for (device, name) in [
        ("emmc-odroid-xu4", "cfq-3.10"),
        ("ufs-generic", "mq-deadline"),
        ("nvme-980pro", "none"),
        ("nvme-980pro,host.scheduler=bfq", "bfq"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = compare(dir.path(), &["--device", device, "--schemes", "jbd2"]);
        let words = words(&output);
        assert!(output.status.success(), "{words}");
        assert!(words.contains(&format!("I/O scheduler {name};")), "{words}");
        assert!(words.contains(&format!("--scheduler {name}")), "{words}");
    }
}

#[test]
fn wrong_words_are_named_with_the_right_ones() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |more: &[&str], wrong: &str, right: &str| {
        let output = compare(dir.path(), more);
        let words = words(&output);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(
            words.contains(wrong) && words.contains(right),
            "{more:?}: {words}"
        );
        assert!(!words.contains("panicked"), "{words}");
    };
    refused(&["--schemes", "jbd2,jbd3"], "jbd3", "coalition-paper");
    refused(&["--schemes", "record=delta"], "delta", "coalition");
    refused(&["--schemes", "jbd2+data=all"], "all", "writeback");
    refused(&["--schemes", "emmc+home=remap"], "remap", "whole block");
    refused(&["--schemes", "home=remap"], "home=remap", "copy-reliable");
    refused(
        &["--device", "loop-like", "--schemes", "emmc+full-first=off"],
        "emmc+full-first=off on device loop-like",
        "full-first=auto",
    );
    refused(&["--fs", "ext5"], "ext5", "ext4");
    refused(&["--device", "floppy"], "floppy", "emmc-odroid-xu4");
    refused(&["--timing", "fast"], "fast", "valid");
    refused(
        &["--scheduler", "cfq"],
        "unknown scheduler `cfq`",
        "cfq-3.10",
    );
    refused(&["--writeback", "windows"], "`windows`", "linux, android");
    refused(
        &["--writeback", "android+background=0"],
        "`background=0`",
        "1 to 100",
    );
    refused(&["--writeback", "limit=10"], "background=10", "limit=10");
    refused(
        &["--writeback", "linux", "--timers", "off"],
        "--timers off",
        "--writeback",
    );
    refused(&["--schemes", "none,none"], "none", "twice");
    refused(
        &["--journal", "2"],
        "a journal of 2 MiB on a volume of 64 MiB",
        "choose 4 to ",
    );
    refused(&["--journal", "0"], "of 0 MiB", "choose 4 to ");
    refused(&["--journal", "64"], "of 64 MiB", "choose 4 to ");
    refused(&["--journal", "4294967295"], "journal of", "choose 4 to ");
    refused(&["--journal", "x"], "--journal", "invalid");
    refused(
        &["--journal", "8", "--schemes", "none"],
        "--journal",
        "no journal",
    );
    let same = "emmc,record=coalition+order=flush-ahead+home=copy-reliable";
    refused(&["--schemes", same], "ext4/emmc", "twice");
    refused(&["--jobs", "0"], "--jobs", "1 to 1024");
    refused(&["--wrong-option"], "--wrong-option", "--help");
    let spec = varve(&["compare", "--workload", "sqlite:rows=4"]);
    assert!(words(&spec).contains("rows") && words(&spec).contains("insert"));
    assert_eq!(varve(&["compare", "--size", "1"]).status.code(), Some(2));
}

#[test]
fn an_output_folder_that_cannot_be_written_is_said_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in-the-way");
    fs::write(&file, "").unwrap();
    let output = compare(&file.join("below"), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).contains("in-the-way"), "{}", words(&output));
}

#[test]
fn a_full_or_closed_standard_output_is_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let run = |stdout: Stdio| {
        command()
            .args(["compare", "--size", "64", "--workload", SMALL, "--out"])
            .arg(dir.path())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    };
    let mut closed = run(Stdio::piped());
    drop(closed.stdout.take());
    let output = closed.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = run(full.into()).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    assert!(words(&output).contains("standard output"));
}

#[test]
fn a_device_too_small_for_the_workload_is_an_error_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let big = "sqlite:insert=400,update=0,delete=0,value=100000";
    let out = dir.path().to_str().unwrap();
    let output = varve(&["compare", "--size", "16", "--workload", big, "--out", out]);
    let words = words(&output);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(
        words.contains("full") && !words.contains("panicked"),
        "{words}"
    );
}

#[test]
fn a_device_with_remap_compares_jbd2_with_jftl_in_each_data_mode_at_its_own_size() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let output = varve(&[
        "compare",
        "--device",
        "nandsim-2007",
        "--workload",
        SMALL,
        "--out",
        out,
        "--json",
    ]);
    assert!(output.status.success(), "{}", words(&output));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = results["runs"].as_array().unwrap();
    let schemes: Vec<_> = runs.iter().map(|r| r["scheme"].as_str().unwrap()).collect();
    let modes = ["", "+data=journal", "+data=writeback"];
    let all = modes
        .iter()
        .flat_map(|m| [format!("jbd2{m}"), format!("jftl{m}")]);
    assert_eq!(schemes, all.collect::<Vec<_>>());
    for run in runs {
        let remaps = run["device"]["remaps"].as_u64().unwrap();
        let jftl = run["scheme"].as_str().unwrap().starts_with("jftl");
        assert_eq!(remaps > 0, jftl);
        assert_eq!(run["flash"]["remapped_units"].as_u64().unwrap() > 0, jftl);
        let causes = run["flash"]["programs_by_cause"].as_object().unwrap();
        let sum: u64 = causes.values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(sum, run["flash"]["programs"].as_u64().unwrap());
    }
    let refused = compare(dir.path(), &["--schemes", "jftl"]);
    let says = words(&refused);
    assert!(
        refused.status.code() == Some(2) && says.contains("nandsim-2007"),
        "{says}"
    );
}

#[test]
fn devices_of_the_nvme_kind_take_the_schemes_of_ext4() {
    for device in ["nvme-980pro", "ufs-generic"] {
        let dir = tempfile::tempdir().unwrap();
        let schemes = ["--schemes", "jbd2,flush-ahead,coalition"];
        let output = compare(dir.path(), &[&["--device", device][..], &schemes].concat());
        assert!(output.status.success(), "{}", words(&output));
        let results = fs::read(dir.path().join("results.json")).unwrap();
        let results: Value = serde_json::from_slice(&results).unwrap();
        let runs = results["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 3);
        for run in runs {
            assert_eq!(run["device"]["profile"], device);
            assert!(run["flash"]["programs"].as_u64().unwrap() > 0);
        }
        // The same traffic as on any device with FUA; flush-ahead has no packs here.
        let flushes = |i: usize| runs[i]["device"]["flushes"].as_u64().unwrap();
        assert!(flushes(0) > 0 && flushes(1) > 0, "{runs:?}");
    }
}

/// The trace-event format: what each kind of event must have, threads that have names, and spans of
/// one thread that nest: one begins when another has ended, or lies within it.
fn is_of_the_format(trace: &Value) {
    let mut threads: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    let (mut processes, mut names) = (BTreeSet::new(), BTreeSet::new());
    for event in trace["traceEvents"].as_array().unwrap() {
        let number = |key: &str| {
            event[key]
                .as_u64()
                .unwrap_or_else(|| panic!("{key}: {event}"))
        };
        assert!(event["name"].is_string(), "{event}");
        match event["ph"].as_str().unwrap() {
            "X" => {
                let time = |key: &str| event[key].as_f64().unwrap_or_else(|| panic!("{event}"));
                let (begin, length) = (time("ts"), time("dur"));
                assert!(
                    begin >= 0.0 && length >= 0.0 && event["cat"].is_string(),
                    "{event}"
                );
                let of = (number("pid"), number("tid"));
                threads.entry(of).or_default().push((begin, begin + length));
            }
            "M" => match event["name"].as_str().unwrap() {
                "process_name" => {
                    assert!(event["args"]["name"].is_string(), "{event}");
                    assert!(processes.insert(number("pid")), "named twice: {event}");
                }
                "thread_name" => {
                    assert!(event["args"]["name"].is_string(), "{event}");
                    assert!(
                        names.insert((number("pid"), number("tid"))),
                        "named twice: {event}"
                    );
                }
                "thread_sort_index" => assert!(event["args"]["sort_index"].is_u64(), "{event}"),
                other => panic!("{other} is no metadata of the format"),
            },
            other => panic!("phase {other}: {event}"),
        }
    }
    for (of, spans) in &mut threads {
        assert!(
            processes.contains(&of.0) && names.contains(of),
            "{of:?} has no name"
        );
        // The longer one of two that begin together is the outer one.
        spans.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<f64> = Vec::new();
        // Microseconds as floating-point numbers are exact to far less than a nanosecond here.
        let slack = 1e-4;
        for (begin, end) in spans {
            while open.last().is_some_and(|outer| *outer <= *begin + slack) {
                open.pop();
            }
            assert!(
                open.last().is_none_or(|outer| *end <= *outer + slack),
                "{of:?} at {begin}"
            );
            open.push(*end);
        }
    }
}

#[test]
fn a_time_line_has_syncs_and_commands_and_changes_nothing() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let file = dirs[0].path().join("trace.json");
    let wanted = file.to_str().unwrap();
    let schemes = ["--schemes", "jbd2,emmc"];
    let traced = compare(
        dirs[0].path(),
        &[&schemes[..], &["--trace-out", wanted]].concat(),
    );
    assert!(traced.status.success(), "{}", words(&traced));
    assert!(compare(dirs[1].path(), &schemes).status.success());
    let read = |n: usize| fs::read(dirs[n].path().join("results.json")).unwrap();
    assert_eq!(read(0), read(1), "who listens takes no time");
    let trace: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    is_of_the_format(&trace);
    let tracks = |pid: u64, word: &str| {
        let of = |e: &&Value| e["pid"] == pid && e["name"] == "thread_name";
        let names = events
            .iter()
            .filter(of)
            .filter_map(|e| e["args"]["name"].as_str());
        names.filter(|name| name.starts_with(word)).count()
    };
    for (pid, word) in [1, 2].into_iter().flat_map(|pid| {
        ["sync ", "task ", "request ", "flush ", "chip die "].map(|word| (pid, word))
    }) {
        assert!(tracks(pid, word) > 0, "run {pid} has no track `{word}`");
    }
    let spans = |pid: u64, name: &str| {
        let is = |e: &&Value| e["pid"] == pid && e["name"].as_str().unwrap().starts_with(name);
        events.iter().filter(is).count()
    };
    for pid in [1, 2] {
        assert!(
            spans(pid, "fsync") + spans(pid, "fdatasync") >= 22,
            "each transaction syncs"
        );
        assert!(spans(pid, "flush") > 0 && spans(pid, "write") > 0, "{pid}");
    }
    assert!(spans(2, "FUA ") > 0, "what commits without a flush");
    // Tasks that are in each other's way.
    let many = [
        "--size",
        "256",
        "--workload",
        "meta:op=create,count=200,procs=4",
    ];
    let line = [
        "compare",
        "--schemes",
        "jbd2",
        "--trace-out",
        wanted,
        "--out",
    ];
    let to = [dirs[1].path().to_str().unwrap()];
    let out = varve(&[&line[..], &to, &many].concat());
    assert!(out.status.success(), "{}", words(&out));
    let trace: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    is_of_the_format(&trace);
    let events = trace["traceEvents"].as_array().unwrap();
    let names = events.iter().filter(|e| e["name"] == "thread_name");
    let names: Vec<&str> = names.map(|e| e["args"]["name"].as_str().unwrap()).collect();
    assert!(
        names.iter().any(|name| name.starts_with("lock ")),
        "{names:?}"
    );
    assert!(names.contains(&"task meta 3"), "{names:?}");
    let gone = compare(dirs[0].path(), &["--trace-out", "/nowhere/trace.json"]);
    assert!(!gone.status.success() && words(&gone).contains("/nowhere/trace.json"));
}

/// A workload has tasks of its own, which are coroutines and no threads of the host: what has no
/// room there are workers, checkers and what waits for signals, and each is refused in a sentence.
#[test]
fn a_host_without_room_for_processes_refuses_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(dir.path(), open).unwrap();
    let jobs = dir.path().join("jobs.fio");
    let text = "[a]\nrw=randwrite\nbs=4k\nsize=64k\nfsync=1\nnumjobs=16\n";
    fs::write(&jobs, text).unwrap();
    let jobs = jobs.to_str().unwrap();
    let loads = [
        &["replay", jobs][..],
        &["compare", "--workload", "filebench:varmail,scale=1/100"],
        &["compare", "--workload", "meta:procs=32,count=64"],
    ];
    // Limits of processes are not for root, and a user has others, which count.
    let is_root = rustix::process::geteuid().is_root();
    let mut refused = 0;
    for room in 1..6 {
        for (n, load) in loads.iter().enumerate() {
            let out = dir.path().join(format!("{room}-{n}"));
            let mut limited = Command::new("setpriv");
            if is_root {
                limited.args(["--reuid=54321", "--regid=54321", "--clear-groups"]);
            }
            limited.args([
                "prlimit",
                &format!("--nproc={room}"),
                env!("CARGO_BIN_EXE_varve"),
            ]);
            limited
                .args(*load)
                .args(["-q", "--schemes", "jbd2", "--out"]);
            let output = limited.arg(out).current_dir(dir.path()).output().unwrap();
            let said = words(&output);
            assert!(!said.contains("panicked"), "{room}: {load:?}: {said}");
            if !output.status.success() {
                assert_eq!(output.status.code(), Some(1), "{room}: {load:?}: {said}");
                assert!(said.contains("Resource temporarily"), "{load:?}: {said}");
                refused += 1;
            }
            if is_root && room == 2 {
                let limit = "no process for ext4/jbd2: Resource temporarily unavailable (os error 11); `ulimit -u` is the limit";
                assert!(said.contains(limit), "{load:?}: {said}");
            }
        }
    }
    assert!(refused >= 6, "{refused} of 15 were refused");
}
