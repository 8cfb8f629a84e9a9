//! The report of the eMMC paper: [`study`] with this paper's parts and table.

use super::job::{Job, Outcomes};
use super::{PARTS, Part, Plan, published};
use crate::PaperError;
use crate::{Report, Section, study};

/// The note in each row of a quick report.
pub const QUICK: &str = "quick: fewer and shorter runs";

/// The parts of these names, in the order of the page; without names all parts.
///
/// # Errors
/// The first name that no part has.
pub fn parts(names: &[String]) -> Result<Vec<&'static Part>, &str> {
    study::parts(PARTS, names)
}

/// The names of all parts.
pub fn names() -> String {
    study::names(PARTS)
}

/// All jobs of these parts, each of them once.
pub fn jobs(plan: &Plan, parts: &[&Part]) -> Vec<Job> {
    study::jobs(plan, parts)
}

/// Makes the report and the sections of its page. `command` is what makes the same again.
///
/// # Errors
/// An outcome that a part needs is missing or of another kind.
pub fn report(
    plan: &Plan,
    parts: &[&Part],
    outcomes: &Outcomes,
    command: String,
) -> Result<(Report, Vec<Section>), PaperError> {
    let note = plan.quick.then_some(QUICK);
    study::report("emmc", plan, (parts, outcomes), command, note)
}

/// Published values that have no rows, or rows in more than one section, as `Fig 13, item, app`.
/// This is meant for a report of all parts.
///
/// # Errors
/// The committed table is not valid.
pub fn unanswered(sections: &[Section]) -> Result<Vec<String>, PaperError> {
    Ok(study::unanswered(&published()?, sections))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;
    use std::collections::BTreeSet;

    #[test]
    fn names_of_parts_are_unique_and_found() {
        let all = parts(&[]).unwrap();
        let unique: BTreeSet<&str> = all.iter().map(|part| part.name).collect();
        assert_eq!(unique.len(), all.len());
        let names = ["fig14".to_string(), "table4".to_string()];
        let chosen: Vec<&str> = parts(&names).unwrap().iter().map(|p| p.name).collect();
        assert_eq!(chosen, ["table4", "fig14"], "in the order of the page");
        assert_eq!(parts(&["fig99".to_string()]).err(), Some("fig99"));
    }

    #[test]
    fn a_job_that_two_parts_want_runs_once() {
        let plan = Plan::new(true, 1, None);
        let twice = parts(&["fig12".to_string(), "fig14".to_string()]).unwrap();
        let all = jobs(&plan, &twice);
        let keys: BTreeSet<String> = all.iter().map(study::Work::key).collect();
        assert_eq!(keys.len(), all.len());
        let apart: usize = twice.iter().map(|part| (part.jobs)(&plan).len()).sum();
        assert!(all.len() < apart);
    }

    #[test]
    fn a_published_value_without_a_row_is_named_and_one_with_two_as_well() {
        let table = published().unwrap();
        let rows = table.all().iter().map(|p| Row::unmeasured(p, Some("no")));
        let section = Section {
            rows: rows.collect(),
            ..Section::default()
        };
        assert!(
            unanswered(std::slice::from_ref(&section))
                .unwrap()
                .is_empty()
        );
        let mut less = section.clone();
        let gone = less.rows.remove(0);
        let named = unanswered(&[less]).unwrap();
        assert!(
            named.len() == 1 && named[0].contains(&gone.item),
            "{named:?}"
        );
        assert_eq!(unanswered(&[section.clone(), section]).unwrap().len(), 108);
    }
}
