//! Fig 7: how much of its waiting a persistence path spends on flush and commit block.

use super::cards::RANDOM;
use super::characterised::{self, digits, percent, traffic, traffic_of};
use super::job::{Job, Outcomes};
use super::plan::{BASE, FIG8, Plan, Source};
use super::published;
use crate::PaperError;
use crate::beside::group;
use crate::characterise::{Paths, Traffic};
use crate::{Experiment, Section, Table};
use report::plot::{self, Mark, Says};

const ITEM: &str =
    "commit time ratio: commit block and flush over all synchronous waits of a persistence path";

/// The jobs: each app at its own pace under the baseline, with both timing sets.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        let sources = plan.sources();
        let job = |source| characterised::job(plan, source, BASE, timing);
        all.extend(sources.iter().map(job));
    }
    all.extend(plan.sources().iter().map(|source| random(plan, source)));
    all
}

/// The job of the experiment: a card on which random writes are dear.
fn random(plan: &Plan, source: &Source) -> Job {
    characterised::on_card(plan, source, BASE, (&RANDOM, FIG8))
}

/// Makes the section of this figure.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published()?;
    let mut section = Section {
        title: "Fig 7: commit time ratio".into(),
        words: words(),
        ..Section::default()
    };
    for timing in plan.timings {
        let (mut lines, mut shown) = (Vec::new(), Vec::new());
        for source in plan.sources() {
            let t = traffic(plan, outcomes, &source, (BASE, timing))?;
            let ratio = t.paths.waiting.ratio().unwrap_or_default();
            let published = table.get("Fig 7", ITEM, Some(source.app));
            let row = source.row(published, ratio).timed(timing);
            let row = row.because(&cause(&t.paths, ratio));
            section.rows.push(if timing == FIG8 {
                let random = traffic_of(outcomes, &random(plan, &source))?;
                let ratio = random.paths.waiting.ratio().unwrap_or_default();
                let tried = Experiment::on("the cost of a random write");
                row.shown_by(published, tried.with(RANDOM.name, ratio))
            } else {
                row
            });
            lines.push(line(&source.name(), t));
            shown.push((source.name(), tenths(&t.paths)));
        }
        let groups: Vec<String> = (0..10).map(tenth).collect();
        let title = format!("Persistence paths by commit time ratio, timing {timing}");
        let drawn = plot::grouped_bars(&title, "share of the paths", &groups, &shown);
        let caption =
            "Bars of an app add up to 1. The published range of an app's ratio is marked.";
        let drawn = drawn.beside(&marks(&table));
        section.plots.push((caption.into(), drawn));
        let caption = format!("Mean waits of a persistence path in microseconds, timing {timing}");
        section.tables.push((caption, head(), lines));
    }
    Ok(section)
}

fn words() -> Vec<String> {
    vec![
        "Tcb / (Td + Tdb + Tm + Tcb) with the flush in Tcb, from the times of the commands at the device while a sync runs: a moment counts \
         for the latest step of a commit that is under way. Only syncs that wait for a commit block count; one that finds nothing to commit \
         has no such ratio. The row is the ratio of the sums, the bars are single paths."
            .into(),
        "A path here waits for the device and for nothing else: no CPU time of the kernel's block layer, no other program's requests in \
         its queue, no throttled clock."
            .into(),
    ]
}

/// The name of a tenth of all ratios.
fn tenth(n: u32) -> String {
    format!("{}-{} %", n * 10, n * 10 + 10)
}

/// The tenths that the published range has, which is one for all apps.
fn marks(table: &Table) -> Vec<Mark> {
    let all = table.all().iter();
    let of = all
        .filter(|p| p.figure == "Fig 7" && p.item == ITEM)
        .take(1);
    let marks = of.flat_map(|published| {
        let (low, high) = published.range.unwrap_or_default();
        let tenths = [low, high].map(|ratio| (ratio * 10.0).round() as u32);
        (tenths[0]..tenths[1]).filter_map(|n| {
            let mark = published.mark(None, group(&tenth(n)))?;
            let what = format!("Fig 7: {ITEM}");
            Some(Mark {
                what,
                says: Says::Here,
                ..mark
            })
        })
    });
    marks.collect()
}

fn tenths(paths: &Paths) -> Vec<f64> {
    let mut tenths = vec![0.0; 10];
    for (hundredth, n) in &paths.by_ratio {
        let tenth = (*hundredth as usize / 10).min(9);
        tenths[tenth] += *n as f64 / paths.paths.max(1) as f64;
    }
    tenths
}

fn means(paths: &Paths) -> [f64; 5] {
    let w = &paths.waiting;
    let mean = |nanos: u64| nanos as f64 / 1e3 / paths.paths.max(1) as f64;
    [w.data, w.log, w.home, w.flush, w.record].map(mean)
}

/// Explains a ratio by what the other waits would have to be for the top of the published range.
fn cause(paths: &Paths, ratio: f64) -> String {
    const TOP: f64 = 0.60;
    let [data, log, home, flush, record] = means(paths);
    let (commit, others) = (flush + record, data + log + home);
    let parts = format!(
        "of a path's waits flush and commit block are {flush:.0} + {record:.0} us, data {data:.0} us, descriptor and metadata {log:.0} us"
    );
    if ratio <= TOP {
        return parts;
    }
    let factor = commit * (1.0 / TOP - 1.0) / others.max(1.0);
    format!(
        "{parts}; for {TOP} what is not flush or commit block would have to take {factor:.1} times as long. The card of the paper's Fig 8, to \
         which this timing set was calibrated, writes in line there; an app's data goes to many places"
    )
}

fn head() -> Vec<String> {
    [
        "app",
        "paths",
        "other syncs",
        "data",
        "descriptor and metadata",
        "home, superblock",
        "flush",
        "commit block",
        "ratio",
    ]
    .map(String::from)
    .into()
}

fn line(name: &str, t: &Traffic) -> Vec<String> {
    let mut line = vec![
        name.to_string(),
        t.paths.paths.to_string(),
        t.paths.without.to_string(),
    ];
    line.extend(means(&t.paths).map(|us| digits(us, 0)));
    line.push(percent(t.paths.waiting.ratio().unwrap_or_default()));
    line
}
