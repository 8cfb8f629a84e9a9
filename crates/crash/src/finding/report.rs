//! What a campaign found, as `results.json`.
//!
//! No wall time, date, host or absolute path is inside (finding-F1), and parts of a campaign merge
//! in any order. So one seed gives the same bytes whatever the number of workers. Shards explore
//! the same states together, but each chooses folders and looks for smaller cases by itself.

use super::steps::Level;
use super::totals::Totals;
use crate::Loss;
use crate::campaign::{Explored, Finding, Losses};
use crate::case::Case;
use crate::plan::Job;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use report::results::SCHEMA;

/// The whole file.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct CampaignReport {
    /// The version of the layout, [`SCHEMA`].
    pub schema: u32,
    /// `crash`.
    pub command: String,
    /// The seed of the campaign.
    pub seed: u64,
    /// The devices, separated by spaces.
    pub profile: String,
    /// The command line that makes the same campaign again.
    pub reproduce: String,
    /// How far it looks, in words for readers.
    pub bound: String,
    /// What ended it early, and how much was complete then; absent if all was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// One entry for each case, by number.
    pub cases: Vec<CaseReport>,
}

/// What was found in one case.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct CaseReport {
    /// Its number in the campaign.
    pub number: u64,
    /// Scheme, data mode included.
    pub scheme: String,
    /// Device.
    pub device: String,
    /// Class of the workload: `ace-1`, `mix`, `sqlite` ...
    pub class: String,
    /// The workload.
    pub workload: String,
    /// The seed of the case.
    pub seed: u64,
    /// A positive control, whose violations are expected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// The I/O scheduler in front of the device, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// The guard that was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutant: Option<String>,
    /// How many states there were.
    pub counts: Counts,
    /// What the cuts took, by position: the number of operations that had begun at the cut.
    pub losses: BTreeMap<usize, Losses>,
    /// The violations that were kept, in the order of their states.
    pub findings: Vec<FindingReport>,
    /// Why the run itself failed, if it did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Files that could not be written, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<String>,
}

/// Counts of states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Moments at which the power was cut.
    pub points: u64,
    /// States that the bound selects.
    pub enumerated: u64,
    /// Of them, states equal to one that was judged.
    pub deduplicated: u64,
    /// States left out because no recovery can tell them from others.
    pub pruned: u64,
    /// States recovered, mounted and judged.
    pub judged: u64,
    /// Of them, cuts inside of a recovery.
    pub nested: u64,
    /// States beyond the bound, so not judged.
    pub beyond: u64,
    /// States whose judge hung or died.
    pub timed_out: u64,
    /// States that violate a rule, kept as findings or not.
    pub violations: u64,
}

impl From<&Explored> for Counts {
    fn from(explored: &Explored) -> Counts {
        Counts {
            points: explored.points,
            enumerated: explored.enumerated,
            deduplicated: explored.deduplicated,
            pruned: explored.pruned,
            judged: explored.judged,
            nested: explored.nested,
            beyond: explored.beyond,
            timed_out: 0,
            violations: explored.violations,
        }
    }
}

impl Counts {
    /// Adds the counts of another part.
    pub fn add(&mut self, other: &Counts) {
        self.points += other.points;
        self.enumerated += other.enumerated;
        self.deduplicated += other.deduplicated;
        self.pruned += other.pruned;
        self.judged += other.judged;
        self.nested += other.nested;
        self.beyond += other.beyond;
        self.timed_out += other.timed_out;
        self.violations += other.violations;
    }
}

/// A state that violates a rule.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FindingReport {
    /// The id of the state.
    pub state: String,
    /// The rule that the first violation names.
    pub rule: String,
    /// Violated rules, each with what was found.
    pub violations: Vec<String>,
    /// What the cut took.
    pub loss: Loss,
    /// The reproduction line.
    pub line: String,
    /// The operations that had begun before the cut, a line each.
    pub story: Vec<String>,
    /// The commands around the cut, from the run to the innermost recovery.
    pub steps: Vec<Level>,
    /// The smallest case with the same violation that was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shrunk: Option<ShrunkReport>,
    /// Name of its folder below the folder of findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// A smaller case that violates the same rule.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ShrunkReport {
    /// Its reproduction line.
    pub line: String,
    /// Its workload.
    pub workload: String,
    /// Operations of the workload; absent if it is no script.
    pub ops: Option<usize>,
    /// The id of its state.
    pub state: String,
    /// Its violations.
    pub violations: Vec<String>,
    /// Its steps.
    pub steps: Vec<Level>,
    /// States that were judged to find it.
    pub states: u64,
    /// The search ended by itself, and not by its budget.
    pub complete: bool,
}

/// Two reports that are not of one campaign.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the reports are of two campaigns: {field} is `{here}` and `{there}`")]
pub struct MergeError {
    field: &'static str,
    here: String,
    there: String,
}

impl CampaignReport {
    /// A report without cases.
    pub fn new(seed: u64, profile: &str, reproduce: &str, bound: &str) -> CampaignReport {
        CampaignReport {
            schema: SCHEMA,
            command: "crash".into(),
            seed,
            profile: profile.into(),
            reproduce: reproduce.into(),
            bound: bound.into(),
            incomplete: None,
            cases: Vec::new(),
        }
    }

    /// Takes in a part of this campaign. Parts come in any order, and a case may come in parts.
    ///
    /// # Errors
    /// A part of another campaign.
    pub fn merge(&mut self, part: CampaignReport) -> Result<(), MergeError> {
        for (field, here, there) in [
            ("schema", self.schema.to_string(), part.schema.to_string()),
            ("command", self.command.clone(), part.command),
            ("seed", self.seed.to_string(), part.seed.to_string()),
            ("profile", self.profile.clone(), part.profile),
            ("reproduce", self.reproduce.clone(), part.reproduce),
            ("bound", self.bound.clone(), part.bound),
        ] {
            if here != there {
                return Err(MergeError { field, here, there });
            }
        }
        self.incomplete = self.incomplete.take().or(part.incomplete);
        part.cases.into_iter().for_each(|case| self.enter(case));
        Ok(())
    }

    /// Takes in a case, or a part of one.
    pub fn enter(&mut self, case: CaseReport) {
        match self.cases.binary_search_by_key(&case.number, |c| c.number) {
            Err(place) => {
                self.cases.insert(place, case.in_order());
            }
            Ok(place) => {
                let here = &mut self.cases[place];
                here.counts.add(&case.counts);
                for (position, losses) in &case.losses {
                    here.losses.entry(*position).or_default().add(losses);
                }
                here.collect(case);
            }
        }
    }

    /// All findings, with their cases.
    pub fn findings(&self) -> impl Iterator<Item = (&CaseReport, &FindingReport)> {
        self.cases
            .iter()
            .flat_map(|case| case.findings.iter().map(move |finding| (case, finding)))
    }

    /// Whether every case ran, none but positive controls violates a rule, and of these, if there
    /// are any, at least one does.
    pub fn is_clean(&self) -> bool {
        Totals::of(self).is_clean()
    }

    /// True if there were positive controls and none showed damage: then the explorer is blind, and
    /// what it found clean proves nothing.
    pub fn is_blind(&self) -> bool {
        Totals::of(self).is_blind()
    }

    /// The sums over all cases except positive controls.
    pub fn total(&self) -> Counts {
        Totals::of(self).tested
    }

    /// The bytes of `results.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data serialises");
        text.push('\n');
        text
    }
}

impl CaseReport {
    /// The report of an explored job without its findings, which [`FindingReport::new`] or a
    /// dossier makes.
    pub fn new(job: &Job, explored: &Explored) -> CaseReport {
        CaseReport {
            counts: Counts::from(explored),
            losses: explored.losses.clone(),
            failures: explored.failure.iter().cloned().collect(),
            ..CaseReport::of(job)
        }
    }

    /// The report of a job whose worker hung or died; `state` is the state that it was judging.
    pub fn lost(job: &Job, state: Option<&str>, why: &str) -> CaseReport {
        let state = state.unwrap_or("the run itself");
        let mut case = CaseReport {
            failures: vec![format!("state {state}: the worker is gone: {why}")],
            ..CaseReport::of(job)
        };
        case.counts.timed_out = 1;
        case
    }

    fn of(job: &Job) -> CaseReport {
        let Case {
            scheme,
            device,
            workload,
            seed,
            scheduler,
            mutant,
        } = job.case.clone();
        CaseReport {
            number: job.number as u64,
            scheme,
            device,
            class: job.group.clone(),
            workload,
            seed,
            control: job.control,
            scheduler: scheduler.map(|s| s.to_string()),
            mutant,
            ..CaseReport::default()
        }
    }

    /// The case without its lists: what names it.
    pub fn head(&self) -> CaseReport {
        CaseReport {
            number: self.number,
            scheme: self.scheme.clone(),
            device: self.device.clone(),
            class: self.class.clone(),
            workload: self.workload.clone(),
            seed: self.seed,
            control: self.control,
            scheduler: self.scheduler.clone(),
            mutant: self.mutant.clone(),
            ..CaseReport::default()
        }
    }

    /// The case with its lists sorted and without doubles.
    pub fn in_order(mut self) -> CaseReport {
        let part = CaseReport {
            findings: std::mem::take(&mut self.findings),
            failures: std::mem::take(&mut self.failures),
            not_kept: std::mem::take(&mut self.not_kept),
            ..CaseReport::default()
        };
        self.collect(part);
        self
    }

    /// Losses of all positions together.
    pub fn loss(&self) -> Losses {
        let mut all = Losses::default();
        self.losses.values().for_each(|l| all.add(l));
        all
    }

    /// Takes in the lists of a part, sorted and without doubles.
    fn collect(&mut self, part: CaseReport) {
        self.findings.extend(part.findings);
        self.findings.sort_by(|a, b| a.order().cmp(&b.order()));
        self.findings.dedup_by(|a, b| a.line == b.line);
        for (list, more) in [
            (&mut self.failures, part.failures),
            (&mut self.not_kept, part.not_kept),
        ] {
            list.extend(more);
            list.sort();
            list.dedup();
        }
    }
}

impl FindingReport {
    /// A finding of which nothing but its line was kept.
    pub fn new(finding: &Finding, line: &str) -> FindingReport {
        FindingReport {
            state: finding.state.clone(),
            rule: super::rule_of(&finding.violations).into(),
            violations: finding.violations.clone(),
            loss: finding.loss,
            line: line.into(),
            story: finding.story.clone(),
            ..FindingReport::default()
        }
    }

    /// Sorts by the numbers in the id, so that moment 9 comes before moment 10.
    fn order(&self) -> (Vec<(u64, &str)>, &str) {
        let level = |part| {
            let part: &str = part;
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            (part[..digits].parse().unwrap_or(u64::MAX), &part[digits..])
        };
        (self.state.split('/').map(level).collect(), &self.line)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn part(number: u64, states: &[(&str, u64)]) -> CaseReport {
        let mut case = CaseReport {
            number,
            scheme: ["none", "jbd2", "emmc"][number as usize % 3].into(),
            device: "spec:emmc".into(),
            class: ["ace-1", "mix"][number as usize / 3 % 2].into(),
            workload: "create /a & <b>".into(),
            seed: 7,
            ..CaseReport::default()
        };
        for (state, ops) in states {
            case.counts.judged += 1;
            case.counts.violations += 1;
            let losses = Losses {
                states: 1,
                ops: *ops,
                ops_max: *ops,
                ..Losses::default()
            };
            case.losses.entry(3).or_default().add(&losses);
            case.findings.push(FindingReport {
                state: (*state).into(),
                rule: "O3".into(),
                violations: vec![format!("O3: sector {ops} is \u{1} & <zero>")],
                line: format!("varve-crash-1 state={state} workload={number}"),
                story: vec!["task 0: create /a (done)".into()],
                ..FindingReport::default()
            });
        }
        case
    }

    /// Five cases, some of them in parts.
    pub(in crate::finding) fn parts() -> Vec<CaseReport> {
        let mut parts = vec![
            part(0, &[("9.oldest", 1), ("10.newest", 3)]),
            part(3, &[]),
            part(0, &[("10.newest", 3), ("2.oldest/4.s1", 3)]),
            part(2, &[("1.oldest", 0)]),
            part(1, &[]),
            part(4, &[("5.s2", 9)]),
        ];
        parts[1].failures = vec!["the run failed".into()];
        parts[5].not_kept = vec!["image-before.img: no space left on device".into()];
        parts
    }

    pub(in crate::finding) fn campaign() -> CampaignReport {
        CampaignReport::new(7, "spec:emmc", "varve crash --quick", "subsets of 2")
    }

    #[test]
    fn parts_merge_in_any_order() {
        let parts = parts();
        let whole = |order: &[usize]| {
            let mut report = campaign();
            for n in order {
                let mut one = campaign();
                one.enter(parts[*n].clone());
                report.merge(one).unwrap();
            }
            report.to_json()
        };
        let first = whole(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(whole(&[5, 4, 3, 2, 1, 0]), first);
        assert_eq!(whole(&[2, 5, 0, 3, 1, 4]), first);
        let report: CampaignReport = serde_json::from_str(&first).unwrap();
        let numbers: Vec<u64> = report.cases.iter().map(|c| c.number).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        let states: Vec<&str> = report.cases[0]
            .findings
            .iter()
            .map(|f| f.state.as_str())
            .collect();
        assert_eq!(states, ["2.oldest/4.s1", "9.oldest", "10.newest"]);
        let loss = report.cases[0].loss();
        assert_eq!((loss.states, loss.ops, loss.ops_max), (4, 10, 3));
        assert_eq!(report.total().violations, 6);
        assert!(!report.is_clean());
    }

    #[test]
    fn parts_of_two_campaigns_are_refused_by_name() {
        let other = CampaignReport {
            seed: 8,
            ..campaign()
        };
        let why = campaign().merge(other).unwrap_err().to_string();
        assert!(why.contains("seed is `7` and `8`"), "{why}");
    }

    #[test]
    fn a_campaign_is_clean_only_without_any_trouble() {
        let mut report = campaign();
        report.enter(part(1, &[]));
        assert!(report.is_clean());
        for spoil in [
            |c: &mut CaseReport| c.counts.timed_out = 1,
            |c: &mut CaseReport| c.counts.violations = 1,
            |c: &mut CaseReport| c.failures.push("x".into()),
        ] {
            let mut bad = report.clone();
            spoil(&mut bad.cases[0]);
            assert!(!bad.is_clean());
        }
        report.cases[0].control = true;
        assert!(report.is_blind() && !report.is_clean());
        report.cases[0].counts.violations = 3;
        assert!(report.is_clean());
        assert_eq!(report.total().violations, 0);
    }
}
