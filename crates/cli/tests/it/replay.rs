//! `varve replay` as a user runs it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{varve, words};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A recording made by hand; `work` tests what is read from it.
const NOTES: &str = include_str!("../../../work/tests/data/notes.txt");

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

#[test]
fn a_recording_is_compared_like_a_workload() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("my,notes.txt");
    fs::write(&file, NOTES).unwrap();
    let out = dir.path().join("report");
    let args = ["replay", text(&file), "--size", "64", "--out", text(&out)];
    let schemes = ["--schemes", "jbd2,emmc,none", "--pace", "none"];
    let output = varve(&[&args[..], &schemes].concat());
    let said = words(&output);
    assert!(output.status.success(), "{said}");
    for word in [
        "my,notes.txt: 85 lines",
        "ext4/emmc",
        "left out: ",
        "names and sizes",
    ] {
        assert!(said.contains(word), "{said}");
    }
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let (json, page) = (read("results.json"), read("index.html"));
    for file in [&json, &page] {
        assert!(!file.contains(text(dir.path())), "no path of this machine");
    }
    let results: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(results["command"], "replay");
    let again = results["reproduce"].as_str().unwrap();
    let wanted = "varve replay my,notes.txt --pace none --think 1 --idle 20 --fs ext4";
    assert!(again.starts_with(wanted), "{again}");
    let runs = results["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        let workload = run["workload"].as_str().unwrap();
        assert!(
            workload.starts_with("replay:file=my_notes.txt,pace=none"),
            "{workload}"
        );
        assert_eq!(run["ops_by_kind"]["fsync"]["ops"], 8);
    }
    // The same bytes again, on one process.
    let output = varve(&[&args[..], &schemes, &["--jobs", "1", "--json"]].concat());
    assert_eq!(String::from_utf8_lossy(&output.stdout), json);
    assert_eq!(read("index.html"), page);
}

#[test]
fn a_job_file_of_fio_runs_and_what_is_assumed_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("log.fio");
    fs::write(
        &file,
        "[global]\nsize=1m\ndirect=1\n[log]\nrw=write\nfsync=8\n",
    )
    .unwrap();
    let out = dir.path().join("report");
    let args = ["replay", text(&file), "--size", "64", "--out", text(&out)];
    let output = varve(&[&args[..], &["--schemes", "jbd2,emmc"]].concat());
    let said = words(&output);
    assert!(output.status.success(), "{said}");
    for word in ["log.fio: 1 jobs", "assumed: direct=1", "content as written"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let results = fs::read_to_string(out.join("results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    let run = &results["runs"][0];
    assert_eq!(run["ops"], 256 + 32, "writes and syncs");
    fs::write(&file, "[a]\nrw=write\nsize=1y\n").unwrap();
    let output = varve(&args);
    let said = words(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("log.fio: job a (line 1): size=1y: no size"),
        "{said}"
    );
}

#[test]
fn what_causes_the_writes_of_a_recording_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("notes.txt"), dir.path().join("report"));
    fs::write(&file, NOTES).unwrap();
    let args = ["replay", text(&file), "--size", "64", "--schemes", "jbd2"];
    let more = ["--by", "file", "--out", text(&out)];
    let output = varve(&[&args[..], &more].concat());
    let said = words(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("ext4/jbd2 by file"), "{said}");
    assert!(said.contains("notes.db-journal"), "{said}");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let results: Value = serde_json::from_str(&read("results.json")).unwrap();
    let run = &results["runs"][0];
    let blocks: u64 = run["blocks"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(Value::as_u64)
        .sum();
    for by in ["file", "call", "process"] {
        let causes = run["causes"][by].as_array().unwrap();
        let kinds = ["data_bytes", "metadata_bytes", "later_bytes"];
        let sum: u64 = causes
            .iter()
            .flat_map(|c| kinds.map(|k| c[k].as_u64().unwrap()))
            .sum();
        assert_eq!(sum, blocks * 4096, "{by}: {causes:?}");
    }
    let page = read("index.html");
    assert!(page.contains("What causes the wear") && page.contains("least / mean / most"));
    let wrong = varve(&[&args[..], &["--by", "colour"]].concat());
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        words(&wrong).contains("file, call or process"),
        "{}",
        words(&wrong)
    );
}

#[test]
fn figures_of_a_recording() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("notes");
    fs::write(&file, format!("{NOTES}9 9 mmap 3 4\n")).unwrap();
    let said = words(&varve(&["replay", "--stats", text(&file)]));
    for word in [
        "of them of directories",
        "2 (25 %)",
        "skipped: 1 x unknown call",
        "M4 rollback",
    ] {
        assert!(said.contains(word), "{said}");
    }
    let json = varve(&["replay", "--stats", "--json", text(&file)]);
    let all: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(all["stats"]["syncs"], 8);
    assert_eq!(all["reading"]["faults"]["unknown call"]["line"], 86);
    let strict = varve(&["replay", "--strict", text(&file)]);
    assert_eq!(strict.status.code(), Some(1));
    assert!(words(&strict).contains("line 86: unknown call: 9 9 mmap 3 4"));
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("odd");
    let refused = |content: &[u8], more: &[&str], code: i32, word: &str| {
        fs::write(&file, content).unwrap();
        let output = varve(&[&["replay", text(&file)], more].concat());
        let words = words(&output);
        assert_eq!(output.status.code(), Some(code), "{words}");
        assert!(
            words.contains(word) && !words.contains("panicked"),
            "{words}"
        );
        assert!(!words.contains(text(dir.path())), "{words}");
    };
    refused(b"", &[], 1, "empty");
    refused(b"fio version 2 iolog\n", &[], 1, "no request in it");
    refused(b"fio version 1 iolog\n", &[], 1, "log of fio");
    refused(
        b"0 0 8 8 0\n",
        &["--format", "spc"],
        2,
        "msr, fio, blkparse",
    );
    refused(
        b"0 0 8 8 0\n",
        &["--format", "mobibench"],
        1,
        "system calls",
    );
    refused(b"0 0 8 8 0\n0 0 8 0 0\n", &["--strict"], 1, "odd, line 2:");
    refused(b"0 0 8 8 0\n", &["--pace", "none"], 2, "--device");
    refused(
        b"0 0 8 8 0\n",
        &["--pace", "busy", "--device", "loop-like"],
        2,
        "recorded, none",
    );
    refused(
        b"0 0 8 8 0\n",
        &["--ftl", "page=9", "--size", "64"],
        2,
        "512 to 65536",
    );
    refused(b"0 0 8 8 0\n", &["--policies", "best"], 2, "cost-benefit");
    refused(b"0 0 8 8 0\n", &["--size", "1"], 2, "it may be 16");
    refused(NOTES.as_bytes(), &["--fold", "modulo"], 2, "block requests");
    refused(
        b"0 0 8 8 0\n",
        &["--schemes", "jbd2"],
        2,
        "below any file system",
    );
    refused(&[0x1f, 0x8b, 8, 0, 0], &[], 1, "odd");
    refused(&[0x28, 0xb5, 0x2f, 0xfd, 9], &[], 1, "zstd");
    refused(
        NOTES.as_bytes(),
        &["--pace", "fast"],
        2,
        "recorded, busy, none",
    );
    refused(NOTES.as_bytes(), &["--think", "-1"], 2, "a factor from 0");
    refused(NOTES.as_bytes(), &["--idle", "2s"], 2, "whole number");
    refused(NOTES.as_bytes(), &["--workload", "sqlite"], 2, "--workload");
    let missing = varve(&["replay", "/nowhere/at/all"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(words(&missing).contains("all cannot be opened"));
    let no_file = varve(&["compare", "--workload", "replay:", "--size", "64"]);
    assert!(
        words(&no_file).contains("varve replay FILE"),
        "{}",
        words(&no_file)
    );
}

/// Block requests made by hand; `work` tests what is read from it.
const BLOCKS: &str = include_str!("../../../work/tests/data/blocks-pixel.csv");

#[test]
fn block_requests_run_below_any_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("phone.csv"), dir.path().join("out"));
    fs::write(&file, BLOCKS).unwrap();
    let run = |more: &[&str]| -> (String, Value) {
        let output = varve(&[&["replay", text(&file), "--out", text(&out)], more].concat());
        let words = words(&output);
        assert_eq!(output.status.code(), Some(0), "{words}");
        let json = fs::read_to_string(out.join("trace.json")).unwrap();
        assert!(!json.contains(text(dir.path())), "{json}");
        assert!(
            fs::read_to_string(out.join("index.html"))
                .unwrap()
                .contains("phone.csv")
        );
        (words, serde_json::from_str(&json).unwrap())
    };
    let (said, counted) = run(&[]);
    assert!(said.contains("pixel (6 lines), 5 requests"), "{said}");
    assert_eq!(counted["schema"], 1);
    assert_eq!(counted["counted"].as_array().unwrap().len(), 4);
    assert_eq!(counted["counted"][0]["host_units"], 130);
    assert_eq!(counted["folded"]["bytes"], 64 << 20);
    assert!(counted.get("device").is_none(), "{counted}");
    let again = counted["reproduce"].as_str().unwrap().to_owned();
    let rest: Vec<&str> = again.split(' ').skip(3).collect();
    assert_eq!(run(&rest).1, counted, "{again}");
    let (said, timed) = run(&["--device", "emmc-odroid-xu4", "--pace", "none:2"]);
    assert!(
        said.contains("latency, us") && said.contains("requests/s"),
        "{said}"
    );
    assert_eq!(timed["device"]["requests"], 5);
    assert!(
        timed["device"]["latency_us"]["read"]["p50"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    let stats = varve(&["replay", "--stats", "--json", text(&file)]);
    let stats: Value = serde_json::from_slice(&stats.stdout).unwrap();
    assert_eq!(stats["stats"]["kinds"]["write"]["requests"], 3);
    assert!(words(&varve(&["replay", "--stats", text(&file)])).contains("footprint"));
}
