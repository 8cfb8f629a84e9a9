//! Fig 18: throughput over the period of commits. The paper's periods are 1 s and 5 s; here they
//! are shortened as the run is by its fewer objects.

use super::job::{Job, Outcomes, measured};
use super::measure::{BenchJob, Journaled, Measured};
use super::names::Op;
use super::scale::{CORES, interval, ring, shorter};
use super::sized::{gain, job, rate};
use super::system::System;
use super::{Plan, published};
use crate::PaperError;
use crate::{Experiment, Row, Section, number};
use base::Nanos;
use rig::Scheme;

const FIGURE: &str = "Fig 18";
/// The periods of the paper, seconds.
const PERIODS: [u32; 2] = [1, 5];

fn count(plan: &Plan) -> u32 {
    plan.pick(60_000, 10_000, 300)
}

fn of(plan: &Plan, op: Op, seconds: u32) -> BenchJob {
    let mut job = job(plan, System::F2fsj, op, (count(plan), ""), CORES);
    if let Scheme::F2fs(scheme) = &mut job.run.stack.scheme {
        // The stack shortens it, as all intervals.
        scheme.commit = Some(Nanos::from_secs(seconds.into()));
    }
    job
}

/// By how much the ring is larger in an experiment on what closes an epoch.
const LARGER: u32 = 8;

fn with_larger_ring(plan: &Plan, op: Op, seconds: u32) -> BenchJob {
    let mut job = of(plan, op, seconds);
    if let Scheme::F2fs(scheme) = &mut job.run.stack.scheme {
        scheme.ring = scheme.ring.map(|blocks| LARGER * blocks);
    }
    job
}

/// The jobs: each operation with each period, with two rings.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let each = |op: Op| {
        let both = |seconds| [of(plan, op, seconds), with_larger_ring(plan, op, seconds)];
        PERIODS.map(both).into_iter().flatten().map(Job::Bench)
    };
    Op::FOUR.into_iter().flat_map(each).collect()
}

/// How much larger the largest log of a commit is with the long period than with the short one.
fn growth_of(short: &Measured, long: &Measured) -> Result<f64, PaperError> {
    let (few, many) = (journal(short)?, journal(long)?);
    Ok(many.bytes_max as f64 / few.bytes_max.max(1) as f64)
}

fn journal(found: &Measured) -> Result<&Journaled, PaperError> {
    let missing = || PaperError::Check("a run of F2FSJ has no figures of a journal".into());
    found.journal.as_ref().ok_or_else(missing)
}

/// Makes this section of the report.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
    let table = published();
    let (mut rates, mut sizes, mut growth, mut lines) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for op in Op::FOUR {
        let name = op.word();
        let runs = PERIODS.map(|s| measured(outcomes, &of(plan, op, s)));
        let [short, long] = runs;
        let (short, long) = (short?, long?);
        let more = gain(rate(long), rate(short)).unwrap_or(0.0);
        let item = format!("{name}: throughput, 5 s over 1 s");
        rates.push(
            Row::judged(table.get(FIGURE, &item, None), more).because(&why_rate(short, long)?),
        );
        let item = format!("{name}: largest log of a commit, 5 s");
        let megabytes = journal(long)?.bytes_max as f64 / 1e6;
        let row = Row::judged(table.get(FIGURE, &item, None), megabytes);
        let whole = megabytes * f64::from(shorter(count(plan)));
        sizes.push(row.noted(&format!("times the scale: {} MB", number(whole))));
        let published = table.get(FIGURE, "log of a commit, 5 s over 1 s", None);
        let row = Row::judged(published, growth_of(short, long)?).of(name);
        let ring = |s| measured(outcomes, &with_larger_ring(plan, op, s));
        let [short_ring, long_ring] = PERIODS.map(ring);
        let experiment = Experiment::on("the ring, a quarter of which closes an epoch").with(
            &format!("{LARGER} times as large"),
            growth_of(short_ring?, long_ring?)?,
        );
        let row = row.because(&why_growth(plan, short, long)?);
        growth.push(row.shown_by(published, experiment));
        for (seconds, found) in PERIODS.iter().zip([short, long]) {
            lines.push(line(plan, name, *seconds, found)?);
        }
    }
    let head = [
        "operation",
        "period (s)",
        "here",
        "operations a second",
        "run (s)",
        "commits",
        "largest (MB)",
        "log (MB)",
        "in commits (s)",
        "waits of operations (s)",
    ];
    Ok(Section {
        title: "Fig 18: the period of commits".into(),
        words: words(plan),
        rows: [rates, sizes, growth].concat(),
        tables: vec![(
            "Each operation with each period".into(),
            head.map(String::from).into(),
            lines,
        )],
        plots: Vec::new(),
    })
}

fn why_rate(short: &Measured, long: &Measured) -> Result<String, PaperError> {
    let (few, many) = (journal(short)?, journal(long)?);
    let waits = |j: &Journaled| number(j.waits_s.values().sum());
    let commits = |j: &Journaled| number(j.commit_s.values().sum());
    Ok(format!(
        "commits go on beside the operations: with the short period {} of them took {} s of a run of {} s, with the long one {} took {} s of {} s; \
         operations waited {} s and {} s for the journal",
        few.commits,
        commits(few),
        number(short.seconds),
        many.commits,
        commits(many),
        number(long.seconds),
        waits(few),
        waits(many)
    ))
}

fn why_growth(plan: &Plan, short: &Measured, long: &Measured) -> Result<String, PaperError> {
    let (few, many) = (journal(short)?, journal(long)?);
    let ring = ring(count(plan)) as f64 / 1e6;
    Ok(format!(
        "an epoch is closed when it has a quarter of the ring ({} MB of {} MB), whatever the period; {} commits in {} s and {} in {} s, the largest of {} MB \
         and {} MB, the whole log {} MB",
        number(ring / 4.0),
        number(ring),
        few.commits,
        number(short.seconds),
        many.commits,
        number(long.seconds),
        number(few.bytes_max as f64 / 1e6),
        number(many.bytes_max as f64 / 1e6),
        number(many.bytes as f64 / 1e6)
    ))
}

fn line(
    plan: &Plan,
    name: &str,
    seconds: u32,
    found: &Measured,
) -> Result<Vec<String>, PaperError> {
    let j = journal(found)?;
    Ok(vec![
        name.into(),
        seconds.to_string(),
        interval(seconds, count(plan)),
        number(rate(found)),
        number(found.seconds),
        j.commits.to_string(),
        number(j.bytes_max as f64 / 1e6),
        number(j.bytes as f64 / 1e6),
        number(j.commit_s.values().sum()),
        number(j.waits_s.values().sum()),
    ])
}

fn words(plan: &Plan) -> Vec<String> {
    vec![format!(
        "The paper's runs have 4 million objects and a ring of 256 MiB; here they have {}, a ring as much smaller, and periods as much shorter: {} for \
         1 s and {} for 5 s, so that a run has about as many commits, each with about the same part of the ring. The largest log of a commit is \
         an amount of that scale; beside it stands what it is times the scale.",
        count(plan),
        interval(PERIODS[0], count(plan)),
        interval(PERIODS[1], count(plan))
    )]
}
