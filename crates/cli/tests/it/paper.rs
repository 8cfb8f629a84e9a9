//! `varve paper` as a user runs it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{command, words};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

fn varve(args: &[&str]) -> Output {
    command()
        .args(args)
        .env_remove("VARVE_TRACES")
        .output()
        .expect("the program starts")
}

fn quick(out: &Path, more: &[&str]) -> Output {
    let out = out.to_str().expect("the path is UTF-8");
    varve(&[&["paper", "emmc", "--quick", "--out", out][..], more].concat())
}

#[test]
fn same_seed_same_bytes_on_one_and_two_processes() {
    let mut files = Vec::new();
    for more in [["--jobs", "1"], ["--jobs", "2"]] {
        let dir = tempfile::tempdir().unwrap();
        let output = quick(dir.path(), &[&more[..], &["--only", "table4"]].concat());
        assert!(output.status.success(), "{}", words(&output));
        let read = |name| fs::read_to_string(dir.path().join(name)).unwrap();
        files.push((read("paper.json"), read("index.html")));
        as_junit(&read("junit.xml"), &read("paper.json"));
        let told = words(&output);
        assert!(
            told.contains("within") && told.contains("Table 4"),
            "{told}"
        );
    }
    assert_eq!(files[0], files[1], "one process and two");
    let (json, page) = &files[0];
    let report: Value = serde_json::from_str(json).unwrap();
    assert_eq!(
        (&report["schema"], &report["paper"]),
        (&3.into(), &"emmc".into())
    );
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 9 * 8, "nine rows of each app");
    let [plot] = &report["plots"].as_array().unwrap()[..] else {
        panic!("one figure: {}", report["plots"]);
    };
    assert_eq!(plot["title"], "Journal block ratio");
    let points = plot["points"].as_array().unwrap();
    let published = |point: &&Value| point["published"] == true;
    assert_eq!(points.iter().filter(published).count(), 2 * 8);
    assert_eq!(
        points.len(),
        (6 + 2) * 8,
        "six schemes, of which two are published"
    );
    let of_chrome = points
        .iter()
        .find(|p| published(p) && p["group"] == "chrome");
    let of_chrome = of_chrome.unwrap();
    assert_eq!(
        (&of_chrome["series"], &of_chrome["y"]),
        (&"jbd2".into(), &0.73.into())
    );
    let mut kinds = BTreeMap::new();
    for row in rows {
        let kind = row["kind"].as_str().unwrap();
        *kinds.entry(kind).or_insert(0) += 1;
        let judged = kind != "beyond";
        assert!(
            row["measured"].is_number() && row["within"].is_boolean() == judged,
            "{row}"
        );
        let tried = row["item"].as_str().unwrap().contains("coalition");
        if row["within"] == false && tried {
            assert!(row["experiments"][0]["verdict"] != Value::Null, "{row}");
        }
        assert!(row["note"].as_str().unwrap().contains("quick"), "{row}");
    }
    let wanted = [("beyond", 48), ("fitted", 8), ("predicted", 16)];
    assert_eq!(kinds, wanted.into(), "the baseline was fitted");
    let of = |kind: &str, what: &str| report["kinds"][kind][what].as_u64().unwrap();
    assert_eq!(of("fitted", "within") + of("fitted", "outside"), 8);
    let stands_in = |row: &&Value| {
        row["note"]
            .as_str()
            .unwrap()
            .contains("generator stands in")
    };
    assert_eq!(
        rows.iter().filter(stands_in).count(),
        9 * 2,
        "Facebook and Twitter"
    );
    let home = std::env::var("HOME").unwrap_or_else(|_| "/nowhere".into());
    for text in [json, page] {
        assert!(
            !text.contains("/tmp") && !text.contains(&home),
            "a path of this machine"
        );
    }
    assert!(page.starts_with("<!DOCTYPE html>") && !page.contains(" src=\""));
}

/// Servers of continuous integration see each row once: a failure is a difference that nothing
/// explains, and what is not compared is no success.
fn as_junit(xml: &str, json: &str) {
    let report: Value = serde_json::from_str(json).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let sum = |what: &str| report["summary"][what].as_u64().unwrap() as usize;
    let head = xml.lines().nth(1).unwrap();
    let count = |what: &str| {
        let (_, rest) = head.split_once(&format!("{what}=\"")).unwrap();
        rest.split('"').next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!(count("tests"), rows.len());
    assert_eq!(xml.matches("<testcase ").count(), rows.len());
    assert_eq!(count("failures"), sum("unexplained"), "{head}");
    assert_eq!(
        count("skipped"),
        rows.len() - sum("within") - sum("unexplained")
    );
    assert!(count("skipped") > 0, "{head}");
    assert!(!xml.contains("time="), "it holds no times");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let dir = tempfile::tempdir().unwrap();
    let gone = dir.path().join("gone");
    let gone = gone.to_str().unwrap();
    let cases: [(&[&str], &str); 8] = [
        (&["paper", "usenix"], "emmc"),
        (&["paper", "jftl", "--only", "fig99"], "fig7a"),
        (&["paper", "jftl", "--traces", gone], "leave it out"),
        (&["paper", "jftl", "--objects", "1000"], "leave it out"),
        (&["paper", "f2fsj", "--objects", "99"], "100 to 4000000"),
        (&["paper", "emmc", "--only", "fig99"], "fig13"),
        (&["paper", "emmc", "--traces", gone], "generators stand in"),
        (&["paper", "emmc", "--jobs", "0"], "--jobs"),
    ];
    for (args, wanted) in cases {
        let output = varve(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = words(&output);
        assert!(said.contains(wanted), "{args:?}: {said}");
    }
}

/// A recording that is cut short, or a folder without any, would give rows of another thing in
/// silence.
#[test]
fn recordings_that_are_cut_or_missing_are_refused_by_name() {
    let call = |n: u32| format!("7 {n} write 5 100\n");
    let whole: String = (0..4000).map(call).collect();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, whole.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let name = "mobibench-facebook.txt.gz";
    for (content, wanted) in [
        (None, "there is neither"),
        (Some(&packed[..packed.len() / 2]), name),
        (Some(&packed[..]), name),
        (Some(&b"twelve"[..]), name),
    ] {
        let dir = tempfile::tempdir().unwrap();
        content
            .into_iter()
            .for_each(|bytes| fs::write(dir.path().join(name), bytes).unwrap());
        let traces = dir.path().to_str().unwrap();
        for paper in ["emmc", "f2fsj"] {
            let output = varve(&["paper", paper, "--quick", "--traces", traces]);
            let said = words(&output);
            assert_eq!(output.status.code(), Some(2), "{said}");
            let told = said.contains(wanted) && said.contains("--traces");
            assert!(told && !said.contains("worker"), "{said}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_said_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let output = quick(&file, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        words(&output).contains("output folder"),
        "{}",
        words(&output)
    );
}

/// `paper.json` of a part, which is the same with one process and with two, as the page is.
fn the_same_on_one_process_and_two(paper: &str, part: &str, more: &[&str]) -> Value {
    let mut files = Vec::new();
    for jobs in ["1", "2"] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().to_str().unwrap();
        let line = [
            "paper", paper, "--quick", "--only", part, "--jobs", jobs, "--out", out,
        ];
        let output = varve(&[&line[..], more].concat());
        assert!(output.status.success(), "{}", words(&output));
        let read = |name| fs::read_to_string(dir.path().join(name)).unwrap();
        files.push((read("paper.json"), read("index.html")));
        as_junit(&read("junit.xml"), &read("paper.json"));
    }
    assert_eq!(files[0], files[1], "one process and two");
    let report: Value = serde_json::from_str(&files[0].0).unwrap();
    assert_eq!(report["paper"], paper);
    report
}

#[test]
fn the_jftl_paper_gives_the_same_bytes_on_one_and_two_processes() {
    let report = the_same_on_one_process_and_two("jftl", "recovery", &[]);
    let row = &report["rows"][0];
    assert!(
        row["bound"] == "least" && row["within"].is_boolean(),
        "{row}"
    );
}

/// Asserts it of a part of F2FSJ's paper that measures something.
fn f2fsj_is_the_same(part: &str, more: &[&str]) {
    let report = the_same_on_one_process_and_two("f2fsj", part, more);
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["measured"].is_number()));
}

#[test]
fn the_f2fsj_paper_gives_the_same_bytes_on_one_and_two_processes() {
    f2fsj_is_the_same("fig2", &["--objects", "400"]);
}

#[test]
#[ignore = "a minute: as many objects as a quick report has"]
fn the_overheads_of_f2fsj_are_the_same_bytes_on_one_and_two_processes() {
    f2fsj_is_the_same("overheads", &[]);
}
