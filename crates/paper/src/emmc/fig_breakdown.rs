//! Fig 12: one persistence path in its parts, on the baseline and with both mechanisms, as shares
//! of the baseline's whole path. Its experiments have a commit block behind every transaction, a
//! card on which a random write costs what it does on a Rock64, both, and cards on which a reliable
//! write costs the same whatever its size.

use super::cards::{Card, FLAT, RANDOM, STANDARD};
use super::job::{Job, Outcomes, run_of};
use super::measure::{mean, parts_us, ratio};
use super::plan::{BASE, BOTH, BOTH_ALWAYS, COALITION_ALWAYS, FIG8, Pace, Plan};
use super::published;
use crate::PaperError;
use crate::{Experiment, Row, Section};
use report::plot::{self, Bar};
use report::results::Run;

const FIGURE: &str = "Fig 12";
/// What runs: the baseline, both, the other reading of both, and that without flush-ahead, where
/// the record is written before the flush and so is waited for by itself.
const SCHEMES: [&str; 4] = [BASE, BOTH, BOTH_ALWAYS, COALITION_ALWAYS];
/// How many of them the plot has.
const PLOTTED: usize = 3;
/// The row of the wait for metadata on the optimised path, in [`ROWS`].
const METADATA: usize = 2;

/// The steps of a path in the paper.
const STEPS: [&str; 5] = [
    "data",
    "descriptor and metadata",
    "flush",
    "commit block",
    "rest",
];

/// The parts of an fsync that make up the steps, on the baseline and with both mechanisms. A
/// transaction of one block has a record that holds the metadata and is the commit record at the
/// same time; it counts as commit block, because its write is the one after which the transaction
/// is durable. So does a pack of record and commit block, which is one command.
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

/// The cards under a timing set: the standard one, and for `fig8` those of the experiments.
fn cards(timing: &str) -> &'static [Card] {
    const ALL: [Card; 5] = [STANDARD, RANDOM, FLAT[0], FLAT[1], FLAT[2]];
    if timing == FIG8 { &ALL } else { &ALL[..1] }
}

/// The mean paths on one card, in the order of [`SCHEMES`].
type Paths = [Path; SCHEMES.len()];

/// The jobs: each app, busy, on every scheme and card.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for source in plan.sources().iter().filter(|s| s.is_generated()) {
            for card in cards(timing) {
                let on = (card, timing);
                all.extend(SCHEMES.map(|s| plan.on_card(source, s, on, Pace::BUSY)));
            }
        }
    }
    all
}

/// The mean paths of all apps on a card, in the order of [`SCHEMES`].
fn paths(plan: &Plan, outcomes: &Outcomes, on: (&Card, &str)) -> Result<Paths, PaperError> {
    let mut paths = [const { Vec::new() }; SCHEMES.len()];
    for source in plan.sources().iter().filter(|s| s.is_generated()) {
        let run = |s| run_of(outcomes, &plan.on_card(source, s, on, Pace::BUSY));
        let whole = run(BASE)?.latency_us.fsync.mean;
        for (n, scheme) in SCHEMES.iter().enumerate() {
            let parts = match *scheme {
                BASE | COALITION_ALWAYS => &PARTS[0],
                _ => &PARTS[1],
            };
            paths[n].push(Path::of(run(scheme)?, parts, whole));
        }
    }
    Ok(paths.map(|all| Path::mean(&all)))
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
        let here = paths(plan, outcomes, (&STANDARD, timing))?;
        let others = cards(timing)[1..].iter();
        let others = others.map(|card| Ok((card, paths(plan, outcomes, (card, timing))?)));
        let others: Vec<OnCard> = others.collect::<Result<_, PaperError>>()?;
        section.rows.extend(rows(&here, &others, timing)?);
        section.plots.push(plotted(&here, timing)?);
        section.tables.push(listed(&here, timing));
    }
    Ok(section)
}

/// A figure of the paths of all schemes; with true, where every transaction ends with a commit
/// block.
type Value = fn(&Paths, bool) -> f64;

/// A card of the experiments, and the paths on it.
type OnCard = (&'static Card, Paths);

fn optimised(paths: &Paths, blocks: bool) -> &Path {
    &paths[1 + usize::from(blocks)]
}

/// The rows with a published value: item, and what it is of the paths.
const ROWS: [(&str, Value); 5] = [
    ("baseline: wait for descriptor and metadata", |p, _| {
        p[0].share[1]
    }),
    ("baseline: flush and commit block", |p, _| {
        p[0].share[2] + p[0].share[3]
    }),
    (
        "optimised: wait for descriptor and metadata, over the baseline's whole",
        |p, blocks| optimised(p, blocks).share[1],
    ),
    (
        "optimised: early flush, over the baseline's whole",
        |p, blocks| optimised(p, blocks).share[2],
    ),
    (
        "optimised: flush and commit block with the early flush, over the baseline's whole",
        |p, blocks| optimised(p, blocks).share[2] + optimised(p, blocks).share[3],
    ),
];

/// The experiment on the wait for metadata. With flush-ahead the record counts as commit block by
/// definition, so a commit block behind it would leave this part 0 whatever it costs.
fn written_before(here: &Paths) -> Experiment {
    let on = Experiment::on("the record goes before the flush and is waited for by itself");
    on.with(COALITION_ALWAYS, here[3].share[1])
}

/// The causes that were tried on a value.
fn experiments(here: &Paths, others: &[OnCard], value: Value) -> Vec<Experiment> {
    let block = "a commit block behind every transaction";
    let place = "the cost of a random write";
    let mut all = Vec::new();
    let blocks_matter = value(here, true) != value(here, false);
    if blocks_matter {
        all.push(Experiment::on(block).with("with it", value(here, true)));
    }
    if let Some((card, random)) = others.iter().find(|(card, _)| **card == RANDOM) {
        all.push(Experiment::on(place).with(card.name, value(random, false)));
        if blocks_matter {
            let both = Experiment::on(&format!("{block} and {place}"));
            all.push(both.with("with both", value(random, true)));
        }
    }
    let mut slope = Experiment::on("a reliable write whose cost has no slope");
    for (card, paths) in others.iter().filter(|(card, _)| FLAT.contains(card)) {
        slope = slope.with(card.name, value(paths, false));
    }
    // What changes nothing is no cause.
    if slope
        .trials
        .iter()
        .any(|t| t.measured != value(here, false))
    {
        all.push(slope);
    }
    all
}

fn rows(here: &Paths, others: &[OnCard], timing: &str) -> Result<Vec<Row>, PaperError> {
    let (table, [base, both, ..]) = (published()?, here);
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
        "the record of a transaction of one block holds the metadata and is the commit record: there is no wait for metadata before it, and \
         its {:.0} us stand in the row of the commit block; flush, metadata and commit together are {:.2} (published: 0.12 + 0.37)",
        both.us[3],
        both.share[1] + both.share[2] + both.share[3]
    );
    let early = format!(
        "a flush of the data alone takes {:.0} us, one of data and log {:.0}",
        both.us[2], base.us[2]
    );
    let all = format!("{one}; {early}");
    let whys = [&cheap, &cheap, &one, &early, &all];
    let mut rows = Vec::new();
    for (n, ((item, value), why)) in ROWS.into_iter().zip(whys).enumerate() {
        let published = table.get(FIGURE, item, None);
        let row = Row::judged(published, value(here, false));
        let row = row.timed(timing).because(why);
        let tried = match n {
            METADATA => vec![written_before(here)],
            _ => experiments(here, others, value),
        };
        let tried = tried.into_iter();
        rows.push(tried.fold(row, |row, tried| row.shown_by(published, tried)));
    }
    let whole = both.share.iter().sum();
    let item = "optimised: the whole path, over the baseline's";
    rows.push(Row::ours(FIGURE, item, "fraction", whole).timed(timing));
    Ok(rows)
}

/// What the paper tells of its baseline in one: behind [`STEPS`] in the plot.
const TOGETHER: &str = "flush and commit block";

/// The published bar of the baseline, or of both: the parts that the paper tells, and of the
/// baseline, which is the whole, what is left.
fn published_bar(scheme: &str) -> Result<Bar, PaperError> {
    let table = published()?;
    let of = |n: usize| table.get(FIGURE, ROWS[n].0, None).value.unwrap_or_default();
    let values = match scheme {
        BASE => vec![0.0, of(0), 0.0, 0.0, 1.0 - of(0) - of(1), of(1)],
        _ => vec![0.0, of(2), of(3), of(4) - of(3), 0.0, 0.0],
    };
    Ok(Bar {
        name: format!("{scheme}, published"),
        values,
        published: true,
    })
}

fn plotted(paths: &Paths, timing: &str) -> Result<(String, plot::Plot), PaperError> {
    let mut steps: Vec<String> = STEPS.map(String::from).to_vec();
    steps.push(TOGETHER.into());
    let mut bars = Vec::new();
    for (scheme, path) in SCHEMES.iter().zip(paths).take(PLOTTED) {
        bars.push(Bar::measured(&((*scheme).into(), path.share.to_vec())));
        if *scheme != BOTH_ALWAYS {
            bars.push(published_bar(scheme)?);
        }
    }
    let title = format!("A persistence path, timing {timing}");
    let drawn = plot::stacked_beside(&title, "over the baseline's whole", &steps, &bars);
    let caption = "Mean over the apps: less is better. Of the optimised path the paper tells the wait for metadata, the early flush and the commit block; of the \
                   baseline flush and commit block in one, and what is left of its whole is the rest, data above all.";
    Ok((caption.into(), drawn))
}

fn listed(paths: &Paths, timing: &str) -> crate::Listed {
    let head = ["scheme"].into_iter().chain(STEPS).chain(["whole"]);
    let line = |name: &str, path: &Path| {
        let mut cells = vec![name.to_string()];
        cells.extend(path.us.iter().map(|us| format!("{us:.0}")));
        cells.push(format!("{:.0}", path.whole_us()));
        cells
    };
    let caption = format!("Microseconds of each step, mean over the apps, timing {timing}.");
    let lines = SCHEMES.iter().zip(paths);
    let lines = lines.map(|(name, path)| line(name, path)).collect();
    (caption, head.map(String::from).collect(), lines)
}

fn words() -> Vec<String> {
    vec![
        "The time of a sync in the steps of the paper, mean over the apps, each app's path over its own baseline. The paper's optimised path has \
         a wait for metadata and one for the commit block. Its text has a commit block only behind a transaction with newly allocated metadata (IV.A), and \
         its Table 4 has room for one journal block a commit: so here one record mostly is both, is written in one command, and counts as commit block. \
         The third bar has a commit block behind every transaction."
            .into(),
    ]
}
