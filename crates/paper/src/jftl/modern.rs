//! The paper's question today: ext4 with checksums v3 on TLC flash with pages of 16 KiB.

use super::job::{Job, Outcomes, run_of};
use super::measure::{all_blocks, rate, ratio};
use super::plan::{Mode, Plan};
use crate::PaperError;
use crate::{Row, Section, number};
use report::results::Run;
use rig::Fs;

const TLC: &str = "raw-tlc";
const TLC_BYTES: u64 = 256 << 20;

/// The loads, as (name, workload).
pub(super) fn loads(plan: &Plan) -> Vec<(&'static str, String)> {
    let (mib, count, files) = plan.pick((64, 2000, 2000), (8, 200, 200));
    vec![
        ("Bonnie block", format!("bonnie:phase=block,mib={mib}")),
        (
            "IOzone write, 4 KiB",
            "iozone:op=write,file=1m,record=4k".into(),
        ),
        (
            "IOzone write, 1 MiB",
            "iozone:op=write,file=4m,record=1m".into(),
        ),
        (
            "random overwrites, fsync every 8",
            format!("jobs:file=8m,count={count},every=8"),
        ),
        (
            "small files, sync every 50",
            format!("small:count={files},every=50,unlink={}", files / 3),
        ),
    ]
}

fn on_tlc(plan: &Plan, load: &str, mode: Mode) -> Job {
    let mut stack = plan.stack_of(mode.scheme(), TLC, TLC_BYTES);
    stack.fs = Fs::Ext4;
    Job::Run(plan.config(stack, load))
}

/// The jobs: every load in the four modes of the paper.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let all = loads(plan).into_iter();
    all.flat_map(|(_, load)| Mode::PAPER.map(|mode| on_tlc(plan, &load, mode)))
        .collect()
}

/// Makes the section of ext4 on TLC.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Modern: ext4 on TLC with pages of 16 KiB".into(),
        words: vec![
            "Profile raw-tlc (8 dies, a write buffer, 16 KiB pages), ext4 with checksums v3 (253 tags a descriptor), the journal that mke2fs chooses, \
             timers as in Linux. Several dies work at once, so time is not the sum of the programs here."
                .into(),
        ],
        ..Section::default()
    };
    let mut lines = Vec::new();
    for (name, load) in loads(plan) {
        let runs = Mode::PAPER.map(|mode| run_of(outcomes, &on_tlc(plan, &load, mode)));
        let runs = runs.into_iter().collect::<Result<Vec<&Run>, _>>()?;
        for (mode, run) in Mode::PAPER.iter().zip(&runs) {
            lines.push(line(name, mode.word(), run));
        }
        section
            .rows
            .extend(gains("Modern", name, [runs[0], runs[1], runs[2], runs[3]]));
    }
    section.tables.push(table(lines));
    Ok(section)
}

fn gains(
    figure: &str,
    load: &str,
    [ordered, ordered_jftl, journaled, journaled_jftl]: [&Run; 4],
) -> Vec<Row> {
    let time = |run: &Run| run.virtual_seconds;
    let row = |item: &str, a: &Run, b: &Run| {
        Row::ours(figure, item, "fraction", ratio(time(b), time(a))).of(load)
    };
    vec![
        row("ordered with JFTL over ordered", ordered_jftl, ordered),
        row("journaled over ordered", journaled, ordered),
        row(
            "journaled with JFTL over journaled",
            journaled_jftl,
            journaled,
        ),
        row("journaled with JFTL over ordered", journaled_jftl, ordered),
    ]
}

pub(super) fn line(load: &str, mode: &str, run: &Run) -> Vec<String> {
    let flash = run.flash.clone().unwrap_or_default();
    let mut line = vec![load.to_string(), mode.to_string()];
    line.extend([number(rate(run)), number(run.ops_per_s)]);
    line.extend(
        [
            all_blocks(run),
            flash.programs,
            flash.map_programs,
            flash.gc_copies,
            flash.erases,
        ]
        .map(|n| n.to_string()),
    );
    line.push(number(run.virtual_seconds));
    line
}

pub(super) fn table(lines: Vec<Vec<String>>) -> crate::Listed {
    let head = [
        "load",
        "mode",
        "MB/s",
        "operations/s",
        "blocks",
        "pages programmed",
        "map pages",
        "units copied",
        "erases",
        "s",
    ];
    ("Runs".into(), head.map(String::from).into(), lines)
}
