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
use super::rule_of;
use super::shrink::shrink;
use super::stream::Stream;
use super::totals::Totals;
use crate::campaign::{Explored, Finding};
use crate::case::{Case, Volumes};
use crate::plan::{Done, Job};
use std::collections::BTreeSet;
use tempfile::NamedTempFile;

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
    let mut choice = Choice::new(how.folders_max);
    done.iter()
        .for_each(|done| choice.look(&done.job, &done.explored));
    let mut report = head.clone();
    let mut keeper = Keeper::begin(head, choice, *how, store);
    let (mut done, mut gone) = (done.iter().peekable(), gone.iter().peekable());
    loop {
        let before = |a: &Done, b: &&Gone| a.job.number <= b.job.number;
        let case = match (done.peek(), gone.peek()) {
            (Some(a), Some(b)) if !before(a, b) => gone.next().map(|gone| keeper.gone(gone)),
            (Some(_), _) => done.next().map(|d| keeper.done(&d.job, &d.explored)),
            (None, _) => gone.next().map(|gone| keeper.gone(gone)),
        };
        match case {
            Some(case) => report.cases.push(case),
            None => break,
        }
    }
    let ended = keeper.end();
    Kept {
        report,
        folders: ended.folders,
        not_kept: ended.not_kept,
    }
}

/// What is known of a campaign that was kept case by case.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The sums over its cases.
    pub totals: Totals,
    /// Folders of findings.
    pub folders: Vec<String>,
    /// What could not be kept, and why.
    pub not_kept: Vec<String>,
}

/// Writes down what a campaign found, job by job.
pub struct Keeper<'a> {
    how: Keep,
    volumes: Volumes,
    stream: Stream,
    folders: Vec<String>,
    not_kept: Vec<String>,
    store: &'a mut dyn Store,
    /// Findings that get folders: the number of the job, and of the finding in it.
    chosen: BTreeSet<(usize, usize)>,
    /// How many of these folders are still to be written.
    folders_left: usize,
    /// States that may still be judged for smaller cases.
    left: u64,
}

impl<'a> Keeper<'a> {
    /// Begins. `choice` has seen every job; `head` is the report without cases.
    pub fn begin(
        head: CampaignReport,
        choice: Choice,
        how: Keep,
        store: &'a mut dyn Store,
    ) -> Keeper<'a> {
        let chosen = choice.chosen();
        Keeper {
            how,
            folders_left: chosen.len(),
            chosen,
            left: how.shrink_states,
            volumes: Volumes::default(),
            stream: Stream::begin(head, store),
            folders: Vec::new(),
            not_kept: Vec::new(),
            store,
        }
    }

    /// Writes down a job that was explored; jobs come in the order of their numbers. The answer is
    /// its entry in the report.
    pub fn done(&mut self, job: &Job, explored: &Explored) -> CaseReport {
        let mut case = CaseReport::new(job, explored);
        let run = match explored.findings.is_empty() {
            true => Ok(0),
            false => {
                let setup = job.case.setup(&mut self.volumes);
                setup.and_then(|setup| run_of(&setup))
            }
        };
        for (n, finding) in explored.findings.iter().enumerate() {
            let whole = match self.chosen.contains(&(job.number, n)) {
                true => self.whole(&job.case, finding, &mut case.not_kept),
                false => None,
            };
            let line = |run| Repro::new(&job.case, run, &finding.state).to_string();
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
        self.not_kept.extend(case.not_kept.iter().cloned());
        self.enter(case)
    }

    /// Writes down a job whose worker hung or died.
    pub fn gone(&mut self, gone: &Gone) -> CaseReport {
        let case = CaseReport::lost(&gone.job, gone.state.as_deref(), &gone.why);
        self.enter(case)
    }

    fn enter(&mut self, case: CaseReport) -> CaseReport {
        let case = case.in_order();
        self.stream.add(&case, self.store);
        case
    }

    /// Ends the reports.
    pub fn end(self) -> Ended {
        let (totals, lost) = self.stream.end(self.store);
        let mut not_kept = self.not_kept;
        not_kept.extend(lost);
        Ended {
            totals,
            folders: self.folders,
            not_kept,
        }
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
        let number = self.folders.len();
        let mut store = Below("findings", &mut *self.store);
        let written = folder::write(&mut store, number, &dossier, small.as_ref());
        not_kept.extend(written.not_kept);
        let mut report = dossier.report();
        report.shrunk = small.as_ref().map(Shrunk::report);
        report.folder = Some(format!("findings/{}", written.name));
        self.folders.push(written.name);
        Some(report)
    }
}

/// Chooses the findings that get folders, as it looks at job after job. It keeps no more of them
/// than there are folders, but for the first of each rule under each scheme.
pub struct Choice {
    max: usize,
    /// Rules that a scheme has broken.
    broken: BTreeSet<(String, String)>,
    /// The first finding of each rule under each scheme.
    first: Vec<(usize, usize)>,
    /// The first finding of each rule in each case, further than those.
    others: Vec<(usize, usize)>,
}

impl Choice {
    /// Chooses at most `max`.
    pub fn new(max: usize) -> Choice {
        Choice {
            max,
            broken: BTreeSet::new(),
            first: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Looks at a job; jobs come in the order of their numbers.
    pub fn look(&mut self, job: &Job, explored: &Explored) {
        if job.control {
            return;
        }
        let mut rules = BTreeSet::new();
        for (n, finding) in explored.findings.iter().enumerate() {
            let rule = rule_of(&finding.violations);
            if !rules.insert(rule) {
                continue;
            }
            let of_scheme = (job.case.scheme.clone(), rule.to_string());
            match self.broken.insert(of_scheme) {
                true => self.first.push((job.number, n)),
                false if self.others.len() < self.max => self.others.push((job.number, n)),
                false => {}
            }
        }
    }

    fn chosen(self) -> BTreeSet<(usize, usize)> {
        let chosen = self.first.into_iter().chain(self.others);
        chosen.take(self.max).collect()
    }
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
    fn scratch(&self) -> std::io::Result<NamedTempFile> {
        self.1.scratch()
    }
    fn take(&mut self, path: &str, part: NamedTempFile) -> std::io::Result<()> {
        self.1.take(&format!("{}/{path}", self.0), part)
    }
    fn remove(&mut self, path: &str) {
        self.1.remove(&format!("{}/{path}", self.0));
    }
}
