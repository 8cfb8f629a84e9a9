//! Counts of what each mode writes, by class, and two identities that hold exactly where the
//! transactions of two modes are the same.
//!
//! - A: pages programmed for the host in the plain mode, less those in the mode with JFTL, are
//!   those of the home writes that remap satisfied, and of the writes of the journal's superblock
//!   by which the two differ.
//! - B: what a transaction writes into the log is not changed by remap.

use super::job::{Job, Outcomes, run_of};
use super::measure::{all_blocks, blocks, home_blocks, host_programs, identity, log_blocks, ratio};
use super::plan::{Mode, Plan};
use super::published;
use crate::PaperError;
use crate::beside::{percent, without_published};
use crate::{Row, Section, number};
use report::plot;
use report::results::Run;

const FIGURE: &str = "Counts";
const TOS: &str = "TOS 2009";
/// The modes with JFTL over those without, and the published greatest gain of each.
const GREATEST: [(&str, &str); 2] = [
    (
        "ordered with JFTL over ordered",
        "ordered with JFTL over ordered, greatest gain",
    ),
    (
        "journaled with JFTL over journaled",
        "journaled with JFTL over journaled, greatest gain",
    ),
];
const OURS: &str = "the counts are ours; the gains that it publishes are drawn last";
/// Pages of a 4 KiB block.
const PAGES: u64 = 8;
/// Size of the journal, MiB: no run here is short of log space, so syncs alone make the
/// transactions.
const JOURNAL_MIB: u32 = 40;

/// The loads, as (name, workload).
fn loads(plan: &Plan) -> Vec<(&'static str, String)> {
    let (mib, count, files) = plan.pick((8, 1000, 1000), (2, 200, 200));
    vec![
        ("Bonnie block", format!("bonnie:phase=block,mib={mib}")),
        (
            "IOzone write, 4 KiB",
            "iozone:op=write,file=4m,record=4k".into(),
        ),
        (
            "IOzone rewrite, 4 KiB",
            "iozone:op=rewrite,file=4m,record=4k".into(),
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
        ("trees", "churn:rounds=4,dirs=4,files=20,size=4k".into()),
    ]
}

fn job(plan: &Plan, mode: Mode, load: &str) -> Job {
    // All modes have the same transactions only if no time in an inode depends on how fast a mode
    // is, as whole seconds do.
    let mut stack = super::recovery::untimed(plan.stack(mode), JOURNAL_MIB);
    stack.inode_bytes = None;
    Job::Run(plan.config(stack, load))
}

/// The jobs: every load in every mode.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let loads = loads(plan).into_iter();
    let of = |(_, load): (&str, String)| Mode::ALL.map(|mode| job(plan, mode, &load));
    loads.flat_map(of).collect()
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Counts: what each mode writes".into(),
        words: words(),
        ..Section::default()
    };
    let mut lines = Vec::new();
    let (mut ordered, mut journaled) = ((0.0, ""), (0.0, ""));
    let mut gains = GREATEST.map(|(name, _)| (name.to_string(), Vec::new()));
    for (name, load) in loads(plan) {
        let run = |mode| run_of(outcomes, &job(plan, mode, &load));
        let mut bars = Vec::new();
        for mode in Mode::ALL {
            let run = run(mode)?;
            lines.push(line(name, mode, run));
            bars.push((mode.word().to_string(), parts(run)));
        }
        let title = format!("{name}: 4 KiB blocks written");
        let drawn = plot::stacked_bars(&title, "blocks", &PARTS.map(String::from), &bars);
        section.plots.push((without_published(&title, OURS), drawn));
        for (plain, remap) in [
            (Mode::Ordered, Mode::OrderedJftl),
            (Mode::Journaled, Mode::JournaledJftl),
            (Mode::Journaled, Mode::JournaledPaper),
        ] {
            let (plain, remapped) = (run(plain)?, run(remap)?);
            section
                .rows
                .extend(identities(name, remap, plain, remapped));
            let gain = ratio(plain.virtual_seconds, remapped.virtual_seconds) - 1.0;
            let best = match remap {
                Mode::OrderedJftl => &mut ordered,
                Mode::JournaledJftl => &mut journaled,
                _ => continue,
            };
            if gain > best.0 {
                *best = (gain, name);
            }
            let shown = usize::from(remap == Mode::JournaledJftl);
            gains[shown].1.push(percent(gain));
        }
    }
    section.rows.extend(tos(ordered, journaled));
    section.plots.push(greatest(plan, &gains));
    let head = ["load", "mode"].into_iter().chain(PARTS).chain([
        "all",
        "commits",
        "programs for the host",
        "map pages",
        "s",
    ]);
    section.tables.push((
        "4 KiB blocks by class".into(),
        head.map(String::from).collect(),
        lines,
    ));
    Ok(section)
}

fn words() -> Vec<String> {
    vec![
        "Timers off and a journal that is never full: the same syncs make the same transactions in each mode. The superblock of the journal stands by \
         itself, as its writes depend on when the tail moves."
            .into(),
    ]
}

const PARTS: [&str; 5] = [
    "data in the log",
    "metadata in the log",
    "descriptors, revokes, commits",
    "journal superblock",
    "home",
];

fn parts(run: &Run) -> Vec<f64> {
    [
        blocks(run, &["journal_data"]),
        blocks(run, &["journal_metadata"]),
        blocks(
            run,
            &["journal_descriptor", "journal_revoke", "journal_commit"],
        ),
        blocks(run, &["journal_superblock"]),
        home_blocks(run),
    ]
    .map(|n| n as f64)
    .into()
}

fn line(name: &str, mode: Mode, run: &Run) -> Vec<String> {
    let mut line = vec![name.to_string(), mode.word().to_string()];
    line.extend(parts(run).into_iter().map(number));
    let map = run.flash.as_ref().map_or(0, |f| f.map_programs);
    let more = [all_blocks(run), run.commits, host_programs(run), map];
    line.extend(more.map(|n| n.to_string()));
    line.push(number(run.virtual_seconds));
    line
}

/// The rows of the identities A and B for one load.
fn identities(load: &str, mode: Mode, plain: &Run, remap: &Run) -> Vec<Row> {
    let of = format!("{load}, {}", mode.word());
    let superblocks = |run| blocks(run, &["journal_superblock"]);
    // Remap has satisfied the homes that the plain mode wrote and this one did not.
    let satisfied = home_blocks(plain) as f64 - home_blocks(remap) as f64;
    let tails = superblocks(plain) as f64 - superblocks(remap) as f64;
    let programs = host_programs(plain) as f64 - host_programs(remap) as f64;
    vec![
        identity(
            FIGURE,
            "A: programs saved, in blocks, against home writes saved and journal superblocks",
            "blocks",
            satisfied + tails,
            programs / PAGES as f64,
        )
        .of(&of),
        identity(
            FIGURE,
            "B: blocks in the log, against the plain mode's",
            "blocks",
            log_blocks(plain) as f64,
            log_blocks(remap) as f64,
        )
        .of(&of)
        .because(&format!(
            "{} commits against {} of the plain mode",
            remap.commits, plain.commits
        )),
    ]
}

/// What remapping gains in time on each load, beside the greatest gains that are published.
fn greatest(plan: &Plan, gains: &[(String, Vec<f64>)]) -> (String, plot::Plot) {
    let groups: Vec<String> = loads(plan)
        .into_iter()
        .map(|(name, _)| name.into())
        .collect();
    let drawn = plot::grouped_bars("What remapping gains, by load", "gain, %", &groups, gains);
    let table = published();
    let marks = GREATEST.iter().filter_map(|(name, item)| {
        let mark = table.get(TOS, item, None).mark(Some(name), plot::At::All)?;
        Some(mark.map(percent))
    });
    let marks: Vec<_> = marks.collect();
    let caption = "The published gains are the greatest of the paper's loads.";
    (caption.into(), drawn.beside(&marks))
}

fn tos(ordered: (f64, &str), journaled: (f64, &str)) -> Vec<Row> {
    let table = published();
    let row = |item: &str, (gain, load): (f64, &str)| {
        Row::judged(table.get(TOS, item, None), gain).noted(&format!("with {load}"))
    };
    vec![row(GREATEST[0].1, ordered), row(GREATEST[1].1, journaled)]
}
