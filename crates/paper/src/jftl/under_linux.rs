//! An unmodified Linux on a device that remaps by itself, beside our own ext4 on the same device.
//!
//! What Linux did was measured by `cargo xtask crosscheck uml-jftl`, which needs a kernel in a
//! guest, and is committed (`under_linux.toml`). The same command says whether it is still so.

use super::job::{Job, Outcomes, run_of};
use super::measure::ratio;
use super::plan::{DEVICE, Plan};
use crate::{Class, Kind, PaperError, Published, Row, Section, number};
use report::results::Run;
use rig::{Config, Fs};
use serde::Deserialize;

/// The name of its rows' figure.
const FIGURE: &str = "Under Linux";
const BYTES: u64 = 512 << 20;
const JOURNAL_MIB: u32 = 32;
/// The modes of which the ratio is told.
const MODES: [&str; 2] = ["journal", "ordered"];
/// Pages of the device in a block.
const PAGES: f64 = 8.0;

/// The loads: name in the table, what it is, and the workload that is the same here.
const LOADS: [(&str, &str, Option<&str>); 8] = [
    (
        "sequential",
        "64 MiB sequential, 1 fsync",
        Some("bonnie:phase=block,mib=64"),
    ),
    (
        "records-4k",
        "4 MiB, 4 KiB records, fsync each, write and rewrite",
        Some("iozone:op=both,file=4m,record=4k"),
    ),
    (
        "records-1m",
        "4 MiB, 1 MiB records, fsync each, write and rewrite",
        Some("iozone:op=both,file=4m,record=1m"),
    ),
    (
        "overwrites",
        "32 MiB file, 4000 random 4 KiB overwrites, fsync every 8",
        Some("jobs:file=32m,count=4000,every=8"),
    ),
    (
        "small-files",
        "3000 small files, sync every 50, 1000 unlinks",
        Some("small:count=3000,every=50,unlink=1000"),
    ),
    (
        "churn",
        "mkdir and rmtree churn",
        Some("churn:rounds=13,dirs=8,files=26,size=12k"),
    ),
    (
        "processes",
        "4 processes, random 4 KiB writes, fsync every 4",
        Some("jobs:procs=4,file=16m,every=4,order=shuffled,fill=fallocate"),
    ),
    (
        "mapped",
        "8 MiB mmap, 2 writing processes, fsync every 50 ms",
        None,
    ),
];

/// How a device compares a write with what it holds: name in the table, words, and its option.
const DEVICES: [(&str, &str, &str); 2] = [
    ("reads", "compared with the chips", ""),
    (
        "copies",
        "compared with copies in memory",
        ",transparent_copies_mib=64",
    ),
];

/// The committed table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    date: String,
    kernel: String,
    row: Vec<LinuxRun>,
}

/// What the device did under Linux, in blocks of 4 KiB.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinuxRun {
    load: String,
    device: String,
    mode: String,
    remapped: u64,
    missed: u64,
    escaped: u64,
    unlogged: u64,
    programmed: u64,
    seconds: f64,
}

fn measured() -> Measured {
    toml::from_str(include_str!("under_linux.toml")).expect("the committed table is valid")
}

impl Measured {
    fn of(&self, load: &str, device: &str, mode: &str) -> Option<&LinuxRun> {
        let is = |row: &&LinuxRun| row.load == load && row.device == device && row.mode == mode;
        self.row.iter().find(is)
    }
}

/// The loads of a report: all, or in a quick one two that are short.
fn chosen(
    plan: &Plan,
) -> impl Iterator<Item = &'static (&'static str, &'static str, Option<&'static str>)> {
    let quick = plan.quick;
    LOADS
        .iter()
        .filter(move |(name, ..)| !quick || ["records-1m", "mapped"].contains(name))
}

fn job(plan: &Plan, device: &str, mode: &str, workload: &str) -> Job {
    let device = format!("{DEVICE},transparent=true{device}");
    let mut stack: Config = plan.stack_of(&format!("jbd2+data={mode}"), &device, BYTES);
    stack.fs = Fs::Ext4;
    stack.timers = false;
    stack.journal_blocks = Some(JOURNAL_MIB << 8);
    Job::Whole(plan.config(stack, workload))
}

/// The jobs: each load in both modes on both devices.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for workload in chosen(plan).filter_map(|(_, _, workload)| *workload) {
        for (_, _, device) in DEVICES {
            all.extend(MODES.map(|mode| job(plan, device, mode, workload)));
        }
    }
    all
}

/// Makes the section.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let measured = measured();
    let mut section = Section {
        title: "Under an unmodified Linux".into(),
        words: words(&measured),
        ..Section::default()
    };
    let mut lines = Vec::new();
    for &(name, title, workload) in chosen(plan) {
        for (device, compared, option) in DEVICES {
            let linux = MODES.map(|mode| measured.of(name, device, mode));
            let [Some(journal), Some(ordered)] = linux else {
                continue;
            };
            let of = format!("{title}, {compared}");
            lines.extend(table_lines(&measured, name, device, title));
            let Some(workload) = workload else {
                let why = "needs mmap: Varve's files are read and written by calls only";
                let value = ordered.seconds / journal.seconds;
                let published = published(THROUGHPUT, &of, value);
                section.rows.push(Row::unmeasured(&published, Some(why)));
                continue;
            };
            let runs = MODES.map(|mode| run_of(outcomes, &job(plan, option, mode, workload)));
            let [ours_journal, ours_ordered] = runs;
            let ours = (ours_journal?, ours_ordered?);
            section.rows.extend(rows(&of, (journal, ordered), ours));
        }
    }
    section.tables.push(table(lines));
    Ok(section)
}

const THROUGHPUT: &str = "throughput in the device's time, data=journal over ordered";
const PROGRAMS: &str = "blocks programmed, data=journal over ordered";

fn published(item: &str, of: &str, value: f64) -> Published {
    Published {
        of: Some(of.into()),
        kind: Some(Kind::Linux),
        ..Published::new(FIGURE, item, "ratio", Class::None, Some(value))
    }
}

/// The ratios under Linux beside ours.
fn rows(of: &str, linux: (&LinuxRun, &LinuxRun), ours: (&Run, &Run)) -> [Row; 2] {
    let busy = |run: &Run| run.device.commands.busy_us as f64;
    let programs = |run: &Run| run.flash.as_ref().map_or(0, |f| f.programs) as f64 / PAGES;
    let throughput = published(THROUGHPUT, of, linux.1.seconds / linux.0.seconds);
    let programmed = published(
        PROGRAMS,
        of,
        ratio(linux.0.programmed as f64, linux.1.programmed as f64),
    );
    [
        Row::judged(&throughput, ratio(busy(ours.1), busy(ours.0))),
        Row::judged(&programmed, ratio(programs(ours.0), programs(ours.1))),
    ]
}

fn words(measured: &Measured) -> Vec<String> {
    let Measured { date, kernel, .. } = measured;
    vec![
        format!(
            "The ext4 of Linux {kernel} in a guest on nandsim-2007 with transparent = true, 512 MiB behind vhost-user, blocks of 4 KiB, a journal of 32 MiB, no timers; \
             from mount to unmount. Measured on {date} by `cargo xtask crosscheck uml-jftl`, which fails where it is no longer so. In each run what was read behind \
             another mount was what the guest had written, and e2fsck -fn found nothing."
        ),
        "The device compares a write with the copy that it found, 8 pages of 25 us and their transfer. With copies of the last 64 MiB in its memory that takes no \
         read. Our ext4 (jbd2) runs the same kinds of load on the same device; its time is that in which a command was under way. \
         The two are shown beside each other and not judged: the loads are the same in kind, not byte for byte, and Linux sends a file's pages home in each fsync of \
         data=journal, ours at a checkpoint."
            .into(),
    ]
}

fn table_lines(measured: &Measured, load: &str, device: &str, title: &str) -> Vec<Vec<String>> {
    let of_load = |row: &&LinuxRun| row.load == load && row.device == device;
    let line = |row: &LinuxRun| {
        let homes = row.remapped + row.missed;
        let share = ratio(row.remapped as f64, homes as f64);
        let mut line = vec![title.to_string(), row.mode.clone(), row.device.clone()];
        let counts = [
            homes,
            row.remapped,
            row.missed,
            row.escaped,
            row.unlogged,
            row.programmed,
        ];
        line.extend(counts.map(|n| n.to_string()));
        line.extend([number(share), number(row.seconds)]);
        line
    };
    measured.row.iter().filter(of_load).map(line).collect()
}

fn table(lines: Vec<Vec<String>>) -> crate::Listed {
    let head = [
        "load",
        "data",
        "comparison",
        "home writes of logged blocks",
        "remapped",
        "missed",
        "escaped",
        "home writes of others",
        "blocks programmed",
        "share remapped",
        "s",
    ];
    ("Linux".into(), head.map(String::from).into(), lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_table_has_each_load_in_each_mode() {
        let measured = measured();
        assert!(!measured.date.is_empty() && measured.kernel.starts_with("6."));
        for (load, ..) in LOADS {
            for (device, ..) in DEVICES {
                for mode in ["journal", "ordered", "writeback"] {
                    let row = measured.of(load, device, mode);
                    assert!(
                        row.is_some_and(|row| row.seconds > 0.0),
                        "{load} {device} {mode}"
                    );
                }
            }
        }
    }

    #[test]
    fn without_a_mapping_the_home_writes_of_journaled_data_are_remaps() {
        let rows = measured()
            .row
            .into_iter()
            .filter(|row| row.mode == "journal");
        for row in rows.filter(|row| row.load != "mapped") {
            let homes = (row.remapped + row.missed) as f64;
            assert!(
                row.missed <= 8 || row.remapped as f64 >= 0.99 * homes,
                "{}",
                row.load
            );
        }
    }

    #[test]
    fn large_transactions_cost_no_more_than_ordered_ones_with_copies_in_memory() {
        let measured = measured();
        let time = |mode| measured.of("sequential", "copies", mode).unwrap().seconds;
        assert!(time("ordered") / time("journal") >= 0.95);
    }
}
