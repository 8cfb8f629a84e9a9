//! Merges of stores with many results need memory that a desk has: 10 million rows less than 2 GiB.
//!
//! A plan of real cases is made, one of them runs, and its result is put into the store under the
//! id of every job, as a worker would have packed it. `VARVE_ROWS` is the number of jobs; below 10
//! million the growth from a tenth of them on says what those would take. It needs about 5 KB of
//! disk for each row.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::command;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// What has to fit into [`BYTES_MAX`].
const ROWS: u64 = 10_000_000;
const BYTES_MAX: u64 = 2 << 30;
/// Rows where the environment names no other number.
const ROWS_DEFAULT: u64 = 1_000_000;
/// Bytes of a pack, as a worker makes them.
const PACK: usize = 4 << 20;
/// Cases of a seed: scripts of one operation, under two schemes.
const CASES: u64 = 1242;

#[test]
fn ten_million_rows_merge_in_two_gibibytes() {
    let rows = std::env::var("VARVE_ROWS").map_or(ROWS_DEFAULT, |text| {
        text.parse().expect("VARVE_ROWS is a number of rows")
    });
    let whole = merged(rows);
    let peak = match rows >= ROWS {
        true => whole,
        false => {
            let tenth = merged(rows / 10);
            let growth = whole.saturating_sub(tenth) as f64 / (rows - rows / 10) as f64;
            eprintln!("{growth:.1} bytes for each further row");
            whole + (growth * (ROWS - rows) as f64) as u64
        }
    };
    eprintln!("{ROWS} rows: {} MiB", peak >> 20);
    assert!(peak < BYTES_MAX, "{} MiB", peak >> 20);
}

/// Makes a store of about so many results and merges it: the most memory that the merge had.
fn merged(rows: u64) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let seeds: Vec<String> = (1..=rows.div_ceil(CASES)).map(|n| n.to_string()).collect();
    let plan = dir.path().join("plan.jsonl");
    let line = ["campaign", "plan", "crash", "--schemes", "jbd2,none"];
    let of = ["--workload", "ace:1", "--seed"];
    let mut planned = command();
    planned.args(line).args(of).arg(seeds.join(","));
    planned.stdout(File::create(&plan).unwrap());
    assert!(planned.status().unwrap().success());
    let store = dir.path().join("store");
    let begun = command()
        .args(["campaign", "work", "--plan"])
        .arg(&plan)
        .args(["--job", "1", "--store"])
        .arg(&store)
        .output()
        .unwrap();
    assert!(begun.status.success(), "{begun:?}");
    let jobs = fill(&plan, &store);
    assert!(jobs >= rows);
    let out = dir.path().join("out");
    let mut merge = command();
    merge.args(["campaign", "merge", "--plan"]).arg(&plan);
    merge.arg("--store").arg(&store).arg("--out").arg(&out);
    merge.stdout(Stdio::null());
    let peak = peak(merge.spawn().unwrap());
    // All of it is there, and whole at its end.
    let ends = |name: &str, with: &str| {
        let mut file = File::open(out.join(name)).unwrap();
        let length = file.metadata().unwrap().len();
        file.seek(SeekFrom::Start(length.saturating_sub(40)))
            .unwrap();
        let mut end = String::new();
        file.read_to_string(&mut end).unwrap();
        assert!(end.ends_with(with), "{name}: {end}");
        length
    };
    ends("results.json", "\n  ]\n}\n");
    ends("junit.xml", "</testsuites>\n");
    let csv = BufReader::new(File::open(out.join("cases.csv")).unwrap());
    assert_eq!(csv.lines().count() as u64, jobs + 1);
    eprintln!("{jobs} rows: at most {} MiB of memory", peak >> 20);
    peak
}

/// Puts the result of the first job into the store under the id of each; the number of jobs.
fn fill(plan: &Path, store: &Path) -> u64 {
    let first = fs::read_dir(store.join("results")).unwrap().next();
    let group = first.expect("one result").unwrap().path();
    let file = fs::read_dir(&group).unwrap().next().expect("it").unwrap();
    let whole = fs::read_to_string(file.path()).unwrap();
    let text = whole.split_once('\n').unwrap().1;
    fs::remove_file(file.path()).unwrap();
    let sum = blake3::hash(text.as_bytes()).to_hex().to_string();
    let (mut jobs, mut pack, mut bytes) = (0, Vec::new(), 0);
    for line in BufReader::with_capacity(1 << 20, File::open(plan).unwrap()).lines() {
        let line = line.unwrap();
        let Some((_, rest)) = line.split_once("\"id\":\"") else {
            continue;
        };
        let id = rest[..32].to_string();
        jobs += 1;
        let head = json!({"varve_result": 1, "id": id, "bytes": text.len(), "sum": sum,
            "worker": "synthetic/1", "seconds": 0.017});
        let result = format!("{head}\n{text}");
        // One in a hundred runs twice.
        if jobs == 1 || u32::from_str_radix(&id[..8], 16).unwrap() % 100 == 0 {
            let folder = store.join("again").join(&id[..2]);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(&id), &result).unwrap();
        }
        bytes += result.len();
        pack.push((id, result));
        if bytes >= PACK {
            write_pack(store, &std::mem::take(&mut pack));
            bytes = 0;
        }
    }
    write_pack(store, &pack);
    jobs
}

fn write_pack(store: &Path, results: &[(String, String)]) {
    let entries: Vec<Value> = results
        .iter()
        .map(|(id, result)| json!([id, result.len()]))
        .collect();
    let mut text = json!({"varve_pack": 1, "entries": entries}).to_string();
    for (_, result) in results {
        text.push('\n');
        text.push_str(result);
    }
    text.push('\n');
    let name = blake3::hash(text.as_bytes()).to_hex().to_string();
    let folder = store.join("packs");
    fs::create_dir_all(&folder).unwrap();
    let mut file = File::create(folder.join(&name[..32])).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Waits for the program: the most memory that it had, as the kernel counts it (`VmHWM`).
fn peak(mut child: std::process::Child) -> u64 {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) << 10);
        match child.try_wait().unwrap() {
            // What `none` loses is damage that is expected.
            Some(ended) => {
                assert!(ended.code().is_some(), "{ended}");
                return peak;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
