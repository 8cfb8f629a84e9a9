//! Sensitivity to the device: the schemes over the apps, on cards with cheaper and dearer flushes,
//! with other packs and reliable writes, and without a cache.
//!
//! A card is the standard one with single fields changed, as `--device` takes them. F is the time
//! of a flush with one dirty block of 4 KiB; a card of the series of flush costs has the same F
//! under both timing sets, the others have that of the standard card under the set.

use super::fig_performance::published_means;
use super::job::{Job, Outcomes, run_of};
use super::measure::{gain, mean};
use super::plan::{DEVICE, FIG8, Pace, Plan, Source};
use crate::PaperError;
use crate::beside::group;
use crate::{Row, Section};
use report::plot;
use report::results::Run;
use work::recording::apps::APPS;

const FIGURE: &str = "Sensitivity";
const BASE: &str = "jbd2";
/// The schemes that are compared with the baseline.
pub(super) const SCHEMES: [&str; 7] = [
    "flush-ahead",
    "coalition",
    "coalition-paper",
    "emmc",
    "emmc-paper",
    "adaptive",
    "none",
];
/// Apps of a quick report: with many small transactions, with large ones, and with few.
const QUICK: [&str; 3] = ["facebook", "twitter", "gmail"];
/// Length of a run at most, seconds of recording, as there are many runs.
const SECONDS_MAX: u64 = 20;
/// Gains that differ by less than this count as equal.
pub(super) const MARGIN: f64 = 0.02;

/// A card that is tried.
pub(super) struct Card {
    /// Its name in rows.
    pub name: &'static str,
    /// What is changed, and why.
    pub why: &'static str,
    /// F in milliseconds, if the card belongs to the series of flush costs.
    pub flush_ms: Option<f64>,
    /// The changed fields under `fig8` and under `paper-fit`.
    changes: [&'static str; 2],
}

impl Card {
    /// The device as a configuration names it.
    pub fn device(&self, timing: &str) -> String {
        let changes = self.changes[usize::from(timing != FIG8)];
        match changes {
            "" => DEVICE.into(),
            changes => format!("{DEVICE},{changes}"),
        }
    }
}

/// All cards: the standard one, the series of flush costs, then the others.
pub(super) const CARDS: [Card; 8] = [
    Card {
        name: "ordinary",
        why: "emmc-odroid-xu4 as it is: F is 1.48 ms under fig8 (1 to 1.5 ms were measured on a SanDisk iNAND 16 GB) and 0.52 ms under paper-fit",
        flush_ms: None,
        changes: ["", ""],
    },
    Card {
        name: "cheap flush",
        why: "F is 0.39 ms: the cache is written to cells with one bit each (250 us) without a detour of the firmware; a reliable write costs \
              what it did. Best of the published rates of write and fdatasync on eMMC 5.0 is 2297 a second, 0.44 ms with the write",
        flush_ms: Some(0.39),
        changes: [
            "nand.timing.program_us=250,timing.fig8.flush_us=0,timing.fig8.reliable_us=630",
            "timing.paper-fit.flush_us=20.5",
        ],
    },
    Card {
        name: "expensive flush",
        why: "F is 2.34 ms: the worst of those published rates, 403 a second",
        flush_ms: Some(2.34),
        changes: [
            "timing.fig8.flush_us=1405",
            "timing.paper-fit.flush_us=1970.5",
        ],
    },
    Card {
        name: "very expensive flush",
        why: "F is 5 ms, as of a removable card; assumed, no source",
        flush_ms: Some(5.0),
        changes: [
            "timing.fig8.flush_us=4060.5",
            "timing.paper-fit.flush_us=4630.5",
        ],
    },
    Card {
        name: "packs keep any subset",
        why: "a cut inside a packed command leaves any of its entries, as a Hynix part was seen to do",
        flush_ms: None,
        changes: ["card.pack_order=any-subset", "card.pack_order=any-subset"],
    },
    Card {
        name: "no packs",
        why: "MAX_PACKED_WRITES is 0, or the driver has none (Linux dropped them about 4.10)",
        flush_ms: None,
        changes: ["card.max_packed_writes=0", "card.max_packed_writes=0"],
    },
    Card {
        name: "legacy reliable writes",
        why: "EN_REL_WR is 0: a reliable write is one sector, so a block of 4 KiB is eight commands",
        flush_ms: None,
        changes: ["card.en_rel_wr=false", "card.en_rel_wr=false"],
    },
    Card {
        name: "cache off",
        why: "every write is durable when it is done, and no flush is sent",
        flush_ms: None,
        changes: ["card.cache_on=false", "card.cache_on=false"],
    },
];

fn apps(plan: &Plan) -> &'static [&'static str] {
    if plan.quick { &QUICK } else { &APPS }
}

/// The job that runs an app on a card.
pub(super) fn job(plan: &Plan, app: &str, scheme: &str, card: &Card, timing: &str) -> Job {
    let mut stack = plan.stack(scheme, timing);
    stack.device = card.device(timing);
    let short = Plan {
        seconds: plan.seconds.min(SECONDS_MAX),
        ..plan.clone()
    };
    plan.on(stack, &short.app_text(app, Pace::BUSY))
}

fn schemes() -> impl Iterator<Item = &'static str> {
    [BASE].into_iter().chain(SCHEMES)
}

/// The jobs: every scheme on every card, under both timing sets.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for card in &CARDS {
            for app in apps(plan) {
                all.extend(schemes().map(|scheme| job(plan, app, scheme, card, timing)));
            }
        }
    }
    all
}

/// Gains over the baseline on one card, under one timing set.
struct Gains {
    /// Gains in the order of [`SCHEMES`], by app.
    by_app: Vec<[f64; SCHEMES.len()]>,
}

impl Gains {
    fn take(
        plan: &Plan,
        outcomes: &Outcomes,
        card: &Card,
        timing: &str,
    ) -> Result<Gains, PaperError> {
        let mut by_app = Vec::new();
        for app in apps(plan) {
            let run = |scheme| -> Result<&Run, PaperError> {
                run_of(outcomes, &job(plan, app, scheme, card, timing))
            };
            let base = run(BASE)?;
            let mut gains = [0.0; SCHEMES.len()];
            for (place, scheme) in gains.iter_mut().zip(SCHEMES) {
                *place = gain(run(scheme)?, base);
            }
            by_app.push(gains);
        }
        Ok(Gains { by_app })
    }

    fn mean(&self, scheme: usize) -> f64 {
        mean(&self.by_app.iter().map(|g| g[scheme]).collect::<Vec<_>>())
    }
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing, or a plot cannot be drawn.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Sensitivity: the device".into(),
        words: words(plan),
        ..Section::default()
    };
    for timing in plan.timings {
        let mut all = Vec::new();
        for card in &CARDS {
            all.push((card, Gains::take(plan, outcomes, card, timing)?));
        }
        for (card, gains) in &all {
            for (s, scheme) in SCHEMES.iter().enumerate() {
                let item = format!("performance of {scheme} over the baseline, mean over the apps");
                let row = Row::ours(FIGURE, &item, "gain", gains.mean(s));
                section.rows.push(row.of(card.name).timed(timing));
            }
        }
        section.words.push(crossings(&all, timing));
        section.tables.push(table(plan, &all, timing));
        section.plots.push(plotted(&all, timing)?);
    }
    Ok(section)
}

fn words(plan: &Plan) -> Vec<String> {
    let mut words = vec![format!(
        "Gains over jbd2 on the same card, {}, {} s of each recording. Fields of emmc-odroid-xu4 are changed one at a time:",
        match plan.quick {
            true => "three of the eight apps",
            false => "all eight apps",
        },
        plan.seconds.min(SECONDS_MAX)
    )];
    words.extend(CARDS.iter().map(|card| {
        let fields = match card.changes {
            ["", _] => String::new(),
            [a, b] if a == b => format!(" ({a})"),
            [a, b] => format!(" ({a}; {b})"),
        };
        format!("{}: {}{fields}.", card.name, card.why)
    }));
    words
}

type Measured<'a> = [(&'a Card, Gains)];

fn per_cent(gain: f64) -> String {
    format!("{:+.1}", gain * 100.0)
}

fn table(plan: &Plan, all: &Measured<'_>, timing: &str) -> crate::Listed {
    let head = ["card", "app"].into_iter().chain(SCHEMES);
    let mut lines = Vec::new();
    for (card, gains) in all {
        let mut line = |app: &str, values: [f64; SCHEMES.len()]| {
            let mut cells = vec![card.name.to_string(), app.to_string()];
            cells.extend(values.map(per_cent));
            lines.push(cells);
        };
        line("mean", std::array::from_fn(|s| gains.mean(s)));
        for (app, values) in apps(plan).iter().zip(&gains.by_app) {
            line(app, *values);
        }
    }
    (
        format!("Gain over jbd2 on the same card, %, timing {timing}."),
        head.map(String::from).collect(),
        lines,
    )
}

fn plotted(all: &Measured<'_>, timing: &str) -> Result<(String, plot::Plot), PaperError> {
    let groups: Vec<String> = all.iter().map(|(card, _)| card.name.into()).collect();
    let series = SCHEMES.iter().enumerate().map(|(s, scheme)| {
        let values = all.iter().map(|(_, gains)| gains.mean(s) * 100.0);
        ((*scheme).to_string(), values.collect())
    });
    let series: Vec<(String, Vec<f64>)> = series.collect();
    let title = format!("Gain over jbd2 by card, mean over the apps, timing {timing}");
    let drawn = plot::grouped_bars(&title, "gain, %", &groups, &series);
    let caption = "What the schemes gain where flushes or packs are others: more is better. The published means (Fig 13) are those of the paper's card, \
                   for which the first stands.";
    let marks = published_means(&group(CARDS[0].name))?;
    Ok((caption.into(), drawn.beside(&marks)))
}

/// F of the ordinary card under a timing set, milliseconds (docs/design/models.md, `F3` and
/// `paper-fit`).
fn ordinary_flush(timing: &str) -> f64 {
    if timing == FIG8 { 1.48 } else { 0.52 }
}

/// Says where one scheme overtakes another as flushes get dearer.
fn crossings(all: &Measured<'_>, timing: &str) -> String {
    let mut series: Vec<(f64, &Gains)> = Vec::new();
    for (n, (card, gains)) in all.iter().enumerate() {
        let flush = if n == 0 {
            Some(ordinary_flush(timing))
        } else {
            card.flush_ms
        };
        series.extend(flush.map(|f| (f, gains)));
    }
    series.sort_by(|a, b| a.0.total_cmp(&b.0));
    let names: Vec<&str> = schemes().collect();
    let value = |gains: &Gains, scheme: usize| match scheme {
        0 => 0.0,
        s => gains.mean(s - 1),
    };
    let mut found = Vec::new();
    for a in 0..names.len() {
        for b in a + 1..names.len() {
            for pair in series.windows(2) {
                let ahead = |n: usize| value(pair[n].1, b) - value(pair[n].1, a);
                let (before, after) = (ahead(0), ahead(1));
                if before * after >= 0.0 || before.abs().max(after.abs()) < MARGIN {
                    continue;
                }
                let at = pair[0].0 + (pair[1].0 - pair[0].0) * before / (before - after);
                let (first, second) = if after > 0.0 { (b, a) } else { (a, b) };
                found.push(format!(
                    "{} passes {} at F = {at:.1} ms",
                    names[first], names[second]
                ));
            }
        }
    }
    match found.is_empty() {
        true => format!(
            "{timing}: from the cheapest flush to the dearest no scheme passes another by more than 2 points."
        ),
        false => format!(
            "{timing}, as flushes get dearer (straight lines between the cards, mean over the apps): {}.",
            found.join("; ")
        ),
    }
}

/// The source of a generated app, for the note of its rows.
pub(super) fn source(plan: &Plan, app: &str) -> Option<Source> {
    let mut all = plan.sources().into_iter();
    all.find(|s| s.app == app && s.is_generated())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_card_can_be_built_and_takes_every_scheme() {
        let plan = Plan::new(true, 1, None);
        for timing in plan.timings {
            for card in &CARDS {
                for scheme in schemes() {
                    let mut stack = plan.stack(scheme, timing);
                    stack.device = card.device(timing);
                    stack.check().expect(card.name);
                }
            }
        }
    }

    #[test]
    fn flushes_of_the_series_cost_what_the_cards_say() {
        use crate::emmc::plan::FIT;
        // This is one append of a block and its flush. The write takes the same on all cards, so
        // the difference of two cards is that of their F.
        let flush = |card: &Card, timing: &str| {
            let mut stack = Plan::new(true, 1, None).stack("none", timing);
            stack.device = card.device(timing);
            stack.bytes = 64 << 20;
            stack.journal_blocks = None;
            stack.timers = false;
            let config = work::RunConfig {
                stack,
                workload: "fsync:op=overwrite,count=40,file=160k,sync=fdatasync".into(),
                seed: 1,
                recording: None,
            };
            let run = work::run::run(&config, &mut |_, _| {}).unwrap().run;
            run.fsync_us["flush"] / 1e3
        };
        for timing in [FIG8, FIT] {
            for card in CARDS.iter().filter(|c| c.flush_ms.is_some()) {
                let (found, wanted) = (flush(card, timing), card.flush_ms.unwrap());
                assert!(
                    (found / wanted - 1.0).abs() < 0.1,
                    "{}, {timing}: {found} ms instead of {wanted}",
                    card.name
                );
            }
            let found = flush(&CARDS[0], timing);
            assert!(
                (found / ordinary_flush(timing) - 1.0).abs() < 0.1,
                "{timing}: {found}"
            );
        }
    }
}
