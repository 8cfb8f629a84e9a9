//! From parts to the report: which jobs, and from their outcomes the sections with all rows.

use super::job::{Job, Outcomes};
use super::{PARTS, Part, Plan};
use crate::RunError;
use crate::paper::{Report, SCHEMA, Section};
use std::collections::BTreeSet;

/// What stands in each row of a quick report.
const QUICK: &str = "quick: fewer and shorter runs";

/// The parts of these names, in the order of the page; all if there is none.
///
/// # Errors
/// The name that no part has.
pub fn parts<'a>(names: &'a [String]) -> Result<Vec<&'static Part>, &'a str> {
    let unknown = |name: &&String| !PARTS.iter().any(|part| part.name == name.as_str());
    if let Some(name) = names.iter().find(unknown) {
        return Err(name);
    }
    let chosen = |part: &&Part| names.is_empty() || names.iter().any(|n| n == part.name);
    Ok(PARTS.iter().filter(chosen).collect())
}

/// The names of all parts.
pub fn names() -> String {
    PARTS.iter().map(|p| p.name).collect::<Vec<_>>().join(", ")
}

/// All jobs of these parts, each once.
pub fn jobs(plan: &Plan, parts: &[&Part]) -> Vec<Job> {
    let mut seen = BTreeSet::new();
    let all = parts.iter().flat_map(|part| (part.jobs)(plan));
    all.filter(|job| seen.insert(job.key())).collect()
}

/// The report and the sections of its page. `command` makes the same again.
///
/// # Errors
/// An outcome that a part needs is missing or of another kind.
pub fn report(
    plan: &Plan,
    parts: &[&Part],
    outcomes: &Outcomes,
    command: String,
) -> Result<(Report, Vec<Section>), RunError> {
    let mut sections = Vec::new();
    for part in parts {
        let mut section = (part.section)(plan, outcomes)?;
        if plan.quick {
            section.rows = section.rows.into_iter().map(|r| r.noted(QUICK)).collect();
        }
        sections.push(section);
    }
    let rows = sections.iter().flat_map(|s| s.rows.clone()).collect();
    let report = Report {
        schema: SCHEMA,
        paper: "emmc".into(),
        command,
        rows,
    };
    Ok((report, sections))
}
