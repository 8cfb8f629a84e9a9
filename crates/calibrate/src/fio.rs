//! Times that fio measured: its output in JSON, and the job file that makes it.
//!
//! What a job measures is read from its options, not from its name, so that other job files work
//! too. A job that measures none of the quantities here is named and left out.

use crate::estimate::Estimate;
use crate::measure::Seen;
use crate::probe::Probe;
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

/// The job file, as text.
pub const JOB: &str = include_str!("calibrate.fio");

/// What a rate of many commands under way may be off by: fio starts and ends with fewer.
const RATE_SHARE: f64 = 0.02;

/// A durable write that takes this share of a write and a flush, or more, is taken for both: a
/// kernel sends them where the device has no FUA.
const BOTH_SHARE: f64 = 0.9;

/// Engines of fio that have one request under way, whatever iodepth is. Without a name it is psync.
const ONE_AT_A_TIME: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];

/// Why an output of fio cannot be used.
#[derive(Debug, Error)]
pub enum FioError {
    /// Not an output of fio in JSON.
    #[error("no output of fio in JSON ({0}); make one with --output-format=json")]
    Syntax(String),
    /// It holds nothing that is of use here.
    #[error("no job of it measures what is needed here: {0}")]
    Nothing(String),
}

/// What an output of fio tells.
#[derive(Clone, PartialEq, Debug)]
pub struct FioRun {
    /// The version of fio, as it calls itself.
    pub version: String,
    /// What its jobs measured.
    pub seen: Seen,
    /// Jobs that were left out, and why.
    pub left_out: Vec<String>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(rename = "fio version", default)]
    version: String,
    #[serde(rename = "global options", default)]
    global: Map<String, Value>,
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    jobname: String,
    #[serde(default)]
    error: i64,
    #[serde(rename = "job options", default)]
    options: Map<String, Value>,
    read: Direction,
    write: Direction,
    #[serde(default)]
    sync: Direction,
}

#[derive(Deserialize, Default)]
struct Direction {
    #[serde(default)]
    total_ios: u64,
    #[serde(default)]
    iops: f64,
    #[serde(default)]
    clat_ns: Latency,
    #[serde(default)]
    lat_ns: Latency,
}

#[derive(Deserialize, Default)]
struct Latency {
    /// Number of times.
    #[serde(rename = "N", default)]
    number: u64,
    #[serde(default)]
    percentile: Map<String, Value>,
}

/// Reads an output of fio.
///
/// # Errors
/// It is none, or no job of it can be used.
pub fn read(text: &str) -> Result<FioRun, FioError> {
    // Warnings stand before the JSON.
    let begin = text.find('{').unwrap_or(0);
    let mut stream = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<Output>();
    let output = match stream.next() {
        Some(Ok(output)) => output,
        Some(Err(e)) => return Err(FioError::Syntax(e.to_string())),
        None => return Err(FioError::Syntax("it is empty".into())),
    };
    let mut run = FioRun {
        version: output.version,
        seen: Seen::new(),
        left_out: Vec::new(),
    };
    for job in &output.jobs {
        match times(job, &output.global) {
            Ok(times) => run.seen.extend(times),
            Err(why) => run.left_out.push(format!("job {}: {why}", job.jobname)),
        }
    }
    run.left_out.extend(without_pairs(&mut run.seen));
    if run.seen.is_empty() {
        return Err(FioError::Nothing(run.left_out.join("; ")));
    }
    Ok(run)
}

/// Takes out the durable writes that are a write and a flush, and says so. They tell nothing that
/// those two do not tell, and a model would show them as one command.
fn without_pairs(seen: &mut Seen) -> Vec<String> {
    let time = |probe| seen.get(&probe).map(|e: &Estimate| e.us);
    let both = |kib| Some(time(Probe::Write { kib })? + time(Probe::Flush { kib })?);
    let pair = |probe: &Probe| match *probe {
        Probe::Durable { kib } => {
            let (us, both) = (time(*probe)?, both(kib)?);
            (us >= both * BOTH_SHARE).then_some((kib, us, both))
        }
        _ => None,
    };
    let pairs: Vec<(u32, f64, f64)> = seen.keys().filter_map(pair).collect();
    let left_out = pairs.into_iter().map(|(kib, us, both)| {
        seen.remove(&Probe::Durable { kib });
        format!(
            "durable writes of {kib} KiB: they take {us:.0} us, as a write and a flush do ({both:.0} us): \
             without FUA (queue/fua) the kernel sends these"
        )
    });
    left_out.collect()
}

/// The options of a job that decide what it measures.
struct Options {
    rw: String,
    kib: u32,
    depth: u32,
    flushes: bool,
    durable: bool,
}

impl Options {
    fn of(job: &Job, global: &Map<String, Value>) -> Result<Options, String> {
        let get = |names: &[&str]| {
            let found = |of: &Map<String, Value>| {
                names
                    .iter()
                    .find_map(|name| of.get(*name))
                    .map(|v| match v {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    })
            };
            found(&job.options).or_else(|| found(global))
        };
        let is = |names: &[&str]| get(names).is_some_and(|v| !matches!(v.as_str(), "0" | "none"));
        if !is(&["direct"]) || get(&["buffered"]).as_deref() == Some("1") {
            return Err(
                "direct=1 is missing; without it the memory of the host is measured".into(),
            );
        }
        let flush = get(&["fdatasync"]).or_else(|| get(&["fsync"]));
        if flush.as_deref().is_some_and(|n| !matches!(n, "0" | "1")) {
            return Err("fsync or fdatasync is not 1; a flush is wanted behind each write".into());
        }
        if let Some(jobs) = get(&["numjobs"]).filter(|n| n != "1") {
            return Err(format!(
                "numjobs={jobs}; the jobs wait for each other at the device, and one is wanted"
            ));
        }
        let depth = get(&["iodepth"]).and_then(|d| d.parse().ok()).unwrap_or(1);
        let engine = get(&["ioengine"]).unwrap_or_else(|| "psync".into());
        if depth > 1 && ONE_AT_A_TIME.contains(&engine.as_str()) {
            return Err(format!(
                "iodepth={depth} with ioengine={engine}, which has one request under way; take io_uring or libaio"
            ));
        }
        let size = get(&["bs", "blocksize"]).unwrap_or_else(|| "4k".into());
        Ok(Options {
            rw: get(&["rw", "readwrite"]).unwrap_or_else(|| "read".into()),
            kib: kib(&size).ok_or_else(|| format!("bs={size}; it must be one size, whole KiB"))?,
            depth,
            flushes: flush.as_deref() == Some("1"),
            durable: is(&["sync"]),
        })
    }
}

/// A size of fio in KiB: `4k`, `4096`, `1m`. fio takes `4KiB` as 4,000 bytes (its `kb_base`), which
/// is none.
fn kib(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u32 = digits.parse().ok()?;
    let kib = match &lower[digits.len()..] {
        "" | "b" => {
            return number
                .is_multiple_of(1024)
                .then_some(number / 1024)
                .filter(|n| *n > 0);
        }
        "k" | "kb" => number,
        "m" | "mb" => number.checked_mul(1024)?,
        _ => return None,
    };
    (kib > 0).then_some(kib)
}

fn times(job: &Job, global: &Map<String, Value>) -> Result<Vec<(Probe, Estimate)>, String> {
    if job.error != 0 {
        return Err(format!("it failed with error {}", job.error));
    }
    let options = Options::of(job, global)?;
    let Options { kib, depth, .. } = options;
    match options.rw.as_str() {
        "randread" | "read" if depth > 1 && kib == 4 => {
            Ok(vec![(Probe::Reads { depth }, rate(&job.read)?)])
        }
        "randread" if depth == 1 => Ok(vec![(Probe::Read { kib }, command(&job.read)?)]),
        "randwrite" if options.durable && depth == 1 => {
            Ok(vec![(Probe::Durable { kib }, command(&job.write)?)])
        }
        "randwrite" if options.flushes && depth == 1 => Ok(vec![
            (Probe::Write { kib }, command(&job.write)?),
            (
                Probe::Flush { kib },
                latency(&job.sync.lat_ns, job.write.total_ios)?,
            ),
        ]),
        "write" if options.flushes && depth == 1 => {
            Ok(vec![(Probe::InLine { kib }, command(&job.write)?)])
        }
        rw => Err(format!(
            "rw={rw} with bs={kib}k and iodepth={depth} is none of: randread; randwrite with fdatasync=1 or \
             sync=dsync; write with fdatasync=1; 4 KiB reads with iodepth"
        )),
    }
}

fn command(of: &Direction) -> Result<Estimate, String> {
    latency(&of.clat_ns, of.total_ios)
}

/// `or` is the number of times where fio does not tell it beside the latencies.
fn latency(of: &Latency, or: u64) -> Result<Estimate, String> {
    let samples = if of.number > 0 { of.number } else { or };
    let point = |(percent, ns): (&String, &Value)| {
        let us = ns.as_f64()? / 1000.0;
        Some((percent.parse().ok()?, us))
    };
    let points: Option<Vec<(f64, f64)>> = of.percentile.iter().map(point).collect();
    let mut points = points.ok_or("a percentile is no number")?;
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let estimate = Estimate::of_percentiles(&points, samples);
    estimate
        .filter(|e| e.us > 0.0)
        .ok_or_else(|| "it has no percentiles of its latencies".into())
}

/// The time of one of many commands under way, from their rate.
fn rate(of: &Direction) -> Result<Estimate, String> {
    if !of.iops.is_normal() || of.iops < 0.0 {
        return Err("it did nothing".into());
    }
    let us = 1e6 / of.iops;
    Ok(Estimate {
        us,
        low: us * (1.0 - RATE_SHARE),
        high: us * (1.0 + RATE_SHARE),
        samples: of.total_ios,
    })
}
