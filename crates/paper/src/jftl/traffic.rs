//! The workloads of Linux's table on our ext4, compared with what Linux wrote.

use super::job::{Job, Outcomes, run_of};
use super::linux::{self, LinuxRow, REMAPPED, TOTAL};
use super::measure::{all_blocks, blocks, home_blocks, ratio};
use super::plan::Plan;
use crate::PaperError;
use crate::{Class, Experiment, Kind, NOT_EXPLAINED, Published, Row, Section};
use report::results::Run;
use rig::{Config, Fs};

/// The paper's chips at the speed of a buffered file. The times of a file change with each tick of
/// 4 ms, so the number of ticks in a run decides how many commits its rewrites need. With 10 us a
/// page 1024 rewrites take as many ticks as they took under Linux.
const FAST: &str = "nandsim-2007,nand.timing.program_us=10,nand.timing.program_bus_ns_per_byte=0,nand.timing.read_us=1,nand.timing.bus_ns_per_byte=0,nand.timing.erase_us=1";
/// Bytes of the volume, on which all workloads fit and nothing is short of space.
const BYTES: u64 = 512 << 20;
/// Size of the journal, MiB.
const JOURNAL_MIB: u32 = 32;
/// The same in the experiment on [`HOMES`].
const SMALL_MIB: u32 = 4;
const SMALL: &str = "a journal of 4 MiB";

/// Rows of Linux's table for which an experiment varies the cause of a difference.
const RANDOM: &str = "32 MiB file, 4000 random 4 KiB overwrites, fsync every 8";
const PROCESSES: &str = "4 processes, random 4 KiB writes, fsync every 4";
const CHURN: &str = "mkdir and rmtree churn";
/// The column that has the journal's superblock.
const SUPERBLOCKS: &str = "journal superblock and revokes";

/// Causes of differences, as experiments name them.
const HOMES: &str = "blocks wait in the log for a checkpoint";
const UNWRITTEN: &str = "writes into unwritten extents";
const RACE: &str = "the device's time of a page";
const HOST: &str = "the processor's time between commits";
const FILES: &str = "number and size of the files";
const TWICE: &str = "Linux's second commit of a sync";
const REVOKES: &str = "revoke blocks";

/// The workload that a row of Linux's table is; `None` if it cannot run here.
fn workload(row: &LinuxRow) -> Option<&'static str> {
    Some(match row.workload.as_str() {
        "64 MiB sequential, 1 fsync" => "bonnie:phase=block,mib=64",
        "4 MiB, 4 KiB records, fsync each, write and rewrite" => "iozone:op=both,file=4m,record=4k",
        "4 MiB, 1 MiB records, fsync each, write and rewrite" => "iozone:op=both,file=4m,record=1m",
        RANDOM => "jobs:file=32m,count=4000,every=8",
        "3000 small files, sync every 50, 1000 unlinks" => "small:count=3000,every=50,unlink=1000",
        CHURN => "churn:rounds=13,dirs=8,files=26,size=12k",
        PROCESSES => "jobs:procs=4,file=16m,every=4,order=shuffled,fill=fallocate",
        _ => return None,
    })
}

/// The rows that run: all, or in a quick report one of each kind.
fn chosen(plan: &Plan) -> Vec<LinuxRow> {
    const QUICK: [&str; 2] = [
        "3000 small files, sync every 50, 1000 unlinks",
        "4 MiB, 1 MiB records, fsync each, write and rewrite",
    ];
    let all = linux::rows().into_iter();
    all.filter(|row| {
        !plan.quick || workload(row).is_none() || QUICK.contains(&row.workload.as_str())
    })
    .collect()
}

fn stack(plan: &Plan, row: &LinuxRow, scheme: &str) -> Config {
    let scheme = format!("{scheme}+data={}", row.mode);
    let mut stack = plan.stack_of(&scheme, FAST, BYTES);
    stack.fs = Fs::Ext4;
    stack.timers = false;
    stack.journal_blocks = Some(JOURNAL_MIB << 8);
    stack
}

fn job(plan: &Plan, row: &LinuxRow, scheme: &str) -> Option<Job> {
    let text = workload(row)?;
    Some(Job::Whole(plan.config(stack(plan, row, scheme), text)))
}

/// A row's run with one thing changed, for an experiment.
struct Varied {
    cause: &'static str,
    with: &'static str,
    job: Job,
}

/// The runs in which the causes of a row's differences are varied.
fn varied(plan: &Plan, row: &LinuxRow) -> Vec<Varied> {
    let Some(standard) = workload(row).filter(|_| !plan.quick) else {
        return Vec::new();
    };
    let run = |cause, with, text: &str, change: &dyn Fn(&mut Config)| {
        let mut stack = stack(plan, row, "jbd2");
        change(&mut stack);
        let job = Job::Whole(plan.config(stack, text));
        Varied { cause, with, job }
    };
    let same: &dyn Fn(&mut Config) = &|_| {};
    match row.workload.as_str() {
        RANDOM => vec![run(HOMES, SMALL, standard, &|stack| {
            stack.journal_blocks = Some(SMALL_MIB << 8);
        })],
        PROCESSES => {
            let written = standard.replace("fill=fallocate", "fill=write");
            let mut all = vec![run(UNWRITTEN, "files written before", &written, same)];
            for (with, program_us) in [("half of it", "5"), ("twice of it", "20")] {
                all.push(run(RACE, with, standard, &|stack| {
                    let slower = format!("program_us={program_us}");
                    stack.device = stack.device.replace("program_us=10", &slower);
                }));
            }
            for (with, percent) in [("ten times of it", "4000"), ("25 times of it", "10000")] {
                all.push(run(HOST, with, standard, &|stack| {
                    stack.device = format!("{},host.cpu_percent={percent}", stack.device);
                }));
            }
            all
        }
        CHURN => [
            (
                "three times the files, of a block each",
                "churn:rounds=13,dirs=8,files=78,size=4k",
            ),
            (
                "one and a half times the files, of two blocks each",
                "churn:rounds=13,dirs=8,files=39,size=8k",
            ),
            (
                "a third of the files, of 9 blocks each",
                "churn:rounds=13,dirs=8,files=9,size=36k",
            ),
        ]
        .map(|(with, text)| run(FILES, with, text, same))
        .into(),
        _ => Vec::new(),
    }
}

/// The experiments that concern a column: what the runs of [`varied`] have there, and counts of
/// the row's own run that Linux counts in another way.
fn experiments(
    plan: &Plan,
    (row, item): (&LinuxRow, &str),
    plain: &Run,
    outcomes: &Outcomes,
) -> Result<Vec<Experiment>, PaperError> {
    let mut found: Vec<Experiment> = Vec::new();
    for Varied { cause, with, job } in varied(plan, row) {
        let run = run_of(outcomes, &job)?;
        let names = row.columns().map(|(item, _)| item);
        // The runs are made with copies alone, so a column with remap has none.
        let Some(at) = names.iter().position(|n| *n == item && item != REMAPPED) else {
            continue;
        };
        // Revokes and commits of a round do not depend on how its blocks are dealt to files.
        if cause == FILES && !["logged blocks", "home blocks", TOTAL].contains(&item) {
            continue;
        }
        let value = columns(run, run)[at];
        match found.iter_mut().find(|e| e.cause == cause) {
            Some(known) => *known = known.clone().with(with, value),
            None => found.push(Experiment::on(cause).with(with, value)),
        }
    }
    if row.mode == "journal" {
        let of = |class| blocks(plain, &[class]) as f64;
        let counted = match item {
            "commit blocks" => Some((TWICE, "each counted twice", 2.0 * of("journal_commit"))),
            SUPERBLOCKS => Some((REVOKES, "not counted", of("journal_superblock"))),
            _ => None,
        };
        found.extend(counted.map(|(cause, with, n)| Experiment::on(cause).computed(with, n)));
    }
    Ok(found)
}

/// A row's job with a journal of 4 MiB, for the experiment on [`HOMES`]; `None` where that is none.
fn small_journal(plan: &Plan, row: &LinuxRow, scheme: &str) -> Option<Job> {
    let text = workload(row).filter(|_| row.workload == RANDOM && !plan.quick)?;
    let mut stack = stack(plan, row, scheme);
    stack.journal_blocks = Some(SMALL_MIB << 8);
    Some(Job::Whole(plan.config(stack, text)))
}

/// The experiment on all blocks over those left with remap: both with a journal of 4 MiB.
fn ratio_with_small_journal(
    plan: &Plan,
    row: &LinuxRow,
    outcomes: &Outcomes,
) -> Result<Option<Experiment>, PaperError> {
    let jobs = ["jbd2", "jftl"].map(|scheme| small_journal(plan, row, scheme));
    let [Some(copies), Some(remaps)] = jobs else {
        return Ok(None);
    };
    let all = |job| run_of(outcomes, job).map(|run| all_blocks(run) as f64);
    let value = ratio(all(&copies)?, all(&remaps)?);
    Ok(Some(Experiment::on(HOMES).with(SMALL, value)))
}

fn copied(plan: &Plan, row: &LinuxRow) -> Option<Job> {
    job(plan, row, "jbd2")
}

fn remapped(plan: &Plan, row: &LinuxRow) -> Option<Job> {
    job(plan, row, "jftl")
}

/// The jobs: each workload with copies and with remap.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let rows = chosen(plan);
    let of = |row: &LinuxRow| [copied(plan, row), remapped(plan, row)];
    let varied = rows.iter().flat_map(|row| varied(plan, row));
    let small = rows
        .iter()
        .filter_map(|row| small_journal(plan, row, "jftl"));
    let standard = rows.iter().flat_map(of).flatten();
    standard.chain(varied.map(|v| v.job)).chain(small).collect()
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Linux: the same workloads on ext4".into(),
        words: words(),
        ..Section::default()
    };
    let mut lines = Vec::new();
    for row in chosen(plan) {
        let (Some(copied), Some(remapped)) = (copied(plan, &row), remapped(plan, &row)) else {
            let (item, value) = row.columns()[5];
            section
                .rows
                .push(Row::unmeasured(&row.published(item, value), None));
            continue;
        };
        let (plain, remap) = (run_of(outcomes, &copied)?, run_of(outcomes, &remapped)?);
        let ours = columns(plain, remap);
        section
            .rows
            .extend(rows(plan, &row, (&ours, plain), outcomes)?);
        for (whose, values) in [("Linux", row.columns().map(|(_, n)| n)), ("Varve", ours)] {
            let mut line = vec![row.workload.clone(), row.mode.clone(), whose.into()];
            line.extend(values.map(|n| n.to_string()));
            line.push(crate::number(ratio(values[5], values[6])));
            lines.push(line);
        }
    }
    let names = linux::rows()[0].columns().map(|(item, _)| item);
    let head = ["workload", "data", ""]
        .into_iter()
        .chain(names)
        .chain(["ratio"]);
    section.tables.push((
        "4 KiB blocks from mount to the final sync".into(),
        head.map(String::from).collect(),
        lines,
    ));
    Ok(section)
}

fn words() -> Vec<String> {
    vec![
        "ext4 with checksums v3, 4 KiB blocks, a journal of 32 MiB. nandsim-2007 of 512 MiB at the speed of a \
         buffered file, jbd2 and jftl. Timers off: Linux's runs took less than its timers. Linux's last column is arithmetic (all blocks less homes that were the journal's copy), \
         ours ran with remap."
            .into(),
        "The probes that made Linux's rows were not kept; where a parameter is not in the name of a workload it was deduced from a column, as linux.toml says."
            .into(),
    ]
}

/// Our counts in the order of [`LinuxRow::columns`].
fn columns(plain: &Run, remap: &Run) -> [f64; 7] {
    [
        blocks(plain, &["journal_data", "journal_metadata"]),
        blocks(plain, &["journal_descriptor"]),
        blocks(plain, &["journal_commit"]),
        blocks(plain, &["journal_superblock", "journal_revoke"]),
        home_blocks(plain),
        all_blocks(plain),
        all_blocks(remap),
    ]
    .map(|n| n as f64)
}

fn rows(
    plan: &Plan,
    row: &LinuxRow,
    (ours, plain): (&[f64; 7], &Run),
    outcomes: &Outcomes,
) -> Result<Vec<Row>, PaperError> {
    let columns = row.columns();
    let mut rows: Vec<Row> = Vec::new();
    for (&(item, value), &measured) in columns.iter().zip(ours) {
        let published = row.published(item, value);
        let why = cause(row, item, measured - value, plain);
        let judged = Row::judged(&published, measured).because(&why);
        let shown = experiments(plan, (row, item), plain, outcomes)?;
        rows.push(shown.into_iter().fold(judged, |judged, experiment| {
            judged.shown_by(&published, experiment)
        }));
    }
    let ratio_of = |values: &dyn Fn(usize) -> f64| ratio(values(5), values(6));
    let item = format!("{TOTAL} over {REMAPPED}");
    let value = Some(ratio_of(&|n| columns[n].1));
    let published = Published {
        of: Some(row.name()),
        kind: Some(Kind::Linux),
        ..Published::new(linux::FIGURE, &item, "ratio", Class::Ratio, value)
    };
    let why = cause(row, &published.item, 0.0, plain);
    let small = ratio_with_small_journal(plan, row, outcomes)?;
    let judged = Row::judged(&published, ratio_of(&|n| ours[n])).because(&why);
    rows.push(judged.shown_by_all(&published, small));
    if let Some(assumed) = &row.assumed {
        rows = rows.into_iter().map(|r| r.noted(assumed)).collect();
    }
    Ok(rows)
}

/// Explains the difference of a column by what is known of both sides.
fn cause(row: &LinuxRow, item: &str, by: f64, plain: &Run) -> String {
    let name = row.workload.as_str();
    let journal = row.mode == "journal";
    let all = item == TOTAL || item == REMAPPED;
    if name == RANDOM && journal && (item == "home blocks" || item.starts_with(TOTAL)) {
        return format!(
            "Linux 6.18 writes the pages of a file home in each fsync of data=journal: its {} homes are the {} blocks that it logged, less metadata. Ours stay \
             in the log until a checkpoint, and a place that was overwritten again goes home once: {} homes",
            row.home,
            row.journal_data,
            home_blocks(plain),
        );
    }
    if name == PROCESSES {
        if item == "commit blocks" || item == "descriptors" {
            return format!(
                "{} commits here for 4096 fsyncs, {} there. It is no race, as the device's time of a page changes nothing; the \
                 fsyncs run in two groups in lockstep, and more time of the processor between commits parts them",
                plain.commits, row.commits,
            );
        }
        return format!(
            "both zero the small rest of an unwritten extent that a write falls into (10064 homes of Linux); which rests are small depends on the order of \
             the writes, which is ours. {} metadata blocks are logged where Linux logged {}, {} blocks go home",
            blocks(plain, &["journal_metadata"]),
            row.journal_data - 16384,
            home_blocks(plain),
        );
    }
    if item == "commit blocks" && journal {
        return format!(
            "Linux commits twice in a sync of data=journal, the second time without a block: {} commits have {} descriptors; ours has {} commits",
            row.commits, row.descriptors, plain.commits,
        );
    }
    if name == CHURN && (item == "logged blocks" || all) {
        return format!(
            "number and size of the probe's files are not known, only their {} blocks",
            8100
        );
    }
    if item == SUPERBLOCKS {
        return format!(
            "{} superblocks and {} revoke blocks, of which Linux writes none in data=journal: there what uses a block again is logged as well; the difference is {} blocks of {}",
            blocks(plain, &["journal_superblock"]),
            blocks(plain, &["journal_revoke"]),
            by,
            all_blocks(plain),
        );
    }
    NOT_EXPLAINED.into()
}
