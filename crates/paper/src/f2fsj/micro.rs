//! Section 5.3, operations on names and small files: the throughput of F2FSJ beside that of the
//! other systems.

use super::breakdown::{JBD2_COMMITTER, JBD2_LOCKING};
use super::fig2::{PREPARED, prepared, share};
use super::job::{Job, Outcomes, RunJob, measured, run_of};
use super::measure::Measured;
use super::names::{At, Op};
use super::scale::DEVICE;
use super::system::System;
use super::{DERIVED, Plan, published};
use crate::PaperError;
use crate::beside::{group, times};
use crate::{Experiment, Listed, Row, Section, Table, number};
use report::plot::{self, Mark};

/// The systems, in the order of tables.
pub const SYSTEMS: [System; 6] = [
    System::Checkpoint60,
    System::Checkpoint1,
    System::Checkpoint5Bg,
    System::PageJournal,
    System::F2fsj,
    System::Ext4,
];
/// Systems that published values compare; their causes are varied.
const COMPARED: [System; 3] = [System::Checkpoint60, System::F2fsj, System::Ext4];
const FIGURE: &str = "5.3 names";
/// The cause of which runs on `checkpoint-1` are an experiment.
pub const OFTEN: &str = "how often stock F2FS writes a checkpoint";

/// The jobs: every operation on every system.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let of = |op: Op| {
        let all = SYSTEMS.map(|system| op.at(plan, system, At::Whole));
        let more = COMPARED
            .into_iter()
            .flat_map(move |system| At::VARIED.map(|at| op.at(plan, system, at)));
        all.into_iter().chain(more).map(Job::Bench)
    };
    let pages = PAGES.map(|(_, op)| Job::Run(one_by_one(plan, op)));
    Op::ALL.into_iter().flat_map(of).chain(pages).collect()
}

/// Operations of a run per second.
pub fn rate(of: &Measured) -> f64 {
    of.ops as f64 / of.seconds.max(f64::MIN_POSITIVE)
}

/// The outcomes of the operations on names, and their plan.
pub struct Found<'a> {
    /// The plan of the report.
    pub plan: &'a Plan,
    outcomes: &'a Outcomes,
}

impl<'a> Found<'a> {
    /// The outcomes of a report.
    pub fn new(plan: &'a Plan, outcomes: &'a Outcomes) -> Found<'a> {
        Found { plan, outcomes }
    }

    /// The figures of one run.
    ///
    /// # Errors
    /// The run is missing.
    pub fn of(&self, op: Op, system: System, at: At) -> Result<&'a Measured, PaperError> {
        measured(self.outcomes, &op.at(self.plan, system, at))
    }

    /// The gain of `a` over `b` in throughput.
    ///
    /// # Errors
    /// A run is missing.
    pub fn gain(&self, op: Op, (a, b): (System, System), at: At) -> Result<f64, PaperError> {
        let (a, b) = (self.of(op, a, at)?, self.of(op, b, at)?);
        Ok(rate(a) / rate(b) - 1.0)
    }

    /// What the gain is if ext4 alone has half of its CPU costs, for a row outside: they were
    /// measured before its code became as much faster.
    fn ext4_halved(&self, op: Op, pair: (System, System)) -> Result<Experiment, PaperError> {
        let rate_at = |system| {
            let ext4 = system == System::Ext4;
            let of = self.of(op, system, At::Cpu(if ext4 { 50 } else { 100 }));
            of.map(rate)
        };
        let cause = format!(
            "the CPU costs of ext4 alone, which are older than its code ({} objects)",
            self.plan.objects_varied()
        );
        let control = self.gain(op, pair, At::Cpu(100))?;
        let halved = rate_at(pair.0)? / rate_at(pair.1)? - 1.0;
        let experiment = Experiment::on(&cause).against(control);
        Ok(experiment.with("half of them", halved))
    }

    /// The gain of `a` over `b` in throughput if the making of the objects counts as well.
    ///
    /// # Errors
    /// A run is missing.
    pub fn gain_with_preparation(
        &self,
        op: Op,
        (a, b): (System, System),
    ) -> Result<f64, PaperError> {
        let (a, b) = (self.of(op, a, At::Whole)?, self.of(op, b, At::Whole)?);
        let seconds = |of: &Measured| of.with_preparation().seconds;
        Ok(seconds(b) / seconds(a).max(f64::MIN_POSITIVE) - 1.0)
    }
}

/// A comparison in the table of published values.
struct Compared {
    op: Op,
    /// The systems; the gain is that of the first over the second.
    pair: (System, System),
}

const fn compared(op: Op, a: System, b: System) -> Compared {
    Compared { op, pair: (a, b) }
}

const PUBLISHED: [Compared; 16] = {
    use System::{Checkpoint60 as Stock, Ext4, F2fsj};
    [
        compared(Op::Mkdir, F2fsj, Stock),
        compared(Op::Rmdir, F2fsj, Stock),
        compared(Op::CreateEmpty, F2fsj, Stock),
        compared(Op::UnlinkEmpty, F2fsj, Stock),
        compared(Op::Create4k, F2fsj, Stock),
        compared(Op::Unlink4k, F2fsj, Stock),
        compared(Op::Copy4k, F2fsj, Stock),
        compared(Op::Mkdir, F2fsj, Ext4),
        compared(Op::Rmdir, F2fsj, Ext4),
        compared(Op::Mkdir, Stock, Ext4),
        compared(Op::Rmdir, Stock, Ext4),
        compared(Op::CreateEmpty, Ext4, F2fsj),
        compared(Op::UnlinkEmpty, Ext4, F2fsj),
        compared(Op::Create4k, F2fsj, Ext4),
        compared(Op::Unlink4k, F2fsj, Ext4),
        compared(Op::Copy4k, F2fsj, Ext4),
    ]
};

const XFS: [&str; 4] = [
    "operations on names: F2FSJ over XFS",
    "create-4KB: F2FSJ over XFS",
    "unlink-4KB: F2FSJ over XFS",
    "copy-4KB: F2FSJ over XFS",
];

/// The name of a system in the table of published values.
pub fn title(system: System) -> String {
    match system {
        System::F2fsj => "F2FSJ".into(),
        other => other.name(),
    }
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published();
    let found = Found::new(plan, outcomes);
    let mut rows = sizes(plan, &table);
    for Compared { op, pair } in PUBLISHED {
        let item = format!("{}: {} over {}", op.word(), title(pair.0), title(pair.1));
        let why = why(op, pair, &found)?;
        let gain = found.gain(op, pair, At::Whole)?;
        let varied = At::experiments(plan, |at| found.gain(op, pair, at))?;
        let published = table.get(FIGURE, &item, None);
        let mut row = Row::judged(published, gain).because(&why);
        row = row.shown_by_all(published, varied);
        if [pair.0, pair.1].contains(&System::Ext4) {
            row = row.shown_by(published, found.ext4_halved(op, pair)?);
        } else {
            let gain = found.gain(op, (pair.0, System::Checkpoint1), At::Whole)?;
            let often = Experiment::on(OFTEN).with("after 1 s instead of 60", gain);
            row = row.shown_by(published, often);
        }
        let at = rows.len();
        if op.removes() {
            let item = format!("{item}, with the preparation");
            let gain = found.gain_with_preparation(op, pair)?;
            row = row.shown_by(published, prepared(gain));
            rows.push(Row::ours(FIGURE, &item, "gain", gain).noted(PREPARED));
        }
        rows.insert(at, row);
    }
    rows.extend(XFS.map(|item| Row::unmeasured(table.get(FIGURE, item, None), None)));
    rows.extend(pages(plan, outcomes, &table)?);
    Ok(Section {
        title: "5.3: operations on names and small files".into(),
        words: words(plan),
        rows,
        tables: vec![rates(&found)?, gains(&found)?, parts(&found)?],
        plots: vec![bars(&found)?],
    })
}

fn words(plan: &Plan) -> Vec<String> {
    vec![
        format!(
            "One process, 100 entries a directory, {} objects and a ring of {} MiB where the paper has 4 million and 256 MiB; ext4's journal is four times \
             the ring, as published. A run counts from its first operation to the end of its last, as filebench's does: what is still in memory \
             then is in no system's time.",
            plan.objects(),
            number(plan.size().ring as f64 / f64::from(1 << 20))
        ),
        format!(
            "checkpoint-5-bg writes stock checkpoints in a task of its own, which is what the released prototype of F2FSJ does. A run of fewer objects is \
             shorter, and so are all intervals, by the same factor: the paper's 60, 5 and 1 s (checkpoints, commits, of ext4 too) are {}, {} and {} here, \
             and the flusher looks as much more often at pages that are as much younger. Counts are Linux's.",
            plan.interval(60),
            plan.interval(5),
            plan.interval(1)
        ),
    ]
}

/// Rows of section 5.1: sizes of volume and journal.
fn sizes(plan: &Plan, table: &Table) -> Vec<Row> {
    let size = plan.size();
    let ext4 = System::Ext4.stack(DEVICE, size, plan.seed);
    let journal = f64::from(ext4.journal_blocks.unwrap_or(0)) * base::BLOCK_BYTES as f64;
    let over = |item: &str, what: f64| {
        Row::judged(
            table.get("5.1", item, None),
            size.ring as f64 / what.max(1.0),
        )
    };
    vec![
        over("journal of F2FSJ over that of ext4", journal),
        over("journal of F2FSJ over the drive", size.bytes as f64),
    ]
}

/// Workloads `fsync:` whose operations are one transaction each.
const PAGES: [(&str, &str); 2] = [
    ("create", "op=create,size=4k"),
    ("unlink", "op=unlink,size=4k"),
];

fn one_by_one(plan: &Plan, op: &str) -> RunJob {
    let count = plan.pick(1_000, 500, 50);
    RunJob::new(plan, System::Ext4, format!("fsync:{op},count={count}"))
}

/// Rows of section 5.3.1: pages that one operation hands to JBD2.
fn pages(plan: &Plan, outcomes: &Outcomes, table: &Table) -> Result<Vec<Row>, PaperError> {
    let item = "pages of metadata that a creation or removal on ext4 journals";
    let published = table.get("5.3.1", item, None);
    let row = |(name, op): (&str, &str)| {
        let run = run_of(outcomes, &one_by_one(plan, op))?;
        let pages = run.blocks.get("journal_metadata").copied().unwrap_or(0);
        let commits = run.commits.max(1);
        let why = format!(
            "counted where each operation is a transaction of its own: {pages} pages in {commits} commits; operations that touch the same inode tables, \
             bitmaps and directory in one transaction share them, and the paper does not say what it counts"
        );
        let row = Row::judged(published, pages as f64 / commits as f64);
        Ok(row.because(&why).of(name))
    };
    PAGES.into_iter().map(row).collect()
}

fn micros_each(seconds: f64, of: &Measured) -> f64 {
    seconds * 1e6 / of.ops.max(1) as f64
}

/// Seconds that operations of ext4 spend on JBD2, in handles and waiting; its task is left out.
fn jbd2_s(of: &Measured) -> f64 {
    let not = [JBD2_LOCKING, JBD2_COMMITTER];
    let waits = of.jbd2_s.iter().filter(|(name, _)| {
        // The time of handles already has the locks.
        name.starts_with("wait: ") && !not.contains(&name.as_str())
    });
    waits.map(|(_, s)| *s).sum()
}

/// Says where the time of an operation goes.
fn parts_of(system: System, of: &Measured) -> String {
    let all = number(micros_each(of.seconds, of));
    let name = title(system);
    let blocks = number(of.blocks.values().sum::<u64>() as f64 / of.ops.max(1) as f64);
    match (system, &of.journal) {
        (System::Ext4, _) => format!(
            "{name} takes {all} us an operation and writes {blocks} blocks, {} us are the operations' own part of JBD2; {} commits",
            number(micros_each(jbd2_s(of), of)),
            of.jbd2.0
        ),
        (_, Some(journal)) => format!(
            "{name} takes {all} us an operation and writes {blocks} blocks, {} us are the operations' own part of the journal; {} commits, {} packs",
            number(micros_each(journal.of_operations(), of)),
            journal.commits,
            of.checkpoints.packs
        ),
        (_, None) => format!(
            "{name} takes {all} us an operation and writes {blocks} blocks, {} us are inside of {} checkpoints",
            number(micros_each(of.checkpoints.inside_s, of)),
            of.checkpoints.packs
        ),
    }
}

/// Time of an operation without what it costs to be consistent: checkpoints, or the journal.
fn bare(system: System, of: &Measured) -> f64 {
    let kept = match (system, &of.journal) {
        (System::Ext4, _) => jbd2_s(of),
        (_, Some(journal)) => journal.of_operations(),
        (_, None) => of.checkpoints.inside_s,
    };
    micros_each(of.seconds - kept, of)
}

fn why(op: Op, (a, b): (System, System), found: &Found<'_>) -> Result<String, PaperError> {
    let (of_a, of_b) = (found.of(op, a, At::Whole)?, found.of(op, b, At::Whole)?);
    let rest = format!(
        "without these parts {} takes {} us and {} {} us",
        title(a),
        number(bare(a, of_a)),
        title(b),
        number(bare(b, of_b))
    );
    let interval = match (a, b) {
        (System::Checkpoint60, _) | (_, System::Checkpoint60) => {
            let stock = if a == System::Checkpoint60 {
                of_a
            } else {
                of_b
            };
            match stock.checkpoints.packs {
                0 => format!(
                    "; in {} s no interval of {} passed and no count reached its trigger, so there is no checkpoint to save",
                    number(stock.seconds),
                    found.plan.interval(60)
                ),
                _ => format!(
                    "; checkpoints are {} % of stock's time, which is all that a journal can save",
                    number(100.0 * share(stock))
                ),
            }
        }
        _ => String::new(),
    };
    Ok(format!(
        "the parts: {}; {}; {rest}{interval}",
        parts_of(a, of_a),
        parts_of(b, of_b)
    ))
}

fn head(first: &str, rest: impl IntoIterator<Item = String>) -> Vec<String> {
    [first.to_string()].into_iter().chain(rest).collect()
}

fn rates(found: &Found<'_>) -> Result<Listed, PaperError> {
    let line = |op: Op| {
        let each = SYSTEMS.map(|system| Ok(number(rate(found.of(op, system, At::Whole)?).round())));
        let each: Result<Vec<String>, PaperError> = each.into_iter().collect();
        Ok(head(op.word(), each?))
    };
    let lines: Result<_, PaperError> = Op::ALL.into_iter().map(line).collect();
    Ok((
        "Operations a second".into(),
        head("operation", SYSTEMS.map(title)),
        lines?,
    ))
}

fn gains(found: &Found<'_>) -> Result<Listed, PaperError> {
    use System::{Checkpoint60, Ext4, F2fsj};
    let pairs = [(F2fsj, Checkpoint60), (F2fsj, Ext4), (Checkpoint60, Ext4)];
    let name = |((a, b), at): ((System, System), At)| {
        format!("{} over {}, {}", title(a), title(b), at.text(found.plan))
    };
    let all: Vec<_> = pairs
        .into_iter()
        .flat_map(|pair| At::LEVELS.map(|at| (pair, at)))
        .collect();
    let line = |op: Op| {
        let each = all
            .iter()
            .map(|&(pair, at)| Ok(number(found.gain(op, pair, at)?)));
        let each: Result<Vec<String>, PaperError> = each.collect();
        Ok(head(op.word(), each?))
    };
    let lines: Result<_, PaperError> = Op::ALL.into_iter().map(line).collect();
    Ok((
        "Gains in throughput with half, the whole and twice the CPU costs of the table".into(),
        head("operation", all.iter().map(|at| name(*at))),
        lines?,
    ))
}

/// Table of what each run consists of.
fn parts(found: &Found<'_>) -> Result<Listed, PaperError> {
    const HEAD: [&str; 10] = [
        "system",
        "seconds",
        "us an operation",
        "checkpoints",
        "inside, us an operation",
        "commits",
        "journal, us an operation",
        "commit and apply, us an operation",
        "blocks an operation",
        "of them into a journal",
    ];
    let mut lines = Vec::new();
    for op in Op::ALL {
        for system in SYSTEMS {
            let of = found.of(op, system, At::Whole)?;
            let each = |seconds: f64| number(micros_each(seconds, of));
            let journal = of.journal.clone().unwrap_or_default();
            let (commits, own) = match system {
                System::Ext4 => (of.jbd2.0, jbd2_s(of)),
                _ => (journal.commits, journal.of_operations()),
            };
            let to_journal = of.blocks.iter().filter(|(c, _)| c.starts_with("journal"));
            let logged: u64 = to_journal.map(|(_, n)| *n).sum();
            let per_op = |blocks: u64| number(blocks as f64 / of.ops.max(1) as f64);
            lines.push(vec![
                op.word().into(),
                title(system),
                number(of.seconds),
                each(of.seconds),
                of.checkpoints.packs.to_string(),
                each(of.checkpoints.inside_s),
                commits.to_string(),
                each(own),
                each(journal.of_tasks()),
                per_op(of.blocks.values().sum()),
                per_op(logged),
            ]);
        }
    }
    let caption = "The parts of each run; a pack that an apply writes counts as a checkpoint, and nobody waits for it; the journal's own part is that of \
                   operations, commit and apply are tasks beside them (of ext4 not shown)";
    Ok((
        caption.into(),
        head("operation", HEAD.map(String::from)),
        lines,
    ))
}

fn bars(found: &Found<'_>) -> Result<(String, plot::Plot), PaperError> {
    let groups: Vec<String> = Op::ALL.iter().map(|op| op.word().to_string()).collect();
    let mut series = Vec::new();
    for system in SYSTEMS {
        let over = |op: &Op| found.gain(*op, (system, System::Checkpoint60), At::Whole);
        let values: Result<Vec<f64>, PaperError> =
            Op::ALL.iter().map(|op| Ok(over(op)? + 1.0)).collect();
        series.push((title(system), values?));
    }
    let title = "Throughput over that of checkpoint-60";
    let drawn = plot::grouped_bars(title, "times", &groups, &series);
    let caption = format!("{title}. {DERIVED}");
    Ok((caption, drawn.beside(&marks())))
}

/// The published gains as multiples of checkpoint-60, each on the system that is not F2FSJ, or on
/// F2FSJ where it is over checkpoint-60.
fn marks() -> Vec<Mark> {
    use System::{Checkpoint60, Ext4, F2fsj};
    let table = published();
    let of = |op: Op, (a, b): (System, System)| {
        let item = format!("{}: {} over {}", op.word(), title(a), title(b));
        table.get(FIGURE, &item, None)
    };
    let mut marks = Vec::new();
    for Compared { op, pair } in PUBLISHED {
        let own = of(op, (F2fsj, Checkpoint60)).value.map_or(1.0, times);
        let mark = |system: System| of(op, pair).mark(Some(&title(system)), group(op.word()));
        let ext4 = || mark(Ext4);
        marks.extend(match pair {
            (F2fsj, Checkpoint60) => mark(F2fsj).map(|m| m.map(times)),
            (F2fsj, _) => ext4().map(|m| m.turned(|gain| own / times(gain))),
            (Checkpoint60, _) => ext4().map(|m| m.turned(|gain| 1.0 / times(gain))),
            _ => ext4().map(|m| m.map(|gain| own * times(gain))),
        });
    }
    marks
}
