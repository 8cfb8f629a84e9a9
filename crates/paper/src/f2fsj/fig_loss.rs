//! Fig 2c and 2d: the share of a run's operations that a power cut takes, by system.

use super::job::{Job, Outcomes, lost};
use super::loss::{LossJob, Lost};
use super::measure::Host;
use super::names::Op;
use super::scale::{CORES, DEVICE, PAPER_OBJECTS, ring};
use super::system::{Size, System};
use super::{Plan, published};
use crate::PaperError;
use crate::beside::{group, percent};
use crate::{Experiment, Row, Section, number};
use base::Nanos;
use report::plot;
use rig::{Config, Scheme};
use work::RunConfig;

const BYTES: u64 = 1 << 30;

/// A system, the seconds between its commits where it has a choice, and the period in seconds
/// within which everything becomes durable.
type Kept = (System, Option<u32>, f64);
const KEPT: [Kept; 6] = [
    (System::Checkpoint60, None, 60.0),
    (System::Checkpoint1, None, 1.0),
    (System::Checkpoint5Bg, None, 5.0),
    (System::PageJournal, None, 5.0),
    (System::F2fsj, None, 5.0),
    (System::F2fsj, Some(1), 1.0),
];

/// Number of objects in a whole report.
const OBJECTS: u32 = 20_000;

fn objects(plan: &Plan) -> u32 {
    plan.pick(OBJECTS, 3_000, 300)
}

/// Number of the paper's operations that one of ours stands for.
fn stands_for(plan: &Plan) -> u32 {
    PAPER_OBJECTS / objects(plan)
}

/// How many times more objects an experiment has.
const MORE: u32 = 5;

fn stack(objects: u32, plan: &Plan, (system, commit, _): Kept) -> Config {
    let size = Size {
        bytes: BYTES * u64::from(objects.div_ceil(OBJECTS)),
        ring: ring(objects),
        // Time passes for the operations left out.
        shorter: 1,
    };
    let mut stack = system.stack(DEVICE, size, plan.seed);
    if let (Scheme::F2fs(scheme), Some(_)) = (&mut stack.scheme, commit) {
        scheme.commit = commit.map(|seconds| Nanos::from_secs(seconds.into()));
    }
    stack
}

fn name((system, commit, _): Kept) -> String {
    match commit {
        Some(seconds) => format!("{}, commit={seconds}", system.name()),
        None => system.name(),
    }
}

fn job(plan: &Plan, op: Op, kept: Kept) -> LossJob {
    sized(plan, op, kept, objects(plan))
}

fn sized(plan: &Plan, op: Op, kept: Kept, objects: u32) -> LossJob {
    LossJob {
        run: RunConfig {
            stack: stack(objects, plan, kept),
            workload: op.workload(objects),
            seed: plan.seed,
            recording: None,
        },
        host: Host::cores(CORES),
        stands_for: PAPER_OBJECTS / objects,
        cuts: plan.pick(4, 1, 2),
    }
}

/// The runs with more objects, of operations that make some.
fn larger(plan: &Plan, kept: Kept) -> Vec<LossJob> {
    let judged = matches!(kept.0, System::Checkpoint60 | System::Checkpoint1);
    let making = Op::FOUR.into_iter().filter(|op| judged && !op.removes());
    let of = |op| sized(plan, op, kept, MORE * objects(plan));
    making.map(of).collect()
}

/// The jobs: each operation on each system; and some with more objects.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let of = |op| KEPT.map(|kept| job(plan, op, kept));
    let all = Op::FOUR.into_iter().flat_map(of);
    let more = KEPT.into_iter().flat_map(|kept| larger(plan, kept));
    all.chain(more).map(Job::Loss).collect()
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    let (mut bars, mut marks) = (Vec::new(), Vec::new());
    let table = published();
    for kept in KEPT {
        let of = |op| lost(outcomes, &job(plan, op, kept));
        let found = Op::FOUR.into_iter().map(of);
        let found = found.collect::<Result<Vec<&Lost>, PaperError>>()?;
        let mut shares: Vec<f64> = found.iter().map(|l| l.worst().share() * 100.0).collect();
        shares.push(shares.iter().copied().fold(0.0, f64::max));
        bars.push((name(kept), shares));
        let said = judged(kept.0).map(|(figure, item)| table.get(figure, item, None));
        let mark = said.and_then(|said| said.mark(Some(&name(kept)), group(LARGEST)));
        marks.extend(mark.map(|mark| mark.map(percent)));
        for (op, found) in Op::FOUR.iter().zip(&found) {
            lines.push(line(op.word(), &name(kept), found));
        }
        let larger = larger(plan, kept);
        let more = larger.iter().map(|job| lost(outcomes, job));
        let more = more.collect::<Result<Vec<&Lost>, PaperError>>()?;
        rows.extend(of_system(plan, kept, &found, &more));
    }
    let title = "Lost at the worst moment, of what was done";
    let groups = Op::FOUR.iter().map(|op| op.word()).chain([LARGEST]);
    let groups: Vec<String> = groups.map(String::from).collect();
    let drawn = plot::grouped_bars(title, "%", &groups, &bars);
    let caption = format!("{title}. Published is the largest of the four operations.");
    let head = [
        "operation",
        "system",
        "operations",
        "run (s)",
        "commits",
        "worst cut at (s)",
        "lost",
        "share",
        "share, seeded cuts",
        "files without their bytes",
        "oldest lost (s)",
        "mount (ms)",
    ];
    Ok(Section {
        title: "Fig 2c, 2d: lost at a power cut".into(),
        words: words(plan),
        rows,
        tables: vec![(
            "Each operation on each system".into(),
            head.map(String::from).into(),
            lines,
        )],
        plots: vec![(caption, drawn.beside(&marks))],
    })
}

fn line(op: &str, system: &str, found: &Lost) -> Vec<String> {
    let worst = found.worst();
    let hollow = found.cuts.iter().map(|c| c.hollow).max().unwrap_or(0);
    let mount = found.cuts.iter().map(|c| c.mount_ms).fold(0.0, f64::max);
    vec![
        op.into(),
        system.into(),
        found.ops.to_string(),
        number(found.seconds),
        found.commits.to_string(),
        number(worst.at_s),
        format!("{} of {}", worst.lost, worst.done),
        number(worst.share()),
        number(found.seeded()),
        hollow.to_string(),
        number(found.oldest_s()),
        number(mount),
    ]
}

const FIGURE_60: &str = "Fig 2c";
const FIGURE_1: &str = "Fig 2d";

/// The group of bars with the largest of the operations.
const LARGEST: &str = "largest";

/// Figure and item of a system of which the paper has a value.
fn judged(system: System) -> Option<(&'static str, &'static str)> {
    match system {
        System::Checkpoint60 => Some((
            FIGURE_60,
            "lost at a cut with an interval of 60 s, largest of the four",
        )),
        System::Checkpoint1 => Some((
            FIGURE_1,
            "lost at a cut with an interval of 1 s, largest of the four",
        )),
        _ => None,
    }
}

/// `more` are the runs with [`MORE`] times the objects, of systems that are judged.
fn of_system(plan: &Plan, kept: Kept, found: &[&Lost], more: &[&Lost]) -> Vec<Row> {
    let (system, _, period) = kept;
    let table = published();
    let share = |l: &&Lost| l.worst().share();
    let largest = found.iter().map(share).fold(0.0, f64::max);
    let name = name(kept);
    let mut rows = Vec::new();
    match judged(system) {
        Some((figure, item)) => {
            let published = table.get(figure, item, None);
            let row = Row::judged(published, largest).because(&why(plan, found));
            let made = Op::FOUR.iter().zip(found).filter(|(op, _)| !op.removes());
            let made = made.map(|(_, l)| share(l)).fold(0.0, f64::max);
            let which = Experiment::on("which operations count");
            let which = which.with("those that make objects alone", made);
            let many = more.iter().map(|l| l.worst().share()).fold(0.0, f64::max);
            let count = Experiment::on("the number of objects, of those that make some");
            let count = count
                .against(made)
                .with(&format!("{MORE} times as many"), many);
            rows.push(row.shown_by_all(published, [which, count]));
        }
        None => {
            let item = "lost at a cut, largest of the four";
            rows.push(Row::ours(FIGURE_1, item, "fraction", largest).of(&name));
        }
    }
    let oldest = found.iter().map(|l| l.oldest_s()).fold(0.0, f64::max);
    let item = format!("age of the oldest lost operation, where the period is {period} s");
    rows.push(Row::ours(FIGURE_1, &item, "s", oldest).of(&name));
    let hollow = found.iter().flat_map(|l| &l.cuts).map(|c| c.hollow).max();
    let item = "files that a recovery gives back without their bytes, most of a cut";
    rows.push(Row::ours(FIGURE_1, item, "files", hollow.unwrap_or(0) as f64).of(&name));
    rows
}

/// Explains, by operation, what decides how much is lost.
fn why(plan: &Plan, found: &[&Lost]) -> String {
    let parts = Op::FOUR.iter().zip(found).map(|(op, l)| {
        let worst = l.worst();
        format!(
            "{}: {} checkpoints in {} s, {} of {} operations lost, the oldest {} s old",
            op.word(),
            l.commits,
            number(l.seconds),
            worst.lost,
            worst.done,
            number(worst.oldest_s)
        )
    });
    format!(
        "a count (8 segments of dirty nodes, 10 % of the NAT) lets as many operations gather whatever their number, so that it takes a share of {} \
         operations that is {} times that of 4 million; an interval takes the same share. {}. Removals make few nodes dirty: for them \
         only time counts, and the run is as long as 4 million of our operations take, which is not the paper's time",
        objects(plan),
        stands_for(plan),
        parts.collect::<Vec<_>>().join("; ")
    )
}

fn words(plan: &Plan) -> Vec<String> {
    vec![
        format!(
            "One process does {} operations, each of which stands for {} of the paper's 4 million: behind each passes the time that the others \
             would take (by the median of the first ones), so that the intervals of 60, 5 and 1 s are to the run as they would be to the whole one; the \
             ring is smaller in the same ratio.",
            objects(plan),
            stands_for(plan)
        ),
        "The worst moment is when the write that makes a checkpoint or a commit whole is about to be sent, the last time in the second half of the \
         run; if none is sent there, the end. Beside it there are cuts at seeded moments. Lost is what had ended and is not there, of what had \
         ended. Each remainder is recovered; the file system checks itself, and what is there has to be the state behind some prefix of the \
         operations."
            .into(),
        "A file may come back without its bytes, in all systems: they are allocated when the background writes them, which is after some seconds, and a \
         checkpoint or a commit waits for those that have been sent, not for all. Only an fsync asks for them."
            .into(),
    ]
}
