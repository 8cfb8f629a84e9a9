//! The tables of a comparison's page. Each row is headed by its run.

use super::{classes, name, per_op};
use crate::causes::{self, By};
use crate::energy;
use crate::results::Run;
use crate::shell::{row, scrolled};
use crate::wear::{self, Erased};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// Columns that fit beside each other on a screen of 1280 pixels.
const COLUMNS: usize = 12;

/// A table with one row per run, or one column per run where there are too many figures; on a
/// narrow screen each row is a card.
fn table(head: &[String], runs: &[Run], cells: impl Fn(&Run) -> Vec<String>) -> Markup {
    let names: Vec<String> = runs.iter().map(name).collect();
    let cells: Vec<Vec<String>> = runs.iter().map(cells).collect();
    if head.len() <= COLUMNS {
        return cards("run", head, &names, |row, column| &cells[row][column]);
    }
    cards("figure", &names, head, |row, column| &cells[column][row])
}

fn cards<'a>(
    corner: &str,
    columns: &[String],
    rows: &[String],
    cell: impl Fn(usize, usize) -> &'a String,
) -> Markup {
    scrolled(&html! {
        table.cards {
            thead { tr { th scope="col" { (corner) } @for head in columns { th scope="col" { (head) } } } }
            tbody {
                @for (r, row) in rows.iter().enumerate() {
                    tr {
                        th scope="row" { (row) }
                        @for (c, head) in columns.iter().enumerate() { td data-head=(head) { (cell(r, c)) } }
                    }
                }
            }
        }
    })
}

fn heads(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_string()).collect()
}

pub(super) fn summary(runs: &[Run]) -> Markup {
    let head = heads(&[
        "ops/s",
        "gain %",
        "fsync p50, us",
        "fsync p99, us",
        "blocks/op",
        "journal share",
        "flushes/op",
        "FUA/op",
        "programs/op",
        "mJ/op",
        "life",
    ]);
    let first = runs.first().map_or(0.0, |r| r.ops_per_s);
    table(&head, runs, |r| {
        let total: u64 = r.blocks.values().sum();
        vec![
            format!("{:.1}", r.ops_per_s),
            crate::gain(r.ops_per_s, first),
            format!("{:.0}", r.latency_us.fsync.p50),
            format!("{:.0}", r.latency_us.fsync.p99),
            format!("{:.2}", per_op(r, Some(total))),
            format!("{:.1} %", r.journal_block_ratio * 100.0),
            format!("{:.2}", per_op(r, Some(r.device.commands.flushes))),
            format!("{:.2}", per_op(r, Some(r.device.commands.fua_writes))),
            r.flash.as_ref().map_or_else(
                || "-".into(),
                |f| format!("{:.2}", per_op(r, Some(f.programs))),
            ),
            energy::per_op(r.energy_j.as_ref(), r.ops),
            wear::life(r),
        ]
    })
}

/// The table of the rates of each kind of operation.
pub(super) fn kinds(runs: &[Run]) -> Markup {
    let kinds = crate::kinds(runs);
    // Below each other the two would be told apart by their order alone.
    let below = 2 * kinds.len() > COLUMNS;
    let gain = |kind: &String| {
        if below {
            format!("{kind}, gain %")
        } else {
            "gain %".into()
        }
    };
    let columns = |kind: &String| [format!("{kind}/s"), gain(kind)];
    let head: Vec<String> = kinds.iter().flat_map(columns).collect();
    let rate = |run: &Run, kind: &str| run.ops_by_kind.get(kind).map_or(0.0, |k| k.ops_per_s);
    table(&head, runs, |r| {
        let cells = kinds.iter().flat_map(|kind| {
            let here = rate(r, kind);
            // An operation that only reads the page cache takes no virtual time and has no rate.
            let shown = match here > 0.0 {
                true => format!("{here:.1}"),
                false => "-".into(),
            };
            [shown, crate::gain(here, rate(&runs[0], kind))]
        });
        cells.collect()
    })
}

pub(super) fn latencies(runs: &[Run]) -> Markup {
    table(
        &heads(&["mean", "p50", "p90", "p95", "p99", "p99.9", "max"]),
        runs,
        |r| {
            let l = &r.latency_us.fsync;
            let all = [l.mean, l.p50, l.p90, l.p95, l.p99, l.p99_9, l.max];
            all.iter().map(|x| format!("{x:.0}")).collect()
        },
    )
}

pub(super) fn parts(runs: &[Run]) -> Markup {
    let mut head = crate::fsync_parts(runs);
    let shown = head.clone();
    head.push("mean".into());
    table(&head, runs, |r| {
        let part = |p: &String| r.fsync_us.get(p).copied().unwrap_or(0.0);
        let mut cells: Vec<String> = shown.iter().map(|p| format!("{:.0}", part(p))).collect();
        cells.push(format!("{:.0}", r.latency_us.fsync.mean));
        cells
    })
}

pub(super) fn blocks(runs: &[Run]) -> Markup {
    let classes: Vec<String> = classes(runs).into_iter().collect();
    let mut head = classes.clone();
    head.push("all".into());
    table(&head, runs, |r| {
        let mut cells: Vec<u64> = classes
            .iter()
            .map(|c| r.blocks.get(c).copied().unwrap_or(0))
            .collect();
        cells.push(r.blocks.values().sum());
        cells.iter().map(u64::to_string).collect()
    })
}

pub(super) fn device(runs: &[Run]) -> Markup {
    let head = heads(&[
        "reads",
        "writes",
        "flushes",
        "FUA",
        "reliable",
        "packed",
        "programs",
        "erases",
        "GC copies",
        "map programs",
        "programmed/written",
        "erases due",
        "of them for the map",
        "erases due, SLC area",
        "host TB until worn",
        "erases of a block: least / mean / most",
    ]);
    table(&head, runs, |r| {
        let d = &r.device.commands;
        let mut cells: Vec<String> = [
            d.reads,
            d.writes,
            d.flushes,
            d.fua_writes,
            d.reliable_writes,
            d.packed_commands,
        ]
        .iter()
        .map(u64::to_string)
        .collect();
        let flash = r
            .flash
            .as_ref()
            .map(|f| [f.programs, f.erases, f.gc_copies, f.map_programs]);
        cells.extend(flash.map_or(vec!["-".to_string(); 4], |f| {
            f.iter().map(u64::to_string).collect()
        }));
        let figure = |x: Option<f64>| x.map_or("-".into(), |x| format!("{x:.2}"));
        cells.push(figure(r.flash.as_ref().map(|f| f.write_amplification)));
        cells.push(figure(r.wear.map(|w| w.erases_due)));
        cells.push(figure(r.wear.and_then(|w| w.map).map(|map| map.erases_due)));
        let slc = r.wear.and_then(|w| w.slc);
        cells.push(slc.map_or("none".into(), |slc| {
            let first = if slc.first { ", worn out first" } else { "" };
            format!("{:.2}{first}", slc.erases_due)
        }));
        cells.push(figure(r.wear.and_then(|w| w.host_tb)));
        cells.push(r.erased.as_ref().map_or("-".into(), Erased::words));
        cells
    })
}

/// What of a recording causes the writes, for each run and each way to tell it; folded but for the
/// files of the first run.
pub(super) fn causes(runs: &[Run]) -> Markup {
    html! {
        @for (n, run) in runs.iter().enumerate().filter(|(_, run)| run.causes.is_some()) {
            @for by in By::ALL {
                details open[n == 0 && by == By::File] {
                    summary { (name(run)) ", by " (by.to_string()) }
                    (cause_table(run, by))
                }
            }
        }
    }
}

fn cause_table(run: &Run, by: By) -> Markup {
    scrolled(&html! {
        table {
            thead { tr { th scope="col" { (by.to_string()) } @for h in causes::COLUMNS { th scope="col" { (h) } } } }
            tbody { @for cells in causes::rows(run, by) { (row(&cells)) } }
        }
    })
}

pub(super) fn waits(runs: &[Run]) -> Markup {
    let causes: BTreeSet<&String> = runs.iter().flat_map(|r| r.waits_us.keys()).collect();
    let head: Vec<String> = causes.iter().map(|c| (*c).clone()).collect();
    table(&head, runs, |r| {
        causes
            .iter()
            .map(|c| format!("{:.1}", r.waits_us.get(*c).copied().unwrap_or(0.0) / 1000.0))
            .collect()
    })
}
