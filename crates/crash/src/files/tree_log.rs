//! The names that a cut may leave on a volume with a log of trees (Btrfs).
//!
//! A mount finds the names of the last commit, which are those after some prefix of the operations,
//! and replays a log: what was synced since then, of each inode by itself. The log may hold more
//! than was asked for, or the sync may have become a commit, so no order of other operations
//! follows. What is promised is told by place, that is by directory and name:
//!
//! - L1 a place is as it was after some operation, none older than the last commit that was asked
//!   for (`sync`);
//! - L2 nor older than the last completed sync that covers the place. That of a file covers all
//!   places that it has or had, that of a directory those in it. An fdatasync promises only that
//!   the file is there;
//! - L3 a rename is done or not done: who has a place in all of these states has one, and nobody
//!   has more places than ever at once;
//! - L4 attributes are as after some operation, none older than the last completed sync of the
//!   inode. The links of a file are as many as its places; Btrfs counts none of directories.

use super::Replay;
use super::legal::Legal;
use crate::found::{FoundEntry, FoundView};
use crate::model::{Entry, View, parent};
use crate::ops::Op;
use crate::stamp::FileId;
use std::collections::{BTreeMap, BTreeSet};
use vfs::FileKind;

/// What a sync covers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Covers {
    /// A file: its places and attributes.
    File,
    /// That a file is there.
    Making,
    /// A directory: the places in it, and its attributes.
    Directory,
}

/// A sync of a file or directory.
pub(super) struct Call {
    /// The number of the sync, from 1.
    op: usize,
    /// Number of operations on names up to the sync.
    count: usize,
    id: FileId,
    covers: Covers,
}

impl Call {
    /// What `op`, the operation with this number, covers if it is such a sync.
    pub fn of(op: &Op, number: usize, count: usize, view: &View) -> Option<Call> {
        let (path, covers) = match op {
            Op::Fsync(path) => (path, Covers::File),
            Op::Fdatasync(path) => (path, Covers::Making),
            Op::SyncDir(path) => (path, Covers::Directory),
            _ => return None,
        };
        Some(Call {
            op: number,
            count,
            id: view.get(path)?.id,
            covers,
        })
    }
}

/// A directory, none for that of the task itself, and a name in it.
type Place<'a> = (Option<FileId>, &'a str);

/// A legal state of the names, by place.
struct Names<'a> {
    count: usize,
    at: BTreeMap<Place<'a>, &'a Entry>,
}

impl<'a> Names<'a> {
    fn of(legal: &'a Legal) -> Names<'a> {
        let place = |path: &'a str| match path.rfind('/') {
            None => (None, path),
            Some(at) => (legal.view.get(parent(path)).map(|e| e.id), &path[at + 1..]),
        };
        let all = legal.view.iter();
        Names {
            count: legal.count,
            at: all.map(|(path, entry)| (place(path), entry)).collect(),
        }
    }

    fn of_inode(&self, id: FileId) -> impl Iterator<Item = &'a Entry> {
        self.at.values().copied().filter(move |e| e.id == id)
    }
}

/// What was found, by place and inode.
struct Shown<'a> {
    at: BTreeMap<Place<'a>, (FileId, &'a str, &'a FoundEntry)>,
    /// Names of inodes that the task has not made.
    strange: Vec<String>,
}

impl<'a> Shown<'a> {
    fn of(task: &Replay, found: &'a FoundView) -> Shown<'a> {
        let made = task.log.made.iter();
        let inodes: BTreeMap<_, FileId> = made.map(|(id, ident)| (*ident, *id)).collect();
        let id = |path: &str| inodes.get(&found.get(path)?.ident).copied();
        let mut shown = Shown {
            at: BTreeMap::new(),
            strange: Vec::new(),
        };
        for (path, entry) in found {
            let (dir, name) = match path.rfind('/') {
                None => (None, path.as_str()),
                Some(at) => (id(parent(path)), &path[at + 1..]),
            };
            match id(path) {
                Some(id) => drop(shown.at.insert((dir, name), (id, path, entry))),
                None => shown.strange.push(format!("`{path}` was made by nobody")),
            }
        }
        shown
    }

    fn places_of(&self, id: FileId) -> usize {
        self.at.values().filter(|(found, ..)| *found == id).count()
    }
}

/// What completed syncs promise: up to which number of operations on names.
#[derive(Default)]
struct Promised<'a> {
    places: BTreeMap<Place<'a>, usize>,
    attributes: BTreeMap<FileId, usize>,
    there: BTreeMap<FileId, usize>,
}

impl<'a> Promised<'a> {
    fn of(task: &Replay, states: &[Names<'a>]) -> Promised<'a> {
        let mut promised = Promised::default();
        for call in task.calls.iter().filter(|call| call.op <= task.at.ended) {
            let before = states.iter().filter(|state| state.count <= call.count);
            for (place, entry) in before.flat_map(|state| &state.at) {
                let covered = match call.covers {
                    Covers::File => entry.id == call.id,
                    Covers::Directory => place.0 == Some(call.id),
                    Covers::Making => false,
                };
                if covered {
                    promised.places.insert(*place, call.count);
                }
            }
            match call.covers {
                Covers::Making => &mut promised.there,
                Covers::File | Covers::Directory => &mut promised.attributes,
            }
            .insert(call.id, call.count);
        }
        promised
    }
}

/// The state of the names that was found, or why it is not legal.
pub(super) fn judged(task: &Replay, found: &FoundView) -> Result<Legal, Vec<String>> {
    let states: Vec<Names> = task.legal().iter().map(Names::of).collect();
    let promised = Promised::of(task, &states);
    let mut shown = Shown::of(task, found);
    let mut faults = std::mem::take(&mut shown.strange);
    let made = states.iter().flat_map(|state| state.at.keys());
    let places: BTreeSet<Place> = made.chain(shown.at.keys()).copied().collect();
    for place in places {
        faults.extend(at_place(place, &states, &promised, &shown));
    }
    let entries = states.iter().flat_map(|state| state.at.values());
    let inodes: BTreeSet<FileId> = entries.map(|entry| entry.id).collect();
    for id in inodes {
        faults.extend(of_inode(id, &states, &promised, &shown));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let entry = |id: FileId| states.iter().find_map(|state| state.of_inode(id).next());
    let found = shown.at.values();
    let view: View = found
        .filter_map(|(id, path, _)| Some(((*path).to_string(), entry(*id)?.clone())))
        .collect();
    // What was synced is known by itself, so content may be as old as the oldest of the states.
    let oldest = &task.legal()[0];
    Ok(Legal::new(oldest.count, oldest.op, &view))
}

/// L1 and L2.
fn at_place(
    place: Place<'_>,
    states: &[Names<'_>],
    promised: &Promised<'_>,
    shown: &Shown<'_>,
) -> Option<String> {
    let since = promised.places.get(&place).copied().unwrap_or(0);
    let mut legal = states.iter().filter(|state| state.count >= since);
    let there = shown.at.get(&place);
    let is_as = |state: &Names| match (state.at.get(&place), there) {
        (Some(entry), Some((id, _, found))) => {
            entry.id == *id && entry.kind == found.kind && *entry.target == *found.target
        }
        (entry, there) => entry.is_none() && there.is_none(),
    };
    let words = match there {
        None => format!("`{}` is missing", place.1),
        Some((_, path, _)) => format!("`{path}` should not be there, or not lead there"),
    };
    (!legal.any(is_as)).then_some(words)
}

/// L3 and L4.
fn of_inode(
    id: FileId,
    states: &[Names<'_>],
    promised: &Promised<'_>,
    shown: &Shown<'_>,
) -> Vec<String> {
    let mut faults = Vec::new();
    let since = promised.there.get(&id).copied().unwrap_or(0);
    let mut later = states.iter().filter(|state| state.count >= since);
    let has_always = later.all(|state| state.of_inode(id).next().is_some());
    let most = states.iter().map(|state| state.of_inode(id).count()).max();
    let places = shown.places_of(id);
    let name = || {
        let mut all = states.iter().flat_map(|state| &state.at);
        let first = all.find(|(_, entry)| entry.id == id);
        first.map_or(String::new(), |((_, name), _)| (*name).to_string())
    };
    if places == 0 && has_always {
        faults.push(format!("what was made as `{}` has no name", name()));
    }
    if places > most.unwrap_or(0) {
        faults.push(format!("what was made as `{}` has {places} names", name()));
    }
    let since = promised.attributes.get(&id).copied().unwrap_or(0);
    for (_, path, found) in shown.at.values().filter(|(found, ..)| *found == id) {
        if found.kind != FileKind::Dir && found.nlink as usize != places {
            let links = found.nlink;
            faults.push(format!("`{path}` has {links} links and {places} names"));
        }
        let mut legal = states.iter().filter(|state| state.count >= since);
        let is_as = |entry: &Entry| {
            let is_link = entry.kind == FileKind::Symlink;
            (entry.perm == found.perm || is_link) && *entry.xattrs == found.xattrs
        };
        if !legal.any(|state| state.of_inode(id).any(is_as)) {
            faults.push(format!("`{path}` has attributes of no time since its sync"));
        }
    }
    faults
}
