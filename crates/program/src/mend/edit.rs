//! Recordings with syncs put in or left out.

use super::{Added, all};
use crate::call::{Call, Recording, What};
use crate::posix::Posix;
use crate::sites::{self, Insertion};
use crate::state::ModelError;

/// The recording with these syncs.
pub fn mended(recording: &Recording, syncs: &[Insertion]) -> Recording {
    without(recording, syncs, &[])
}

/// The recording with these syncs and without these calls.
pub fn without(recording: &Recording, syncs: &[Insertion], left_out: &[usize]) -> Recording {
    let mut calls = Vec::new();
    for index in 0..=recording.calls.len() {
        let here = syncs.iter().filter(|sync| sync.before == index);
        calls.extend(here.map(|sync| made(recording, sync)));
        let call = recording.calls.get(index);
        calls.extend(call.filter(|_| !left_out.contains(&index)).cloned());
    }
    Recording {
        start: recording.start.clone(),
        calls,
    }
}

/// The call that an inserted sync is, by whom the next call is, or the last one.
fn made(recording: &Recording, sync: &Insertion) -> Call {
    let next = recording.calls.get(sync.before).or(recording.calls.last());
    Call {
        who: next.map(|call| call.who.clone()).unwrap_or_default(),
        what: What::Sync {
            node: sync.node,
            data_only: sync.data_only,
            failed: None,
        },
        path: sync.path.clone(),
        stack: Vec::new(),
    }
}

/// The call of the recording that is at this place with the syncs in it, or the next one of the
/// recording.
pub(super) fn original(recording: &Recording, syncs: &[Insertion], place: usize) -> usize {
    let mut at = 0;
    for index in 0..recording.calls.len() {
        at += syncs.iter().filter(|sync| sync.before == index).count();
        if at >= place {
            return index;
        }
        at += 1;
    }
    recording.calls.len()
}

/// A sync at every call of the site where the first one stands, of what has the same path there but
/// for numbers, where there is something to sync.
pub(super) fn everywhere(
    posix: &Posix,
    recording: &Recording,
    first: &Insertion,
) -> Result<Vec<Insertion>, ModelError> {
    let Some(call) = recording.calls.get(first.before) else {
        return Ok(vec![first.clone()]);
    };
    let site = sites::site(call);
    let mut cut = posix.cut(recording, first.before)?;
    let now = cut
        .unsynced()
        .into_iter()
        .find(|(node, _)| *node == first.node);
    let path = now.map_or_else(|| first.path.clone(), |(_, path)| path);
    let path = sites::without_numbers(&path);
    let mut syncs = vec![first.clone()];
    cut = posix.cut(recording, 0)?;
    for (index, call) in recording.calls.iter().enumerate() {
        if sites::site(call) == site && index != first.before {
            let same = cut.unsynced().into_iter();
            let same = same.filter(|(_, other)| sites::without_numbers(other) == path);
            syncs.extend(same.map(|(node, path)| Insertion {
                before: index,
                node,
                data_only: first.data_only,
                path,
            }));
        }
        cut.step()?;
    }
    syncs.sort();
    Ok(syncs)
}

/// Takes out the syncs of sites that find nothing to sync once the others are there.
pub(super) fn drop_idle(
    posix: &Posix,
    recording: &Recording,
    added: &mut Vec<Added>,
) -> Result<(), ModelError> {
    let syncs = all(added.iter());
    let changed = mended(recording, &syncs);
    let mut cut = posix.cut(&changed, 0)?;
    let mut idle = Vec::new();
    let mut next = syncs.into_iter().peekable();
    let mut own = 0;
    while cut.calls() < changed.calls.len() {
        match next.next_if(|sync| sync.before == own) {
            Some(sync) if cut.unsynced().iter().all(|(node, _)| *node != sync.node) => {
                idle.push(sync);
            }
            Some(_) => (),
            None => own += 1,
        }
        cut.step()?;
    }
    for site in added.iter_mut() {
        site.syncs.retain(|sync| !idle.contains(sync));
    }
    added.retain(|site| !site.syncs.is_empty());
    Ok(())
}
