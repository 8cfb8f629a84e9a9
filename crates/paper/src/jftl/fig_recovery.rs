//! Section 3.2: the time of recovery over the length of the log, by copying and by remapping.

use super::job::{Job, Outcomes, recovered_of};
use super::measure::ratio;
use super::plan::{Mode, Plan};
use super::published;
use super::recovery::{Recovered, RecoveryJob, untimed};
use crate::PaperError;
use crate::beside::{group, without_published};
use crate::{Row, Section, number};
use report::plot;

const FIGURE: &str = "3.2";
const LONGEST: &str = "recovery by copying over recovery by remapping, longest journal";
/// Size of the journal, MiB, so that no run is short of log space.
const JOURNAL_MIB: u32 = 48;

base::words! {
    /// The schemes that write the log and that recover it.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Way {
        Copied => "copied",
        Remapped => "remapped",
        RemappedTwice => "remapped before the cut and again",
    }
}

impl Way {
    fn schemes(self) -> (Mode, Mode) {
        match self {
            Way::Copied => (Mode::Journaled, Mode::Journaled),
            Way::Remapped => (Mode::Journaled, Mode::JournaledJftl),
            Way::RemappedTwice => (Mode::JournaledJftl, Mode::JournaledJftl),
        }
    }
}

fn lengths(plan: &Plan) -> &'static [u64] {
    plan.pick(&[250, 500, 1000, 2000, 4000, 8000], &[250, 500])
}

fn job(plan: &Plan, blocks: u64, way: Way) -> Job {
    let (wrote, recovers) = way.schemes();
    Job::Recovery(RecoveryJob {
        run: plan.config(untimed(plan.stack(wrote), JOURNAL_MIB), "fsync"),
        blocks,
        by: recovers.scheme().into(),
    })
}

/// The jobs: each length in each way.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let of = |blocks: &u64| Way::ALL.map(|way| job(plan, *blocks, way));
    lengths(plan).iter().flat_map(of).collect()
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut lines = Vec::new();
    let mut series: Vec<(String, Vec<f64>)> =
        Way::ALL.map(|w| (w.word().to_string(), Vec::new())).into();
    let mut longest: Vec<&Recovered> = Vec::new();
    for blocks in lengths(plan) {
        longest.clear();
        for (way, line) in Way::ALL.into_iter().zip(&mut series) {
            let found = recovered_of(outcomes, &job(plan, *blocks, way))?;
            line.1.push(found.recovery_ms());
            lines.push(of_run(*blocks, way, found));
            longest.push(found);
        }
    }
    let groups: Vec<String> = lengths(plan).iter().map(u64::to_string).collect();
    let title = "Time that recovery adds to a mount (ms), over blocks of content in the log";
    let drawn = plot::grouped_bars(title, "ms", &groups, &series);
    let why = "it says that remapping is faster, which is drawn below";
    let times = (without_published(title, why), drawn);
    let head = [
        "blocks",
        "home",
        "recovery (ms)",
        "mount (ms)",
        "clean mount (ms)",
        "transactions",
        "brought home",
        "KiB read",
        "KiB written",
        "REMAPs",
        "pages programmed",
        "ms: scan",
        "ms: images",
        "ms: write",
        "ms: clean",
    ];
    Ok(Section {
        title: "3.2: recovery".into(),
        words: words(),
        rows: rows(plan, &longest),
        tables: vec![(
            "Recovery by length of the log".into(),
            head.map(String::from).into(),
            lines,
        )],
        plots: vec![times, compared(&groups, &series)],
    })
}

/// What the paper says of the two ways, with the longest log.
fn compared(groups: &[String], series: &[(String, Vec<f64>)]) -> (String, plot::Plot) {
    let name = format!("{} over {}", Way::Copied.word(), Way::Remapped.word());
    let pairs = series[0].1.iter().zip(&series[1].1);
    let times = pairs.map(|(copied, remapped)| ratio(*copied, *remapped));
    let bars = [(name.clone(), times.collect())];
    let title = "Recovery by copying over recovery by remapping, over blocks of content in the log";
    let drawn = plot::grouped_bars(title, "times", groups, &bars);
    let longest = groups.last().map_or(plot::At::All, |last| group(last));
    let published = published();
    let mark = published
        .get(FIGURE, LONGEST, None)
        .mark(Some(&name), longest);
    let marks: Vec<_> = mark.into_iter().collect();
    ("More is better for remapping.".into(), drawn.beside(&marks))
}

fn words() -> Vec<String> {
    vec![
        "A file in data=journal, committed every 128 blocks and never checkpointed; then the power goes. The same log is recovered by copying its blocks \
         home (jbd2) and by sending its list of pairs (jftl); the third line is a log whose transactions had been remapped before the cut. \
         Recovery is the mount less a mount after a clean unmount; the recovery of the device itself is in neither. The file is read back and compared \
         each time."
            .into(),
        "By arithmetic a copied block costs a read (0.4 ms), a write (0.96 ms) and its share of an erase (0.5 ms); a remapped one a 1/506 of a descriptor \
         and 1/40 of a page of the map's log. What recovery reads beyond the descriptors is in the table."
            .into(),
    ]
}

fn of_run(blocks: u64, way: Way, found: &Recovered) -> Vec<String> {
    let step = |name: &str| number(found.steps_ms.get(name).copied().unwrap_or(0.0));
    let mut line = vec![blocks.to_string(), way.word().to_string()];
    line.extend([found.recovery_ms(), found.mount_ms, found.clean_mount_ms].map(number));
    line.extend(
        [
            found.transactions,
            found.blocks,
            found.kib_read,
            found.kib_written,
            found.remaps,
            found.programs,
        ]
        .map(|n| n.to_string()),
    );
    line.extend(["scan", "images", "write", "clean"].map(step));
    line
}

fn rows(plan: &Plan, longest: &[&Recovered]) -> Vec<Row> {
    let table = published();
    let [copied, remapped, twice] = longest else {
        return Vec::new();
    };
    let blocks = lengths(plan).last().copied().unwrap_or_default();
    let n = blocks as f64;
    let of = format!("{blocks} blocks");
    let measured = ratio(copied.recovery_ms(), remapped.recovery_ms());
    let ours =
        |item: &str, unit: &str, measured: f64| Row::ours(FIGURE, item, unit, measured).of(&of);
    let cause = format!(
        "both read the log once ({} and {} KiB)",
        copied.kib_read, remapped.kib_read
    );
    vec![
        Row::judged(table.get(FIGURE, LONGEST, None), measured)
            .because(&cause)
            .noted(&cause),
        ours("recovery by copying", "ms", copied.recovery_ms()),
        ours("recovery by remapping", "ms", remapped.recovery_ms()),
        ours(
            "recovery of a log that had been remapped",
            "ms",
            twice.recovery_ms(),
        ),
        ours(
            "recovery by copying, by arithmetic",
            "ms",
            n * (0.4 + 0.96 + 0.5),
        ),
        ours(
            "recovery by remapping, by arithmetic (descriptors only)",
            "ms",
            (n / 506.0).ceil() * 0.4 + (n / 40.0).ceil() * 0.12,
        ),
    ]
}
