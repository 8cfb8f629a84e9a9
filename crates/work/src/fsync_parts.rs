//! Where the time of an fsync goes.

use base::Nanos;
use report::metrics::{Latencies, round};
use std::collections::BTreeMap;

/// The parts of a mean fsync, in microseconds; they sum up to the mean duration of an fsync.
/// `calls` are what the calls did themselves, `steps` those of commits.
pub(crate) fn fsync_parts(
    fsyncs: &Latencies,
    (calls, steps): (&Spans, &Spans),
) -> BTreeMap<String, f64> {
    let count = fsyncs.count();
    if count == 0 {
        return BTreeMap::new();
    }
    let parts = breakdown(fsyncs.sum(), calls, steps);
    let mean = |nanos: f64| round(nanos / 1e3 / count as f64);
    let parts = parts
        .into_iter()
        .map(|(part, nanos)| (part.to_string(), mean(nanos)));
    parts.filter(|(_, us)| *us > 0.0).collect()
}

/// Virtual time by cause.
pub(crate) type Spans = BTreeMap<&'static str, Nanos>;

/// The counters that were added between two readings.
pub(crate) fn spans(start: &Spans, end: &Spans) -> Spans {
    let earlier = |cause| start.get(cause).copied().unwrap_or_default();
    end.iter()
        .map(|(&cause, &span)| (cause, Nanos(span.0.saturating_sub(earlier(cause).0))))
        .collect()
}

/// Splits the time of all fsyncs: into what the calls did themselves, and for their waiting for
/// commits into the steps of the plan. Waiting that no step accounts for is `hand-over` (waking the
/// commit task and back, commits of others that were under way); time that no part of a call
/// accounts for is `other` (CPU time, locks). Where commits ran that no fsync waited for, the steps
/// count in proportion.
fn breakdown(all: Nanos, calls: &Spans, steps: &Spans) -> BTreeMap<&'static str, f64> {
    let of = |part| calls.get(part).map_or(0.0, |span: &Nanos| span.0 as f64);
    let commit = of("fsync-commit");
    let stepped: f64 = steps.values().map(|span| span.0 as f64).sum();
    let share = if stepped > commit {
        commit / stepped
    } else {
        1.0
    };
    let mut parts: BTreeMap<&'static str, f64> = steps
        .iter()
        .map(|(&step, span)| (step, span.0 as f64 * share))
        .collect();
    for (part, call) in [
        ("data", "fsync-data"),
        ("home", "fsync-home"),
        ("flush", "fsync-flush"),
    ] {
        *parts.entry(part).or_default() += of(call);
    }
    *parts.entry("hand-over").or_default() += commit - stepped * share;
    let known: f64 = calls.values().map(|span| span.0 as f64).sum();
    *parts.entry("other").or_default() += (all.0 as f64 - known).max(0.0);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_an_fsync_add_up() {
        let us = Nanos::from_micros;
        let calls: Spans = [
            ("fsync-data", us(100)),
            ("fsync-commit", us(500)),
            ("fsync-flush", us(50)),
        ]
        .into();
        let steps: Spans = [("flush", us(300)), ("log", us(150))].into();
        let parts = breakdown(us(700), &calls, &steps);
        let wanted = [
            ("data", 100e3),
            ("flush", 350e3),
            ("hand-over", 50e3),
            ("home", 0.0),
            ("log", 150e3),
            ("other", 50e3),
        ];
        assert_eq!(parts, wanted.into());
        let timer_too: Spans = [("flush", us(750)), ("log", us(250))].into();
        let parts = breakdown(us(700), &calls, &timer_too);
        assert_eq!(
            (parts["flush"], parts["log"], parts["hand-over"]),
            (425e3, 125e3, 0.0)
        );
    }
}
