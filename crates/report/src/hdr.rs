//! Latencies of runs as an interval log of HdrHistogram, which its log readers in Java, Python and
//! other languages open. An interval is a second of virtual time; times are those of the measured
//! part, from 0. Each run has two tags, `FS/SCHEME:op` and `FS/SCHEME:sync`. Values are
//! nanoseconds; the largest one of a line stands there in milliseconds.

use crate::samples::{Sample, Samples};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::collections::BTreeMap;
use std::time::Duration;

/// Nanoseconds of an interval.
const INTERVAL: u64 = 1_000_000_000;
/// Significant digits of a value.
const DIGITS: u8 = 3;
/// Nanoseconds of a millisecond.
const MILLI: f64 = 1e6;

/// The histogram of one interval and one tag.
struct Part {
    tag: String,
    histogram: Histogram<u64>,
}

/// The log of these runs, by their names. Equal runs give equal bytes.
///
/// # Errors
/// In a sentence: a name cannot be a tag, or a value is beyond what a histogram holds.
pub fn log(runs: &[(String, Samples)]) -> Result<String, String> {
    let mut parts: BTreeMap<u64, Vec<Part>> = BTreeMap::new();
    for (name, samples) in runs {
        if name.contains([',', ' ', '\n', '\r']) {
            return Err(format!("`{name}` cannot be a tag of a histogram log"));
        }
        let ops = || samples.ops.values().flatten();
        enter(&mut parts, format!("{name}:op"), ops())?;
        enter(&mut parts, format!("{name}:sync"), samples.syncs.iter())?;
    }
    written(&parts).map_err(|e| format!("histogram log: {e}"))
}

/// Enters samples into the intervals of their ends.
fn enter<'a>(
    parts: &mut BTreeMap<u64, Vec<Part>>,
    tag: String,
    samples: impl Iterator<Item = &'a Sample>,
) -> Result<(), String> {
    for sample in samples {
        let interval = parts.entry(sample.end_ns / INTERVAL).or_default();
        // The part of a tag is the last one, since tags come one after another.
        if interval.last().is_none_or(|part| part.tag != tag) {
            let histogram = Histogram::new(DIGITS).map_err(|e| e.to_string())?;
            let tag = tag.clone();
            interval.push(Part { tag, histogram });
        }
        let part = interval.last_mut().expect("it was pushed above");
        let recorded = part.histogram.record(sample.took_ns.max(1));
        recorded.map_err(|e| format!("{tag}: {} ns: {e}", sample.took_ns))?;
    }
    Ok(())
}

fn written(parts: &BTreeMap<u64, Vec<Part>>) -> Result<String, String> {
    let (mut text, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("[StartTime: 0.000 (seconds of virtual time)]")
        .with_max_value_divisor(MILLI);
    let log = builder.begin_log_with(&mut text, &mut serializer);
    let mut log = log.map_err(|e| e.to_string())?;
    for (second, parts) in parts {
        let (from, long) = (Duration::from_secs(*second), Duration::from_nanos(INTERVAL));
        for part in parts {
            log.write_histogram(&part.histogram, from, long, Tag::new(&part.tag))
                .map_err(|e| e.to_string())?;
        }
    }
    drop(log);
    String::from_utf8(text).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Nanos, Time};
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    fn samples() -> Samples {
        let mut samples = Samples::default();
        let ms = |n: u64| Nanos(n * 1_000_000);
        for n in 1..=100 {
            samples.add("insert", ms(n * 15), ms(n));
        }
        samples.add_syncs(
            Time(500),
            [(Time(500), ms(7)), (Time(3_000_000_500), ms(9))],
        );
        samples
    }

    #[test]
    fn each_second_and_tag_has_its_histogram() {
        let text = log(&[("ext4/jbd2".into(), samples())]).unwrap();
        let mut read = Vec::new();
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            if let Ok(LogEntry::Interval(line)) = entry {
                let bytes = base64(line.encoded_histogram());
                let found: Histogram<u64> = Deserializer::new()
                    .deserialize(&mut bytes.as_slice())
                    .unwrap();
                let tag = line.tag().unwrap().as_str().to_string();
                read.push((line.start_timestamp().as_secs(), tag, found.len()));
            }
        }
        let op = "ext4/jbd2:op".to_string();
        let sync = "ext4/jbd2:sync".to_string();
        assert_eq!(
            read,
            [
                (0, op.clone(), 66),
                (0, sync.clone(), 1),
                (1, op, 34),
                (3, sync, 1)
            ]
        );
        assert_eq!(text, log(&[("ext4/jbd2".into(), samples())]).unwrap());
    }

    #[test]
    fn a_name_that_would_break_a_line_is_refused() {
        let why = log(&[("a,b".into(), samples())]).unwrap_err();
        assert!(why.contains("`a,b` cannot be a tag"), "{why}");
    }

    /// Decodes what the log holds, so that the test depends on nobody's decoder.
    fn base64(text: &str) -> Vec<u8> {
        let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let (mut bytes, mut bits, mut n) = (Vec::new(), 0u32, 0);
        for c in text.bytes().filter(|c| *c != b'=') {
            let digit = digits.iter().position(|d| *d == c).unwrap() as u32;
            (bits, n) = (bits << 6 | digit, n + 6);
            if n >= 8 {
                n -= 8;
                bytes.push((bits >> n) as u8);
            }
        }
        bytes
    }
}
