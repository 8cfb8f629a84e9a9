//! A choice: a complete decision about what a cut leaves open, with a text that names it.

use super::Exact;
use std::fmt;
use std::str::FromStr;

/// A choice of what the device does at a cut. Its text is short and stable, because it appears in
/// reproduction lines.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Choice {
    /// Every open write is lost: `oldest`.
    Oldest,
    /// Every open write is kept: `newest`.
    Newest,
    /// Drawn from this seed, as [`Ledger::draw`](super::Ledger::draw) does: `s` and the seed in
    /// hexadecimal.
    Seed(u64),
    /// Every decision is given explicitly: see [`Exact`].
    Exact(Exact),
}

/// The error for a text that names no choice, or none of this cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChoiceError {
    /// The choice.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` names no state of a cut: {}", self.text, self.why)
    }
}

impl std::error::Error for ChoiceError {}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Oldest => f.write_str("oldest"),
            Choice::Newest => f.write_str("newest"),
            Choice::Seed(seed) => write!(f, "s{seed:x}"),
            Choice::Exact(exact) => exact.fmt(f),
        }
    }
}

impl FromStr for Choice {
    type Err = ChoiceError;
    fn from_str(text: &str) -> Result<Choice, ChoiceError> {
        let refuse = |why: &str| ChoiceError {
            text: text.into(),
            why: why.into(),
        };
        match (text, text.as_bytes().first()) {
            ("oldest", _) => Ok(Choice::Oldest),
            ("newest", _) => Ok(Choice::Newest),
            (_, Some(b's')) => u64::from_str_radix(&text[1..], 16)
                .map(Choice::Seed)
                .map_err(|_| refuse("s is followed by a seed in hexadecimal")),
            (_, Some(b'k' | b'l')) => text.parse().map(Choice::Exact),
            _ => Err(refuse(
                "known are oldest, newest, s and a hexadecimal seed, k and the writes that are kept, l and those that are lost",
            )),
        }
    }
}

/// How many states of a cut to check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In order: every open write lost, every open write kept, and each prefix of the open writes
    /// by their order.
    Linear,
    /// This many seeded draws, and the two extremes.
    Random(u32),
    /// Every legal state at the grain of whole writes, and each of them with at most one write torn
    /// or garbled, as far as [`Bound`] allows. Two torn writes at once, and cached writes that come
    /// to a FIFO cache in another order than they began in, are left to [`Mode::Random`].
    Exhaustive,
    /// Every subset of at most [`Bound::subset_max`] writes against the rest (kept alone, lost
    /// alone), with torn places.
    Bounded,
}

/// Bounds the states of one cut that are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Which states.
    pub mode: Mode,
    /// The maximum of writes that a subset singles out. With [`Mode::Exhaustive`]: the number of
    /// open writes up to which all subsets are taken; beyond it subsets are as in
    /// [`Mode::Bounded`].
    pub subset_max: u32,
    /// Places inside a write at which it may be torn: none (0), or at most this many of its
    /// granules, the first and last always.
    pub torn_max: u32,
    /// The maximum of states of one cut; those beyond are counted, not checked.
    pub states_max: u32,
    /// Leave out subsets of writes that no recovery can tell apart (protocol-aware pruning).
    pub prune: bool,
}

impl Default for Bound {
    fn default() -> Self {
        Bound {
            mode: Mode::Bounded,
            subset_max: 2,
            torn_max: 2,
            states_max: 4096,
            prune: true,
        }
    }
}
