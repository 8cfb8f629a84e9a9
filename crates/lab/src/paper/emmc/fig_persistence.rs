//! Fig 14: how much shorter the mean persistence path is with flush-ahead commit alone.

use super::job::{Job, Outcomes, run_of};
use super::measure::{decrease, mean};
use super::plan::{Pace, Plan, Source};
use super::published;
use crate::RunError;
use crate::paper::{Row, Section};
use crate::report::plot;

const FIGURE: &str = "Fig 14";
const BASE: &str = "jbd2";
const SCHEMES: [(&str, &str); 4] = [
    ("flush-ahead", "flush-ahead commit"),
    ("coalition", "journal coalition"),
    ("emmc", "both"),
    ("adaptive", "the adaptive order"),
];

/// Each app, busy.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for source in plan.sources() {
            let schemes = [BASE].into_iter().chain(SCHEMES.map(|(s, _)| s));
            all.extend(schemes.map(|s| plan.run(&source, s, timing, Pace::BUSY)));
        }
    }
    all
}

/// The figure.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, RunError> {
    let mut section = Section {
        title: "Fig 14: data persistence time".into(),
        words: vec![
            "The mean time of a sync, whatever it covers; the app is busy as for Fig 13. The paper shows flush-ahead commit alone.".into(),
        ],
        ..Section::default()
    };
    for timing in plan.timings {
        let sources = plan.sources();
        let mut shown: Vec<(String, Vec<f64>)> = Vec::new();
        for (scheme, words) in SCHEMES {
            let mut decreases = Vec::new();
            for source in &sources {
                let mean_us = |s| -> Result<f64, RunError> {
                    let job = plan.run(source, s, timing, Pace::BUSY);
                    Ok(run_of(outcomes, &job)?.latency_us.fsync.mean)
                };
                decreases.push(decrease(mean_us(BASE)?, mean_us(scheme)?));
            }
            section
                .rows
                .extend(rows(&sources, (scheme, words), &decreases, timing)?);
            shown.push((scheme.into(), decreases.iter().map(|d| 1.0 - d).collect()));
        }
        let names: Vec<String> = sources.iter().map(Source::name).collect();
        let title = format!("Mean time of a sync over the baseline's, timing {timing}");
        let svg = plot::grouped_bars(&title, "fraction", &names, &shown)?;
        section.plots.push(("Less is better.".into(), svg));
    }
    Ok(section)
}

fn rows(
    sources: &[Source],
    (scheme, words): (&str, &str),
    decreases: &[f64],
    timing: &str,
) -> Result<Vec<Row>, RunError> {
    let table = published()?;
    let item = format!("decrease of the data persistence time by {words}");
    let mut rows: Vec<Row> = Vec::new();
    for (source, decrease) in sources.iter().zip(decreases) {
        let row = match scheme {
            "flush-ahead" => source.row(table.get(FIGURE, &item, Some(source.app)), *decrease),
            _ => source.ours(FIGURE, &item, "fraction", *decrease),
        };
        rows.push(row.timed(timing));
    }
    let generated = sources
        .iter()
        .zip(decreases)
        .filter(|(s, _)| s.is_generated());
    let all: Vec<f64> = generated.map(|(_, d)| *d).collect();
    let item = format!("{item}, mean over the apps");
    rows.push(Row::ours(FIGURE, &item, "fraction", mean(&all)).timed(timing));
    Ok(rows)
}
