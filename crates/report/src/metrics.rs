//! Latencies as a histogram, which takes little memory for millions of operations, and their
//! summary for `results.json`.

use base::Nanos;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest latency of the histogram, which has three significant digits: a bit more than an hour.
const HIGHEST_NANOS: u64 = 1 << 42;

/// Durations of one kind of operation, as a histogram.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum: u128,
    /// The histogram only has the bounds of the bucket of its largest value.
    max: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_NANOS, 3);
        Latencies {
            histogram: histogram.expect("1 <= 2^42 / 2 and 3 digits are legal"),
            sum: 0,
            max: 0,
        }
    }
}

/// Percentiles in microseconds of virtual time: nearest rank in a histogram of three significant
/// digits, at most the maximum. Mean and maximum are exact up to rounding to 0.001 us.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median, the 50th percentile.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// Largest latency.
    pub max: f64,
}

/// A point of a cumulative distribution: (latency in us, fraction of operations at or below it).
pub type CdfPoint = (f64, f64);

impl Latencies {
    /// Adds one operation.
    pub fn add(&mut self, span: Nanos) {
        self.histogram.saturating_record(span.0.max(1));
        self.sum += u128::from(span.0);
        self.max = self.max.max(span.0);
    }

    /// Number of operations.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The sum of all durations.
    pub fn sum(&self) -> Nanos {
        Nanos(u64::try_from(self.sum).unwrap_or(u64::MAX))
    }

    /// The figures for `results.json`.
    pub fn summary(&self) -> LatencySummary {
        if self.count() == 0 {
            return LatencySummary::default();
        }
        // A bucket stands for its upper bound, and the last one may reach above the maximum.
        let at = |q: f64| micros(self.histogram.value_at_quantile(q).min(self.max));
        let mean = (self.sum / u128::from(self.count())) as u64;
        LatencySummary {
            mean: micros(mean),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            max: micros(self.max),
        }
    }

    /// The cumulative distribution, with some hundred points at most.
    pub fn cdf(&self) -> Vec<CdfPoint> {
        let total = self.count();
        let mut below = 0;
        let mut points = Vec::new();
        for step in self.histogram.iter_recorded() {
            below += step.count_at_value();
            points.push((
                micros(step.value_iterated_to().min(self.max)),
                round(below as f64 / total as f64),
            ));
        }
        thin(points)
    }
}

/// Keeps at most some hundred points, always the last.
fn thin(points: Vec<CdfPoint>) -> Vec<CdfPoint> {
    const KEPT: usize = 200;
    let step = points.len().div_ceil(KEPT).max(1);
    let last = points.len().saturating_sub(1);
    let kept = points
        .into_iter()
        .enumerate()
        .filter(|(n, _)| n % step == 0 || *n == last);
    kept.map(|(_, point)| point).collect()
}

/// Nanoseconds as microseconds with three digits after the point.
pub fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1_000.0
}

/// Rounds to six digits after the point, so that the text of a figure is short.
pub fn round(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_thousand() {
        let mut l = Latencies::default();
        (1..=1000).for_each(|n| l.add(Nanos::from_micros(n)));
        let s = l.summary();
        let near = |got: f64, want: f64| (got / want - 1.0).abs() < 0.002;
        assert!(
            near(s.mean, 500.5) && near(s.p50, 500.0) && near(s.p99, 990.0),
            "{s:?}"
        );
        assert!(near(s.p99_9, 999.0) && near(s.max, 1000.0), "{s:?}");
        let cdf = l.cdf();
        assert!(cdf.len() <= 202 && cdf.last().unwrap().1 == 1.0);
        assert!(cdf.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
    }

    #[test]
    fn the_maximum_is_the_largest_that_was_added_and_nothing_is_above_it() {
        let hour = 2 * HIGHEST_NANOS;
        for largest in [0, 1, 1_234_567, 7_000_003, hour] {
            let mut l = Latencies::default();
            (0..100).for_each(|n| l.add(Nanos(largest / 2 * n / 100)));
            l.add(Nanos(largest));
            let (s, max) = (l.summary(), micros(largest));
            assert_eq!(s.max, max);
            let below = [s.mean, s.p50, s.p90, s.p95, s.p99, s.p99_9];
            assert!(below.iter().all(|x| *x <= max), "{s:?}");
            assert!(l.cdf().iter().all(|(x, _)| *x <= max), "{largest}");
        }
    }

    #[test]
    fn nothing_measured_is_all_zero() {
        assert_eq!(Latencies::default().summary(), LatencySummary::default());
    }
}
