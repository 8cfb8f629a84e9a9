//! Table 4: journal blocks over journal and data blocks of the persistence paths, on the baseline
//! and with journal coalition. Home writes do not count, as the paper defines the ratio.

use super::job::{Job, Outcomes, run_of};
use super::measure::{blocks_per_commit, data_blocks, decrease, journal_ratio, ratio};
use super::plan::{FIG8, Pace, Plan, Source};
use super::published;
use crate::PaperError;
use crate::Section;
use report::plot;

const SCHEMES: [&str; 2] = ["jbd2", "coalition"];
const BASE_ITEM: &str = "journal block ratio, baseline";
const COALITION_ITEM: &str = "journal block ratio, journal coalition";
const DROP_ITEM: &str = "decrease of the journal block ratio by journal coalition";

fn job(plan: &Plan, source: &Source, scheme: &str) -> Job {
    plan.run(source, scheme, FIG8, Pace::Recorded)
}

/// The jobs: each app at its own pace on both schemes.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let sources = plan.sources();
    let both = |source| SCHEMES.map(|scheme| job(plan, source, scheme));
    sources.iter().flat_map(both).collect()
}

/// Makes the section of this table.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, PaperError> {
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
        let (mut ratios, mut per_commit) = ([0.0; 2], [(0.0, 0.0); 2]);
        for (n, scheme) in SCHEMES.iter().enumerate() {
            let run = run_of(outcomes, &job(plan, &source, scheme))?;
            ratios[n] = journal_ratio(run);
            let data = ratio(data_blocks(run) as f64, run.commits as f64);
            per_commit[n] = (blocks_per_commit(run), data);
            shown[n].1.push(ratios[n]);
        }
        names.push(source.short());
        let of = |item| table.get("Table 4", item, Some(source.app));
        let (base, coalition) = (of(BASE_ITEM), of(COALITION_ITEM));
        let control = table.get(
            "Table 3",
            "control blocks over journal blocks",
            Some(source.app),
        );
        let stands = published_blocks(control.value, base.value, coalition.value);
        let why = |n: usize| why(SCHEMES[n], per_commit[n], stands[n]);
        let both = format!("{}; {}", why(0), why(1));
        let rows = [
            source.row(base, ratios[0]).because(&why(0)),
            source.row(coalition, ratios[1]).because(&why(1)),
            source
                .row(of(DROP_ITEM), decrease(ratios[0], ratios[1]))
                .because(&both),
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

/// Journal and data blocks of a commit that agree with Tables 3 and 4, if there is one descriptor
/// and one commit block: on the baseline and with coalition.
fn published_blocks(
    control: Option<f64>,
    base: Option<f64>,
    coalition: Option<f64>,
) -> [(f64, f64); 2] {
    let (control, base, coalition) = (
        control.unwrap_or_default(),
        base.unwrap_or_default(),
        coalition.unwrap_or_default(),
    );
    let journal = ratio(2.0, control);
    let data = journal * ratio(1.0 - base, base);
    [
        (journal, data),
        (data * ratio(coalition, 1.0 - coalition), data),
    ]
}

fn why(
    scheme: &str,
    (journal, data): (f64, f64),
    (their_journal, their_data): (f64, f64),
) -> String {
    format!(
        "{scheme}: a commit writes {journal:.2} journal and {data:.2} data blocks; Tables 3 and 4 together stand for {their_journal:.2} and \
         {their_data:.2}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facebook_writes_six_journal_blocks_for_two_of_data() {
        let [base, coalition] = published_blocks(Some(0.328), Some(0.73), Some(0.27));
        let near =
            |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).abs() < 0.01 && (a.1 - b.1).abs() < 0.01;
        assert!(
            near(base, (6.10, 2.26)) && near(coalition, (0.83, 2.26)),
            "{base:?} {coalition:?}"
        );
    }
}
