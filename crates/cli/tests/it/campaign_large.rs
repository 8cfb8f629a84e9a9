//! Merges of stores with many results need memory that a desk has: 10 million rows less than 2 GiB.
//!
//! A plan of real cases is made, those of one seed run, and their results are put into the store
//! under the ids of all other seeds, by the code with which a worker puts them and in an order in
//! which it would. `VARVE_ROWS` is the number of jobs; below 10 million the growth from a tenth of
//! them on says what those would take. A row needs some 3 KB of disk, 0.1 of it in the store.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::command;
use crate::store::{By, Run, Store};
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// What has to fit into [`BYTES_MAX`].
const ROWS: u64 = 10_000_000;
const BYTES_MAX: u64 = 2 << 30;
/// Rows where the environment names no other number.
const ROWS_DEFAULT: u64 = 1_000_000;
/// Most bytes of a row in the store.
const ROW_MAX: u64 = 200;
/// Cases of a seed: scripts of one operation, under two schemes.
const CASES: u64 = 1242;
/// Jobs that a worker makes one behind the other before it goes on elsewhere in the plan.
const TOGETHER: usize = 64;

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
    let place = |name: &str| dir.path().join(name);
    let began = Instant::now();
    plan(&place("plan"), rows.div_ceil(CASES));
    let results = results(dir.path());
    let jobs = fill(&place("plan"), &place("store"), &results);
    assert!(jobs >= rows);
    let stored = bytes(&place("store"));
    eprintln!(
        "{jobs} rows: {} bytes of the plan and {} of the store for each, made in {:.0} s",
        bytes(&place("plan")) / jobs,
        stored / jobs,
        began.elapsed().as_secs_f64()
    );
    assert!(stored / jobs < ROW_MAX, "{} bytes a row", stored / jobs);
    let began = Instant::now();
    let mut merge = command();
    merge
        .args(["campaign", "merge", "--plan"])
        .arg(place("plan"));
    merge.arg("--store").arg(place("store"));
    merge.arg("--out").arg(place("out")).stdout(Stdio::null());
    let peak = peak(merge.spawn().unwrap());
    whole(&place("out"), jobs);
    eprintln!(
        "{jobs} rows: at most {} MiB of memory, {} bytes of reports for each, merged in {:.0} s",
        peak >> 20,
        bytes(&place("out")) / jobs,
        began.elapsed().as_secs_f64()
    );
    peak
}

/// Writes a plan of the cases of so many seeds, compressed.
fn plan(path: &Path, seeds: u64) {
    let seeds: Vec<String> = (1..=seeds).map(|n| n.to_string()).collect();
    let line = ["campaign", "plan", "crash", "--schemes", "jbd2,emmc"];
    let of = ["--workload", "ace:1", "--seed"];
    let mut planned = command();
    planned.args(line).args(of).arg(seeds.join(","));
    let mut child = planned.stdout(Stdio::piped()).spawn().unwrap();
    let mut zipped = GzEncoder::new(File::create(path).unwrap(), Compression::fast());
    std::io::copy(&mut child.stdout.take().unwrap(), &mut zipped).unwrap();
    zipped.finish().unwrap().sync_all().unwrap();
    assert!(child.wait().unwrap().success());
}

/// The results of the cases of one seed, in the order of their plan.
fn results(dir: &Path) -> Vec<String> {
    plan(&dir.join("one"), 1);
    let mut work = command();
    work.args(["campaign", "work", "--plan"])
        .arg(dir.join("one"));
    let worked = work.arg("--store").arg(dir.join("few")).output().unwrap();
    assert!(worked.status.success(), "{worked:?}");
    let store = Store::existing(&dir.join("few")).unwrap();
    let result = |id: String| store.get(&id, Run::First).unwrap().unwrap().text;
    let results: Vec<String> = ids(&dir.join("one")).map(result).collect();
    assert_eq!(results.len() as u64, CASES);
    results
}

/// The ids of the jobs of a plan.
fn ids(plan: &Path) -> impl Iterator<Item = String> {
    let file = BufReader::new(File::open(plan).unwrap());
    let lines = BufReader::with_capacity(1 << 20, GzDecoder::new(file)).lines();
    lines.filter_map(|line| {
        let line = line.unwrap();
        let (_, rest) = line.split_once("\"id\":\"")?;
        Some(rest[..32].to_string())
    })
}

/// Puts results into the store under the ids of all jobs, as workers do; the number of jobs.
fn fill(plan: &Path, store: &Path, results: &[String]) -> u64 {
    let store = Store::open(store).unwrap();
    let jobs: Vec<u128> = ids(plan)
        .map(|id| u128::from_str_radix(&id, 16).unwrap())
        .collect();
    let mut groups: Vec<usize> = (0..jobs.len().div_ceil(TOGETHER)).collect();
    groups.sort_by_cached_key(|group| *blake3::hash(&group.to_le_bytes()).as_bytes());
    for group in groups {
        let first = group * TOGETHER;
        for (job, number) in jobs[first..].iter().take(TOGETHER).zip(first..) {
            let (id, text) = (format!("{job:032x}"), &results[number % results.len()]);
            let by = By {
                worker: "node7/12345".into(),
                seconds: (10 + job % 20) as f64 / 1e3,
            };
            store.put_soon(&id, &by, text).unwrap();
            // One in a hundred runs twice.
            if number == 0 || u32::from_str_radix(&id[..8], 16).unwrap() % 100 == 0 {
                store.put(&id, Run::Second, &by, text).unwrap();
            }
        }
    }
    store.settle().unwrap();
    jobs.len() as u64
}

/// All reports are there, and whole at their ends.
fn whole(out: &Path, jobs: u64) {
    let ends = |name: &str, with: &str| {
        let mut file = File::open(out.join(name)).unwrap();
        let length = file.metadata().unwrap().len();
        let from = length.saturating_sub(40);
        file.seek(SeekFrom::Start(from)).unwrap();
        let mut end = String::new();
        file.read_to_string(&mut end).unwrap();
        assert!(end.ends_with(with), "{name}: {end}");
    };
    ends("results.json", "\n  ]\n}\n");
    ends("junit.xml", "</testsuites>\n");
    let csv = BufReader::new(File::open(out.join("cases.csv")).unwrap());
    assert_eq!(csv.lines().count() as u64, jobs + 1);
}

/// The bytes of a file, or of all files of a folder and those below.
fn bytes(path: &Path) -> u64 {
    match path.is_dir() {
        true => {
            let entries = fs::read_dir(path).unwrap();
            entries.map(|entry| bytes(&entry.unwrap().path())).sum()
        }
        false => fs::metadata(path).unwrap().len(),
    }
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
