//! A folder of results, each under the id of its job.
//!
//! Many processes on many hosts may share it without locks: a result is written beside its place,
//! made durable and renamed, so a reader finds all of it or nothing. Two that make the same result
//! write the same bytes, and either may win. No clock decides anything, so clocks may differ.
//!
//! ```text
//! results/ab/ab12..      the result of a job: a line that says what follows, then its text
//! again/ab/ab12..        the same, of its second run
//! packed/5c..            many results in one file ([`pack`]): those that took milliseconds
//! attempts/ab/ab12...X   a run that gave no result, with the reason; `.forgiven` behind it: it
//!                        does not count any longer
//! plans/..               plans, where the Python package keeps them
//! profiles/ab12..        the profiles that a plan carries, for its workers
//! programs/ab12..        the program that tasks of a cluster run
//! damaged/ab12...X       what was found in a place of a result, or of a pack, and was none
//! ```
//!
//! A sync costs as much as a job of milliseconds, so results wait up to a second for others; what
//! comes alone gets a file of its own. Until then they are in memory, and a process that is killed
//! loses them.

mod deflate;
pub mod pack;
mod shared;

pub use pack::Id;

use serde::{Deserialize, Serialize};
use shared::{Known, Waiting};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// Version of the first line of a result.
const VERSION: u32 = 1;
/// How names of files begin that are being written.
const PART: &str = ".part-";
/// How names of notes of attempts end that do not count any longer.
const FORGIVEN: &str = ".forgiven";
/// The folder of packs in the layout before this one.
const FORMER_PACKS: &str = "packs";

/// Which run of a job a result is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// The one that is merged.
    First,
    /// The one that it is compared with.
    Second,
}

impl Run {
    /// The folder of such results.
    pub fn folder(self) -> &'static str {
        match self {
            Run::First => "results",
            Run::Second => "again",
        }
    }
}

/// A result as it is kept.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// Who made it.
    pub by: By,
    /// The text of the result.
    pub text: String,
}

/// Who made a result, and what that cost. It is not part of the result, so two that differ in it
/// alone are equal.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct By {
    /// Host and process.
    pub worker: String,
    /// Seconds that the run took.
    pub seconds: f64,
}

/// The first line of a result.
#[derive(Serialize, Deserialize)]
struct Head {
    varve_result: u32,
    id: String,
    bytes: usize,
    sum: String,
    #[serde(flatten)]
    by: By,
}

/// A run that gave no result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// Why.
    pub why: String,
    /// Who tried, and for how long.
    #[serde(flatten)]
    pub by: By,
}

/// What is wrong with the store.
#[derive(Debug)]
pub enum StoreError {
    /// The host refuses; nothing half-written is in a place of a result.
    Host {
        /// The file or folder.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
    /// A file in the place of a result is none.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Results are there in the layout of another varve.
    Version {
        /// The file or folder.
        path: PathBuf,
        /// The version of the layout.
        version: u32,
    },
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreError::Host { path, error } => {
                write!(f, "store: {}: {error}", path.display())?;
                match error.kind() {
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded => write!(
                        f,
                        "; what was complete is kept: make room, then begin the same command again"
                    ),
                    _ => Ok(()),
                }
            }
            StoreError::Damaged { path, why } => {
                write!(f, "store: {} is no whole result: {why}", path.display())
            }
            StoreError::Version { path, version } => write!(
                f,
                "store: {} has results in layout {version} of another version of varve, which this program does not read; its own results would be others anyway: name another folder",
                path.display()
            ),
        }
    }
}

/// A folder of results.
pub struct Store {
    dir: PathBuf,
    /// Folders with names that are not durable yet.
    unsettled: Mutex<BTreeSet<PathBuf>>,
    packs: Mutex<Known>,
    waiting: Mutex<Waiting>,
}

impl Store {
    /// The store in this folder, made where there is none.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn open(dir: &Path) -> Result<Store, StoreError> {
        let store = Store::of(dir);
        store.of_this_layout()?;
        let folders = [
            Run::First.folder(),
            Run::Second.folder(),
            "attempts",
            pack::FOLDER,
        ];
        for folder in folders {
            let path = dir.join(folder);
            fs::create_dir_all(&path).map_err(at(&path))?;
        }
        tempfile::tempfile_in(dir).map_err(at(dir))?;
        Ok(store)
    }

    /// The store in this folder, which has to be there; nothing is written to it.
    ///
    /// # Errors
    /// There is none.
    pub fn existing(dir: &Path) -> Result<Store, StoreError> {
        let results = dir.join(Run::First.folder());
        let store = Store::of(dir);
        store.of_this_layout()?;
        match results.is_dir() {
            true => Ok(store),
            false => Err(StoreError::Host {
                path: results,
                error: io::Error::new(ErrorKind::NotFound, "there is no store"),
            }),
        }
    }

    /// Refuses a store with packs of the layout before this one. They lay in a folder of another
    /// name, so that a program which knows only them does not take ours for damaged.
    fn of_this_layout(&self) -> Result<(), StoreError> {
        let path = self.dir.join(FORMER_PACKS);
        match names(&path)?.is_empty() {
            true => Ok(()),
            false => Err(StoreError::Version { path, version: 1 }),
        }
    }

    fn of(dir: &Path) -> Store {
        Store {
            dir: dir.into(),
            unsettled: Mutex::default(),
            packs: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    /// Where a result is, or will be.
    pub fn path(&self, id: &str, run: Run) -> PathBuf {
        let group = id.get(..2).unwrap_or("xx");
        self.dir.join(run.folder()).join(group).join(id)
    }

    /// The result of a job; `None` where there is none.
    ///
    /// # Errors
    /// The host refuses, or what is there is no whole result of this job.
    pub fn get(&self, id: &str, run: Run) -> Result<Option<Kept>, StoreError> {
        let path = self.path(id, run);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(at(&path)(e)),
            Err(_) if run == Run::First => return self.waiting_or_packed(id),
            Err(_) => return Ok(None),
        };
        let kept = read(&bytes, id).map_err(|why| StoreError::Damaged { path, why })?;
        Ok(Some(kept))
    }

    /// Every whole copy of the result of a first run, with the file that it is in.
    ///
    /// # Errors
    /// The host refuses.
    pub fn copies(&self, id: &str) -> Result<Vec<(Kept, PathBuf)>, StoreError> {
        let path = self.path(id, Run::First);
        let mut found = self.packed_copies(id, path.exists())?;
        if found.is_empty() {
            return Ok(found);
        }
        match fs::read(&path) {
            Ok(bytes) => found.extend(read(&bytes, id).ok().map(|kept| (kept, path))),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(at(&path)(e)),
        }
        Ok(found)
    }

    /// The file that the result of a job is in.
    ///
    /// # Errors
    /// The host refuses.
    pub fn place(&self, id: &str, run: Run) -> Result<PathBuf, StoreError> {
        let path = self.path(id, run);
        if run == Run::Second || path.exists() {
            return Ok(path);
        }
        Ok(self.pack_of(id).unwrap_or(path))
    }

    /// Keeps a result. Its bytes are durable when this returns, its name is after
    /// [`settle`](Self::settle): a host that stops before leaves a missing result, never half of
    /// one.
    ///
    /// # Errors
    /// The host refuses, as on a full disk; then the place is as it was.
    pub fn put(&self, id: &str, run: Run, by: &By, text: &str) -> Result<(), StoreError> {
        self.put_bytes(&self.path(id, run), &written(id, by, text))
    }

    fn put_bytes(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let part = self.part(path, bytes)?;
        part.persist(path).map_err(|e| at(path)(e.error))?;
        self.named(path);
        Ok(())
    }

    /// Keeps the profiles of a plan, under a name of their content: the file.
    ///
    /// # Errors
    /// The host refuses.
    pub fn put_profiles(&self, text: &str) -> Result<PathBuf, StoreError> {
        let name = &sum(text.as_bytes())[..32];
        let path = self.dir.join("profiles").join(name);
        self.put_bytes(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Keeps the program that runs, under its identity: the file. One that is there is taken if it
    /// has the same bytes: others may write to the store, and tasks of a cluster run the file.
    ///
    /// # Errors
    /// The host refuses.
    pub fn put_program(&self, build: &str) -> Result<PathBuf, StoreError> {
        let path = self.dir.join("programs").join(build);
        let own = Path::new("/proc/self/exe");
        let program = fs::read(own).map_err(at(own))?;
        if fs::read(&path).is_ok_and(|there| there == program) {
            return Ok(path);
        }
        let part = self.part(&path, &program)?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        let set = part.as_file().set_permissions(mode);
        set.map_err(at(&path))?;
        part.persist(&path).map_err(|e| at(&path)(e.error))?;
        self.named(&path);
        self.settle()?;
        Ok(path)
    }

    fn named(&self, path: &Path) {
        let folder = path.parent().unwrap_or(&self.dir);
        let mut unsettled = locked(&self.unsettled);
        unsettled.insert(folder.into());
        // The folder itself may be new.
        unsettled.extend(folder.parent().map(PathBuf::from));
    }

    /// Puts aside what is in the place of a result and is none, so that the job is run again.
    ///
    /// # Errors
    /// The host refuses.
    pub fn put_aside(&self, id: &str, run: Run) -> Result<(), StoreError> {
        let path = self.path(id, run);
        let packed = match run == Run::First && !path.exists() {
            true => self.pack_of(id),
            false => None,
        };
        match packed {
            Some(pack) => self.put_pack_aside(&pack),
            None => self.rename_aside(&path, id),
        }
    }

    fn rename_aside(&self, from: &Path, name: &str) -> Result<(), StoreError> {
        let folder = self.dir.join("damaged");
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let place = tempfile::Builder::new()
            .prefix(&format!("{name}."))
            .tempfile_in(&folder)
            .map_err(at(&folder))?;
        let (_, to) = place.keep().map_err(|e| at(&folder)(e.error))?;
        match fs::rename(from, &to) {
            // Another worker was first.
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            renamed => renamed.map_err(at(from)),
        }
    }

    /// Notes a run that gave no result.
    ///
    /// # Errors
    /// The host refuses.
    pub fn note(&self, id: &str, attempt: &Attempt) -> Result<(), StoreError> {
        let folder = self.attempts_of(id);
        let text = serde_json::to_string(attempt).expect("plain data serialises");
        let part = self.part(&folder.join(id), text.as_bytes())?;
        let name = part.path().file_name().unwrap_or_default();
        // The name of the part is random, so two workers never meet.
        let name = name.to_string_lossy().replacen(PART, "", 1);
        let path = folder.join(format!("{id}.{name}"));
        part.persist(&path).map_err(|e| at(&path)(e.error))?;
        self.named(&path);
        Ok(())
    }

    /// The runs of a job that gave no result, since it was [forgiven](Self::forgive).
    ///
    /// # Errors
    /// The host refuses.
    pub fn attempts(&self, id: &str) -> Result<Vec<Attempt>, StoreError> {
        let names = names(&self.attempts_of(id))?;
        // Another copy of the store may have brought the note back under its old name.
        let forgiven = |name: &str| {
            let forgiven = format!("{name}{FORGIVEN}");
            name.ends_with(FORGIVEN) || names.binary_search(&forgiven).is_ok()
        };
        self.read_notes(id, names.iter().filter(|name| !forgiven(name)))
    }

    /// The same with those that were forgiven: what they cost stays spent.
    ///
    /// # Errors
    /// The host refuses.
    pub fn all_attempts(&self, id: &str) -> Result<Vec<Attempt>, StoreError> {
        self.read_notes(id, names(&self.attempts_of(id))?.iter())
    }

    fn read_notes<'a>(
        &self,
        id: &str,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<Vec<Attempt>, StoreError> {
        let mut attempts = Vec::new();
        for name in names {
            if name.split_once('.').is_some_and(|(of, _)| of == id) {
                let path = self.attempts_of(id).join(name);
                let text = fs::read_to_string(&path).map_err(at(&path))?;
                // One that cannot be read still was an attempt.
                attempts.push(serde_json::from_str(&text).unwrap_or(Attempt {
                    why: "the note of this attempt cannot be read".into(),
                    by: By::default(),
                }));
            }
        }
        Ok(attempts)
    }

    /// Counts the runs of a job that gave no result no longer, so that it is tried again. They stay
    /// noted, because a job that was retried runs twice.
    ///
    /// # Errors
    /// The host refuses.
    pub fn forgive(&self, id: &str) -> Result<(), StoreError> {
        let folder = self.attempts_of(id);
        for name in names(&folder)? {
            let of_job = name.split_once('.').is_some_and(|(of, _)| of == id);
            if of_job && !name.ends_with(FORGIVEN) {
                let path = folder.join(&name);
                match fs::rename(&path, folder.join(format!("{name}{FORGIVEN}"))) {
                    // Another worker was first.
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    renamed => renamed.map_err(at(&path))?,
                }
            }
        }
        Ok(())
    }

    /// The ids that have a result, whole or not.
    ///
    /// # Errors
    /// The host refuses.
    pub fn present(&self, run: Run) -> Result<BTreeSet<Id>, StoreError> {
        let files = self.ids(run.folder())?;
        let mut present: BTreeSet<Id> = files.iter().map(|id| Id::of(id)).collect();
        if run == Run::First {
            let mut known = locked(&self.packs);
            self.look(&mut known)?;
            present.extend(known.packs.ids());
        }
        Ok(present)
    }

    /// The ids that have an attempt without a result.
    ///
    /// # Errors
    /// The host refuses.
    pub fn attempted(&self) -> Result<BTreeSet<String>, StoreError> {
        self.ids("attempts")
    }

    fn ids(&self, folder: &str) -> Result<BTreeSet<String>, StoreError> {
        let folder = self.dir.join(folder);
        let mut ids = BTreeSet::new();
        for group in names(&folder)? {
            let files = names(&folder.join(group))?;
            let id = |name: String| name.split('.').next().unwrap_or_default().to_string();
            ids.extend(files.into_iter().map(id));
        }
        Ok(ids)
    }

    fn attempts_of(&self, id: &str) -> PathBuf {
        self.dir.join("attempts").join(id.get(..2).unwrap_or("xx"))
    }

    /// A durable file beside `path`, which is renamed to it next.
    fn part(&self, path: &Path, bytes: &[u8]) -> Result<NamedTempFile, StoreError> {
        let folder = path.parent().unwrap_or(&self.dir);
        let mut builder = tempfile::Builder::new();
        // Others read it, too: a store is shared.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        builder.prefix(PART).permissions(mode);
        let part = match builder.tempfile_in(folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(folder).map_err(at(folder))?;
                builder.tempfile_in(folder)
            }
            part => part,
        };
        let mut part = part.map_err(at(folder))?;
        part.write_all(bytes).map_err(at(path))?;
        part.as_file().sync_all().map_err(at(path))?;
        Ok(part)
    }
}

/// The bytes of a file of a result.
fn written(id: &str, by: &By, text: &str) -> Vec<u8> {
    let head = Head {
        varve_result: VERSION,
        id: id.into(),
        bytes: text.len(),
        sum: sum(text.as_bytes()),
        by: by.clone(),
    };
    let mut bytes = serde_json::to_vec(&head).expect("plain data serialises");
    bytes.push(b'\n');
    bytes.extend(text.as_bytes());
    bytes
}

/// A lock whose value is whole also where a thread panicked with it.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names in a folder that are not being written, in order; none where there is no folder.
fn names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(at(folder)(e)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(at(folder))?.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with('.') {
            names.push(name.into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The text of a result, if all of it is there.
fn read(bytes: &[u8], id: &str) -> Result<Kept, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no text".to_string())?;
    let (head, text) = text.split_once('\n').ok_or("its first line is cut off")?;
    let head: Head = serde_json::from_str(head).map_err(|e| format!("its first line: {e}"))?;
    if head.varve_result != VERSION {
        let version = head.varve_result;
        return Err(format!("it has version {version}, this program {VERSION}"));
    }
    if head.id != id {
        return Err(format!("it is the result of {}", head.id));
    }
    if head.bytes != text.len() {
        let there = text.len();
        return Err(format!("{there} of {} bytes are there", head.bytes));
    }
    if head.sum != sum(text.as_bytes()) {
        return Err("its checksum is wrong".into());
    }
    let text = text.to_string();
    Ok(Kept { by: head.by, text })
}

fn at(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |error| StoreError::Host {
        path: path.into(),
        error,
    }
}

/// The checksum of a text, in hexadecimal digits.
pub fn sum(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[cfg(test)]
mod tests;
