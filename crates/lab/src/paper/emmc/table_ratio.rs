//! Table 4: journal blocks over the blocks of the persistence paths, baseline and journal coalition.

use super::job::{Job, Outcomes, run_of};
use super::measure::{decrease, journal_ratio};
use super::plan::{FIG8, Pace, Plan, Source};
use super::published;
use crate::RunError;
use crate::paper::Section;
use crate::report::plot;

const SCHEMES: [&str; 2] = ["jbd2", "coalition"];

fn job(plan: &Plan, source: &Source, scheme: &str) -> Job {
    plan.run(source, scheme, FIG8, Pace::Recorded)
}

/// Each app at its own pace, on both.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let sources = plan.sources();
    let both = |source| SCHEMES.map(|scheme| job(plan, source, scheme));
    sources.iter().flat_map(both).collect()
}

/// The table.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, RunError> {
    let table = published()?;
    let mut section = Section {
        title: "Table 4: journal block ratio".into(),
        words: vec![
            "Journal blocks over journal and data blocks of the persistence paths, home writes not counted, as the paper defines it. \
             Each app at its own pace, timers on."
                .into(),
        ],
        ..Section::default()
    };
    let mut shown = SCHEMES.map(|scheme| (scheme.to_string(), Vec::new()));
    let mut names = Vec::new();
    for source in plan.sources() {
        let mut ratios = [0.0; 2];
        for (n, scheme) in SCHEMES.iter().enumerate() {
            ratios[n] = journal_ratio(run_of(outcomes, &job(plan, &source, scheme))?);
            shown[n].1.push(ratios[n]);
        }
        names.push(source.name());
        let of = |item| table.get("Table 4", item, Some(source.app));
        let rows = [
            source.row(of("journal block ratio, baseline"), ratios[0]),
            source.row(of("journal block ratio, journal coalition"), ratios[1]),
            source.row(
                of("decrease of the journal block ratio by journal coalition"),
                decrease(ratios[0], ratios[1]),
            ),
        ];
        section.rows.extend(rows);
    }
    section.rows.sort_by_key(|row| row.item.clone());
    let svg = plot::grouped_bars("Journal block ratio", "fraction", &names, &shown)?;
    section.plots.push((
        "Share of journal blocks in what is written before a sync returns: less is better.".into(),
        svg,
    ));
    Ok(section)
}
