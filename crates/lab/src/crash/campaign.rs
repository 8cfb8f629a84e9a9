//! Cases, and the exploration of one: run, cut everywhere within a bound, recover, judge, count.

use super::check::Checker;
use super::oracle::Subject;
use super::traced::{Traced, trace};
use super::{CrashConfig, Judgement, Volume};
use crate::RunError;
use base::{Set, Time};
use rig::{Bound, Choice, Image};

/// Where a state lies in the exploration of a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of the cut among the moments of the run, from 0.
    pub point: usize,
    /// When, virtual ns.
    pub at: Time,
    /// What the device did.
    pub choice: Choice,
}

/// A state that violates a rule.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which state.
    pub place: Place,
    /// What is wrong, and what is lost.
    pub judgement: Judgement,
    /// What had begun until the cut.
    pub story: Vec<String>,
}

/// What the exploration of a case gave.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Moments at which the power was cut.
    pub points: u64,
    /// States that the bound names.
    pub enumerated: u64,
    /// Of them, equal to one that was judged.
    pub deduplicated: u64,
    /// States left out because no recovery can tell them apart.
    pub pruned: u64,
    /// States beyond the bound of one cut: not looked at.
    pub beyond: u64,
    /// States recovered, mounted and judged.
    pub judged: u64,
    /// Violations.
    pub findings: Vec<Finding>,
    /// Why the run itself failed, if it did.
    pub failure: Option<String>,
    /// How often the guard of each mutant was reached.
    pub reached: rt::Reached,
}

/// States judged in one simulation.
const BATCH: usize = 256;

/// Runs `subject` once and judges the states of all its cuts within `bound`.
///
/// # Errors
/// Something that is no property of a state failed.
pub fn explore_subject(
    config: &CrashConfig,
    volume: &Volume,
    subject: &dyn Subject,
    bound: &Bound,
) -> Result<Explored, RunError> {
    let Traced {
        trace,
        mut oracle,
        began,
        failure,
        reached,
        ..
    } = trace(config, volume, subject)?;
    let mut out = Explored {
        failure,
        reached,
        ..Explored::default()
    };
    let checker = Checker::new(config, volume);
    let mut cursor = trace.cursor();
    let mut seen: Set<(u64, u64)> = Set::default();
    for (point, at) in trace.cut_points().into_iter().enumerate() {
        if at <= began {
            continue;
        }
        cursor.seek(at);
        oracle.advance(at);
        out.points += 1;
        let mut fresh: Vec<(Choice, Image)> = Vec::new();
        for choice in cursor.choices(bound) {
            out.enumerated += 1;
            let image = cursor.image(&choice);
            match seen.insert((image.content_hash(), oracle.epoch())) {
                true => fresh.push((choice, image)),
                false => out.deduplicated += 1,
            }
        }
        for batch in fresh.chunks(BATCH) {
            let images: Vec<Image> = batch.iter().map(|(_, image)| image.clone()).collect();
            checker.check(oracle.as_ref(), &images, &mut |n, judgement| {
                out.judged += 1;
                if !judgement.violations.is_empty() {
                    let choice = batch[n].0.clone();
                    out.findings.push(Finding {
                        place: Place { point, at, choice },
                        judgement,
                        story: oracle.story(),
                    });
                }
                true
            })?;
        }
    }
    Ok(out)
}
