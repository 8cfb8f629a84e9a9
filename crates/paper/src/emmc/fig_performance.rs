//! Fig 13, performance: how much faster than on the baseline an app makes its calls.

use super::job::{Job, Outcomes, run_of};
use super::measure::{decrease, gain, mean, parts_us, persistence_share};
use super::plan::{Pace, Plan, Source};
use super::published;
use crate::PaperError;
use crate::{Published, Row, Section};
use report::plot;

const FIGURE: &str = "Fig 13";
const BASE: &str = "jbd2";
/// The schemes that are compared with the baseline, and their words in the rows.
const SCHEMES: [(&str, &str); 5] = [
    ("coalition", "journal coalition"),
    ("flush-ahead", "flush-ahead commit"),
    ("emmc", "both"),
    ("adaptive", "the adaptive order"),
    ("none", "no journal"),
];
/// Factors of the application's own time; the figure is made with 1, the time in the recording.
const THINK: [f64; 3] = [0.5, 1.0, 2.0];

fn schemes() -> impl Iterator<Item = &'static str> {
    [BASE].into_iter().chain(SCHEMES.iter().map(|(s, _)| *s))
}

/// The jobs: each app as fast as its own time allows, on every scheme, under both timing sets; and
/// the same with shorter and longer own times.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for source in plan.sources() {
            for &think in thinks(plan) {
                all.extend(schemes().map(|s| plan.run(&source, s, timing, Pace::Busy(think))));
            }
        }
    }
    all
}

/// The factors of a report; a quick one has the time in the recording only.
fn thinks(plan: &Plan) -> &'static [f64] {
    if plan.quick { &THINK[1..2] } else { &THINK }
}

/// Gains with one timing set and one factor; each list is by source.
struct Gains {
    sources: Vec<Source>,
    /// Gain of each of [`SCHEMES`] over the baseline.
    over_base: Vec<[f64; SCHEMES.len()]>,
    /// Gain of no journal over both mechanisms.
    none_over_both: Vec<f64>,
    /// Gain of no journal over the adaptive order.
    none_over_adaptive: Vec<f64>,
    /// Share of the application's own time in the baseline's time.
    own: Vec<f64>,
    /// Mean time of a sync with each of [`SCHEMES`], microseconds.
    sync_us: Vec<[f64; SCHEMES.len()]>,
    /// By which share that is below the baseline's.
    shorter: Vec<[f64; SCHEMES.len()]>,
    /// Time of home writes in a sync without a journal, microseconds.
    home_us: Vec<f64>,
    /// Time of the record in a sync with both mechanisms, microseconds.
    record_us: Vec<f64>,
}

impl Gains {
    fn take(
        plan: &Plan,
        outcomes: &Outcomes,
        timing: &str,
        think: f64,
    ) -> Result<Gains, PaperError> {
        let mut gains = Gains {
            sources: plan.sources(),
            over_base: Vec::new(),
            none_over_both: Vec::new(),
            none_over_adaptive: Vec::new(),
            own: Vec::new(),
            sync_us: Vec::new(),
            shorter: Vec::new(),
            home_us: Vec::new(),
            record_us: Vec::new(),
        };
        for source in &gains.sources {
            let run = |s| run_of(outcomes, &plan.run(source, s, timing, Pace::Busy(think)));
            let base = run(BASE)?;
            let (mut over, mut us) = ([0.0; SCHEMES.len()], [0.0; SCHEMES.len()]);
            for (n, (scheme, _)) in SCHEMES.iter().enumerate() {
                over[n] = gain(run(scheme)?, base);
                us[n] = run(scheme)?.latency_us.fsync.mean;
            }
            gains.over_base.push(over);
            gains.sync_us.push(us);
            gains
                .shorter
                .push(us.map(|us| decrease(base.latency_us.fsync.mean, us)));
            gains.home_us.push(parts_us(run("none")?, &["home"]));
            gains.record_us.push(parts_us(run("emmc")?, &["log"]));
            let none = run("none")?;
            gains.none_over_both.push(gain(none, run("emmc")?));
            gains.none_over_adaptive.push(gain(none, run("adaptive")?));
            gains.own.push(1.0 - persistence_share(base));
        }
        Ok(gains)
    }

    /// Mean over the generated apps.
    fn mean(&self, of: impl Fn(usize) -> f64) -> f64 {
        let generated = |n: &usize| self.sources[*n].is_generated();
        let all = 0..self.sources.len();
        mean(&all.filter(generated).map(of).collect::<Vec<_>>())
    }

    fn mean_over_base(&self, scheme: usize) -> f64 {
        self.mean(|n| self.over_base[n][scheme])
    }
}

/// Own time over persistence time of the baseline, as it follows from the paper's Figs 12 and 13.
const PAPER_OWN: f64 = 0.33;

impl Gains {
    /// Explains a gain that is not the published one, by the share of the app's own time and by
    /// what became of the rest.
    fn why(&self, own: f64, shorter: f64) -> String {
        let with = (1.0 + PAPER_OWN) / (1.0 - shorter + PAPER_OWN) - 1.0;
        format!(
            "the time of a sync changes by {:+.1} %; {:.0} % of the baseline's time is the app's own (from the recording), in the paper about 25 % \
             (its Figs 12 and 13 together); with that much the gain would be {:+.1} %",
            -shorter * 100.0,
            own * 100.0,
            with * 100.0
        )
    }

    /// Explains the mean gain of a scheme over the baseline.
    fn why_mean(&self, scheme: usize) -> String {
        let why = self.why(
            self.mean(|n| self.own[n]),
            self.mean(|n| self.shorter[n][scheme]),
        );
        match SCHEMES[scheme].0 {
            "flush-ahead" => format!("{why}; Fig 14 has the parts"),
            _ => why,
        }
    }

    fn why_none(&self) -> String {
        let [both, none] = [2, 4].map(|s| self.mean(|n| self.sync_us[n][s]));
        format!(
            "a sync takes {none:.0} us without a journal and {both:.0} with both; {:.0} us of the former write changed metadata home, \
             one block each, where both write one record ({:.0} us); the app's own time is {:.0} % of the baseline's",
            self.mean(|n| self.home_us[n]),
            self.mean(|n| self.record_us[n]),
            100.0 * self.mean(|n| self.own[n])
        )
    }
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
        let gains = Gains::take(plan, outcomes, timing, 1.0)?;
        section.rows.extend(means(&gains, timing)?);
        section.rows.extend(per_app(&gains, timing)?);
        section.plots.push(plotted(&gains, timing)?);
        section.tables.push(own(&gains, timing));
        for &think in thinks(plan).iter().filter(|t| **t != 1.0) {
            let gains = Gains::take(plan, outcomes, timing, think)?;
            section.rows.extend(with_think(&gains, timing, think));
        }
    }
    Ok(section)
}

fn over(what: &str) -> String {
    format!("performance of {what} over the baseline, mean over the apps")
}

const NONE_OVER_BOTH: &str = "performance of no journal over both, mean over the apps";
const NONE_OVER_ADAPTIVE: &str =
    "performance of no journal over the adaptive order, mean over the apps";

fn means(gains: &Gains, timing: &str) -> Result<Vec<Row>, PaperError> {
    let table = published()?;
    let judged = |published: &Published, measured| Row::judged(published, measured).timed(timing);
    let mut rows = Vec::new();
    for (n, (scheme, words)) in SCHEMES.iter().enumerate() {
        let measured = gains.mean_over_base(n);
        let item = over(words);
        rows.push(match *scheme {
            "adaptive" | "none" => Row::ours(FIGURE, &item, "gain", measured).timed(timing),
            _ => judged(table.get(FIGURE, &item, None), measured).because(&gains.why_mean(n)),
        });
    }
    let ahead = gains.mean(|n| gains.none_over_both[n]);
    let row = judged(table.get(FIGURE, NONE_OVER_BOTH, None), ahead);
    rows.push(row.because(&gains.why_none()));
    let ahead = gains.mean(|n| gains.none_over_adaptive[n]);
    rows.push(Row::ours(FIGURE, NONE_OVER_ADAPTIVE, "gain", ahead).timed(timing));
    Ok(rows)
}

fn per_app(gains: &Gains, timing: &str) -> Result<Vec<Row>, PaperError> {
    const ITEM: &str = "performance of both over the baseline";
    let table = published()?;
    let mut rows = Vec::new();
    for (n, source) in gains.sources.iter().enumerate() {
        let published = table.get(FIGURE, ITEM, Some(source.app));
        let row = source.row(published, gains.over_base[n][2]).timed(timing);
        rows.push(row.because(&gains.why(gains.own[n], gains.shorter[n][2])));
    }
    for (s, (scheme, words)) in SCHEMES.iter().enumerate() {
        if *scheme == "emmc" {
            continue;
        }
        let item = format!("performance of {words} over the baseline");
        for (source, over) in gains.sources.iter().zip(&gains.over_base) {
            let row = source.ours(FIGURE, &item, "gain", over[s]);
            rows.push(row.timed(timing));
        }
    }
    Ok(rows)
}

/// Rows of the mean gains with another own time; there are no published values for them.
fn with_think(gains: &Gains, timing: &str, think: f64) -> Vec<Row> {
    let row = |item: String, measured| {
        let note = format!("the application's own time x {think}");
        let row = Row::ours(FIGURE, &item, "gain", measured).timed(timing);
        row.of(&format!("own time x {think}")).noted(&note)
    };
    let mut rows: Vec<Row> = SCHEMES
        .iter()
        .enumerate()
        .map(|(n, (_, words))| row(over(words), gains.mean_over_base(n)))
        .collect();
    let ahead = gains.mean(|n| gains.none_over_both[n]);
    rows.push(row(NONE_OVER_BOTH.into(), ahead));
    rows
}

fn plotted(gains: &Gains, timing: &str) -> Result<(String, String), PaperError> {
    let names: Vec<String> = gains.sources.iter().map(Source::short).collect();
    let bars = SCHEMES.iter().enumerate().map(|(s, (scheme, _))| {
        let values = gains.over_base.iter().map(|over| over[s] * 100.0).collect();
        ((*scheme).to_string(), values)
    });
    let bars: Vec<_> = bars.collect();
    let title = format!("Performance over the baseline, timing {timing}");
    let svg = plot::grouped_bars(&title, "gain, %", &names, &bars)?;
    Ok((
        "How much sooner the calls of an app are done: more is better.".into(),
        svg,
    ))
}

/// Table of the share of the application's own time in the baseline's time.
fn own(gains: &Gains, timing: &str) -> crate::Listed {
    let head = ["app", "own time, %"].map(String::from).to_vec();
    let lines = gains.sources.iter().zip(&gains.own);
    let lines = lines.map(|(source, own)| vec![source.name(), format!("{:.0}", own * 100.0)]);
    let caption =
        format!("What is not spent in syncs on the baseline, part of its time, timing {timing}.");
    (caption, head, lines.collect())
}

fn words() -> Vec<String> {
    vec![
        "Performance is calls over the time they take when the app is busy: its own time between calls is that of the recording, \
         pauses longer than 20 ms (waiting for a user or the network) are left out, and what follows a sync of the same thread is the \
         recording device's time and not the app's. It is fitted to no result; rows with half and twice the own time show how much hangs on it."
            .into(),
    ]
}
