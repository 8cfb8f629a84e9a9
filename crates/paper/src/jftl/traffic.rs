//! The workloads of Linux's table on our ext4, compared with what Linux wrote.

use super::job::{Job, Outcomes, run_of};
use super::linux::{self, LinuxRow, REMAPPED, TOTAL};
use super::measure::{all_blocks, blocks, home_blocks, ratio};
use super::plan::Plan;
use crate::PaperError;
use crate::{Class, Kind, NOT_EXPLAINED, Published, Row, Section};
use report::results::Run;
use rig::Fs;

/// The paper's chips at the speed of a buffered file. The times of a file change with each tick of
/// 4 ms, so the number of ticks in a run decides how many commits its rewrites need. With 10 us a
/// page 1024 rewrites take as many ticks as they took under Linux.
const FAST: &str = "nandsim-2007,nand.timing.program_us=10,nand.timing.program_bus_ns_per_byte=0,nand.timing.read_us=1,nand.timing.bus_ns_per_byte=0,nand.timing.erase_us=1";
/// Bytes of the volume, on which all workloads fit and nothing is short of space.
const BYTES: u64 = 512 << 20;
/// Size of the journal, MiB.
const JOURNAL_MIB: u32 = 32;

/// The workload that a row of Linux's table is; `None` if it cannot run here.
fn workload(row: &LinuxRow) -> Option<&'static str> {
    Some(match row.workload.as_str() {
        "64 MiB sequential, 1 fsync" => "bonnie:phase=block,mib=64",
        "4 MiB, 4 KiB records, fsync each, write and rewrite" => "iozone:op=both,file=4m,record=4k",
        "4 MiB, 1 MiB records, fsync each, write and rewrite" => "iozone:op=both,file=4m,record=1m",
        "32 MiB file, 4000 random 4 KiB overwrites, fsync every 8" => {
            "jobs:file=32m,count=4000,every=8"
        }
        "3000 small files, sync every 50, 1000 unlinks" => "small:count=3000,every=50,unlink=1000",
        "mkdir and rmtree churn" => "churn:rounds=13,dirs=8,files=26,size=12k",
        "4 processes, random 4 KiB writes, fsync every 4" => {
            "jobs:procs=4,file=16m,every=4,order=shuffled,fill=fallocate"
        }
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

fn job(plan: &Plan, row: &LinuxRow, scheme: &str) -> Option<Job> {
    let scheme = format!("{scheme}+data={}", row.mode);
    let mut stack = plan.stack_of(&scheme, FAST, BYTES);
    stack.fs = Fs::Ext4;
    stack.timers = false;
    stack.journal_blocks = Some(JOURNAL_MIB << 8);
    Some(Job::Whole(plan.config(stack, workload(row)?)))
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
    rows.iter().flat_map(of).flatten().collect()
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
        section.rows.extend(rows(&row, &ours, plain));
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

fn rows(row: &LinuxRow, ours: &[f64; 7], plain: &Run) -> Vec<Row> {
    let columns = row.columns();
    let mut rows: Vec<Row> = columns
        .iter()
        .zip(ours)
        .map(|(&(item, value), &measured)| {
            Row::judged(&row.published(item, value), measured).because(&cause(
                row,
                item,
                measured - value,
                plain,
            ))
        })
        .collect();
    let ratio_of = |values: &dyn Fn(usize) -> f64| ratio(values(5), values(6));
    let item = format!("{TOTAL} over {REMAPPED}");
    let value = Some(ratio_of(&|n| columns[n].1));
    let published = Published {
        of: Some(row.name()),
        kind: Some(Kind::Linux),
        ..Published::new(linux::FIGURE, &item, "ratio", Class::Ratio, value)
    };
    let why = cause(row, &published.item, 0.0, plain);
    rows.push(Row::judged(&published, ratio_of(&|n| ours[n])).because(&why));
    if let Some(assumed) = &row.assumed {
        rows = rows.into_iter().map(|r| r.noted(assumed)).collect();
    }
    rows
}

/// Explains the difference of a column by what is known of both sides.
fn cause(row: &LinuxRow, item: &str, by: f64, plain: &Run) -> String {
    let name = row.workload.as_str();
    let journal = row.mode == "journal";
    let all = item == TOTAL || item == REMAPPED;
    if name.starts_with("32 MiB file")
        && journal
        && (item == "home blocks" || item.starts_with(TOTAL))
    {
        return format!(
            "Linux 6.18 writes the pages of a file home in each fsync of data=journal: its {} homes are the {} blocks that it logged, less metadata. Ours stay \
             in the log until a checkpoint, and a place that was overwritten again goes home once: {} homes",
            row.home,
            row.journal_data,
            home_blocks(plain),
        );
    }
    if name.starts_with("4 processes") {
        if item == "commit blocks" || item == "descriptors" {
            return format!(
                "how many of the 4096 fsyncs find their blocks committed by another's depends on how the processes race: {} commits here, {} there",
                plain.commits, row.commits,
            );
        }
        return format!(
            "Linux zeroes extents of up to 32 KiB when a write falls into an unwritten one (10064 homes), which keeps the extent tree small; ours splits \
             the extent, logs {} metadata blocks where Linux logged {}, and zeroes nothing",
            blocks(plain, &["journal_metadata"]),
            row.journal_data - 16384,
        );
    }
    if item == "commit blocks" && journal {
        return format!(
            "Linux commits twice in a sync of data=journal, the second time without a block: {} commits have {} descriptors; ours has {} commits",
            row.commits, row.descriptors, plain.commits,
        );
    }
    if name.starts_with("mkdir") && (item == "logged blocks" || all) {
        return format!(
            "{NOT_EXPLAINED}: number and size of the probe's files are not known, only their {} blocks",
            8100
        );
    }
    if item.starts_with("journal superblock") {
        return format!(
            "{} superblocks and {} revoke blocks; the difference is {} blocks of {}",
            blocks(plain, &["journal_superblock"]),
            blocks(plain, &["journal_revoke"]),
            by,
            all_blocks(plain),
        );
    }
    NOT_EXPLAINED.into()
}
