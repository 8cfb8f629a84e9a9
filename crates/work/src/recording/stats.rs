//! Figures of a recording: for people, and for comparing a generated one with a recorded one.

use super::{Call, Op, Recording};
use crate::workload::{Pace, Pacing, own_time};
use base::BLOCK_BYTES;
use report::metrics::round;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Nanoseconds of a window: the eMMC paper counts fsyncs per 5 s.
const WINDOW_NANOS: u64 = 5_000_000_000;

/// Mean, median, 90th percentile (nearest rank).
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
}

impl Spread {
    /// The spread of `values`, each divided by `unit`; all zero if there are none.
    pub fn of(values: impl IntoIterator<Item = u64>, unit: f64) -> Spread {
        let mut values: Vec<u64> = values.into_iter().collect();
        values.sort_unstable();
        if values.is_empty() {
            return Spread::default();
        }
        let sum: u128 = values.iter().map(|v| u128::from(*v)).sum();
        let at = |q: f64| values[((values.len() as f64 * q).ceil() as usize).max(1) - 1] as f64;
        Spread {
            mean: round(sum as f64 / values.len() as f64 / unit),
            median: round(at(0.5) / unit),
            p90: round(at(0.9) / unit),
        }
    }
}

/// Figures of a recording.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Stats {
    /// Seconds from the first call to the last.
    pub seconds: f64,
    /// Threads that made calls on files.
    pub threads: usize,
    /// Number of calls by kind.
    pub calls: BTreeMap<&'static str, u64>,
    /// Number of fsyncs and fdatasyncs.
    pub syncs: u64,
    /// Number of those that sync a directory.
    pub directory_syncs: u64,
    /// Mean number of syncs in 5 s.
    pub syncs_per_5s: f64,
    /// Windows of 5 s from the beginning of the recording to the last call.
    pub windows: u64,
    /// Windows in which there is a sync.
    pub windows_active: u64,
    /// Most syncs in one window.
    pub windows_max: u64,
    /// For each sync the number of different 4 KiB pages that were written to its file since the
    /// file's last sync; 0 for a directory.
    pub pages_per_sync: Spread,
    /// For each sync the bytes that were written to its file since the file's last sync.
    pub bytes_per_sync: Spread,
    /// Milliseconds between the starts of two successive syncs.
    pub sync_gap_ms: Spread,
    /// The application's own time (see [`Pacing`]) in all, divided by the number of syncs,
    /// microseconds.
    pub own_us_per_sync: f64,
    /// For each sync the own time of its thread since that thread's last sync, or since it paused
    /// for longer than `idle`, microseconds: what lies between two syncs of a burst and is not the
    /// device's.
    pub thread_own_us: Spread,
    /// The application's own time in all, seconds.
    pub own_seconds: f64,
    /// Bytes of all writes.
    pub written_bytes: u64,
    /// Number of writes by size, as (largest size in bytes, number).
    pub write_sizes: Vec<(u64, u64)>,
}

/// What was written to a file since its last sync.
#[derive(Default)]
struct Dirty {
    pages: BTreeSet<u64>,
    bytes: u64,
}

/// Pages of one write that are counted one by one, at most: 1 GiB.
const PAGES_MAX: u64 = 1 << 18;
const SIZE_CLASSES: [u64; 8] = [
    64,
    512,
    4095,
    4096,
    16 << 10,
    64 << 10,
    1 << 20,
    u32::MAX as u64,
];

/// Computes the figures of `recording`.
pub fn of(recording: &Recording) -> Stats {
    let calls = &recording.calls;
    let mut stats = Stats {
        write_sizes: SIZE_CLASSES.map(|bytes| (bytes, 0)).into(),
        ..Stats::default()
    };
    let (Some(first), Some(last)) = (calls.first(), calls.last()) else {
        return stats;
    };
    let threads: BTreeSet<u32> = calls.iter().map(|c| c.thread).collect();
    let span = last.at.0.saturating_sub(first.at.0);
    (stats.threads, stats.seconds) = (threads.len(), round(span as f64 / 1e9));
    let mut files = Files::default();
    let (mut pages, mut bytes, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
    for call in calls {
        *stats.calls.entry(call.op.kind()).or_default() += 1;
        files.follow(&call.op);
        match &call.op {
            Op::Write {
                handle,
                offset,
                bytes,
            } => {
                stats.count_write(u64::from(*bytes));
                files.write(handle.0, *offset, u64::from(*bytes));
            }
            Op::Sync { handle, .. } => {
                let dirty = files.sync(handle.0);
                stats.directory_syncs += u64::from(dirty.is_none());
                let dirty = dirty.unwrap_or_default();
                pages.push(dirty.pages.len() as u64);
                bytes.push(dirty.bytes);
                syncs.push(call.at.0);
            }
            _ => {}
        }
    }
    stats.count_syncs(&syncs, last.at.0, span);
    stats.pages_per_sync = Spread::of(pages, 1.0);
    stats.bytes_per_sync = Spread::of(bytes, 1.0);
    let busy = Pacing {
        pace: Pace::Busy,
        ..Pacing::default()
    };
    let own: u64 = own_time(calls, &busy).iter().map(|p| p.0).sum();
    stats.thread_own_us = Spread::of(since_last_sync(calls, &busy), 1e3);
    stats.own_seconds = round(own as f64 / 1e9);
    stats.own_us_per_sync = round(own as f64 / 1e3 / stats.syncs.max(1) as f64);
    stats
}

/// For each sync the own time of its thread since the thread's last sync, nanoseconds.
fn since_last_sync(calls: &[Call], pacing: &Pacing) -> Vec<u64> {
    let mut threads: BTreeMap<u32, (u64, u64, bool)> = BTreeMap::new();
    let mut own = Vec::new();
    for call in calls {
        let (last, sum, synced) = threads
            .get(&call.thread)
            .copied()
            .unwrap_or((call.at.0, 0, false));
        let span = call.at.0.saturating_sub(last);
        let sum = match span <= pacing.idle.0 && !synced {
            true => sum + span,
            false => 0,
        };
        let syncs = call.op.is_sync();
        if syncs {
            own.push(sum);
        }
        threads.insert(call.thread, (call.at.0, sum, syncs));
    }
    own
}

impl Stats {
    fn count_write(&mut self, bytes: u64) {
        self.written_bytes += bytes;
        let class = self
            .write_sizes
            .iter_mut()
            .find(|(most, _)| bytes <= *most)
            .expect("the last class holds everything");
        class.1 += 1;
    }

    fn count_syncs(&mut self, syncs: &[u64], end: u64, span: u64) {
        self.syncs = syncs.len() as u64;
        self.windows = end.div_ceil(WINDOW_NANOS).max(1);
        let mut windows: BTreeMap<u64, u64> = BTreeMap::new();
        for at in syncs {
            *windows.entry(at / WINDOW_NANOS).or_default() += 1;
        }
        self.windows_active = windows.len() as u64;
        self.windows_max = windows.values().copied().max().unwrap_or_default();
        let windows = span as f64 / WINDOW_NANOS as f64;
        self.syncs_per_5s = if windows > 0.0 {
            round(self.syncs as f64 / windows)
        } else {
            self.syncs as f64
        };
        let gaps = syncs.windows(2).map(|pair| pair[1] - pair[0]);
        self.sync_gap_ms = Spread::of(gaps, 1e6);
    }
}

/// Which file a handle stands for, through unlinks and renames.
#[derive(Default)]
struct Files {
    names: BTreeMap<String, usize>,
    /// Open handles with the number of their file; `None` for a directory.
    open: BTreeMap<u32, Option<usize>>,
    dirty: Vec<Dirty>,
}

impl Files {
    fn follow(&mut self, op: &Op) {
        match op {
            Op::Open {
                handle,
                path,
                directory,
                ..
            } => {
                let file = (!directory).then(|| {
                    let fresh = self.dirty.len();
                    let file = *self.names.entry(path.clone()).or_insert(fresh);
                    if file == fresh {
                        self.dirty.push(Dirty::default());
                    }
                    file
                });
                self.open.insert(handle.0, file);
            }
            Op::Close { handle } => drop(self.open.remove(&handle.0)),
            Op::Unlink { path } => drop(self.names.remove(path)),
            Op::Rename { from, to } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, handle: u32, offset: u64, bytes: u64) {
        if let (Some(Some(file)), true) = (self.open.get(&handle), bytes > 0) {
            let dirty = &mut self.dirty[*file];
            dirty.bytes += bytes;
            let block = BLOCK_BYTES as u64;
            let (first, last) = (offset / block, offset.saturating_add(bytes - 1) / block);
            dirty
                .pages
                .extend(first..=last.min(first.saturating_add(PAGES_MAX)));
        }
    }

    /// What a sync makes durable; `None` if the handle is a directory.
    fn sync(&mut self, handle: u32) -> Option<Dirty> {
        let file = (*self.open.get(&handle)?)?;
        Some(std::mem::take(&mut self.dirty[file]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Call, Handle};
    use base::Nanos;

    #[test]
    fn figures_of_a_small_recording() {
        let open = |handle, path: &str, directory: bool| Op::Open {
            handle: Handle(handle),
            path: path.into(),
            create: !directory,
            truncate: false,
            directory,
        };
        let write = |handle, offset, bytes| Op::Write {
            handle: Handle(handle),
            offset,
            bytes,
        };
        let sync = |handle| Op::Sync {
            handle: Handle(handle),
            data_only: false,
        };
        let ops = [
            (0, 1, open(1, "/d/a", false)),
            (1, 1, write(1, 0, 4616)),
            (2, 1, write(1, 4616, 4)),
            (3, 1, sync(1)),
            (8, 1, open(2, "/d", true)),
            (9, 1, sync(2)),
            (14, 1, write(1, 8192, 100)),
            (15, 2, open(3, "/d/a", false)),
            (6_000, 2, sync(3)),
            (10_000, 2, Op::Close { handle: Handle(3) }),
        ];
        let calls = ops.map(|(ms, thread, op)| Call {
            at: Nanos::from_millis(ms),
            thread,
            op,
        });
        let stats = of(&Recording {
            calls: calls.into(),
            ..Recording::default()
        });
        assert_eq!((stats.seconds, stats.threads), (10.0, 2));
        assert_eq!((stats.syncs, stats.directory_syncs), (3, 1));
        assert_eq!(
            (stats.windows, stats.windows_active, stats.windows_max),
            (2, 2, 2)
        );
        assert_eq!(stats.syncs_per_5s, 1.5);
        // The syncs have two pages, none, and a third page that came through another handle.
        let spread = |mean, median, p90| Spread { mean, median, p90 };
        assert_eq!(stats.pages_per_sync, spread(1.0, 1.0, 2.0));
        assert_eq!(stats.bytes_per_sync, spread(1573.333333, 100.0, 4620.0));
        assert_eq!(stats.sync_gap_ms, spread(2998.5, 6.0, 5991.0));
        // There is 1 + 1 + 1 before the first sync, 1 before the second, and 1 before the open of
        // the other thread.
        assert_eq!(stats.own_us_per_sync, 1666.666667);
        // There are 3 ms before the first sync; before the last one its thread had paused.
        assert_eq!(stats.thread_own_us, spread(1333.333333, 1000.0, 3000.0));
        assert_eq!(stats.write_sizes[0], (64, 1));
        assert_eq!(stats.calls["open"], 3);
        assert_eq!(of(&Recording::default()).syncs, 0);
    }
}
