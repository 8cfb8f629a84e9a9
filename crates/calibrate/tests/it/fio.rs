//! Outputs of fio: what is read from them, and what is left out.

use proptest::prelude::*;
use serde_json::{Value, json};
use varve_calibrate::{Probe, fio};

fn percentiles(us: f64) -> Value {
    let points = [(1, 0.9), (10, 0.95), (50, 1.0), (90, 1.1), (99, 2.0)];
    let map = points.map(|(p, f)| (format!("{p}.000000"), json!(us * f * 1000.0)));
    Value::Object(map.into_iter().collect())
}

fn job(name: &str, options: Value, read: f64, write: f64, sync: f64) -> Value {
    let direction = |us: f64| json!({ "total_ios": 900, "iops": 1e6 / us.max(1e-9), "clat_ns": { "percentile": percentiles(us) } });
    json!({
        "jobname": name, "error": 0, "job options": options,
        "read": direction(read), "write": direction(write),
        "sync": { "total_ios": 900, "lat_ns": { "percentile": percentiles(sync) } },
    })
}

fn output(jobs: &[Value]) -> String {
    let all = json!({ "fio version": "fio-3.39", "global options": { "direct": "1", "ioengine": "psync" }, "jobs": jobs });
    format!("note: both iodepth >= 1 and synchronous I/O engine are selected\n{all}\n")
}

#[test]
fn a_job_is_what_its_options_say() {
    let run = fio::read(&output(&[
        job(
            "a",
            json!({ "rw": "randwrite", "bs": "16k", "fdatasync": "1" }),
            0.0,
            200.0,
            1500.0,
        ),
        job(
            "b",
            json!({ "rw": "randwrite", "bs": "4096", "sync": "dsync" }),
            0.0,
            900.0,
            0.0,
        ),
        job(
            "c",
            json!({ "rw": "randread", "bs": "4k", "iodepth": "32", "ioengine": "io_uring" }),
            10.0,
            0.0,
            0.0,
        ),
        job(
            "d",
            json!({ "rw": "write", "bs": "4k", "fsync": "1" }),
            0.0,
            120.0,
            700.0,
        ),
        job("e", json!({ "rw": "randrw", "bs": "4k" }), 1.0, 1.0, 1.0),
        job(
            "f",
            json!({ "rw": "randread", "bs": "4k", "direct": "0" }),
            1.0,
            1.0,
            1.0,
        ),
        job(
            "g",
            json!({ "rw": "randread", "bs": "4k-64k" }),
            1.0,
            1.0,
            1.0,
        ),
    ]))
    .unwrap();
    assert_eq!(run.version, "fio-3.39");
    let us: Vec<(Probe, u64)> = run
        .seen
        .iter()
        .map(|(p, e)| (*p, e.us.round() as u64))
        .collect();
    assert_eq!(
        us,
        [
            (Probe::Write { kib: 16 }, 200),
            (Probe::InLine { kib: 4 }, 120),
            (Probe::Flush { kib: 16 }, 1500),
            (Probe::Durable { kib: 4 }, 900),
            (Probe::Reads { depth: 32 }, 10),
        ]
    );
    let why = run.left_out.join("\n");
    assert!(
        why.contains("job e: rw=randrw")
            && why.contains("job f: direct=1")
            && why.contains("job g: bs=4k-64k"),
        "{why}"
    );
}

#[test]
fn a_job_with_other_requests_beside_is_named_and_left_out() {
    let reads = |name, options: Value| {
        let mut all = json!({ "rw": "randread", "bs": "4k", "iodepth": "32" });
        let more = options.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(more);
        job(name, all, 10.0, 0.0, 0.0)
    };
    let run = fio::read(&output(&[
        // The engine of all jobs here is psync.
        reads("a", json!({})),
        reads("b", json!({ "ioengine": "io_uring", "numjobs": "8" })),
        reads("c", json!({ "ioengine": "libaio", "numjobs": "1" })),
    ]))
    .unwrap();
    let probes: Vec<&Probe> = run.seen.keys().collect();
    assert_eq!(probes, [&Probe::Reads { depth: 32 }]);
    let why = run.left_out.join("\n");
    assert!(
        why.contains("job a: iodepth=32 with ioengine=psync"),
        "{why}"
    );
    assert!(why.contains("job b: numjobs=8"), "{why}");
    assert_eq!(run.left_out.len(), 2, "{why}");
}

#[test]
fn durable_writes_that_are_a_write_and_a_flush_are_no_reliable_writes() {
    let durable = |us: f64| {
        let write = json!({ "rw": "randwrite", "bs": "4k", "fdatasync": "1" });
        let durable = json!({ "rw": "randwrite", "bs": "4k", "sync": "dsync" });
        let jobs = [
            job("w", write, 0.0, 200.0, 1500.0),
            job("d", durable, 0.0, us, 0.0),
        ];
        let run = fio::read(&output(&jobs)).unwrap();
        (
            run.seen.contains_key(&Probe::Durable { kib: 4 }),
            run.left_out,
        )
    };
    assert_eq!(durable(900.0), (true, Vec::new()));
    let (seen, left_out) = durable(1650.0);
    assert!(!seen && left_out[0].contains("queue/fua"), "{left_out:?}");
}

#[test]
fn what_is_no_output_is_refused_with_what_to_do() {
    for text in ["", "WRITE: bw=1MiB/s", "{\"jobs\": 3}", "{"] {
        let why = fio::read(text).unwrap_err().to_string();
        assert!(why.contains("--output-format=json"), "{why}");
    }
    let nothing = fio::read(&output(&[job("x", json!({ "rw": "trim" }), 1.0, 1.0, 1.0)]));
    let why = nothing.unwrap_err().to_string();
    assert!(why.contains("job x") && why.contains("rw=trim"), "{why}");
}

#[test]
fn each_job_of_our_file_is_one_that_we_read() {
    let (mut sections, mut global) = (Vec::new(), serde_json::Map::new());
    for line in fio::JOB
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
    {
        if let Some(name) = line.strip_prefix('[') {
            sections.push((
                name.trim_end_matches(']').to_string(),
                serde_json::Map::new(),
            ));
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "1"));
        let section = sections.last_mut().unwrap();
        let map = if section.0 == "global" {
            &mut global
        } else {
            &mut section.1
        };
        map.insert(key.into(), json!(value));
    }
    let jobs: Vec<Value> = sections
        .iter()
        .filter(|s| s.0 != "global")
        .map(|(name, options)| {
            let mut options = options.clone();
            for (k, v) in &global {
                options.entry(k).or_insert(v.clone());
            }
            job(name, Value::Object(options), 5.0, 6.0, 7.0)
        })
        .collect();
    let run = fio::read(&output(&jobs)).unwrap();
    assert_eq!(run.left_out, Vec::<String>::new());
    // Four jobs measure two things each.
    assert_eq!(run.seen.len(), jobs.len() + 4);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}", rw in "\\PC{0,12}", bs in "[0-9a-zA-Z-]{0,12}", us in any::<f64>()) {
        let _ = fio::read(&text);
        let options = json!({ "rw": rw, "bs": bs, "fdatasync": "1" });
        let _ = fio::read(&output(&[job(&text, options, us, us, us)]));
    }
}
