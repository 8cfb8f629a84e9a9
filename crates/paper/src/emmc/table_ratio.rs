//! Table 4: the mean over the persistence paths of journal blocks over journal and data blocks, on
//! the baseline and with journal coalition. Home writes do not count, as the paper defines the
//! ratio (VI.A: "journal block ratio in every data persistence path", "Average"), and neither does
//! what the host writes back while no sync waits.

use super::characterised;
use super::job::{Job, Outcomes};
use super::measure::{data_blocks, decrease, journal_ratio, ratio};
use super::plan::{BASE, COALITION, COALITION_ALWAYS, COUNTED, FAST, FAST_ADAPTIVE, FIG8};
use super::plan::{OTHER_CALLS, Plan, Source, marked};
use super::published;
use crate::PaperError;
use crate::beside::group;
use crate::{Experiment, Published, Row, Section};
use report::plot;

/// The paper's schemes, the other reading of its coalition, ours without any commit block, and fast
/// commits.
const SCHEMES: [&str; 6] = [
    BASE,
    COALITION,
    COALITION_ALWAYS,
    "coalition",
    FAST,
    FAST_ADAPTIVE,
];
const BASE_ITEM: &str = "journal block ratio, baseline";
const COALITION_ITEM: &str = "journal block ratio, journal coalition";
/// The ratio of all that a run wrote, whoever wrote it, in the order of the paper's schemes.
const TOTAL_ITEMS: [&str; 2] = [
    "journal blocks over journal and data blocks of the whole run, baseline",
    "journal blocks over journal and data blocks of the whole run, journal coalition",
];
/// Items of the schemes that the paper has no ratio of, in the order of [`SCHEMES`].
const OURS_ITEMS: [&str; 4] = [
    "journal block ratio, journal coalition with a commit block behind every transaction",
    "journal block ratio, coalition without commit blocks",
    "journal block ratio, fast commits of Linux",
    "journal block ratio, fast commits in the adaptive order",
];
const DROP_ITEM: &str = "decrease of the journal block ratio by journal coalition";

fn job(plan: &Plan, source: &Source, scheme: &str) -> Job {
    characterised::job(plan, source, scheme, FIG8)
}

/// The jobs: each app at its own pace on each scheme.
pub fn jobs(plan: &Plan) -> Vec<Job> {
    let sources = plan.sources();
    let all = |source| SCHEMES.map(|scheme| job(plan, source, scheme));
    sources.iter().flat_map(all).collect()
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
            "Journal blocks over journal and data blocks that are submitted between the begin and the end of a sync, as the mean over all syncs that write \
             to the journal: the paper's \"journal block ratio in every data persistence path\" and its \"Average\" (VI.A). Home writes do not count, and \
             neither does what is written back while no sync waits. The ratio of all that a run wrote stands beside. Each app at its own pace, timers on."
                .into(),
        ],
        ..Section::default()
    };
    let mut shown = SCHEMES.map(|scheme| (scheme.to_string(), Vec::new()));
    let mut names = Vec::new();
    let mut all: Vec<(Source, Ratios)> = Vec::new();
    for source in plan.sources() {
        let ratios = Ratios::of(plan, outcomes, &source)?;
        for (n, (_, bars)) in shown.iter_mut().enumerate() {
            bars.push(ratios.ratio[n]);
        }
        names.push(source.short());
        all.push((source, ratios));
    }
    for (source, ratios) in &all {
        let generated = all.iter().find(|(s, _)| s.app == source.app);
        let stand_in = generated.filter(|_| !source.is_generated());
        let rows = rows(&table, source, ratios, stand_in.map(|(_, r)| r));
        section.rows.extend(rows);
    }
    section.rows.sort_by_key(|row| row.item.clone());
    let drawn = plot::grouped_bars("Journal block ratio", "fraction", &names, &shown);
    let mut marks = Vec::new();
    for (source, _) in &all {
        for (item, scheme) in [BASE_ITEM, COALITION_ITEM].into_iter().zip(SCHEMES) {
            let published = table.get("Table 4", item, Some(source.app));
            marks.extend(published.mark(Some(scheme), group(&source.short())));
        }
    }
    section.plots.push((
        "Share of journal blocks in what is written before a sync returns: less is better.".into(),
        drawn.beside(&marks),
    ));
    Ok(section)
}

/// What a source gave, in the order of [`SCHEMES`].
struct Ratios {
    /// Journal blocks over journal and data blocks, mean over the paths.
    ratio: [f64; SCHEMES.len()],
    /// Journal and data blocks of a path.
    per_path: [(f64, f64); SCHEMES.len()],
    /// The ratio of the whole run.
    total: [f64; SCHEMES.len()],
    /// Data blocks of the whole run, over the paths.
    data: [f64; SCHEMES.len()],
}

impl Ratios {
    fn of(plan: &Plan, outcomes: &Outcomes, source: &Source) -> Result<Ratios, PaperError> {
        let mut all = Ratios {
            ratio: [0.0; SCHEMES.len()],
            per_path: [(0.0, 0.0); SCHEMES.len()],
            total: [0.0; SCHEMES.len()],
            data: [0.0; SCHEMES.len()],
        };
        for (n, scheme) in SCHEMES.iter().enumerate() {
            let traffic = characterised::traffic(plan, outcomes, source, (scheme, FIG8))?;
            let written = &traffic.paths.written;
            all.ratio[n] = written.journal_ratio();
            all.per_path[n] = written.blocks();
            all.total[n] = journal_ratio(&traffic.run);
            all.data[n] = ratio(data_blocks(&traffic.run) as f64, written.syncs as f64);
        }
        Ok(all)
    }

    /// The same with the ratios of whole runs in place of those of paths.
    fn of_whole_runs(&self) -> Ratios {
        Ratios {
            ratio: self.total,
            ..*self
        }
    }

    /// The decrease by coalition, or by its other reading.
    fn drop_of(&self, scheme: usize) -> f64 {
        decrease(self.ratio[0], self.ratio[scheme])
    }
}

/// The rows of a source. `stand_in` are the ratios of the generated app where the source is its
/// recording.
fn rows(
    table: &crate::Table,
    source: &Source,
    here: &Ratios,
    stand_in: Option<&Ratios>,
) -> Vec<Row> {
    let of = |item| table.get("Table 4", item, Some(source.app));
    let (base, coalition, drop) = (of(BASE_ITEM), of(COALITION_ITEM), of(DROP_ITEM));
    let control = "control blocks over journal blocks";
    let control = table.get("Table 3", control, Some(source.app));
    let stands = published_blocks(control.value, base.value, coalition.value);
    let why = |n: usize| why((SCHEMES[n], here.data[n]), here.per_path[n], stands[n]);
    let both = format!("{}; {}", why(0), why(1));
    let row =
        |published: &Published, of: &dyn Fn(&Ratios) -> f64, other: Option<f64>, why: &str| {
            let mut row = source.row(published, of(here)).because(why);
            let all = Experiment::on("data that the host writes back while no sync waits");
            let all = all.computed("counted to the paths", of(&here.of_whole_runs()));
            row = row.shown_by(published, all);
            if let Some(stand_in) = stand_in {
                let calls = Experiment::on(OTHER_CALLS);
                row = row.shown_by(published, calls.fitted(COUNTED, of(stand_in)));
            }
            match other {
                Some(other) => {
                    let block = Experiment::on("a commit block behind every transaction");
                    row.shown_by(published, block.with("with it", other))
                }
                None => row,
            }
        };
    let mut rows = vec![
        row(base, &|r| r.ratio[0], None, &why(0)),
        row(coalition, &|r| r.ratio[1], Some(here.ratio[2]), &why(1)),
        row(drop, &|r| r.drop_of(1), Some(here.drop_of(2)), &both),
    ];
    let ours = OURS_ITEMS.iter().zip(&here.ratio[2..]).zip(&SCHEMES[2..]);
    let total = TOTAL_ITEMS.iter().zip(&here.total).zip(&SCHEMES);
    rows.extend(ours.chain(total).map(|((item, ratio), scheme)| {
        marked(source.ours("Table 4", item, "fraction", *ratio), scheme)
    }));
    rows
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
    (scheme, all_data): (&str, f64),
    (journal, data): (f64, f64),
    (their_journal, their_data): (f64, f64),
) -> String {
    format!(
        "{scheme}: a path writes {journal:.2} journal and {data:.2} data blocks, of {all_data:.2} that the run writes for each path; Tables 3 and 4 \
         together stand for {their_journal:.2} and {their_data:.2}"
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
