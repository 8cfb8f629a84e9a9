//! What two checkers say of volumes with changed metadata, counted; and the variables by which such
//! a comparison is run by hand.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)] // A test by hand reads variables.

use std::collections::BTreeMap;
use std::ops::Range;

/// Numbers of cases by outcome.
#[derive(Default, Debug)]
pub struct Tally {
    /// All of them.
    pub cases: u64,
    /// Both checkers found a fault.
    pub both: u64,
    /// None of them did.
    pub neither: u64,
    /// They disagree, and it is known why.
    pub excused: BTreeMap<&'static str, u64>,
    /// They disagree: which case, and what both said.
    pub disputed: Vec<String>,
}

impl Tally {
    /// Counts a case: whether the other checker and whether ours found a fault, the class of a
    /// disagreement that is known, and the words for another one.
    pub fn count(
        &mut self,
        found: (bool, bool),
        excuse: impl FnOnce() -> Option<&'static str>,
        words: impl FnOnce() -> String,
    ) {
        match found {
            (true, true) => self.both += 1,
            (false, false) => self.neither += 1,
            _ => match excuse() {
                Some(class) => *self.excused.entry(class).or_default() += 1,
                None => self.disputed.push(words()),
            },
        }
    }

    /// Prints what came of it.
    ///
    /// # Panics
    /// If the checkers disagreed, or both found faults in fewer than one case of `one_in`.
    pub fn agreed(&self, name: &str, one_in: u64) {
        println!(
            "{name}: {} cases, {} found by both, {} by neither, excused {:?}, disputed {}",
            self.cases,
            self.both,
            self.neither,
            self.excused,
            self.disputed.len()
        );
        assert!(self.both > self.cases / one_in, "many mutations do harm");
        assert!(self.disputed.is_empty(), "\n{}", self.disputed.join("\n\n"));
    }
}

/// A number from the variable `key`.
pub fn number(key: &str) -> Option<u64> {
    std::env::var(key).ok()?.parse().ok()
}

/// Runs what is asked for by hand, as in `VOLUME=0 FROM=1000 SEEDS=5000 FIELDS=1`, on each of so
/// many volumes, or on the one that is named: `run` gets its number, the seeds and the fields.
pub fn by_hand(volumes: usize, seeds: u64, run: impl Fn(usize, Range<u64>, usize)) {
    let (from, seeds) = (
        number("FROM").unwrap_or(0),
        number("SEEDS").unwrap_or(seeds),
    );
    let fields = number("FIELDS").unwrap_or(1) as usize;
    for n in 0..volumes {
        if seeds > 0 && number("VOLUME").is_none_or(|only| only == n as u64) {
            run(n, from..from + seeds, fields);
        }
    }
}
