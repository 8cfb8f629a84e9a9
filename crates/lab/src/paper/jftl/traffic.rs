//! The same workloads on our ext4, against what Linux wrote.

use super::job::{Job, Outcomes, run_of};
use super::linux::{self, LinuxRow, REMAPPED, TOTAL};
use super::measure::{all_blocks, blocks, home_blocks, ratio};
use super::plan::{DEVICE, Plan};
use crate::RunError;
use crate::paper::{Class, Published, Row, Section};
use crate::results::Run;
use rig::Fs;

/// Bytes of the volume: all workloads fit, and nothing is short of space.
const BYTES: u64 = 512 << 20;
/// Journal, MiB.
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

/// What runs in a quick report: one of each kind.
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

fn job(plan: &Plan, row: &LinuxRow, scheme: &str, device: &str) -> Option<Job> {
    let scheme = format!("{scheme}+data={}", row.mode);
    let mut stack = plan.stack_of(&scheme, device, BYTES);
    stack.fs = Fs::Ext4;
    stack.timers = false;
    stack.journal_blocks = Some(JOURNAL_MIB << 8);
    Some(Job::Whole(plan.config(stack, workload(row)?)))
}

/// What Linux saw: a loop device.
fn copied(plan: &Plan, row: &LinuxRow) -> Option<Job> {
    job(plan, row, "jbd2", "loop-like")
}

fn remapped(plan: &Plan, row: &LinuxRow) -> Option<Job> {
    job(plan, row, "jftl", DEVICE)
}

/// Each workload with copies and with remap.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let rows = chosen(plan);
    let of = |row: &LinuxRow| [copied(plan, row), remapped(plan, row)];
    rows.iter().flat_map(of).flatten().collect()
}

/// The section.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, RunError> {
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
            line.push(crate::paper::number(ratio(values[5], values[6])));
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
        "ext4 with checksums v3, 4 KiB blocks, a journal of 32 MiB. Copies: profile loop-like, jbd2; remap: nandsim-2007 of the same size, jftl. Timers \
         off: Linux's runs took less than its timers. Linux's last column is arithmetic (all blocks less homes that were the journal's copy), \
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
    let published = Published {
        figure: linux::FIGURE.into(),
        item: format!("{TOTAL} over {REMAPPED}"),
        of: Some(row.name()),
        unit: "ratio".into(),
        class: Class::Ratio,
        value: Some(ratio_of(&|n| columns[n].1)),
        range: None,
        why: None,
    };
    rows.push(Row::judged(&published, ratio_of(&|n| ours[n])));
    if let Some(assumed) = &row.assumed {
        rows = rows.into_iter().map(|r| r.noted(assumed)).collect();
    }
    rows
}

/// Where a column differs, from what is known of both sides.
fn cause(_row: &LinuxRow, _item: &str, _by: f64, _plain: &Run) -> String {
    crate::paper::NOT_EXPLAINED.into()
}
