//! Figures of a recording of block requests, by which people judge what it stresses.

use super::fold::Footprint;
use super::{BlockTrace, Op};
use report::metrics::round;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::Range;

/// Figures of one kind of request.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct OfKind {
    /// Number of requests.
    pub requests: u64,
    /// Their sectors of 512 bytes.
    pub sectors: u64,
    /// Requests that do not begin at a multiple of 4 KiB or whose length is none.
    pub unaligned: u64,
    /// Requests that begin where the one before them, of the same kind and disk, ended.
    pub sequential: u64,
}

/// Figures of a recording.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Stats {
    /// Figures by kind of request.
    pub kinds: BTreeMap<&'static str, OfKind>,
    /// Writes that are non-volatile at completion.
    pub fua: u64,
    /// Number of disks or files.
    pub devices: u64,
    /// Seconds from the first request to the last.
    pub seconds: f64,
    /// Requests that only prepare the device.
    pub preparing: u64,
    /// Bytes of the 1 MiB regions that are read or written.
    pub footprint_bytes: u64,
    /// 4 KiB units written at least once.
    pub units_written: u64,
    /// Writes of 4 KiB units: each time a unit is touched counts.
    pub unit_writes: u64,
}

impl Stats {
    /// Requests of all kinds.
    pub fn requests(&self) -> u64 {
        self.kinds.values().map(|k| k.requests).sum()
    }

    /// Mean number of writes to a unit that is written at all.
    pub fn rewrites(&self) -> f64 {
        round(self.unit_writes as f64 / self.units_written.max(1) as f64)
    }
}

/// The figures of all requests.
pub fn of(trace: &BlockTrace, footprint: &Footprint) -> Stats {
    let mut stats = Stats {
        devices: trace.devices.len() as u64,
        seconds: trace.reading.seconds,
        preparing: trace.preparing as u64,
        footprint_bytes: footprint.bytes(),
        ..Stats::default()
    };
    let mut ends: BTreeMap<(Op, u16), u64> = BTreeMap::new();
    // Ranges of units, one for each write: a set of units would be as large as the disk.
    let mut written: Vec<(u16, Range<u64>)> = Vec::new();
    for r in &trace.requests {
        let kind = stats.kinds.entry(r.op.word()).or_default();
        let end = r.sector + u64::from(r.sectors);
        kind.requests += 1;
        kind.sectors += u64::from(r.sectors);
        kind.unaligned += u64::from(r.sector % 8 != 0 || r.sectors % 8 != 0);
        let goes_on = ends.insert((r.op, r.device), end) == Some(r.sector);
        kind.sequential += u64::from(goes_on && r.op != Op::Flush);
        stats.fua += u64::from(r.fua);
        if r.op == Op::Write {
            let units = r.sector / 8..end.div_ceil(8);
            stats.unit_writes += units.end - units.start;
            written.push((r.device, units));
        }
    }
    stats.units_written = distinct(written);
    stats
}

/// How many units lie in at least one of the ranges.
fn distinct(mut ranges: Vec<(u16, Range<u64>)>) -> u64 {
    ranges.sort_unstable_by_key(|(device, units)| (*device, units.start));
    let (mut on, mut counted_to, mut sum) = (None, 0, 0);
    for (device, units) in ranges {
        if on != Some(device) {
            (on, counted_to) = (Some(device), 0);
        }
        sum += units.end.saturating_sub(units.start.max(counted_to));
        counted_to = counted_to.max(units.end);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_in_several_ranges_counts_once_on_each_disk() {
        let ranges = vec![
            (1, 5..9),
            (0, 0..4),
            (0, 2..3),
            (0, 3..6),
            (0, 8..8),
            (1, 5..6),
        ];
        assert_eq!(distinct(ranges), 6 + 4);
        // All of a disk of 16 TiB, written twice, needs no memory for it.
        assert_eq!(distinct(vec![(0, 0..1 << 32), (0, 0..1 << 32)]), 1 << 32);
    }
}
