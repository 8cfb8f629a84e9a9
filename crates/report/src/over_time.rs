//! A run over its time: how long calls took, and what journal and device did meanwhile.
//!
//! The measured part is cut into equal bins. [`Line`] gathers them while the run goes on and its
//! length is not known: when it has too many bins, two become one.

use crate::metrics::{micros, round};
use base::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bins that a line keeps at most; it never has less than half of them once it has had all.
const BINS_MAX: usize = 128;
/// Width of a bin at first, nanoseconds.
const FIRST_NS: u64 = 1 << 17;

/// What happened in a span of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Happened {
    /// Writes that end a commit: commit blocks, records that commit themselves, fast commits.
    pub commits: u64,
    /// 4 KiB blocks of metadata that a checkpoint wrote home, or of a checkpoint of F2FS.
    pub checkpoint_blocks: u64,
    /// 4 KiB units that the device moved: by garbage collection, or out of its SLC area.
    pub moved_units: u64,
    /// Erases of blocks of the flash.
    pub erases: u64,
}

impl Happened {
    fn add(&mut self, more: &Happened) {
        self.commits += more.commits;
        self.checkpoint_blocks += more.checkpoint_blocks;
        self.moved_units += more.moved_units;
        self.erases += more.erases;
    }
}

/// Calls that ended in a span of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Calls {
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Calls {
    fn add(&mut self, more: &Calls) {
        self.count += more.count;
        self.sum_ns += more.sum_ns;
        self.max_ns = self.max_ns.max(more.max_ns);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bin {
    calls: Calls,
    happened: Happened,
}

/// Gathers the bins of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    width_ns: u64,
    bins: Vec<Bin>,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            width_ns: FIRST_NS,
            bins: Vec::new(),
        }
    }
}

impl Line {
    /// A call ended so long after the beginning of the measured part.
    pub fn called(&mut self, end: Nanos, took: Nanos) {
        let one = Calls {
            count: 1,
            sum_ns: took.0,
            max_ns: took.0,
        };
        self.bin(end).calls.add(&one);
    }

    /// Something happened so long after the beginning of the measured part.
    pub fn happened(&mut self, at: Nanos, what: &Happened) {
        self.bin(at).happened.add(what);
    }

    fn bin(&mut self, at: Nanos) -> &mut Bin {
        while at.0 / self.width_ns >= BINS_MAX as u64 {
            self.halve();
        }
        let index = (at.0 / self.width_ns) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        &mut self.bins[index]
    }

    /// Two bins become one.
    fn halve(&mut self) {
        let pair = |two: &[Bin]| {
            two.iter().fold(Bin::default(), |mut sum, bin| {
                sum.calls.add(&bin.calls);
                sum.happened.add(&bin.happened);
                sum
            })
        };
        self.bins = self.bins.chunks(2).map(pair).collect();
        self.width_ns *= 2;
    }

    /// The calls of `calls` beside what happened of `self`, in bins as wide as those of the wider
    /// of the two.
    fn with_calls(mut self, mut calls: Line) -> Line {
        while self.width_ns < calls.width_ns {
            self.halve();
        }
        while calls.width_ns < self.width_ns {
            calls.halve();
        }
        let bins = self.bins.len().max(calls.bins.len());
        self.bins.resize(bins, Bin::default());
        for (bin, other) in self.bins.iter_mut().zip(&calls.bins) {
            bin.calls = other.calls;
        }
        self
    }
}

/// How long calls took over the measured part of a run, and what happened meanwhile. Each list has
/// one entry a bin.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct OverTime {
    /// Width of a bin, virtual seconds.
    pub bin_s: f64,
    /// Which calls: `sync` for fsync and fdatasync, `operation` where the workload calls neither.
    pub of: String,
    /// Calls that ended.
    pub calls: Vec<u64>,
    /// Their mean duration, microseconds; 0 without calls.
    pub mean_us: Vec<f64>,
    /// The longest, microseconds.
    pub max_us: Vec<f64>,
    /// Commits: writes of a commit block, of a record that commits itself, or of a fast commit.
    pub commits: Vec<u64>,
    /// 4 KiB blocks that checkpoints wrote: metadata to its home, or an area of F2FS.
    pub checkpoint_blocks: Vec<u64>,
    /// 4 KiB units that the device moved, by garbage collection or out of its SLC area.
    pub moved_units: Vec<u64>,
    /// Erases of blocks of the flash.
    pub erases: Vec<u64>,
}

impl OverTime {
    /// The figures for `results.json`: `happened` beside the syncs or, if there were none, beside
    /// the operations. `None` if nothing was called.
    pub fn of(happened: Line, syncs: Line, operations: Line) -> Option<OverTime> {
        let (of, calls) = match syncs.bins.is_empty() {
            false => ("sync", syncs),
            true => ("operation", operations),
        };
        if calls.bins.is_empty() {
            return None;
        }
        let line = happened.with_calls(calls);
        let column = |of: fn(&Bin) -> u64| line.bins.iter().map(of).collect::<Vec<u64>>();
        let times = |of: fn(&Bin) -> u64| line.bins.iter().map(|bin| micros(of(bin))).collect();
        Some(OverTime {
            bin_s: round(line.width_ns as f64 / 1e9),
            of: of.into(),
            calls: column(|bin| bin.calls.count),
            mean_us: times(|bin| bin.calls.sum_ns.checked_div(bin.calls.count).unwrap_or(0)),
            max_us: times(|bin| bin.calls.max_ns),
            commits: column(|bin| bin.happened.commits),
            checkpoint_blocks: column(|bin| bin.happened.checkpoint_blocks),
            moved_units: column(|bin| bin.happened.moved_units),
            erases: column(|bin| bin.happened.erases),
        })
    }

    /// Number of bins.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// There is no bin.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_line_grows_with_the_run_and_loses_nothing() {
        let (mut happened, mut syncs) = (Line::default(), Line::default());
        let commit = Happened {
            commits: 1,
            erases: 2,
            ..Happened::default()
        };
        for n in 0..1000 {
            happened.happened(Nanos(n * 7 * MS), &commit);
            syncs.called(Nanos(n * 7 * MS), Nanos(n));
        }
        assert!(happened.bins.len() <= BINS_MAX && happened.bins.len() >= BINS_MAX / 2);
        let over = OverTime::of(happened, syncs, Line::default()).expect("there were calls");
        assert_eq!(over.calls.iter().sum::<u64>(), 1000);
        assert_eq!(over.commits.iter().sum::<u64>(), 1000);
        assert_eq!(over.erases.iter().sum::<u64>(), 2000);
        let longest = over.max_us.iter().copied().fold(0.0, f64::max);
        assert_eq!((longest, over.of.as_str()), (0.999, "sync"));
        assert_eq!(
            over.commits, over.calls,
            "what is at one time is in one bin"
        );
        let last = (999.0 * 0.007 / over.bin_s) as usize;
        assert_eq!(over.len(), last + 1);
    }

    #[test]
    fn lines_of_unequal_width_are_brought_together() {
        let (mut happened, mut ops) = (Line::default(), Line::default());
        let block = Happened {
            checkpoint_blocks: 3,
            ..Happened::default()
        };
        happened.happened(Nanos(5 * MS), &block);
        ops.called(Nanos(4000 * MS), Nanos(8000));
        ops.called(Nanos(4000 * MS), Nanos(2000));
        let over = OverTime::of(happened, Line::default(), ops).expect("there were calls");
        assert_eq!(over.of, "operation");
        assert_eq!((over.checkpoint_blocks[0], over.calls[0]), (3, 0));
        let last = over.len() - 1;
        assert_eq!(
            (over.calls[last], over.mean_us[last], over.max_us[last]),
            (2, 5.0, 8.0)
        );
        for column in [
            over.commits.len(),
            over.moved_units.len(),
            over.max_us.len(),
        ] {
            assert_eq!(column, over.len());
        }
        assert_eq!(
            OverTime::of(Line::default(), Line::default(), Line::default()),
            None
        );
    }
}
