//! Measures a benchmark on one of the systems, from its first operation to the end of its last, as
//! filebench does. So what comes home only later is not in the time, except in
//! [`BenchJob::run_synced`], where what is left to do at the end counts as well. Every system
//! begins settled: what the preparation changed is at home.

use super::scale;
use crate::PaperError;
use base::{Nanos, SECTORS_PER_BLOCK, Time};
use report::metrics::{CdfPoint, Latencies, LatencySummary, round};
use rig::{CheckpointStats, Class, F2fsJournalStats, JournalStats, Stack};
use rt::SimConfig;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeMap;
use work::RunConfig;
use work::life::{directly, live_in};
use work::run::sync_home;
use work::workload::bench::room;
use work::workload::{Aging, Workload};

/// The host that a run has, beside the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Host {
    /// CPU costs in percent of the table.
    pub cpu_percent: u32,
    /// Virtual cores.
    pub cores: usize,
}

impl Host {
    /// A host with this many cores and the CPU costs of the table.
    pub const fn cores(cores: usize) -> Host {
        Host {
            cpu_percent: 100,
            cores,
        }
    }

    /// The configuration of a simulation of this host.
    pub fn sim(self, seed: u64) -> SimConfig {
        SimConfig {
            cpu_percent: self.cpu_percent,
            cores: self.cores,
            ..SimConfig::seeded(seed)
        }
    }
}

/// The job: a benchmark on a system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BenchJob {
    /// System, and a benchmark as workload.
    pub run: RunConfig,
    /// The host that it runs on.
    pub host: Host,
}

/// The figures of a benchmark. Times are virtual.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Number of operations.
    pub ops: u64,
    /// Seconds from the first operation to the end of the last.
    pub seconds: f64,
    /// Number of operations by kind.
    pub kinds: BTreeMap<String, u64>,
    /// Latency of an operation.
    pub latency_us: LatencySummary,
    /// Distribution of the latencies.
    pub cdf: Vec<CdfPoint>,
    /// The run in slices of equal length; empty if all operations are told at its end.
    pub series: Vec<Slice>,
    /// 90th percentile, in milliseconds, of the operations that met a checkpoint. As many
    /// operations as there were checkpoints are taken for these, the slowest ones.
    pub met_p90_ms: f64,
    /// The checkpoints of F2FS.
    pub checkpoints: Checkpoints,
    /// The cleaning of F2FS.
    pub cleaned: Cleaned,
    /// Commits and applies; `None` without a journal of F2FS.
    pub journal: Option<Journaled>,
    /// JBD2's waits and steps by name, and the writing of committed blocks as `home`, in seconds;
    /// empty on F2FS.
    pub jbd2_s: BTreeMap<String, f64>,
    /// Transactions that JBD2 committed, and blocks that it wrote into the log for them.
    pub jbd2: (u64, u64),
    /// Number of blocks written, by class.
    pub blocks: BTreeMap<String, u64>,
    /// CPU time that was charged in the run, of all cores together, in seconds. The benchmark's own
    /// work is not charged.
    pub cpu_s: f64,
    /// Bytes in memory at the end of the run, by part (`F2fs::memory`); empty on ext4.
    pub memory_bytes: BTreeMap<String, u64>,
    /// What making the objects took before the run, without what brought them home then. Such work
    /// may be in a published figure (Filebench's preallocation).
    pub preparation: Took,
}

/// A time, and what of it was spent on staying consistent; seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Took {
    /// All of it.
    pub seconds: f64,
    /// Inside of checkpoints.
    pub checkpoints_s: f64,
    /// Operations' time on a journal of F2FS.
    pub journal_s: f64,
}

impl Measured {
    /// The run, and its preparation.
    pub fn with_preparation(&self) -> Took {
        let before = self.preparation;
        let journal = self.journal.as_ref().map_or(0.0, Journaled::of_operations);
        Took {
            seconds: before.seconds + self.seconds,
            checkpoints_s: before.checkpoints_s + self.checkpoints.inside_s,
            journal_s: before.journal_s + journal,
        }
    }
}

/// One of the slices of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Slice {
    /// Its beginning, seconds since the beginning of the run.
    pub at: f64,
    /// Number of operations that ended in it.
    pub ops: u64,
    /// Their mean latency, microseconds.
    pub mean_us: f64,
    /// Their greatest latency, microseconds.
    pub max_us: f64,
}

/// Sections of F2FS that were chosen to be cleaned.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Cleaned {
    /// Number of them from the mount to the run, while the volume was aged or filled.
    pub before: u64,
    /// Number of them in the run.
    pub sections: u64,
    /// Time that operations spent cleaning, seconds.
    pub foreground_s: f64,
}

/// Checkpoints in a run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Checkpoints {
    /// Number of checkpoint packs.
    pub packs: u64,
    /// Time inside checkpoints, from the freeze to the end of the commit, seconds.
    pub inside_s: f64,
    /// The longest checkpoint since the mount, milliseconds.
    pub longest_ms: f64,
}

/// What a journal of F2FS did in a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Journaled {
    /// Number of epochs committed.
    pub commits: u64,
    /// Bytes of records that were logged.
    pub bytes: u64,
    /// Number of blocks written into the ring.
    pub blocks: u64,
    /// Whole blocks among what was logged, by kind; there are some only with `records=pages`.
    pub pages: BTreeMap<String, u64>,
    /// Number of commits that were made by a checkpoint pack, as the ring was too small.
    pub by_pack: u64,
    /// Bytes of the largest epoch.
    pub bytes_max: u64,
    /// Time of commits, by phase, seconds.
    pub commit_s: BTreeMap<String, f64>,
    /// Time of applies, by phase, seconds.
    pub apply_s: BTreeMap<String, f64>,
    /// Time that operations waited, by cause, seconds.
    pub waits_s: BTreeMap<String, f64>,
    /// Time that operations spent on logging, seconds.
    pub logging_s: f64,
    /// The part of `logging_s` in and for locks, seconds.
    pub locking_s: f64,
    /// Time that operations waited until an epoch was closed, seconds.
    pub switch_s: f64,
    /// Blocks that applies wrote home: nodes, directory pages, NAT, SIT, SSA.
    pub home_blocks: u64,
    /// Number of nodes and pages that were written as they were in memory.
    pub fast_forwarded: u64,
    /// Number of nodes and pages that were made from the block at home and from records.
    pub patched: u64,
    /// Number of nodes of which nothing had to be written.
    pub skipped: u64,
}

impl Journaled {
    /// Time that operations spent on the journal: logging, and waiting for it; seconds.
    pub fn of_operations(&self) -> f64 {
        self.operations_s().values().sum()
    }

    /// The time of [`of_operations`](Self::of_operations) by what it was spent on, without parts
    /// that took none, seconds.
    pub fn operations_s(&self) -> BTreeMap<String, f64> {
        let own = [("logging", self.logging_s), ("switch", self.switch_s)];
        let own = own.map(|(name, s)| (name.to_string(), s));
        let waits = self.waits_s.iter();
        let waits = waits.map(|(name, s)| (format!("wait for {name}"), *s));
        let all = own.into_iter().chain(waits);
        all.filter(|(_, s)| *s > 0.0).collect()
    }

    /// Time of commits and applies, which run in tasks beside the operations, seconds.
    pub fn of_tasks(&self) -> f64 {
        self.commit_s.values().chain(self.apply_s.values()).sum()
    }
}

/// All counters at one moment.
struct Reading {
    at: Time,
    sectors: BTreeMap<Class, u64>,
    checkpoints: CheckpointStats,
    /// Number of sections that were cleaned, and the time of operations that did it.
    cleaned: (u64, Nanos),
    journal: Option<F2fsJournalStats>,
    jbd2: JournalStats,
    charged: Nanos,
    memory: BTreeMap<String, u64>,
}

impl Reading {
    fn take(stack: &Stack) -> Reading {
        let f2fs = stack.fs.f2fs();
        let memory = f2fs.map(|fs| {
            let parts = fs.memory().parts().into_iter();
            parts.map(|(part, bytes)| (part.into(), bytes)).collect()
        });
        Reading {
            at: rt::now(),
            charged: rt::charged(),
            memory: memory.unwrap_or_default(),
            sectors: stack.queue.stats().sectors_written,
            checkpoints: f2fs.map(|fs| fs.checkpoints()).unwrap_or_default(),
            cleaned: f2fs
                .map(|fs| fs.gc_stats())
                .map_or_else(Default::default, |gc| {
                    (gc.sections.values().sum(), gc.foreground)
                }),
            journal: f2fs.and_then(|fs| fs.journal_stats()),
            jbd2: match f2fs {
                Some(_) => JournalStats::default(),
                None => stack.fs.journal_stats(),
            },
        }
    }
}

impl BenchJob {
    /// Runs the benchmark.
    ///
    /// # Errors
    /// The run fails, or the workload is no benchmark.
    pub fn run(&self) -> Result<Measured, PaperError> {
        self.measured(false)
    }

    /// Runs the benchmark and brings everything home, which counts as well. So all that the
    /// operations log is in the log at the end, and all that they change at home.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_synced(&self) -> Result<Measured, PaperError> {
        self.measured(true)
    }

    fn measured(&self, synced: bool) -> Result<Measured, PaperError> {
        let workload: Workload = self.run.workload.parse()?;
        let Workload::Bench(spec) = workload else {
            let given = &self.run.workload;
            return Err(PaperError::Check(format!("{given} is no benchmark")));
        };
        scale::check(&spec, self.run.stack.bytes)?;
        room::check(&self.run)?;
        let model = self.run.stack.format()?;
        let sim = self.host.sim(self.run.seed);
        let life = live_in(sim, &self.run, (model, &directly), |stack, _| {
            let of = (self.run.stack.bytes, self.run.seed);
            let aged = spec.background.aged;
            // A sync alone is a checkpoint on stock F2FS and a commit on F2FSJ, whose blocks would
            // go home in the measured run.
            let (begun, made) = (Reading::take(stack), Cell::new(None));
            let home = || {
                made.set(Some(Reading::take(stack)));
                sync_home(stack)
            };
            let aging = Aging::of(aged, &stack.vfs, of, home)?;
            let mut bench = spec.on(&stack.vfs, self.run.seed);
            bench.prepare(&home)?;
            if let Some(fs) = stack.fs.f2fs() {
                fs.restart_journal_maxima();
            }
            let before = Reading::take(stack);
            let mut ended: Vec<(Time, Nanos)> = Vec::new();
            let mut kinds: BTreeMap<&'static str, u64> = BTreeMap::new();
            bench.run(&|| Ok(()), &mut |told| {
                ended.push((told.end, told.took));
                *kinds.entry(told.kind).or_default() += 1;
            })?;
            if synced {
                sync_home(stack)?;
            }
            let after = Reading::take(stack);
            bench.check()?;
            aging.map_or(Ok(()), |aging| aging.check())?;
            let kinds = kinds.into_iter().map(|(kind, n)| (kind.into(), n));
            let made = made.take().map(|made| measured(&begun, &made, &[]));
            Ok(Measured {
                kinds: kinds.collect(),
                preparation: made.unwrap_or_default().with_preparation(),
                ..measured(&before, &after, &ended)
            })
        })?;
        Ok(life.value)
    }
}

const SLICES: u64 = 200;

fn measured(before: &Reading, after: &Reading, ended: &[(Time, Nanos)]) -> Measured {
    let all = after.at - before.at;
    let mut latencies = Latencies::default();
    ended.iter().for_each(|(_, took)| latencies.add(*took));
    let checkpoints = checkpoints(&before.checkpoints, &after.checkpoints);
    let blocks = Class::ALL.iter().map(|&class| {
        let of = |reading: &Reading| reading.sectors.get(&class).copied().unwrap_or(0);
        let sectors = of(after) - of(before);
        (class.word().into(), sectors.div_ceil(SECTORS_PER_BLOCK))
    });
    let journal = match (&before.journal, &after.journal) {
        (Some(before), Some(after)) => Some(journaled(before, after)),
        _ => None,
    };
    let mut jbd2_s = named(between(&before.jbd2.waits, &after.jbd2.waits, |name| {
        format!("wait: {name}")
    }));
    jbd2_s.extend(named(between(
        &before.jbd2.steps,
        &after.jbd2.steps,
        |name| format!("step: {name}"),
    )));
    jbd2_s.extend(named(vec![(
        "home".into(),
        Nanos(after.jbd2.homing.0 - before.jbd2.homing.0),
    )]));
    let jbd2 = (
        after.jbd2.transactions - before.jbd2.transactions,
        after.jbd2.blocks_logged - before.jbd2.blocks_logged,
    );
    Measured {
        ops: ended.len() as u64,
        seconds: round(all.0 as f64 / 1e9),
        kinds: BTreeMap::new(),
        latency_us: latencies.summary(),
        cdf: latencies.cdf(),
        series: series(before.at, all, ended),
        met_p90_ms: met_p90(ended, checkpoints.packs),
        checkpoints,
        cleaned: Cleaned {
            before: before.cleaned.0,
            sections: after.cleaned.0 - before.cleaned.0,
            foreground_s: round((after.cleaned.1.0 - before.cleaned.1.0) as f64 / 1e9),
        },
        journal,
        jbd2_s,
        jbd2,
        blocks: blocks.filter(|(_, n)| *n > 0).collect(),
        cpu_s: round((after.charged.0 - before.charged.0) as f64 / 1e9),
        memory_bytes: after.memory.clone(),
        preparation: Took::default(),
    }
}

/// Divides the operations into slices by the time at which they ended. It is empty if most ended at
/// one time, as those of several processes do that are told at the end.
fn series(start: Time, all: Nanos, ended: &[(Time, Nanos)]) -> Vec<Slice> {
    let told_at_once = ended.len() > 1 && ended.first().map(|e| e.0) == ended.last().map(|e| e.0);
    if told_at_once || all.0 == 0 {
        return Vec::new();
    }
    let length = all.0.div_ceil(SLICES);
    let mut slices = vec![(0_u64, 0_u64, 0_u64); SLICES as usize];
    for (at, took) in ended {
        let n = ((*at - start).0 / length).min(SLICES - 1) as usize;
        let (ops, sum, max) = &mut slices[n];
        (*ops, *sum, *max) = (*ops + 1, *sum + took.0, (*max).max(took.0));
    }
    let slice = |(n, (ops, sum, max)): (usize, (u64, u64, u64))| Slice {
        at: round(n as f64 * length as f64 / 1e9),
        ops,
        mean_us: round(sum as f64 / 1e3 / ops.max(1) as f64),
        max_us: round(max as f64 / 1e3),
    };
    slices.into_iter().enumerate().map(slice).collect()
}

fn met_p90(ended: &[(Time, Nanos)], checkpoints: u64) -> f64 {
    let mut spans: Vec<Nanos> = ended.iter().map(|(_, took)| *took).collect();
    spans.sort_unstable();
    let met = &spans[spans.len() - (checkpoints as usize).min(spans.len())..];
    let at = met.get(met.len() * 9 / 10).or(met.last());
    at.map_or(0.0, |took| round(took.0 as f64 / 1e6))
}

fn checkpoints(before: &CheckpointStats, after: &CheckpointStats) -> Checkpoints {
    let inside = |s: &CheckpointStats| s.time.values().map(|t| t.0).sum::<u64>();
    Checkpoints {
        packs: after.packs() - before.packs(),
        inside_s: round((inside(after) - inside(before)) as f64 / 1e9),
        longest_ms: round(after.longest.0 as f64 / 1e6),
    }
}

fn journaled(before: &F2fsJournalStats, after: &F2fsJournalStats) -> Journaled {
    let home = |s: &F2fsJournalStats| {
        let a = &s.apply;
        a.node_blocks + a.dentry_blocks + a.nat_blocks + a.sit_blocks + a.ssa_blocks
    };
    let waited = |s: &F2fsJournalStats| -> BTreeMap<&'static str, Nanos> {
        let waits = s.waits.iter();
        waits
            .map(|(cause, waits)| (cause.word(), waits.waited))
            .collect()
    };
    let spans = |a: BTreeMap<&'static str, Nanos>, b: BTreeMap<&'static str, Nanos>| {
        named(between(&a, &b, String::from))
    };
    let commit = |s: &F2fsJournalStats| s.time.iter().map(|(p, t)| (p.word(), *t)).collect();
    let apply = |s: &F2fsJournalStats| s.apply.time.iter().map(|(p, t)| (p.word(), *t)).collect();
    Journaled {
        commits: after.commits() - before.commits(),
        bytes: after.bytes - before.bytes,
        blocks: after.blocks - before.blocks,
        pages: pages(before, after),
        by_pack: after.by_pack - before.by_pack,
        bytes_max: after.plane.bytes_max,
        commit_s: spans(commit(before), commit(after)),
        apply_s: spans(apply(before), apply(after)),
        waits_s: spans(waited(before), waited(after)),
        logging_s: seconds(after.logging, before.logging),
        locking_s: seconds(after.locking, before.locking),
        switch_s: seconds(after.switch_waits.waited, before.switch_waits.waited),
        home_blocks: home(after) - home(before),
        fast_forwarded: after.apply.fast_forwarded - before.apply.fast_forwarded,
        patched: after.apply.patched - before.apply.patched,
        skipped: after.apply.skipped - before.apply.skipped,
    }
}

/// Seconds that were added to a sum of times.
fn seconds(after: Nanos, before: Nanos) -> f64 {
    round(after.0.saturating_sub(before.0) as f64 / 1e9)
}

fn pages(before: &F2fsJournalStats, after: &F2fsJournalStats) -> BTreeMap<String, u64> {
    let kinds = |s: &F2fsJournalStats| {
        let p = s.pages;
        [
            ("node", p.node),
            ("dentry", p.dentry),
            ("nat", p.nat),
            ("sit", p.sit),
            ("late", p.late),
        ]
    };
    let both = kinds(before).into_iter().zip(kinds(after));
    let added = both.map(|((name, before), (_, after))| (name.to_string(), after - before));
    added.filter(|(_, n)| *n > 0).collect()
}

/// What was added between two readings.
fn between<K: Ord + Copy>(
    before: &BTreeMap<K, Nanos>,
    after: &BTreeMap<K, Nanos>,
    name: impl Fn(K) -> String,
) -> Vec<(String, Nanos)> {
    let earlier = |key| before.get(key).copied().unwrap_or_default();
    let spans = after
        .iter()
        .map(|(key, span)| (name(*key), Nanos(span.0.saturating_sub(earlier(key).0))));
    spans.collect()
}

/// Times in seconds by name, without those that are 0.
fn named(spans: Vec<(String, Nanos)>) -> BTreeMap<String, f64> {
    let some = spans.into_iter().filter(|(_, span)| span.0 > 0);
    some.map(|(name, span)| (name, round(span.0 as f64 / 1e9)))
        .collect()
}
