//! The names that a cut may leave on a volume whose names come back by checkpoint and roll-forward
//! (F2FS without a journal).
//!
//! A mount finds the names of the last checkpoint, which are those after some prefix of the
//! operations. Roll-forward then brings back each file that was synced after that checkpoint, each
//! by itself: with the attributes that it had at the sync (after an fdatasync, perhaps with the
//! older ones) and, if the checkpoint does not know the file, with its name. No other operation
//! comes back, not even an older one. So a legal state is a prefix with some choice of synced files
//! on top. There are as many choices as sets of files, so this module goes through the files by the
//! order of their syncs and drops a choice as soon as no later file can mend it (F3).
//!
//! - F1 a sync that needs more than its own inode (that of a directory, or of a file after a link
//!   or a rename) writes a checkpoint, so the prefix holds it;
//! - F2 the newest completed sync of a file that still exists has to come back, where syncs of
//!   single files promise something. A sync that is under way may come back, and so may that of a
//!   file that was removed since, if the removal was not synced;
//! - F3 each file comes back at most once, with one of its syncs, and changes only the names that
//!   it has, or the place that it had at the sync. A name is as found at the end, so one that is
//!   not as found has a later file that has it or takes its place. A file that has come back and
//!   has to be taken from a name makes no difference there any more, so it leaves the name at once,
//!   and few views remain.

use super::Replay;
use super::legal::{Legal, Made, is_as};
use crate::found::FoundView;
use crate::model::{Entry, View};
use crate::ops::Op;
use crate::stamp::FileId;
use std::collections::{BTreeMap, BTreeSet};
use vfs::FileKind;

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

    /// Where the file comes back if `view` does not have it; `None` if the directory is not there,
    /// or has a directory of that name. No directory comes or goes, so the place stays.
    fn place(&self, view: &View) -> Option<String> {
        let mut dirs = view.iter().filter(|(_, e)| e.kind == FileKind::Dir);
        let (dir, _) = dirs.find(|(_, e)| e.id == self.parent)?;
        let path = format!("{dir}/{}", self.name);
        let taken = view.get(&path).is_some_and(|e| e.kind == FileKind::Dir);
        (!taken).then_some(path)
    }
}

/// A file that was synced after a prefix, and what may come back of it.
struct Synced<'a> {
    /// The sync that decides.
    sync: &'a SyncedFile,
    /// Where it comes back if it is not there ([`SyncedFile::place`]).
    place: Option<String>,
    /// Nothing, or the file, and then whether the attributes come with it.
    choices: Vec<Option<bool>>,
}

impl Synced<'_> {
    fn id(&self) -> FileId {
        self.sync.entry.id
    }

    /// Changes `view` as recovery does. Answers false where recovery cannot do it, because the
    /// directory is not there (F1).
    fn come_back(&self, view: &mut View, attributes: bool) -> bool {
        let mut there = false;
        for entry in view.values_mut().filter(|e| e.id == self.id()) {
            there = true;
            if attributes {
                *entry = self.sync.entry.clone();
            }
        }
        match &self.place {
            _ if there => true,
            None => false,
            Some(path) => {
                view.insert(path.clone(), self.sync.entry.clone());
                true
            }
        }
    }
}

/// The files with a sync after `base`, in the order of the syncs that decide: the last ones up to
/// operation number `until`.
fn synced<'a>(task: &'a Replay, base: &Legal, until: usize) -> Vec<Synced<'a>> {
    let mut last: BTreeMap<FileId, &SyncedFile> = BTreeMap::new();
    let after = task.synced.iter().filter(|s| s.count > base.count);
    last.extend(after.filter(|s| s.op <= until).map(|s| (s.entry.id, s)));
    let of_file = |sync: &'a SyncedFile| {
        let has = |view: &View| view.values().any(|e| e.id == sync.entry.id);
        let mut choices = vec![Some(true)];
        if sync.data_only && has(&base.view) {
            choices.push(Some(false));
        }
        // F2; that a sync under way comes to nothing is what a smaller `until` says.
        if sync.op <= task.at.ended && !(has(&task.state.view) && task.fsync_counts) {
            choices.push(None);
        }
        Synced {
            sync,
            place: sync.place(&base.view),
            choices,
        }
    };
    let mut files: Vec<Synced> = last.into_values().map(of_file).collect();
    files.sort_by_key(|file| file.sync.op);
    files
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

/// The files that have to come back on top of `base` (F2) and are not there, in words.
pub(super) fn lacking(task: &Replay, base: &Legal, found: &FoundView, made: &Made) -> Vec<String> {
    let files = synced(task, base, task.at.ended);
    let owed = files.iter().filter(|file| !file.choices.contains(&None));
    let lacks = owed.filter_map(|file| {
        let path = file.place.as_ref()?;
        let there = found.get(path);
        let there = there.is_some_and(|f| is_as(&file.sync.entry, f.nlink, f, made));
        (!there).then(|| {
            let sync = file.sync.op;
            format!("`{path}` has not come back, though its sync, operation {sync}, had ended")
        })
    });
    lacks.collect()
}

fn on_top_of(task: &Replay, base: &Legal, found: &FoundView, made: &Made) -> Option<Legal> {
    // A task does one thing after the other, so at most one sync is under way.
    let until = BTreeSet::from([task.at.ended, task.at.begun]);
    let goal = Goal { found, made };
    until.into_iter().find_map(|until| {
        let files = synced(task, base, until);
        let mut names = base.view.keys().chain(found.keys());
        if !names.all(|name| goal.may_become(name, &base.view, &files)) {
            return None;
        }
        let mut views = vec![base.view.clone()];
        for (n, file) in files.iter().enumerate() {
            views = goal.with(file, &views, &files[n + 1..]);
        }
        // O7 speaks of the prefix: a file that came back on top of it says nothing of other
        // operations.
        let mut legal = views.iter().map(|v| Legal::new(base.count, base.op, v));
        legal.find(|l| l.fits(found, made))
    })
}

/// What was found, which decides between the choices.
struct Goal<'a> {
    found: &'a FoundView,
    made: &'a Made,
}

impl Goal<'_> {
    /// The name is as found, but for the number of links, which only the whole view tells.
    fn is(&self, name: &str, entry: Option<&Entry>) -> bool {
        match (entry, self.found.get(name)) {
            (Some(entry), Some(found)) => is_as(entry, found.nlink, found, self.made),
            (entry, found) => entry.is_none() && found.is_none(),
        }
    }

    /// The name is as found, or may become so by one of the files of `later` (F3).
    fn may_become(&self, name: &str, view: &View, later: &[Synced<'_>]) -> bool {
        let here = view.get(name);
        let takes = |file: &Synced| {
            file.place.as_deref() == Some(name) && self.is(name, Some(&file.sync.entry))
        };
        self.is(name, here)
            || later
                .iter()
                .any(|file| here.is_some_and(|e| e.id == file.id()) || takes(file))
    }

    /// The views that the choices of `file` make of `views` and that may still become what was
    /// found by the files of `later` (F3).
    fn with(&self, file: &Synced<'_>, views: &[View], later: &[Synced<'_>]) -> Vec<View> {
        let mut all: Vec<View> = Vec::new();
        let choices = |view| file.choices.iter().map(move |choice| (view, *choice));
        for (view, choice) in views.iter().flat_map(choices) {
            let mut view = view.clone();
            if choice.is_some_and(|attributes| !file.come_back(&mut view, attributes)) {
                continue;
            }
            let own = view.iter().filter(|(_, e)| e.id == file.id());
            let own: Vec<String> = own.map(|(name, _)| name.clone()).collect();
            let mut names = own.iter().chain(&file.place);
            if !names.all(|name| self.may_become(name, &view, later)) {
                continue;
            }
            view.retain(|name, entry| entry.id != file.id() || self.is(name, Some(&*entry)));
            if !all.contains(&view) {
                all.push(view);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Progress;
    use crate::found::FoundEntry;
    use crate::model::State;
    use crate::rules::Terms;
    use crate::run::TaskLog;
    use proptest::prelude::*;
    use rig::{Data, FsyncMode};

    /// All choices of all files, one after the other: what the search has to agree with.
    fn by_trying_all(task: &Replay, base: &Legal, found: &FoundView) -> bool {
        [task.at.ended, task.at.begun].into_iter().any(|until| {
            let files = synced(task, base, until);
            let all: usize = files.iter().map(|f| f.choices.len()).product();
            (0..all).any(|mut number| {
                let mut view = base.view.clone();
                let possible = files.iter().all(|file| {
                    let choice = file.choices[number % file.choices.len()];
                    number /= file.choices.len();
                    choice.is_none_or(|attributes| file.come_back(&mut view, attributes))
                });
                let legal = Legal::new(base.count, base.op, &view);
                possible && legal.fits(found, &task.log.made)
            })
        })
    }

    /// A few names, so that files take each other's places.
    fn op((what, name, other, number): (u8, u8, u8, u16)) -> Op {
        let names = ["/a", "/b", "/d/a", "/d"];
        let path = |n: u8| names[usize::from(n) % 4].to_string();
        match what {
            0 | 1 => Op::Create(path(name % 3)),
            2..=4 => Op::Fsync(path(name % 3)),
            5..=7 => Op::Fdatasync(path(name % 3)),
            8 => Op::Unlink(path(name % 3)),
            9 => Op::Rename {
                from: path(name),
                to: path(other),
            },
            10 => Op::Link {
                from: path(name % 3),
                to: path(other % 3),
            },
            11 => Op::Mkdir(path(3)),
            12 => Op::SyncDir(String::new()),
            _ => Op::Chmod {
                path: path(name),
                perm: 0o600 + number % 4,
            },
        }
    }

    /// A task that has done what of `ops` is possible; with `under_way` the last of it has not
    /// ended.
    fn task(ops: Vec<Op>, terms: Terms, under_way: bool) -> Replay {
        let mut state = State::new(0);
        let mut log = TaskLog::default();
        for op in std::iter::once(Op::Mkdir(String::new())).chain(ops) {
            if state.allows(&op) {
                log.made
                    .extend(state.apply(&op).map(|id| (id, (base::Ino(id as u32), 7))));
                log.ops.push(op);
            }
        }
        let begun = log.ops.len();
        let ended = begun - usize::from(under_way);
        let mut task = Replay::new(0, log, &terms);
        task.advance(Progress { begun, ended });
        task
    }

    /// A view as a mount would show it.
    fn shown(legal: &Legal, made: &Made) -> FoundView {
        let all = legal.view.iter().zip(&legal.links);
        let entry = |((path, entry), links): ((&String, &Entry), &u32)| {
            let found = FoundEntry {
                kind: entry.kind,
                ident: made[&entry.id],
                perm: entry.perm,
                nlink: *links,
                target: entry.target.to_string(),
                size: 0,
                xattrs: (*entry.xattrs).clone(),
            };
            (path.clone(), found)
        };
        all.map(entry).collect()
    }

    proptest! {
        /// F2 and F3: whatever a mount shows, the search finds the choice that explains it if and
        /// only if there is one.
        #[test]
        fn the_search_finds_what_trying_all_finds(
            ops in proptest::collection::vec((0..16u8, 0..4u8, 0..4u8, 0..4u16), 1..24),
            flags in any::<(bool, bool)>(),
            picks in any::<(u16, u64)>(),
            harm in 0..6u8,
        ) {
            let (under_way, barriers) = flags;
            let mode = if barriers { FsyncMode::Posix } else { FsyncMode::NoBarrier };
            let terms = Terms {
                journaled: true,
                data: Data::Ordered,
                garbles: false,
                roll_forward: Some(mode),
                by_inode: false,
                tree_log: false,
                page_bytes: 4096,
                pieces: false,
            };
            let task = task(ops.into_iter().map(op).collect(), terms, under_way);
            let made = &task.log.made;
            let bases = task.legal();
            let base = &bases[usize::from(picks.0) % bases.len()];
            let files = synced(&task, base, task.at.begun);
            // One choice of each file, legal or not.
            let mut view = base.view.clone();
            for (n, file) in files.iter().enumerate() {
                let choice = [None, Some(true), Some(false)][(picks.1 >> (2 * n % 64)) as usize % 3];
                let _ = choice.is_some_and(|attributes| file.come_back(&mut view, attributes));
            }
            let mut found = shown(&Legal::new(base.count, base.op, &view), made);
            match (harm, found.keys().next_back().cloned()) {
                (0, Some(name)) => drop(found.remove(&name)),
                (1, Some(name)) => found.get_mut(&name).unwrap().perm ^= 1,
                _ => {}
            }
            for base in bases {
                let fits = on_top_of(&task, base, &found, made);
                prop_assert_eq!(fits.is_some(), by_trying_all(&task, base, &found));
                prop_assert!(fits.is_none_or(|legal| legal.fits(&found, made)));
            }
        }
    }
}
