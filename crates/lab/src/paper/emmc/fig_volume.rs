//! Fig 13, data volume: what an app writes to the device with journal coalition and without a journal, over the baseline.

use super::job::{Job, Outcomes, run_of};
use super::measure::{data_blocks, decrease, home_blocks, journal_blocks};
use super::plan::{FIG8, Pace, Plan, Source};
use super::published;
use crate::RunError;
use crate::paper::Section;
use crate::report::plot;
use crate::results::Run;

const SCHEMES: [&str; 3] = ["jbd2", "coalition", "none"];

fn job(plan: &Plan, source: &Source, scheme: &str) -> Job {
    plan.run(source, scheme, FIG8, Pace::Recorded)
}

/// Each app at its own pace.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let sources = plan.sources();
    let all = |source| SCHEMES.map(|scheme| job(plan, source, scheme));
    sources.iter().flat_map(all).collect()
}

/// Blocks before the syncs returned, and with those that go home later.
fn volumes(run: &Run) -> (f64, f64) {
    let path = journal_blocks(run) + data_blocks(run);
    (path as f64, (path + home_blocks(run)) as f64)
}

/// The figure.
///
/// # Errors
/// A run is missing.
pub fn section(plan: &Plan, outcomes: &Outcomes) -> Result<Section, RunError> {
    const ITEM: &str = "decrease of the data volume by journal coalition";
    let table = published()?;
    let mut section = Section {
        title: "Fig 13: data volume".into(),
        words: words(),
        ..Section::default()
    };
    let mut shown = SCHEMES.map(|scheme| (scheme.to_string(), Vec::new()));
    let mut names = Vec::new();
    let mut lines = Vec::new();
    for source in plan.sources() {
        let mut all = [(0.0, 0.0); 3];
        for (n, scheme) in SCHEMES.iter().enumerate() {
            let run = run_of(outcomes, &job(plan, &source, scheme))?;
            all[n] = volumes(run);
            lines.push(line(&source, run));
        }
        let [base, coalition, none] = all;
        for (n, (_, volume)) in all.iter().enumerate() {
            shown[n].1.push(volume / base.1.max(1.0));
        }
        names.push(source.name());
        let published = table.get("Fig 13", ITEM, Some(source.app));
        let path = format!("{ITEM}, without home writes");
        section.rows.extend([
            source.row(published, decrease(base.1, coalition.1)),
            source.ours("Fig 13", &path, "fraction", decrease(base.0, coalition.0)),
            source.ours(
                "Fig 13",
                "decrease of the data volume without a journal",
                "fraction",
                decrease(base.1, none.1),
            ),
        ]);
    }
    section.rows.sort_by_key(|row| row.item.clone());
    let svg = plot::grouped_bars(
        "Data volume over the baseline's",
        "fraction",
        &names,
        &shown,
    )?;
    let caption = "All blocks that the app's run sends to the device, home writes included.";
    section.plots.push((caption.into(), svg));
    let head = ["app", "scheme", "data", "journal", "home"].map(String::from);
    let caption = "Blocks of 4 KiB.";
    section.tables.push((caption.into(), head.into(), lines));
    Ok(section)
}

fn line(source: &Source, run: &Run) -> Vec<String> {
    vec![
        source.name(),
        run.scheme.clone(),
        data_blocks(run).to_string(),
        journal_blocks(run).to_string(),
        home_blocks(run).to_string(),
    ]
}

fn words() -> Vec<String> {
    vec![
        "The paper does not say whether its volume has the metadata that goes home later. It calls the volume with coalition \"almost \
         approximating the data volume in the no-journal case\", and what a system without a journal writes beside data is metadata at home: \
         so home writes are counted, and that is the value that is compared. The volume without home writes follows from Table 4 and \
         stands beside it."
            .into(),
    ]
}
