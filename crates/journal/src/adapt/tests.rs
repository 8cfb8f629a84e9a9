//! Runs the cost model against scripted devices: what it chooses, how soon it learns, what learning
//! costs.

use super::*;
use crate::Ending;

/// True costs of a device, microseconds: (command, one more block).
#[derive(Clone, Copy)]
struct Device {
    cached: (f64, f64),
    fua: (f64, f64),
    flush: (f64, f64),
}

/// The fit to the paper's Fig. 8: direct pays below 128 KB.
const FIG8: Device = Device {
    cached: (125.0, 14.0),
    fua: (1025.0, 114.0),
    flush: (1400.0, 84.0),
};
/// Flushes next to nothing, FUA as before.
const CHEAP_FLUSH: Device = Device {
    flush: (50.0, 5.0),
    ..FIG8
};
/// FUA next to nothing: battery-backed.
const CHEAP_FUA: Device = Device {
    fua: (30.0, 15.0),
    cached: (25.0, 14.0),
    flush: (2000.0, 20.0),
};

fn line((base, block): (f64, f64), blocks: f64) -> f64 {
    1000.0 * (base + block * blocks)
}

struct Play {
    adapt: Adapt,
    device: Device,
    samples: Vec<Sample>,
}

impl Play {
    fn new(device: Device) -> Play {
        let ram = blockdev::Ram::new(1 << 20);
        let caps = Caps {
            volatile_cache: true,
            fua: true,
            ..blockdev::BlockDevice::caps(&ram)
        };
        Play {
            adapt: Adapt::new(&caps, true),
            device,
            samples: Vec::new(),
        }
    }

    fn spend(&mut self, work: Work, blocks: u64) -> f64 {
        let line_of = match work {
            Work::Cached => self.device.cached,
            Work::Fua => self.device.fua,
            Work::Flush => self.device.flush,
        };
        let span = line(line_of, blocks as f64);
        self.samples.push(Sample {
            work,
            commands: 1,
            at_once: 1,
            blocks,
            span: Nanos(span as u64),
        });
        span
    }

    /// Small ones, by the model.
    fn fsyncs(&mut self, count: u64) {
        for _ in 0..count {
            self.fsync(2, 1, None);
        }
    }

    /// One fsync of `data` blocks in a row with a log of `log` blocks, by the model or by a fixed
    /// choice.
    fn fsync(&mut self, data: u64, log: u64, fixed: Option<(DataPath, Ending)>) -> f64 {
        self.adapt.observe(&std::mem::take(&mut self.samples));
        let need = DataNeed {
            blocks: data,
            runs: 1,
            commits: log > 0,
            flush_anyway: false,
        };
        let path = fixed.map_or_else(|| self.adapt.data(need, Beside::default(), 0).0, |f| f.0);
        let mut cost = match path {
            DataPath::Direct | DataPath::WithLog => self.spend(Work::Fua, data),
            DataPath::Cached => self.spend(Work::Cached, data),
        };
        let dirty = if path == DataPath::Cached { data } else { 0 };
        self.adapt.observe(&std::mem::take(&mut self.samples));
        if log == 0 {
            return cost
                + if dirty > 0 {
                    self.spend(Work::Flush, dirty)
                } else {
                    0.0
                };
        }
        let ending = fixed.map_or_else(|| self.adapt.log((log, 0), dirty > 0, dirty).0, |f| f.1);
        match ending {
            Ending::Ahead => {
                if dirty > 0 {
                    cost += self.spend(Work::Flush, dirty);
                }
                cost + self.spend(Work::Fua, log)
            }
            Ending::End => {
                if log > 1 {
                    cost += self.spend(Work::Cached, log - 1);
                }
                cost += self.spend(Work::Flush, dirty + log - 1);
                cost + self.spend(Work::Fua, 1)
            }
        }
    }
}

const FIXED: [(DataPath, Ending); 4] = [
    (DataPath::Direct, Ending::Ahead),
    (DataPath::Direct, Ending::End),
    (DataPath::Cached, Ending::Ahead),
    (DataPath::Cached, Ending::End),
];

/// Total cost of `rounds` fsyncs whose sizes `workload` gives.
fn total(
    device: Device,
    rounds: u64,
    workload: fn(u64) -> (u64, u64),
    fixed: Option<usize>,
) -> f64 {
    let mut play = Play::new(device);
    (0..rounds)
        .map(|n| {
            let (data, log) = workload(n);
            play.fsync(data, log, fixed.map(|f| FIXED[f]))
        })
        .sum()
}

/// Blocks of data and of log of the n-th fsync.
type Sizes = fn(u64) -> (u64, u64);

const WORKLOADS: [(&str, Sizes); 6] = [
    ("one block, one log block", |_| (1, 1)),
    ("fdatasync of one block", |_| (1, 0)),
    ("three blocks, two log blocks", |_| (3, 2)),
    ("alternating small and large", |n| {
        if n % 2 == 0 { (1, 1) } else { (256, 3) }
    }),
    ("large data", |_| (512, 2)),
    ("large log", |_| (2, 200)),
];

#[test]
fn never_three_percent_behind_the_best_fixed_choice() {
    for (device, name) in [
        (FIG8, "fig8"),
        (CHEAP_FLUSH, "cheap flush"),
        (CHEAP_FUA, "cheap fua"),
    ] {
        for (what, workload) in WORKLOADS {
            let best = (0..4)
                .map(|f| total(device, 1000, workload, Some(f)))
                .fold(f64::INFINITY, f64::min);
            let adaptive = total(device, 1000, workload, None);
            assert!(
                adaptive <= 1.03 * best,
                "{name}, {what}: {adaptive} against {best}"
            );
        }
    }
}

#[test]
fn a_device_that_changes_is_noticed() {
    let mut play = Play::new(FIG8);
    let direct = |play: &Play, n: u64| {
        let need = DataNeed {
            blocks: n,
            runs: 1,
            commits: true,
            flush_anyway: false,
        };
        let q = Question::Data { need, dirty: 0 };
        play.adapt.cost(&q, Way::Past) < play.adapt.cost(&q, Way::Through)
    };
    play.fsyncs(400);
    assert!(direct(&play, 2) && !direct(&play, 256));
    // Garbage collection is over, or the firmware throttles: flushes become cheap.
    play.device = CHEAP_FLUSH;
    play.fsyncs(2000);
    assert!(
        !direct(&play, 2),
        "an estimate that is never refreshed is wrong for ever"
    );
    play.device = FIG8;
    play.fsyncs(2000);
    assert!(direct(&play, 2), "and back");
}

#[test]
fn trying_is_paid_from_its_budget() {
    // Whatever is tried costs a hundred times what was assumed.
    let awful = Device {
        flush: (200_000.0, 0.0),
        ..CHEAP_FUA
    };
    let mut play = Play::new(awful);
    let spent: f64 = (0..5000).map(|_| play.fsync(1, 1, None)).sum();
    let best = total(awful, 5000, |_| (1, 1), Some(0));
    assert!(
        spent <= 1.03 * best + 1000.0 * 200_000.0,
        "{spent} against {best}"
    );
}

#[test]
fn equal_samples_equal_choices() {
    let run = || {
        let mut play = Play::new(FIG8);
        let costs: Vec<u64> = (0..300)
            .map(|n| play.fsync(1 + n * 7 % 40, n % 5, None) as u64)
            .collect();
        costs
    };
    assert_eq!(run(), run());
}

#[test]
fn there_is_no_choice_without_a_cache_or_where_a_flush_is_due() {
    let mut play = Play::new(FIG8);
    let need = DataNeed {
        blocks: 1,
        runs: 1,
        commits: true,
        flush_anyway: true,
    };
    assert_eq!(
        play.adapt.data(need, Beside::default(), 9),
        (DataPath::Cached, Why::Only)
    );
    assert_eq!(play.adapt.log((1, 0), true, 9), (Ending::Ahead, Why::Only));
    play.adapt.cache = false;
    let need = DataNeed {
        flush_anyway: false,
        ..need
    };
    assert_eq!(
        play.adapt.data(need, Beside::default(), 0),
        (DataPath::Cached, Why::Only)
    );
    assert_eq!(play.adapt.log((9, 0), false, 0), (Ending::Ahead, Why::Only));
}

/// hazards-H13: a log block in the cache may damage committed ones beside it, so neither costs nor
/// curiosity may send it there.
#[test]
fn the_log_stays_out_of_a_cache_that_does_harm() {
    let ends = |no_collateral| {
        let ram = blockdev::Ram::new(1 << 20);
        let caps = Caps {
            volatile_cache: true,
            fua: true,
            no_collateral,
            ..blockdev::BlockDevice::caps(&ram)
        };
        let mut adapt = Adapt::new(&caps, true);
        adapt.random = Some(base::Rng::named(1, "choices"));
        let mut chosen = |n: u64| adapt.log((1 + n % 40, 0), n.is_multiple_of(2), n).0;
        (0..400).filter(|n| chosen(*n) == Ending::End).count()
    };
    assert_eq!(ends(false), 0);
    assert!(ends(true) > 100);
}

/// What a group of fsyncs of one block each is told on a device, each after a thousand alone.
fn told(device: Device, overlaps: bool, callers: usize) -> Vec<(DataPath, Why)> {
    let mut play = Play::new(device);
    play.fsyncs(1000);
    play.adapt.observe(&std::mem::take(&mut play.samples));
    let need = DataNeed {
        blocks: 1,
        runs: 1,
        commits: true,
        flush_anyway: false,
    };
    // Nothing is left to try with.
    play.adapt.tried = f64::INFINITY;
    let single = line(device.fua, 1.0);
    play.adapt.observe(&[Sample {
        work: Work::Fua,
        commands: 4,
        at_once: 4,
        blocks: 4,
        span: Nanos((if overlaps { single } else { 4.0 * single }) as u64),
    }]);
    let syncs = Syncs::default();
    let entered: Vec<_> = (0..callers).map(|_| syncs.enter(need)).collect();
    let ask = |_: &Syncing<'_>| play.adapt.data(need, syncs.beside(), 0);
    entered.iter().map(ask).collect()
}

#[test]
fn many_callers_share_a_flush_unless_the_device_does_their_writes_at_once() {
    assert_eq!(told(FIG8, false, 1), [(DataPath::Direct, Why::Cheapest)]);
    assert_eq!(told(FIG8, false, 8), [(DataPath::Cached, Why::Cheapest); 8]);
    assert_eq!(told(FIG8, true, 8), [(DataPath::Direct, Why::Cheapest); 8]);
    assert_eq!(
        told(CHEAP_FUA, false, 8),
        [(DataPath::Direct, Why::Cheapest); 8]
    );
}

#[test]
fn a_trial_is_made_by_all_callers_of_a_group() {
    let mut play = Play::new(FIG8);
    // Only the way past the cache is known.
    let past = Sample {
        work: Work::Fua,
        commands: 1,
        at_once: 1,
        blocks: 1,
        span: Nanos(line(FIG8.fua, 1.0) as u64),
    };
    play.adapt.observe(&[past; 20]);
    let need = DataNeed {
        blocks: 1,
        runs: 1,
        commits: true,
        flush_anyway: false,
    };
    let syncs = Syncs::default();
    let _group = [(); 3].map(|()| syncs.enter(need));
    let mut ask = || play.adapt.data(need, syncs.beside(), 0);
    let tried = [(); 3].map(|()| ask());
    assert_eq!(
        tried,
        [(DataPath::Cached, Why::Tried); 3],
        "blind of flushes"
    );
    assert_eq!(ask(), (DataPath::Direct, Why::Cheapest));
}
