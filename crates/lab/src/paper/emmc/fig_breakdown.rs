//! Fig 12: one persistence path in its parts, baseline and both mechanisms, over the baseline's whole.

use super::job::{Job, Outcomes, run_of};
use super::measure::{mean, parts_us, ratio};
use super::plan::{Pace, Plan};
use super::published;
use crate::RunError;
use crate::paper::{Row, Section};
use crate::report::plot;
use crate::results::Run;

const FIGURE: &str = "Fig 12";
const SCHEMES: [&str; 2] = ["jbd2", "emmc"];

/// The steps of the paper, and what they are made of here.
const STEPS: [(&str, &[&str]); 4] = [
    ("data", &["data", "home"]),
    ("descriptor and metadata", &["log-start", "compose", "log"]),
    ("flush", &["flush"]),
    ("commit block", &["commit-record", "tail"]),
];
const REST: &str = "rest";

/// Each app, busy, on both.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for source in plan.sources().iter().filter(|s| s.is_generated()) {
            all.extend(SCHEMES.map(|s| plan.run(source, s, timing, Pace::BUSY)));
        }
    }
    all
}

/// The steps and the rest of a mean path, over `whole` microseconds.
fn shares(run: &Run, whole: f64) -> Vec<f64> {
    let mut all: Vec<f64> = STEPS
        .iter()
        .map(|(_, parts)| ratio(parts_us(run, parts), whole))
        .collect();
    let rest = ratio(run.latency_us.fsync.mean, whole) - all.iter().sum::<f64>();
    all.push(rest.max(0.0));
    all
}

/// Mean over the apps, step by step.
fn means(all: &[Vec<f64>]) -> Vec<f64> {
    let column = |n| {
        mean(
            &all.iter()
                .map(|shares: &Vec<f64>| shares[n])
                .collect::<Vec<_>>(),
        )
    };
    (0..=STEPS.len()).map(column).collect()
}

/// The figure.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, RunError> {
    let mut section = Section {
        title: "Fig 12: a persistence path in its parts".into(),
        words: words(),
        ..Section::default()
    };
    for timing in plan.timings {
        let (mut base, mut both) = (Vec::new(), Vec::new());
        for source in plan.sources().iter().filter(|s| s.is_generated()) {
            let run = |s| run_of(outcomes, &plan.run(source, s, timing, Pace::BUSY));
            let whole = run(SCHEMES[0])?.latency_us.fsync.mean;
            base.push(shares(run(SCHEMES[0])?, whole));
            both.push(shares(run(SCHEMES[1])?, whole));
        }
        let (base, both) = (means(&base), means(&both));
        section.rows.extend(rows(&base, &both, timing)?);
        section.plots.push(plotted(base, both, timing)?);
    }
    Ok(section)
}

fn rows(base: &[f64], both: &[f64], timing: &str) -> Result<Vec<Row>, RunError> {
    let table = published()?;
    let row = |item: &str, measured: f64| {
        Row::judged(table.get(FIGURE, item, None), measured).timed(timing)
    };
    let whole: f64 = both.iter().sum();
    Ok(vec![
        row("baseline: wait for descriptor and metadata", base[1]),
        row("baseline: flush and commit block", base[2] + base[3]),
        row(
            "optimised: wait for descriptor and metadata, over the baseline's whole",
            both[1],
        ),
        row("optimised: early flush, over the baseline's whole", both[2]),
        row(
            "optimised: flush and commit block with the early flush, over the baseline's whole",
            both[2] + both[3],
        ),
        Row::ours(
            FIGURE,
            "optimised: the whole path, over the baseline's",
            "fraction",
            whole,
        )
        .timed(timing),
    ])
}

fn plotted(base: Vec<f64>, both: Vec<f64>, timing: &str) -> Result<(String, String), RunError> {
    let mut parts: Vec<String> = STEPS.iter().map(|(step, _)| (*step).to_string()).collect();
    parts.push(REST.into());
    let bars = [("jbd2".to_string(), base), ("emmc".to_string(), both)];
    let title = format!("A persistence path, timing {timing}");
    let svg = plot::stacked_bars(&title, "over the baseline's whole", &parts, &bars)?;
    Ok(("Mean over the apps: less is better.".into(), svg))
}

fn words() -> Vec<String> {
    vec![
        "The time of a sync in the steps of the paper, mean over the apps, each app's path over its own baseline.".into(),
    ]
}
