//! One run: a workload on a freshly formatted stack, in a simulation of its own.
//!
//! The figures are the difference of two readings of all counters, around the measured part: making
//! files or filling a table before it is in no figure, except in [`run_whole`]. The content is
//! compared with what the workload wrote, after the measured part or, where that ends by removing
//! its files, before they go: a stack which loses data yields an error and no figures. Every random
//! number derives from the seed: equal configurations give equal results, bit for bit.

use crate::fsck::{self, Verdict};
use crate::life::{Between, directly, live, live_in, live_through};
use crate::recording::{self, Recording, apps};
use crate::workload::bench::room;
use crate::workload::files::{FilesRun, Phase};
use crate::workload::fsync::FsyncRun;
use crate::workload::replay::Replay;
use crate::workload::sqlite::{self, Transaction};
use crate::workload::{
    AppSpec, Background, BenchSpec, Done, FilesSpec, FsyncSpec, Pacing, ReplaySpec, SqliteSpec,
    Workload,
};
use crate::{RunConfig, RunError};
use ::sqlite::Registration;
use base::{BLOCK_BYTES, Nanos, SECTOR_BYTES, SECTORS_PER_BLOCK, Time};
use report::metrics::{Latencies, micros, round};
use report::results::{Device, Flash, Kind, LatencyTable, Run};
use rig::{AnyModel, Class, DeviceStats, FlashStats, Fs, JournalStats, Stack};
use rt::SimConfig;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use vfs::SyncRecord;

/// A finished run.
pub struct Finished {
    /// What `results.json` says of the run.
    pub run: Run,
    /// The device after unmounting.
    pub model: AnyModel,
    /// Where the measured part lies in the run.
    pub measured: Measured,
}

/// The measured part of a run, as positions in what a recorder between queue and device has seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// The virtual time at its beginning and at its end.
    pub span: (Time, Time),
    /// Numbers of its write commands since the mount, packs counted once.
    pub writes: Range<u64>,
    /// Its fsyncs, in the order of their ends.
    pub syncs: Vec<SyncRecord>,
}

/// Path of the database of the SQLite workload.
pub const DATABASE: &str = "/test.db";

/// Runs the workload and checks what remains: for SQLite by `PRAGMA integrity_check` and every row
/// against the oracle, for files by names, sizes and content. `progress` is told (done, all)
/// operations now and then.
///
/// # Errors
/// The first failure: a configuration that is not valid, a volume that is too small, a failing
/// operation, or content that differs from what was written.
pub fn run(config: &RunConfig, progress: &mut dyn FnMut(u64, u64)) -> Result<Finished, RunError> {
    run_through(config, &directly, progress)
}

/// Like [`run`], with something of the caller's between the queue and the device; it sees every
/// command from the mount on.
///
/// # Errors
/// As [`run`].
pub fn run_through(
    config: &RunConfig,
    between: Between<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Finished, RunError> {
    let workload = loaded(config)?;
    room::check_loaded(config, &workload)?;
    let recorded = recorded(config, &workload)?;
    let model = config.stack.format()?;
    let life = live_through(config, model, between, |stack, registration| {
        let what = (&workload, &recorded);
        measure(
            &mut Meter::on(stack, config.seed, progress),
            registration,
            what,
        )
    })?;
    let timing = config.stack.profile()?.timing().to_string();
    let measured = life.value.measured();
    let run = life
        .value
        .into_run(config, &workload, timing, life.trace_hash);
    let model = life.model;
    Ok(Finished {
        run,
        model,
        measured,
    })
}

/// Like [`run`] without progress, in a simulation that the caller configures; and settled: what
/// the preparation changed is at home before the measured part begins, with every scheme alike. A
/// sync alone is a checkpoint on stock F2FS, and on a file system with a journal a commit, whose
/// blocks would go home in the measured part.
///
/// # Errors
/// As [`run`].
pub fn run_in(config: &RunConfig, sim: SimConfig) -> Result<Run, RunError> {
    let workload = loaded(config)?;
    room::check_loaded(config, &workload)?;
    let recorded = recorded(config, &workload)?;
    let model = config.stack.format()?;
    let life = live_in(sim, config, (model, &directly), |stack, registration| {
        let progress = &mut |_, _| {};
        let mut meter = Meter::on(stack, config.seed, progress);
        meter.settled = true;
        measure(&mut meter, registration, (&workload, &recorded))
    })?;
    let timing = config.stack.profile()?.timing().to_string();
    Ok(life
        .value
        .into_run(config, &workload, timing, life.trace_hash))
}

/// Like [`run`], but the figures extend from the mount until everything is home: making
/// the files is in them, and so is the sync at the end.
///
/// # Errors
/// As [`run`].
pub fn run_whole(config: &RunConfig) -> Result<Run, RunError> {
    let workload = loaded(config)?;
    let recorded = recorded(config, &workload)?;
    let model = config.stack.format()?;
    let life = live(config, model, |stack, registration| {
        let start = Reading::take(stack);
        let progress = &mut |_, _| {};
        let mut meter = Meter::on(stack, config.seed, progress);
        let mut taken = measure(&mut meter, registration, (&workload, &recorded))?;
        sync_home(stack)?;
        (taken.start, taken.end) = (start, Reading::take(stack));
        Ok(taken)
    })?;
    let timing = config.stack.profile()?.timing().to_string();
    Ok(life
        .value
        .into_run(config, &workload, timing, life.trace_hash))
}

/// What a run is measured on, and how.
struct Meter<'a> {
    stack: &'a Stack,
    seed: u64,
    /// What the preparation changed goes home before the measured part begins.
    settled: bool,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl<'a> Meter<'a> {
    fn on(stack: &'a Stack, seed: u64, progress: &'a mut dyn FnMut(u64, u64)) -> Meter<'a> {
        Meter {
            stack,
            seed,
            settled: false,
            progress,
        }
    }

    /// Runs the measured part, with its background, between two readings of all counters.
    fn metered(
        &mut self,
        all: u64,
        background: Background,
        work: impl FnOnce(&mut Done<'_>) -> Result<(), RunError>,
    ) -> Result<Taken, RunError> {
        let stack = self.stack;
        if self.settled {
            sync_home(stack)?;
        }
        let beside = background.start(&stack.vfs, self.seed)?;
        let start = Reading::take(stack);
        stack.vfs.record_syncs();
        let (mut ops, mut kinds, mut done) = (Latencies::default(), BTreeMap::new(), 0);
        work(&mut |kind, took| {
            ops.add(took);
            let sum: &mut (u64, Nanos) = kinds.entry(kind).or_default();
            *sum = (sum.0 + 1, sum.1 + took);
            done += 1;
            if done % PROGRESS_EVERY == 0 {
                (self.progress)(done, all);
            }
        })?;
        let end = Reading::take(stack);
        let syncs = stack.vfs.take_syncs();
        beside.stop()?;
        let mut fsyncs = Latencies::default();
        syncs.iter().for_each(|sync| fsyncs.add(sync.took));
        Ok(Taken {
            start,
            end,
            ops,
            kinds,
            fsyncs,
            syncs,
            phases: Vec::new(),
            content_bytes: None,
            notes: Vec::new(),
        })
    }
}

/// Prepares any workload, runs its measured part, and checks what it left.
fn measure(
    meter: &mut Meter<'_>,
    registration: &Registration,
    (workload, recorded): (&Workload, &Recording),
) -> Result<Taken, RunError> {
    match workload {
        Workload::Sqlite(spec) => measure_sqlite(meter, registration, spec),
        Workload::Fsync(spec) => measure_fsync(meter, spec),
        Workload::Files(spec) => measure_files(meter, spec),
        Workload::Bench(spec) => measure_bench(meter, spec),
        Workload::Replay(ReplaySpec { pacing, .. }) | Workload::App(AppSpec { pacing, .. }) => {
            measure_recording(meter, recorded, *pacing, workload.background())
        }
    }
}

/// Operations between two calls of the progress function.
const PROGRESS_EVERY: u64 = 16;

fn measure_sqlite(
    meter: &mut Meter<'_>,
    registration: &Registration,
    spec: &SqliteSpec,
) -> Result<Taken, RunError> {
    let transactions = sqlite::transactions(spec, meter.seed);
    let db = registration.open(DATABASE)?;
    sqlite::prepare(&db, spec)?;
    let all = transactions.len() as u64;
    let taken = meter.metered(all, spec.background, |done| {
        Ok(sqlite::run(&db, &transactions, done)?)
    })?;
    check_table(&db, spec, &transactions)?;
    db.close().map_err(|(_, e)| e)?;
    Ok(taken)
}

fn measure_fsync(meter: &mut Meter<'_>, spec: &FsyncSpec) -> Result<Taken, RunError> {
    let mut run = FsyncRun::prepare(spec, &meter.stack.vfs, meter.seed)?;
    let all = spec.count.into();
    let taken = meter.metered(all, spec.background, |done| run.run(done))?;
    run.check()?;
    Ok(taken)
}

fn measure_files(meter: &mut Meter<'_>, spec: &FilesSpec) -> Result<Taken, RunError> {
    let mut run = FilesRun::prepare(spec, &meter.stack.vfs, meter.seed)?;
    let all = spec.operations();
    let mut taken = meter.metered(all, spec.background, |done| run.run(done))?;
    taken.phases = run.phases().to_vec();
    Ok(taken)
}

fn measure_bench(meter: &mut Meter<'_>, spec: &BenchSpec) -> Result<Taken, RunError> {
    let (stack, seed) = (meter.stack, meter.seed);
    let sync = || sync_home(stack);
    let bytes = stack.queue.caps().sectors * SECTOR_BYTES as u64;
    let mut bench = spec.on_volume(&stack.vfs, bytes, seed);
    bench.prepare(&sync)?;
    let all = spec.operations();
    let mut taken = meter.metered(all, spec.background, |done| {
        bench.run(&sync, done)?;
        sync()
    })?;
    bench.check()?;
    taken.content_bytes = Some(bench.written().unwrap_or(spec.bytes()));
    taken.notes = bench.notes();
    Ok(taken)
}

/// Writes what `sync` writes in Linux: dirty pages, the running transaction, and the committed
/// blocks whose home is old; with F2FSJ it applies. The tail of JBD2's journal stays.
///
/// # Errors
/// The file system fails.
pub fn sync_home(stack: &Stack) -> Result<(), RunError> {
    stack.vfs.sync()?;
    stack.fs.write_home()?;
    // The homes are in the device's cache and nothing else is dirty, so this sync is its flush.
    Ok(stack.vfs.sync()?)
}

/// The workload of the text, with the model of Filebench read from the file that it names.
fn loaded(config: &RunConfig) -> Result<Workload, RunError> {
    let mut workload: Workload = config.workload.parse()?;
    if let Workload::Bench(spec) = &mut workload {
        spec.load(config.recording.as_deref())?;
    }
    Ok(workload)
}

/// The recording that the workload runs; an empty one for a workload that runs none.
fn recorded(config: &RunConfig, workload: &Workload) -> Result<Recording, RunError> {
    match workload {
        Workload::App(spec) => apps::generate(&spec.name, spec.seconds, config.seed)
            .map_err(|e| RunError::Recording(e.to_string())),
        Workload::Replay(_) => match &config.recording {
            Some(path) => recording::read(path),
            None => Err(RunError::Recording(
                "a replay needs a file: varve replay FILE".into(),
            )),
        },
        _ => Ok(Recording::default()),
    }
}

fn measure_recording(
    meter: &mut Meter<'_>,
    recording: &Recording,
    pacing: Pacing,
    background: Background,
) -> Result<Taken, RunError> {
    let mut replay = Replay::prepare(recording, pacing, &meter.stack.vfs)?;
    let all = recording.calls.len() as u64;
    let taken = meter.metered(all, background, |done| replay.run(done))?;
    replay.check()?;
    Ok(taken)
}

fn check_table(
    db: &rusqlite::Connection,
    spec: &SqliteSpec,
    transactions: &[Transaction],
) -> Result<(), RunError> {
    if let Some(findings) = sqlite::integrity(db)? {
        return Err(RunError::Check(format!(
            "PRAGMA integrity_check says: {findings}"
        )));
    }
    let mut wanted = sqlite::prefill(spec);
    transactions.iter().for_each(|t| t.apply(&mut wanted));
    let found = sqlite::read_table(db)?;
    if found != wanted {
        let what = format!(
            "the table has {} rows that differ from the {} written",
            found.len(),
            wanted.len()
        );
        return Err(RunError::Check(what));
    }
    Ok(())
}

/// Everything taken while the workload ran.
struct Taken {
    start: Reading,
    end: Reading,
    ops: Latencies,
    /// Number of the operations of each kind, and the sum of their times.
    kinds: BTreeMap<&'static str, (u64, Nanos)>,
    fsyncs: Latencies,
    syncs: Vec<SyncRecord>,
    /// Phases of a workload that has several; empty for others.
    phases: Vec<Phase>,
    /// Bytes of file content that the workload says it wrote.
    content_bytes: Option<u64>,
    /// Remarks of the workload for the report.
    notes: Vec<String>,
}

/// All counters at one moment; what the measured part did is the difference of two.
struct Reading {
    at: Time,
    sectors: BTreeMap<Class, u64>,
    write_commands: u64,
    device: DeviceStats,
    flash: Option<FlashStats>,
    journal: JournalStats,
    syncs: BTreeMap<&'static str, Nanos>,
    freezes: BTreeMap<&'static str, Nanos>,
}

impl Reading {
    fn take(stack: &Stack) -> Reading {
        let queue = stack.queue.stats();
        Reading {
            at: rt::now(),
            sectors: queue.sectors_written,
            write_commands: queue.write_commands,
            device: stack.device.device_stats().unwrap_or_default(),
            flash: stack.device.flash_stats(),
            journal: stack.fs.journal_stats(),
            syncs: stack.fs.sync_times(),
            freezes: stack.fs.waits(),
        }
    }
}

impl Taken {
    fn measured(&self) -> Measured {
        Measured {
            span: (self.start.at, self.end.at),
            writes: self.start.write_commands..self.end.write_commands,
            syncs: self.syncs.clone(),
        }
    }

    fn into_run(
        self,
        config: &RunConfig,
        workload: &Workload,
        timing: String,
        trace_hash: u64,
    ) -> Run {
        let span = self.end.at - self.start.at;
        let seconds = span.0 as f64 / 1e9;
        let ops = self.ops.count();
        let blocks = self.blocks();
        let all: u64 = blocks.values().sum();
        let journal: u64 = blocks
            .iter()
            .filter(|(class, _)| class.starts_with("journal") || *class == Class::Coalition.word())
            .map(|(_, n)| n)
            .sum();
        Run {
            fs: config.stack.fs.to_string(),
            scheme: config.stack.scheme_text(),
            device: self.device(&config.stack.device),
            timing,
            workload: workload.to_string(),
            virtual_seconds: round(seconds),
            ops,
            ops_per_s: if span.0 == 0 {
                0.0
            } else {
                round(ops as f64 / seconds)
            },
            latency_us: LatencyTable {
                op: self.ops.summary(),
                fsync: self.fsyncs.summary(),
                fsync_cdf: self.fsyncs.cdf(),
            },
            journal_block_ratio: if all == 0 {
                0.0
            } else {
                round(journal as f64 / all as f64)
            },
            blocks,
            flash: self.flash(),
            commits: self.end.journal.transactions - self.start.journal.transactions,
            fsync_us: self.fsync_parts(),
            waits_us: self.waits(),
            ops_by_kind: self
                .kinds
                .iter()
                .map(|(kind, sum)| (kind.to_string(), Kind::of(*sum)))
                .collect(),
            phases_s: self.phases_s(),
            remapped_blocks: self.end.journal.blocks_remapped - self.start.journal.blocks_remapped,
            remap_copies: self.end.journal.remaps_copied - self.start.journal.remaps_copied,
            mb_per_s: self
                .content_bytes
                .filter(|_| span.0 > 0)
                .map(|bytes| round(bytes as f64 / 1e6 / seconds)),
            notes: self.notes,
            trace_hash: format!("{trace_hash:016x}"),
        }
    }

    fn blocks(&self) -> BTreeMap<String, u64> {
        let sectors = |reading: &Reading, class| reading.sectors.get(&class).copied().unwrap_or(0);
        let blocks = Class::ALL.iter().map(|&class| {
            let written = sectors(&self.end, class) - sectors(&self.start, class);
            (
                class.word().to_string(),
                written.div_ceil(SECTORS_PER_BLOCK),
            )
        });
        blocks.filter(|(_, n)| *n > 0).collect()
    }

    fn device(&self, profile: &str) -> Device {
        Device {
            profile: profile.into(),
            commands: self.end.device.since(&self.start.device),
        }
    }

    /// Beginning and end of each phase, in seconds since the beginning of the measured part.
    fn phases_s(&self) -> BTreeMap<String, (f64, f64)> {
        let at = |time: Time| round((time - self.start.at).0 as f64 / 1e9);
        let over = |phase: &Phase| Some((phase.name.into(), (at(phase.begin), at(phase.end?))));
        self.phases.iter().filter_map(over).collect()
    }

    fn flash(&self) -> Option<Flash> {
        let (a, b) = (self.start.flash?, self.end.flash?);
        let host_pages = b.host_pages - a.host_pages;
        let programs = b.programs - a.programs;
        let programmed = programs * u64::from(b.page_bytes);
        let hosted = host_pages * BLOCK_BYTES as u64;
        Some(Flash {
            host_pages,
            reads: b.reads - a.reads,
            programs,
            erases: b.erases - a.erases,
            gc_copies: b.gc_copies - a.gc_copies,
            slc_folds: b.slc_folds - a.slc_folds,
            map_programs: b.map_programs - a.map_programs,
            remapped_units: b.remapped_units - a.remapped_units,
            copied_units: b.copied_units - a.copied_units,
            zero_units: b.zero_units - a.zero_units,
            programs_by_cause: b.programs_by_cause.since(&a.programs_by_cause),
            transparent: b.transparent.since(&a.transparent),
            write_amplification: if hosted == 0 {
                0.0
            } else {
                round(programmed as f64 / hosted as f64)
            },
        })
    }

    fn waits(&self) -> BTreeMap<String, f64> {
        let mut all = spans(&self.start.journal.waits, &self.end.journal.waits);
        all.extend(self.steps());
        all.extend(spans(&self.start.syncs, &self.end.syncs));
        all.extend(spans(&self.start.freezes, &self.end.freezes));
        let waits = all.into_iter().filter(|(_, span)| span.0 > 0);
        waits
            .map(|(cause, span)| (cause.to_string(), micros(span.0)))
            .collect()
    }

    fn steps(&self) -> Spans {
        spans(&self.start.journal.steps, &self.end.journal.steps)
    }

    /// The parts of a mean fsync, in microseconds; they sum up to the mean duration of an fsync.
    fn fsync_parts(&self) -> BTreeMap<String, f64> {
        let count = self.fsyncs.count();
        if count == 0 {
            return BTreeMap::new();
        }
        let calls = spans(&self.start.syncs, &self.end.syncs);
        let parts = breakdown(self.fsyncs.sum(), &calls, &self.steps());
        let mean = |nanos: f64| round(nanos / 1e3 / count as f64);
        let parts = parts
            .into_iter()
            .map(|(part, nanos)| (part.to_string(), mean(nanos)));
        parts.filter(|(_, us)| *us > 0.0).collect()
    }
}

type Spans = BTreeMap<&'static str, Nanos>;

/// The counters that were added between two readings.
fn spans(start: &Spans, end: &Spans) -> Spans {
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

/// Writes the image of a finished run to `folder` and has the checker of its file system look at it
/// ([`fsck::check`]).
///
/// # Errors
/// The image cannot be written, or the checker cannot be run.
pub fn second_opinion(fs: Fs, model: &AnyModel, folder: &Path) -> Result<Verdict, RunError> {
    let image = folder.join("image");
    rig::write_image(model, &image)?;
    let verdict = fsck::check(fs, &image);
    let host = |source| RunError::Host {
        doing: format!("running {}", fsck::checker(fs)),
        source,
    };
    let verdict = verdict.map_err(host)?;
    // The folder's owner sweeps what stays behind; the image is large, so it goes at once.
    std::fs::remove_file(&image).map_err(|source| RunError::Host {
        doing: "removing the image".into(),
        source,
    })?;
    Ok(verdict)
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
