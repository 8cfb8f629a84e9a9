//! One run: a workload on a freshly formatted stack, in a simulation of its own.
//!
//! The figures are the difference of two readings of all counters, around the measured part: making
//! files or filling a table before it is in no figure, except in [`run_whole`]. The content is
//! compared with what the workload wrote, after the measured part or, where that ends by removing
//! its files, before they go: a stack which loses data yields an error and no figures. What that
//! comparison takes is in no figure. Every random number derives from the seed: equal
//! configurations give equal results, bit for bit.

use crate::causes::{self, Watch, Watching};
use crate::energy;
use crate::fsync_parts::{Spans, fsync_parts, spans};
use crate::life::{Between, directly, live, live_in, live_through};
use crate::meanwhile::{Beside, Meanwhile};
use crate::recording::{self, Recording, apps};
use crate::wear::{self, Keep, Keeping, Kept, Ran, rated};
use crate::workload::bench::room;
use crate::workload::files::{FilesRun, Phase};
use crate::workload::fsync::FsyncRun;
use crate::workload::replay::Replay;
use crate::workload::sqlite;
use crate::workload::{
    Aging, AppSpec, Background, BenchSpec, Done, FilesSpec, FsyncSpec, Pacing, ReplaySpec,
    SqliteSpec, Told, Workload,
};
use crate::{RunConfig, RunError};
use ::sqlite::Registration;
use base::{BLOCK_BYTES, Nanos, SECTOR_BYTES, SECTORS_PER_BLOCK, Time};
use report::causes::Causes;
use report::metrics::{Latencies, micros, round};
use report::over_time::{Line, OverTime};
use report::results::{Device, Flash, Kind, LatencyTable, Run};
use report::samples::Samples;
use report::wear::{Erased, Known};
use rig::{AnyModel, Class, DeviceStats, FlashStats, Profile, Stack};
use rt::SimConfig;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
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
    run_through(config, &directly, None, progress)
}

/// Like [`run`], but nothing is repeated to know how long the device lives, which can take longer
/// than the run: `wear` has an upper bound.
///
/// # Errors
/// As [`run`].
pub fn run_once(
    config: &RunConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Finished, RunError> {
    let model = config.stack.format()?;
    ran(config, model, (&directly, false), None, progress)
}

/// Like [`run`], with something of the caller's between the queue and the device, which sees every
/// command from the mount on; and with a place where single operations are noted.
///
/// # Errors
/// As [`run`].
pub fn run_through(
    config: &RunConfig,
    between: Between<'_>,
    samples: Option<&mut Samples>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Finished, RunError> {
    let model = config.stack.format()?;
    ran(config, model, (between, true), samples, progress)
}

/// Like [`run_through`], and the operations of the chips are kept in the device that remains.
///
/// # Errors
/// As [`run`].
pub fn run_noting_chips(
    config: &RunConfig,
    between: Between<'_>,
    samples: Option<&mut Samples>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Finished, RunError> {
    let mut model = config.stack.format()?;
    model.keep_operations(true);
    ran(config, model, (between, true), samples, progress)
}

/// One run; with `repeats` what its wear comes to is looked for.
fn ran(
    config: &RunConfig,
    model: AnyModel,
    (between, repeats): (Between<'_>, bool),
    samples: Option<&mut Samples>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Finished, RunError> {
    let workload = loaded(config)?;
    room::check_loaded(config, &workload)?;
    let recorded = recorded(config, &workload)?;
    let watching = Watching::default();
    let beside = Beside::default();
    let keeping = Keeping::default();
    // The one that keeps commands is the first: layers of the caller's may be of the same kind as
    // those below it, and it holds its lock while it gives a command on.
    let below = |device| keeping.over(beside.over(between(device)));
    let watched = |device| keeping.over(watching.over(beside.over(between(device))));
    let between: Between<'_> = match recorded.calls.is_empty() {
        true => &below,
        false => &watched,
    };
    let life = live_through(config, model, between, |stack, registration| {
        let what = (&workload, &recorded);
        let mut meter = Meter::on(stack, config.seed, progress);
        meter.watch = watching.watch();
        meter.beside = beside.layer();
        meter.keep = keeping.layer().filter(|_| repeats);
        meter.samples = samples;
        measure(&mut meter, registration, what)
    })?;
    let profile = config.stack.profile()?;
    let measured = life.value.measured();
    let known = life
        .value
        .known(&life.model, &profile, (config, &workload, &recorded));
    let mut run = life
        .value
        .into_run(config, &workload, (&profile, known), life.trace_hash);
    run.erased = Erased::of(&life.model.block_erases());
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
    let profile = config.stack.profile()?;
    Ok(life
        .value
        .into_run(config, &workload, (&profile, None), life.trace_hash))
}

/// Like [`run`], but the figures extend from the mount until everything is home: making
/// the files is in them, and so is the sync at the end.
///
/// # Errors
/// As [`run`].
pub fn run_whole(config: &RunConfig) -> Result<Run, RunError> {
    let workload = loaded(config)?;
    room::check_loaded(config, &workload)?;
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
    let profile = config.stack.profile()?;
    Ok(life
        .value
        .into_run(config, &workload, (&profile, None), life.trace_hash))
}

/// What a run is measured on, and how.
struct Meter<'a> {
    stack: &'a Stack,
    seed: u64,
    /// What the preparation changed goes home before the measured part begins.
    settled: bool,
    /// Notes writes, for a recording whose causes are told.
    watch: Option<Arc<Watch>>,
    /// Counts what journal and device do, where that is told over time.
    beside: Option<Arc<Meanwhile>>,
    /// Keeps its commands, where wear is told by repeating them.
    keep: Option<Arc<Keep>>,
    /// Notes single operations, where they are wanted.
    samples: Option<&'a mut Samples>,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl<'a> Meter<'a> {
    fn on(stack: &'a Stack, seed: u64, progress: &'a mut dyn FnMut(u64, u64)) -> Meter<'a> {
        Meter {
            stack,
            seed,
            settled: false,
            watch: None,
            beside: None,
            keep: None,
            samples: None,
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
        let background = background.start(&stack.vfs, self.seed)?;
        let start = Reading::take(stack);
        if let Some(beside) = &self.beside {
            beside.begin(&stack.device);
        }
        let flash = start.flash.is_some();
        let keep = self.keep.as_ref().filter(|_| flash);
        keep.inspect(|keep| keep.begin());
        stack.vfs.record_syncs();
        let (mut ops, mut kinds, mut done) = (Latencies::default(), BTreeMap::new(), 0);
        let mut called = Line::default();
        work(&mut |Told { kind, end, took }| {
            ops.add(took);
            let end = end - Time(start.at.0);
            called.called(end, took);
            if let Some(samples) = &mut self.samples {
                samples.add(kind, end, took);
            }
            let sum: &mut (u64, Nanos) = kinds.entry(kind).or_default();
            *sum = (sum.0 + 1, sum.1 + took);
            done += 1;
            if done % PROGRESS_EVERY == 0 {
                (self.progress)(done, all);
            }
        })?;
        let end = Reading::take(stack);
        let kept = keep.and_then(|keep| keep.end());
        let syncs = stack.vfs.take_syncs();
        let over_time = (self.beside.as_ref())
            .and_then(|beside| beside.over_time(called, &syncs, Time(start.at.0)));
        background.stop()?;
        let mut fsyncs = Latencies::default();
        syncs.iter().for_each(|sync| fsyncs.add(sync.took));
        Ok(Taken {
            start,
            end,
            aside: None,
            ops,
            kinds,
            fsyncs,
            syncs,
            phases: Vec::new(),
            content_bytes: None,
            causes: None,
            kept,
            over_time,
            notes: stack.fs.remark().into_iter().collect(),
        })
    }
}

/// Prepares any workload, runs its measured part, and checks what it left.
fn measure(
    meter: &mut Meter<'_>,
    registration: &Registration,
    (workload, recorded): (&Workload, &Recording),
) -> Result<Taken, RunError> {
    let (stack, background) = (meter.stack, workload.background());
    let bytes = stack.queue.caps().sectors * SECTOR_BYTES as u64;
    let of = (bytes, meter.seed);
    let aging = Aging::of(background.aged, &stack.vfs, of, || sync_home(stack))?;
    let taken = match workload {
        Workload::Sqlite(spec) => measure_sqlite(meter, registration, spec),
        Workload::Fsync(spec) => measure_fsync(meter, spec),
        Workload::Files(spec) => measure_files(meter, spec),
        Workload::Bench(spec) => measure_bench(meter, spec),
        Workload::Replay(ReplaySpec { pacing, .. }) | Workload::App(AppSpec { pacing, .. }) => {
            measure_recording(meter, recorded, *pacing, background)
        }
    }?;
    aging.map_or(Ok(()), |aging| aging.check())?;
    Ok(taken)
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
        let tell = |kind, took| done(Told::now(kind, took));
        Ok(sqlite::run(&db, &transactions, spec.own_time(), tell)?)
    })?;
    sqlite::check(&db, spec, &transactions)?;
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
    let mut aside = None;
    let stack = meter.stack;
    let mut taken = meter.metered(all, spec.background, |done| {
        run.begin(done)?;
        run.transact(done)?;
        let before = Reading::take(stack);
        run.check()?;
        aside = Some(Reading::take(stack).since(&before));
        run.remove(done)
    })?;
    (taken.phases, taken.aside) = (run.phases().to_vec(), aside);
    Ok(taken)
}

fn measure_bench(meter: &mut Meter<'_>, spec: &BenchSpec) -> Result<Taken, RunError> {
    let (stack, seed) = (meter.stack, meter.seed);
    let sync = || sync_home(stack);
    let mut bench = spec.on(&stack.vfs, seed);
    bench.prepare(&sync)?;
    let all = spec.operations();
    let mut taken = meter.metered(all, spec.background, |done| {
        bench.run(&sync, done)?;
        sync()
    })?;
    bench.check()?;
    taken.content_bytes = Some(bench.written().unwrap_or(spec.bytes()));
    taken.notes.extend(bench.notes());
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
    let mut taken = meter.metered(all, background, |done| replay.run(done))?;
    if let Some(watch) = &meter.watch {
        let span = (Time(taken.start.at.0), Time(taken.end.at.0));
        taken.causes = Some(causes::causes(recording, replay.calls(), watch, span));
    }
    replay.check()?;
    Ok(taken)
}

/// Everything taken while the workload ran.
struct Taken {
    start: Reading,
    end: Reading,
    /// What a comparison between two phases did, which counts in no figure.
    aside: Option<Reading>,
    ops: Latencies,
    /// Number of the operations of each kind, and the sum of their times.
    kinds: BTreeMap<&'static str, (u64, Nanos)>,
    fsyncs: Latencies,
    syncs: Vec<SyncRecord>,
    /// Phases of a workload that has several; empty for others.
    phases: Vec<Phase>,
    /// Bytes of file content that the workload says it wrote.
    content_bytes: Option<u64>,
    /// What caused the writes, of a recording.
    causes: Option<Causes>,
    /// Its commands, where wear is told by repeating them.
    kept: Option<Kept>,
    over_time: Option<OverTime>,
    /// Remarks of the mount and of the workload for the report.
    notes: Vec<String>,
}

/// All counters at one moment, or the difference of two such readings.
struct Reading {
    /// Virtual time since the beginning of the simulation.
    at: Nanos,
    sectors: BTreeMap<Class, u64>,
    write_commands: u64,
    device: DeviceStats,
    flash: Option<FlashStats>,
    commits: u64,
    remapped_blocks: u64,
    remap_copies: u64,
    /// Waits for the journal, steps of its commits, parts of syncs, and freezes.
    waits: Spans,
    steps: Spans,
    syncs: Spans,
    freezes: Spans,
}

impl Reading {
    fn take(stack: &Stack) -> Reading {
        let (queue, journal) = (stack.queue.stats(), stack.fs.journal_stats());
        Reading {
            at: rt::now() - Time(0),
            sectors: queue.sectors_written,
            write_commands: queue.write_commands,
            device: stack.device.device_stats().unwrap_or_default(),
            flash: stack.device.flash_stats(),
            commits: journal.transactions + journal.fast_commits,
            remapped_blocks: journal.blocks_remapped,
            remap_copies: journal.remaps_copied,
            waits: journal.waits,
            steps: journal.steps,
            syncs: stack.fs.sync_times(),
            freezes: stack.fs.waits(),
        }
    }

    /// What was counted since `earlier`.
    fn since(&self, earlier: &Reading) -> Reading {
        let written = |(class, n): (&Class, &u64)| {
            let before = earlier.sectors.get(class).copied().unwrap_or(0);
            (*class, n - before)
        };
        Reading {
            at: Nanos(self.at.0 - earlier.at.0),
            sectors: self.sectors.iter().map(written).collect(),
            write_commands: self.write_commands - earlier.write_commands,
            device: self.device.since(&earlier.device),
            flash: (self.flash.zip(earlier.flash)).map(|(now, then)| now.since(&then)),
            commits: self.commits - earlier.commits,
            remapped_blocks: self.remapped_blocks - earlier.remapped_blocks,
            remap_copies: self.remap_copies - earlier.remap_copies,
            waits: spans(&earlier.waits, &self.waits),
            steps: spans(&earlier.steps, &self.steps),
            syncs: spans(&earlier.syncs, &self.syncs),
            freezes: spans(&earlier.freezes, &self.freezes),
        }
    }

    /// Blocks written, by class; classes without any are left out.
    fn blocks(&self) -> BTreeMap<String, u64> {
        let blocks = self.sectors.iter().map(|(class, sectors)| {
            let blocks = sectors.div_ceil(SECTORS_PER_BLOCK);
            (class.word().to_string(), blocks)
        });
        blocks.filter(|(_, n)| *n > 0).collect()
    }

    fn flash(&self) -> Option<Flash> {
        let f = self.flash?;
        let programmed = f.programs * u64::from(f.page_bytes);
        let hosted = f.host_pages * BLOCK_BYTES as u64;
        Some(Flash {
            host_pages: f.host_pages,
            reads: f.reads,
            programs: f.programs,
            erases: f.erases,
            gc_copies: f.gc_copies,
            slc_folds: f.slc_folds,
            map_programs: f.map_programs,
            remapped_units: f.remapped_units,
            copied_units: f.copied_units,
            zero_units: f.zero_units,
            programs_by_cause: f.programs_by_cause,
            transparent: f.transparent,
            write_amplification: if hosted == 0 {
                0.0
            } else {
                round(programmed as f64 / hosted as f64)
            },
        })
    }

    /// Times of waiting, in microseconds by cause.
    fn waits_us(&self) -> BTreeMap<String, f64> {
        let all = [&self.waits, &self.steps, &self.syncs, &self.freezes];
        let all: Spans = all.into_iter().flatten().map(|(c, s)| (*c, *s)).collect();
        let waits = all.into_iter().filter(|(_, span)| span.0 > 0);
        waits
            .map(|(cause, span)| (cause.to_string(), micros(span.0)))
            .collect()
    }
}

impl Taken {
    fn measured(&self) -> Measured {
        Measured {
            span: (Time(self.start.at.0), Time(self.end.at.0)),
            writes: self.start.write_commands..self.end.write_commands,
            syncs: self.syncs.clone(),
        }
    }

    /// What the measured part did.
    fn counted(&self) -> Reading {
        let all = self.end.since(&self.start);
        match &self.aside {
            Some(aside) => all.since(aside),
            None => all,
        }
    }

    /// The erases that this part comes to in the long run, by the device that it left.
    fn known(
        &self,
        model: &AnyModel,
        profile: &Profile,
        (config, workload, recording): (&RunConfig, &Workload, &Recording),
    ) -> Option<Known> {
        let ran = Ran {
            flash: &self.counted().flash?,
            kept: self.kept.as_ref()?,
            model,
            end: Time(self.end.at.0),
            config,
            workload,
            recording,
        };
        Some(ran.known(&rated(profile, config.stack.bytes)?, profile))
    }

    fn into_run(
        self,
        config: &RunConfig,
        workload: &Workload,
        (profile, known): (&Profile, Option<Known>),
        trace_hash: u64,
    ) -> Run {
        let counted = self.counted();
        let span = counted.at;
        let seconds = span.0 as f64 / 1e9;
        let ops = self.ops.count();
        let flash = counted.flash();
        let known = known.or(counted.flash.as_ref().map(wear::counted));
        let rated = rated(profile, config.stack.bytes);
        let wear = wear::told(rated, known, flash.as_ref(), (seconds, ops));
        let blocks = counted.blocks();
        let all: u64 = blocks.values().sum();
        let journal: u64 = blocks
            .iter()
            .filter(|(class, _)| class.starts_with("journal") || *class == Class::Coalition.word())
            .map(|(_, n)| n)
            .sum();
        let device = Device {
            profile: config.stack.device.clone(),
            commands: counted.device,
        };
        let slc = rated.is_some_and(|rated| rated.slc.is_some());
        let energy_j = energy::joules(profile, &device, flash.as_ref(), (all, seconds, slc));
        Run {
            fs: config.stack.fs.to_string(),
            scheme: config.stack.scheme_text(),
            device,
            timing: profile.timing().into(),
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
            wear,
            flash,
            erased: None,
            energy_j,
            causes: self.causes.clone(),
            over_time: self.over_time.clone(),
            commits: counted.commits,
            fsync_us: fsync_parts(&self.fsyncs, (&counted.syncs, &counted.steps)),
            waits_us: counted.waits_us(),
            ops_by_kind: self
                .kinds
                .iter()
                .map(|(kind, sum)| (kind.to_string(), Kind::of(*sum)))
                .collect(),
            phases_s: self.phases_s(),
            remapped_blocks: counted.remapped_blocks,
            remap_copies: counted.remap_copies,
            mb_per_s: self
                .content_bytes
                .filter(|_| span.0 > 0)
                .map(|bytes| round(bytes as f64 / 1e6 / seconds)),
            notes: self.notes,
            trace_hash: format!("{trace_hash:016x}"),
        }
    }

    /// Beginning and end of each phase, in seconds since the beginning of the measured part.
    fn phases_s(&self) -> BTreeMap<String, (f64, f64)> {
        let at = |time: Time| round((time.0 - self.start.at.0) as f64 / 1e9);
        let over = |phase: &Phase| Some((phase.name.into(), (at(phase.begin), at(phase.end?))));
        self.phases.iter().filter_map(over).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The workload compares sizes before it removes its files, between two phases.
    #[test]
    fn a_comparison_between_phases_is_in_no_figure() {
        let mut stack = rig::Config::new(rig::Preset::default(), "loop-like", 3);
        stack.bytes = 64 << 20;
        let config = RunConfig {
            stack,
            workload: "files:count=300,transactions=100".into(),
            seed: 3,
            recording: None,
        };
        let run = run(&config, &mut |_, _| {}).unwrap().run;
        let phases: f64 = run.phases_s.values().map(|(begin, end)| end - begin).sum();
        // Each of these figures is rounded to a microsecond.
        let aside = (run.virtual_seconds - phases).abs();
        assert!(
            aside < 5e-6,
            "{aside} s beside the phases {:?}",
            run.phases_s
        );
    }
}
