//! What the page and the verdict of a campaign need of its cases: sums and the first findings. Its
//! size is that of the schemes, devices and classes, so a campaign may have any number of cases.

use super::report::{CampaignReport, CaseReport, Counts, FindingReport};
use crate::campaign::Losses;
use std::collections::BTreeMap;

/// Findings shown in full; the others stand in `results.json`.
pub const FINDINGS_MAX: usize = 200;
/// Cases with troubles of one kind that are listed; the others stand in `results.json`.
pub const TROUBLES_MAX: usize = 200;

/// The cases of one scheme, class and device.
#[derive(Clone, Default, Debug)]
pub struct Row {
    /// Cases.
    pub cases: u64,
    /// Their states.
    pub counts: Counts,
    /// Whether one of them is no positive control, so that a violation is bad.
    pub tested: bool,
}

impl Row {
    fn add(&mut self, case: &CaseReport) {
        self.cases += 1;
        self.counts.add(&case.counts);
        self.tested |= !case.control;
    }
}

/// Values by key, in the order in which their keys came first.
#[derive(Clone, Debug)]
pub struct Ordered<K, V> {
    places: BTreeMap<K, usize>,
    values: Vec<(K, V)>,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Self {
        Ordered {
            places: BTreeMap::new(),
            values: Vec::new(),
        }
    }
}

impl<K: Ord + Clone, V: Default> Ordered<K, V> {
    /// The value of a key, a fresh one where there is none.
    pub fn at(&mut self, key: K) -> &mut V {
        let next = self.values.len();
        let place = *self.places.entry(key.clone()).or_insert(next);
        if place == next {
            self.values.push((key, V::default()));
        }
        &mut self.values[place].1
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.values.iter()
    }

    /// All, in order, without the rest.
    pub fn into_values(self) -> impl Iterator<Item = (K, V)> {
        self.values.into_iter()
    }
}

/// Cases with a trouble of one kind.
#[derive(Clone, Default, Debug)]
pub struct Troubles {
    /// The first of them, with the words.
    pub first: Vec<(CaseReport, Vec<String>)>,
    /// How many there are.
    pub all: u64,
}

impl Troubles {
    fn add(&mut self, case: &CaseReport, words: &[String]) {
        if words.is_empty() {
            return;
        }
        self.all += 1;
        if self.first.len() < TROUBLES_MAX {
            self.first.push((case.head(), words.to_vec()));
        }
    }
}

/// The sums over the cases of a campaign.
#[derive(Clone, Default, Debug)]
pub struct Totals {
    /// All cases together.
    pub all: Row,
    /// All cases but positive controls.
    pub tested: Counts,
    /// By scheme, class and device.
    pub states: Ordered<(String, String, String), Row>,
    /// By class and device: what each scheme lost.
    pub losses: Ordered<(String, String), Ordered<String, Losses>>,
    /// Runs that failed.
    pub failed: Troubles,
    /// Files that could not be written.
    pub unkept: Troubles,
    /// The first findings, each with its case without findings.
    pub findings: Vec<(CaseReport, FindingReport)>,
    /// How many findings there are.
    pub findings_all: u64,
    /// Positive controls, and those of them that show damage.
    controls: (u64, u64),
    bad: bool,
}

impl Totals {
    /// The sums of a whole report.
    pub fn of(report: &CampaignReport) -> Totals {
        let mut totals = Totals::default();
        report.cases.iter().for_each(|case| totals.add(case));
        totals
    }

    /// Adds a case.
    pub fn add(&mut self, case: &CaseReport) {
        self.all.add(case);
        let (scheme, class, device) = (&case.scheme, &case.class, &case.device);
        let key = (scheme.clone(), class.clone(), device.clone());
        self.states.at(key).add(case);
        let losses = self.losses.at((class.clone(), device.clone()));
        losses.at(scheme.clone()).add(&case.loss());
        self.failed.add(case, &case.failures);
        self.unkept.add(case, &case.not_kept);
        self.findings_all += case.findings.len() as u64;
        let room = FINDINGS_MAX.saturating_sub(self.findings.len());
        let first = case.findings.iter().take(room);
        self.findings
            .extend(first.map(|finding| (case.head(), finding.clone())));
        let wrong = case.counts.violations > 0 || !case.findings.is_empty();
        self.bad |= case.counts.timed_out > 0 || !case.failures.is_empty();
        match case.control {
            true => {
                self.controls.0 += 1;
                self.controls.1 += u64::from(case.counts.violations > 0);
            }
            false => {
                self.tested.add(&case.counts);
                self.bad |= wrong;
            }
        }
    }

    /// Whether every case ran, none but positive controls violates a rule, and of these, if there
    /// are any, at least one does.
    pub fn is_clean(&self) -> bool {
        !self.is_blind() && !self.bad
    }

    /// True if there were positive controls and none showed damage: then the explorer is blind, and
    /// what it found clean proves nothing.
    pub fn is_blind(&self) -> bool {
        self.controls.0 > 0 && self.controls.1 == 0
    }
}
