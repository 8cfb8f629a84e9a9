//! The oracle of tasks that work on files: what [`model`](super::model) says of what was found.

use super::Judgement;
use super::model::{State, View};
use super::oracle::Oracle;
use super::run::{Progress, TaskLog};
use super::stamp::{self, FileId};
use base::{Ino, SECTOR_BYTES, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use vfs::{Errno, FileKind, FsError, FsResult, OpenFlags, Vfs};

/// What the tasks of one run were promised, cut by cut.
pub struct FileOracle {
    tasks: Vec<Replay>,
    /// Tasks that had begun at the cut.
    running: usize,
    garbles: bool,
}

/// One task, operation by operation.
struct Replay {
    log: TaskLog,
    state: State,
    at: Progress,
    /// Operations on names that are promised.
    promised: usize,
    /// Operations on names that had ended.
    ended: usize,
    /// The directory after each number of operations on names, from the promised one on.
    views: VecDeque<(usize, View)>,
}

impl Replay {
    fn new(task: usize, log: TaskLog) -> Replay {
        Replay {
            log,
            state: State::new(task),
            at: Progress { begun: 0, ended: 0 },
            promised: 0,
            ended: 0,
            views: VecDeque::from([(0, View::new())]),
        }
    }

    fn advance(&mut self, to: Progress) {
        assert!(
            to.begun >= self.at.begun && to.ended >= self.at.ended,
            "cuts are judged by ascending time"
        );
        while self.at != to {
            if self.at.begun == self.at.ended {
                let before = self.state.count;
                self.state.apply(&self.log.ops[self.at.begun]);
                self.at.begun += 1;
                if self.state.count > before {
                    self.views
                        .push_back((self.state.count, self.state.view.clone()));
                }
            } else {
                let promised = self.state.acknowledge(&self.log.ops[self.at.ended]);
                self.promised = self.promised.max(promised);
                self.at.ended += 1;
                self.ended = self.state.count;
                let promised = self.promised;
                self.views.retain(|(count, _)| *count >= promised);
            }
        }
    }
}

/// One name as recovered.
#[derive(Clone, PartialEq, Eq, Debug)]
struct FoundEntry {
    kind: FileKind,
    ident: (Ino, u32),
    perm: u16,
    nlink: u32,
    target: String,
    size: u64,
}

type FoundView = BTreeMap<String, FoundEntry>;

impl FileOracle {
    /// For a run that left these logs. `garbles`: the device may leave garbage of a write in place.
    pub fn new(logs: Vec<TaskLog>, garbles: bool) -> FileOracle {
        let tasks = logs.into_iter().enumerate();
        FileOracle {
            tasks: tasks.map(|(n, log)| Replay::new(n, log)).collect(),
            running: 0,
            garbles,
        }
    }

    /// Comes to a cut at which the tasks had come so far; empty: they had not begun.
    ///
    /// # Panics
    /// If a cut lies before the last one.
    pub fn advance_to(&mut self, progress: &[Progress]) {
        self.running = progress.len();
        for (task, progress) in self.tasks.iter_mut().zip(progress) {
            task.advance(*progress);
        }
    }

    fn task(&self, vfs: &Arc<Vfs>, number: usize, task: &Replay, judgement: &mut Judgement) {
        let mut complain = |what: String| {
            judgement
                .violations
                .push(format!("task {number} at {:?}: {what}", task.at));
        };
        let found = match names(vfs, &format!("/t{number}")) {
            Ok(found) => found,
            Err(e) => return complain(format!("R1: reading the names: {e}")),
        };
        let fits = |view: &View| mismatches(view, &found, &task.log.made).is_empty();
        let Some((count, view)) = task.views.iter().rev().find(|(_, view)| fits(view)) else {
            return complain(closest(task, &found));
        };
        let mut lost = 0;
        let mut seen = BTreeMap::new();
        for (path, entry) in view {
            if entry.kind == FileKind::File && seen.insert(entry.id, ()).is_none() {
                let path = format!("/t{number}{path}");
                match self.file(vfs, &path, entry.id, &task.state) {
                    Ok(bytes) => lost += bytes,
                    Err(why) => complain(format!("{path}: {why}")),
                }
            }
        }
        judgement.lost_ops += task.ended.saturating_sub(*count);
        judgement.lost_bytes += lost;
    }

    /// Judges one file; answers how many bytes of the newest content are missing.
    fn file(&self, vfs: &Arc<Vfs>, path: &str, id: FileId, state: &State) -> Result<u64, String> {
        let data = read_file(vfs, path).map_err(|e| format!("R1: reading: {e}"))?;
        let content = &state.contents[&id];
        content.judge_size(data.len() as u64)?;
        let mut lost = (content.size * SECTOR_BYTES as u64).saturating_sub(data.len() as u64);
        for (sector, bytes) in (0..).zip(data.chunks(SECTOR_BYTES)) {
            let found = stamp::read(bytes);
            content.judge_sector(id, sector, found, self.garbles)?;
            if !content.is_newest(sector, found) {
                lost += SECTOR_BYTES as u64;
            }
        }
        Ok(lost)
    }
}

impl Oracle for FileOracle {
    fn advance(&mut self, at: Time) {
        let progress: Vec<Progress> = self.tasks.iter().map(|t| t.log.progress(at)).collect();
        self.advance_to(&progress);
    }

    fn epoch(&self) -> u64 {
        let ends = |t: &Replay| (t.at.begun + t.at.ended) as u64;
        self.tasks.iter().map(ends).sum::<u64>() + self.running as u64
    }

    fn position(&self) -> usize {
        self.tasks.iter().map(|t| t.at.begun).sum()
    }

    fn moments(&self) -> Vec<Time> {
        let times = self.tasks.iter().map(|t| &t.log.times);
        let mut all: Vec<Time> = times
            .flat_map(|t| t.begun.iter().chain(&t.ended).copied())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn judge(&self, vfs: &Arc<Vfs>, judgement: &mut Judgement) {
        for (number, task) in self.tasks.iter().enumerate().take(self.running) {
            self.task(vfs, number, task, judgement);
        }
    }

    fn story(&self) -> Vec<String> {
        let tasks = self.tasks.iter().enumerate().take(self.running);
        let lines = tasks.flat_map(|(n, task)| {
            let begun = &task.log.ops[..task.at.begun];
            begun.iter().enumerate().map(move |(i, op)| {
                let state = if i < task.at.ended {
                    "done"
                } else {
                    "under way"
                };
                format!("task {n}: {op} ({state})")
            })
        });
        lines.collect()
    }
}

/// The nearest legal state, and what differs from it.
fn closest(task: &Replay, found: &FoundView) -> String {
    let nearest = task
        .views
        .iter()
        .rev()
        .min_by_key(|(_, view)| mismatches(view, found, &task.log.made).len());
    let Some((count, view)) = nearest else {
        return "O1: no legal state is known".into();
    };
    let words = mismatches(view, found, &task.log.made);
    format!(
        "O1: the names are those of no prefix between {} and {} operations on names; nearest is {count}: {}",
        task.promised,
        task.state.count,
        words.join("; ")
    )
}

/// In what the names found differ from `view`.
fn mismatches(view: &View, found: &FoundView, made: &BTreeMap<FileId, (Ino, u32)>) -> Vec<String> {
    let mut words = Vec::new();
    for path in found.keys().filter(|path| !view.contains_key(*path)) {
        words.push(format!("`{path}` should not be there"));
    }
    for (path, entry) in view {
        let Some(there) = found.get(path) else {
            words.push(format!("`{path}` is missing"));
            continue;
        };
        let links = match entry.kind {
            FileKind::Dir => {
                2 + view
                    .iter()
                    .filter(|(p, e)| {
                        !p.is_empty()
                            && e.kind == FileKind::Dir
                            && super::model::parent(p) == path.as_str()
                    })
                    .count()
            }
            _ => view.values().filter(|e| e.id == entry.id).count(),
        };
        let wanted = FoundEntry {
            kind: entry.kind,
            ident: made.get(&entry.id).copied().unwrap_or(there.ident),
            perm: match entry.kind {
                FileKind::Symlink => there.perm,
                _ => entry.perm,
            },
            nlink: links as u32,
            target: entry.target.clone(),
            size: there.size,
        };
        if *there != wanted {
            words.push(format!("`{path}` is {there:?}, not {wanted:?}"));
        }
    }
    words
}

/// The names below `root` as recovered; none if it is not there.
fn names(vfs: &Arc<Vfs>, root: &str) -> FsResult<FoundView> {
    let mut found = FoundView::new();
    let mut todo = vec![String::new()];
    while let Some(path) = todo.pop() {
        let full = format!("{root}{path}");
        let attr = match vfs.lstat(&full) {
            Err(FsError::Posix(Errno::NoEnt)) if path.is_empty() => return Ok(found),
            other => other?,
        };
        let target = match attr.kind {
            FileKind::Symlink => String::from_utf8_lossy(&vfs.readlink(&full)?).into_owned(),
            _ => String::new(),
        };
        if attr.kind == FileKind::Dir && !found.contains_key(&path) {
            for entry in vfs.readdir(&full)? {
                if entry.name != b"." && entry.name != b".." {
                    todo.push(format!("{path}/{}", String::from_utf8_lossy(&entry.name)));
                }
            }
        }
        let entry = FoundEntry {
            kind: attr.kind,
            ident: (attr.ino, attr.generation),
            perm: attr.perm,
            nlink: attr.nlink,
            target,
            size: attr.size,
        };
        found.insert(path, entry);
        if found.len() > ENTRIES_MAX {
            return Err(FsError::corrupt(format!(
                "{root}: more than {ENTRIES_MAX} names"
            )));
        }
    }
    Ok(found)
}

/// More names than any task makes: the tree is a circle.
const ENTRIES_MAX: usize = 10_000;
/// Larger than any file that a task makes, bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

fn read_file(vfs: &Arc<Vfs>, path: &str) -> FsResult<Vec<u8>> {
    let file = vfs.open(path, OpenFlags::READ, 0)?;
    let read = || {
        let size = file.stat()?.size;
        if size > FILE_BYTES_MAX {
            return Err(FsError::corrupt(format!("size {size}")));
        }
        let mut data = vec![0; size as usize];
        let n = file.read_at(0, &mut data)?;
        data.truncate(n);
        Ok(data)
    };
    let data = read();
    file.close()?;
    data
}
