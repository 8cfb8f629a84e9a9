//! Fig 14: how much shorter a sync is on the mean. The paper shows flush-ahead commit alone; rows
//! of our own show the other schemes.

use super::cards::{Card, FLAT, RANDOM};
use super::job::{Job, Outcomes, run_of};
use super::measure::{PARTS, blocks_per_commit, decrease, mean, parts_us};
use super::plan::{AHEAD, BASE, BOTH, COALITION, FIG8, Pace, Plan, Source, marked};
use super::plan::{FAST, FAST_ADAPTIVE, FAST_ADAPTIVE_WORDS, FAST_WORDS};
use super::published;
use crate::PaperError;
use crate::beside::group;
use crate::{Experiment, Row, Section};
use report::plot;
use report::results::Run;

const FIGURE: &str = "Fig 14";
const SCHEMES: [(&str, &str); 8] = [
    (AHEAD, "flush-ahead commit"),
    (COALITION, "journal coalition"),
    (BOTH, "both"),
    ("coalition", "coalition without commit blocks"),
    ("emmc", "both without commit blocks"),
    ("adaptive", "the adaptive order"),
    (FAST, FAST_WORDS),
    (FAST_ADAPTIVE, FAST_ADAPTIVE_WORDS),
];
const ITEM: &str = "decrease of the data persistence time by flush-ahead commit";

/// The jobs: each app, busy, on each scheme.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for source in plan.sources() {
            let schemes = [BASE].into_iter().chain(SCHEMES.map(|(s, _)| s));
            all.extend(schemes.map(|s| plan.run(&source, s, timing, Pace::BUSY)));
        }
    }
    for card in cards() {
        for source in &plan.sources() {
            all.extend([BASE, AHEAD].map(|s| on_card(plan, source, s, card)));
        }
    }
    all
}

/// The cards of the experiments, which have the timing set `fig8`.
fn cards() -> impl Iterator<Item = &'static Card> {
    FLAT.iter().chain([&RANDOM])
}

fn on_card(plan: &Plan, source: &Source, scheme: &str, card: &Card) -> Job {
    plan.on_card(source, scheme, (card, FIG8), Pace::BUSY)
}

/// A card with the decrease by flush-ahead commit on it, by app.
type OnCard = (&'static Card, Vec<(Source, f64)>);

/// The decrease by flush-ahead commit on each card, for each app and recording.
fn on_cards(plan: &Plan, outcomes: &Outcomes) -> Result<Vec<OnCard>, PaperError> {
    let mut all = Vec::new();
    for card in cards() {
        let mut apps = Vec::new();
        for source in plan.sources() {
            let run = |s| run_of(outcomes, &on_card(plan, &source, s, card));
            let [base, ahead] = [run(BASE)?, run(AHEAD)?].map(|run| run.latency_us.fsync.mean);
            apps.push((source, decrease(base, ahead)));
        }
        all.push((card, apps));
    }
    Ok(all)
}

/// The decreases of one app on the cards, as experiments.
fn experiments(cards: &[OnCard], source: &Source) -> Vec<Experiment> {
    let slope = Experiment::on("a reliable write whose cost has no slope");
    let place = Experiment::on("the cost of a random write");
    let mut both = [slope, place];
    for (card, apps) in cards {
        if let Some((_, decrease)) = apps.iter().find(|(s, _)| s == source) {
            let one = &mut both[usize::from(**card == RANDOM)];
            *one = one.clone().with(card.name, *decrease);
        }
    }
    both.into_iter().filter(|e| !e.trials.is_empty()).collect()
}

/// Rows of the mean decrease on the cards.
fn rows_on_cards(cards: &[OnCard]) -> Vec<Row> {
    let row = |(card, apps): &OnCard| {
        let generated = apps.iter().filter(|(s, _)| s.is_generated());
        let decreases: Vec<f64> = generated.map(|(_, d)| *d).collect();
        let item = format!("{ITEM}, mean over the apps");
        let row = Row::ours(FIGURE, &item, "fraction", mean(&decreases));
        row.of(card.name).timed(FIG8).noted(card.why)
    };
    cards.iter().map(row).collect()
}

/// Makes the section of this figure.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Fig 14: data persistence time".into(),
        words: vec![
            "The mean time of a sync, whatever it covers; the app is busy as for Fig 13. The paper shows flush-ahead commit alone.".into(),
        ],
        ..Section::default()
    };
    let cards = on_cards(plan, outcomes)?;
    for timing in plan.timings {
        let paths = Paths::take(plan, outcomes, timing)?;
        let cards = if timing == FIG8 { &cards[..] } else { &[] };
        section.rows.extend(rows_on_cards(cards));
        let mut shown: Vec<(String, Vec<f64>)> = Vec::new();
        for (n, (scheme, words)) in SCHEMES.iter().enumerate() {
            section.rows.extend(paths.rows(n, words, (timing, cards))?);
            let left = paths.decreases(n).iter().map(|d| 1.0 - d).collect();
            shown.push(((*scheme).into(), left));
        }
        let names: Vec<String> = paths.sources.iter().map(Source::short).collect();
        let title = format!("Mean time of a sync over the baseline's, timing {timing}");
        let drawn = plot::grouped_bars(&title, "fraction", &names, &shown);
        let drawn = drawn.beside(&paths.marks()?);
        section.plots.push(("Less is better.".into(), drawn));
        section.tables.push(paths.listed(timing));
    }
    Ok(section)
}

/// The runs of all sources under one timing set.
struct Paths<'a> {
    sources: Vec<Source>,
    base: Vec<&'a Run>,
    /// Runs by scheme, in the order of [`SCHEMES`], then by source.
    schemes: Vec<Vec<&'a Run>>,
}

impl<'a> Paths<'a> {
    fn take(plan: &Plan, outcomes: &'a Outcomes, timing: &str) -> Result<Paths<'a>, PaperError> {
        let sources = plan.sources();
        let runs = |scheme: &str| -> Result<Vec<&'a Run>, PaperError> {
            let run = |s| run_of(outcomes, &plan.run(s, scheme, timing, Pace::BUSY));
            sources.iter().map(run).collect()
        };
        let base = runs(BASE)?;
        let schemes = SCHEMES
            .iter()
            .map(|(s, _)| runs(s))
            .collect::<Result<_, _>>()?;
        Ok(Paths {
            sources,
            base,
            schemes,
        })
    }

    fn decreases(&self, scheme: usize) -> Vec<f64> {
        let mean = |run: &Run| run.latency_us.fsync.mean;
        let pairs = self.base.iter().zip(&self.schemes[scheme]);
        pairs
            .map(|(base, run)| decrease(mean(base), mean(run)))
            .collect()
    }

    /// The published decreases, as what is left.
    fn marks(&self) -> Result<Vec<plot::Mark>, PaperError> {
        let table = published()?;
        let mark = |source: &Source| {
            let published = table.get(FIGURE, ITEM, Some(source.app));
            let mark = published.mark(Some(AHEAD), group(&source.short()))?;
            Some(mark.turned(|decrease| 1.0 - decrease))
        };
        Ok(self.sources.iter().filter_map(mark).collect())
    }

    fn rows(
        &self,
        scheme: usize,
        words: &str,
        (timing, cards): (&str, &[OnCard]),
    ) -> Result<Vec<Row>, PaperError> {
        let table = published()?;
        let item = format!("decrease of the data persistence time by {words}");
        let decreases = self.decreases(scheme);
        let mut rows: Vec<Row> = Vec::new();
        for (n, source) in self.sources.iter().enumerate() {
            let row = match SCHEMES[scheme].0 {
                AHEAD => {
                    let published = table.get(FIGURE, ITEM, Some(source.app));
                    let row = source.row(published, decreases[n]);
                    let row = row.because(&why(self.base[n], self.schemes[scheme][n]));
                    let tried = experiments(cards, source).into_iter();
                    tried.fold(row, |row, tried| row.shown_by(published, tried))
                }
                _ => source.ours(FIGURE, &item, "fraction", decreases[n]),
            };
            rows.push(marked(row.timed(timing), SCHEMES[scheme].0));
        }
        let generated = self.sources.iter().zip(&decreases);
        let generated = generated.filter(|(s, _)| s.is_generated());
        let all: Vec<f64> = generated.map(|(_, d)| *d).collect();
        let item = format!("{item}, mean over the apps");
        let row = Row::ours(FIGURE, &item, "fraction", mean(&all)).timed(timing);
        rows.push(marked(row, SCHEMES[scheme].0));
        Ok(rows)
    }

    /// Table of the parts of a sync.
    fn listed(&self, timing: &str) -> crate::Listed {
        let head = ["app", "scheme"].into_iter().chain(PARTS);
        let head = head.chain(["mean", "log blocks a commit"]);
        let mut lines = Vec::new();
        for (n, source) in self.sources.iter().enumerate() {
            for run in [&self.base]
                .into_iter()
                .chain(&self.schemes)
                .map(|all| all[n])
            {
                let parts = PARTS.map(|part| format!("{:.0}", parts_us(run, &[part])));
                let mut line = vec![source.name(), run.scheme.clone()];
                line.extend(parts);
                line.push(format!("{:.0}", run.latency_us.fsync.mean));
                line.push(format!("{:.1}", blocks_per_commit(run)));
                lines.push(line);
            }
        }
        let caption = format!("One sync in its parts, mean microseconds, timing {timing}.");
        (caption, head.map(String::from).collect(), lines)
    }
}

/// Says what flush-ahead commit saves and what it costs, from the parts of a sync under both.
pub(super) fn why(base: &Run, ahead: &Run) -> String {
    let parts = |run, part| parts_us(run, &[part]);
    let gone = parts(base, "flush") - parts(ahead, "flush");
    let commit = parts(base, "commit-record") - parts(ahead, "commit-record");
    let log = parts(ahead, "log") - parts(base, "log");
    format!(
        "of {:.0} us the flush saves {gone:.0} and the commit block {commit:.0}, and the log, {:.1} blocks in one packed FUA command instead \
         of the cache, costs {log:.0} more",
        base.latency_us.fsync.mean,
        blocks_per_commit(ahead)
    )
}
