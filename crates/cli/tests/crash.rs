//! `varve crash` as people call it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::path::Path;
use std::process::{Command, Output};

fn varve(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_varve"))
        .arg("crash")
        .args(args)
        .arg("--out")
        .arg(folder)
        .output()
        .expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SMALL: [&str; 4] = ["--workload", "mix", "--states", "32"];

#[test]
fn the_number_of_workers_does_not_show() {
    let folder = tempfile::tempdir().unwrap();
    let results = ["1", "3"].map(|jobs| {
        let out = folder.path().join(jobs);
        let mut args = SMALL.to_vec();
        args.extend([
            "--schemes",
            "jbd2,emmc,none",
            "--seed",
            "1,2",
            "--jobs",
            jobs,
        ]);
        let output = varve(&out, &args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let names = ["results.json", "index.html", "junit.xml"];
        names.map(|name| std::fs::read_to_string(out.join(name)).expect(name))
    });
    assert_eq!(results[0], results[1]);
}

#[test]
fn shards_make_up_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let judged = |shard: Option<&str>| {
        let mut args = SMALL.to_vec();
        args.extend(["--schemes", "jbd2,emmc", "--seed", "1,2", "--json"]);
        args.extend(shard.iter().flat_map(|s| ["--shard", s]));
        let output = varve(folder.path(), &args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let cases = results["cases"].as_array().unwrap().clone();
        cases
            .into_iter()
            .map(|case| (case["number"].as_u64().unwrap(), case))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    let whole = judged(None);
    let mut parts = judged(Some("1/3"));
    parts.append(&mut judged(Some("2/3")));
    parts.append(&mut judged(Some("3/3")));
    assert_eq!(whole, parts);
    assert_eq!(whole.len(), 4);
}

#[test]
fn a_control_without_damage_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    // Nothing but a pause: nobody can lose anything.
    let output = varve(
        folder.path(),
        &["--schemes", "none", "--workload", "script:pause 1000"],
    );
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(
        text(&output.stderr).contains("blind"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (args, words) in [
        (&["--schemes", "jbd3"][..], &["jbd3"][..]),
        (&["--device", "spec:floppy"], &["spec:floppy", "emmc"]),
        (&["--device", "floppy"], &["floppy"]),
        (
            &["--workload", "script:create /a; wrote /a 0+1"],
            &["line 1", "column"],
        ),
        (&["--shard", "4/3"], &["4/3"]),
        (&["--repro", "hello"], &["hello"]),
        (&["--quick", "--workload", "mix"], &["--quick"]),
        (&["--mutants"], &["cargo xtask mutants"]),
        (
            &["--schemes", "emmc+full-first=off", "--device", "spec:disk"],
            &["full-first"],
        ),
    ] {
        let output = varve(folder.path(), args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(words.iter().all(|w| error.contains(w)), "{args:?}: {error}");
    }
}
