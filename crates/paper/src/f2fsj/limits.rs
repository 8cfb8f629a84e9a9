//! What the journal does not bring: what checkpoints in the background gain without it, and loads
//! that it does not help.

use super::Plan;
use super::job::{Job, Outcomes, RunJob, run_of};
use super::micro::{Found, rate, title};
use super::names::{At, Op};
use super::system::System;
use crate::PaperError;
use crate::beside::without_published;
use crate::{Listed, Row, Section, number};
use report::plot;
use report::results::Run;

const FIGURE: &str = "Limits";

/// Least gain of a load that counts as helped.
const HELPED: f64 = 0.02;

/// A load, with the words for it.
struct Load {
    name: &'static str,
    /// Text of the workload, in which `{n}` stands for the number of operations.
    workload: &'static str,
    amount: Amount,
}

/// Number of operations in a whole, a quick and a tiny report.
type Amount = [u32; 3];

const SYNCS: Amount = [3_000, 500, 30];
const TRANSACTIONS: Amount = [500, 100, 10];

const fn load(name: &'static str, workload: &'static str, amount: Amount) -> Load {
    Load {
        name,
        workload,
        amount,
    }
}

#[rustfmt::skip]
const LOADS: [Load; 10] = [
    load("large file, from beginning to end", "jobs:procs=1,file={n}m,size=1m,every=0,order=sequential,fill=none", [256, 64, 4]),
    load("large file, random places", "jobs:procs=1,file=64m,size=4k,count={n},every=0,order=random", [20_000, 4_000, 50]),
    load("attributes of files", "meta:op=stat,count={n},size=4k,width=100", [20_000, 5_000, 100]),
    load("lists of directories", "meta:op=readdir,count={n},size=4k,width=100", [5_000, 1_000, 100]),
    load("one file grows, fsync each", "fsync:op=append,count={n}", SYNCS),
    load("random places, fdatasync each", "fsync:op=random,sync=fdatasync,count={n}", SYNCS),
    load("new files, fsync each", "fsync:op=create,count={n}", SYNCS),
    load("removals, fsync of the directory each", "fsync:op=unlink,count={n}", SYNCS),
    load("SQLite, WAL", "sqlite:insert={n},update={n},delete={n},journal=wal", TRANSACTIONS),
    load("SQLite, DELETE", "sqlite:insert={n},update={n},delete={n},journal=delete", TRANSACTIONS),
];

const SYSTEMS: [System; 4] = [
    System::Checkpoint60,
    System::PageJournal,
    System::F2fsj,
    System::Ext4,
];

impl Load {
    fn job(&self, plan: &Plan, system: System) -> RunJob {
        let [full, quick, tiny] = self.amount;
        let count = plan.pick(full, quick, tiny).to_string();
        RunJob::new(plan, system, self.workload.replace("{n}", &count))
    }
}

/// The jobs: each load on each system, and the operations on names.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let names = Op::ALL.into_iter().flat_map(|op| {
        let systems = [System::Checkpoint60, System::Checkpoint5Bg, System::F2fsj];
        systems.map(|system| Job::Bench(op.at(plan, system, At::Whole)))
    });
    let loads = LOADS
        .iter()
        .flat_map(|load| SYSTEMS.map(|system| Job::Run(load.job(plan, system))));
    names.chain(loads).collect()
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let found = Found::new(plan, outcomes);
    let mut rows = Vec::new();
    for op in Op::ALL {
        rows.extend(background(op, &found)?);
    }
    let mut loads = Vec::new();
    for load in &LOADS {
        let of = |system| run_of(outcomes, &load.job(plan, system));
        let [a, b, c, d] = SYSTEMS.map(of);
        loads.push((load, [a?, b?, c?, d?]));
    }
    for (load, runs) in &loads {
        for other in [0, 1, 3] {
            let item = format!("{}: F2FSJ over {}", load.name, title(SYSTEMS[other]));
            rows.push(Row::ours(FIGURE, &item, "gain", gain(runs, other)));
        }
    }
    Ok(Section {
        title: "What the journal does not bring".into(),
        words: words(&found, &loads)?,
        rows,
        tables: vec![table(&loads)],
        plots: vec![bars(&loads)],
    })
}

/// The runs of a load, in the order of [`SYSTEMS`].
type Runs<'a> = [&'a Run; SYSTEMS.len()];

fn gain(runs: &Runs<'_>, other: usize) -> f64 {
    runs[2].ops_per_s / runs[other].ops_per_s.max(f64::MIN_POSITIVE) - 1.0
}

/// Rows of what checkpoints in the background gain alone, and of what remains for the journal.
fn background(op: Op, found: &Found<'_>) -> Result<[Row; 2], PaperError> {
    use System::{Checkpoint5Bg, Checkpoint60, F2fsj};
    let row = |a: System, b: System| {
        let item = format!("{}: {} over {}", op.word(), title(a), title(b));
        let gain = found.gain(op, (a, b), At::Whole)?;
        Ok::<Row, PaperError>(Row::ours(FIGURE, &item, "gain", gain))
    };
    Ok([
        row(Checkpoint5Bg, Checkpoint60)?,
        row(F2fsj, Checkpoint5Bg)?,
    ])
}

fn words(found: &Found<'_>, loads: &[(&Load, Runs<'_>)]) -> Result<Vec<String>, PaperError> {
    let mut parts = Vec::new();
    for op in Op::ALL {
        let stock = rate(found.of(op, System::Checkpoint60, At::Whole)?);
        let percent = |system| {
            let of = rate(found.of(op, system, At::Whole)?);
            Ok::<String, PaperError>(format!("{:+.1} %", 100.0 * (of / stock - 1.0)))
        };
        parts.push(format!(
            "{} {} and {}",
            op.word(),
            percent(System::Checkpoint5Bg)?,
            percent(System::F2fsj)?
        ));
    }
    let not: Vec<String> = loads
        .iter()
        .filter(|(_, runs)| gain(runs, 0) < HELPED)
        .map(|(load, runs)| format!("{} ({:+.1} %)", load.name, 100.0 * gain(runs, 0)))
        .collect();
    let not = match not.is_empty() {
        true => "none".into(),
        false => not.join("; "),
    };
    Ok(vec![
        format!(
            "checkpoint-5-bg has no journal: a task writes a stock checkpoint each 5 s (as long over the run as in the paper's), which is what the released prototype does. Gains over checkpoint-60 \
             of it alone and of F2FSJ: {}. The first is nothing that a journal brings.",
            parts.join("; ")
        ),
        "Loads in which few names change, or in which one process waits for an fsync after each operation. Their intervals are Linux's. They are measured to the end of their last \
         operation, benchmarks of files (large files, attributes, lists) with the sync that brings everything home."
            .into(),
        format!("Of these loads F2FSJ gains less than 2 % over checkpoint-60, or loses, in: {not}."),
    ])
}

fn table(loads: &[(&Load, Runs<'_>)]) -> Listed {
    let columns = SYSTEMS.into_iter().flat_map(|system| {
        let name = title(system);
        [
            format!("{name}: operations/s"),
            format!("{name}: blocks an operation"),
            format!("{name}: flushes an operation"),
        ]
    });
    let line = |(load, runs): &(&Load, Runs<'_>)| {
        let each = runs.iter().flat_map(|run| {
            let per = |n: u64| number(n as f64 / run.ops.max(1) as f64);
            [
                number(run.ops_per_s),
                per(run.blocks.values().sum()),
                per(run.device.commands.flushes),
            ]
        });
        [load.name.to_string()].into_iter().chain(each).collect()
    };
    (
        "Loads: throughput, and what reached the device for an operation".into(),
        ["load".to_string()].into_iter().chain(columns).collect(),
        loads.iter().map(line).collect(),
    )
}

fn bars(loads: &[(&Load, Runs<'_>)]) -> (String, plot::Plot) {
    let groups: Vec<String> = (1..=loads.len()).map(|n| n.to_string()).collect();
    let series: Vec<(String, Vec<f64>)> = SYSTEMS
        .into_iter()
        .enumerate()
        .map(|(n, system)| {
            let over = |(_, runs): &(&Load, Runs<'_>)| {
                runs[n].ops_per_s / runs[0].ops_per_s.max(f64::MIN_POSITIVE)
            };
            (title(system), loads.iter().map(over).collect())
        })
        .collect();
    let names = loads.iter().enumerate();
    let names: Vec<String> = names
        .map(|(n, (load, _))| format!("{} {}", n + 1, load.name))
        .collect();
    let caption = format!(
        "Throughput over that of checkpoint-60: {}",
        names.join("; ")
    );
    let title = "Loads: throughput over that of checkpoint-60";
    let drawn = plot::grouped_bars(title, "times", &groups, &series);
    (
        without_published(&caption, "it has none of these loads as they are here"),
        drawn,
    )
}
