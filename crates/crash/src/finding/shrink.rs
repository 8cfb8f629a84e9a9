//! A smaller case that violates the same rule, because a person has to understand it: fewer tasks
//! and operations, shorter names and sizes, then fewer lost writes.
//!
//! ```text
//! script --delta debugging--> fewer operations --> smaller operations --> shorter names --> seed 0 --> smallest cut set
//! ```
//!
//! A workload whose operations are not known beforehand has the numbers in its text made smaller
//! instead. Every candidate is run and cut anew within a bound, and is kept only if some state of
//! it violates the rule (finding-F3). The order of candidates is fixed and the budget counts states
//! and not time, so equal findings with equal budgets shrink to equal cases.

mod op;

use super::dossier::{Dossier, Shrunk};
use super::hunt::{Budget, Hit, Hunter};
use super::id::Id;
use super::steps::Toll;
use crate::CrashError;
use crate::case::{Case, Volumes};
use crate::ops::Op;
use crate::subject::{FileScript, Place, Spec};

/// Most rounds over all kinds of simplification.
const ROUNDS: usize = 3;
/// Violations of the smallest case that are compared for the one with the least loss.
const HITS_MAX: usize = 128;

/// Makes a smaller case of `case`, whose state `id` violates `rule`.
///
/// # Errors
/// The case itself does not run.
pub fn shrink(
    case: &Case,
    id: impl Into<Id>,
    rule: &str,
    budget: Budget,
    volumes: &mut Volumes,
) -> Result<Shrunk, CrashError> {
    let id = id.into();
    let mut shrinker = Shrinker {
        hunter: Hunter {
            volumes,
            budget,
            rule,
            nested: id.depth().saturating_sub(1),
            spent: 0,
        },
        case: case.clone(),
        hit: None,
    };
    let ops = shrinker.workload();
    shrinker.cut_set(&id);
    let Shrinker { hunter, case, hit } = shrinker;
    let (spent, complete) = (hunter.spent, !hunter.is_spent());
    let id = hit.map_or(id, |hit| hit.id);
    Ok(Shrunk {
        dossier: Dossier::new(&case, id, hunter.volumes)?,
        ops,
        states: spent,
        complete,
    })
}

struct Shrinker<'a> {
    hunter: Hunter<'a>,
    /// The smallest case so far.
    case: Case,
    /// A state of it that violates the rule, if a candidate was taken.
    hit: Option<Hit>,
}

impl Shrinker<'_> {
    /// Takes `candidate` if it violates the rule.
    fn takes(&mut self, candidate: Case) -> bool {
        if self.hunter.is_spent() || candidate == self.case {
            return false;
        }
        let hit = self.hunter.first(&candidate);
        let taken = hit.is_some();
        if taken {
            self.case = candidate;
            self.hit = hit;
        }
        taken
    }

    fn takes_workload(&mut self, workload: String) -> bool {
        let case = Case {
            workload,
            ..self.case.clone()
        };
        self.takes(case)
    }

    fn takes_script(&mut self, script: &FileScript) -> bool {
        self.takes_workload(Spec::Script(script.clone()).to_string())
    }

    /// Simplifies the workload. Answers the number of operations that are left, if they are known.
    fn workload(&mut self) -> Option<usize> {
        let fixed = Spec::parse(&self.case.workload).ok();
        let Some(mut script) = fixed.and_then(|spec| spec.fixed(self.case.seed)) else {
            self.numbers();
            self.seed();
            return None;
        };
        // The list that a mix draws runs as the mix does. If it does not violate the rule, the text
        // of the mix is simplified instead.
        let text = Spec::Script(script.clone()).to_string();
        if text != self.case.workload && !self.takes_workload(text) {
            self.numbers();
            self.seed();
            return None;
        }
        for _ in 0..ROUNDS {
            let before = script.clone();
            self.tasks(&mut script);
            self.operations(&mut script);
            self.sizes(&mut script);
            self.names(&mut script);
            self.seed();
            if script == before || self.hunter.is_spent() {
                break;
            }
        }
        Some(script.ops())
    }

    /// Removes whole tasks, the last one first.
    fn tasks(&mut self, script: &mut FileScript) {
        for task in (0..script.tasks().len()).rev() {
            if script.tasks().len() < 2 {
                return;
            }
            let mut tasks = script.tasks().to_vec();
            tasks.remove(task);
            self.replace(script, FileScript::new(tasks).ok());
        }
    }

    /// Removes operations by delta debugging: ever smaller chunks, each with the later operations
    /// that are not possible without it.
    fn operations(&mut self, script: &mut FileScript) {
        let mut chunk = script.ops().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            let mut any = false;
            while at < script.ops() {
                let places: Vec<Place> = script.places();
                let drop = &places[at..places.len().min(at + chunk)];
                match self.replace(script, Some(script.repaired(drop))) {
                    true => any = true,
                    false => at += chunk,
                }
            }
            if chunk == 1 && !any {
                return;
            }
            chunk = (chunk / 2).max(1);
            if self.hunter.is_spent() {
                return;
            }
        }
    }

    /// Makes operations smaller, one by one.
    fn sizes(&mut self, script: &mut FileScript) {
        for (task, at) in script.places() {
            for op in op::smaller(&script.tasks()[task][at]) {
                let mut tasks = script.tasks().to_vec();
                tasks[task][at] = op;
                if self.replace(script, FileScript::new(tasks).ok()) {
                    break;
                }
            }
        }
    }

    /// Shortens all names at once.
    fn names(&mut self, script: &mut FileScript) {
        let mut names = op::Names::default();
        let tasks = script.tasks().iter();
        let tasks: Vec<Vec<Op>> = tasks
            .map(|ops| ops.iter().map(|op| names.rename(op)).collect())
            .collect();
        let renamed = FileScript::new(tasks).ok();
        self.replace(script, renamed);
    }

    fn replace(&mut self, script: &mut FileScript, with: Option<FileScript>) -> bool {
        let Some(with) = with.filter(|with| with != script) else {
            return false;
        };
        let taken = self.takes_script(&with);
        if taken {
            *script = with;
        }
        taken
    }

    /// Tries seed 0, with which no timers run.
    fn seed(&mut self) {
        let case = Case {
            seed: 0,
            ..self.case.clone()
        };
        self.takes(case);
    }

    /// Makes the numbers behind `=` in the text of a workload that is no script smaller: each
    /// becomes 1, or is halved as often as the violation stays.
    fn numbers(&mut self) {
        let mut from = 0;
        while let Some((start, end)) = number(&self.case.workload, from) {
            let text = self.case.workload.clone();
            let with = |n: u64| format!("{}{n}{}", &text[..start], &text[end..]);
            let mut value: u64 = text[start..end].parse().unwrap_or(1);
            if value > 1 && !self.takes_workload(with(1)) {
                while value > 2 && self.takes_workload(with(value / 2)) {
                    value /= 2;
                }
            }
            from = start + 1;
        }
    }

    /// Chooses the state with the least loss: cuts of the run before cuts of recoveries, whole
    /// writes before torn ones, few lost writes before many.
    fn cut_set(&mut self, id: &Id) {
        let mut hits = self.hunter.all(&self.case, 0, HITS_MAX);
        if hits.is_empty() && id.depth() > 1 {
            hits = self.hunter.all(&self.case, self.hunter.nested, HITS_MAX);
        }
        hits.extend(self.hit.take());
        let weight =
            |hit: &Hit| -> (usize, Toll, Id) { (hit.id.depth(), hit.toll, hit.id.clone()) };
        self.hit = hits.into_iter().min_by_key(weight);
    }
}

/// The next run of digits behind `=`, from `from` on.
fn number(text: &str, from: usize) -> Option<(usize, usize)> {
    let starts = text.match_indices('=').map(|(at, _)| at + 1);
    let mut numbers = starts.filter(|at| *at >= from).filter_map(|at| {
        let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
        (digits > 0).then_some((at, at + digits))
    });
    numbers.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_text_are_found_one_by_one() {
        let text = "sqlite:mode=wal,txns=100,rows=7";
        assert_eq!(number(text, 0), Some((21, 24)));
        assert_eq!(number(text, 22), Some((30, 31)));
        assert_eq!(number(text, 31), None);
    }
}
