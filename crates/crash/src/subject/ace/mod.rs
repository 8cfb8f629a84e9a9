//! Bounded enumeration of workloads, as the Automatic Crash Explorer (ACE) of CrashMonkey makes
//! them (Mohan et al., "Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing", OSDI
//! 2018, section 5): all sequences of a few core operations over a small name space. A persistence
//! operation may follow each of them, and follows the last. What an operation needs is made right
//! before it.
//!
//! Many sequences differ only by an exchange of names. One of each such group is made: the names of
//! a directory are `foo` and `bar` in the order of their first use, and the directories `A` and `B`
//! likewise; where a directory is renamed, the names of both are exchanged together only. Sequences
//! with equal operations are made once, too.
//!
//! Three things differ from ACE: there is no direct write (no `O_DIRECT` here), and a write to a
//! mapping is a plain write; a rename also comes in the form that replaces a file; and what the
//! first core operation needs on an empty volume may be synced before it.

mod bound;
mod core;

pub use bound::{ALL_CORE, AceBound, Core, Points};

use self::core::{Fragment, persistence, ways};
use super::error::TextError;
use super::head;
use super::script::{FileScript, begun};
use crate::model::{State, parent};
use crate::ops::Op;
use base::Set;

/// Most core operations of a sequence that can be enumerated.
pub const LENGTH_MAX: usize = 3;

/// All sequences of `length` core operations within a bound, as texts of scripts, always in one
/// order.
pub fn sequences(length: usize, bound: &AceBound) -> impl Iterator<Item = String> + use<> {
    scripts(length, bound).map(|script| script.to_string())
}

/// How many sequences there are.
pub fn count(length: usize, bound: &AceBound) -> usize {
    Sequences::new(length, bound).count()
}

/// All sequences as [`sequences`] gives them, parsed.
pub fn scripts(length: usize, bound: &AceBound) -> impl Iterator<Item = FileScript> + use<> {
    Sequences::new(length, bound).map(|ops| {
        FileScript::new(vec![ops]).expect("each operation was asked of the model when it was added")
    })
}

/// A sequence so far, of core and persistence operations by turns.
#[derive(Clone)]
struct Node {
    state: State,
    ops: Vec<Op>,
    /// Names that its operations used, in order.
    used: Vec<&'static str>,
    /// Names that its core operations used, and how many of them are older than the last operation.
    named: Vec<&'static str>,
    older: usize,
    moves_dir: bool,
}

/// A sequence so far and the fragments that may still follow it.
struct Frame {
    node: Node,
    ways: std::vec::IntoIter<Fragment>,
}

/// Goes through all sequences depth first, core and persistence operations by turns.
struct Sequences {
    bound: AceBound,
    length: usize,
    frames: Vec<Frame>,
    /// Hashes of the sequences that were given out.
    seen: Set<u128>,
    /// Mirror images are given out, too.
    mirrored: bool,
}

impl Sequences {
    fn new(length: usize, bound: &AceBound) -> Sequences {
        let mut all = Sequences {
            bound: bound.clone(),
            length: length.min(LENGTH_MAX),
            frames: Vec::new(),
            seen: Set::default(),
            mirrored: false,
        };
        if length > 0 {
            let root = Node {
                state: begun(0),
                ops: Vec::new(),
                used: Vec::new(),
                named: Vec::new(),
                older: 0,
                moves_dir: false,
            };
            all.open(root);
        }
        all
    }

    /// Opens a frame with all that may follow `node`.
    fn open(&mut self, node: Node) {
        let bound = &self.bound;
        let depth = self.frames.len();
        let ways: Vec<Fragment> = match depth % 2 {
            0 => {
                let all = bound.core.iter();
                let all = all.flat_map(|core| ways(*core, bound, &node.state));
                match depth == 0 && bound.settled {
                    true => all.flat_map(with_settled).collect(),
                    false => all.collect(),
                }
            }
            _ => {
                let points = match depth == 2 * self.length - 1 {
                    true => &bound.end,
                    false => &bound.between,
                };
                let from = if points.earlier { 0 } else { node.older };
                persistence(points, bound, &node.state, &node.named[from..])
            }
        };
        let ways = ways.into_iter();
        self.frames.push(Frame { node, ways });
    }

    /// The sequence with one more fragment; `None` if it is the mirror image of another one.
    fn extended(&self, node: &Node, way: Fragment) -> Option<Node> {
        let mut next = node.clone();
        let core = self.frames.len() % 2 == 1;
        if core {
            next.older = next.named.len();
            next.named.extend(&way.used);
        }
        next.used.extend(&way.used);
        next.moves_dir |= way.moves_dir;
        let whole = self.frames.len() == 2 * self.length;
        if !self.mirrored && !is_first_of_its_kind(&next, whole) {
            return None;
        }
        for op in way.ops {
            next.state.apply(&op);
            next.ops.push(op);
        }
        Some(next)
    }
}

impl Iterator for Sequences {
    type Item = Vec<Op>;

    fn next(&mut self) -> Option<Vec<Op>> {
        loop {
            let frame = self.frames.last_mut()?;
            let Some(way) = frame.ways.next() else {
                self.frames.pop();
                continue;
            };
            let node = self.frames.last().expect("just seen").node.clone();
            let Some(next) = self.extended(&node, way) else {
                continue;
            };
            if self.frames.len() < 2 * self.length {
                self.open(next);
            } else if self.seen.insert(hash(&next.ops)) {
                return Some(next.ops);
            }
        }
    }
}

/// The fragment, and if it has dependencies once more with these synced.
fn with_settled(way: Fragment) -> Vec<Fragment> {
    if way.needed == 0 {
        return vec![way];
    }
    let mut settled = way.clone();
    settled.ops.insert(way.needed, Op::Sync);
    settled.needed += 1;
    vec![way, settled]
}

/// FNV-1a of 128 bits (<http://www.isthe.com/chongo/tech/comp/fnv/>) of the operations as text.
fn hash(ops: &[Op]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let texts = ops.iter().map(|op| format!("{op};"));
    texts.fold(BASIS, |hash, text| {
        let mix = |hash: u128, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        text.bytes().fold(hash, mix)
    })
}

/// True for the one of several mirror images that is kept; `whole`: the sequence is complete.
///
/// The names of the root can be exchanged by themselves, and so can those of `A` and of `B`. But
/// the rename of a directory carries the names of one into the other, and then these can be
/// exchanged only together.
fn is_first_of_its_kind(node: &Node, whole: bool) -> bool {
    let first = |wanted: &dyn Fn(&str) -> bool| node.used.iter().find(|name| wanted(name));
    let foo_first = |wanted: &dyn Fn(&str) -> bool| {
        let is_file = |name: &str| name.ends_with("/foo") || name.ends_with("/bar");
        first(&|name| is_file(name) && wanted(name)).is_none_or(|name| name.ends_with("/foo"))
    };
    let a_first = first(&|name| name.starts_with("/A") || name.starts_with("/B"))
        .is_none_or(|name| name.starts_with("/A"));
    let apart = whole && !node.moves_dir;
    a_first
        && foo_first(&|name| parent(name).is_empty())
        && foo_first(&|name| !parent(name).is_empty())
        && (!apart
            || ["/A", "/B"]
                .iter()
                .all(|dir| foo_first(&|name| parent(name) == *dir)))
}

/// The sequence `LENGTH,bound=NAME#NUMBER`.
pub(super) fn one(text: &str) -> Result<FileScript, TextError> {
    let wrong = |what: String| TextError::at(1, 1, what);
    let (spec, number) = text.split_once('#').ok_or_else(|| {
        wrong(
            "expected LENGTH#NUMBER or LENGTH,bound=NAME#NUMBER, as 2#17 or 1,bound=complete#0"
                .into(),
        )
    })?;
    let Choice { length, bound, .. } = Choice::parse(spec)?;
    let column = spec.chars().count() + 2;
    let parsed = number
        .parse::<usize>()
        .map_err(|_| TextError::at(1, column, format!("`{}` is not a number", head(number))))?;
    scripts(length, &bound).nth(parsed).ok_or_else(|| {
        let count = count(length, &bound);
        let what = format!(
            "bound {} has {count} sequences of length {length}, numbered from 0",
            bound.name
        );
        TextError::at(1, column, what)
    })
}

/// Most sequences that one text may stand for; their texts are held in memory.
const ALL_MAX: usize = 1_000_000;

/// All sequences of `LENGTH,bound=NAME,every=N`.
pub(super) fn all(text: &str) -> Result<impl Iterator<Item = FileScript> + use<>, TextError> {
    let Choice {
        length,
        bound,
        every,
    } = Choice::parse(text)?;
    let listed = Sequences::new(length, &bound).step_by(every);
    let listed: Vec<Vec<Op>> = listed.take(ALL_MAX + 1).collect();
    if listed.len() > ALL_MAX {
        let what = format!(
            "bound {} has more than {ALL_MAX} sequences of length {length}; take a smaller bound or every=N",
            bound.name
        );
        return Err(TextError::at(1, 1, what));
    }
    let scripts = listed.into_iter().map(|ops| {
        FileScript::new(vec![ops]).expect("each operation was asked of the model when it was added")
    });
    Ok(scripts)
}

/// The sequences that a text chooses.
struct Choice {
    length: usize,
    bound: AceBound,
    /// One sequence in so many is taken.
    every: usize,
}

impl Choice {
    /// Reads `LENGTH`, then `bound=NAME` and `every=N` in any order.
    fn parse(text: &str) -> Result<Choice, TextError> {
        let mut parts = text.split(',');
        let length_text = parts.next().unwrap_or_default();
        let length = length_text.trim().parse::<usize>().ok();
        let length = length.filter(|n| (1..=LENGTH_MAX).contains(n));
        let length = length.ok_or_else(|| {
            let given = head(length_text);
            TextError::at(
                1,
                1,
                format!("`{given}` is not a length from 1 to {LENGTH_MAX}"),
            )
        })?;
        let mut choice = Choice {
            length,
            bound: AceBound::for_length(length),
            every: 1,
        };
        let mut column = length_text.chars().count() + 2;
        for part in parts {
            let wrong = |what: String| TextError::at(1, column, what);
            choice.set(part.trim()).map_err(wrong)?;
            column += part.chars().count() + 1;
        }
        Ok(choice)
    }

    fn set(&mut self, part: &str) -> Result<(), String> {
        match part.split_once('=') {
            Some(("bound", name)) => {
                self.bound = AceBound::named(name).ok_or_else(|| {
                    let all: Vec<&str> = AceBound::ALL.iter().map(|b| b.name).collect();
                    format!(
                        "unknown bound `{}`; there is: {}",
                        head(name),
                        all.join(", ")
                    )
                })?;
            }
            Some(("every", n)) => {
                let n = n.parse().ok().filter(|n| *n > 0);
                self.every = n.ok_or("expected every=N, N from 1 on")?;
            }
            _ => {
                return Err(format!("`{}`; expected bound=NAME or every=N", head(part)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
