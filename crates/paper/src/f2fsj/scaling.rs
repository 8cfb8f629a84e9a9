//! Section 5.3, scaling: several processes share one set of objects. There is a core for each, so
//! that none waits for one.

use super::job::{Job, Outcomes, measured};
use super::measure::{BenchJob, Measured};
use super::names::Op;
use super::sized::{gain, job, rate};
use super::system::System;
use super::{DERIVED, Plan, published};
use crate::PaperError;
use crate::beside::{group, times, without_published};
use crate::{Experiment, Row, Section, number};
use report::plot;
use std::collections::BTreeMap;

const FIGURE: &str = "5.3 scaling";
/// Number of cores of the machine, as the paper states it. Each process has its own, and the tasks
/// of the file system take the others.
const CORES: usize = 19;
const PROCESSES: [u32; 5] = [1, 2, 4, 8, 16];
/// The operations, and the number of processes that the text names for each.
const OPS: [(Op, u32); 2] = [(Op::Mkdir, 2), (Op::Create4k, 4)];
const SYSTEMS: [System; 4] = [
    System::Checkpoint60,
    System::PageJournal,
    System::F2fsj,
    System::Ext4,
];

fn count(plan: &Plan) -> u32 {
    plan.pick(12_000, 2_000, 200)
}

fn processes(plan: &Plan) -> Vec<u32> {
    let mut all = PROCESSES.to_vec();
    if !plan.quick {
        all.push(CORES as u32);
    }
    all
}

fn of(plan: &Plan, op: Op, system: System, processes: u32) -> BenchJob {
    let more = format!(",procs={processes}");
    job(plan, system, op, (count(plan), &more), CORES)
}

/// Cores of the PC that has all other runs, fewer than the most processes.
const PC: usize = super::scale::CORES;

/// The run on as many cores as the PC has.
fn on_pc(plan: &Plan, op: Op, system: System, processes: u32) -> BenchJob {
    let mut job = of(plan, op, system, processes);
    job.host.cores = PC;
    job
}

/// The run with this many percent of the CPU costs.
fn at(plan: &Plan, op: Op, system: System, (processes, percent): (u32, u32)) -> BenchJob {
    let mut job = of(plan, op, system, processes);
    job.host.cpu_percent = percent;
    job
}

/// The jobs: each operation on each system with each number of processes; the runs that are judged
/// also with causes varied.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for (op, named) in OPS {
        for system in SYSTEMS {
            let runs = processes(plan).into_iter();
            all.extend(runs.map(|n| of(plan, op, system, n)));
            all.extend([8, 16].map(|n| on_pc(plan, op, system, n)));
            all.extend([50, 200].map(|percent| at(plan, op, system, (named, percent))));
        }
    }
    all.into_iter().map(Job::Bench).collect()
}

/// The runs of one operation, by system and processes.
struct Runs<'a> {
    name: &'static str,
    named: u32,
    all: BTreeMap<(System, u32), &'a Measured>,
    /// With 8 and 16 processes on the cores of the PC.
    on_pc: BTreeMap<(System, u32), &'a Measured>,
    /// With `named` processes and this many percent of the CPU costs.
    at: BTreeMap<(System, u32), &'a Measured>,
}

impl Runs<'_> {
    fn rate(&self, system: System, processes: u32) -> f64 {
        self.all.get(&(system, processes)).map_or(0.0, |m| rate(m))
    }

    fn gain(&self, of: (System, u32), over: (System, u32)) -> f64 {
        gain_in(&self.all, of, over)
    }

    /// Says the rates with one process and with `n`, for the reason of a row.
    fn told(&self, systems: &[System], n: u32) -> String {
        let one = |system: &System| {
            let (one, many) = (self.rate(*system, 1), self.rate(*system, n));
            format!(
                "{} goes from {} operations a second with one process to {} with {n}",
                system.name(),
                number(one),
                number(many)
            )
        };
        let all: Vec<_> = systems.iter().map(one).collect();
        all.join(", ")
    }
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing, or a plot cannot be drawn.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Scaling: several processes".into(),
        words: words(plan),
        ..Section::default()
    };
    let (mut over, mut beyond) = (Vec::new(), Vec::new());
    for (op, named) in OPS {
        let name = op.word();
        let mut all = BTreeMap::new();
        for system in SYSTEMS {
            for n in processes(plan) {
                all.insert((system, n), measured(outcomes, &of(plan, op, system, n))?);
            }
        }
        let (mut pc, mut cpu) = (BTreeMap::new(), BTreeMap::new());
        for system in SYSTEMS {
            for n in [8, 16] {
                pc.insert(
                    (system, n),
                    measured(outcomes, &on_pc(plan, op, system, n))?,
                );
            }
            for percent in [50, 200] {
                let job = at(plan, op, system, (named, percent));
                cpu.insert((system, percent), measured(outcomes, &job)?);
            }
        }
        let runs = Runs {
            name,
            named,
            all,
            on_pc: pc,
            at: cpu,
        };
        over.extend(rows_over(&runs));
        beyond.extend(rows_beyond(&runs));
        section.tables.push(listed(plan, &runs));
        section.plots.push(plotted(plan, &runs));
        section.plots.push(compared(plan, &runs));
    }
    section.rows = [over, beyond].concat();
    Ok(section)
}

fn gain_in(
    runs: &BTreeMap<(System, u32), &Measured>,
    of: (System, u32),
    over: (System, u32),
) -> f64 {
    let rate = |key| runs.get(&key).map_or(0.0, |m| rate(m));
    gain(rate(of), rate(over)).unwrap_or(0.0)
}

fn rows_over(runs: &Runs<'_>) -> Vec<Row> {
    let (table, n) = (published(), runs.named);
    let published = |other: &str| {
        let item = format!("{}, {n} processes: F2FSJ over {other}", runs.name);
        table.get(FIGURE, &item, None)
    };
    let row = |name: &str, other: System| {
        let gain = runs.gain((System::F2fsj, n), (other, n));
        let one = runs.gain((System::F2fsj, 1), (other, 1));
        let told = runs.told(&[System::F2fsj, other], n);
        let why = format!("{told}; the gain with one process is {}", number(one));
        let at = |percent| gain_in(&runs.at, (System::F2fsj, percent), (other, percent));
        let cpu = Experiment::on("the CPU costs").with("half of them", at(50));
        let cpu = cpu.with("twice", at(200));
        let row = Row::judged(published(name), gain).because(&why);
        row.shown_by(published(name), cpu)
    };
    vec![
        row("checkpoint-60", System::Checkpoint60),
        row("ext4", System::Ext4),
        Row::unmeasured(published("XFS"), None),
    ]
}

fn rows_beyond(runs: &Runs<'_>) -> Vec<Row> {
    let table = published();
    let item = format!("{}: 16 processes over 8", runs.name);
    let row = |system: System| {
        let gain = runs.gain((system, 16), (system, 8));
        let why = runs.told(&[system], 16);
        let published = table.get(FIGURE, &item, None);
        let row = Row::judged(published, gain).of(&system.name());
        let few = gain_in(&runs.on_pc, (system, 16), (system, 8));
        let cores = Experiment::on("a core for each process");
        let cores = cores.with(&format!("{PC} cores, those of the PC"), few);
        row.because(&why).shown_by(published, cores)
    };
    SYSTEMS.map(row).into()
}

fn listed(plan: &Plan, runs: &Runs<'_>) -> crate::Listed {
    let all = processes(plan);
    let head = ["system".to_string()].into_iter();
    let head = head.chain(all.iter().map(|n| format!("{n}"))).collect();
    let line = |system: System| {
        let rates = all.iter().map(|n| number(runs.rate(system, *n)));
        [system.name()].into_iter().chain(rates).collect()
    };
    let caption = format!("{}: operations a second by processes", runs.name);
    (caption, head, SYSTEMS.map(line).into())
}

fn plotted(plan: &Plan, runs: &Runs<'_>) -> (String, plot::Plot) {
    let all = processes(plan);
    let groups: Vec<String> = all.iter().map(|n| n.to_string()).collect();
    let one = |system: System| {
        let rates = all.iter().map(|n| runs.rate(system, *n) / 1e3);
        (system.name(), rates.collect())
    };
    let drawn = plot::grouped_bars(
        &format!("{} by processes", runs.name),
        "thousand operations a second",
        &groups,
        &SYSTEMS.map(one),
    );
    let why = "it tells gains over other systems, which are drawn below";
    let caption = format!("{}: more is better.", runs.name);
    (without_published(&caption, why), drawn)
}

/// The rates over that of stock F2FS with as many processes.
fn compared(plan: &Plan, runs: &Runs<'_>) -> (String, plot::Plot) {
    let all = processes(plan);
    let groups: Vec<String> = all.iter().map(|n| n.to_string()).collect();
    let one = |system: System| {
        let over = |n: &u32| times(runs.gain((system, *n), (System::Checkpoint60, *n)));
        (system.name(), all.iter().map(over).collect())
    };
    let title = format!("{} by processes, over checkpoint-60", runs.name);
    let drawn = plot::grouped_bars(&title, "times", &groups, &SYSTEMS.map(one));
    let (table, n) = (published(), runs.named);
    let of = |other: &str| {
        let item = format!("{}, {n} processes: F2FSJ over {other}", runs.name);
        table.get(FIGURE, &item, None)
    };
    let at = || group(&n.to_string());
    let stock = of("checkpoint-60");
    let fast = times(stock.value.unwrap_or_default());
    let own = stock.mark(Some(&System::F2fsj.name()), at());
    let ext4 = of("ext4").mark(Some(&System::Ext4.name()), at());
    let ext4 = ext4.map(|mark| mark.turned(|gain| fast / times(gain)));
    let marks: Vec<_> = own
        .map(|mark| mark.map(times))
        .into_iter()
        .chain(ext4)
        .collect();
    let caption = format!("{}: more is better. {DERIVED}", runs.name);
    (caption, drawn.beside(&marks))
}

fn words(plan: &Plan) -> Vec<String> {
    vec![format!(
        "{} objects, 100 in a directory, shared by the processes: each takes the next one when it has done its last, as the threads of filebench do, so that \
         they meet in one directory. {CORES} virtual cores, as the paper says of its machine: no process waits for a core, all that is lost is lost to locks \
         and to the device. Costs of the CPU are charged while the lock is held under which the work is done.",
        count(plan)
    )]
}
