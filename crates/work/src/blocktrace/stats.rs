//! Figures of a recording of block requests, by which people judge what it stresses.

use super::fold::Footprint;
use super::{BlockTrace, Op};
use base::Set;
use report::metrics::round;
use serde::Serialize;
use std::collections::BTreeMap;

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
    let mut written: Set<(u16, u64)> = Set::default();
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
            for unit in r.sector / 8..end.div_ceil(8) {
                stats.unit_writes += 1;
                written.insert((r.device, unit));
            }
        }
    }
    stats.units_written = written.len() as u64;
    stats
}
