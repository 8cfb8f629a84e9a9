//! The plots of a comparison's page.

use super::{classes, name, per_op};
use crate::plot::{self, Plot};
use crate::results::Run;
use crate::wear::Erased;
use maud::{Markup, html};

/// Plots with their captions.
type Figures = Vec<(&'static str, Plot)>;

/// The plots of the runs side by side.
pub(super) fn figures(runs: &[Run]) -> Figures {
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
    let parts = crate::fsync_parts(runs);
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
pub(super) fn over_time(runs: &[Run]) -> Markup {
    let all = || {
        runs.iter()
            .filter_map(|run| Some((run, run.over_time.as_ref()?)))
    };
    let range = plot::range(all().map(|(_, over)| over));
    html! {
        @for (run, over) in all() { (plot::over_time(&name(run), over, range).figure("")) }
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
