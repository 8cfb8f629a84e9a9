//! Figs. 8a and 8b: IOzone's write and rewrite of 4,096 KiB, over the size of a record.

use super::job::{Job, Outcomes, run_of};
use super::measure::{all_blocks, rate, ratio};
use super::plan::over_name;
use super::plan::{Mode, Plan};
use super::{LOST, published};
use crate::PaperError;
use crate::beside::{group, without_published};
use crate::{Experiment, Row, Section, number};
use report::plot;
use report::results::Run;

/// Sizes of a record in KiB, ascending.
fn records(plan: &Plan) -> &'static [u32] {
    plan.pick(
        &[4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096],
        &[4, 64, 4096],
    )
}

fn job(plan: &Plan, op: &str, kib: u32, mode: Mode) -> Job {
    plan.run(mode, &format!("iozone:op={op},file=4m,record={kib}k"))
}

fn jobs(plan: &Plan, op: &str) -> Vec<Job> {
    let of = |kib: &u32| Mode::ALL.map(|mode| job(plan, op, *kib, mode));
    records(plan).iter().flat_map(of).collect()
}

/// The jobs of Fig. 8a.
pub fn jobs_of_write(plan: &Plan) -> Vec<Job> {
    jobs(plan, "write")
}

/// What differs where each call takes a hundredth of the processor's time.
const FAST_HOST: &str = "host.cpu_percent=4";
/// What differs where the device makes no checkpoint of its map while the figure runs.
const NO_CHECKPOINT: &str = "ftl.checkpoint_blocks=100000";

/// The jobs of Fig. 8b, and those of its experiments.
pub fn jobs_of_rewrite(plan: &Plan) -> Vec<Job> {
    let mut all = jobs(plan, "rewrite");
    for changes in [FAST_HOST, NO_CHECKPOINT] {
        let rewrite = |kib: &u32| rewrite_on(plan, *kib, changes);
        all.extend(records(plan).iter().map(rewrite));
    }
    all
}

/// A rewrite in ordered mode on the device with these fields changed.
fn rewrite_on(plan: &Plan, kib: u32, changes: &str) -> Job {
    let mut stack = plan.stack(Mode::Ordered);
    stack.device = format!("{},{changes}", stack.device);
    let text = format!("iozone:op=rewrite,file=4m,record={kib}k");
    Job::Run(plan.config(stack, &text))
}

/// The runs of each record size, in the order of [`Mode::ALL`].
type Lines<'a> = Vec<(u32, Vec<&'a Run>)>;

fn lines<'a>(plan: &Plan, outcomes: &'a Outcomes, op: &str) -> Result<Lines<'a>, PaperError> {
    let mut lines = Vec::new();
    for kib in records(plan) {
        let runs = Mode::ALL.map(|mode| run_of(outcomes, &job(plan, op, *kib, mode)));
        lines.push((*kib, runs.into_iter().collect::<Result<_, _>>()?));
    }
    Ok(lines)
}

/// Makes the section of Fig. 8a.
///
/// # Errors
/// A run is missing.
pub fn write(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let lines = lines(plan, outcomes, "write")?;
    let mut section = drawn("Fig 8a", "write", &lines)?;
    section.rows = vec![
        judged(
            "Fig 8a",
            "ordered, largest record over smallest",
            growth(&lines, Mode::Ordered),
        ),
        judged(
            "Fig 8a",
            "journaled, largest record over smallest",
            growth(&lines, Mode::Journaled),
        ),
        gains("Fig 8a", &lines, Mode::OrderedJftl),
        gains("Fig 8a", &lines, Mode::JournaledJftl),
    ];
    section.rows.extend(ours("Fig 8a", &lines));
    Ok(section)
}

/// Makes the section of Fig. 8b.
///
/// # Errors
/// A run is missing.
pub fn rewrite(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let lines = lines(plan, outcomes, "rewrite")?;
    let mut section = drawn("Fig 8b", "rewrite", &lines)?;
    let commits = |at: usize| lines[at].1[Mode::Ordered as usize].commits;
    let all = records(plan);
    let flat = |changes: &str| -> Result<f64, PaperError> {
        let of = |kib: Option<&u32>| {
            let kib = kib.expect("a figure has records");
            run_of(outcomes, &rewrite_on(plan, *kib, changes)).map(rate)
        };
        Ok(ratio(of(all.last())?, of(all.first())?))
    };
    let item = "ordered, largest record over smallest";
    let why = format!(
        "a rewrite allocates nothing, and times have whole seconds: {} commits with the smallest record, {} with the largest. The smallest record's run has \
         {} pages of the map, the largest's {}: a checkpoint of the device's map, with the erases for it, falls into the one and not into the other",
        commits(0),
        commits(lines.len() - 1),
        map_pages(lines[0].1[Mode::Ordered as usize]),
        map_pages(lines[lines.len() - 1].1[Mode::Ordered as usize]),
    );
    let varied = [
        Experiment::on("the processor's time").with("a hundredth of it", flat(FAST_HOST)?),
        Experiment::on("a checkpoint of the device's map")
            .with("none while the figure runs", flat(NO_CHECKPOINT)?),
    ];
    section.rows = vec![
        judged("Fig 8b", item, growth(&lines, Mode::Ordered))
            .because(&why)
            .shown_by_all(published().get("Fig 8b", item, None), varied),
        gains("Fig 8b", &lines, Mode::OrderedJftl),
        gains("Fig 8b", &lines, Mode::JournaledJftl),
    ];
    section.rows.extend(ours("Fig 8b", &lines));
    Ok(section)
}

fn judged(figure: &str, item: &str, measured: f64) -> Row {
    Row::judged(published().get(figure, item, None), measured)
}

/// Rate with the largest record as a multiple of that with the smallest.
fn growth(lines: &Lines<'_>, mode: Mode) -> f64 {
    let of = |at: usize| rate(lines[at].1[mode as usize]);
    ratio(of(lines.len() - 1), of(0))
}

fn over(runs: &[&Run], a: Mode, b: Mode) -> f64 {
    ratio(rate(runs[a as usize]), rate(runs[b as usize]))
}

/// Pages of the map that a run programmed.
fn map_pages(run: &Run) -> u64 {
    run.flash.as_ref().map_or(0, |flash| flash.map_programs)
}

fn least_item(mode: Mode) -> String {
    format!("{}, least of all records", over_name(mode, mode.copied()))
}

/// The row of the least gain of JFTL over its plain version.
fn gains(figure: &str, lines: &Lines<'_>, mode: Mode) -> Row {
    let plain = mode.copied();
    let item = least_item(mode);
    let (kib, runs) = lines
        .iter()
        .min_by(|a, b| over(&a.1, mode, plain).total_cmp(&over(&b.1, mode, plain)))
        .expect("a figure has records");
    let map = |mode: Mode| map_pages(runs[mode as usize]);
    let saved = all_blocks(runs[plain as usize]).saturating_sub(all_blocks(runs[mode as usize]));
    let why = format!(
        "with records of {kib} KiB JFTL saves {saved} blocks (8 programs each) and programs {} pages of its map where the plain device programs {}",
        map(mode),
        map(plain),
    );
    // One die, and nothing beside it: without a page of the map a run is shorter by its program.
    let bare = |mode: Mode| {
        let run = runs[mode as usize];
        let pages = map(mode) as f64 * super::model::PROGRAM_S;
        ratio(rate(run) * run.virtual_seconds, run.virtual_seconds - pages)
    };
    let volatile =
        Experiment::on("the map is written to the chips, where the paper says nothing of it")
            .computed(
                "without the time of its pages",
                ratio(bare(mode), bare(plain)),
            );
    let table = published();
    let published = table.get(figure, &item, None);
    Row::judged(published, over(runs, mode, plain))
        .because(&why)
        .shown_by(published, volatile)
}

fn ours(figure: &str, lines: &Lines<'_>) -> Vec<Row> {
    let row = |at: usize, item: &str, a: Mode, b: Mode| {
        let (kib, runs) = &lines[at];
        let measured = over(runs, a, b);
        Row::ours(figure, item, "fraction", measured).of(&format!("{kib} KiB"))
    };
    let mut rows = Vec::new();
    for at in [0, lines.len() - 1] {
        rows.extend([
            row(at, "journaled over ordered", Mode::Journaled, Mode::Ordered),
            row(
                at,
                "ordered with JFTL over ordered",
                Mode::OrderedJftl,
                Mode::Ordered,
            ),
            row(
                at,
                "journaled with JFTL over journaled",
                Mode::JournaledJftl,
                Mode::Journaled,
            ),
            row(
                at,
                "journaled with JFTL over ordered",
                Mode::JournaledJftl,
                Mode::Ordered,
            ),
        ]);
    }
    rows
}

/// What the text says of the figure: modes over one another, and over their smallest record.
fn compared(figure: &str, groups: &[String], lines: &Lines<'_>) -> (String, plot::Plot) {
    let remapped = [Mode::OrderedJftl, Mode::JournaledJftl];
    let mut series = Vec::new();
    let mut marks = Vec::new();
    let table = published();
    // A figure has no value of some of them.
    let of = |item: &str| {
        let mut all = table.all().iter();
        all.find(|p| p.figure == figure && p.item == item)
    };
    for mode in remapped {
        let name = over_name(mode, mode.copied());
        let values = lines
            .iter()
            .map(|(_, runs)| over(runs, mode, mode.copied()));
        series.push((name.clone(), values.collect()));
        let said = of(&least_item(mode));
        let at = groups.iter().map(|name| group(name));
        marks.extend(at.filter_map(|at| said?.mark(Some(&name), at)));
    }
    for mode in [Mode::Ordered, Mode::Journaled] {
        let name = format!("{} over its smallest record", mode.word());
        let rates: Vec<f64> = lines
            .iter()
            .map(|(_, runs)| rate(runs[mode as usize]))
            .collect();
        let values = rates.iter().map(|of| ratio(*of, rates[0]));
        series.push((name.clone(), values.collect::<Vec<f64>>()));
        let said = of(&format!("{}, largest record over smallest", mode.word()));
        let at = groups.last().map(|name| group(name));
        marks.extend(at.and_then(|at| said?.mark(Some(&name), at)));
    }
    let title = format!("{figure}: modes over one another, over the size of a record (KiB)");
    let drawn = plot::grouped_bars(&title, "times", groups, &series);
    (
        "What the text says of the figure.".into(),
        drawn.beside(&marks),
    )
}

fn drawn(figure: &str, op: &str, lines: &Lines<'_>) -> Result<Section, PaperError> {
    let head: Vec<String> = ["record (KiB)"]
        .into_iter()
        .chain(Mode::ALL.map(Mode::word))
        .map(String::from)
        .collect();
    let of = |what: fn(&Run) -> f64| -> Vec<Vec<String>> {
        let line = |(kib, runs): &(u32, Vec<&Run>)| {
            let values = runs.iter().map(|run| number(what(run)));
            [kib.to_string()].into_iter().chain(values).collect()
        };
        lines.iter().map(line).collect()
    };
    let tables = vec![
        (format!("{figure}: MB/s"), head.clone(), of(rate)),
        (
            "Blocks written, 4 KiB".into(),
            head.clone(),
            of(|run| all_blocks(run) as f64),
        ),
        ("Commits".into(), head, of(|run| run.commits as f64)),
    ];
    let groups: Vec<String> = lines.iter().map(|(kib, _)| kib.to_string()).collect();
    let series: Vec<(String, Vec<f64>)> = Mode::ALL
        .iter()
        .map(|mode| {
            let values = lines.iter().map(|(_, runs)| rate(runs[*mode as usize]));
            (mode.word().to_string(), values.collect())
        })
        .collect();
    let title = format!("{figure}: IOzone, {op} of 4 MiB, over the size of a record (KiB)");
    let drawn = plot::grouped_bars(&title, "MB/s", &groups, &series);
    Ok(Section {
        title: format!("{figure}: IOzone, {op}"),
        words: vec![
            "A file of 4,096 KiB, record by record, each with fsync; everything is home when the clock stops. A fresh device; of a rewrite the first \
             writing is not measured."
                .into(),
        ],
        tables,
        plots: vec![
            (without_published(&title, LOST), drawn),
            compared(figure, &groups, lines),
        ],
        ..Section::default()
    })
}
