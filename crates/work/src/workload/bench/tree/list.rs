//! Operation lists: what a command asks of its files, step by step. A list is data, so that it can
//! be run by several tasks, and so that what it should leave is computed from the list itself.

use crate::RunError;
use crate::workload::bench::pattern;
use crate::workload::{Done, Told};
use base::Nanos;
use rt::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use vfs::{Errno, File, FileKind, OpenFlags, RenameMode, TimeSet, Vfs};

/// Bytes of content that are generated at a time.
const BUFFER: u64 = 1 << 20;

/// One step: some system calls that belong together. Its content is named by a number
/// ([`pattern`]), and its chunks are whole blocks of 4 KiB.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// `mkdir`.
    Mkdir(String),
    /// `open`, `getdents`, `close`.
    ReadDir(String),
    /// `lstat` of a path that exists.
    Lstat(String),
    /// `lstat` of a path that does not exist.
    Missing(String),
    /// `open`, `fstat`, `read` to the end, `close`.
    Read {
        /// Path of the file.
        path: String,
        /// Bytes of a `read`.
        chunk: u32,
    },
    /// `open` of a new file, `write`, `fstat`, `close`.
    Write {
        /// Path of the new file.
        path: String,
        /// Number of its content.
        id: u64,
        /// Its size in bytes.
        bytes: u64,
        /// Bytes of a `write`.
        chunk: u32,
        /// fsync precedes the close.
        sync: bool,
    },
    /// Copies as `cp` does: `lstat`, `open` and `fstat` of both files, `read` and `write`, `close`
    /// of both.
    Copy {
        /// Path of the source.
        from: String,
        /// Path of the copy, a new file.
        to: String,
        /// Bytes of a `read` and `write`.
        chunk: u32,
        /// Times and mode are kept, as by `cp -a`.
        preserve: bool,
    },
    /// `rename`, which replaces what had the new name.
    Rename {
        /// Old name.
        from: String,
        /// New name.
        to: String,
    },
    /// `unlink`.
    Unlink(String),
    /// `chmod`.
    Chmod(String, u16),
    /// `utimensat` with the times of another file.
    Utimes(String),
    /// CPU time of the program itself.
    Cpu(Nanos),
}

/// Steps that are told as one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// The kind of the operation in results.
    pub kind: &'static str,
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// Tasks that may run beside each other; a list is stages that run one after the other.
pub type Stage = Vec<Task>;

/// The step that makes a file and writes it by whole buffers of `chunk` bytes, without a sync.
pub fn write(path: impl Into<String>, id: u64, bytes: u64, chunk: u32) -> Step {
    Step::Write {
        path: path.into(),
        id,
        bytes,
        chunk,
        sync: false,
    }
}

/// Runs one step.
///
/// # Errors
/// The file system fails, or a path of [`Step::Missing`] exists.
pub fn run(vfs: &Arc<Vfs>, step: &Step) -> Result<(), RunError> {
    match step {
        Step::Mkdir(path) => vfs.mkdir(path, 0o755).map(drop)?,
        Step::ReadDir(path) => vfs.readdir(path).map(drop)?,
        Step::Lstat(path) => vfs.lstat(path).map(drop)?,
        Step::Missing(path) => missing(vfs, path)?,
        Step::Read { path, chunk } => with(vfs, path, OpenFlags::READ, |file| read(file, *chunk))?,
        Step::Write {
            path,
            id,
            bytes,
            chunk,
            sync,
        } => {
            let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCL;
            with(vfs, path, flags, |file| {
                write_new(file, *id, *bytes, *chunk)?;
                if *sync {
                    file.fsync()?;
                }
                Ok(())
            })?;
        }
        Step::Copy {
            from,
            to,
            chunk,
            preserve,
        } => copy(vfs, (from, to), *chunk, *preserve)?,
        Step::Rename { from, to } => vfs.rename(from, to, RenameMode::Replace)?,
        Step::Unlink(path) => vfs.unlink(path)?,
        Step::Chmod(path, perm) => vfs.chmod(path, *perm)?,
        Step::Utimes(path) => {
            let time = Some(TimeSet::To(rt::WallTime {
                secs: 1_600_000_000,
                nanos: 0,
            }));
            vfs.utimes(path, time, time)?;
        }
        Step::Cpu(span) => rt::charge(*span),
    }
    Ok(())
}

fn missing(vfs: &Vfs, path: &str) -> Result<(), RunError> {
    match vfs.lstat(path) {
        Err(e) if e.errno() == Errno::NoEnt => Ok(()),
        Err(e) => Err(e.into()),
        Ok(_) => Err(RunError::Check(format!("{path} is there already"))),
    }
}

/// Opens a file, calls `work`, and closes the file whatever `work` returned.
fn with(
    vfs: &Arc<Vfs>,
    path: &str,
    flags: OpenFlags,
    work: impl FnOnce(&File) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let file = vfs.open(path, flags, 0o644)?;
    let worked = work(&file);
    let closed = file.close();
    worked?;
    Ok(closed?)
}

fn read(file: &File, chunk: u32) -> Result<(), RunError> {
    let size = file.stat()?.size;
    let mut buffer = vec![0; u64::from(chunk).min(size.max(1)) as usize];
    let mut at = 0;
    while at < size {
        match file.read_at(at, &mut buffer)? {
            0 => break,
            n => at += n as u64,
        }
    }
    Ok(())
}

fn write_new(file: &File, id: u64, bytes: u64, chunk: u32) -> Result<(), RunError> {
    let mut at = 0;
    while at < bytes {
        let most = pattern(id, at, (bytes - at).min(BUFFER.max(chunk.into())));
        for part in most.chunks(chunk as usize) {
            put(file, at, part)?;
            at += part.len() as u64;
        }
    }
    file.stat()?;
    Ok(())
}

fn put(file: &File, at: u64, part: &[u8]) -> Result<(), RunError> {
    match file.write_at(at, part)? {
        n if n == part.len() => Ok(()),
        n => Err(RunError::Check(format!(
            "a write of {} bytes wrote {n}: the volume is full",
            part.len()
        ))),
    }
}

fn copy(
    vfs: &Arc<Vfs>,
    (from, to): (&str, &str),
    chunk: u32,
    preserve: bool,
) -> Result<(), RunError> {
    let attr = vfs.lstat(from)?;
    let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCL;
    with(vfs, from, OpenFlags::READ, |source| {
        with(vfs, to, flags, |target| {
            let size = source.stat()?.size;
            target.stat()?;
            let mut buffer = vec![0; u64::from(chunk).min(size.max(1)) as usize];
            let mut at = 0;
            while at < size {
                let n = source.read_at(at, &mut buffer)?;
                if n == 0 {
                    break;
                }
                put(target, at, &buffer[..n])?;
                at += n as u64;
            }
            Ok(())
        })
    })?;
    if preserve {
        let times = (TimeSet::To(attr.atime), TimeSet::To(attr.mtime));
        vfs.utimes(to, Some(times.0), Some(times.1))?;
        vfs.chmod(to, attr.perm)?;
    }
    Ok(())
}

/// Runs the tasks of a stage, taken in order by `processes` of ours; `done` is told of each.
///
/// # Errors
/// The first step that fails.
pub fn run_stage(
    vfs: &Arc<Vfs>,
    stage: Stage,
    processes: u32,
    done: &mut Done<'_>,
) -> Result<(), RunError> {
    let one = |task: &Task| {
        let start = rt::now();
        task.steps.iter().try_for_each(|step| run(vfs, step))?;
        Ok::<_, RunError>(rt::now() - start)
    };
    if processes == 1 || stage.len() == 1 {
        return stage.iter().try_for_each(|task| {
            let took = one(task)?;
            done(Told::now(task.kind, took));
            Ok(())
        });
    }
    const CHANNEL: usize = 256;
    let left = Mutex::named("tree tasks", VecDeque::from(stage));
    let failed: Mutex<Option<RunError>> = Mutex::named("tree failure", None);
    let (told, tell) = rt::channel_named("tree results", CHANNEL);
    rt::scope(|scope| {
        for n in 0..processes {
            let (told, left, failed) = (told.clone(), &left, &failed);
            scope.spawn(&format!("tree {n}"), move || {
                loop {
                    // This is a statement of its own, so that the lock is not held during the task.
                    let next = left.lock().pop_front();
                    let Some(task) = next else {
                        return;
                    };
                    match one(&task) {
                        // The receiver outlives this task.
                        Ok(took) => drop(told.send(Told::now(task.kind, took))),
                        Err(e) => {
                            failed.lock().get_or_insert(e);
                            left.lock().clear();
                        }
                    }
                }
            });
        }
        drop(told);
        tell.iter().for_each(done);
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// What lists leave behind: directories, and files with number and size of their content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    dirs: BTreeSet<String>,
    files: BTreeMap<String, (u64, u64)>,
}

impl Wanted {
    /// Takes one more step into account.
    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Mkdir(path) => drop(self.dirs.insert(path.clone())),
            Step::Write {
                path, id, bytes, ..
            } => drop(self.files.insert(path.clone(), (*id, *bytes))),
            Step::Copy { from, to, .. } => {
                if let Some(&content) = self.files.get(from) {
                    self.files.insert(to.clone(), content);
                }
            }
            Step::Rename { from, to } => {
                if let Some(content) = self.files.remove(from) {
                    self.files.insert(to.clone(), content);
                }
            }
            Step::Unlink(path) => drop(self.files.remove(path)),
            Step::ReadDir(_)
            | Step::Lstat(_)
            | Step::Missing(_)
            | Step::Read { .. }
            | Step::Chmod(..)
            | Step::Utimes(_)
            | Step::Cpu(_) => {}
        }
    }

    /// Takes all steps of these stages into account.
    pub fn apply_all(&mut self, stages: &[Stage]) {
        let steps = stages.iter().flatten().flat_map(|task| &task.steps);
        steps.for_each(|step| self.apply(step));
    }

    /// Compares names, sizes and content with what is there.
    ///
    /// # Errors
    /// The first difference, or an error of the file system.
    pub fn check(&self, vfs: &Arc<Vfs>) -> Result<(), RunError> {
        let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        self.dirs.iter().for_each(|dir| {
            names.entry(dir).or_default();
        });
        for path in self.dirs.iter().chain(self.files.keys()) {
            let (dir, name) = path.rsplit_once('/').expect("paths begin with a slash");
            if let Some(names) = names.get_mut(dir) {
                names.insert(name);
            }
        }
        for (dir, wanted) in names {
            let entries = vfs.readdir(dir)?;
            let found = entries
                .iter()
                .filter_map(|e| std::str::from_utf8(&e.name).ok());
            let found: BTreeSet<&str> = found.filter(|n| !matches!(*n, "." | "..")).collect();
            if let Some(name) = found.symmetric_difference(&wanted).next() {
                let what = if wanted.contains(name) {
                    "is not there"
                } else {
                    "should not be there"
                };
                return Err(RunError::Check(format!("{dir}/{name} {what}")));
            }
        }
        self.files
            .iter()
            .try_for_each(|(path, &(id, bytes))| same(vfs, path, id, bytes))
    }
}

fn same(vfs: &Arc<Vfs>, path: &str, id: u64, bytes: u64) -> Result<(), RunError> {
    let wrong = |what: String| Err(RunError::Check(format!("{path} {what}")));
    let attr = vfs.lstat(path)?;
    if attr.kind != FileKind::File || attr.size != bytes {
        return wrong(format!(
            "is a {:?} of {} bytes, not a file of {bytes}",
            attr.kind, attr.size
        ));
    }
    with(vfs, path, OpenFlags::READ, |file| {
        for at in (0..bytes).step_by(BUFFER as usize) {
            let wanted = pattern(id, at, (bytes - at).min(BUFFER));
            let mut found = vec![0; wanted.len()];
            let length = file.read_at(at, &mut found)?;
            if length != wanted.len() || found != wanted {
                return wrong("has other content than was written".into());
            }
        }
        Ok(())
    })
}
