//! Section 5.3: fio on one large file, in eight named cases. Sizes of requests, depth and mix are
//! ours, because the paper publishes none of them.

use super::Plan;
use super::job::{Job, Outcomes, measured};
use super::measure::{BenchJob, Host, Measured};
use super::scale::{CORES, FLAT_DEVICE};
use super::sized::gain;
use super::system::{Size, System};
use super::{published, xfs_rows};
use crate::PaperError;
use crate::{Row, Section, number};
use work::RunConfig;
use work::workload::Case;

const FIGURE: &str = "5.3 FIO";
const SYSTEMS: [System; 4] = [
    System::Checkpoint60,
    System::Checkpoint5Bg,
    System::F2fsj,
    System::Ext4,
];

/// The runs; a run of a mix serves two cases.
const RUNS: [Case; 6] = [
    Case::SeqWrite,
    Case::SeqRead,
    Case::RandWrite,
    Case::RandRead,
    Case::SeqMixWrites,
    Case::RandMixWrites,
];

/// The run that has the figure of a case.
fn run_of(case: Case) -> Case {
    match case {
        Case::SeqMixReads => Case::SeqMixWrites,
        Case::RandMixReads => Case::RandMixWrites,
        other => other,
    }
}

/// Size of the paper's file.
const PAPER_MIB: u32 = 32 << 10;

fn job(plan: &Plan, case: Case, system: System) -> BenchJob {
    let (mib, depth) = plan.pick((64, 32), (16, 8), (4, 4));
    let size = Size {
        shorter: PAPER_MIB / mib,
        ..plan.size()
    };
    let case = run_of(case).word();
    BenchJob {
        run: RunConfig {
            stack: system.stack(FLAT_DEVICE, size, plan.seed),
            workload: format!("fio:case={case},file={mib}m,depth={depth}"),
            seed: plan.seed,
            recording: None,
        },
        host: Host::cores(CORES),
    }
}

/// The jobs: each run on each system.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let of = |case: Case| SYSTEMS.map(|system| Job::Bench(job(plan, case, system)));
    RUNS.into_iter().flat_map(of).collect()
}

/// MB per second of the half of a run that the case reports.
fn rate(case: Case, found: &Measured) -> f64 {
    let ops = found.kinds.get(case.kind()).copied().unwrap_or(0);
    let bytes = ops * case.request_bytes();
    bytes as f64 / 1e6 / found.seconds.max(f64::MIN_POSITIVE)
}

/// Says what a run wrote and how long its parts took, which are the causes of differences.
fn parts(system: System, found: &Measured) -> String {
    let mut classes: Vec<String> = Vec::new();
    classes.extend(found.blocks.iter().map(|(class, n)| format!("{n} {class}")));
    format!(
        "{}: {} s, mean request {} us, blocks {}",
        system.name(),
        number(found.seconds),
        number(found.latency_us.mean),
        if classes.is_empty() {
            "none".into()
        } else {
            classes.join(" ")
        }
    )
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published();
    let of = |case, system| measured(outcomes, &job(plan, case, system));
    let mut rows = Vec::new();
    let over = |case: Case, item: &str, (a, b): (System, System)| {
        let (x, y) = (of(case, a)?, of(case, b)?);
        let gain = gain(rate(case, x), rate(case, y)).unwrap_or(0.0);
        let row = Row::judged(table.get(FIGURE, item, None), gain);
        let why = format!("{WHY}; {}; {}", parts(a, x), parts(b, y));
        Ok::<Row, PaperError>(row.because(&why))
    };
    use System::{Checkpoint60, Ext4, F2fsj};
    for (case, name) in [
        (Case::SeqWrite, "seq-write"),
        (Case::RandWrite, "rand-write"),
        (Case::SeqRead, "seq-read"),
        (Case::RandRead, "rand-read"),
    ] {
        let item = |what: &str| format!("{name}: {what}");
        rows.push(over(
            case,
            &item("F2FSJ over checkpoint-60"),
            (F2fsj, Checkpoint60),
        )?);
        if case != Case::RandRead {
            rows.push(over(case, &item("F2FSJ over ext4"), (F2fsj, Ext4))?);
            rows.push(over(
                case,
                &item("checkpoint-60 over ext4"),
                (Checkpoint60, Ext4),
            )?);
        }
    }
    for case in [Case::RandMixWrites, Case::RandMixReads] {
        let which = format!("{}s", case.kind());
        let row = over(
            case,
            "random mix: F2FSJ over checkpoint-60",
            (F2fsj, Checkpoint60),
        )?;
        rows.push(row.of(&which));
        let row = over(case, "random mix: ext4 over F2FSJ", (Ext4, F2fsj))?;
        rows.push(row.of(&which));
    }
    for case in [Case::SeqMixWrites, Case::SeqMixReads] {
        let a = rate(case, of(case, F2fsj)?);
        for other in [Checkpoint60, Ext4] {
            let gain = gain(a, rate(case, of(case, other)?)).unwrap_or(0.0);
            let item = format!("sequential mix: F2FSJ over {}", other.name());
            rows.push(Row::ours(FIGURE, &item, "gain", gain).of(&format!("{}s", case.kind())));
        }
    }
    rows.extend(xfs_rows(&table, FIGURE));
    let mut lines = Vec::new();
    for case in Case::ALL {
        let mut line = vec![case.word().to_string()];
        for system in SYSTEMS {
            line.push(number(rate(case, of(case, system)?)));
        }
        lines.push(line);
    }
    let mut head = vec!["case".to_string()];
    head.extend(SYSTEMS.map(System::name));
    Ok(Section {
        title: "5.3: fio on a large file".into(),
        words: WORDS.map(String::from).into(),
        rows,
        tables: vec![("MB/s of the half that the case reports".into(), head, lines)],
        plots: Vec::new(),
    })
}

const WHY: &str =
    "block size, depth and the use of the page cache are not published; from the parts";

const WORDS: [&str; 3] = [
    "Sequential requests of 1 MiB and random ones of 4 KiB, 32 under way, one file, an even mix: none of it is published. The file is smaller than the \
     paper's 32 GB as the volume is smaller than its drive, and intervals are as much shorter; it is in no cache when a run begins.",
    "Requests go through the page cache, as 32 tasks of one job; the sync at the end counts. The volume was never filled, so nothing is cleaned.",
    "The drive has its SLC area off: behind a full area the model is slower than the drive is (docs/design/models.md, N7).",
];
