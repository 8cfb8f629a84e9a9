//! A long exploration in parts, which hosts that know nothing of each other judge.
//!
//! - Each part makes all states, in the same order, and skips those that are equal to one
//!   before, as a whole exploration does (campaign-C2). Which part judges a state depends on its
//!   content alone. So each state is judged by one part, and every part counts the same states.
//! - What a state's judgement says depends on no other state, so sums over parts are those of
//!   the whole. Of findings each part keeps its first ones with their numbers, and the first of all
//!   parts together are the first of the whole.
//! - States of a recovery are not known before the state in which it begins was judged, and are
//!   skipped where they are equal to any before. So an exploration with nested cuts has no parts,
//!   nor has one on a modelled device, which cuts its own operations.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A part of the states of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// Which, from 0.
    pub index: u32,
    /// Of how many.
    pub count: u32,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {} of {}", self.index + 1, self.count)
    }
}

impl Part {
    /// Whether it judges a state of this content. Other choices by content take the low half
    /// of the hash, so none of them falls into one part alone.
    pub fn has(self, content: u64) -> bool {
        let high = base::collections::mix(content) >> 32;
        high % u64::from(self.count.max(1)) == u64::from(self.index)
    }
}
