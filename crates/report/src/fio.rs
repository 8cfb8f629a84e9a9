//! A run in the JSON that fio writes (`--output-format=json+`), so that programs which plot results
//! of fio read it.
//!
//! What fio has no word for is said in its words: an operation of the workload is a request of one
//! direction, a kind that begins with `read` or `stat` being a read and all else a write. Bytes
//! are those of file content that went to the device, or came from it. Times are virtual.

use crate::results::Run;
use crate::samples::{Sample, Samples};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Bytes of a block of the results.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of a sector of the device.
const SECTOR_BYTES: u64 = 512;
/// The percentiles that fio prints without being asked for others.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];
/// Upper bounds of the groups of latencies, in each unit; fio counts what is below each.
const GROUPS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
/// Bits of a latency that a bin keeps behind its highest one.
const BIN_BITS: u32 = 6;

/// The file of one run.
pub fn json(run: &Run, samples: &Samples, reproduce: &str) -> String {
    let is_read = |kind: &str| kind.starts_with("read") || kind.starts_with("stat");
    let pick = |read: bool| -> Vec<Sample> {
        let kinds = samples.ops.iter().filter(|(kind, _)| is_read(kind) == read);
        let mut picked: Vec<Sample> = kinds.flat_map(|(_, samples)| samples.clone()).collect();
        picked.sort();
        picked
    };
    let (reads, writes) = (pick(true), pick(false));
    let rw = match (reads.is_empty(), writes.is_empty()) {
        (false, true) => "read",
        (true, _) => "write",
        (false, false) => "rw",
    };
    let bytes = |any: bool, bytes: u64| if any { bytes } else { 0 };
    let written = run.blocks.get("data").copied().unwrap_or(0) * BLOCK_BYTES;
    let read = run.device.commands.sectors_read * SECTOR_BYTES;
    let seconds = run.virtual_seconds;
    let mut job = json!({
        "jobname": format!("{}/{}", run.fs, run.scheme),
        "groupid": 0,
        "error": 0,
        "eta": 0,
        "elapsed": seconds.ceil() as u64,
        "job options": {"name": format!("{}/{}", run.fs, run.scheme)},
        "read": direction(&reads, bytes(!reads.is_empty(), read), seconds),
        "write": direction(&writes, bytes(!writes.is_empty(), written), seconds),
        "trim": direction(&[], 0, seconds),
        "sync": {"total_ios": samples.syncs.len(), "lat_ns": latency(&samples.syncs, true)},
        "job_runtime": millis(seconds),
        "usr_cpu": 0.0, "sys_cpu": 0.0, "ctx": 0, "majf": 0, "minf": 0,
        "iodepth_level": {"1": 100.0, "2": 0.0, "4": 0.0, "8": 0.0, "16": 0.0, "32": 0.0, ">=64": 0.0},
        "latency_depth": 1,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    if let Value::Object(job) = &mut job {
        job.extend(groups(&[reads, writes].concat()));
    }
    let whole = json!({
        "fio version": format!("fio-3.33 (varve {})", env!("CARGO_PKG_VERSION")),
        "global options": {
            "rw": rw, "bs": "4k", "iodepth": "1", "numjobs": "1",
            "varve_workload": run.workload, "varve_device": run.device.profile,
            "varve_timing": run.timing, "varve_command": reproduce,
        },
        "jobs": [job],
        "disk_util": [],
    });
    format!("{whole:#}\n")
}

fn millis(seconds: f64) -> u64 {
    (seconds * 1e3).round() as u64
}

/// What fio says of one direction.
fn direction(samples: &[Sample], bytes: u64, seconds: f64) -> Value {
    let rate = |n: f64| if seconds > 0.0 { n / seconds } else { 0.0 };
    let (counts, windows) = per_second(samples);
    let bytes_per_s = rate(bytes as f64);
    json!({
        "io_bytes": bytes,
        "io_kbytes": bytes / 1024,
        "bw_bytes": bytes_per_s.round() as u64,
        "bw": (bytes_per_s / 1024.0).round() as u64,
        "iops": rate(samples.len() as f64),
        "runtime": if samples.is_empty() { 0 } else { millis(seconds) },
        "total_ios": samples.len(),
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": latency(&[], false),
        "clat_ns": latency(samples, true),
        "lat_ns": latency(samples, false),
        "bw_min": 0, "bw_max": 0, "bw_agg": 0.0, "bw_mean": 0.0, "bw_dev": 0.0, "bw_samples": 0,
        "iops_min": counts.min as u64,
        "iops_max": counts.max as u64,
        "iops_mean": counts.mean,
        "iops_stddev": counts.deviation,
        "iops_samples": windows,
    })
}

/// Statistics of the operations in each whole second of virtual time, and the number of seconds.
/// What is behind the last whole second is left out: it is no whole window. Idle seconds are
/// counted without a place in memory, since a recording may be idle for years.
fn per_second(samples: &[Sample]) -> (Stats, u64) {
    let second = |sample: &Sample| sample.end_ns / 1_000_000_000;
    let all = samples.iter().map(second).max().unwrap_or(0);
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for second in samples.iter().map(second).filter(|&second| second < all) {
        *counts.entry(second).or_default() += 1;
    }
    let (n, idle) = (all as f64, (all - counts.len() as u64) as f64);
    let values = || counts.values().map(|&count| count as f64);
    let mean = values().sum::<f64>() / n.max(1.0);
    let squares = values().map(|v| (v - mean) * (v - mean)).sum::<f64>() + idle * mean * mean;
    let found = Stats {
        min: match idle > 0.0 {
            true => 0.0,
            false => values().reduce(f64::min).unwrap_or(0.0),
        },
        max: values().reduce(f64::max).unwrap_or(0.0),
        mean,
        deviation: deviation(squares, n),
    };
    (found, all)
}

/// The deviation of a sample of `n` values with this sum of squared distances from their mean.
fn deviation(squares: f64, n: f64) -> f64 {
    match n > 1.0 {
        true => (squares / (n - 1.0)).sqrt(),
        false => 0.0,
    }
}

struct Stats {
    min: f64,
    max: f64,
    mean: f64,
    /// Of a sample, as fio has it.
    deviation: f64,
}

fn stats(values: impl Iterator<Item = f64> + Clone) -> Stats {
    let n = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / n.max(1.0);
    let squares: f64 = values.clone().map(|v| (v - mean) * (v - mean)).sum();
    Stats {
        min: values.clone().reduce(f64::min).unwrap_or(0.0),
        max: values.reduce(f64::max).unwrap_or(0.0),
        mean,
        deviation: deviation(squares, n),
    }
}

/// What fio says of latencies; with `bins` also percentiles and the histogram.
fn latency(samples: &[Sample], bins: bool) -> Value {
    let stats = stats(samples.iter().map(|s| s.took_ns as f64));
    let mut value = json!({
        "min": stats.min as u64,
        "max": stats.max as u64,
        "mean": stats.mean,
        "stddev": stats.deviation,
        "N": samples.len(),
    });
    if bins && !samples.is_empty() {
        let mut sorted: Vec<u64> = samples.iter().map(|s| bin(s.took_ns)).collect();
        sorted.sort_unstable();
        value["percentile"] = percentiles(&sorted);
        value["bins"] = histogram(&sorted);
    }
    value
}

/// The middle of the bin of a latency: of its bits only the highest and [`BIN_BITS`] more count.
fn bin(ns: u64) -> u64 {
    let high = ns.max(1).ilog2();
    if high <= BIN_BITS {
        return ns;
    }
    let width = 1u64 << (high - BIN_BITS);
    ns / width * width + width / 2
}

fn percentiles(sorted: &[u64]) -> Value {
    let at = |percent: f64| {
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        sorted[rank.clamp(1, sorted.len()) - 1]
    };
    let all = PERCENTILES.map(|p| (format!("{p:.6}"), Value::from(at(p))));
    Value::Object(Map::from_iter(all))
}

fn histogram(sorted: &[u64]) -> Value {
    let bins = sorted.chunk_by(|a, b| a == b);
    let bins = bins.map(|bin| (bin[0].to_string(), Value::from(bin.len())));
    Value::Object(bins.collect())
}

/// Percent of the operations in each group of latencies, for each unit.
fn groups(samples: &[Sample]) -> Map<String, Value> {
    let percent = |from: u64, to: u64| {
        let within = samples.iter().filter(|s| (from..to).contains(&s.took_ns));
        100.0 * within.count() as f64 / samples.len().max(1) as f64
    };
    let mut units = Map::new();
    for (name, unit) in [
        ("latency_ns", 1),
        ("latency_us", 1000),
        ("latency_ms", 1_000_000),
    ] {
        // The first group of a unit begins where the unit below ends.
        let (mut groups, mut from) = (Map::new(), if unit == 1 { 0 } else { unit });
        for group in GROUPS {
            let to = group * unit;
            groups.insert(group.to_string(), percent(from, to).into());
            from = to;
        }
        if unit == 1_000_000 {
            groups.insert("2000".into(), percent(from, 2 * from).into());
            groups.insert(">=2000".into(), percent(2 * from, u64::MAX).into());
        }
        units.insert(name.into(), groups.into());
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(took: &[u64]) -> Vec<Sample> {
        let ends = (1..).map(|n| n * 400_000_000);
        ends.zip(took)
            .map(|(end, took)| Sample::from((end, *took)))
            .collect()
    }

    #[test]
    fn a_bin_differs_from_its_latencies_by_less_than_a_hundredth() {
        for ns in [
            0,
            1,
            63,
            64,
            127,
            128,
            129,
            4_627,
            31_778,
            7_000_003,
            1 << 42,
        ] {
            let off = bin(ns).abs_diff(ns) as f64;
            assert!(off <= ns as f64 / 100.0, "{ns}: {}", bin(ns));
            assert_eq!(bin(bin(ns)), bin(ns), "the middle is in its own bin");
        }
        assert_eq!(bin(127), 127);
        assert_eq!([bin(128), bin(129)], [129, 129]);
    }

    #[test]
    fn a_direction_has_its_latencies_bins_and_rates() {
        let value = direction(&samples(&[100, 100, 300, 5_000]), 8192, 2.0);
        assert_eq!(value["total_ios"], 4);
        assert_eq!(value["iops"], 2.0);
        assert_eq!(value["bw_bytes"], 4096);
        let latency = &value["clat_ns"];
        assert_eq!(
            (&latency["min"], &latency["max"]),
            (&json!(100), &json!(5000))
        );
        assert_eq!(latency["mean"], 1375.0);
        assert_eq!(latency["bins"]["100"], 2);
        assert_eq!(latency["percentile"]["50.000000"], 100);
        let bins = latency["bins"].as_object().unwrap();
        assert_eq!(bins.values().filter_map(Value::as_u64).sum::<u64>(), 4);
        // Ends at 0.4, 0.8, 1.2 and 1.6 s: one whole second, with two.
        assert_eq!(
            (&value["iops_mean"], &value["iops_samples"]),
            (&json!(2.0), &json!(1))
        );
        assert!(direction(&[], 0, 2.0)["clat_ns"].get("bins").is_none());
    }

    /// A recording may be idle for years; each of its seconds counts, and takes no memory.
    #[test]
    fn idle_seconds_are_windows_without_operations() {
        let at = |second: u64| Sample::from((second * 1_000_000_000, 5));
        let (stats, seconds) = per_second(&[at(0), at(0), at(1), at(4)]);
        assert_eq!(seconds, 4);
        assert_eq!((stats.min, stats.max, stats.mean), (0.0, 2.0, 0.75));
        // Of 2, 1, 0 and 0.
        assert!((stats.deviation - (2.75_f64 / 3.0).sqrt()).abs() < 1e-12);
        let (stats, seconds) = per_second(&[at(0), at(18_000_000_000)]);
        assert_eq!((seconds, stats.max), (18_000_000_000, 1.0));
    }

    #[test]
    fn the_groups_of_all_units_hold_every_operation_once() {
        let all = samples(&[
            1,
            999,
            1_000,
            1_999,
            70_000,
            3_000_000,
            1_500_000_000,
            9_000_000_000,
        ]);
        let groups = groups(&all);
        let sum = groups
            .values()
            .flat_map(|unit| unit.as_object().unwrap().values());
        let sum: f64 = sum.filter_map(Value::as_f64).sum();
        assert!((sum - 100.0).abs() < 1e-9, "{sum}: {groups:?}");
        assert_eq!(groups["latency_ns"]["1000"], 12.5);
        assert_eq!(groups["latency_us"]["2"], 25.0);
        assert_eq!(groups["latency_ms"][">=2000"], 12.5);
    }
}
