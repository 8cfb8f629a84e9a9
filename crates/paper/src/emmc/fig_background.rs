//! Fig 16: the apps while another program runs that makes only metadata, or only data.
//!
//! Performance is that of the app alone, 1 over its time. The programs are those of
//! [`background`](work::workload::background), where the choice of their parameters is explained:
//! the paper gives none but "4KB data to a 4GB file".

use super::job::{Job, Outcomes, run_of};
use super::measure::{gain, mean, ratio};
use super::plan::{BASE, BOTH, BYTES, Pace, Plan};
use super::published;
use crate::PaperError;
use crate::beside::{group, percent};
use crate::{Experiment, Row, Section};
use report::plot;
use report::results::Run;
use rig::{Scheduler, Writeback};
use work::recording::apps::APPS;

const FIGURE: &str = "Fig 16";

/// Each program beside, with the item of its row and its description.
const BESIDE: [(&str, &str, &str); 2] = [
    (
        "fdtree",
        "performance of both over the baseline beside fdtree, mean over the apps",
        "performance of both over the baseline beside fdtree",
    ),
    (
        "writer",
        "performance of both over the baseline beside a 4 KiB writer, mean over the apps",
        "performance of both over the baseline beside a 4 KiB writer",
    ),
];

/// The group of bars with the means over the apps.
const MEAN: &str = "mean";

/// The host in front of the device.
#[derive(Clone, Copy, PartialEq)]
enum Host {
    /// That of all other figures: no I/O scheduler, and one request of a writer's on the way.
    Plain,
    /// Linux 3.10 as Android sets it: CFQ, up to 128 requests of write-back, and as much memory for
    /// pages as its limits on dirty ones allow.
    Linux310,
}

/// The host, and the bytes of the card. The writer's file is a quarter of what is free on it, at
/// most the 4 GiB of the paper.
#[derive(Clone, Copy, PartialEq)]
struct Setting {
    host: Host,
    bytes: u64,
}

/// A card on which the writer's file has the paper's 4 GiB, so that the writer does not come to its
/// end while an app runs.
const LARGE: u64 = 20 << 30;
/// The setting of the writer's row; fdtree has the same host.
const WRITER: Setting = Setting {
    host: Host::Linux310,
    bytes: LARGE,
};
/// Settings in which one cause of the writer's row is otherwise: the cause, what is otherwise, the
/// same in the name of an item.
const WITHOUT: [(&str, &str, &str, Setting); 2] = [
    (
        "the I/O scheduler, the queue of write-back and the memory",
        "without them",
        "without an I/O scheduler and with one command of the writer's in the queue",
        Setting {
            host: Host::Plain,
            bytes: LARGE,
        },
    ),
    (
        "the size of the writer's file",
        "a quarter of a volume of 2 GiB, which it overwrites after some seconds",
        "on a card of 2 GiB, whose file it overwrites",
        Setting {
            host: Host::Linux310,
            bytes: BYTES,
        },
    ),
];

/// What the writer writes before an app begins: more than the limit on dirty pages, so that it is
/// held by the device all the time, as the paper's that "continuously wrote". An app of which a
/// few syncs are all would otherwise be over before anything is written back.
const AHEAD: &str = "+ahead=256m";

impl Setting {
    /// That of the row that is compared with the paper.
    fn of(beside: &str) -> Setting {
        match beside {
            "writer" => WRITER,
            _ => Setting {
                host: Host::Linux310,
                bytes: BYTES,
            },
        }
    }
}

/// The settings beside that of the row.
fn without(beside: &str) -> &'static [(&'static str, &'static str, &'static str, Setting)] {
    match beside {
        "writer" => &WITHOUT,
        _ => &[],
    }
}

/// MiB of the page cache of [`Host::Linux310`]: above the limit on dirty pages, 20 % of 1 GiB.
const CACHE_MIB: u32 = 512;

/// Apps with fewer than 9 fsyncs in 5 s.
const RARE: [&str; 4] = ["gmail", "netflix", "angry-birds", "amazon"];

/// Seconds of an app's recording beside a program. Beside the writer every sync waits for data, so
/// a shorter recording is enough there, of an app with many syncs.
fn seconds(plan: &Plan, (app, beside): (&str, &str)) -> u64 {
    match (beside, plan.quick) {
        ("writer", _) if RARE.contains(&app) => plan.seconds,
        ("writer", false) => 20,
        ("writer", true) => 5,
        (_, quick) => plan.seconds.min(if quick { 10 } else { 60 }),
    }
}

/// The jobs: every app beside every program, on the baseline and with both mechanisms.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let mut all = Vec::new();
    for timing in plan.timings {
        for (beside, _, _) in BESIDE {
            for app in APPS {
                let of = |on| [BASE, BOTH].map(|s| job(plan, (app, beside), on, s, timing));
                all.extend(of(Setting::of(beside)));
                let others = without(beside).iter();
                all.extend(others.flat_map(|(_, _, _, on)| of(*on)));
            }
        }
    }
    all
}

fn job(plan: &Plan, (app, beside): (&str, &str), on: Setting, scheme: &str, timing: &str) -> Job {
    let shorter = Plan {
        seconds: seconds(plan, (app, beside)),
        ..plan.clone()
    };
    let ahead = match beside {
        "writer" => AHEAD,
        _ => "",
    };
    let text = format!(
        "{},beside={beside}{ahead}",
        shorter.app_text(app, Pace::BUSY)
    );
    let mut stack = plan.stack(scheme, timing);
    stack.bytes = on.bytes;
    if on.host == Host::Linux310 {
        stack.scheduler = Some(Scheduler::Cfq310);
        stack.writeback = Some(Writeback::ANDROID);
        stack.cache_mib = Some(CACHE_MIB);
    }
    plan.on(stack, &text)
}

/// The runs of all apps beside one program.
struct Beside<'a> {
    base: Vec<&'a Run>,
    both: Vec<&'a Run>,
}

impl<'a> Beside<'a> {
    fn take(
        plan: &Plan,
        outcomes: &'a Outcomes,
        beside: &str,
        on: Setting,
        timing: &str,
    ) -> Result<Beside<'a>, PaperError> {
        let of = |scheme: &str| -> Result<Vec<&'a Run>, PaperError> {
            let runs = APPS.iter();
            runs.map(|app| run_of(outcomes, &job(plan, (app, beside), on, scheme, timing)))
                .collect()
        };
        Ok(Beside {
            base: of(BASE)?,
            both: of(BOTH)?,
        })
    }

    fn gains(&self) -> Vec<f64> {
        let pairs = self.both.iter().zip(&self.base);
        pairs.map(|(both, base)| gain(both, base)).collect()
    }
}

/// Makes the section of this figure.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published()?;
    let mut section = Section {
        title: "Fig 16: beside other programs".into(),
        words: words(plan),
        ..Section::default()
    };
    for timing in plan.timings {
        let (mut bars, mut marks) = (Vec::new(), Vec::new());
        for (beside, item, of_app) in BESIDE {
            let runs = Beside::take(plan, outcomes, beside, Setting::of(beside), timing)?;
            let gains = runs.gains();
            let published = table.get(FIGURE, item, None);
            let mut row = Row::judged(published, mean(&gains)).because(&cause(beside, &runs));
            let mut others = Vec::new();
            for (cause, trial, name, on) in without(beside) {
                let runs = Beside::take(plan, outcomes, beside, *on, timing)?;
                let varied = Experiment::on(cause).with(trial, mean(&runs.gains()));
                row = row.shown_by(published, varied);
                others.push((*name, runs));
            }
            section.rows.push(row.timed(timing));
            for (app, gain) in APPS.iter().zip(&gains) {
                let row = Row::ours(FIGURE, of_app, "gain", *gain).of(app);
                section.rows.push(row.timed(timing));
            }
            section.tables.push(parts(&runs, beside, timing));
            for (name, runs) in others {
                let item = format!("{of_app}, {name}, mean over the apps");
                let row = Row::ours(FIGURE, &item, "gain", mean(&runs.gains()));
                section.rows.push(row.timed(timing));
                section
                    .tables
                    .push(parts(&runs, &format!("{beside}, {name}"), timing));
            }
            let name = format!("beside {beside}");
            let mark = published.mark(Some(&name), group(MEAN));
            marks.extend(mark.map(|mark| mark.map(percent)));
            let shown = gains.iter().copied().chain([mean(&gains)]);
            bars.push((name, shown.map(percent).collect()));
        }
        let title = format!("Both over the baseline beside another program, timing {timing}");
        let groups: Vec<String> = APPS.into_iter().chain([MEAN]).map(String::from).collect();
        let drawn = plot::grouped_bars(&title, "gain, %", &groups, &bars);
        section.plots.push((
            "How much sooner the calls of an app are done.".into(),
            drawn.beside(&marks),
        ));
    }
    Ok(section)
}

/// Mean of a figure over the runs of all apps.
fn over(runs: &[&Run], of: impl Fn(&Run) -> f64) -> f64 {
    mean(&runs.iter().map(|run| of(run)).collect::<Vec<_>>())
}

fn part(run: &Run, part: &str) -> f64 {
    run.fsync_us.get(part).copied().unwrap_or_default()
}

/// Log blocks per commit.
fn log_blocks(run: &Run) -> f64 {
    ratio(
        super::measure::journal_blocks(run) as f64,
        run.commits as f64,
    )
}

fn cause(beside: &str, runs: &Beside<'_>) -> String {
    let sync = |of: &[&Run]| {
        let parts = ["data", "log", "flush", "commit-record"]
            .map(|p| format!("{p} {:.0}", over(of, |run| part(run, p))));
        let all = over(of, |run| run.latency_us.fsync.mean);
        format!("{all:.0} us ({})", parts.join(", "))
    };
    let measured = format!(
        "one sync, mean over the apps: baseline {}; both {}; log blocks a commit {:.1} and {:.1}",
        sync(&runs.base),
        sync(&runs.both),
        over(&runs.base, log_blocks),
        over(&runs.both, log_blocks)
    );
    match beside {
        "fdtree" => format!(
            "{measured}. What fdtree changes goes into the commits that the app waits for: more blocks in the log of the baseline, hardly any with \
             coalition, which gains more here than alone. How much hangs on the rate of fdtree, which its processes set: the paper does not say it"
        ),
        _ => format!(
            "{measured}. Each step of a sync waits for the command of the writer that the device is busy with, and the steps that both together leave out \
             are waits that it leaves out. A commit also waits for everything that the writer has in the queue (up to 128 requests), because it allocates, \
             which hides the steps; where it overwrites, a commit waits for none of it"
        ),
    }
}

/// Table of the parts of a sync, one row per app.
fn parts(runs: &Beside<'_>, beside: &str, timing: &str) -> crate::Listed {
    let head = [
        "app",
        "scheme",
        "time, s",
        "gain, %",
        "sync, us",
        "data",
        "log",
        "flush",
        "record",
        "log blocks a commit",
        "data blocks",
    ];
    let mut lines = Vec::new();
    for (n, app) in APPS.iter().enumerate() {
        for run in [runs.base[n], runs.both[n]] {
            lines.push(vec![
                (*app).into(),
                run.scheme.clone(),
                format!("{:.2}", run.virtual_seconds),
                format!("{:.1}", gain(run, runs.base[n]) * 100.0),
                format!("{:.0}", run.latency_us.fsync.mean),
                format!("{:.0}", part(run, "data")),
                format!("{:.0}", part(run, "log")),
                format!("{:.0}", part(run, "flush")),
                format!("{:.0}", part(run, "commit-record")),
                format!("{:.1}", log_blocks(run)),
                super::measure::data_blocks(run).to_string(),
            ]);
        }
    }
    let caption = format!("Apps beside {beside}, timing {timing}.");
    (caption, head.map(String::from).to_vec(), lines)
}

fn words(plan: &Plan) -> Vec<String> {
    vec![
        format!(
            "Each app runs while fdtree makes and removes a tree of 781 directories and 2343 files of 40 KiB again and again (the call in the head of \
             its script, each process of which takes 2 ms), or while a program writes 4 KiB after 4 KiB into a large file without a sync, held by the \
             page cache's limit on dirty pages. The file has 4 GiB, as the paper says, on a card of 20 GiB. It has written 256 MiB when the app begins, more than may be dirty. The app's recording is {} s long beside fdtree and {} s \
             beside the writer, {} s of apps with fewer than 9 fsyncs in 5 s.",
            seconds(plan, ("facebook", "fdtree")),
            seconds(plan, ("facebook", "writer")),
            seconds(plan, ("gmail", "writer"))
        ),
        format!(
            "Beside both programs the host is Linux 3.10 as Android sets it: scheduler cfq-3.10, write-back android (5 % of 1 GiB in the background, \
             20 % at most), a page cache of {CACHE_MIB} MiB so that these limits hold the writer, and not ours. For the writer, the host of all other figures stands beside: no \
             I/O scheduler, and a cache of 64 MiB that a writer fills with one command of 512 KiB on its way; and a card of 2 GiB, where the file is a quarter of what \
             is free: the writer overwrites it after some seconds, and then a commit waits for none of its pages."
        ),
        "Tolerance of the writer's row is ours: the paper says that nothing is gained, the row says within 2 %.".into(),
    ]
}
