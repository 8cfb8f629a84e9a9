//! What the papers share: parts, the jobs that these need, and the report made of the outcomes.
//!
//! A part says which jobs it needs and makes its rows from their outcomes. Jobs are compared by
//! their JSON text, so a job that two parts need runs once. Each runs in a worker process of its
//! own, in any order, as no job sees another's outcome.

use super::{Report, Row, Section, Table};
use crate::{NO_VALUE, PaperError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// A job of a paper: one simulation, or a few that belong together.
pub trait Work: Serialize + DeserializeOwned {
    /// What the job gives.
    type Outcome: Serialize + DeserializeOwned;

    /// Runs the job in this process.
    ///
    /// # Errors
    /// The first failure.
    fn run(&self) -> Result<Self::Outcome, PaperError>;

    /// The JSON text of the job; equal texts mean equal jobs.
    fn key(&self) -> String {
        serde_json::to_string(self).expect("plain data serialises")
    }
}

/// Outcomes by [`Work::key`].
pub type Outcomes<O> = BTreeMap<String, O>;

/// A figure, table or section: the jobs it needs, and what becomes of their outcomes.
pub struct Part<P: 'static, J: Work + 'static> {
    /// Its name for `--only`, as `fig13`.
    pub name: &'static str,
    /// The jobs that have to run for it.
    pub jobs: fn(&P) -> Vec<J>,
    /// Makes its rows, tables and plots from the outcomes of its jobs.
    pub section: fn(&P, &Outcomes<J::Outcome>) -> Result<Section, PaperError>,
}

/// The parts of these names, in the order of the page; without names all parts.
///
/// # Errors
/// The first name that no part has.
pub fn parts<'n, P, J: Work>(
    all: &'static [Part<P, J>],
    names: &'n [String],
) -> Result<Vec<&'static Part<P, J>>, &'n str> {
    let unknown = |name: &&String| !all.iter().any(|part| part.name == name.as_str());
    if let Some(name) = names.iter().find(unknown) {
        return Err(name);
    }
    let chosen = |part: &&Part<P, J>| names.is_empty() || names.iter().any(|n| n == part.name);
    Ok(all.iter().filter(chosen).collect())
}

/// The names of all parts.
pub fn names<P, J: Work>(all: &[Part<P, J>]) -> String {
    all.iter().map(|p| p.name).collect::<Vec<_>>().join(", ")
}

/// All jobs of these parts, each of them once.
pub fn jobs<P, J: Work>(plan: &P, parts: &[&Part<P, J>]) -> Vec<J> {
    let mut seen = BTreeSet::new();
    let all = parts.iter().flat_map(|part| (part.jobs)(plan));
    all.filter(|job| seen.insert(job.key())).collect()
}

/// The parts of which all jobs have been run.
pub fn complete<P, J: Work>(
    plan: &P,
    parts: &[&'static Part<P, J>],
    outcomes: &Outcomes<J::Outcome>,
) -> Vec<&'static Part<P, J>> {
    let ran = |job: &J| outcomes.contains_key(&job.key());
    let whole = |part: &&&Part<P, J>| (part.jobs)(plan).iter().all(ran);
    parts.iter().filter(whole).copied().collect()
}

/// Looks up the outcome of `job`.
///
/// # Errors
/// It was not run, because the part did not ask for it.
pub fn outcome<'a, J: Work>(
    outcomes: &'a Outcomes<J::Outcome>,
    job: &J,
) -> Result<&'a J::Outcome, PaperError> {
    let key = job.key();
    outcomes.get(&key).ok_or_else(|| {
        PaperError::Check(format!(
            "no outcome of {key}: the figure did not ask for it"
        ))
    })
}

/// Makes the report and the sections of its page. `command` is what makes the same again; `note` is
/// put into each row.
///
/// # Errors
/// An outcome that a part needs is missing or of another kind.
pub fn report<P, J: Work>(
    paper: &str,
    plan: &P,
    (parts, outcomes): (&[&Part<P, J>], &Outcomes<J::Outcome>),
    command: String,
    note: Option<&str>,
) -> Result<(Report, Vec<Section>), PaperError> {
    let mut sections = Vec::new();
    for part in parts {
        let mut section = (part.section)(plan, outcomes)?;
        if let Some(note) = note {
            section.rows = section.rows.into_iter().map(|r| r.noted(note)).collect();
        }
        sections.push(section);
    }
    Ok((Report::new(paper, command, &sections), sections))
}

/// Published values that have no rows, or rows in more than one section, as `Fig 13, item, app`.
/// This is meant for a report of all parts.
pub fn unanswered(table: &Table, sections: &[Section]) -> Vec<String> {
    let mut wrong = Vec::new();
    for published in table.all() {
        // A value that the paper has once may have rows for several schemes or circumstances.
        let same = |row: &Row| {
            (&row.figure, &row.item) == (&published.figure, &published.item)
                && (published.of.is_none() || row.of == published.of)
        };
        let having = sections.iter().filter(|s| s.rows.iter().any(same));
        let of = published.of.as_deref().unwrap_or("all");
        match having.count() {
            1 => {}
            n => wrong.push(format!(
                "{}, {}, {of}: {n} sections have it",
                published.figure, published.item
            )),
        }
    }
    wrong
}

/// Plots that show no published value and do not say in their caption that there is none, or say
/// so and show one, as `Fig 13, title`.
pub fn silent(sections: &[Section]) -> Vec<String> {
    let all = sections.iter().flat_map(|section| {
        let plots = section.plots.iter();
        plots.map(move |(caption, plot)| (section, caption, plot))
    });
    let silent =
        all.filter(|(_, caption, plot)| plot.has_published() == caption.contains(NO_VALUE));
    let named = silent.map(|(section, _, plot)| format!("{}, {}", section.title, plot.title));
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beside::{group, without_published};
    use crate::{Class, Published};
    use report::plot;

    #[test]
    fn a_plot_has_a_published_value_or_its_caption_says_that_there_is_none() {
        let bars = || plot::grouped_bars("p", "x", &["g".into()], &[("s".into(), vec![1.0])]);
        let published = Published::new("F", "i", "x", Class::Gain, Some(2.0));
        let marks: Vec<_> = published.mark(Some("s"), group("g")).into_iter().collect();
        let said = without_published("c", "why");
        let of = |caption: &str, plot| {
            let section = Section {
                title: "F".into(),
                plots: vec![(caption.into(), plot)],
                ..Section::default()
            };
            silent(&[section])
        };
        assert_eq!(of("c", bars()), ["F, p"]);
        assert_eq!(of(&said, bars().beside(&marks)), ["F, p"], "it has one");
        assert_eq!(of(&said, bars()), [""; 0]);
        assert_eq!(of("c", bars().beside(&marks)), [""; 0]);
    }
}
