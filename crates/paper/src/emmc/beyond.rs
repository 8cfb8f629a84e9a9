//! Beyond the paper: what data that is sent past the cache gains over both of the paper's
//! mechanisms, and how far ahead a file system without journal still is.

use super::job::{Job, Outcomes, run_of};
use super::measure::{gain, mean, ratio};
use super::plan::{DEVICE, Pace, Plan};
use super::sens_device::source;
use crate::PaperError;
use crate::beside::without_published;
use crate::{Row, Section};
use report::plot;
use report::results::Run;
use work::recording::apps::APPS;

const FIGURE: &str = "Beyond";
/// Our aim: a file system without journal is at most this far ahead of `adaptive`, in the mean.
const AIM: f64 = 0.04;
/// The schemes that run. `adaptive` is `emmc` with the order chosen per commit, which includes
/// direct data (`emmc+order=adaptive`).
const SCHEMES: [&str; 3] = ["emmc", "adaptive", "none"];

/// What a cut leaves of a packed command, as (name, device).
const PACKS: [(&str, &str); 2] = [
    ("packs keep a prefix", ""),
    ("packs keep any subset", ",card.pack_order=any-subset"),
];

fn job(plan: &Plan, app: &str, scheme: &str, packs: &str, timing: &str) -> Job {
    let mut stack = plan.stack(scheme, timing);
    stack.device = format!("{DEVICE}{packs}");
    plan.on(stack, &plan.app_text(app, Pace::BUSY))
}

/// The jobs: the apps on both kinds of packs, under both timing sets.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for (_, packs) in PACKS {
            for app in APPS {
                all.extend(SCHEMES.map(|s| job(plan, app, s, packs, timing)));
            }
        }
    }
    all
}

/// The runs of one app.
struct Runs<'o> {
    app: &'static str,
    emmc: &'o Run,
    adaptive: &'o Run,
    none: &'o Run,
}

impl Runs<'_> {
    /// What `adaptive` gains over `emmc`.
    fn gained(&self) -> f64 {
        gain(self.adaptive, self.emmc)
    }

    /// How far a file system without journal is ahead of `adaptive`.
    fn behind(&self) -> f64 {
        gain(self.none, self.adaptive)
    }
}

fn taken<'o>(
    plan: &Plan,
    outcomes: &'o Outcomes,
    packs: &str,
    timing: &str,
) -> Result<Vec<Runs<'o>>, PaperError> {
    let of = |app: &'static str| -> Result<Runs<'o>, PaperError> {
        let run = |scheme| run_of(outcomes, &job(plan, app, scheme, packs, timing));
        Ok(Runs {
            app,
            emmc: run("emmc")?,
            adaptive: run("adaptive")?,
            none: run("none")?,
        })
    };
    APPS.into_iter().map(of).collect()
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing, or a plot cannot be drawn.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Beyond the paper".into(),
        words: words(),
        ..Section::default()
    };
    for timing in plan.timings {
        let mut series = Vec::new();
        for (name, packs) in PACKS {
            let runs = taken(plan, outcomes, packs, timing)?;
            section.rows.extend(rows(plan, &runs, name, timing));
            section.tables.push(commands(&runs, name, timing));
            let per_cent =
                |of: fn(&Runs<'_>) -> f64| runs.iter().map(|r| of(r) * 100.0).collect::<Vec<_>>();
            series.push((
                format!("adaptive over emmc, {name}"),
                per_cent(|r| r.gained()),
            ));
            series.push((
                format!("no journal over adaptive, {name}"),
                per_cent(|r| r.behind()),
            ));
        }
        let title = format!("Adaptive between both mechanisms and no journal, timing {timing}");
        let groups: Vec<String> = APPS.map(String::from).to_vec();
        let drawn = plot::grouped_bars(&title, "gain, %", &groups, &series);
        section.plots.push((
            without_published(
                "What adaptive gains over emmc: more is better. How far no journal is ahead of it: below zero it is behind.",
                "adaptive is not the paper's",
            ),
            drawn,
        ));
    }
    Ok(section)
}

fn rows(plan: &Plan, runs: &[Runs<'_>], packs: &str, timing: &str) -> Vec<Row> {
    let gained = format!("performance of adaptive over emmc, {packs}");
    let behind = format!("performance of no journal over adaptive, {packs}");
    let mut rows = Vec::new();
    for run in runs {
        let mut row = |item: &str, value| {
            let mut row = Row::ours(FIGURE, item, "gain", value);
            row = row.of(run.app).timed(timing);
            if let Some(note) = source(plan, run.app).and_then(|s| s.note) {
                row = row.noted(note);
            }
            rows.push(row);
        };
        row(&gained, run.gained());
        row(&behind, run.behind());
    }
    let of_all = |of: fn(&Runs<'_>) -> f64| mean(&runs.iter().map(of).collect::<Vec<_>>());
    let over_apps = |item: &str, value| {
        Row::ours(
            FIGURE,
            &format!("{item}, mean over the apps"),
            "gain",
            value,
        )
        .timed(timing)
    };
    rows.push(over_apps(&gained, of_all(|r| r.gained())));
    let ahead = of_all(|r| r.behind());
    let verdict = match ahead <= AIM {
        true => "aim: at most 0.04; met",
        false => "aim: at most 0.04; missed",
    };
    rows.push(over_apps(&behind, ahead).noted(verdict));
    rows
}

/// What an fsync costs in commands and time, `adaptive` beside no journal.
fn commands(runs: &[Runs<'_>], packs: &str, timing: &str) -> crate::Listed {
    let head = [
        "app",
        "scheme",
        "writes / fsync",
        "flushes / fsync",
        "blocks / fsync",
        "mean fsync, us",
        "its parts, us",
    ];
    let mut lines = Vec::new();
    for run in runs {
        for (scheme, run_of) in [
            ("emmc", run.emmc),
            ("adaptive", run.adaptive),
            ("none", run.none),
        ] {
            let syncs = run_of.ops_by_kind.get("fsync").map_or(0, |kind| kind.ops) as f64;
            let per = |n: u64| format!("{:.2}", ratio(n as f64, syncs));
            let commands = &run_of.device.commands;
            let mut parts: Vec<(&String, &f64)> = run_of.fsync_us.iter().collect();
            parts.sort_by(|a, b| b.1.total_cmp(a.1));
            let parts = parts.into_iter().filter(|(_, us)| **us >= 1.0);
            let parts: Vec<String> = parts.map(|(part, us)| format!("{part} {us:.0}")).collect();
            lines.push(vec![
                run.app.to_string(),
                scheme.into(),
                per(commands.writes),
                per(commands.flushes),
                per(run_of.blocks.values().sum()),
                format!("{:.0}", run_of.latency_us.fsync.mean),
                parts.join(", "),
            ]);
        }
    }
    (
        format!("What an fsync costs, {packs}, timing {timing}."),
        head.map(String::from).to_vec(),
        lines,
    )
}

fn words() -> Vec<String> {
    vec![
        "emmc flushes the cache for the data of each fsync. adaptive (emmc+order=adaptive) sends the few blocks of an fsync with the \
         reliable-write bit instead, where that has been cheaper so far, and then needs no flush: direct data. Where a cut keeps a prefix of a packed \
         command the data goes ahead of the record in the same command; where it keeps any subset, in one of its own, and there adaptive is direct \
         data alone."
            .into(),
        "No journal keeps none of the promises: it writes the blocks of the inode and, for a new file, of its directories home and flushes. It is \
         ahead where that is fewer blocks or commands than data and record."
            .into(),
    ]
}
