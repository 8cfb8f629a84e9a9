//! Figs. 7a and 7b: Bonnie's character and block phase over the size of the file. Everything is
//! home when the clock stops.

use super::job::{Job, Outcomes, run_of};
use super::measure::{all_blocks, log_blocks, rate, ratio};
use super::plan::over_name;
use super::plan::{Mode, Plan};
use super::{LOST, published};
use crate::PaperError;
use crate::beside::{group, times, without_published};
use crate::{Experiment, Row, Section, number};
use report::plot;
use report::results::Run;

const JOURNALED: &str = "journaled over ordered, largest file";
const LEAST: &str = "ordered with JFTL over ordered, least of all sizes";
const GROWTH: &str = "journaled, largest file over smallest";
const GAIN: &str = "journaled with JFTL over journaled, gain at the largest file";

/// Sizes of the file in MiB, ascending.
fn sizes(plan: &Plan) -> &'static [u32] {
    plan.pick(&[2, 4, 8, 16, 32, 64], &[2, 8])
}

fn job(plan: &Plan, phase: &str, mib: u32, mode: Mode) -> Job {
    plan.run(mode, &format!("bonnie:phase={phase},mib={mib}"))
}

fn jobs(plan: &Plan, phase: &str) -> Vec<Job> {
    let of = |mib: &u32| Mode::ALL.map(|mode| job(plan, phase, *mib, mode));
    sizes(plan).iter().flat_map(of).collect()
}

/// The jobs of Fig. 7a, and those without `putc`.
pub fn jobs_of_char(plan: &Plan) -> Vec<Job> {
    ["char", "block"].map(|phase| jobs(plan, phase)).concat()
}

/// The jobs of Fig. 7b.
pub fn jobs_of_block(plan: &Plan) -> Vec<Job> {
    jobs(plan, "block")
}

/// Makes the section of Fig. 7a.
///
/// # Errors
/// A run is missing.
pub fn char(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = section(plan, outcomes, "Fig 7a", "char")?;
    section.words.push(
        "putc goes through a buffer of 4 KiB, so the file system sees what it sees in Fig 7b. The two figures differ by the processor's time for putc."
            .into(),
    );
    Ok(section)
}

/// Makes the section of Fig. 7b.
///
/// # Errors
/// A run is missing.
pub fn block(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    section(plan, outcomes, "Fig 7b", "block")
}

/// The runs of one size, in the order of [`Mode::ALL`].
type Runs<'a> = [&'a Run; Mode::ALL.len()];

fn runs<'a>(
    plan: &Plan,
    outcomes: &'a Outcomes,
    phase: &str,
    mib: u32,
) -> Result<Runs<'a>, PaperError> {
    let [a, b, c, d, e] = Mode::ALL.map(|mode| run_of(outcomes, &job(plan, phase, mib, mode)));
    Ok([a?, b?, c?, d?, e?])
}

fn lines<'a>(
    plan: &Plan,
    outcomes: &'a Outcomes,
    phase: &str,
) -> Result<Vec<(u32, Runs<'a>)>, PaperError> {
    let of = |mib: &u32| Ok((*mib, runs(plan, outcomes, phase, *mib)?));
    sizes(plan).iter().map(of).collect()
}

fn section(
    plan: &Plan,
    outcomes: &Outcomes,
    figure: &str,
    phase: &str,
) -> Result<Section, PaperError> {
    let lines = lines(plan, outcomes, phase)?;
    let without_putc = match phase {
        "char" => Some(self::lines(plan, outcomes, "block")?),
        _ => None,
    };
    let head: Vec<String> = ["file (MiB)"]
        .into_iter()
        .chain(Mode::ALL.map(Mode::word))
        .map(String::from)
        .collect();
    let of = |what: fn(&Run) -> f64| -> Vec<Vec<String>> {
        let line = |(mib, runs): &(u32, Runs<'_>)| {
            let values = runs.iter().map(|run| number(what(run)));
            [mib.to_string()].into_iter().chain(values).collect()
        };
        lines.iter().map(line).collect()
    };
    let tables = vec![
        (format!("{figure}: MB/s"), head.clone(), of(rate)),
        (
            "Blocks written, 4 KiB".into(),
            head,
            of(|run| all_blocks(run) as f64),
        ),
    ];
    let groups: Vec<String> = lines.iter().map(|(mib, _)| mib.to_string()).collect();
    let series: Vec<(String, Vec<f64>)> = (0..Mode::ALL.len())
        .map(|m| {
            let values = lines.iter().map(|(_, runs)| rate(runs[m]));
            (Mode::ALL[m].word().to_string(), values.collect())
        })
        .collect();
    let title = format!("{figure}: Bonnie, {phase}, over the size of the file (MiB)");
    let drawn = plot::grouped_bars(&title, "MB/s", &groups, &series);
    Ok(Section {
        title: format!("{figure}: Bonnie, {phase} writes"),
        words: words(),
        rows: rows(figure, &lines, without_putc.as_deref()),
        tables,
        plots: vec![
            (without_published(&title, LOST), drawn),
            compared(figure, &groups, &lines),
        ],
    })
}

/// What the text says of the figure: modes over one another.
fn compared(figure: &str, groups: &[String], lines: &[(u32, Runs<'_>)]) -> (String, plot::Plot) {
    use Mode::{Journaled, JournaledJftl, Ordered, OrderedJftl};
    let pairs = [
        (Journaled, Ordered),
        (OrderedJftl, Ordered),
        (JournaledJftl, Journaled),
    ];
    let mut series: Vec<(String, Vec<f64>)> = pairs
        .iter()
        .map(|(a, b)| {
            let values = lines.iter().map(|(_, runs)| over(runs, *a, *b));
            (over_name(*a, *b), values.collect())
        })
        .collect();
    let journaled = lines.iter().map(|(_, runs)| rate(runs[Journaled as usize]));
    let journaled: Vec<f64> = journaled.collect();
    let over_first = journaled.iter().map(|of| ratio(*of, journaled[0]));
    let grows = "journaled over its smallest file";
    series.push((grows.into(), over_first.collect()));
    let largest = &groups[groups.len() - 1..];
    let (plain, remap) = (
        over_name(Journaled, Ordered),
        over_name(JournaledJftl, Journaled),
    );
    let said = [
        (JOURNALED, plain.as_str(), largest),
        (GROWTH, grows, largest),
        (LEAST, &over_name(OrderedJftl, Ordered), groups),
        (GAIN, &remap, largest),
    ];
    let table = published();
    let mut marks = Vec::new();
    for (item, series, groups) in said {
        let of = table.get(figure, item, None);
        let found = groups
            .iter()
            .filter_map(|name| of.mark(Some(series), group(name)));
        marks.extend(found.map(|mark| if item == GAIN { mark.map(times) } else { mark }));
    }
    let title = format!("{figure}: modes over one another, over the size of the file (MiB)");
    let drawn = plot::grouped_bars(&title, "times", groups, &series);
    (
        "What the text says of the figure.".into(),
        drawn.beside(&marks),
    )
}

fn words() -> Vec<String> {
    vec![
        "One file, written from beginning to end, then fsync, then what Linux's sync writes as well: everything is home when the clock stops, as the \
         paper says of its runs. A fresh device, timers as in Linux, the journal that mke2fs chooses for such a volume."
            .into(),
    ]
}

/// The values that the table has of a figure, in its order.
fn values(lines: &[(u32, Runs<'_>)]) -> [(&'static str, f64); 4] {
    use Mode::{Journaled, JournaledJftl, Ordered, OrderedJftl};
    let (first, last) = (&lines[0].1, &lines[lines.len() - 1].1);
    let least = |a, b| {
        let all = lines.iter().map(|(_, runs)| over(runs, a, b));
        all.fold(f64::INFINITY, f64::min)
    };
    let of = |runs: &Runs<'_>| rate(runs[Journaled as usize]);
    [
        (JOURNALED, over(last, Journaled, Ordered)),
        (LEAST, least(OrderedJftl, Ordered)),
        (GROWTH, ratio(of(last), of(first))),
        (GAIN, over(last, JournaledJftl, Journaled) - 1.0),
    ]
}

fn over(runs: &Runs<'_>, a: Mode, b: Mode) -> f64 {
    let of = |mode: Mode| rate(runs[mode as usize]);
    ratio(of(a), of(b))
}

fn rows(
    figure: &str,
    lines: &[(u32, Runs<'_>)],
    without_putc: Option<&[(u32, Runs<'_>)]>,
) -> Vec<Row> {
    use Mode::{Journaled, JournaledJftl, JournaledPaper, Ordered};
    let table = published();
    let (first, last) = (&lines[0].1, &lines[lines.len() - 1].1);
    let size = lines[lines.len() - 1].0;
    let log = |run: &Run| ratio(log_blocks(run) as f64, all_blocks(run) as f64);
    let why = format!(
        "of the blocks of journaled mode, {} were in the log with the largest file and {} with the smallest; the rest are homes",
        number(log(last[Journaled as usize])),
        number(log(first[Journaled as usize])),
    );
    let mut rows: Vec<Row> = Vec::new();
    for (at, (item, measured)) in values(lines).into_iter().enumerate() {
        let published = table.get(figure, item, None);
        let row = match item.starts_with("ordered with JFTL") {
            true => Row::judged(published, measured).because(&least_cause(lines)),
            false => Row::judged(published, measured).because(&why),
        };
        rows.push(without_putc.iter().fold(row, |row, lines| {
            let varied = Experiment::on("putc, which takes the same time in every mode");
            row.shown_by(published, varied.with("without it", values(lines)[at].1))
        }));
    }
    let ours = |item: &str, a, b| {
        Row::ours(figure, item, "fraction", over(last, a, b)).of(&format!("{size} MiB"))
    };
    rows.extend([
        ours(
            "journaled with JFTL over ordered; aim: at least 0.95",
            JournaledJftl,
            Ordered,
        ),
        ours(
            "journaled with JFTL over journaled; aim: at least 1.9",
            JournaledJftl,
            Journaled,
        ),
        ours(
            "JFTL as published over JFTL, journaled",
            JournaledPaper,
            JournaledJftl,
        ),
    ]);
    rows
}

/// Explains where ordered mode is slower with JFTL: the parts of the difference.
fn least_cause(lines: &[(u32, Runs<'_>)]) -> String {
    let ratio_of = |runs: &Runs<'_>| {
        ratio(
            rate(runs[Mode::OrderedJftl as usize]),
            rate(runs[Mode::Ordered as usize]),
        )
    };
    let worst = lines
        .iter()
        .min_by(|a, b| ratio_of(&a.1).total_cmp(&ratio_of(&b.1)));
    let Some((mib, runs)) = worst else {
        return crate::NOT_EXPLAINED.into();
    };
    let (plain, remap) = (
        runs[Mode::Ordered as usize],
        runs[Mode::OrderedJftl as usize],
    );
    let map = |run: &Run| run.flash.as_ref().map_or(0, |f| f.map_programs);
    format!(
        "at {mib} MiB JFTL saves {} home blocks (8 programs each) and programs {} pages of its map where the plain device programs {}",
        all_blocks(plain).saturating_sub(all_blocks(remap)),
        map(remap),
        map(plain),
    )
}
