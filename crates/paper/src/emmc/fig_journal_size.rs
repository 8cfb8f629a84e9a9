//! Fig 17: performance over the size of the journal.
//!
//! A journal costs time when it is full, as what is in it has to go home first. So a load has to
//! write more log than the journal holds, or the size shows nothing; the table says how often each
//! run went round the journal.
//!
//! "The size from which a larger one gains nothing" is the smallest measured size from which no
//! step to a larger one gains [`NOTHING`] or more for each doubling.

use super::job::{Job, Outcomes, run_of};
use super::measure::{journal_blocks, ratio};
use super::plan::{BASE, BOTH, Pace, Plan};
use super::published;
use crate::PaperError;
use crate::beside::{group, without_published};
use crate::{Experiment, Row, Section};
use report::plot;
use report::results::Run;

const FIGURE: &str = "Fig 17";
const ITEM: &str = "journal size from which a larger one gains nothing";
const SCHEMES: [&str; 2] = [BASE, BOTH];
/// A gain below this for each doubling of the journal counts as none.
pub const NOTHING: f64 = 0.01;
/// The size in MiB that others are compared with: the default in the paper.
const DEFAULT_MIB: u32 = super::plan::JOURNAL_MIB;
/// Bytes of the volume: a journal may take half of what is free on it, and the largest has 1 GiB.
const VOLUME_BYTES: u64 = 4 << 30;

/// Sizes of the journal in MiB, ascending.
fn sizes(plan: &Plan) -> &'static [u32] {
    if plan.quick {
        &[4, 256, 512, 1024]
    } else {
        &[4, 16, 64, 256, 512, 1024]
    }
}

/// The loads, as (name, workload).
fn loads(plan: &Plan) -> [(&'static str, String); 2] {
    let (transactions, seconds) = if plan.quick { (200, 20) } else { (2000, 600) };
    let longer = Plan {
        seconds,
        ..plan.clone()
    };
    [
        (
            "sqlite",
            format!("sqlite:insert={transactions},update={transactions},delete={transactions}"),
        ),
        ("facebook", longer.app_text("facebook", Pace::BUSY)),
    ]
}

/// The load of the experiment: each sync follows the creation or the growth of another file, so
/// that a round of the log has many metadata blocks and each of them few changes.
fn many_files(plan: &Plan) -> String {
    let (files, transactions) = if plan.quick { (400, 800) } else { (4000, 8000) };
    format!("files:count={files},transactions={transactions},min=1000,max=10240,sync=on")
}

/// The load of the experiment without packs: more files, so that a checkpoint has many homes.
fn more_files(plan: &Plan) -> String {
    let (files, transactions) = if plan.quick {
        (800, 400)
    } else {
        (20000, 8000)
    };
    format!("files:count={files},transactions={transactions},min=1000,max=10240,sync=on")
}

/// The lines of the figure, as (name, load, kind of operation or the whole run).
const LINES: [(&str, &str, Option<&str>); 4] = [
    ("SQLite insert", "sqlite", Some("insert")),
    ("SQLite update", "sqlite", Some("update")),
    ("SQLite delete", "sqlite", Some("delete")),
    ("facebook", "facebook", None),
];

/// The jobs: every load with every size.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for scheme in SCHEMES {
            for (_, text) in loads(plan) {
                let sizes = sizes(plan).iter();
                all.extend(sizes.map(|mib| job(plan, &text, scheme, timing, *mib)));
            }
        }
        let sizes = sizes(plan).iter();
        all.extend(sizes.map(|mib| job(plan, &many_files(plan), BOTH, timing, *mib)));
        let sizes = self::sizes(plan).iter();
        all.extend(sizes.map(|mib| unpacked(plan, timing, *mib)));
    }
    all
}

fn job(plan: &Plan, text: &str, scheme: &str, timing: &str, mib: u32) -> Job {
    let mut stack = plan.stack(scheme, timing);
    stack.bytes = VOLUME_BYTES;
    stack.journal_blocks = Some(mib << 8);
    plan.on(stack, text)
}

/// Many files on a card that takes no packs, as V.A has it: each home of a checkpoint is a
/// reliable write of its own.
fn unpacked(plan: &Plan, timing: &str, mib: u32) -> Job {
    let mut job = job(plan, &more_files(plan), BOTH, timing, mib);
    if let Job::Run(config) = &mut job {
        config.stack.device = format!("{},card.max_packed_writes=0", config.stack.device);
    }
    job
}

/// The rates of one line, by size.
struct Line<'a> {
    name: &'static str,
    runs: Vec<&'a Run>,
    rates: Vec<f64>,
}

fn lines<'a>(
    plan: &Plan,
    outcomes: &'a Outcomes,
    scheme: &str,
    timing: &str,
) -> Result<Vec<Line<'a>>, PaperError> {
    let mut all = Vec::new();
    for (name, load, kind) in LINES {
        let loads = loads(plan);
        let (_, text) = loads
            .iter()
            .find(|(l, _)| *l == load)
            .expect("listed above");
        let runs = sizes(plan).iter();
        let runs = runs.map(|mib| run_of(outcomes, &job(plan, text, scheme, timing, *mib)));
        let runs = runs.collect::<Result<Vec<_>, _>>()?;
        let rate = |run: &&Run| match kind {
            Some(kind) => run.ops_by_kind.get(kind).map_or(0.0, |k| k.ops_per_s),
            None => ratio(1.0, run.virtual_seconds),
        };
        let rates = runs.iter().map(rate).collect();
        all.push(Line { name, runs, rates });
    }
    Ok(all)
}

/// Index of the first size from which no step gains [`NOTHING`] or more for each doubling.
fn plateau(sizes: &[u32], rates: &[f64]) -> usize {
    let steps = sizes.windows(2).zip(rates.windows(2));
    let gains = steps.map(|(mib, rate)| {
        let doublings = (f64::from(mib[1]) / f64::from(mib[0])).log2();
        ratio(rate[1], rate[0]).powf(1.0 / doublings) - 1.0
    });
    let last = gains.collect::<Vec<_>>();
    let last = last.iter().rposition(|gain| *gain >= NOTHING);
    last.map_or(0, |n| n + 1)
}

/// Makes the section of this figure.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Fig 17: size of the journal".into(),
        words: words(plan),
        ..Section::default()
    };
    for timing in plan.timings {
        for scheme in SCHEMES {
            let lines = lines(plan, outcomes, scheme, timing)?;
            let many = |mib| job(plan, &many_files(plan), BOTH, timing, mib);
            let files = needed(plan, outcomes, &many)?;
            let unpacked = needed(plan, outcomes, &|mib| unpacked(plan, timing, mib))?;
            section
                .rows
                .extend(rows(plan, &lines, (scheme, timing), (files, unpacked))?);
            section.tables.push(table(plan, &lines, scheme, timing));
            section.plots.push(plotted(plan, &lines, scheme, timing)?);
        }
    }
    Ok(section)
}

/// The size from which a larger one gains nothing, MiB, for the runs of an experiment on both.
fn needed(plan: &Plan, outcomes: &Outcomes, job: &dyn Fn(u32) -> Job) -> Result<f64, PaperError> {
    let sizes = sizes(plan);
    let rate = |mib: &u32| {
        let run = run_of(outcomes, &job(*mib))?;
        Ok(ratio(1.0, run.virtual_seconds))
    };
    let rates = sizes
        .iter()
        .map(rate)
        .collect::<Result<Vec<_>, PaperError>>()?;
    Ok(f64::from(sizes[plateau(sizes, &rates)]))
}

fn rows(
    plan: &Plan,
    lines: &[Line<'_>],
    (scheme, timing): (&str, &str),
    (files, unpacked): (f64, f64),
) -> Result<Vec<Row>, PaperError> {
    let sizes = sizes(plan);
    let at = |line: &Line<'_>| f64::from(sizes[plateau(sizes, &line.rates)]);
    let largest = lines.iter().map(at).fold(0.0, f64::max);
    let mut rows = Vec::new();
    if scheme == BOTH {
        let table = published()?;
        let published = table.get(FIGURE, ITEM, None);
        let varied = Experiment::on("how many metadata blocks the load changes");
        let varied = varied.with("files made, grown and removed, each synced", files);
        let packs = Experiment::on("homes go out in packs");
        let packs = packs.with(
            "more files, each home a reliable write of its own",
            unpacked,
        );
        let row = Row::judged(published, largest).because(&cause(sizes, lines));
        rows.push(row.shown_by_all(published, [varied, packs]).timed(timing));
    } else {
        let row = Row::ours(FIGURE, ITEM, "MiB", largest).of(scheme);
        rows.push(row.timed(timing));
    }
    for line in lines {
        let name = format!("{}, {scheme}", line.name);
        rows.push(
            Row::ours(FIGURE, ITEM, "MiB", at(line))
                .of(&name)
                .timed(timing),
        );
        let gain = ratio(line.rates[line.rates.len() - 1], line.rates[0]) - 1.0;
        let item = format!(
            "performance of {} MiB over {} MiB",
            sizes[sizes.len() - 1],
            sizes[0]
        );
        rows.push(
            Row::ours(FIGURE, &item, "gain", gain)
                .of(&name)
                .timed(timing),
        );
    }
    Ok(rows)
}

/// Seconds in which any task waited for space in the log.
fn waited(run: &Run) -> f64 {
    let causes = ["log-space", "log-start", "tail"];
    let us = causes.map(|cause| run.waits_us.get(cause).copied().unwrap_or_default());
    us.iter().sum::<f64>() / 1e6
}

/// How often the log was written from its beginning to its end.
fn rounds(run: &Run, mib: u32) -> f64 {
    journal_blocks(run) as f64 / (f64::from(mib) * 256.0)
}

fn home(run: &Run) -> u64 {
    super::measure::home_blocks(run)
}

fn cause(sizes: &[u32], lines: &[Line<'_>]) -> String {
    let ends = |line: &Line<'_>| {
        let (first, last) = (line.runs[0], line.runs[line.runs.len() - 1]);
        format!(
            "{}: {} home blocks and {:.2} s of waiting for space of {:.1} s at {} MiB (log written {:.1} times), {} blocks and {:.2} s at {} MiB",
            line.name,
            home(first),
            waited(first),
            first.virtual_seconds,
            sizes[0],
            rounds(first, sizes[0]),
            home(last),
            waited(last),
            sizes[sizes.len() - 1]
        )
    };
    let seen = [&lines[0], &lines[lines.len() - 1]].map(ends);
    format!(
        "{}. A checkpoint is cheap at any size here, with few metadata blocks and with many; the paper does not say how much its runs wrote, and \
         what ages its file system is not in ours",
        seen.join("; ")
    )
}

fn table(plan: &Plan, lines: &[Line<'_>], scheme: &str, timing: &str) -> crate::Listed {
    let mut head: Vec<String> = ["journal, MiB".to_string()].to_vec();
    head.extend(lines.iter().map(|line| line.name.to_string()));
    for load in ["SQLite", "facebook"] {
        head.push(format!("{load}: log rounds"));
        head.push(format!("{load}: home blocks"));
        head.push(format!("{load}: waited for space, s"));
    }
    let sizes = sizes(plan);
    let base = sizes.iter().position(|mib| *mib == DEFAULT_MIB);
    let body = sizes.iter().enumerate().map(|(n, mib)| {
        let mut cells = vec![mib.to_string()];
        for line in lines {
            let over = ratio(line.rates[n], line.rates[base.unwrap_or_default()]);
            cells.push(format!("{:.3}", over));
        }
        for line in [&lines[0], &lines[lines.len() - 1]] {
            let run = line.runs[n];
            cells.push(format!("{:.2}", rounds(run, *mib)));
            cells.push(home(run).to_string());
            cells.push(format!("{:.2}", waited(run)));
        }
        cells
    });
    let caption = format!("{scheme}: rates over those with {DEFAULT_MIB} MiB, timing {timing}.");
    (caption, head, body.collect())
}

fn plotted(
    plan: &Plan,
    lines: &[Line<'_>],
    scheme: &str,
    timing: &str,
) -> Result<(String, plot::Plot), PaperError> {
    let sizes: Vec<String> = sizes(plan).iter().map(u32::to_string).collect();
    let base = sizes.iter().position(|mib| *mib == DEFAULT_MIB.to_string());
    let bars: Vec<(String, Vec<f64>)> = lines
        .iter()
        .map(|line| {
            let default = line.rates[base.unwrap_or_default()];
            let values = line.rates.iter().map(|rate| ratio(*rate, default));
            (line.name.to_string(), values.collect())
        })
        .collect();
    let title = format!("{scheme} over the size of the journal in MiB, timing {timing}");
    let drawn = plot::grouped_bars(&title, "over 256 MiB", &sizes, &bars);
    let caption = "Rates over those with 256 MiB: more is better.";
    if scheme != BOTH {
        let why = "it names a size for both mechanisms, and none for the baseline";
        return Ok((without_published(caption, why), drawn));
    }
    let table = published()?;
    let from = table.get(FIGURE, ITEM, None);
    let size = from.value.unwrap_or_default().to_string();
    let mark = from.mark(None, group(&size)).map(|mark| plot::Mark {
        says: plot::Says::Here,
        ..mark
    });
    let marks: Vec<_> = mark.into_iter().collect();
    let caption = format!(
        "{caption} From the size that is marked on, a larger one gains nothing in the paper."
    );
    Ok((caption, drawn.beside(&marks)))
}

fn words(plan: &Plan) -> Vec<String> {
    let [(_, sqlite), (_, app)] = loads(plan);
    vec![format!(
        "Performance over the size of the journal, on a volume of 4 GiB. The loads are `{sqlite}` and `{app}`; tables say how often each went round its log. \
         The row is the largest over SQLite and Facebook of the smallest size from which no larger one gains {:.0} % or more for each doubling.",
        NOTHING * 100.0
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plateau_is_where_no_later_doubling_gains_a_percent() {
        let mib = [4, 8, 16, 32];
        assert_eq!(plateau(&mib, &[1.0, 1.0, 1.0, 1.0]), 0);
        assert_eq!(plateau(&mib, &[1.0, 1.02, 1.021, 1.022]), 1);
        assert_eq!(plateau(&mib, &[1.0, 1.005, 1.02, 1.021]), 2);
        assert_eq!(plateau(&mib, &[1.0, 1.1, 1.2, 1.3]), 3);
        assert_eq!(plateau(&mib, &[1.0, 0.9, 0.8, 0.7]), 0);
        // 1.9 % in two doublings are less than a percent each.
        assert_eq!(plateau(&[4, 16], &[1.0, 1.019]), 0);
        assert_eq!(plateau(&[4, 8], &[1.0, 1.019]), 1);
    }

    #[test]
    fn the_sizes_rise_and_are_possible() {
        for quick in [false, true] {
            let plan = Plan::new(quick, 1, None);
            assert!(sizes(&plan).is_sorted());
            assert!(sizes(&plan).contains(&DEFAULT_MIB));
            for job in jobs(&plan) {
                let Job::Run(config) = job else {
                    panic!("plain runs only")
                };
                config.stack.check().unwrap();
            }
        }
    }
}
