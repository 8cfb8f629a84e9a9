//! Recovery of one remainder, and whether it keeps the promises.

use super::device::{Disk, Volume};
use super::model::{State, View};
use super::run::{Cut, Progress, TaskLog};
use super::stamp::{self, FileId};
use super::{CrashConfig, Opinion};
use crate::RunError;
use crate::cuts::{Tree, differences, walk};
use crate::fsck::{self, Verdict};
use base::{Ino, SECTOR_BYTES};
use rig::{Data, Mounted};
use rt::Sim;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use vfs::{Errno, FileKind, FsError, FsResult, OpenFlags, Vfs};

/// What was found of one cut.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Judgement {
    /// Violated rules, each with its number and what was found. Empty: all is well.
    pub violations: Vec<String>,
    /// Operations on names that had ended and are lost, of all tasks. Legal where no sync covers them.
    pub lost_ops: usize,
    /// Bytes that had been written and are lost, of all tasks. Legal where no sync covers them.
    pub lost_bytes: u64,
    /// Outside checkers that were asked for and not there.
    pub unchecked: bool,
    /// How often the guard of each mutant was reached.
    pub reached: rt::Reached,
}

/// Follows the tasks from cut to cut.
pub struct Judge<'a> {
    config: &'a CrashConfig,
    volume: &'a Volume,
    tasks: Vec<Replay<'a>>,
}

/// One task, operation by operation.
struct Replay<'a> {
    log: &'a TaskLog,
    state: State,
    at: Progress,
    /// Operations on names that are promised.
    promised: usize,
    /// Operations on names that had ended.
    ended: usize,
    /// The directory after each number of operations on names, from the promised one on.
    views: VecDeque<(usize, View)>,
}

impl<'a> Replay<'a> {
    fn new(task: usize, log: &'a TaskLog) -> Replay<'a> {
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

impl<'a> Judge<'a> {
    /// A judge of the cuts of one run, which come by ascending time.
    pub fn new(config: &'a CrashConfig, volume: &'a Volume, logs: &'a [TaskLog]) -> Judge<'a> {
        let tasks = logs.iter().enumerate();
        Judge {
            config,
            volume,
            tasks: tasks.map(|(n, log)| Replay::new(n, log)).collect(),
        }
    }

    /// Recovers the remainder of `cut` and judges it.
    ///
    /// # Errors
    /// Something that is no property of the remainder failed, e.g. writing an image file.
    pub fn judge(&mut self, cut: &Cut, opinion: Opinion<'_>) -> Result<Judgement, RunError> {
        for (task, progress) in self.tasks.iter_mut().zip(&cut.progress) {
            task.advance(*progress);
        }
        let seed = self.config.seed;
        let disk = self.volume.attach(&cut.remains, seed)?;
        let mut judgement = Judgement::default();
        let mut tree = None;
        let life = self.life(disk.clone(), |mounted| {
            if opinion.wants_tree() {
                tree = Some(walk(&mounted.vfs)?);
            }
            for (number, task) in self.tasks.iter().enumerate().take(cut.progress.len()) {
                self.task(&mounted.vfs, number, task, &mut judgement);
            }
            epilogue(&mounted.vfs)?;
            mounted.fs.check();
            Ok(())
        });
        judgement.reached = life.1;
        if let Err(why) = life.0 {
            judgement.violations.push(format!("R1: recovery: {why}"));
            return Ok(judgement);
        }
        self.second_opinions(cut, &disk, tree, opinion, &mut judgement)?;
        Ok(judgement)
    }

    /// Mounts, runs `body`, unmounts, in a simulation of its own.
    fn life(
        &self,
        disk: Disk,
        body: impl FnOnce(&Mounted) -> Result<(), RunError>,
    ) -> (Result<(), String>, rt::Reached) {
        let config = self.config;
        let mut sim = config.sim(config.seed);
        sim.policy = rt::Policy::Fifo;
        sim.quiet = true;
        let outcome = Sim::new(sim).run(|| {
            let options = config.mount_options();
            let mounted = Mounted::on(disk.device(), options, vfs::WritebackPolicy::off())?;
            let outcome = body(&mounted).and_then(|()| Ok(mounted.unmount()?));
            if outcome.is_err() {
                disk.power_off();
                rt::power_cut();
            }
            outcome
        });
        let value = match (outcome.first_failure, outcome.value) {
            (_, Some(Err(e))) => Err(e.to_string()),
            (Some(failure), _) => Err(failure.to_string()),
            (None, Some(Ok(()))) => Ok(()),
            (None, None) => Err("no value".into()),
        };
        (value, outcome.reached)
    }

    fn task(&self, vfs: &Arc<Vfs>, number: usize, task: &Replay<'_>, judgement: &mut Judgement) {
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
        let garbles = self.config.stack.data != Data::Journal;
        let mut lost = (content.size * SECTOR_BYTES as u64).saturating_sub(data.len() as u64);
        for (sector, bytes) in (0..).zip(data.chunks(SECTOR_BYTES)) {
            let found = stamp::read(bytes);
            content.judge_sector(id, sector, found, garbles)?;
            if !content.is_newest(sector, found) {
                lost += SECTOR_BYTES as u64;
            }
        }
        Ok(lost)
    }

    fn second_opinions(
        &self,
        cut: &Cut,
        recovered: &Disk,
        tree: Option<Tree>,
        opinion: Opinion<'_>,
        judgement: &mut Judgement,
    ) -> Result<(), RunError> {
        let host = |source| RunError::Host {
            doing: "running e2fsck".into(),
            source,
        };
        let bytes = self.config.stack.bytes;
        if let Some(folder) = opinion.folder() {
            let ours = folder.join("recovered");
            recovered.write_image(bytes, &ours)?;
            match fsck::e2fsck_check(&ours).map_err(host)? {
                Verdict::Clean => {}
                Verdict::NotInstalled => judgement.unchecked = true,
                Verdict::Repaired(words) | Verdict::Findings(words) => judgement
                    .violations
                    .push(format!("R2: e2fsck -fn after recovery: {words}")),
            }
        }
        let (Opinion::Replay(folder), Some(ours)) = (opinion, tree) else {
            return Ok(());
        };
        let path = folder.join("replayed");
        self.volume
            .attach(&cut.remains, 0)?
            .write_image(bytes, &path)?;
        match fsck::e2fsck_repair(&path).map_err(host)? {
            Verdict::NotInstalled => judgement.unchecked = true,
            Verdict::Findings(words) => judgement
                .violations
                .push(format!("R3: e2fsck -fy gives up: {words}")),
            Verdict::Clean | Verdict::Repaired(_) => match self.tree_of(&path) {
                Ok(theirs) => judgement.violations.extend(differences(&ours, &theirs)),
                Err(why) => judgement
                    .violations
                    .push(format!("R3: what e2fsck leaves cannot be read: {why}")),
            },
        }
        Ok(())
    }

    fn tree_of(&self, image: &Path) -> Result<Tree, String> {
        let disk = self.volume.load(image).map_err(|e| e.to_string())?;
        let mut tree = Tree::new();
        let life = self.life(disk, |mounted| {
            tree = walk(&mounted.vfs)?;
            Ok(())
        });
        life.0.map(|()| tree)
    }
}

/// The nearest legal state, and what differs from it.
fn closest(task: &Replay<'_>, found: &FoundView) -> String {
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

/// The volume is of use after recovery: something new can be made, synced and removed.
fn epilogue(vfs: &Arc<Vfs>) -> FsResult<()> {
    let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
    let file = vfs.open("/after the cut", flags, 0o600)?;
    let written = file
        .write_at(0, &[0x5A; 3 * 4096])
        .and_then(|_| file.fsync());
    file.close()?;
    written?;
    vfs.unlink("/after the cut")
}
