//! The names that a cut may leave on a volume whose names come back by checkpoint and roll-forward
//! (F2FS without a journal).
//!
//! A mount finds the names of the last checkpoint, which are those after some prefix of the
//! operations. Roll-forward then brings back each file that was synced after that checkpoint, each
//! by itself: with the attributes that it had at the sync (after an fdatasync, perhaps with the
//! older ones) and, if the checkpoint does not know the file, with its name. No other operation
//! comes back, not even an older one. So a legal state is a prefix with some choice of synced files
//! on top, and this module tries these choices, at most [`COMBINATIONS_MAX`] for each prefix.
//!
//! - F1 a sync that needs more than its own inode (that of a directory, or of a file after a link
//!   or a rename) writes a checkpoint, so the prefix holds it;
//! - F2 the newest completed sync of a file that still exists has to come back, where syncs of
//!   single files promise something. A sync that is under way may come back, and so may that of a
//!   file that was removed since, if the removal was not synced.

use super::{Legal, Made, Replay};
use crate::found::FoundView;
use crate::model::{Entry, View};
use crate::ops::Op;
use crate::stamp::FileId;
use std::collections::BTreeMap;
use vfs::FileKind;

/// Most combinations of returning files that are tried on one prefix.
const COMBINATIONS_MAX: usize = 256;

/// A sync of one file, and what it covered.
#[derive(Clone)]
pub(super) struct SyncedFile {
    /// The number of the sync, from 1.
    pub op: usize,
    /// Number of operations on names up to the sync.
    count: usize,
    /// The directory, and the name in it.
    parent: FileId,
    name: String,
    entry: Entry,
    /// It was an fdatasync, so attributes may stay old.
    data_only: bool,
}

impl SyncedFile {
    /// What `op`, the operation with this number, covers if it is the sync of a file.
    pub fn of(op: &Op, number: usize, count: usize, view: &View) -> Option<SyncedFile> {
        let (path, data_only) = match op {
            Op::Fsync(path) => (path, false),
            Op::Fdatasync(path) => (path, true),
            _ => return None,
        };
        let (dir, name) = path.rsplit_once('/')?;
        Some(SyncedFile {
            op: number,
            count,
            parent: view.get(dir)?.id,
            name: name.into(),
            entry: view.get(path)?.clone(),
            data_only,
        })
    }

    /// Changes `view` as recovery does. Answers false where recovery cannot do it, because the
    /// directory is not there (F1).
    fn come_back(&self, view: &mut View, attributes: bool) -> bool {
        let known = |e: &&mut Entry| e.id == self.entry.id;
        let mut there = false;
        for entry in view.values_mut().filter(known) {
            there = true;
            if attributes {
                *entry = self.entry.clone();
            }
        }
        if there {
            return true;
        }
        let dir = view
            .iter()
            .find(|(_, e)| e.id == self.parent && e.kind == FileKind::Dir);
        let Some(dir) = dir.map(|(path, _)| path.clone()) else {
            return false;
        };
        let path = format!("{dir}/{}", self.name);
        if view.get(&path).is_some_and(|e| e.kind == FileKind::Dir) {
            return false;
        }
        view.insert(path, self.entry.clone());
        true
    }
}

/// What may come back of a file: nothing, or a sync and whether the attributes come with it.
type Return<'a> = Option<(&'a SyncedFile, bool)>;

/// For each file that was synced after `base`, what may come back of it.
fn returns<'a>(task: &'a Replay, base: &Legal) -> Vec<Vec<Return<'a>>> {
    let mut by_file: BTreeMap<FileId, Vec<&SyncedFile>> = BTreeMap::new();
    for sync in task.synced.iter().filter(|s| s.count > base.count) {
        by_file.entry(sync.entry.id).or_default().push(sync);
    }
    let exists = |id: FileId| task.state.view.values().any(|e| e.id == id);
    let of_file = |(id, syncs): (FileId, Vec<&'a SyncedFile>)| {
        // F2.
        let last = syncs
            .iter()
            .copied()
            .filter(|s| s.op <= task.at.ended)
            .max_by_key(|s| s.op);
        let under_way = syncs.iter().copied().find(|s| s.op > task.at.ended);
        let in_base = base.view.values().any(|e| e.id == id);
        let mut choices: Vec<Return> = Vec::new();
        if last.is_none() || !exists(id) || !task.fsync_counts {
            choices.push(None);
        }
        for sync in under_way.into_iter().chain(last) {
            choices.push(Some((sync, true)));
            if sync.data_only && in_base {
                choices.push(Some((sync, false)));
            }
        }
        choices
    };
    by_file.into_iter().map(of_file).collect()
}

/// The newest prefix that fits what was found, with the files that came back on top of it.
pub(super) fn newest(task: &Replay, found: &FoundView, made: &Made) -> Option<Legal> {
    let mut bases = task.legal().iter().rev();
    bases.find_map(|base| on_top_of(task, base, found, made))
}

/// The oldest prefix that fits what was found, with the files that came back on top of it.
pub(super) fn oldest(task: &Replay, found: &FoundView, made: &Made) -> Option<Legal> {
    let mut bases = task.legal().iter();
    bases.find_map(|base| on_top_of(task, base, found, made))
}

fn on_top_of(task: &Replay, base: &Legal, found: &FoundView, made: &Made) -> Option<Legal> {
    let files = returns(task, base);
    let all: usize = files.iter().map(Vec::len).product();
    (0..all.min(COMBINATIONS_MAX)).find_map(|number| {
        let legal = combination(base, &files, number)?;
        legal.fits(found, made).then_some(legal)
    })
}

/// The combination of this number on top of `base`; `None` if recovery cannot make it.
fn combination(base: &Legal, files: &[Vec<Return<'_>>], mut number: usize) -> Option<Legal> {
    let mut chosen: Vec<(&SyncedFile, bool)> = Vec::new();
    for choices in files {
        chosen.extend(choices[number % choices.len()]);
        number /= choices.len();
    }
    chosen.sort_by_key(|(sync, _)| sync.op);
    let mut view = base.view.clone();
    for (sync, attributes) in chosen {
        if !sync.come_back(&mut view, attributes) {
            return None;
        }
    }
    // O7 speaks of the prefix: a file that came back on top of it says nothing of other operations.
    Some(Legal::new(base.count, base.op, &view))
}
