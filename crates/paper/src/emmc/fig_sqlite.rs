//! Fig 15: transactions per second of SQLite, by kind of transaction.
//!
//! The paper names its SQLite benchmark only by reference, so the parameters are those of
//! Mobibench: one row per transaction, a rollback journal that is truncated (the default of
//! Mobibench and Android then), `synchronous=FULL`. The other journal modes are rows without a
//! published value.

use super::cards::{Card, FLAT, RANDOM, STANDARD};
use super::job::{Job, Outcomes, owned_of, run_of};
use super::measure::ratio;
use super::own_time::{Of, OwnTime, PAPER, RECORDINGS};
use super::plan::{BASE, BOTH, BOTH_ALWAYS, FAST, FAST_ADAPTIVE, FIG8, Plan, marked};
use super::published;
use crate::PaperError;
use crate::beside::{group, percent};
use crate::{Experiment, Row, Section};
use report::plot;
use report::results::Run;
use work::workload::JournalMode;

const FIGURE: &str = "Fig 15";
/// The cause of which the program's own time is the experiment.
const OWN: &str = "the program's own time";
/// What runs in [`MODE`] beside baseline and both: the other reading of both, ours, and fast
/// commits.
const BESIDE: [&str; 5] = [BOTH_ALWAYS, "emmc", "adaptive", FAST, FAST_ADAPTIVE];
const KINDS: [&str; 3] = ["insert", "update", "delete"];
/// Own times of the program over the time of the baseline's syncs, beside none at all.
const SHARES: [f64; 2] = [PAPER, RECORDINGS];
/// The schemes that run with each.
const OWNED: [&str; 3] = [BASE, BOTH, BOTH_ALWAYS];
/// Journal mode of the rows with a published value.
const MODE: JournalMode = JournalMode::Truncate;

/// The jobs: every kind in every journal mode, on the baseline and with both mechanisms.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for mode in JournalMode::ALL {
            for kind in KINDS {
                all.extend([BASE, BOTH].map(|scheme| job(plan, kind, mode, scheme, timing)));
            }
        }
        for kind in KINDS {
            all.extend(BESIDE.map(|scheme| job(plan, kind, MODE, scheme, timing)));
            all.extend(SHARES.map(|share| owned(plan, kind, timing, share)));
        }
    }
    for kind in KINDS {
        let schemes = [BASE, BOTH, BOTH_ALWAYS];
        all.extend(schemes.map(|scheme| on_card(plan, kind, MODE, scheme, (&RANDOM, FIG8))));
        for card in &FLAT {
            let on = (card, FIG8);
            all.extend([BASE, BOTH].map(|scheme| on_card(plan, kind, MODE, scheme, on)));
        }
    }
    all
}

fn job(plan: &Plan, kind: &str, mode: JournalMode, scheme: &str, timing: &str) -> Job {
    on_card(plan, kind, mode, scheme, (&STANDARD, timing))
}

/// The transactions of a program that computes itself for `share` of the baseline's syncs.
fn owned(plan: &Plan, kind: &str, timing: &str, share: f64) -> Job {
    let configs = OWNED.map(|scheme| match job(plan, kind, MODE, scheme, timing) {
        Job::Run(config) => config,
        other => unreachable!("a workload is a plain run: {other:?}"),
    });
    Job::OwnTime(OwnTime {
        runs: configs.to_vec(),
        share,
        of: Of::Sqlite,
    })
}

/// The gains of what [`OWNED`] names behind the baseline, with each own time.
fn owned_gains(
    plan: &Plan,
    outcomes: &Outcomes,
    kind: &str,
    timing: &str,
) -> Result<[[f64; 2]; 2], PaperError> {
    let mut gains = [[0.0; 2]; 2];
    for (n, share) in SHARES.into_iter().enumerate() {
        let runs = &owned_of(outcomes, &owned(plan, kind, timing, share))?.runs;
        let gain = |scheme: usize| ratio(runs[scheme].ops_per_s, runs[0].ops_per_s) - 1.0;
        gains[n] = [gain(1), gain(2)];
    }
    Ok(gains)
}

fn on_card(
    plan: &Plan,
    kind: &str,
    mode: JournalMode,
    scheme: &str,
    (card, timing): (&Card, &str),
) -> Job {
    let mut stack = plan.stack(scheme, timing);
    stack.device = card.device();
    let text = format!("mobibench:{kind},journal={}", mode.word());
    plan.on(stack, &text)
}

/// Makes the section of this figure.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut section = Section {
        title: "Fig 15: SQLite".into(),
        words: vec![WORDS.into()],
        ..Section::default()
    };
    for timing in plan.timings {
        let mut bars = Vec::new();
        for mode in JournalMode::ALL {
            let mut gains = Vec::new();
            for kind in KINDS {
                let of = |scheme| run_of(outcomes, &job(plan, kind, mode, scheme, timing));
                let (base, both) = (of(BASE)?, of(BOTH)?);
                let gain = ratio(both.ops_per_s, base.ops_per_s) - 1.0;
                gains.push(gain * 100.0);
                section.rows.push(if mode == MODE {
                    let row = judged(kind, gain, base, both)?.timed(timing);
                    shown(row, plan, outcomes, kind, timing)?
                } else {
                    let row = Row::ours(FIGURE, &item(kind), "gain", gain);
                    row.of(&format!("journal={}", mode.word())).timed(timing)
                });
            }
            bars.push((mode.word().to_string(), gains));
        }
        let title = format!("SQLite, both over the baseline, timing {timing}");
        let drawn = plot::grouped_bars(&title, "gain, %", &KINDS.map(String::from), &bars);
        section.plots.push((
            "Transactions per second by journal mode: more is better.".into(),
            drawn.beside(&marks()?),
        ));
        section.rows.extend(beside(plan, outcomes, timing)?);
        section.tables.push(parts(plan, outcomes, timing)?);
    }
    Ok(section)
}

fn item(kind: &str) -> String {
    format!("SQLite {kind}, transactions per second of both over the baseline")
}

/// The published gains, per cent.
fn marks() -> Result<Vec<plot::Mark>, PaperError> {
    let table = published()?;
    let mark = |kind| {
        let published = table.get(FIGURE, &item(kind), None);
        let mark = published.mark(Some(MODE.word()), group(kind))?;
        Some(mark.map(percent))
    };
    Ok(KINDS.into_iter().filter_map(mark).collect())
}

fn judged(kind: &str, gain: f64, base: &Run, both: &Run) -> Result<Row, PaperError> {
    let table = published()?;
    let published = table.get(FIGURE, &item(kind), None);
    let cause = cause(base, both, published.value.unwrap_or_default());
    Ok(Row::judged(published, gain).because(&cause))
}

/// The row with its experiments: own time of the program, a commit block behind every transaction,
/// and, under `fig8`, cards with dear random writes and with reliable writes of one cost.
fn shown(
    row: Row,
    plan: &Plan,
    outcomes: &Outcomes,
    kind: &str,
    timing: &str,
) -> Result<Row, PaperError> {
    let table = published()?;
    let published = table.get(FIGURE, &item(kind), None);
    let gain = |scheme: &str, on: (&Card, &str)| gain_on(plan, outcomes, kind, scheme, on);
    let (block, place) = (
        "a commit block behind every transaction",
        "the cost of a random write",
    );
    let with = gain(BOTH_ALWAYS, (&STANDARD, timing))?;
    let row = row.shown_by(published, Experiment::on(block).with("with it", with));
    let (mut own, mut own_block) = (
        Experiment::on(OWN),
        Experiment::on(&format!("{OWN}, and {block}")),
    );
    let gains = owned_gains(plan, outcomes, kind, timing)?;
    for (share, [both, always]) in SHARES.into_iter().zip(gains) {
        let with = format!("{share} of the time of the baseline's syncs");
        own = own.with(&with, both);
        own_block = own_block.with(&with, always);
    }
    let row = row.shown_by(published, own).shown_by(published, own_block);
    if timing != FIG8 {
        return Ok(row);
    }
    let random = (&RANDOM, FIG8);
    let with = Experiment::on(place).with(RANDOM.name, gain(BOTH, random)?);
    let all = Experiment::on(&format!("{block} and {place}"));
    let all = all.with("with both", gain(BOTH_ALWAYS, random)?);
    let mut slope = Experiment::on("a reliable write whose cost has no slope");
    for card in &FLAT {
        slope = slope.with(card.name, gain(BOTH, (card, FIG8))?);
    }
    let tried = [with, all, slope].into_iter();
    Ok(tried.fold(row, |row, tried| row.shown_by(published, tried)))
}

/// The gain of a scheme in transactions a second on a card.
fn gain_on(
    plan: &Plan,
    outcomes: &Outcomes,
    kind: &str,
    scheme: &str,
    on: (&Card, &str),
) -> Result<f64, PaperError> {
    let of = |scheme| run_of(outcomes, &on_card(plan, kind, MODE, scheme, on));
    Ok(ratio(of(scheme)?.ops_per_s, of(BASE)?.ops_per_s) - 1.0)
}

/// Rows of what runs beside the paper's both.
fn beside(plan: &Plan, outcomes: &Outcomes, timing: &str) -> Result<Vec<Row>, PaperError> {
    let mut rows = Vec::new();
    for kind in KINDS {
        let of = |scheme| run_of(outcomes, &job(plan, kind, MODE, scheme, timing));
        for scheme in BESIDE {
            let gain = ratio(of(scheme)?.ops_per_s, of(BASE)?.ops_per_s) - 1.0;
            let row = Row::ours(FIGURE, &item(kind), "gain", gain);
            rows.push(marked(row.of(scheme).timed(timing), scheme));
        }
        let family: &[Card] = if timing == FIG8 { &FLAT } else { &[] };
        for card in family {
            let gain = gain_on(plan, outcomes, kind, BOTH, (card, timing))?;
            let row = Row::ours(FIGURE, &item(kind), "gain", gain);
            rows.push(row.of(card.name).timed(timing).noted(card.why));
        }
        let gains = owned_gains(plan, outcomes, kind, timing)?;
        for (share, [both, _]) in SHARES.into_iter().zip(gains) {
            let row = Row::ours(FIGURE, &item(kind), "gain", both);
            rows.push(row.of(&format!("own time {share}")).timed(timing));
        }
    }
    Ok(rows)
}

/// Explains a gain by the time that a transaction spends in its syncs, and what they consist of.
fn cause(base: &Run, both: &Run, published: f64) -> String {
    let words = |run: &Run| {
        let parts = ["data", "log", "flush", "commit-record"].map(|part| {
            let us = run.fsync_us.get(part).copied().unwrap_or_default();
            format!("{part} {us:.0}")
        });
        let share = ratio(
            run.latency_us.fsync.mean * syncs(run),
            run.virtual_seconds * 1e6,
        );
        format!(
            "{:.1} syncs a transaction are {:.0} % of its time, one is {:.0} us ({})",
            ratio(syncs(run), run.ops as f64),
            share * 100.0,
            run.latency_us.fsync.mean,
            parts.join(", ")
        )
    };
    format!(
        "baseline: {}; both: {}. The three kinds make the same syncs, so that their gains are alike: what SQLite itself and the calls compute is \
         charged, and small beside them. {:.1} ms a transaction that no scheme changes would make the \
         published gain of it; the paper does not break a transaction down",
        words(base),
        words(both),
        unchanged_ms(base, both, published)
    )
}

/// Milliseconds that would have to be added to a transaction on both for the gain to be `gain`.
fn unchanged_ms(base: &Run, both: &Run, gain: f64) -> f64 {
    let (base, both) = (ratio(1e3, base.ops_per_s), ratio(1e3, both.ops_per_s));
    ratio(base - (1.0 + gain) * both, gain)
}

/// Number of syncs of a run: the sum of all waiting over its mean.
fn syncs(run: &Run) -> f64 {
    let waited = ["fsync-data", "fsync-commit", "fsync-home", "fsync-flush"];
    let waited = waited.map(|cause| run.waits_us.get(cause).copied().unwrap_or_default());
    ratio(waited.iter().sum(), run.latency_us.fsync.mean)
}

/// Table of what a transaction of the published mode costs in blocks, commands and time.
fn parts(plan: &Plan, outcomes: &Outcomes, timing: &str) -> Result<crate::Listed, PaperError> {
    let head = [
        "kind", "scheme", "per s", "blocks", "flushes", "FUA", "sync, us", "data", "log", "flush",
        "record",
    ];
    let mut lines = Vec::new();
    for kind in KINDS {
        for scheme in [BASE, BOTH] {
            let run = run_of(outcomes, &job(plan, kind, MODE, scheme, timing))?;
            let per = |n: u64| format!("{:.2}", ratio(n as f64, run.ops as f64));
            let us =
                |part: &str| format!("{:.0}", run.fsync_us.get(part).copied().unwrap_or_default());
            let commands = &run.device.commands;
            lines.push(vec![
                kind.into(),
                scheme.into(),
                format!("{:.1}", run.ops_per_s),
                per(run.blocks.values().sum()),
                per(commands.flushes),
                per(commands.fua_writes),
                format!("{:.0}", run.latency_us.fsync.mean),
                us("data"),
                us("log"),
                us("flush"),
                us("commit-record"),
            ]);
        }
    }
    let caption = format!(
        "A transaction in its parts, journal={}, timing {timing}.",
        MODE.word()
    );
    Ok((caption, head.map(String::from).to_vec(), lines))
}

const WORDS: &str = "Mobibench's SQLite test: 100 transactions of one row each; updates and deletes find 100 rows. The paper names neither journal mode nor number of \
    transactions; its rows are compared with the default of the tool, TRUNCATE with synchronous=FULL.";
