//! The page of a comparison as HTML.

use super::plot::{self, Plot};
use super::shell::{scrolled, whole};
use crate::causes::{self, By};
use crate::energy;
use crate::results::{Results, Run};
use crate::wear::{self, Erased};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// Makes the page of a comparison.
pub fn page(results: &Results) -> String {
    let figures = figures(&results.runs);
    let of_first = |field: fn(&Run) -> &str| results.runs.first().map_or("", field);
    let (workload, timing) = (of_first(|r| &r.workload), of_first(|r| &r.timing));
    let body = html! {
        h1 { "Varve: " (results.command) }
        p {
            "Workload " code { (workload) } " on device profile " code { (results.profile) }
            ", timing " code { (timing) } ", seed " (results.seed) ". Times are virtual; traffic is counted in 4 KiB blocks; gains are over the first row."
        }
        p { "Made by " code { (results.reproduce) } }
        @if let Some(why) = &results.incomplete { p { b { "Incomplete: " (why) } } }
        h2 { "Summary" }
        @if let Some(life) = wear::sentence(&results.runs) { p { (life) } }
        (summary(&results.runs))
        @if super::kinds(&results.runs).len() > 1 {
            h2 { "Rates by kind of operation" }
            (kinds(&results.runs))
        }
        @for (caption, plot) in &figures { (plot.figure(caption)) }
        h2 { "fsync latency, microseconds" }
        (latencies(&results.runs))
        h2 { "One fsync in its parts, mean microseconds" }
        (parts(&results.runs))
        h2 { "Blocks written, by class" }
        (blocks(&results.runs))
        h2 { "Device commands and flash operations" }
        (device(&results.runs))
        (over_time(&results.runs))
        @if results.runs.iter().any(|r| r.causes.is_some()) { (causes(&results.runs)) }
        h2 { "Waits, milliseconds of virtual time" }
        (waits(&results.runs))
    };
    whole(&format!("Varve: {}", results.command), "", &body)
}

/// Name of a run in tables and plots.
fn name(run: &Run) -> String {
    format!("{}/{}", run.fs, run.scheme)
}

type Figures = Vec<(&'static str, Plot)>;

fn figures(runs: &[Run]) -> Figures {
    let single = |value: fn(&Run) -> f64| -> Vec<(String, Vec<f64>)> {
        runs.iter().map(|r| (name(r), vec![value(r)])).collect()
    };
    let one = |text: &str| vec![text.to_string()];
    let classes: Vec<String> = classes(runs).into_iter().collect();
    let by_class = |run: &Run| {
        classes
            .iter()
            .map(|c| per_op(run, run.blocks.get(c).copied()))
            .collect()
    };
    let blocks: Vec<_> = runs.iter().map(|r| (name(r), by_class(r))).collect();
    let parts = super::fsync_parts(runs);
    let by_part = |run: &Run| {
        let part = |p| run.fsync_us.get(p).copied().unwrap_or(0.0);
        parts.iter().map(part).collect()
    };
    let fsyncs: Vec<_> = runs.iter().map(|r| (name(r), by_part(r))).collect();
    let curves: Vec<_> = runs
        .iter()
        .map(|r| (name(r), r.latency_us.fsync_cdf.clone()))
        .collect();
    let mut figures = vec![
        (
            "Operations per virtual second: more is better.",
            plot::stacked_bars(
                "Throughput",
                "operations/s",
                &one("all"),
                &single(|r| r.ops_per_s),
            ),
        ),
        (
            "How long an fsync takes: further left is better. A call that has nothing to write counts as 1.",
            plot::cdf("fsync latency", "microseconds", &curves),
        ),
        (
            "Where the time of an fsync goes, mean over all: less is better.",
            plot::stacked_bars("One fsync", "microseconds", &parts, &fsyncs),
        ),
        (
            "What an operation writes: less is better.",
            plot::stacked_bars(
                "Blocks by class",
                "4 KiB blocks/operation",
                &classes,
                &blocks,
            ),
        ),
    ];
    if runs.iter().any(|r| r.flash.is_some()) {
        let programs = single(|r| per_op(r, r.flash.as_ref().map(|f| f.programs)));
        figures.push((
            "What the flash has to bear: less is better.",
            plot::stacked_bars(
                "Flash programs",
                "page programs/operation",
                &one("all"),
                &programs,
            ),
        ));
    }
    let erased: Vec<(String, &Erased)> = runs
        .iter()
        .filter_map(|r| r.erased.as_ref().map(|e| (name(r), e)))
        .collect();
    if erased.iter().any(|(_, e)| e.most > 0) {
        figures.push((
            "How often the blocks have been erased since the device was new: the closer together, the longer it lives.",
            histogram(&erased),
        ));
    }
    figures
}

/// Each run over its time, on axes of the same range.
fn over_time(runs: &[Run]) -> Markup {
    let all = || {
        runs.iter()
            .filter_map(|run| Some((run, run.over_time.as_ref()?)))
    };
    let range = plot::range(all().map(|(_, over)| over));
    html! {
        @if all().next().is_some() {
            h2 { "Over time" }
            p {
                "How long calls took, and above it when commits ended, checkpoints wrote, and the flash moved or erased what it holds: the darker, the more."
            }
            @for (run, over) in all() { (plot::over_time(&name(run), over, range).figure("")) }
        }
    }
}

/// Blocks by the number of their erases.
fn histogram(erased: &[(String, &Erased)]) -> Plot {
    let most = erased.iter().map(|(_, e)| e.most).max().unwrap_or(0);
    // Many numbers of erases are told in ranges, so that each has a bar to be seen.
    let width = most / HISTOGRAM_BARS + 1;
    let bars: Vec<u32> = (0..=most / width).collect();
    let label = |bar: &u32| match width {
        1 => bar.to_string(),
        _ => format!("{} to {}", bar * width, (bar + 1) * width - 1),
    };
    let series: Vec<(String, Vec<f64>)> = erased
        .iter()
        .map(|(name, e)| {
            let within = |bar: &u32| e.blocks.range(bar * width..(bar + 1) * width);
            let count = |bar: &u32| within(bar).map(|(_, n)| *n).sum::<u64>() as f64;
            (name.clone(), bars.iter().map(count).collect())
        })
        .collect();
    let groups: Vec<String> = bars.iter().map(label).collect();
    plot::grouped_bars("Erases of a block", "blocks", &groups, &series)
}

/// Bars of a histogram, at most.
const HISTOGRAM_BARS: u32 = 12;

fn per_op(run: &Run, count: Option<u64>) -> f64 {
    count.unwrap_or(0) as f64 / run.ops.max(1) as f64
}

fn classes(runs: &[Run]) -> BTreeSet<String> {
    runs.iter().flat_map(|r| r.blocks.keys().cloned()).collect()
}

/// A table with one row per run.
fn table(head: &[String], runs: &[Run], cells: impl Fn(&Run) -> Vec<String>) -> Markup {
    scrolled(&html! {
        table {
            thead { tr { th { "run" } @for h in head { th { (h) } } } }
            tbody {
                @for run in runs {
                    tr { td { (name(run)) } @for cell in cells(run) { td { (cell) } } }
                }
            }
        }
    })
}

fn heads(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_string()).collect()
}

fn summary(runs: &[Run]) -> Markup {
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
            super::gain(r.ops_per_s, first),
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
fn kinds(runs: &[Run]) -> Markup {
    let kinds = super::kinds(runs);
    let columns = |kind: &String| [format!("{kind}/s"), "gain %".into()];
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
            [shown, super::gain(here, rate(&runs[0], kind))]
        });
        cells.collect()
    })
}

fn latencies(runs: &[Run]) -> Markup {
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

fn parts(runs: &[Run]) -> Markup {
    let mut head = super::fsync_parts(runs);
    let shown = head.clone();
    head.push("mean".into());
    table(&head, runs, |r| {
        let part = |p: &String| r.fsync_us.get(p).copied().unwrap_or(0.0);
        let mut cells: Vec<String> = shown.iter().map(|p| format!("{:.0}", part(p))).collect();
        cells.push(format!("{:.0}", r.latency_us.fsync.mean));
        cells
    })
}

fn blocks(runs: &[Run]) -> Markup {
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

fn device(runs: &[Run]) -> Markup {
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
fn causes(runs: &[Run]) -> Markup {
    html! {
        h2 { "What causes the wear" }
        p {
            "All bytes that went to the device, by what sent them. Data is content of files; metadata is log and metadata that a sync waited for, and belongs "
            "to that sync; later is what nobody waited for, in proportion to the metadata. Erases due are in proportion to the bytes."
        }
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
            thead { tr { th { (by.to_string()) } @for h in causes::COLUMNS { th { (h) } } } }
            tbody {
                @for row in causes::rows(run, by) { tr { @for cell in row { td { (cell) } } } }
            }
        }
    })
}

fn waits(runs: &[Run]) -> Markup {
    let causes: BTreeSet<&String> = runs.iter().flat_map(|r| r.waits_us.keys()).collect();
    let head: Vec<String> = causes.iter().map(|c| (*c).clone()).collect();
    table(&head, runs, |r| {
        causes
            .iter()
            .map(|c| format!("{:.1}", r.waits_us.get(*c).copied().unwrap_or(0.0) / 1000.0))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::{Cause, Causes};
    use crate::results::{Device, Flash, SCHEMA};
    use blockdev::DeviceStats;

    fn results() -> Results {
        let run = |scheme: &str| Run {
            fs: "ext4".into(),
            scheme: scheme.into(),
            device: Device {
                profile: "p".into(),
                commands: DeviceStats {
                    flushes: 4,
                    ..DeviceStats::default()
                },
            },
            timing: "t".into(),
            workload: "sqlite".into(),
            virtual_seconds: 2.0,
            ops: 10,
            ops_per_s: 5.0,
            ops_by_kind: Default::default(),
            commits: 10,
            fsync_us: [("data".to_string(), 100.0), ("flush".to_string(), 900.0)].into(),
            latency_us: crate::results::LatencyTable {
                fsync_cdf: vec![(100.0, 0.5), (900.0, 1.0)],
                ..Default::default()
            },
            blocks: [("data".to_string(), 30), ("home".to_string(), 10)].into(),
            journal_block_ratio: 0.0,
            flash: Some(Flash {
                programs: 44,
                write_amplification: 1.25,
                ..Flash::default()
            }),
            wear: None,
            causes: Some(Causes {
                file: vec![Cause {
                    name: "/data/<a>.db".into(),
                    data_bytes: 4096,
                    metadata_bytes: 8192,
                    later_bytes: 4096,
                    syncs: 2,
                }],
                ..Causes::default()
            }),
            erased: None,
            energy_j: None,
            over_time: None,
            waits_us: [("flush".to_string(), 1500.0)].into(),
            phases_s: Default::default(),
            remapped_blocks: 0,
            remap_copies: 0,
            mb_per_s: None,
            notes: Vec::new(),
            trace_hash: "0".into(),
        };
        let runs = vec![run("jbd2"), run("<b>none")];
        Results {
            schema: SCHEMA,
            command: "compare".into(),
            seed: 1,
            profile: "p".into(),
            reproduce: "varve compare".into(),
            incomplete: None,
            runs,
        }
    }

    #[test]
    fn same_results_same_page_and_self_contained() {
        let page = super::page(&results());
        assert_eq!(page, super::page(&results()));
        assert_eq!(page.matches("<figure class=\"plot\"").count(), 5);
        assert!(page.contains("ext4/jbd2") && page.contains("1.25"));
        assert!(
            !page.contains("<b>none") && !page.contains(" src=\"") && !page.contains("@import")
        );
    }

    #[test]
    fn the_life_under_the_first_scheme_and_under_the_best_is_told() {
        let mut results = results();
        assert!(!super::page(&results).contains("worn out"));
        for (run, years) in results.runs.iter_mut().zip([6.1, 11.4]) {
            run.wear = Some(wear::Wear {
                rated_erases: 3000,
                blocks: 500,
                years: Some(years),
                ..wear::Wear::default()
            });
        }
        let told = wear::sentence(&results.runs).unwrap();
        let first = "(each of its 500 blocks erased 3000 times) in 6.1 years with ext4/jbd2";
        assert!(told.contains(first), "{told}");
        assert!(
            told.contains("and in 11.4 years with ext4/<b>none"),
            "{told}"
        );
        let page = super::page(&results);
        assert!(page.contains(first) && page.contains("<td>11.4 years</td>"));
        results.runs.reverse();
        let told = wear::sentence(&results.runs).unwrap();
        assert!(
            told.contains("11.4 years") && !told.contains("6.1"),
            "{told}"
        );
    }

    #[test]
    fn a_page_without_runs_or_flash_is_drawn() {
        let mut empty = results();
        empty.runs.iter_mut().for_each(|r| r.flash = None);
        assert_eq!(
            super::page(&empty)
                .matches("<figure class=\"plot\"")
                .count(),
            4
        );
        empty.runs.clear();
        assert!(super::page(&empty).contains("Summary"));
    }
}
