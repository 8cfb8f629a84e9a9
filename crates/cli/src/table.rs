//! The two tables of a comparison: the figures to decide by, and the time of one fsync in its
//! parts.

use base::plain;
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use report::causes::{self, By};
use report::energy;
use report::gain;
use report::results::Run;
use report::wear;

/// What the line below the head is made of.
const LINE: char = '\u{2500}';

/// The figures to decide by, one row per run. Gains are relative to the first row.
pub fn summary(runs: &[Run]) -> Table {
    let mut table = framed([
        "fs/scheme",
        "ops/s",
        "gain %",
        "fsync p50 us",
        "p99 us",
        "blocks/op",
        "journal %",
        "flushes/op",
        "FUA/op",
        "programs/op",
        "mJ/op",
        "life",
    ]);
    let first = runs.first().map_or(0.0, |r| r.ops_per_s);
    for run in runs {
        let per_op = |count: u64| format!("{:.2}", count as f64 / run.ops.max(1) as f64);
        let blocks: u64 = run.blocks.values().sum();
        let flash = run.flash.as_ref();
        let commands = &run.device.commands;
        table.add_row([
            format!("{}/{}", run.fs, run.scheme),
            format!("{:.1}", run.ops_per_s),
            gain(run.ops_per_s, first),
            format!("{:.0}", run.latency_us.fsync.p50),
            format!("{:.0}", run.latency_us.fsync.p99),
            per_op(blocks),
            format!("{:.1}", run.journal_block_ratio * 100.0),
            per_op(commands.flushes),
            per_op(commands.fua_writes),
            flash.map_or("-".into(), |f| per_op(f.programs)),
            energy::per_op(run.energy_j.as_ref(), run.ops),
            wear::life(run),
        ]);
    }
    to_the_right(table)
}

/// What of a recording caused the writes of a run, the largest first.
pub fn causes(run: &Run, by: By) -> Table {
    let first = format!("{}/{} by {by}", run.fs, run.scheme);
    let head = std::iter::once(first.as_str()).chain(causes::COLUMNS);
    let mut table = framed(head);
    for row in causes::rows(run, by) {
        // Names of files and programs are those of a recording, which anybody may have made.
        table.add_row(row.iter().map(|cell| plain::line(cell)));
    }
    to_the_right(table)
}

/// Rates of each kind of operation, if there are several kinds.
pub fn kinds(runs: &[Run]) -> Option<Table> {
    let first = runs.first()?;
    let kinds = report::kinds(runs);
    if kinds.len() < 2 {
        return None;
    }
    let head = kinds
        .iter()
        .flat_map(|kind| [format!("{kind}/s"), "gain %".into()]);
    let mut table = framed(["fs/scheme".to_string()].into_iter().chain(head));
    for run in runs {
        let rate = |run: &Run, kind: &str| run.ops_by_kind.get(kind).map_or(0.0, |k| k.ops_per_s);
        let cells = kinds.iter().flat_map(|kind| {
            let rate_here = rate(run, kind);
            // What only reads the page cache takes no virtual time.
            let shown = if rate_here > 0.0 {
                format!("{rate_here:.1}")
            } else {
                "-".into()
            };
            [shown, gain(rate_here, rate(first, kind))]
        });
        table.add_row(
            [format!("{}/{}", run.fs, run.scheme)]
                .into_iter()
                .chain(cells),
        );
    }
    Some(to_the_right(table))
}

/// One fsync in its parts: mean microseconds, from left to right in the order of a commit.
pub fn fsync_parts(runs: &[Run]) -> Option<Table> {
    let shown = report::fsync_parts(runs);
    if shown.is_empty() {
        return None;
    }
    let head = ["one fsync, us"]
        .into_iter()
        .chain(shown.iter().map(String::as_str));
    let mut table = framed(head.chain(["mean", "commits/op"]));
    for run in runs {
        let name = format!("{}/{}", run.fs, run.scheme);
        let cells = shown.iter().map(|step| match part(run, step) {
            us if us < 0.5 => "-".into(),
            us => format!("{us:.0}"),
        });
        let commits = run.commits as f64 / run.ops.max(1) as f64;
        let ends = [
            format!("{:.0}", run.latency_us.fsync.mean),
            format!("{commits:.2}"),
        ];
        table.add_row([name].into_iter().chain(cells).chain(ends));
    }
    Some(to_the_right(table))
}

fn part(run: &Run, step: &str) -> f64 {
    run.fsync_us.get(step).copied().unwrap_or(0.0)
}

/// A table without rows: a header and a line below it.
pub fn framed<T: Into<comfy_table::Cell>>(head: impl IntoIterator<Item = T>) -> Table {
    let mut table = Table::new();
    let line = LineStyle::none().fill(LINE).junction(LINE);
    table.load_style(TableStyle::new().header_separator(line));
    table.set_header(
        head.into_iter()
            .map(Into::into)
            .collect::<Vec<comfy_table::Cell>>(),
    );
    table
}

/// Aligns figures to the right, in all columns but the first.
pub fn to_the_right(mut table: Table) -> Table {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
