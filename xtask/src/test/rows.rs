//! Which suite runs next in each of the two rows.
//!
//! A test program often has one test left that takes long, a suite with loop devices waits for the
//! kernel, and a build links: two rows keep both processors busy.
//!
//! - W1: of suites that share something of the machine (loop devices, mounts, the target folder)
//!   two never run at once, since they stay in the row of the others.
//! - W2: a row without suites takes some of the other one, the longest first, so that both end at
//!   about the same time.

use super::plan::Suite;

/// One of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Row {
    /// What keeps one processor busy and needs nothing that others change.
    Beside,
    /// All others.
    Others,
}

/// The suites that have not begun.
pub struct Rows<'a> {
    beside: Vec<&'a Suite>,
    others: Vec<&'a Suite>,
}

impl<'a> Rows<'a> {
    /// Divides them.
    pub fn new(suites: &[&'a Suite]) -> Rows<'a> {
        let (beside, others) = suites.iter().partition(|suite| suite.is_beside());
        Rows { beside, others }
    }

    /// Takes the next suite for a row: the first of its own, or the longest of the other that may
    /// move. `None`: the row has ended.
    pub fn next(&mut self, row: Row) -> Option<&'a Suite> {
        let (own, other) = match row {
            Row::Beside => (&mut self.beside, &mut self.others),
            Row::Others => (&mut self.others, &mut self.beside),
        };
        if !own.is_empty() {
            return Some(own.remove(0));
        }
        let moving = other.iter().enumerate().filter(|(_, s)| s.may_move());
        // The first of those that are as long, which `max_by_key` would give last.
        let longest = moving.rev().max_by_key(|(_, suite)| suite.budget_s)?.0;
        Some(other.remove(longest))
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Plan;
    use super::*;

    #[test]
    fn a_row_that_is_done_takes_the_longest_that_may_move() {
        let suite = |name: &str, budget: u32, rest: &str| {
            format!("[[suite]]\nname = \"{name}\"\nbudget_s = {budget}\ntier = 1\n{rest}\n")
        };
        let text = [
            suite("a", 9, "test = \"x\"\nneed = [\"loop\"]"),
            suite("b", 5, "test = \"x\""),
            suite("c", 1, "test = \"x\"\nneed = [\"guest\"]"),
            suite("d", 7, "test = \"x\""),
            suite("e", 7, "run = [\"varve\", \"crash\"]"),
            suite("f", 8, "run = [\"cargo\", \"fmt\"]"),
            suite("g", 2, "run = [\"cargo\", \"clippy\"]\nbeside = true"),
        ];
        let text = format!("build_budget_s = 1\n{}", text.concat());
        let plan = Plan::parse(&text).unwrap();
        let suites: Vec<&Suite> = plan.suite.iter().collect();
        let name = |suite: Option<&Suite>| suite.map_or(String::new(), |s| s.name.clone());

        let mut rows = Rows::new(&suites);
        let beside: Vec<_> = (0..6).map(|_| name(rows.next(Row::Beside))).collect();
        assert_eq!(beside, ["c", "g", "d", "e", "b", ""], "W1, W2");
        let others: Vec<_> = (0..3).map(|_| name(rows.next(Row::Others))).collect();
        assert_eq!(others, ["a", "f", ""], "W1");

        let mut rows = Rows::new(&suites);
        let others: Vec<_> = (0..8).map(|_| name(rows.next(Row::Others))).collect();
        assert_eq!(others, ["a", "b", "d", "e", "f", "g", "c", ""], "W2");
    }
}
