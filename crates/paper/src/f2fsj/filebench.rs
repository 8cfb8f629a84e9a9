//! Section 5.3, applications: OLTP, Fileserver, Webserver, Webproxy and Varmail of Filebench, with
//! one set of parameters for all systems.

use super::job::{Job, Outcomes, measured};
use super::measure::{BenchJob, Host, Journaled, Measured};
use super::micro::OFTEN;
use super::scale::{CORES, DEVICE, size};
use super::sized::{gain, rate};
use super::system::System;
use super::{Plan, published};
use crate::PaperError;
use crate::{Experiment, Row, Section, Table, number};
use rig::Scheme;
use work::RunConfig;

const FIGURE: &str = "5.3 applications";
const NO_XFS: &str = "there is no XFS here";

/// The systems that are compared.
const SYSTEMS: [System; 5] = [
    System::Checkpoint60,
    System::Checkpoint5Bg,
    System::PageJournal,
    System::F2fsj,
    System::Ext4,
];

/// A personality, and how much of it runs in a whole, a quick and a tiny report.
struct App {
    name: &'static str,
    full: &'static str,
    quick: &'static str,
    tiny: &'static str,
}

/// Files and operations are a twentieth of the artifact's, as our ring is about a twentieth of its
/// ring; in a quick report the files are a two-hundredth. `oltp` runs for 120 s there, and for
/// 30,000 operations here.
const APPS: [App; 5] = [
    App {
        name: "oltp",
        full: "scale=1/20,ops=30000",
        quick: "scale=1/200,nreaders=40,nwriters=2,ops=6000",
        tiny: "nfiles=2,filesize=64k,logsize=512k,nreaders=4,nwriters=1,posts=10,logposts=30,writes=10,ops=300",
    },
    App {
        name: "fileserver",
        full: "scale=1/20",
        quick: "scale=1/200,ops=4000",
        tiny: "nfiles=60,nthreads=4,ops=300",
    },
    App {
        name: "webserver",
        full: "scale=1/20",
        quick: "scale=1/200,ops=5000",
        tiny: "nfiles=60,ops=300",
    },
    App {
        name: "webproxy",
        full: "scale=1/20",
        quick: "scale=1/200,ops=5000",
        tiny: "nfiles=60,ops=300",
    },
    App {
        name: "varmail",
        full: "scale=1/20",
        quick: "scale=1/200",
        tiny: "nfiles=60,ops=300",
    },
];

fn of(plan: &Plan, app: &App, system: System) -> BenchJob {
    let scale = plan.pick(app.full, app.quick, app.tiny);
    BenchJob {
        run: RunConfig {
            stack: system.stack(DEVICE, plan.size(), plan.seed),
            workload: format!("filebench:{},{scale}", app.name),
            seed: plan.seed,
            recording: None,
        },
        host: Host::cores(CORES),
    }
}

/// Systems that published values compare; their causes are varied, in runs as small as those of a
/// quick report.
const COMPARED: [System; 3] = [System::Checkpoint60, System::F2fsj, System::Ext4];
/// CPU costs of these runs, percent of the table.
const LEVELS: [u32; 3] = [50, 100, 200];
const SMALLER: u32 = 10;

fn varied(plan: &Plan, app: &App, system: System, cpu_percent: u32) -> BenchJob {
    let mut job = of(plan, app, system);
    let scale = plan.pick(app.quick, app.quick, app.tiny);
    let size = size(plan.objects() / SMALLER);
    job.run.stack = system.stack(DEVICE, size, plan.seed);
    job.run.workload = format!("filebench:{},{scale}", app.name);
    job.host.cpu_percent = cpu_percent;
    job
}

fn two_rounds(plan: &Plan, app: &App) -> BenchJob {
    let mut job = varied(plan, app, System::F2fsj, 100);
    if let Scheme::F2fs(scheme) = &mut job.run.stack.scheme {
        scheme.rounds = "2".parse().expect("it is a number of rounds");
    }
    job
}

/// Stock F2FS with a checkpoint after 1 s instead of 60.
fn often(plan: &Plan, app: &App) -> BenchJob {
    varied(plan, app, System::Checkpoint1, 100)
}

/// The jobs: each application on each system; and with causes varied.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let each = |app| {
        let all = SYSTEMS.map(|system| of(plan, app, system));
        let varied = move |system| LEVELS.map(|level| varied(plan, app, system, level));
        let varied = COMPARED.into_iter().flat_map(varied);
        let more = [two_rounds(plan, app), often(plan, app)];
        all.into_iter().chain(varied).chain(more)
    };
    APPS.iter().flat_map(each).map(Job::Bench).collect()
}

/// The gain of F2FSJ over `other` with causes varied.
fn experiments(
    plan: &Plan,
    outcomes: &Outcomes,
    app: &App,
    other: System,
) -> Result<Vec<Experiment>, PaperError> {
    let at = |system, level| measured(outcomes, &varied(plan, app, system, level)).map(rate);
    let over =
        |ours: f64, level| Ok::<f64, PaperError>(gain(ours, at(other, level)?).unwrap_or(f64::NAN));
    let [half, control, twice] = LEVELS.map(|level| over(at(System::F2fsj, level)?, level));
    let control = control?;
    let on = |cause: &str| Experiment::on(&format!("{cause} (smaller runs)")).against(control);
    let rounds = rate(measured(outcomes, &two_rounds(plan, app))?);
    let often = rate(measured(outcomes, &often(plan, app))?);
    let often = gain(at(System::F2fsj, 100)?, often).unwrap_or(f64::NAN);
    let often = on(OFTEN).with("after 1 s instead of 60", often);
    let mut all = vec![
        on("the CPU costs")
            .with("half of them", half?)
            .with("twice", twice?),
        on("an fsync in one round").with("in two (rounds=2)", over(rounds, 100)?),
    ];
    all.extend((other == System::Checkpoint60).then_some(often));
    Ok(all)
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published();
    let (mut rows, mut own, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for app in &APPS {
        let run = |system| measured(outcomes, &of(plan, app, system));
        let f2fsj = run(System::F2fsj)?;
        for (other, name) in [
            (System::Checkpoint60, "checkpoint-60"),
            (System::Ext4, "ext4"),
        ] {
            let varied = experiments(plan, outcomes, app, other)?;
            rows.extend(judged(&table, app, f2fsj, (run(other)?, name, varied)));
        }
        let item = format!("{}: F2FSJ over XFS", app.name);
        let xfs = table
            .all()
            .iter()
            .find(|p| p.figure == FIGURE && p.item == item);
        rows.extend(xfs.map(|p| Row::unmeasured(p, Some(NO_XFS))));
        let base = rate(run(System::Checkpoint60)?);
        for system in [System::Checkpoint5Bg, System::PageJournal] {
            let item = format!("{}: {} over checkpoint-60", app.name, system.name());
            let more = gain(rate(run(system)?), base).unwrap_or(0.0);
            own.push(Row::ours(FIGURE, &item, "gain", more));
        }
        for system in SYSTEMS {
            lines.push(line(app, system, run(system)?));
        }
    }
    rows.extend(own);
    let head = [
        "application",
        "system",
        "operations",
        "a second",
        "mean (us)",
        "p99 (us)",
        "checkpoints",
        "inside (s)",
        "run (s)",
        "commits",
        "waits for a journal (s)",
        "blocks written",
    ];
    let listed = (
        "Each application on each system".into(),
        head.map(String::from).into(),
        lines,
    );
    Ok(Section {
        title: "5.3: applications of Filebench".into(),
        words: WORDS.map(String::from).into(),
        rows,
        tables: vec![listed],
        plots: Vec::new(),
    })
}

/// The row of the gain of F2FSJ over another system, if the paper has it.
fn judged(
    table: &Table,
    app: &App,
    f2fsj: &Measured,
    (other, name, varied): (&Measured, &str, Vec<Experiment>),
) -> Option<Row> {
    let item = format!("{}: F2FSJ over {name}", app.name);
    let published = table
        .all()
        .iter()
        .find(|p| p.figure == FIGURE && p.item == item)?;
    let more = gain(rate(f2fsj), rate(other)).unwrap_or(0.0);
    let row = Row::judged(published, more).because(&why(f2fsj, other, name));
    Some(row.shown_by_all(published, varied))
}

/// Explains a gain by the parts of both times.
fn why(f2fsj: &Measured, other: &Measured, name: &str) -> String {
    let share = other.checkpoints.inside_s / other.seconds.max(1e-9);
    let theirs = match name {
        "ext4" => format!(
            "{name} waited {} s for JBD2, all threads together",
            number(waits(other))
        ),
        _ => format!(
            "{name} wrote {} checkpoints, {} of its time: so much, and the waits behind them, is what a journal can take away",
            other.checkpoints.packs,
            number(share)
        ),
    };
    let (ours, their) = (&f2fsj.latency_us, &other.latency_us);
    format!(
        "{theirs}; F2FSJ's operations spent {} s on its own, all threads together{}, and its commits took {} s; a median operation takes {} us with F2FSJ and {} us with {name}, a mean one {} and {} us; blocks \
         written per operation: {} and {}",
        number(on_journal(f2fsj)),
        in_parts(f2fsj),
        number(committing(f2fsj)),
        number(ours.p50),
        number(their.p50),
        number(ours.mean),
        number(their.mean),
        number(blocks(f2fsj) as f64 / f2fsj.ops.max(1) as f64),
        number(blocks(other) as f64 / other.ops.max(1) as f64),
    )
}

/// Seconds that operations waited for the journal of their file system.
fn waits(found: &Measured) -> f64 {
    let jbd2 = found
        .jbd2_s
        .iter()
        .filter(|(name, _)| name.starts_with("wait"));
    let f2fs = found.journal.iter().flat_map(|j| j.waits_s.values());
    jbd2.map(|(_, s)| s).chain(f2fs).sum()
}

/// Seconds that operations spent on the journal of F2FS: logging, and waiting for it.
fn on_journal(found: &Measured) -> f64 {
    found.journal.as_ref().map_or(0.0, Journaled::of_operations)
}

/// The time of [`on_journal`] in its parts, in words.
fn in_parts(found: &Measured) -> String {
    let parts = found.journal.iter().flat_map(Journaled::operations_s);
    let parts: Vec<_> = parts
        .map(|(what, s)| format!("{what} {}", number(s)))
        .collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join(", ")),
    }
}

fn committing(found: &Measured) -> f64 {
    let commits = found.journal.iter().flat_map(|j| j.commit_s.values());
    commits.sum()
}

fn blocks(found: &Measured) -> u64 {
    found.blocks.values().sum()
}

fn line(app: &App, system: System, found: &Measured) -> Vec<String> {
    vec![
        app.name.into(),
        system.name(),
        found.ops.to_string(),
        number(rate(found)),
        number(found.latency_us.mean),
        number(found.latency_us.p99),
        found.checkpoints.packs.to_string(),
        number(found.checkpoints.inside_s),
        number(found.seconds),
        found.journal.as_ref().map_or(0, |j| j.commits).to_string(),
        number(waits(found)),
        blocks(found).to_string(),
    ]
}

const WORDS: [&str; 3] = [
    "The personalities have the parameters of the paper's artifact, the same for every system (there the append of varmail was random on F2FS and ext4 and fixed \
     on F2FSJ); files and operations are a twentieth of its numbers, as the ring is of its ring (quick: a two hundredth of the files), and sizes of files are its own. An operation is a \
     flowop of input or output, as Filebench's summary counts them; time ends with the last thread, without a sync.",
    "Webserver, webproxy and varmail have one thread, as the scripts do. Files are in the page cache after they were made: reads cost processor time only, \
     and a run that mostly reads shows little of how metadata is kept.",
    "Hogs of OLTP are charged with a nanosecond for each of their counts, so 200 readers on 10 cores share what the processor gives; every asynchronous write is O_DSYNC.",
];
