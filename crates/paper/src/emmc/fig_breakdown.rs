//! Fig 12: one persistence path in its parts, on the baseline and with both mechanisms, as shares
//! of the baseline's whole path.

use super::job::{Job, Outcomes, run_of};
use super::measure::{mean, parts_us, ratio};
use super::plan::{FIG8, Pace, Plan};
use super::published;
use crate::PaperError;
use crate::{Row, Section};
use report::plot;
use report::results::Run;

const FIGURE: &str = "Fig 12";
const SCHEMES: [&str; 2] = ["jbd2", "emmc"];

/// The steps of a path in the paper.
const STEPS: [&str; 5] = [
    "data",
    "descriptor and metadata",
    "flush",
    "commit block",
    "rest",
];

/// The parts of an fsync that make up the steps, on the baseline and on `emmc`. A record of `emmc`
/// holds the metadata and is the commit record at the same time; it counts as commit block, because
/// its write is the one after which the transaction is durable.
const PARTS: [[&[&str]; 4]; 2] = [
    [
        &["data", "home"],
        &["log-start", "compose", "log"],
        &["flush"],
        &["commit-record", "tail"],
    ],
    [
        &["data", "home"],
        &["log-start", "compose"],
        &["flush"],
        &["log", "commit-record", "tail"],
    ],
];

/// The jobs: each app, busy, on both schemes.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for source in plan.sources().iter().filter(|s| s.is_generated()) {
            all.extend(SCHEMES.map(|s| plan.run(source, s, timing, Pace::BUSY)));
        }
    }
    all
}

/// The mean path of a run, in its steps.
#[derive(Clone, Default)]
struct Path {
    /// Microseconds of each step.
    us: [f64; STEPS.len()],
    /// Each step as a share of the baseline's whole path.
    share: [f64; STEPS.len()],
}

impl Path {
    fn of(run: &Run, parts: &[&[&str]; 4], whole: f64) -> Path {
        let mut us = [0.0; STEPS.len()];
        for (step, parts) in us.iter_mut().zip(parts) {
            *step = parts_us(run, parts);
        }
        let known: f64 = us.iter().sum();
        us[4] = (run.latency_us.fsync.mean - known).max(0.0);
        let share = us.map(|us| ratio(us, whole));
        Path { us, share }
    }

    /// Mean over the apps, for each step.
    fn mean(all: &[Path]) -> Path {
        let mut path = Path::default();
        for n in 0..STEPS.len() {
            path.us[n] = mean(&all.iter().map(|p| p.us[n]).collect::<Vec<_>>());
            path.share[n] = mean(&all.iter().map(|p| p.share[n]).collect::<Vec<_>>());
        }
        path
    }

    fn whole_us(&self) -> f64 {
        self.us.iter().sum()
    }
}

/// Makes the section of this figure.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Fig 12: a persistence path in its parts".into(),
        words: words(),
        ..Section::default()
    };
    for timing in plan.timings {
        let mut paths = [Vec::new(), Vec::new()];
        for source in plan.sources().iter().filter(|s| s.is_generated()) {
            let run = |s| run_of(outcomes, &plan.run(source, s, timing, Pace::BUSY));
            let whole = run(SCHEMES[0])?.latency_us.fsync.mean;
            for (n, scheme) in SCHEMES.iter().enumerate() {
                paths[n].push(Path::of(run(scheme)?, &PARTS[n], whole));
            }
        }
        let [base, both] = [&paths[0], &paths[1]].map(|all| Path::mean(all));
        section.rows.extend(rows(&base, &both, timing)?);
        section.plots.push(plotted(&base, &both, timing)?);
        section.tables.push(listed(&base, &both, timing));
    }
    Ok(section)
}

fn rows(base: &Path, both: &Path, timing: &str) -> Result<Vec<Row>, PaperError> {
    let table = published()?;
    let row = |item: &str, measured: f64, why: &str| {
        let row = Row::judged(table.get(FIGURE, item, None), measured);
        row.timed(timing).because(why)
    };
    let parts = format!(
        "of {:.0} us data takes {:.0}, the log {:.0}, the flush {:.0}, the commit block {:.0}",
        base.whole_us(),
        base.us[0],
        base.us[1],
        base.us[2],
        base.us[3]
    );
    let cheap = match timing {
        FIG8 => format!(
            "{parts}: on this timing set a cached write costs little and a flush much (F1 and F3 of docs/design/models.md)"
        ),
        _ => parts,
    };
    let one = format!(
        "the record that holds the metadata is the commit record: there is no wait for metadata before it, and its {:.0} us stand in the \
         row of the commit block; flush, metadata and commit together are {:.2} (published: 0.12 + 0.37)",
        both.us[3],
        both.share[1] + both.share[2] + both.share[3]
    );
    let early = format!(
        "a flush of the data alone takes {:.0} us, one of data and log {:.0}",
        both.us[2], base.us[2]
    );
    let whole = both.share.iter().sum();
    Ok(vec![
        row(
            "baseline: wait for descriptor and metadata",
            base.share[1],
            &cheap,
        ),
        row(
            "baseline: flush and commit block",
            base.share[2] + base.share[3],
            &cheap,
        ),
        row(
            "optimised: wait for descriptor and metadata, over the baseline's whole",
            both.share[1],
            &one,
        ),
        row(
            "optimised: early flush, over the baseline's whole",
            both.share[2],
            &early,
        ),
        row(
            "optimised: flush and commit block with the early flush, over the baseline's whole",
            both.share[2] + both.share[3],
            &format!("{one}; {early}"),
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

fn plotted(base: &Path, both: &Path, timing: &str) -> Result<(String, String), PaperError> {
    let steps: Vec<String> = STEPS.map(String::from).to_vec();
    let bars = [("jbd2", base), ("emmc", both)];
    let bars = bars.map(|(name, path)| (name.to_string(), path.share.to_vec()));
    let title = format!("A persistence path, timing {timing}");
    let svg = plot::stacked_bars(&title, "over the baseline's whole", &steps, &bars)?;
    Ok(("Mean over the apps: less is better.".into(), svg))
}

fn listed(base: &Path, both: &Path, timing: &str) -> crate::Listed {
    let head = ["scheme"].into_iter().chain(STEPS).chain(["whole"]);
    let line = |name: &str, path: &Path| {
        let mut cells = vec![name.to_string()];
        cells.extend(path.us.iter().map(|us| format!("{us:.0}")));
        cells.push(format!("{:.0}", path.whole_us()));
        cells
    };
    let caption = format!("Microseconds of each step, mean over the apps, timing {timing}.");
    let lines = vec![line("jbd2", base), line("emmc", both)];
    (caption, head.map(String::from).collect(), lines)
}

fn words() -> Vec<String> {
    vec![
        "The time of a sync in the steps of the paper, mean over the apps, each app's path over its own baseline. The paper's optimised path has \
         a wait for metadata and one for the commit block. Here one record is both, as its Table 4 requires, and is written in one command: its time \
         counts as commit block."
            .into(),
    ]
}
