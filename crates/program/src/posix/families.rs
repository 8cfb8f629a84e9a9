//! Which sets of lost parts a bound names at a cut.
//!
//! - V1: without a sync between them, a cut behind a call may leave all that a cut before it may.
//!   What is new loses not all of the last call's parts, so no other sets are named there. A sync
//!   adds none. An acknowledgement names all sets again, because they are judged anew.

use super::bits::Bits;
use super::cut::Cut;
use super::parts::Class;
use crate::state::Bound;
use std::collections::BTreeMap;

/// Calls `emit` with legal sets of lost parts until that answers false, those first that tell most.
/// `new` are the parts of the last call; `None`: all sets are named (V1). Sets may come twice.
pub(super) fn each(
    cut: &Cut<'_>,
    new: Option<&Bits>,
    bound: &Bound,
    emit: &mut dyn FnMut(&Bits) -> bool,
) {
    let fits = |lost: &Bits| new.is_none_or(|new| new.iter().any(|at| !lost.has(at)));
    let mut go = |lost: &Bits| (!fits(lost) || emit(lost)).then_some(());
    let _ = walk(cut, bound, &mut go);
}

/// `None`: it was stopped.
fn walk(cut: &Cut<'_>, bound: &Bound, go: &mut dyn FnMut(&Bits) -> Option<()>) -> Option<()> {
    let count = cut.len();
    go(&Bits::none(count))?;
    go(&Bits::all(count))?;
    let mut calls: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut contents: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for at in 0..count {
        let part = cut.part(at);
        calls.entry(part.call).or_default().push(at);
        if matches!(part.piece.class, Class::Content | Class::Size) {
            contents.entry(part.piece.subject).or_default().push(at);
        }
    }
    for parts in calls.values().chain(contents.values()) {
        go(&cut.close(parts.iter().copied()))?;
    }
    for parts in calls.values() {
        go(&kept(cut, parts))?;
    }
    let mut prefix = Bits::all(count);
    for at in 0..count {
        let mut one = Bits::none(count);
        one.set(at);
        prefix.remove(&one);
        go(&prefix)?;
    }
    for size in 1..=bound.parts_max.min(count) {
        combine(cut, size, 0, &Bits::none(count), true, go)?;
        combine(cut, size, 0, &Bits::none(count), false, go)?;
    }
    Some(())
}

fn kept(cut: &Cut<'_>, parts: &[usize]) -> Bits {
    let mut kept = Bits::none(cut.len());
    parts.iter().for_each(|&at| kept.add(cut.kept_with(at)));
    kept.others()
}

/// Each `size` parts from `from` on that are lost, or kept, with those in `with`. Of parts of which
/// one comes with another, no two are taken.
fn combine(
    cut: &Cut<'_>,
    size: usize,
    from: usize,
    with: &Bits,
    lost: bool,
    go: &mut dyn FnMut(&Bits) -> Option<()>,
) -> Option<()> {
    if size == 0 {
        return if lost { go(with) } else { go(&with.others()) };
    }
    for at in from..cut.len() {
        let more = if lost {
            cut.lost_with(at)
        } else {
            cut.kept_with(at)
        };
        if with.has(at) {
            continue;
        }
        let mut with = with.clone();
        with.add(more);
        combine(cut, size - 1, at + 1, &with, lost, go)?;
    }
    Some(())
}
