//! Fig 2 and section 2.3: what the checkpoints of stock F2FS cost with four operations on names.
//! What a cut loses (2c, 2d) is in [`fig_loss`](super::fig_loss).

use super::job::{Job, Outcomes, measured};
use super::measure::Measured;
use super::names::{At, Op};
use super::system::System;
use super::{Plan, published};
use crate::PaperError;
use crate::{Experiment, Row, Section, Table, number};

/// The jobs: each operation with each level of CPU costs, and with an interval of 1 s.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let of = |op: Op| {
        let varied = At::VARIED.map(|at| op.at(plan, System::Checkpoint60, at));
        let both = [System::Checkpoint60, System::Checkpoint1];
        let whole = both.map(|system| op.at(plan, system, At::Whole));
        varied.into_iter().chain(whole).map(Job::Bench)
    };
    Op::FOUR.into_iter().flat_map(of).collect()
}

/// Share of the time of a run that was inside checkpoints.
pub fn share(of: &Measured) -> f64 {
    of.checkpoints.inside_s / of.seconds.max(f64::MIN_POSITIVE)
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published();
    let (mut shares, mut worst, mut more) = (Vec::new(), Vec::new(), Vec::new());
    let mut lines = Vec::new();
    let mut p90 = 0.0_f64;
    for op in Op::FOUR {
        let of = |system, at| measured(outcomes, &op.at(plan, system, at));
        let stock = of(System::Checkpoint60, At::Whole)?;
        let varied = At::experiments(plan, |at| Ok(share(of(System::Checkpoint60, at)?)))?;
        let mut row = share_row(plan, &table, op, (stock, varied));
        let with_preparation = op.removes().then(|| share_with_preparation(op, stock));
        if let Some(share) = with_preparation.as_ref().and_then(|row| row.measured) {
            let published = table.get("Fig 2a", &row.item, None);
            row = row.shown_by(published, prepared(share));
        }
        shares.push(row);
        shares.extend(with_preparation);
        let item = format!("{}: worst latency", op.word());
        let ms = stock.latency_us.max / 1e3;
        worst.push(Row::judged(table.get("Fig 2b", &item, None), ms));
        p90 = p90.max(stock.met_p90_ms);
        more.extend(interval_rows(
            plan,
            op,
            stock,
            of(System::Checkpoint1, At::Whole)?,
        ));
        for at in [At::Whole].into_iter().chain(At::LEVELS) {
            let found = of(System::Checkpoint60, at)?;
            lines.push(line(op.word(), &at.text(plan), found));
        }
    }
    let item = "P90 of operations that met a checkpoint, largest of the four";
    worst.push(Row::judged(table.get("Fig 2b", item, None), p90));
    Ok(Section {
        title: "Fig 2: checkpoints of stock F2FS".into(),
        words: WORDS.map(String::from).into(),
        rows: [shares, worst, more].concat(),
        tables: vec![(
            "Each operation; and at half, the whole and twice the CPU costs of the table with fewer objects".into(),
            HEAD.map(String::from).into(),
            lines,
        )],
        plots: Vec::new(),
    })
}

const HEAD: [&str; 9] = [
    "operation",
    "run",
    "operations",
    "seconds",
    "checkpoints",
    "share",
    "worst (ms)",
    "P90 met (ms)",
    "median (us)",
];

fn line(name: &str, at: &str, found: &Measured) -> Vec<String> {
    vec![
        name.into(),
        at.into(),
        found.ops.to_string(),
        number(found.seconds),
        found.checkpoints.packs.to_string(),
        number(share(found)),
        number(found.latency_us.max / 1e3),
        number(found.met_p90_ms),
        number(found.latency_us.p50),
    ]
}

fn share_row(
    plan: &Plan,
    table: &Table,
    op: Op,
    (stock, varied): (&Measured, [Experiment; 2]),
) -> Row {
    let item = format!("{}: checkpoints, part of the run time", op.word());
    let (packs, ops) = (stock.checkpoints.packs, stock.ops);
    let why = match packs {
        0 => format!(
            "none was written: the run took {} s, so no interval of {} passed, and {ops} operations made no count reach its trigger (8 segments of \
             dirty nodes, a tenth of all node numbers), which does not grow with their number",
            number(stock.seconds),
            plan.interval(60)
        ),
        _ => format!(
            "the parts: {packs} checkpoints of {} ms and {} blocks on the average, one for {} operations of {} us (median) each, which are without the \
             benchmark's own work of the paper's; the run took {} s, and one is due after {} or by \
             counts (8 segments of dirty nodes, a tenth of all node numbers)",
            number(stock.checkpoints.inside_s * 1e3 / packs as f64),
            number(stock.blocks.values().sum::<u64>() as f64 / packs as f64),
            ops / packs,
            number(stock.latency_us.p50),
            number(stock.seconds),
            plan.interval(60)
        ),
    };
    let published = table.get("Fig 2a", &item, None);
    let row = Row::judged(published, share(stock)).because(&why);
    row.shown_by_all(published, varied)
}

/// Beside a removal's row: what its share is if the making of the objects counts.
fn share_with_preparation(op: Op, stock: &Measured) -> Row {
    let item = format!(
        "{}: checkpoints, part of the time with the preparation",
        op.word()
    );
    let whole = stock.with_preparation();
    let share = whole.checkpoints_s / whole.seconds.max(f64::MIN_POSITIVE);
    Row::ours("Fig 2a", &item, "fraction", share).noted(PREPARED)
}

/// What a value of a removal is if the making of the objects counts, for a row outside.
pub fn prepared(value: f64) -> Experiment {
    Experiment::on("what the time has in it").with("the making of the objects too", value)
}

/// The note of rows that count the making of the objects.
pub const PREPARED: &str =
    "counts the making of the objects, as a profile of Filebench with its preallocation does";

fn interval_rows(plan: &Plan, op: Op, stock: &Measured, often: &Measured) -> [Row; 2] {
    let (table, name) = (published(), op.word());
    let item = format!("{name}: run time with an interval of 1 s over 60 s, more");
    let more = often.seconds / stock.seconds.max(f64::MIN_POSITIVE) - 1.0;
    let why = format!(
        "{} checkpoints in {} s with an interval of {}, {} in {} s with {}: what counts trigger comes in both, and only a longer pause between two of \
         them leaves the interval something to do",
        often.checkpoints.packs,
        number(often.seconds),
        plan.interval(1),
        stock.checkpoints.packs,
        number(stock.seconds),
        plan.interval(60)
    );
    let item_inside = format!("{name}: time inside of checkpoints, interval of 1 s less 60 s");
    let inside = often.checkpoints.inside_s - stock.checkpoints.inside_s;
    [
        Row::judged(table.get("Fig 2d", &item, None), more).because(&why),
        Row::ours("Fig 2d", &item_inside, "s", inside),
    ]
}

const WORDS: [&str; 3] = [
    "One process, 100 entries a directory, fewer objects than the paper's 4 million, and intervals as much shorter; checkpoints are triggered by counts (dirty nodes, dirty NAT \
     entries), so the share of what makes objects does not depend on their number once there are a few of them; removals need more. Shares are of the time from the first to the \
     last operation; inside a checkpoint counts from its first block to the end of its commit.",
    "CPU costs are measured on this code (crates/base/src/cost.rs, `cargo xtask calibrate-cpu`) and charged in virtual time; the table shows what half \
     and twice of them give.",
    "As many operations as there were checkpoints count as having met one: the slowest. With one process it is the one that writes it.",
];
