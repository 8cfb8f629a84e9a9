//! Section 5.7, the board: operations on names, replays of two applications, and SQLite in its
//! journal modes, on an eMMC.
//!
//! The paper's board has an RK3588S (4 x A76, 4 x A55) and an eMMC of 128 GB under Linux 5.10. Ours
//! is the eMMC of an ODROID-XU4 with the CPU costs of its slower cores. It is another board, so no
//! row measures the paper's.

use super::job::{Job, Outcomes, RunJob, measured, run_of};
use super::measure::{BenchJob, Host, Measured};
use super::names::Op;
use super::scale::{ring, shorter};
use super::system::{BOARD_MIB, Size, System};
use super::{Plan, published};
use crate::PaperError;
use crate::{Experiment, Listed, Row, Section, number};
use report::results::Run;
use rig::{Config, Scheme};
use work::RunConfig;
use work::workload::JournalMode;

const FIGURE: &str = "5.7";
const DEVICE: &str = "emmc-odroid-xu4";
const CORES: usize = 8;
const BYTES: u64 = 2 << 30;
/// Bytes of the ring for the applications, which change little in comparison.
const RING: u64 = 16 << 20;

const SYSTEMS: [System; 3] = [System::Checkpoint60, System::Ext4, System::F2fsj];
/// The baselines, and their names in the table of published values.
const BASES: [(System, &str); 2] = [
    (System::Checkpoint60, "checkpoint-60"),
    (System::Ext4, "ext4"),
];
const APPS: [(&str, &str); 2] = [("Twitter", "twitter"), ("Facebook", "facebook")];
const KINDS: [&str; 3] = ["insert", "update", "delete"];
const STANDS_IN: &str = "generator stands in for the recording";

fn objects(plan: &Plan) -> u32 {
    plan.pick(20_000, 1_500, 200)
}

fn stack(plan: &Plan, system: System, (ring, shorter): (u64, u32)) -> Config {
    let size = Size {
        bytes: BYTES,
        ring,
        shorter,
    };
    Config {
        host_mib: Some(BOARD_MIB),
        ..system.stack(DEVICE, size, plan.seed)
    }
}

fn bench(plan: &Plan, op: Op, system: System) -> BenchJob {
    let objects = objects(plan);
    BenchJob {
        run: RunConfig {
            stack: stack(plan, system, (ring(objects), shorter(objects))),
            workload: op.workload(objects),
            seed: plan.seed,
            recording: None,
        },
        host: Host::cores(CORES),
    }
}

fn run(plan: &Plan, workload: String, system: System) -> RunJob {
    RunJob {
        run: RunConfig {
            stack: stack(plan, system, (RING, 1)),
            workload,
            seed: plan.seed,
            recording: None,
        },
        host: Host::cores(CORES),
    }
}

/// The job that replays an app, by its recording where there is one: one call directly after
/// another or, if `busy`, with the application's own time between them.
fn replay(plan: &Plan, app: &str, busy: bool, system: System) -> RunJob {
    let pace = if busy { "busy" } else { "none" };
    let seconds = plan.pick(120, 20, 2);
    let generated = format!("app:{app},seconds={seconds},pace={pace}");
    let mut job = run(plan, generated, system);
    if let Some((path, file)) = crate::emmc::plan::recording(plan.traces.as_deref(), app) {
        job.run.workload = format!("replay:file={file},pace={pace}");
        job.run.recording = Some(path);
    }
    job
}

fn sqlite(plan: &Plan, kind: &str, mode: JournalMode, system: System) -> RunJob {
    let count = plan.pick(100, 100, 10);
    let text = format!("mobibench:{kind},{kind}={count},journal={}", mode.word());
    run(plan, text, system)
}

/// The journal modes of the paper, in its groups.
const MODES: [JournalMode; 5] = [
    JournalMode::Delete,
    JournalMode::Truncate,
    JournalMode::Persist,
    JournalMode::Wal,
    JournalMode::Off,
];

fn kinds(plan: &Plan) -> &'static [&'static str] {
    plan.pick(&KINDS, &KINDS[..1], &KINDS[..1])
}

/// What an experiment changes of a run.
#[derive(Clone, Copy)]
enum Varied {
    /// The cores of the host are twice as fast.
    Cores,
    /// A UFS instead of the eMMC.
    Device,
    /// An fsync of F2FSJ flushes its data before it sends its transaction.
    Rounds,
}

impl Varied {
    fn run(self, of: &RunConfig, host: Host) -> (RunConfig, Host) {
        let (mut run, mut host) = (of.clone(), host);
        match self {
            Varied::Cores => host.cpu_percent /= 2,
            Varied::Device => run.stack.device = "ufs-generic".into(),
            Varied::Rounds => {
                if let Scheme::F2fs(scheme) = &mut run.stack.scheme {
                    scheme.rounds = "2".parse().expect("it is a number of rounds");
                }
            }
        }
        (run, host)
    }

    fn of_bench(self, job: &BenchJob) -> BenchJob {
        let (run, host) = self.run(&job.run, job.host);
        BenchJob { run, host }
    }

    fn of_run(self, job: &RunJob) -> RunJob {
        let (run, host) = self.run(&job.run, job.host);
        RunJob { run, host }
    }

    /// The experiment in which a value is this.
    fn gave(self, value: f64) -> Experiment {
        let (cause, with) = match self {
            Varied::Cores => ("the board's cores", "twice as fast"),
            Varied::Device => ("the device", "a UFS (ufs-generic)"),
            Varied::Rounds => ("an fsync in one round", "in two (rounds=2)"),
        };
        Experiment::on(cause).with(with, value)
    }
}

/// Runs of F2FSJ and a baseline, which are compared.
struct Pair {
    ours: RunJob,
    base: RunJob,
}

impl Pair {
    fn of(job: impl Fn(System) -> RunJob, base: System) -> Pair {
        Pair {
            ours: job(System::F2fsj),
            base: job(base),
        }
    }

    /// What the comparison is with causes varied.
    fn experiments(
        &self,
        outcomes: &Outcomes,
        value: impl Fn(&Run, &Run) -> f64,
    ) -> Result<[Experiment; 2], PaperError> {
        let device = |job| run_of(outcomes, &Varied::Device.of_run(job));
        let rounds = run_of(outcomes, &Varied::Rounds.of_run(&self.ours))?;
        let device = value(device(&self.ours)?, device(&self.base)?);
        Ok([
            Varied::Device.gave(device),
            Varied::Rounds.gave(value(rounds, run_of(outcomes, &self.base)?)),
        ])
    }
}

/// The jobs: all of it on stock F2FS, ext4 and F2FSJ, as it is and with causes varied.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let (mut benches, mut runs, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for system in SYSTEMS {
        benches.extend(Op::ALL.map(|op| bench(plan, op, system)));
        for (_, app) in APPS {
            runs.push((system, replay(plan, app, false, system)));
            all.push(Job::Run(replay(plan, app, true, system)));
        }
        for mode in MODES {
            let of = |kind: &&str| (system, sqlite(plan, kind, mode, system));
            runs.extend(kinds(plan).iter().map(of));
        }
    }
    for job in benches {
        all.extend([Varied::Cores, Varied::Device].map(|v| Job::Bench(v.of_bench(&job))));
        all.push(Job::Bench(job));
    }
    for (system, job) in runs {
        all.push(Job::Run(Varied::Device.of_run(&job)));
        let ours = system == System::F2fsj;
        all.extend(ours.then(|| Job::Run(Varied::Rounds.of_run(&job))));
        all.push(Job::Run(job));
    }
    all
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut rows = names(plan, outcomes)?;
    rows.extend(replays(plan, outcomes)?);
    rows.extend(databases(plan, outcomes)?);
    let rows = rows.into_iter().map(|row| row.noted(OTHER)).collect();
    Ok(Section {
        title: "5.7: a board with an eMMC".into(),
        words: WORDS.map(String::from).into(),
        rows,
        tables: vec![
            names_listed(plan, outcomes)?,
            databases_listed(plan, outcomes)?,
        ],
        plots: Vec::new(),
    })
}

fn names(plan: &Plan, outcomes: &Outcomes) -> Result<Vec<Row>, PaperError> {
    let table = published();
    let mut rows = Vec::new();
    for (base, name) in BASES {
        for op in Op::ALL {
            let both = [System::F2fsj, base].map(|system| bench(plan, op, system));
            let gain = |[ours, base]: [BenchJob; 2]| {
                let base = measured(outcomes, &base)?.seconds;
                Ok::<f64, PaperError>(base / measured(outcomes, &ours)?.seconds - 1.0)
            };
            let [ours, base] = both
                .each_ref()
                .map(|job| measured(outcomes, job).map(parts));
            let item = format!("{}: F2FSJ over {name}", op.word());
            let why = format!("{name}: {}; F2FSJ: {}", base?, ours?);
            let published = table.get(FIGURE, &item, None);
            let mut row = Row::judged(published, gain(both.clone())?).because(&why);
            for varied in [Varied::Cores, Varied::Device] {
                let found = gain(both.each_ref().map(|job| varied.of_bench(job)))?;
                row = row.shown_by(published, varied.gave(found));
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Says what an operation takes, and which part of its time is not its own.
fn parts(m: &Measured) -> String {
    let us = m.seconds * 1e6 / m.ops.max(1) as f64;
    let blocks: u64 = m.blocks.values().sum();
    let mut text = format!(
        "{} us an operation, {} blocks written in the time",
        number(us),
        blocks
    );
    // An empty sum is -0; adding zero makes it 0.
    let share = |span: f64| number(span / m.seconds + 0.0);
    if m.checkpoints.packs > 0 {
        let inside = share(m.checkpoints.inside_s);
        text += &format!(
            ", {} checkpoints, {inside} of the time",
            m.checkpoints.packs
        );
    }
    if let Some(journal) = &m.journal {
        let commit = share(journal.commit_s.values().sum());
        let apply = share(journal.apply_s.values().sum());
        let waits = share(journal.waits_s.values().sum());
        text += &format!(
            ", {} commits ({commit} of the time, beside the operations), applies {apply}, waits of operations {waits}",
            journal.commits
        );
    }
    text
}

fn replays(plan: &Plan, outcomes: &Outcomes) -> Result<Vec<Row>, PaperError> {
    let table = published();
    let mut rows = Vec::new();
    for (name, app) in APPS {
        for (base, base_name) in BASES {
            for busy in [false, true] {
                let of = |system| run_of(outcomes, &replay(plan, app, busy, system));
                let (ours, found) = (of(System::F2fsj)?, of(base)?);
                let item = format!("{name}: time of the replay, F2FSJ over {base_name}");
                let more =
                    |ours: &Run, base: &Run| ours.virtual_seconds / base.virtual_seconds - 1.0;
                let gain = more(ours, found);
                let why = format!("{base_name}: {}; F2FSJ: {}", syncs(found), syncs(ours));
                let row = match busy {
                    false => {
                        let pair = Pair::of(|system| replay(plan, app, false, system), base);
                        let published = table.get(FIGURE, &item, None);
                        let row = Row::judged(published, gain).because(&why);
                        row.shown_by_all(published, pair.experiments(outcomes, more)?)
                    }
                    true => Row::ours(
                        FIGURE,
                        &format!("{item}, with the application's own time"),
                        "gain",
                        gain,
                    ),
                };
                let recorded = replay(plan, app, busy, System::F2fsj).run.recording;
                rows.push(match recorded {
                    Some(_) => row,
                    None => row.noted(STANDS_IN),
                });
            }
        }
    }
    Ok(rows)
}

/// Says what the syncs of a run cost.
fn syncs(run: &Run) -> String {
    let commands = &run.device.commands;
    let blocks: u64 = run.blocks.values().sum();
    format!(
        "{} s for {} operations, a sync {} us, {blocks} blocks, {} flushes, {} FUA writes",
        number(run.virtual_seconds),
        run.ops,
        number(run.latency_us.fsync.mean),
        commands.flushes,
        commands.fua_writes
    )
}

/// A group of journal modes: its name, the modes, and whether the paper gives its largest gain over
/// each baseline.
type Group = (&'static str, &'static [JournalMode], [bool; 2]);
const GROUPS: [Group; 3] = [
    (
        "DELETE and TRUNCATE",
        &[JournalMode::Delete, JournalMode::Truncate],
        [true, true],
    ),
    (
        "PERSIST and WAL",
        &[JournalMode::Persist, JournalMode::Wal],
        [false, true],
    ),
    ("without a journal", &[JournalMode::Off], [false, false]),
];

fn databases(plan: &Plan, outcomes: &Outcomes) -> Result<Vec<Row>, PaperError> {
    let table = published();
    let mut rows = Vec::new();
    for (group, modes, largest) in GROUPS {
        for ((base, name), largest) in BASES.into_iter().zip(largest) {
            let gains = gains(plan, outcomes, modes, base)?;
            let item = format!("SQLite {group}: F2FSJ over {name}");
            if !largest {
                let published = table.get(FIGURE, &item, None);
                rows.extend(gains.into_iter().map(|gain| gain.row(published, name)));
                continue;
            }
            let most = gains.iter().max_by(|a, b| a.gain.total_cmp(&b.gain));
            let Some(most) = most else { continue };
            let published = table.get(FIGURE, &format!("{item}, largest"), None);
            let of = most.of.clone();
            let row = most.row(published, name);
            let mut row = row.noted(&format!("the largest is {of}"));
            row.of = None;
            rows.push(row);
        }
    }
    Ok(rows)
}

/// The gain of F2FSJ over a baseline with one kind of transaction in one mode.
struct Gain<'a> {
    of: String,
    gain: f64,
    ours: &'a Run,
    base: &'a Run,
    experiments: [Experiment; 2],
}

impl Gain<'_> {
    fn row(&self, published: &crate::Published, base: &str) -> Row {
        let why = format!("{base}: {}; F2FSJ: {}", syncs(self.base), syncs(self.ours));
        let row = Row::judged(published, self.gain).of(&self.of).because(&why);
        row.shown_by_all(published, self.experiments.clone())
    }
}

fn gains<'a>(
    plan: &Plan,
    outcomes: &'a Outcomes,
    modes: &[JournalMode],
    base: System,
) -> Result<Vec<Gain<'a>>, PaperError> {
    let mut all = Vec::new();
    for &mode in modes {
        for kind in kinds(plan) {
            let pair = Pair::of(|system| sqlite(plan, kind, mode, system), base);
            let more = |ours: &Run, base: &Run| ours.ops_per_s / base.ops_per_s - 1.0;
            let (ours, base) = (run_of(outcomes, &pair.ours)?, run_of(outcomes, &pair.base)?);
            all.push(Gain {
                of: format!("{}, {kind}", mode.word()),
                gain: more(ours, base),
                ours,
                base,
                experiments: pair.experiments(outcomes, more)?,
            });
        }
    }
    Ok(all)
}

fn names_listed(plan: &Plan, outcomes: &Outcomes) -> Result<Listed, PaperError> {
    let head = [
        "operation",
        "system",
        "operations/s",
        "mean (us)",
        "P99 (us)",
        "worst (ms)",
        "blocks",
    ];
    let mut lines = Vec::new();
    for op in Op::ALL {
        for system in SYSTEMS {
            let m = measured(outcomes, &bench(plan, op, system))?;
            lines.push(vec![
                op.word().into(),
                system.name(),
                number(m.ops as f64 / m.seconds),
                number(m.latency_us.mean),
                number(m.latency_us.p99),
                number(m.latency_us.max / 1e3),
                m.blocks.values().sum::<u64>().to_string(),
            ]);
        }
    }
    let caption = format!("Operations on names, {} objects", objects(plan));
    Ok((caption, head.map(String::from).into(), lines))
}

fn databases_listed(plan: &Plan, outcomes: &Outcomes) -> Result<Listed, PaperError> {
    let head = [
        "journal mode",
        "kind",
        "system",
        "transactions/s",
        "sync (us)",
        "blocks",
        "flushes",
        "FUA",
    ];
    let mut lines = Vec::new();
    for mode in MODES {
        for kind in kinds(plan) {
            for system in SYSTEMS {
                let run = run_of(outcomes, &sqlite(plan, kind, mode, system))?;
                let per = |n: u64| number(n as f64 / run.ops.max(1) as f64);
                lines.push(vec![
                    mode.word().into(),
                    (*kind).into(),
                    system.name(),
                    number(run.ops_per_s),
                    number(run.latency_us.fsync.mean),
                    per(run.blocks.values().sum()),
                    per(run.device.commands.flushes),
                    per(run.device.commands.fua_writes),
                ]);
            }
        }
    }
    let caption = "SQLite, a transaction".to_string();
    Ok((caption, head.map(String::from).into(), lines))
}

const OTHER: &str = "another board and eMMC than the paper's";

const WORDS: [&str; 3] = [
    "The device is the eMMC of an ODROID-XU4, the host has 8 cores, and CPU costs are those of its profile. The paper's board has an RK3588S and another \
     eMMC, of which nothing is published that a model could be made of.",
    "Replays run one call after another, as a replay of recorded calls does; beside them with the application's own time between the calls. With \
     --traces the recordings of Mobibench are run, without it generators of the same mix.",
    "SQLite: Mobibench's transactions of one row, synchronous=FULL; a gain is in transactions per second.",
];
