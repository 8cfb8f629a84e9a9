//! What workers make in parts is what one process makes.

use super::{Camp, SMALL, TWO, all, forge};
use crate::program::tool;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The files that a command writes itself are equal in both folders; a merge adds its own.
fn same(own: &Path, merged: &Path, added: &[&str]) {
    let own = all(own);
    let merged = all(merged);
    let (extra, rest): (Vec<_>, Vec<_>) = merged
        .into_iter()
        .partition(|(name, _)| added.contains(&name.as_str()));
    assert_eq!(extra.len(), added.len());
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&own), names(&rest));
    for (own, rest) in own.iter().zip(&rest) {
        assert!(own == rest, "{} differs", own.0);
    }
}

#[test]
fn a_comparison_a_crash_and_a_paper_have_the_bytes_of_one_process() {
    let runs = ["runs.parquet", "runs.csv", "junit.xml"];
    let cases = ["cases.parquet", "cases.csv"];
    let rows = ["rows.parquet", "rows.csv", "points.parquet", "points.csv"];
    let crash = [
        "crash",
        "--schemes",
        "jbd2,none",
        "--workload",
        "ace:1,every=30",
    ];
    let paper = ["paper", "emmc", "--quick", "--only", "table4"];
    for (spec, added) in [(&TWO[..], &runs[..]), (&crash, &cases), (&paper, &rows)] {
        let camp = Camp::new();
        camp.plan(spec);
        camp.good(&[spec, &["--out", "own"]].concat());
        for share in ["1/3", "2/3", "3/3"] {
            camp.work("store", &["--share", share]);
        }
        camp.merge("store", "merged");
        same(&camp.path("own"), &camp.path("merged"), added);
        if added.contains(&"points.csv") {
            every_point_has_its_row(&camp);
        }
    }
}

#[test]
fn a_long_case_in_parts_has_the_bytes_of_one_process() {
    let line = [
        "crash",
        "--schemes",
        "jbd2,none",
        "--workload",
        "mix:ops=25",
    ];
    let camp = Camp::new();
    camp.plan(&[&["--job-seconds", "0.05"][..], &line].concat());
    camp.good(&[&line[..], &["--out", "own"]].concat());
    let parts = camp.read("plan.jsonl").matches("\"part\":{").count();
    assert!(parts > 4, "{parts} parts");
    // The last part of a case is missing: the case is.
    camp.work("store", &["--jobs", &format!("1-{}", parts - 1)]);
    let said = camp.fails(&Camp::line("merge", "store", &["--out", "early"]), 1);
    assert!(said.contains("1 results are missing"), "{said}");
    camp.good(&Camp::line(
        "merge",
        "store",
        &["--partial", "--out", "early"],
    ));
    assert!(camp.read("early/cases.csv").contains(",missing,"));
    camp.work("store", &[]);
    camp.merge("store", "merged");
    same(
        &camp.path("own"),
        &camp.path("merged"),
        &["cases.parquet", "cases.csv"],
    );
    let cases = camp.read("merged/cases.csv").lines().count();
    assert!(cases - 1 < parts, "{cases} rows of cases, {parts} parts");
}

/// The table of points has those of the figures of `paper.json`, the published ones among them.
fn every_point_has_its_row(camp: &Camp) {
    let report: Value = serde_json::from_str(&camp.read("merged/paper.json")).unwrap();
    let plots = report["plots"].as_array().unwrap();
    let points = plots
        .iter()
        .flat_map(|plot| plot["points"].as_array().unwrap());
    let points: Vec<&Value> = points.collect();
    let table = camp.read("merged/points.csv");
    assert_eq!(table.lines().count(), points.len() + 1);
    let published = points.iter().filter(|point| point["published"] == true);
    let told = table
        .lines()
        .filter(|line| line.contains("true,jbd2,facebook"));
    assert_eq!(published.count(), 16, "two ratios of eight apps");
    assert_eq!(told.count(), 1, "{table}");
}

#[test]
fn a_sweep_in_two_stores_that_are_synced_is_each_comparison_as_it_is() {
    let camp = Camp::new();
    fs::write(
        camp.path("sweep.toml"),
        format!(
            "command = 'compare'\n[options]\nschemes = ['jbd2', 'emmc']\nsize = 64\nworkload = '{SMALL}'\n[sweep]\nseed = '1-3'\n"
        ),
    )
    .unwrap();
    camp.plan(&["sweep.toml"]);
    camp.work("here", &["--jobs", "1-4"]);
    camp.work("there", &["--job", "5"]);
    camp.work("there", &["--job", "6"]);
    let why = camp.fails(&Camp::line("merge", "here", &[]), 1);
    assert!(why.contains("2 results are missing"), "{why}");
    sync(&camp.path("there"), &camp.path("here"));
    // Job 1 was left for a second run to whoever comes last.
    camp.work("here", &[]);
    camp.merge("here", "out");
    let text = camp.read("out/results.json");
    let merged: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(merged["comparisons"].as_array().unwrap().len(), 3);
    for (n, seed) in ["1", "2", "3"].iter().enumerate() {
        let out = format!("own{seed}");
        camp.good(&[&TWO[..], &["--seed", seed, "--out", &out]].concat());
        let own = camp.read(&format!("{out}/results.json"));
        assert!(text.contains(own.trim_end()), "seed {seed}");
        let own: Value = serde_json::from_str(&own).unwrap();
        assert_eq!(merged["comparisons"][n], own);
    }
    let csv = camp.read("out/runs.csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 7);
    assert!(lines[0].starts_with("job,state,seed,workload,device.profile,timing,"));
    assert!(lines[6].starts_with("6,done,3,"), "{}", lines[6]);
    assert!(
        camp.read("out/index.html")
            .contains("6 runs in 3 comparisons")
    );
    assert_eq!(camp.read("out/junit.xml").matches("<testcase").count(), 6);
    let parquet = fs::read(camp.path("out/runs.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
}

/// Brings all results of a store to another, by rsync where it is installed.
fn sync(from: &Path, to: &Path) {
    let mut rsync = tool("rsync");
    let from_all = format!("{}/", from.display());
    if rsync
        .arg("-a")
        .arg(from_all)
        .arg(to)
        .status()
        .is_ok_and(|s| s.success())
    {
        return;
    }
    eprintln!("skipped: rsync is not installed, so files are copied");
    for group in fs::read_dir(from.join("results")).unwrap() {
        let group = group.unwrap().path();
        let folder = to.join("results").join(group.file_name().unwrap());
        fs::create_dir_all(&folder).unwrap();
        for file in fs::read_dir(&group).unwrap() {
            let file = file.unwrap().path();
            fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
        }
    }
}

#[test]
fn two_plans_share_a_store_and_what_both_ask_for_runs_once() {
    let camp = Camp::new();
    camp.plan_as(
        "other.jsonl",
        &[
            "compare",
            "--schemes",
            "emmc,none",
            "--size",
            "64",
            "--workload",
            SMALL,
        ],
    );
    camp.plan(&TWO);
    let said = camp.work("store", &[]);
    assert!(said.contains("2 made here"), "{said}");
    let other = [
        "campaign",
        "work",
        "--plan",
        "other.jsonl",
        "--store",
        "store",
    ];
    let said = camp.good(&other);
    assert!(said.contains("1 made here, 1 were there"), "{said}");
    camp.merge("store", "out");
    assert_eq!(camp.read("out/runs.csv").lines().count(), 3);
}

#[test]
fn what_a_plan_names_twice_runs_once_and_has_a_row_each_time() {
    let camp = Camp::new();
    // Two of these cases are the same.
    let line = ["crash", "--schemes", "jbd2", "--workload", "known:all"];
    camp.plan(&line);
    let ids = camp.plan_ids();
    let jobs = ids.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!(jobs + 1, ids.len());
    let said = camp.work("store", &["--workers", "2"]);
    assert!(
        said.contains(&format!("{jobs} made here, 0 were there")),
        "{said}"
    );
    camp.merge("store", "merged");
    camp.good(&[&line[..], &["--out", "own"]].concat());
    assert_eq!(
        camp.read("own/results.json"),
        camp.read("merged/results.json")
    );
}

#[test]
fn the_commands_take_what_is_in_a_store() {
    let crash = [
        "crash",
        "--schemes",
        "jbd2",
        "--workload",
        "ace:1,every=60",
        "--json",
    ];
    let paper = ["paper", "emmc", "--quick", "--only", "table4", "--json"];
    let compare = [&TWO[..], &["--json"]].concat();
    let marks = [
        (&compare[..], "\"ops\":22", "\"ops\":23", "\"ops\": 23"),
        (&crash, "\"points\":", "\"points\":777", "\"points\": 777"),
    ];
    for (line, text, forged, shown) in marks {
        let camp = Camp::new();
        let with = [line, &["--store", "store"]].concat();
        let plain = camp.good(line);
        assert_eq!(camp.good(&with), plain, "the store changes nothing");
        assert_eq!(camp.good(&with), plain, "nor does what is in it");
        camp.unpack("store");
        for file in camp.files("store", "results") {
            forge(&file, |result| result.replace(text, forged));
        }
        let taken = camp.good(&with);
        assert!(taken.contains(shown), "results were not taken: {taken}");
    }
    let camp = Camp::new();
    let with = [&paper[..], &["--store", "store"]].concat();
    assert_eq!(camp.good(&with), camp.good(&paper));
    camp.unpack("store");
    let files = camp.files("store", "results");
    fs::remove_file(&files[0]).unwrap();
    let before = fs::metadata(&files[1]).unwrap().modified().unwrap();
    camp.good(&with);
    assert!(files[0].exists(), "what was missing is made");
    assert_eq!(fs::metadata(&files[1]).unwrap().modified().unwrap(), before);
    let refused = camp.fails(&["compare", "--store", "s", "--trace-out", "t"], 2);
    assert!(refused.contains("cannot be used with"), "{refused}");
}
