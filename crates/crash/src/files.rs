//! The oracle of tasks that work on files: it compares what recovery gave with what the
//! [`model`](super::model) allows.
//!
//! Each task works in a directory of its own, so its operations have one order and its legal states
//! are those after some prefix of it (on F2FS without a journal with synced files on top, see
//! `roll_forward.rs`). The oracle replays the logs of the tasks up to the cut, looks for the newest
//! legal state that fits the names found, and then compares every sector of the files in it. At
//! last it looks at the order between tasks (O7).

mod legal;
mod roll_forward;
mod tree_log;

use super::content::{Content, Seen, Strange};
use super::found::{Finder, FoundView};
use super::model::{State, View};
use super::ops::Op;
use super::oracle::{Oracle, Told};
use super::rules::{Call, Cover, Sight, Terms, What, may_show};
use super::run::{Progress, TaskLog};
use super::stamp::FileId;
use super::{Judgement, Loss};
use base::{SECTOR_BYTES, Time};
use legal::Legal;
use roll_forward::SyncedFile;
use std::borrow::Cow;
use std::sync::Arc;
use vfs::{FileKind, Vfs};

/// What the tasks of one run were promised, from cut to cut.
pub struct FileOracle {
    tasks: Vec<Replay>,
    /// Number of tasks that had begun at the cut.
    running: usize,
    terms: Terms,
    /// Syncs of everything, in the order in which they ended.
    syncs: Vec<SyncAll>,
    /// How many of them had ended before the cut.
    synced: usize,
    at: Time,
}

/// What a sync of everything, or of all names, covers of the other tasks.
struct SyncAll {
    task: usize,
    /// The number of the sync in its task, from 0.
    op: usize,
    ended: Time,
    /// For each task the operations that had ended when the sync began.
    covers: Vec<usize>,
    /// It covers content as well as names.
    content: bool,
}

/// One task, replayed operation by operation up to the cut.
struct Replay {
    log: TaskLog,
    state: State,
    at: Progress,
    /// Number of operations on names that are promised.
    promised: usize,
    /// Number of operations on names that had ended.
    ended: usize,
    /// The names after each operation on names.
    views: Vec<Legal>,
    /// What each operation did; the first has number 1.
    done: Vec<Effect>,
    with_xattrs: bool,
    names_by: NamesBy,
    /// A sync of a single file promises something.
    fsync_counts: bool,
    terms: Terms,
    /// Syncs of single files that have begun; only kept where names come back by roll-forward.
    synced: Vec<SyncedFile>,
    /// Syncs of files and directories that have begun; only kept where a log of trees is.
    calls: Vec<tree_log::Call>,
}

/// How the names come back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamesBy {
    /// As one prefix of the operations.
    Prefix,
    /// By a checkpoint, and single files on top of it.
    RollForward,
    /// By a checkpoint, and a log of what was synced on top of it.
    TreeLog,
}

impl NamesBy {
    fn of(terms: &Terms) -> NamesBy {
        match (terms.tree_log, terms.roll_forward) {
            (true, _) => NamesBy::TreeLog,
            (false, Some(_)) => NamesBy::RollForward,
            (false, None) => NamesBy::Prefix,
        }
    }
}

/// What an operation did.
#[derive(Clone, Copy)]
struct Effect {
    /// Number of operations on names up to this one.
    count: usize,
    names: bool,
    /// The file whose content the operation changed.
    content: Option<FileId>,
}

/// States of the names that are kept though they are older than what is promised, to tell how much
/// of it is lost.
const OLDER_MAX: usize = 64;

impl Replay {
    fn new(task: usize, log: TaskLog, terms: &Terms) -> Replay {
        let xattr = |op: &Op| matches!(op, Op::SetXattr { .. });
        Replay {
            with_xattrs: log.ops.iter().any(xattr),
            log,
            state: (State::new(task).in_pages_of(terms.page_bytes)).allocating(terms.pieces),
            at: Progress { begun: 0, ended: 0 },
            promised: 0,
            ended: 0,
            views: vec![Legal::new(0, 0, &View::new())],
            done: Vec::new(),
            names_by: NamesBy::of(terms),
            fsync_counts: terms.fsync_counts(),
            terms: *terms,
            synced: Vec::new(),
            calls: Vec::new(),
        }
    }

    fn advance(&mut self, to: Progress) {
        assert!(
            to.begun >= self.at.begun && to.ended >= self.at.ended,
            "cuts are judged by ascending time"
        );
        while self.at != to {
            if self.at.begun == self.at.ended {
                self.begin();
            } else {
                let op = &self.log.ops[self.at.ended];
                let promised = match op {
                    Op::Fsync(_) | Op::Fdatasync(_) if !self.fsync_counts => 0,
                    op => self.state.acknowledge(op, &self.terms),
                };
                self.at.ended += 1;
                self.ended = self.state.count;
                self.promise(promised);
            }
        }
    }

    fn begin(&mut self) {
        let op = &self.log.ops[self.at.begun];
        let before = self.state.count;
        let content = match op {
            Op::Write { path, .. } | Op::Truncate { path, .. } | Op::Fallocate { path, .. } => {
                self.state.view.get(path).map(|e| e.id)
            }
            _ => None,
        };
        self.state.apply(op);
        self.at.begun += 1;
        let count = self.state.count;
        let (number, view) = (self.at.begun, &self.state.view);
        match self.names_by {
            NamesBy::Prefix => {}
            NamesBy::RollForward => (self.synced).extend(SyncedFile::of(op, number, count, view)),
            NamesBy::TreeLog => (self.calls).extend(tree_log::Call::of(op, number, count, view)),
        }
        let names = count > before;
        if names {
            // What changes nothing that can be seen is no sign that its time has come (O7).
            let same = self.views.last().filter(|last| last.view == *view);
            let op = same.map_or(self.at.begun, |last| last.op);
            self.views.push(Legal::new(count, op, view));
        }
        self.done.push(Effect {
            count,
            names,
            content,
        });
    }

    fn promise(&mut self, count: usize) {
        self.promised = self.promised.max(count);
        let older = self.legal_from().saturating_sub(OLDER_MAX);
        self.views.drain(..older);
    }

    /// The index in `views` of the first state that is legal.
    fn legal_from(&self) -> usize {
        self.views.partition_point(|v| v.count < self.promised)
    }

    /// The newest legal state that fits the names found.
    fn fitting(&self, found: &FoundView) -> Option<Cow<'_, Legal>> {
        let made = &self.log.made;
        let fits = || self.legal().iter().rev().find(|l| l.fits(found, made));
        match self.names_by {
            NamesBy::Prefix => fits().map(Cow::Borrowed),
            NamesBy::RollForward => roll_forward::newest(self, found, made).map(Cow::Owned),
            NamesBy::TreeLog => tree_log::judged(self, found).ok().map(Cow::Owned),
        }
    }

    /// The oldest legal state that fits the names found.
    fn oldest_fitting(&self, found: &FoundView) -> Option<Cow<'_, Legal>> {
        let made = &self.log.made;
        let fits = || self.legal().iter().find(|l| l.fits(found, made));
        match self.names_by {
            NamesBy::Prefix => fits().map(Cow::Borrowed),
            NamesBy::RollForward => roll_forward::oldest(self, found, made).map(Cow::Owned),
            NamesBy::TreeLog => tree_log::judged(self, found).ok().map(Cow::Owned),
        }
    }

    fn legal(&self) -> &[Legal] {
        &self.views[self.legal_from()..]
    }

    /// Another task's sync of everything has ended; it covers the first `ops` operations here.
    fn covered(&mut self, ops: usize, content: bool) {
        let count = ops.checked_sub(1).map_or(0, |n| self.done[n].count);
        if content {
            self.state.acknowledge_all(ops);
        }
        self.promise(count);
    }

    /// Number of operations on names that had ended before `time`.
    fn ended_before(&self, time: Time) -> usize {
        let ops = self.log.times.ended.partition_point(|t| *t < time);
        let ops = ops.min(self.done.len());
        ops.checked_sub(1).map_or(0, |n| self.done[n].count)
    }

    /// When operation `op` ended, or began if it had not; numbers begin with 1.
    fn time_of(&self, op: usize) -> Time {
        let times = &self.log.times;
        let first = times.begun.first().copied().unwrap_or_default();
        let Some(n) = op.checked_sub(1) else {
            return first;
        };
        let begun = times.begun.get(n).copied();
        times.ended.get(n).copied().or(begun).unwrap_or(first)
    }

    fn is_promised(&self, op: usize) -> bool {
        let effect = &self.done[op - 1];
        let content = effect.content.and_then(|id| self.state.contents.get(&id));
        content.is_some_and(|c| c.acked_op() >= op) || effect.names && effect.count <= self.promised
    }
}

/// A legal state that fits: the number of operations on names, and the number of the last of them.
#[derive(Clone, Copy)]
struct Fit {
    count: usize,
    op: usize,
}

/// What was found of one task.
#[derive(Default)]
struct Findings {
    loss: Loss,
    /// The number of the newest operation that is there.
    held: usize,
    /// The newest legal state of the names that fits.
    names: Option<Fit>,
    words: Vec<String>,
}

/// Most violations that are reported of one file.
const WORDS_MAX: usize = 3;

impl FileOracle {
    /// The oracle of a run that left these logs.
    pub fn new(logs: Vec<TaskLog>, terms: Terms) -> FileOracle {
        let syncs = syncs(&logs, &terms);
        let tasks = logs.into_iter().enumerate();
        FileOracle {
            tasks: tasks.map(|(n, log)| Replay::new(n, log, &terms)).collect(),
            running: 0,
            terms,
            syncs,
            synced: 0,
            at: Time::default(),
        }
    }

    /// Goes on to a cut with the tasks at `progress`, which is empty before they begin.
    ///
    /// # Panics
    /// If the cut lies before the last one.
    pub fn advance_to(&mut self, progress: &[Progress]) {
        self.running = progress.len();
        for (task, progress) in self.tasks.iter_mut().zip(progress) {
            task.advance(*progress);
            let times = &task.log.times;
            let begun = progress.begun.checked_sub(1).map(|n| times.begun[n]);
            let ended = progress.ended.checked_sub(1).map(|n| times.ended[n]);
            self.at = self.at.max(begun.max(ended).unwrap_or_default());
        }
        while let Some(sync) = self.syncs.get(self.synced) {
            if self.tasks[sync.task].at.ended <= sync.op {
                break;
            }
            for (task, ops) in self.tasks.iter_mut().zip(&sync.covers) {
                task.covered(*ops, sync.content);
            }
            self.synced += 1;
        }
    }

    /// Judges what a finder shows of the directories of the tasks, and enters violations and losses
    /// into `judgement`.
    pub fn judge_found(&self, finder: &dyn Finder, judgement: &mut Judgement) {
        let running = &self.tasks[..self.running.min(self.tasks.len())];
        let all = running.iter().enumerate();
        let all: Vec<Findings> = all.map(|(n, task)| self.task(finder, n, task)).collect();
        judgement.violations.extend(self.order(finder, &all));
        for ((number, task), mut found) in running.iter().enumerate().zip(all) {
            if !found.loss.is_none() {
                let held = task.time_of(found.held).min(self.at);
                found.loss.age = self.at - held;
            }
            judgement.loss.add(&found.loss);
            let words = found.words.into_iter();
            judgement
                .violations
                .extend(words.map(|what| format!("task {number} at {:?}: {what}", task.at)));
        }
    }

    fn task(&self, finder: &dyn Finder, number: usize, task: &Replay) -> Findings {
        let root = format!("/t{number}");
        let mut out = Findings::default();
        let found = match finder.names(&root, task.with_xattrs) {
            Ok(found) => found,
            Err(e) => {
                out.words.push(format!("R1: reading the names: {e}"));
                return out;
            }
        };
        let Some(legal) = task.fitting(&found) else {
            names_are_lost(task, &found, &mut out);
            return out;
        };
        out.held = legal.op;
        out.names = Some(Fit {
            count: legal.count,
            op: legal.op,
        });
        out.loss.ops = task.ended.saturating_sub(legal.count);
        let mut seen = Vec::new();
        for ((path, entry), links) in legal.view.iter().zip(&legal.links) {
            if entry.kind != FileKind::File || *links > 1 && seen.contains(&entry.id) {
                continue;
            }
            seen.push(entry.id);
            let path = format!("{root}{path}");
            let data = match finder.bytes(&path) {
                Ok(data) => data,
                Err(e) => {
                    out.words.push(format!("{path}: R1: reading: {e}"));
                    continue;
                }
            };
            let content = &task.state.contents[&entry.id];
            if data == content.bytes() {
                out.held = out.held.max(content.newest_op());
                continue;
            }
            // If several states of the names fit, the content may be that of any of them.
            let oldest = || task.oldest_fitting(&found);
            let mut file = self.file(content, entry.id, &data, legal.count);
            if !file.words.is_empty() {
                let count = oldest().map_or(legal.count, |l| l.count);
                file = self.file(content, entry.id, &data, count);
            }
            out.held = out.held.max(file.held);
            out.loss.add(&file.loss);
            out.words
                .extend(file.words.into_iter().map(|w| format!("{path}: {w}")));
        }
        out
    }

    /// If an operation of one task is there, all operations on names that other tasks had ended
    /// before it began have to be there, too (O7).
    fn order(&self, finder: &dyn Finder, found: &[Findings]) -> Vec<String> {
        let fits: Vec<Option<Fit>> = found.iter().map(|f| f.names).collect();
        let lacks = |a: usize, fit: Fit, b: usize| {
            let (task, other) = (&self.tasks[a], &self.tasks[b]);
            let begun = task.log.times.begun.get(fit.op.checked_sub(1)?)?;
            let wanted = other.ended_before(*begun);
            let there = fits[b]?.count;
            (there < wanted).then_some((there, wanted))
        };
        let mut words = Vec::new();
        for (a, newest) in fits.iter().enumerate() {
            let Some(newest) = *newest else { continue };
            for b in (0..fits.len()).filter(|b| *b != a) {
                if lacks(a, newest, b).is_none() {
                    continue;
                }
                // An older state of the names may look equal, and demand less.
                let fit = self.oldest_fit(finder, a).unwrap_or(newest);
                if let Some((there, wanted)) = lacks(a, fit, b) {
                    words.push(format!(
                        "O7: `{}` of task {a} is there, but of task {b} only {there} operations on names, of {wanted} that had \
                         ended before it began",
                        self.tasks[a].log.ops[fit.op - 1]
                    ));
                }
            }
        }
        words
    }

    fn oldest_fit(&self, finder: &dyn Finder, number: usize) -> Option<Fit> {
        let task = &self.tasks[number];
        let found = finder
            .names(&format!("/t{number}"), task.with_xattrs)
            .ok()?;
        let oldest = task.oldest_fitting(&found)?;
        Some(Fit {
            count: oldest.count,
            op: oldest.op,
        })
    }

    /// Judges a file that does not hold what was written last.
    fn file(&self, content: &Content, id: FileId, data: &[u8], names: usize) -> Findings {
        let mut out = Findings::default();
        out.loss.bytes = content.size().saturating_sub(data.len() as u64);
        let since = match content.judge_size(data.len() as u64, names, self.terms.page_bytes) {
            Ok(since) => since,
            Err(why) => {
                out.words.push(why);
                out.loss.acked_bytes += content.acked_size().saturating_sub(data.len() as u64);
                0
            }
        };
        out.held = since;
        let since = match may_show(Sight::CutOff, &self.terms) {
            true => 0,
            false => since,
        };
        for (sector, bytes) in (0..).zip(data.chunks(SECTOR_BYTES)) {
            match content.see(id, sector, bytes, since) {
                Seen::Newest => out.held = out.held.max(content.op_of(sector)),
                Seen::Earlier(op) => {
                    out.held = out.held.max(op);
                    out.loss.bytes += bytes.len() as u64;
                    out.loss.old_data |= !base::bytes::is_zero(bytes);
                }
                Seen::Strange(what) => {
                    out.loss.bytes += bytes.len() as u64;
                    self.strange(content, sector, what, &mut out);
                }
            }
        }
        out
    }

    /// Judges a sector that holds none of its states: what the terms let show is no violation.
    fn strange(&self, content: &Content, sector: u64, what: Strange, out: &mut Findings) {
        let synced = content.acked_bytes(sector);
        out.loss.acked_bytes += synced;
        let moves = self.terms.roll_forward.is_some();
        let placed = content.placed_since(sector) || moves && content.moved_since(sector);
        let stale = may_show(Sight::StaleBlock, &self.terms) && placed;
        let torn = may_show(Sight::TornPage, &self.terms) && content.rewritten(sector);
        let (allowed, words) = match what {
            Strange::Foreign(s) => {
                out.loss.foreign_data = true;
                let words = format!(
                    "O5: sector {sector} holds sector {} of file {:#x}, written by operation {}",
                    s.sector, s.file, s.version
                );
                (stale, words)
            }
            Strange::Own(s) => {
                out.loss.old_data = true;
                let words = format!(
                    "O3: sector {sector} is as of operation {}; synced {}, newest {}",
                    s.version,
                    content.acked_op(),
                    content.op_of(sector)
                );
                (stale, words)
            }
            Strange::Zeros => {
                let words =
                    format!("O3: sector {sector} is zero, {synced} bytes of it were synced");
                (false, words)
            }
            Strange::Garbage => (stale || torn, format!("O6: sector {sector} is garbage")),
        };
        if !allowed && out.words.len() < WORDS_MAX {
            out.words.push(words);
        }
    }
}

/// What each sync of everything covers, in the order in which they ended.
fn syncs(logs: &[TaskLog], terms: &Terms) -> Vec<SyncAll> {
    let mut syncs = Vec::new();
    for (task, log) in logs.iter().enumerate() {
        for (op, call) in log.ops.iter().enumerate() {
            let content = match call {
                Op::Sync => terms.cover(Call::Sync, What::Content) == Cover::Everything,
                Op::SyncDir(_) if terms.cover(Call::SyncDir, What::Names) == Cover::Everything => {
                    false
                }
                _ => continue,
            };
            let (Some(begun), Some(ended)) = (log.times.begun.get(op), log.times.ended.get(op))
            else {
                continue;
            };
            let before = |log: &TaskLog| log.times.ended.partition_point(|t| t < begun);
            syncs.push(SyncAll {
                task,
                op,
                ended: *ended,
                covers: logs.iter().map(before).collect(),
                content,
            });
        }
    }
    syncs.sort_by_key(|s| (s.ended, s.task));
    syncs
}

/// Reports names that fit no legal state, and how much of what was promised is gone.
fn names_are_lost(task: &Replay, found: &FoundView, out: &mut Findings) {
    if task.names_by == NamesBy::TreeLog {
        let words = tree_log::judged(task, found).err().unwrap_or_default();
        out.words.push(format!("O1: {}", words.join("; ")));
        return;
    }
    let made = &task.log.made;
    let from = task.legal_from();
    let distance = |legal: &&Legal| legal.mismatches(found, made).len();
    let Some(nearest) = task.legal().iter().rev().min_by_key(distance) else {
        out.words.push("O1: no legal state is known".into());
        return;
    };
    let mut words = nearest.mismatches(found, made);
    if words.is_empty() && task.names_by == NamesBy::RollForward {
        words = roll_forward::lacking(task, nearest, found, made);
    }
    out.words.push(format!(
        "O1: the names are those of no prefix between {} and {} operations on names; nearest is {}: {}",
        task.promised,
        task.state.count,
        nearest.count,
        words.join("; ")
    ));
    let promised = &task.views[from];
    let older = task.views[..from]
        .iter()
        .rev()
        .find(|l| l.fits(found, made));
    match older {
        Some(older) => {
            out.held = older.op;
            out.loss.acked_ops = promised.count - older.count;
            out.loss.ops = task.ended.saturating_sub(older.count);
        }
        None => {
            out.loss.acked_ops = promised.mismatches(found, made).len().min(promised.count);
            out.loss.ops = words.len().min(task.ended);
        }
    }
    let gone = promised.view.iter().filter(|(path, e)| {
        e.kind == FileKind::File && found.get(*path).is_none_or(|f| f.kind != FileKind::File)
    });
    let bytes = gone.filter_map(|(_, e)| task.state.contents.get(&e.id));
    out.loss.acked_bytes = bytes.map(Content::acked_size).sum();
}

impl Oracle for FileOracle {
    fn advance(&mut self, at: Time) {
        let progress: Vec<Progress> = self.tasks.iter().map(|t| t.log.progress(at)).collect();
        self.advance_to(&progress);
        self.at = at;
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
        self.judge_found(vfs, judgement);
    }

    fn timeline(&self) -> Vec<Told> {
        let tasks = self.tasks.iter().enumerate();
        let lines = tasks.flat_map(|(n, task)| {
            let (ops, times) = (&task.log.ops, &task.log.times);
            let begun = times.begun.iter().zip(ops).enumerate();
            begun.map(move |(i, (begun, op))| Told {
                begun: *begun,
                ended: times.ended.get(i).copied(),
                what: format!("task {n}: {op}"),
            })
        });
        lines.collect()
    }

    fn story(&self) -> Vec<String> {
        let tasks = self.tasks.iter().enumerate().take(self.running);
        let lines = tasks.flat_map(|(n, task)| {
            let begun = &task.log.ops[..task.at.begun];
            begun.iter().enumerate().map(move |(i, op)| {
                let effect = &task.done[i];
                let changes = effect.names || effect.content.is_some();
                let state = match (i < task.at.ended, changes) {
                    (false, _) => "under way",
                    (true, false) => "done",
                    (true, true) if task.is_promised(i + 1) => "done, promised",
                    (true, true) => "done, not promised",
                };
                format!("task {n}: {op} ({state})")
            })
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests;
