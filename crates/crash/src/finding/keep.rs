//! What a campaign leaves behind: folders of findings, `results.json`, `junit.xml`, `index.html`.
//!
//! Every finding has its line in `results.json`, but folders are large, so their number is bounded:
//! the first finding of each rule under each scheme comes first, then the first of each rule in
//! each case. Positive controls keep no folders, because their damage is expected.

use super::dossier::{Dossier, Shrunk, run_of};
use super::folder::{self, Content, Store};
use super::hunt::Budget;
use super::id::Id;
use super::report::{CampaignReport, CaseReport, FindingReport};
use super::repro::Repro;
use super::shrink::shrink;
use super::{junit, page, rule_of};
use crate::campaign::Finding;
use crate::case::{Case, Volumes};
use crate::plan::{Done, Job};
use std::collections::BTreeSet;

/// How much a campaign keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    /// Most folders of findings.
    pub folders_max: usize,
    /// The budget for a smaller case of each finding; `None`: none is looked for.
    pub shrink: Option<Budget>,
    /// States that may be judged for all smaller cases together.
    pub shrink_states: u64,
}

impl Default for Keep {
    fn default() -> Self {
        let budget = Budget {
            states: 12_000,
            candidate: 1_500,
            ..Budget::default()
        };
        Keep {
            folders_max: 12,
            shrink: Some(budget),
            shrink_states: 48_000,
        }
    }
}

/// A job whose worker hung or died.
#[derive(Clone, Debug)]
pub struct Gone {
    /// The job that it was working on.
    pub job: Job,
    /// The state that it was judging.
    pub state: Option<String>,
    /// What became of the worker.
    pub why: String,
}

/// What a campaign has kept.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// The report as it was written.
    pub report: CampaignReport,
    /// Folders of findings.
    pub folders: Vec<String>,
    /// What could not be kept, and why.
    pub not_kept: Vec<String>,
}

/// Writes down what the jobs of a campaign found. `head` is its report without cases; folders go to
/// `findings/` of the store.
pub fn keep(
    head: CampaignReport,
    done: &[Done],
    gone: &[Gone],
    how: &Keep,
    store: &mut dyn Store,
) -> Kept {
    let chosen = choose(done, how.folders_max);
    let mut keeper = Keeper {
        how,
        folders_left: chosen.len(),
        chosen,
        left: how.shrink_states,
        volumes: Volumes::default(),
        kept: Kept {
            report: head,
            folders: Vec::new(),
            not_kept: Vec::new(),
        },
        store,
    };
    for (number, done) in done.iter().enumerate() {
        keeper.case(number, done);
    }
    for Gone { job, state, why } in gone {
        let case = CaseReport::lost(job, state.as_deref(), why);
        keeper.kept.report.enter(case);
    }
    keeper.reports();
    keeper.kept
}

struct Keeper<'a> {
    how: &'a Keep,
    volumes: Volumes,
    kept: Kept,
    store: &'a mut dyn Store,
    /// Findings that get folders: the index of the case, and of the finding in it.
    chosen: BTreeSet<(usize, usize)>,
    /// How many of these folders are still to be written.
    folders_left: usize,
    /// States that may still be judged for smaller cases.
    left: u64,
}

impl Keeper<'_> {
    fn case(&mut self, number: usize, done: &Done) {
        let mut case = CaseReport::new(&done.job, &done.explored);
        let run = match done.explored.findings.is_empty() {
            true => Ok(0),
            false => {
                let setup = done.job.case.setup(&mut self.volumes);
                setup.and_then(|setup| run_of(&setup))
            }
        };
        for (n, finding) in done.explored.findings.iter().enumerate() {
            let whole = match self.chosen.contains(&(number, n)) {
                true => self.whole(&done.job.case, finding, &mut case.not_kept),
                false => None,
            };
            let line = |run| Repro::new(&done.job.case, run, &finding.state).to_string();
            let report = match (whole, &run) {
                (Some(report), _) => report,
                (None, Ok(run)) => FindingReport::new(finding, &line(*run)),
                (None, Err(why)) => {
                    let why = format!("the line of state {}: {why}", finding.state);
                    case.not_kept.push(why);
                    FindingReport::new(finding, "")
                }
            };
            case.findings.push(report);
        }
        self.kept.not_kept.extend(case.not_kept.iter().cloned());
        self.kept.report.enter(case);
    }

    /// A finding with its folder, and its smaller case if one is wanted.
    fn whole(
        &mut self,
        case: &Case,
        finding: &Finding,
        not_kept: &mut Vec<String>,
    ) -> Option<FindingReport> {
        let mut complain = |what: &str, why: &dyn std::fmt::Display| {
            not_kept.push(format!("{what} of state {}: {why}", finding.state));
        };
        let id: Id = match finding.state.parse() {
            Ok(id) => id,
            Err(why) => {
                complain("the folder", &why);
                return None;
            }
        };
        let dossier = match Dossier::new(case, &id, &mut self.volumes) {
            Ok(dossier) => dossier,
            Err(why) => {
                complain("the folder", &why);
                return None;
            }
        };
        // Each finding gets its share of what is left, so that the first ones do not take all.
        let share = self.left / self.folders_left.max(1) as u64;
        self.folders_left = self.folders_left.saturating_sub(1);
        let small = self.how.shrink.filter(|_| share > 0).map(|budget| {
            let budget = Budget {
                states: budget.states.min(share),
                ..budget
            };
            let rule = rule_of(&finding.violations);
            shrink(case, &id, rule, budget, &mut self.volumes)
        });
        let small: Option<Shrunk> = match small.transpose() {
            Ok(small) => small,
            Err(why) => {
                complain("a smaller case", &why);
                None
            }
        };
        if let Some(small) = &small {
            self.left = self.left.saturating_sub(small.states);
        }
        let number = self.kept.folders.len();
        let mut store = Below("findings", &mut *self.store);
        let written = folder::write(&mut store, number, &dossier, small.as_ref());
        not_kept.extend(written.not_kept);
        let mut report = dossier.report();
        report.shrunk = small.as_ref().map(Shrunk::report);
        report.folder = Some(format!("findings/{}", written.name));
        self.kept.folders.push(written.name);
        Some(report)
    }

    fn reports(&mut self) {
        let junit = junit::junit(&self.kept.report);
        let texts = [
            ("results.json", Ok(self.kept.report.to_json())),
            ("junit.xml", junit),
            ("index.html", Ok(page::page(&self.kept.report))),
        ];
        if let Err(e) = self.store.folder("") {
            self.kept
                .not_kept
                .push(format!("the folder of reports: {e}"));
        }
        for (name, text) in texts {
            let written = text.and_then(|text| {
                let content = Content::Text(text);
                self.store.file(name, &content).map_err(|e| e.to_string())
            });
            if let Err(why) = written {
                self.kept.not_kept.push(format!("{name}: {why}"));
            }
        }
    }
}

/// Chooses the findings that get folders, at most `max`.
fn choose(done: &[Done], max: usize) -> BTreeSet<(usize, usize)> {
    let cases = done.iter().enumerate().filter(|(_, d)| !d.job.control);
    let all: Vec<(usize, usize, &str, &str)> = cases
        .flat_map(|(case, d)| {
            let scheme = d.job.case.scheme.as_str();
            let findings = d.explored.findings.iter().enumerate();
            findings.map(move |(n, f)| (case, n, rule_of(&f.violations), scheme))
        })
        .collect();
    let (mut schemes, mut cases) = (BTreeSet::new(), BTreeSet::new());
    let (first, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .filter(|(case, _, rule, _)| cases.insert((*case, *rule)))
        .partition(|(_, _, rule, scheme)| schemes.insert((*scheme, *rule)));
    let chosen = first.into_iter().chain(others).take(max);
    chosen.map(|(case, n, ..)| (case, n)).collect()
}

/// A folder inside a store.
struct Below<'a>(&'a str, &'a mut dyn Store);

impl Store for Below<'_> {
    fn folder(&mut self, path: &str) -> std::io::Result<()> {
        self.1.folder(&format!("{}/{path}", self.0))
    }
    fn file(&mut self, path: &str, content: &Content<'_>) -> std::io::Result<()> {
        self.1.file(&format!("{}/{path}", self.0), content)
    }
}
