//! Fig 13, performance: how much faster than on the baseline an app makes its calls.
//!
//! The rows are made with the own time of the recordings. Its experiments are the same apps with
//! the own time that follows from the paper, with a commit block behind every transaction, and on
//! the cards of [`cards`](super::cards).

use super::cards::{Card, FLAT, RANDOM, STANDARD};
use super::job::{Job, Outcomes, owned_of, run_of};
use super::measure::{gain, mean, parts_us, persistence_share};
use super::own_time::PAPER;
use super::plan::{AHEAD, BASE, BOTH, BOTH_ALWAYS, COALITION, COALITION_ALWAYS, FIG8, FIT};
use super::plan::{COUNTED, OTHER_CALLS, Pace, Plan, Source, marked};
use super::plan::{FAST, FAST_ADAPTIVE, FAST_ADAPTIVE_WORDS, FAST_WORDS};
use super::published;
use crate::PaperError;
use crate::beside::{group, percent, times};
use crate::{Experiment, Published, Row, Section};
use report::plot::{self, At, Mark};
use report::results::Run;

const FIGURE: &str = "Fig 13";
/// The schemes that are compared with the baseline, and their words in the rows: those of the
/// paper, then ours.
const SCHEMES: [(&str, &str); 9] = [
    (COALITION, "journal coalition"),
    (AHEAD, "flush-ahead commit"),
    (BOTH, "both"),
    ("coalition", "coalition without commit blocks"),
    ("emmc", "both without commit blocks"),
    ("adaptive", "the adaptive order"),
    (FAST, FAST_WORDS),
    (FAST_ADAPTIVE, FAST_ADAPTIVE_WORDS),
    ("none", "no journal"),
];
/// How many of them the paper has a gain of.
const PUBLISHED: usize = 3;
/// Everything that runs: the baseline, [`SCHEMES`], and the other reading of the paper's coalition.
const ALL: [&str; 12] = [
    BASE,
    COALITION,
    AHEAD,
    BOTH,
    "coalition",
    "emmc",
    "adaptive",
    FAST,
    FAST_ADAPTIVE,
    "none",
    COALITION_ALWAYS,
    BOTH_ALWAYS,
];
/// What runs on other cards: [`SCHEMES`] of the paper, no journal, and the other reading.
const ON_CARDS: [&str; 7] = [
    BASE,
    COALITION,
    AHEAD,
    BOTH,
    "none",
    COALITION_ALWAYS,
    BOTH_ALWAYS,
];
/// What runs with own times that are neither the recordings' nor the paper's.
const SWEPT: [&str; 6] = [BASE, COALITION, AHEAD, BOTH, "adaptive", "none"];
/// Own times over the time of the baseline's syncs that are tried beside the recordings'.
const SHARES: [f64; 3] = [0.1, PAPER, 1.0];

/// Under what an app runs.
#[derive(Clone, Copy)]
struct Case {
    card: &'static Card,
    timing: &'static str,
    /// Own time over the time of the baseline's syncs; `None`: the recorded own time.
    share: Option<f64>,
}

impl Case {
    const fn new(timing: &'static str) -> Case {
        Case {
            card: &STANDARD,
            timing,
            share: None,
        }
    }

    fn own(self, share: f64) -> Case {
        Case {
            share: Some(share),
            ..self
        }
    }

    fn on(self, card: &'static Card) -> Case {
        Case { card, ..self }
    }

    fn is_standard(&self) -> bool {
        *self.card == STANDARD
    }

    /// True for an own time that is neither the recordings' nor the paper's.
    fn is_swept(&self) -> bool {
        self.share.is_some_and(|share| share != PAPER)
    }

    fn schemes(&self) -> &'static [&'static str] {
        match (self.is_standard(), self.is_swept()) {
            (_, true) => &SWEPT,
            (true, false) => &ALL,
            (false, false) => &ON_CARDS,
        }
    }

    /// The sources that run: the generated apps, and the recordings where their rows need them.
    fn sources(&self, plan: &Plan) -> Vec<Source> {
        let recorded = self.is_standard() && !self.is_swept();
        let all = plan.sources().into_iter();
        all.filter(|s| s.is_generated() || recorded).collect()
    }

    fn jobs(&self, plan: &Plan, source: &Source) -> Vec<Job> {
        let on = (self.card, self.timing);
        match self.share {
            Some(share) => vec![plan.own_time(source, self.schemes(), on, share)],
            None => {
                let schemes = self.schemes().iter();
                schemes
                    .map(|s| plan.on_card(source, s, on, Pace::BUSY))
                    .collect()
            }
        }
    }

    /// The runs of this case.
    fn runs<'a>(&self, plan: &Plan, outcomes: &'a Outcomes) -> Result<Runs<'a>, PaperError> {
        let (sources, mut runs) = (self.sources(plan), Vec::new());
        for source in &sources {
            let jobs = self.jobs(plan, source);
            runs.push(match self.share {
                Some(_) => owned_of(outcomes, &jobs[0])?.runs.iter().collect(),
                None => {
                    let found = jobs.iter().map(|job| run_of(outcomes, job));
                    found.collect::<Result<Vec<_>, _>>()?
                }
            });
        }
        Ok(Runs {
            schemes: self.schemes(),
            sources,
            runs,
        })
    }
}

/// The cases of a report. Cards are those of the set `fig8`.
fn cases(plan: &Plan) -> Vec<Case> {
    let shares: &[f64] = if plan.quick { &SHARES[1..2] } else { &SHARES };
    let mut all = Vec::new();
    for timing in plan.timings {
        let case = Case::new(timing);
        all.push(case);
        all.extend(shares.iter().map(|share| case.own(*share)));
    }
    for card in FLAT.iter().chain([&RANDOM]) {
        let case = Case::new(FIG8).on(card);
        all.extend([case, case.own(PAPER)]);
    }
    all
}

/// The jobs: each app on every scheme, in every case.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let all = cases(plan).into_iter();
    let of = |case: Case| {
        let sources = case.sources(plan);
        let jobs: Vec<Job> = sources.iter().flat_map(|s| case.jobs(plan, s)).collect();
        jobs
    };
    all.flat_map(of).collect()
}

/// The runs of all apps in one case.
struct Runs<'a> {
    schemes: &'static [&'static str],
    sources: Vec<Source>,
    /// By source, then by scheme.
    runs: Vec<Vec<&'a Run>>,
}

impl<'a> Runs<'a> {
    fn run(&self, source: usize, scheme: &str) -> &'a Run {
        let place = self.schemes.iter().position(|s| *s == scheme);
        self.runs[source][place.expect("figures name schemes that ran")]
    }

    /// Gain of a scheme over another with one source.
    fn gain(&self, source: usize, scheme: &str, over: &str) -> f64 {
        gain(self.run(source, scheme), self.run(source, over))
    }

    /// Mean over the generated apps.
    fn mean(&self, of: impl Fn(usize) -> f64) -> f64 {
        let generated = |n: &usize| self.sources[*n].is_generated();
        let all = 0..self.sources.len();
        mean(&all.filter(generated).map(of).collect::<Vec<_>>())
    }

    fn mean_gain(&self, scheme: &str, over: &str) -> f64 {
        self.mean(|n| self.gain(n, scheme, over))
    }

    fn sync_us(&self, scheme: &str) -> f64 {
        self.mean(|n| self.run(n, scheme).latency_us.fsync.mean)
    }

    /// Share of the baseline's time that is the application's own.
    fn own(&self, source: usize) -> f64 {
        1.0 - persistence_share(self.run(source, BASE))
    }
}

/// The runs that the rows and experiments of one timing set need.
struct Figure<'a> {
    timing: &'static str,
    here: Runs<'a>,
    /// With the paper's own time.
    owned: Runs<'a>,
    /// Other cards, each with the recorded own time and with the paper's.
    cards: Vec<(&'static Card, Runs<'a>, Runs<'a>)>,
}

impl<'a> Figure<'a> {
    fn take(
        plan: &Plan,
        outcomes: &'a Outcomes,
        timing: &'static str,
    ) -> Result<Figure<'a>, PaperError> {
        let case = Case::new(timing);
        let mut cards = Vec::new();
        for card in FLAT.iter().chain([&RANDOM]).filter(|_| timing == FIG8) {
            let on = case.on(card);
            let owned = on.own(PAPER).runs(plan, outcomes)?;
            cards.push((card, on.runs(plan, outcomes)?, owned));
        }
        Ok(Figure {
            timing,
            here: case.runs(plan, outcomes)?,
            owned: case.own(PAPER).runs(plan, outcomes)?,
            cards,
        })
    }

    /// The row of a gain with its experiments. `of` gives the value from the runs of a case, with
    /// the schemes as in the row or with a commit block behind every transaction; `None`: these
    /// runs do not have it.
    fn row(&self, published: &Published, row: Row, of: &Value<'_>) -> Row {
        let mut row = row;
        for experiment in self.experiments(of) {
            row = row.shown_by(published, experiment);
        }
        row
    }

    fn experiments(&self, of: &Value<'_>) -> Vec<Experiment> {
        const OWN: &str = "the app's own time";
        const BLOCKS: &str = "a commit block behind every transaction";
        const AS_PAPER: &str = "0.33 of the time of the baseline's syncs, as in the paper";
        let mut all = Vec::new();
        let mut add = |cause: &str, trials: &[(&str, Option<f64>)]| {
            let trials = trials.iter().filter_map(|(with, x)| x.map(|x| (with, x)));
            let on = Experiment::on(cause);
            let experiment = trials.fold(on, |e, (with, x)| e.with(with, x));
            if !experiment.trials.is_empty() {
                all.push(experiment);
            }
        };
        add(OWN, &[(AS_PAPER, of(&self.owned, false))]);
        add(BLOCKS, &[("with it", of(&self.here, true))]);
        let (flat, random): (Vec<_>, Vec<_>) =
            self.cards.iter().partition(|(card, ..)| **card != RANDOM);
        let trials = |cards: &[&(&'static Card, Runs<'_>, Runs<'_>)], own: bool, blocks: bool| {
            let value = |c: &&(&'static Card, Runs<'_>, Runs<'_>)| {
                (c.0.name, of(if own { &c.2 } else { &c.1 }, blocks))
            };
            cards.iter().map(value).collect::<Vec<_>>()
        };
        let slope = "a reliable write whose cost has no slope";
        let place = "the cost of a random write";
        add(slope, &trials(&flat, false, false));
        add(place, &trials(&random, false, false));
        add(&both(OWN, BLOCKS), &[("with both", of(&self.owned, true))]);
        add(&both(OWN, slope), &trials(&flat, true, false));
        add(&both(OWN, place), &trials(&random, true, false));
        let three = format!("{OWN}, {BLOCKS}, and {place}");
        add(&three, &trials(&random, true, true));
        all
    }

    /// Explains a gain by what became of the syncs and by how much of the time they are.
    fn why(&self, source: Option<usize>, scheme: &str) -> String {
        let of = |value: &dyn Fn(usize) -> f64| match source {
            Some(n) => value(n),
            None => self.here.mean(value),
        };
        let us = |scheme: &str| of(&|n| self.here.run(n, scheme).latency_us.fsync.mean);
        format!(
            "a sync takes {:.0} us instead of {:.0}; {:.0} % of the baseline's time is the app's own",
            us(scheme),
            us(BASE),
            100.0 * of(&|n| self.here.own(n))
        )
    }

    fn why_none(&self) -> String {
        let part = |scheme: &str, part| {
            self.here
                .mean(|n| parts_us(self.here.run(n, scheme), &[part]))
        };
        format!(
            "a sync takes {:.0} us without a journal and {:.0} with both; {:.0} us of the former write changed metadata home, one block each, \
             where both write one record ({:.0} us)",
            self.here.sync_us("none"),
            self.here.sync_us(BOTH),
            part("none", "home"),
            part(BOTH, "log"),
        )
    }
}

/// A value of a row from the runs of a case; with true, with a commit block behind every
/// transaction.
type Value<'v> = dyn Fn(&Runs<'_>, bool) -> Option<f64> + 'v;

fn both(one: &str, other: &str) -> String {
    format!("{one} and {other}")
}

/// The scheme that stands for `scheme` where every transaction ends with a commit block.
fn always(scheme: &str) -> Option<&'static str> {
    match scheme {
        COALITION => Some(COALITION_ALWAYS),
        BOTH => Some(BOTH_ALWAYS),
        _ => None,
    }
}

/// `scheme`, or what stands for it with a commit block behind every transaction.
fn read_as(scheme: &'static str, blocks: bool) -> Option<&'static str> {
    if blocks { always(scheme) } else { Some(scheme) }
}

/// Makes the section of this figure.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Fig 13: performance".into(),
        words: words(),
        ..Section::default()
    };
    for timing in plan.timings {
        let figure = Figure::take(plan, outcomes, timing)?;
        section.rows.extend(means(&figure)?);
        section.rows.extend(per_app(&figure)?);
        section.rows.extend(other_reading(&figure));
        section.rows.extend(on_cards(&figure));
        section.plots.push(plotted(&figure)?);
        section.tables.push(own(&figure));
    }
    for case in cases(plan).iter().filter(|c| c.is_standard()) {
        if let Some(share) = case.share {
            let runs = case.runs(plan, outcomes)?;
            section
                .rows
                .extend(with_own_time(&runs, case.timing, share));
        }
    }
    Ok(section)
}

fn over(what: &str) -> String {
    format!("performance of {what} over the baseline, mean over the apps")
}

const NONE_OVER_BOTH: &str = "performance of no journal over both, mean over the apps";
const BOTH_OVER_BASE: &str = "performance of both over the baseline";
const NONE_OVER_ADAPTIVE: &str =
    "performance of no journal over the adaptive order, mean over the apps";

fn means(figure: &Figure<'_>) -> Result<Vec<Row>, PaperError> {
    let (table, here) = (published()?, &figure.here);
    let mut rows = Vec::new();
    for (n, (scheme, words)) in SCHEMES.into_iter().enumerate() {
        let (measured, item) = (here.mean_gain(scheme, BASE), over(words));
        if n >= PUBLISHED {
            let row = Row::ours(FIGURE, &item, "gain", measured).timed(figure.timing);
            rows.push(marked(row, scheme));
            continue;
        }
        let published = table.get(FIGURE, &item, None);
        let row = Row::judged(published, measured).timed(figure.timing);
        let row = row.because(&figure.why(None, scheme));
        rows.push(figure.row(published, row, &|runs, blocks| {
            Some(runs.mean_gain(read_as(scheme, blocks)?, BASE))
        }));
    }
    let published = table.get(FIGURE, NONE_OVER_BOTH, None);
    let row = Row::judged(published, here.mean_gain("none", BOTH)).timed(figure.timing);
    let row = row.because(&figure.why_none());
    rows.push(figure.row(published, row, &|runs, blocks| {
        Some(runs.mean_gain("none", read_as(BOTH, blocks)?))
    }));
    let ahead = here.mean_gain("none", "adaptive");
    rows.push(Row::ours(FIGURE, NONE_OVER_ADAPTIVE, "gain", ahead).timed(figure.timing));
    Ok(rows)
}

fn per_app(figure: &Figure<'_>) -> Result<Vec<Row>, PaperError> {
    let (table, here) = (published()?, &figure.here);
    let mut rows = Vec::new();
    for (n, source) in here.sources.iter().enumerate() {
        let published = table.get(FIGURE, BOTH_OVER_BASE, Some(source.app));
        let row = source.row(published, here.gain(n, BOTH, BASE));
        let row = row.timed(figure.timing).because(&figure.why(Some(n), BOTH));
        let row = figure.row(published, row, &|runs, blocks| {
            let n = runs.sources.iter().position(|s| s == source)?;
            Some(runs.gain(n, read_as(BOTH, blocks)?, BASE))
        });
        let generated = here.sources.iter().position(|s| s.app == source.app);
        rows.push(match generated {
            Some(other) if other != n => {
                let calls = Experiment::on(OTHER_CALLS);
                row.shown_by(
                    published,
                    calls.fitted(COUNTED, here.gain(other, BOTH, BASE)),
                )
            }
            _ => row,
        });
    }
    for (scheme, words) in SCHEMES.iter().filter(|(scheme, _)| *scheme != BOTH) {
        let item = format!("performance of {words} over the baseline");
        for (n, source) in here.sources.iter().enumerate() {
            let row = source.ours(FIGURE, &item, "gain", here.gain(n, scheme, BASE));
            rows.push(marked(row.timed(figure.timing), scheme));
        }
    }
    Ok(rows)
}

/// Rows of the paper's schemes with a commit block behind every transaction, which is how its Fig
/// 12 may be read.
fn other_reading(figure: &Figure<'_>) -> Vec<Row> {
    let readings = SCHEMES[..PUBLISHED].iter().filter_map(|(scheme, words)| {
        let gain = figure.here.mean_gain(always(scheme)?, BASE);
        let row = Row::ours(FIGURE, &over(words), "gain", gain);
        let row = row.of("a commit block behind every transaction");
        Some(row.timed(figure.timing))
    });
    readings.collect()
}

/// Rows of the mean gains on the other cards.
fn on_cards(figure: &Figure<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (card, runs, _) in &figure.cards {
        for (scheme, words) in &SCHEMES[..PUBLISHED] {
            let gain = runs.mean_gain(scheme, BASE);
            let row = Row::ours(FIGURE, &over(words), "gain", gain);
            rows.push(row.of(card.name).timed(figure.timing).noted(card.why));
        }
    }
    rows
}

/// Rows of the mean gains with another own time; there are no published values for them.
fn with_own_time(runs: &Runs<'_>, timing: &str, share: f64) -> Vec<Row> {
    let row = |item: String, measured| {
        let row = Row::ours(FIGURE, &item, "gain", measured).timed(timing);
        row.of(&format!("own time {share} of the syncs'"))
    };
    let all = SCHEMES.iter();
    let mut rows: Vec<Row> = all
        .filter(|(scheme, _)| runs.schemes.contains(scheme))
        .map(|(scheme, words)| row(over(words), runs.mean_gain(scheme, BASE)))
        .collect();
    let ahead = runs.mean_gain("none", BOTH);
    rows.push(row(NONE_OVER_BOTH.into(), ahead));
    rows
}

/// The group of bars with the means over the apps.
const MEAN: &str = "mean";

fn plotted(figure: &Figure<'_>) -> Result<(String, plot::Plot), PaperError> {
    let here = &figure.here;
    let mut names: Vec<String> = here.sources.iter().map(Source::short).collect();
    names.push(MEAN.into());
    let bars = SCHEMES.iter().map(|(scheme, _)| {
        let all = 0..here.sources.len();
        let gains = all.map(|n| here.gain(n, scheme, BASE));
        let gains = gains.chain([here.mean_gain(scheme, BASE)]);
        ((*scheme).to_string(), gains.map(percent).collect())
    });
    let bars: Vec<_> = bars.collect();
    let title = format!("Performance over the baseline, timing {}", figure.timing);
    let drawn = plot::grouped_bars(&title, "gain, %", &names, &bars);
    let table = published()?;
    let mut marks = published_means(&group(MEAN))?;
    for source in &here.sources {
        let published = table.get(FIGURE, BOTH_OVER_BASE, Some(source.app));
        let mark = published.mark(Some(BOTH), group(&source.short()));
        marks.extend(mark.map(|m| m.map(percent)));
    }
    let caption = "How much sooner the calls of an app are done: more is better. The published gain of no journal is over both; it is drawn over the \
                   baseline.";
    Ok((caption.into(), drawn.beside(&marks)))
}

/// The published means over the apps, per cent over the baseline.
pub(super) fn published_means(at: &At) -> Result<Vec<Mark>, PaperError> {
    let table = published()?;
    let mut marks = Vec::new();
    for (scheme, words) in &SCHEMES[..PUBLISHED] {
        let published = table.get(FIGURE, &over(words), None);
        marks.extend(published.mark(Some(scheme), at.clone()));
    }
    let both = table.get(FIGURE, &over("both"), None).value;
    let none = table.get(FIGURE, NONE_OVER_BOTH, None);
    let none = none.mark(Some("none"), at.clone());
    let over_base = |gain: f64| times(gain) * times(both.unwrap_or_default()) - 1.0;
    marks.extend(none.map(|m| m.map(over_base)));
    Ok(marks.into_iter().map(|m| m.map(percent)).collect())
}

/// Table of the share of the application's own time in the baseline's time.
fn own(figure: &Figure<'_>) -> crate::Listed {
    let head = ["app", "own time, %"].map(String::from).to_vec();
    let lines = figure.here.sources.iter().enumerate();
    let lines = lines.map(|(n, source)| {
        let own = format!("{:.0}", figure.here.own(n) * 100.0);
        vec![source.name(), own]
    });
    let caption = format!(
        "What is not spent in syncs on the baseline, part of its time, timing {}.",
        figure.timing
    );
    (caption, head, lines.collect())
}

fn words() -> Vec<String> {
    vec![
        "Performance is calls over the time they take when the app is busy: its own time between calls is that of the recording, \
         pauses longer than 20 ms (waiting for a user or the network) are left out, and what follows a sync of the same thread is the \
         recording device's time and not the app's. It is fitted to no result. From the paper's Figs 12 and 13 together it follows that own time is \
         0.33 of the time of the baseline's syncs there; rows with 0.1, 0.33 and 1.0 show how much hangs on it."
            .into(),
        "Journal coalition and both are those of the paper's text: \"In such cases\" (a transaction with newly allocated metadata) \"the journal \
         thread submits a separate commit block\" (IV.A). Its Fig 12 has a wait for metadata and one for the commit block on the optimised path, so \
         rows with a commit block behind every transaction stand beside; that is our reading of a figure, and no row is judged by it."
            .into(),
        format!(
            "Other cards change fields of {FIG8} alone, because {FIT} was fitted with all of its own. Each row outside has experiments: the same runs \
             with the cause that it names."
        ),
    ]
}
