//! The overheads of journaling with create-4KB, in memory and CPU; and a long run.

use super::job::{Job, Outcomes, measured};
use super::measure::{BenchJob, Measured, Slice};
use super::names::{At, Op};
use super::scale::{CORES, shorter};
use super::sized::{gain, job, rate};
use super::system::System;
use super::{Plan, published};
use crate::PaperError;
use crate::{Experiment, Row, Section, number};

const FIGURE: &str = "5.3 overheads";
const LONG: &str = "300 runs of more than 6 hours: throughput of the last over the first";
/// The systems of the long run.
const SYSTEMS: [System; 3] = [System::Checkpoint60, System::PageJournal, System::F2fsj];
/// A long run is divided into this many parts, of which the first and the last are compared.
const PARTS: usize = 10;

/// The systems of both overheads.
const BOTH: [System; 2] = [System::Checkpoint60, System::F2fsj];

fn overhead(plan: &Plan, system: System) -> BenchJob {
    Op::Create4k.job(plan, system)
}

/// Objects and rounds of the long run: it makes as many files as other runs, a few at a time.
fn long_of(plan: &Plan) -> (u32, u32) {
    plan.pick((2_000, 50), (500, 10), (50, 3))
}

fn long(plan: &Plan, system: System) -> BenchJob {
    let (objects, rounds) = long_of(plan);
    let more = format!(",rounds={rounds}");
    let mut job = job(plan, system, Op::Create4k, (objects, &more), CORES);
    job.run.stack.shorter = Some(shorter(objects * rounds));
    job
}

/// The jobs: the runs for both overheads, and the long runs.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let overheads = BOTH.map(|s| overhead(plan, s));
    let varied = BOTH.map(|s| At::VARIED.map(|at| Op::Create4k.at(plan, s, at)));
    let long = SYSTEMS.map(|s| long(plan, s));
    let all = overheads.into_iter().chain(varied.into_iter().flatten());
    all.chain(long).map(Job::Bench).collect()
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let stock = measured(outcomes, &overhead(plan, System::Checkpoint60))?;
    let ours = measured(outcomes, &overhead(plan, System::F2fsj))?;
    let mut rows = memory(stock, ours);
    let varied = At::experiments(plan, |at| {
        let of = |system| measured(outcomes, &Op::Create4k.at(plan, system, at)).map(busy);
        Ok(gain(of(System::F2fsj)?, of(System::Checkpoint60)?).unwrap_or(f64::NAN))
    })?;
    rows.extend(cpu(stock, ours, varied));
    let mut lines = Vec::new();
    let table = published();
    for system in SYSTEMS {
        let found = measured(outcomes, &long(plan, system))?;
        let Some((first, last)) = ends(&found.series) else {
            return Err(PaperError::Check("a long run has no series".into()));
        };
        let stable = last / first;
        let row = Row::judged(table.get("5.3 aged", LONG, None), stable);
        rows.push(row.of(&system.name()));
        lines.push(
            [
                system.name(),
                number(rate(found)),
                number(first),
                number(last),
                number(stable),
            ]
            .into(),
        );
    }
    let head = [
        "system",
        "operations a second",
        "first tenth",
        "last tenth",
        "last over first",
    ];
    Ok(Section {
        title: "Overheads, and a long run".into(),
        words: words(plan),
        rows,
        tables: vec![(
            "The long run: operations a second".into(),
            head.map(String::from).into(),
            lines,
        )],
        plots: Vec::new(),
    })
}

/// Operations per second in the first and in the last part of a run.
fn ends(series: &[Slice]) -> Option<(f64, f64)> {
    let part = series.len() / PARTS;
    let length = series.get(1)?.at * part as f64;
    let ops = |slices: &[Slice]| slices.iter().map(|s| s.ops).sum::<u64>() as f64;
    (part > 0 && length > 0.0).then(|| {
        (
            ops(&series[..part]) / length,
            ops(&series[series.len() - part..]) / length,
        )
    })
}

fn memory(stock: &Measured, ours: &Measured) -> Vec<Row> {
    let table = published();
    let get = |item: &str| table.get(FIGURE, item, None).clone();
    let [a, b] = [stock, ours].map(|m| m.memory_bytes.values().sum::<u64>() as f64);
    let more = gain(b, a).unwrap_or(0.0);
    let told = |name: &str, found: &Measured| {
        let parts = found.memory_bytes.iter().filter(|(_, bytes)| **bytes > 0);
        let parts: Vec<_> = parts
            .map(|(part, bytes)| format!("{part} {} MB", number(*bytes as f64 / 1e6)))
            .collect();
        format!("{name}: {}", parts.join(", "))
    };
    let whole =
        "what the mount holds at the end of the run; the paper's figure is the whole machine's";
    let (note, ours_note) = (told("checkpoint-60", stock), told("F2FSJ", ours));
    vec![
        Row::judged(&get("memory, checkpoint-60"), a / 1e9).noted(&format!("{whole}; {note}")),
        Row::judged(&get("memory, F2FSJ"), b / 1e9).noted(&format!("{whole}; {ours_note}")),
        Row::judged(&get("memory, F2FSJ over checkpoint-60"), more)
            .noted(&format!("{note}; {ours_note}")),
    ]
}

/// Charged CPU time as a share of the time of all cores.
fn busy(found: &Measured) -> f64 {
    found.cpu_s / (found.seconds * CORES as f64).max(f64::MIN_POSITIVE)
}

fn cpu(stock: &Measured, ours: &Measured, varied: [Experiment; 2]) -> Vec<Row> {
    let table = published();
    let get = |item: &str| table.get(FIGURE, item, None).clone();
    let over = get("CPU time, F2FSJ over checkpoint-60");
    let more = gain(busy(ours), busy(stock)).unwrap_or(0.0);
    let why = format!(
        "an operation costs {} us of CPU with checkpoints and {} us with F2FSJ, all tasks together; the runs take {} s and {} s, so a part of the time also \
         grows when the run gets shorter",
        number(stock.cpu_s * 1e6 / stock.ops.max(1) as f64),
        number(ours.cpu_s * 1e6 / ours.ops.max(1) as f64),
        number(stock.seconds),
        number(ours.seconds)
    );
    vec![
        Row::judged(&get("CPU time, checkpoint-60"), busy(stock)),
        Row::judged(&get("CPU time, F2FSJ"), busy(ours)),
        Row::judged(&over, more)
            .because(&why)
            .shown_by_all(&over, varied),
    ]
}

fn words(plan: &Plan) -> Vec<String> {
    let (objects, rounds) = long_of(plan);
    vec![
        format!(
            "CPU time is what is charged in virtual time, of all tasks, over the run and {CORES} cores. The paper's machine does other things too, and its \
             benchmark has a process of its own, so parts of its time are not comparable, only what F2FSJ adds."
        ),
        format!(
            "The paper repeats its runs 300 times, more than 6 hours each, and calls the throughput stable. Here {objects} files are made and removed in {rounds} \
             rounds; the first and the last tenth of the time are compared."
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_run_are_its_first_and_last_tenth() {
        let slice = |n: u64| Slice {
            at: n as f64 * 0.5,
            ops: n,
            ..Slice::default()
        };
        let series: Vec<_> = (0..20).map(slice).collect();
        assert_eq!(ends(&series), Some((1.0, 37.0)));
        assert_eq!(ends(&series[..5]), None);
        assert_eq!(ends(&[]), None);
    }
}
