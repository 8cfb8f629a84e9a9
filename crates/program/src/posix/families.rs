//! Which sets of lost parts a bound names at a cut, those first that tell most: the latest parts,
//! and each kind of set in turn.
//!
//! - V1: without a sync between them, a cut behind a call may leave all that a cut before it may.
//!   What is new keeps one of the last call's parts, so only such sets are named there. A sync
//!   adds none. An acknowledgement names all sets again, because they are judged anew.

use super::bits::Bits;
use super::cut::Cut;
use super::parts::Class;
use crate::state::Bound;
use std::collections::BTreeMap;

/// A set, by what makes it.
enum Recipe {
    /// These are lost.
    Lost(Vec<usize>),
    /// These are kept and no others.
    Kept(Vec<usize>),
    /// So many are kept, the first ones (track-T1).
    First(usize),
}

impl Recipe {
    fn lost(&self, cut: &Cut<'_>) -> Bits {
        match self {
            Recipe::Lost(parts) => cut.close(parts.iter().copied()),
            Recipe::Kept(parts) => {
                let mut kept = Bits::none(cut.len());
                parts.iter().for_each(|&at| kept.add(&cut.kept_with(at)));
                kept.others()
            }
            Recipe::First(count) => {
                let mut lost = Bits::none(cut.len());
                (*count..cut.len()).for_each(|at| lost.set(at));
                lost
            }
        }
    }
}

/// Calls `emit` with legal sets of lost parts until that answers false. `new` is the first part of
/// the last call; `None`: all sets are named (V1). Sets may come twice. Answers how many were not
/// emitted, at most.
pub(super) fn each(
    cut: &Cut<'_>,
    new: Option<usize>,
    bound: &Bound,
    emit: &mut dyn FnMut(Bits) -> bool,
) -> u64 {
    let count = cut.len();
    let first_new = new.unwrap_or(0);
    let mut families = simple(cut, first_new);
    let mut named = families.iter().map(|family| family.len() as u64).sum();
    let mut done = 0;
    let mut go = |recipe: &Recipe| {
        done += 1;
        let lost = recipe.lost(cut);
        let keeps_new = new.is_none_or(|new| (new..count).any(|at| !lost.has(at)));
        !keeps_new || emit(lost)
    };
    let mut on = true;
    while on && families.iter().any(|family| !family.is_empty()) {
        let turn = families.iter_mut().filter_map(Vec::pop);
        on = turn.collect::<Vec<_>>().iter().all(&mut go);
    }
    for size in 2..=bound.parts_max.min(count) {
        named = binomial(count, size)
            .saturating_mul(2)
            .saturating_add(named);
        let mut some = |parts: &[usize]| {
            on = on && go(&Recipe::Lost(parts.to_vec()));
            let keeps_new = parts.first().is_some_and(|&last| last >= first_new);
            on = on && (!keeps_new || go(&Recipe::Kept(parts.to_vec())));
            on
        };
        combine(size, count, &mut Vec::new(), &mut some);
    }
    if on { 0 } else { named.saturating_sub(done) }
}

/// Sets of which there are few: each of the lists is emptied from its end.
fn simple(cut: &Cut<'_>, first_new: usize) -> Vec<Vec<Recipe>> {
    let count = cut.len();
    let mut calls: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut contents: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for at in 0..count {
        let (class, subject) = cut.class(at);
        calls.entry(cut.name(at).0).or_default().push(at);
        if matches!(class, Class::Content | Class::Size) {
            contents.entry(subject).or_default().push(at);
        }
    }
    let new_calls = calls
        .values()
        .filter(|parts| parts.iter().any(|&at| at >= first_new));
    vec![
        vec![Recipe::First(0), Recipe::First(count)],
        calls.values().cloned().map(Recipe::Lost).collect(),
        new_calls.cloned().map(Recipe::Kept).collect(),
        contents.into_values().map(Recipe::Lost).collect(),
        (0..count).map(|at| Recipe::Lost(vec![at])).collect(),
        (first_new..count)
            .map(|at| Recipe::Kept(vec![at]))
            .collect(),
        (first_new..count).map(Recipe::First).collect(),
    ]
}

/// Calls `some` with each `size` numbers below `below` in front of which `with` stand, descending,
/// until that answers false.
fn combine(
    size: usize,
    below: usize,
    with: &mut Vec<usize>,
    some: &mut dyn FnMut(&[usize]) -> bool,
) -> bool {
    if size == 0 {
        return some(with);
    }
    for at in (0..below).rev() {
        with.push(at);
        let on = combine(size - 1, at, with, some);
        with.pop();
        if !on {
            return false;
        }
    }
    true
}

fn binomial(count: usize, size: usize) -> u64 {
    (0..size as u64).fold(1, |product: u64, at| {
        product.saturating_mul(count as u64 - at) / (at + 1)
    })
}
