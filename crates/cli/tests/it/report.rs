//! `varve report A B` as a user runs it.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{varve, words};
use serde_json::{Value, json};
use std::path::Path;

fn results(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("results.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What `report` says of `a` and of `a` with changes, with its exit code.
fn judged(a: &Path, changed: &Value, more: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let b = folder.path().join("b.json");
    std::fs::write(&b, changed.to_string()).unwrap();
    let mut args = vec!["report", a.to_str().unwrap(), b.to_str().unwrap()];
    args.extend(more);
    let out = varve(&args);
    (out.status.code().unwrap(), words(&out))
}

#[test]
fn a_result_that_is_worse_has_an_exit_code_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = varve(&[
        "compare",
        "--out",
        folder.path().to_str().unwrap(),
        "--schemes",
        "jbd2,emmc",
        "--workload",
        "fsync:count=20",
        "--size",
        "64",
    ]);
    assert!(out.status.success(), "{}", words(&out));
    let a = folder.path();
    let good = results(a);
    let (code, said) = judged(a, &good, &[]);
    assert!(code == 0 && said.contains("ext4/emmc"), "{said}");

    let rate = good["runs"][1]["ops_per_s"].as_f64().unwrap();
    let mut slower = good.clone();
    slower["runs"][1]["ops_per_s"] = json!(rate * 0.9);
    let (code, said) = judged(a, &slower, &[]);
    assert!(code == 1 && said.contains("ext4/emmc: ops/s"), "{said}");
    let (code, said) = judged(a, &slower, &["--json"]);
    let document = said.split("varve: ").next().unwrap();
    let document: Value = serde_json::from_str(document).unwrap();
    let rates = &document["runs"][1]["figures"][0];
    assert!(code == 1 && rates["worse"] == true, "{document}");
    assert_eq!(rates["before"], json!(rate), "{document}");
    assert_eq!(judged(a, &slower, &["--tolerance", "11"]).0, 0);
    assert_eq!(judged(a, &slower, &["--tolerance", "-1"]).0, 2);
    let mut faster = good.clone();
    faster["runs"][1]["ops_per_s"] = json!(rate * 1.1);
    assert_eq!(judged(a, &faster, &[]).0, 0);

    let due = good["runs"][0]["wear"]["erases_due"].as_f64().unwrap();
    let mut wearing = good.clone();
    wearing["runs"][0]["wear"]["erases_due"] = json!(due * 1.03);
    let (code, said) = judged(a, &wearing, &[]);
    assert!(
        code == 1 && said.contains("ext4/jbd2: erases due"),
        "{said}"
    );

    for (path, figure) in [
        ("/runs/0/latency_us/fsync/max", "max us"),
        ("/runs/0/latency_us/fsync/mean", "fsync mean us"),
        ("/runs/0/energy_j/device", "mJ/op"),
    ] {
        let mut more = good.clone();
        let place = more.pointer_mut(path).unwrap();
        *place = json!(place.as_f64().unwrap() * 1.03);
        let (code, said) = judged(a, &more, &[]);
        assert!(
            code == 1 && said.contains(&format!("ext4/jbd2: {figure}")),
            "{said}"
        );
    }
    let mut silent = good.clone();
    silent["runs"][0]["wear"] = Value::Null;
    let (code, said) = judged(a, &silent, &[]);
    assert!(
        code == 1 && said.contains("lacks erases due/1000 op of ext4/jbd2"),
        "{said}"
    );
    let mut larger = good.clone();
    larger["runs"][0]["wear"]["blocks"] = json!(999);
    let (_, said) = judged(a, &larger, &[]);
    assert!(said.contains("number of flash blocks differs"), "{said}");

    let mut fewer = good.clone();
    fewer["runs"].as_array_mut().unwrap().pop();
    let (code, said) = judged(a, &fewer, &[]);
    assert!(code == 1 && said.contains("lacks ext4/emmc"), "{said}");

    let mut other = good.clone();
    other["runs"][0]["workload"] = json!("sqlite");
    let (code, said) = judged(a, &other, &[]);
    assert!(code == 2 && said.contains("different workloads"), "{said}");

    let mut seeded = good.clone();
    seeded["seed"] = json!(2);
    let (code, said) = judged(a, &seeded, &[]);
    assert!(
        code == 0 && said.contains("seed differs: 1 and 2"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_compared_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    let a = path.to_str().unwrap();
    for (text, said) in [
        ("{}", "schema"),
        ("no json", "no results of varve compare"),
        ("{\"schema\": 7}", "it has schema 7"),
        ("{\"schema\": 1}", "no results of varve compare"),
    ] {
        std::fs::write(&path, text).unwrap();
        let out = varve(&["report", a, a]);
        assert_eq!(out.status.code(), Some(2), "{text}");
        assert!(words(&out).contains(said), "{}", words(&out));
    }
    let out = varve(&["report", "/nowhere", a]);
    assert_eq!(out.status.code(), Some(2));
}
