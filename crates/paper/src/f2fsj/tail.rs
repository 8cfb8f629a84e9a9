//! Section 5.2: the time of the journal beside that of checkpoints, and the latency of operations.

use super::fig2::{PREPARED, prepared};
use super::job::{Job, Outcomes};
use super::measure::{Journaled, Measured};
use super::micro::{Found, SYSTEMS, title};
use super::names::{At, Op};
use super::system::System;
use super::{Plan, published};
use crate::PaperError;
use crate::{Listed, Published, Row, Section, Table, number};
use report::plot::{self, Mark, Says};

const FIGURE: &str = "5.2";

/// The jobs: every operation of the section on every system; of the two that are compared causes
/// are varied.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let of = |op: Op| {
        let all = SYSTEMS.map(|system| op.at(plan, system, At::Whole));
        let compared = [System::Checkpoint60, System::F2fsj];
        let more = compared
            .into_iter()
            .flat_map(move |system| At::VARIED.map(|at| op.at(plan, system, at)));
        all.into_iter().chain(more).map(Job::Bench)
    };
    Op::FOUR.into_iter().flat_map(of).collect()
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published();
    let found = Found::new(plan, outcomes);
    let mut rows = Vec::new();
    for op in Op::FOUR {
        rows.extend(times(&table, op, &found)?);
    }
    for op in Op::FOUR {
        rows.push(mean(&table, op, &found)?);
    }
    for op in Op::FOUR {
        rows.extend(worst(&table, op, &found)?);
    }
    let mut plots = Vec::new();
    for op in Op::FOUR {
        plots.push(tail(op, &found)?);
        plots.push(over_time(op, &found)?);
    }
    Ok(Section {
        title: "5.2: journal and checkpoints".into(),
        words: WORDS.map(String::from).into(),
        rows,
        tables: vec![latencies(&found)?, spent(&found)?],
        plots,
    })
}

const WORDS: [&str; 3] = [
    "Checkpoint time is what operations of stock F2FS (checkpoint-60) spend inside of checkpoints. Journal time is what operations of F2FSJ spend on the \
     journal: making records, its locks, and waits for room or a commit. Commits and applies run in tasks of their own on other cores; what \
     they take is in the row beside it and has no published value.",
    "The worst latency is published as about three orders of magnitude lower. Our own aim for F2FSJ is below a hundredth of checkpoint-60's worst; what \
     operations waited for stands in the table.",
    "Runs are cut into 200 slices of equal length; the plots over time show the longest operation of each, so that each checkpoint is a peak.",
];

/// Why a quotient has no denominator.
const NO_TIME: &str =
    "operations of F2FSJ spent no time on the journal, so there is nothing to divide by";

fn times(table: &Table, op: Op, found: &Found<'_>) -> Result<Vec<Row>, PaperError> {
    let item = format!("{}: checkpoint time over journal time", op.word());
    let published = table.get(FIGURE, &item, None);
    let both = |at: At| -> Result<(&Measured, Journaled), PaperError> {
        let stock = found.of(op, System::Checkpoint60, at)?;
        let journal = found.of(op, System::F2fsj, at)?.journal.clone();
        Ok((stock, journal.unwrap_or_default()))
    };
    let gain = |a: f64, b: f64| (b > 0.0).then(|| a / b - 1.0);
    let (stock, journal) = both(At::Whole)?;
    let (inside, spent) = (stock.checkpoints.inside_s, journal.of_operations());
    let varied = At::experiments(found.plan, |at| {
        let (stock, journal) = both(at)?;
        let journal = journal.of_operations();
        Ok(gain(stock.checkpoints.inside_s, journal).unwrap_or(f64::INFINITY))
    })?;
    let mut rows = vec![match gain(inside, spent) {
        Some(gain) => Row::judged(published, gain)
            .because(&why_time(stock, &journal))
            .shown_by_all(published, varied),
        None => Row::unmeasured(published, Some(NO_TIME)),
    }];
    if op.removes() {
        let of = |system| found.of(op, system, At::Whole);
        let (stock, ours) = (of(System::Checkpoint60)?, of(System::F2fsj)?);
        let (stock, ours) = (stock.with_preparation(), ours.with_preparation());
        let item = format!("{item}, with the preparation");
        if let Some(gain) = gain(stock.checkpoints_s, ours.journal_s) {
            let row = rows[0].clone();
            rows[0] = row.shown_by(published, prepared(gain));
            rows.push(Row::ours(FIGURE, &item, "gain", gain).noted(PREPARED));
        }
    }
    let item = format!(
        "{}: checkpoint time over the time of journal, commits and applies",
        op.word()
    );
    let gain = gain(inside, spent + journal.of_tasks());
    rows.extend(gain.map(|gain| Row::ours(FIGURE, &item, "gain", gain)));
    Ok(rows)
}

fn why_time(stock: &Measured, journal: &Journaled) -> String {
    let seconds = |what: f64| number(what * 1e3);
    let packs = stock.checkpoints.packs;
    let spent = format!(
        "F2FSJ's operations spent {} ms on the journal ({}), its tasks {} ms on {} commits and the applies",
        seconds(journal.of_operations()),
        named(journal),
        seconds(journal.of_tasks()),
        journal.commits
    );
    match packs {
        0 => format!(
            "no checkpoint was written in {} s: no interval passed, and {} operations made no count reach its trigger; {spent}",
            number(stock.seconds),
            stock.ops
        ),
        _ => format!(
            "{packs} checkpoints took {} ms, {} of the run of {} s; {spent}",
            seconds(stock.checkpoints.inside_s),
            number(super::fig2::share(stock)),
            number(stock.seconds)
        ),
    }
}

/// The parts of the operations' time, by cause, in milliseconds.
fn named(journal: &Journaled) -> String {
    let parts = journal.operations_s();
    let parts = parts
        .into_iter()
        .map(|(name, s)| format!("{name} {}", number(s * 1e3)));
    let text = parts.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "none".into() } else { text }
}

fn mean(table: &Table, op: Op, found: &Found<'_>) -> Result<Row, PaperError> {
    let item = format!("{}: mean latency, F2FSJ over checkpoint-60", op.word());
    let gain = |at: At| -> Result<f64, PaperError> {
        let of = |system| Ok::<f64, PaperError>(found.of(op, system, at)?.latency_us.mean);
        Ok(of(System::F2fsj)? / of(System::Checkpoint60)?.max(f64::MIN_POSITIVE) - 1.0)
    };
    let stock = found.of(op, System::Checkpoint60, At::Whole)?;
    let own = found.of(op, System::F2fsj, At::Whole)?;
    let journal = own.journal.clone().unwrap_or_default();
    let each = |seconds: f64, of: &Measured| number(seconds * 1e6 / of.ops.max(1) as f64);
    let why = format!(
        "of {} us with checkpoint-60 an operation is inside of checkpoints for {}; of {} us with F2FSJ it spends {} on the journal: what is saved \
         less what is added",
        number(stock.latency_us.mean),
        each(stock.checkpoints.inside_s, stock),
        number(own.latency_us.mean),
        each(journal.of_operations(), own)
    );
    let published = table.get(FIGURE, &item, None);
    let row = Row::judged(published, gain(At::Whole)?).because(&why);
    let row = row.shown_by_all(published, At::experiments(found.plan, gain)?);
    if !op.removes() {
        return Ok(row);
    }
    let preparation = found.gain_with_preparation(op, (System::Checkpoint60, System::F2fsj))?;
    Ok(row.shown_by(published, prepared(preparation)))
}

fn worst(table: &Table, op: Op, found: &Found<'_>) -> Result<Vec<Row>, PaperError> {
    let item = "worst latency, checkpoint-60 over F2FSJ, orders of magnitude";
    let stock = found.of(op, System::Checkpoint60, At::Whole)?;
    let own = found.of(op, System::F2fsj, At::Whole)?;
    let journal = own.journal.clone().unwrap_or_default();
    let times = stock.latency_us.max / own.latency_us.max.max(1e-3);
    let why = format!(
        "{} us with checkpoint-60 ({} checkpoints) and {} us with F2FSJ, whose operations waited {} ms in all ({})",
        number(stock.latency_us.max),
        stock.checkpoints.packs,
        number(own.latency_us.max),
        number(journal.of_operations() * 1e3),
        named(&journal)
    );
    let published = table.get(FIGURE, item, None);
    let varied = At::experiments(found.plan, |at| {
        let of = |system| Ok::<f64, PaperError>(found.of(op, system, at)?.latency_us.max);
        Ok((of(System::Checkpoint60)? / of(System::F2fsj)?.max(1e-3)).log10())
    })?;
    let judged = Row::judged(published, times.log10()).because(&why);
    let judged = judged.shown_by_all(published, varied);
    let item = "worst latency, F2FSJ over checkpoint-60; aim: below 0.01";
    Ok(vec![
        judged.of(op.word()),
        Row::ours(FIGURE, item, "fraction", 1.0 / times).of(op.word()),
    ])
}

fn latencies(found: &Found<'_>) -> Result<Listed, PaperError> {
    const HEAD: [&str; 8] = [
        "operation",
        "system",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "worst",
        "checkpoints",
    ];
    let mut lines = Vec::new();
    for op in Op::FOUR {
        for system in SYSTEMS {
            let of = found.of(op, system, At::Whole)?;
            let l = &of.latency_us;
            let values = [l.mean, l.p50, l.p99, l.p99_9, l.max].map(number);
            let first = [op.word().to_string(), title(system)];
            let last = [of.checkpoints.packs.to_string()];
            lines.push(first.into_iter().chain(values).chain(last).collect());
        }
    }
    let caption = "Latency of an operation, microseconds".into();
    Ok((caption, HEAD.map(String::from).into(), lines))
}

fn spent(found: &Found<'_>) -> Result<Listed, PaperError> {
    const HEAD: [&str; 7] = [
        "operation",
        "run",
        "checkpoint-60: inside of checkpoints",
        "F2FSJ: operations",
        "of that",
        "commits",
        "applies",
    ];
    let mut lines = Vec::new();
    for op in Op::FOUR {
        for at in [At::Whole].into_iter().chain(At::LEVELS) {
            let stock = found.of(op, System::Checkpoint60, at)?;
            let own = found.of(op, System::F2fsj, at)?;
            let journal = own.journal.clone().unwrap_or_default();
            let ms = |seconds: f64| number(seconds * 1e3);
            lines.push(vec![
                op.word().into(),
                at.text(found.plan),
                ms(stock.checkpoints.inside_s),
                ms(journal.of_operations()),
                named(&journal),
                ms(journal.commit_s.values().sum()),
                ms(journal.apply_s.values().sum()),
            ]);
        }
    }
    let caption = "Time spent, ms".into();
    Ok((caption, HEAD.map(String::from).into(), lines))
}

fn tail(op: Op, found: &Found<'_>) -> Result<(String, plot::Plot), PaperError> {
    let line = |system| Ok((title(system), found.of(op, system, At::Whole)?.cdf.clone()));
    let lines: Result<Vec<_>, PaperError> = SYSTEMS.into_iter().map(line).collect();
    let title = format!("{}: latency, all systems", op.word());
    let drawn = plot::tail(&title, "us", &lines?);
    let worst = worst_published(op);
    let at = worst.value.map(|ms| plot::At::X(ms * 1e3));
    let mark = at.and_then(|at| worst.mark(Some(&self::title(System::Checkpoint60)), at));
    let mark = mark.map(|mark| Mark {
        says: Says::Here,
        ..mark
    });
    let marks: Vec<_> = mark.into_iter().collect();
    Ok((format!("{title}. {WORST}"), drawn.beside(&marks)))
}

/// What the captions say of the published worst latency.
const WORST: &str = "Published is the worst latency of checkpoint-60 (Fig 2b), on another machine.";

/// The worst latency of stock F2FS, milliseconds.
fn worst_published(op: Op) -> Published {
    let item = format!("{}: worst latency", op.word());
    published().get("Fig 2b", &item, None).clone()
}

/// Plot of the longest operation in each slice of the run.
fn over_time(op: Op, found: &Found<'_>) -> Result<(String, plot::Plot), PaperError> {
    let shown = [
        System::Checkpoint60,
        System::Checkpoint5Bg,
        System::Ext4,
        System::F2fsj,
    ];
    let line = |system| {
        let series = &found.of(op, system, At::Whole)?.series;
        let points = series.iter().filter(|s| s.ops > 0 || s.max_us > 0.0);
        let points = points.map(|s| (s.at, s.max_us)).collect();
        Ok((title(system), points))
    };
    let lines: Result<Vec<_>, PaperError> = shown.into_iter().map(line).collect();
    let title = format!("{}: longest operation over the run", op.word());
    let drawn = plot::lines(&title, ("s", "us"), &lines?);
    let mark = worst_published(op).mark(Some(&self::title(System::Checkpoint60)), plot::At::All);
    let marks: Vec<_> = mark
        .map(|mark| mark.map(|ms| ms * 1e3))
        .into_iter()
        .collect();
    Ok((format!("{title}. {WORST}"), drawn.beside(&marks)))
}
