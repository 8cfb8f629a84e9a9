//! Looking for a state of a case that violates a given rule, within a budget. Shrinking asks this
//! of every candidate, so cheap bounds come first and the first hit ends the hunt.

use super::chips;
use super::id::Id;
use super::rule;
use super::steps::{Site, Toll};
use crate::CrashError;
use crate::Judgement;
use crate::campaign::{moments, recovery};
use crate::case::{Case, Setup, StateId, Volumes};
use crate::check::{CheckOptions, Checker};
use crate::nand::{NandBound, explore_each};
use crate::oracle::Oracle;
use crate::traced::trace;
use base::{Set, Time};
use blockdev::spec::{Bound, Choice, Mode};
use blockdev::trace::Cursor;
use blockdev::{Image, Trace};

/// States judged in one simulation; few, because the first hit ends the hunt.
const BATCH: usize = 32;

/// What a state of a modelled device costs of the budget, in states of a disk in memory. It costs
/// more because the device recovers its map too.
const CHIPS_COST: u64 = 8;
/// What filming a run costs of the budget.
const FILM_COST: u64 = 64;
/// For each candidate on a modelled device: states whose recovery is cut, and cuts of each.
const CHIPS_NESTED: (usize, usize) = (4, 40);

/// How much a search may spend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// States that may be judged in all.
    pub states: u64,
    /// States that may be judged for one candidate.
    pub candidate: u64,
    /// The widest bound of one cut.
    pub bound: Bound,
}

impl Default for Budget {
    fn default() -> Self {
        let bound = Bound {
            mode: Mode::Bounded,
            subset_max: 2,
            torn_max: 2,
            states_max: 256,
            prune: true,
        };
        Budget {
            states: 40_000,
            candidate: 4_000,
            bound,
        }
    }
}

/// A state that violates the rule.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The id of the state.
    pub id: Id,
    /// What the innermost cut took; empty for a state of a modelled device.
    pub toll: Toll,
    /// Violated rules.
    pub violations: Vec<String>,
}

/// Looks for violations of one rule.
pub struct Hunter<'a> {
    /// Fresh volumes, shared by all candidates.
    pub volumes: &'a mut Volumes,
    /// What may be spent.
    pub budget: Budget,
    /// The rule that a hit violates.
    pub rule: &'a str,
    /// How deep recoveries are cut.
    pub nested: usize,
    /// States judged so far.
    pub spent: u64,
}

/// The search in one case on a disk in memory.
struct Hunt<'a> {
    setup: &'a Setup,
    checker: Checker<'a>,
    rule: &'a str,
    bound: Bound,
    nested: usize,
    /// States that it may still judge.
    left: u64,
    seen: Set<(u64, u64)>,
    hits: Vec<Hit>,
    hits_max: usize,
}

impl Hunter<'_> {
    /// The first violation, looked for in order first and then in the widest bound. A case that
    /// does not run has none.
    pub fn first(&mut self, case: &Case) -> Option<Hit> {
        let linear = Bound {
            mode: Mode::Linear,
            ..self.budget.bound
        };
        let wide = self.budget.bound;
        let mut looks = vec![(linear, 0), (wide, 0)];
        if self.nested > 0 {
            looks.extend([(linear, self.nested), (wide, self.nested)]);
        }
        let mut left = self.budget.candidate;
        for (bound, nested) in looks {
            let (hits, spent) = self.hunt(case, bound, nested, left, 1).unwrap_or_default();
            left = left.saturating_sub(spent);
            if let Some(hit) = hits.into_iter().next() {
                return Some(hit);
            }
        }
        None
    }

    /// Up to `max` violations in the widest bound.
    pub fn all(&mut self, case: &Case, nested: usize, max: usize) -> Vec<Hit> {
        let left = self.budget.candidate.saturating_mul(4);
        let found = self.hunt(case, self.budget.bound, nested, left, max);
        found.unwrap_or_default().0
    }

    /// The offline checker costs more than all the rest, so it is asked only if the rule is its
    /// own.
    fn options(&self) -> CheckOptions {
        CheckOptions {
            fsck: self.rule == "R4",
            ..CheckOptions::default()
        }
    }

    /// True if nothing more may be judged.
    pub fn is_spent(&self) -> bool {
        self.spent >= self.budget.states
    }

    fn hunt(
        &mut self,
        case: &Case,
        bound: Bound,
        nested: usize,
        left: u64,
        hits_max: usize,
    ) -> Result<(Vec<Hit>, u64), CrashError> {
        let left = left.min(self.budget.states.saturating_sub(self.spent));
        if left == 0 {
            return Ok((Vec::new(), 0));
        }
        let setup = case.setup(self.volumes)?;
        if chips::is_modelled(&setup) {
            return self.hunt_chips(&setup, (bound, nested), left, hits_max);
        }
        let mut hunt = Hunt {
            setup: &setup,
            checker: Checker::with(&setup.config, &setup.volume, self.options()),
            rule: self.rule,
            bound,
            nested,
            left,
            seen: Set::default(),
            hits: Vec::new(),
            hits_max,
        };
        let outcome = hunt.run();
        let spent = left - hunt.left;
        self.spent += spent;
        outcome.map(|()| (hunt.hits, spent))
    }

    /// Hunts on a modelled device: cuts before and after operations of the chips, in a wide bound
    /// inside of them, too.
    fn hunt_chips(
        &mut self,
        setup: &Setup,
        (bound, nested): (Bound, usize),
        left: u64,
        hits_max: usize,
    ) -> Result<(Vec<Hit>, u64), CrashError> {
        let most = left.saturating_sub(FILM_COST).div_ceil(CHIPS_COST);
        let bound = NandBound {
            places: u32::from(bound.mode != Mode::Linear),
            seeds: 1,
            random: Some(most as usize),
            nested: nested as u32,
            nested_states: CHIPS_NESTED.0,
            nested_cuts_max: CHIPS_NESTED.1,
            ..NandBound::default()
        };
        let (mut hits, mut judged) = (Vec::new(), 0);
        let wanted = self.rule;
        let outcome = explore_each(
            &setup.config,
            &setup.volume,
            setup.subject.as_ref(),
            &bound,
            &mut |_| {},
            &mut |path, judgement| {
                judged += 1;
                let violations = &judgement.violations;
                if violations.iter().any(|v| rule(v) == Some(wanted)) {
                    hits.push(Hit {
                        id: path.into(),
                        toll: Toll::default(),
                        violations: violations.clone(),
                    });
                }
                judged < most && hits.len() < hits_max
            },
        );
        let spent = FILM_COST + judged * CHIPS_COST;
        self.spent += spent;
        // A candidate whose run fails by itself shows nothing.
        let failed = outcome?.explored.failure.is_some();
        if failed {
            hits.clear();
        }
        Ok((hits, spent))
    }
}

impl Hunt<'_> {
    fn is_over(&self) -> bool {
        self.left == 0 || self.hits.len() >= self.hits_max
    }

    fn run(&mut self) -> Result<(), CrashError> {
        let setup = self.setup;
        let mut run = trace(&setup.config, &setup.volume, setup.subject.as_ref())?;
        if run.failure.is_some() {
            return Ok(());
        }
        let mut cursor = run.trace.cursor();
        for (point, at) in moments(&run.trace, &run.oracle.moments())
            .into_iter()
            .enumerate()
        {
            if at <= run.began {
                continue;
            }
            if self.is_over() {
                break;
            }
            cursor.seek(at);
            run.oracle.advance(at);
            let outer = StateId(Vec::new());
            self.cut(
                &run.trace,
                &cursor,
                (point, at),
                run.oracle.as_ref(),
                &outer,
            )?;
        }
        Ok(())
    }

    fn cut(
        &mut self,
        trace: &Trace,
        cursor: &Cursor<'_>,
        (point, at): (usize, Time),
        oracle: &dyn Oracle,
        outer: &StateId,
    ) -> Result<(), CrashError> {
        let id = |choice: &Choice| {
            let mut id = outer.clone();
            id.0.push((point, choice.clone()));
            id
        };
        let mut fresh: Vec<(StateId, Image)> = Vec::new();
        for choice in cursor.choices(&self.bound) {
            let image = cursor.image(&choice);
            if self.seen.insert((image.content_hash(), oracle.epoch())) {
                fresh.push((id(&choice), image));
            }
        }
        let site = |image| Site {
            of: String::new(),
            point,
            at,
            trace,
            image,
            told: Vec::new(),
        };
        for batch in fresh.chunks(BATCH) {
            if self.is_over() {
                return Ok(());
            }
            let batch = &batch[..batch.len().min(self.left as usize)];
            let judged = self.judge(oracle, batch)?;
            for ((id, image), judgement) in batch.iter().zip(judged) {
                let violations = judgement.violations;
                let same = violations.iter().any(|v| rule(v) == Some(self.rule));
                if same && self.hits.len() < self.hits_max {
                    self.hits.push(Hit {
                        id: id.into(),
                        toll: site(image).toll(),
                        violations,
                    });
                }
            }
        }
        if outer.0.len() < self.nested {
            for (id, image) in &fresh {
                self.follow(id, image, oracle)?;
            }
        }
        Ok(())
    }

    fn judge(
        &mut self,
        oracle: &dyn Oracle,
        batch: &[(StateId, Image)],
    ) -> Result<Vec<Judgement>, CrashError> {
        let images: Vec<Image> = batch.iter().map(|(_, image)| image.clone()).collect();
        let mut judged = Vec::new();
        self.checker.check(oracle, &images, &mut |_, judgement| {
            judged.push(judgement);
            true
        })?;
        self.left -= judged.len() as u64;
        Ok(judged)
    }

    /// Cuts the recovery of a state.
    fn follow(
        &mut self,
        id: &StateId,
        image: &Image,
        oracle: &dyn Oracle,
    ) -> Result<(), CrashError> {
        if self.is_over() {
            return Ok(());
        }
        let (trace, _) = recovery(self.setup, image)?;
        let mut cursor = trace.cursor();
        for (point, at) in trace.cut_points().into_iter().enumerate() {
            if self.is_over() {
                break;
            }
            cursor.seek(at);
            self.cut(&trace, &cursor, (point, at), oracle, id)?;
        }
        Ok(())
    }
}
