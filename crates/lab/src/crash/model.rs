//! What a task's directory holds after each of its operations, and what of it was promised.
//!
//! A task works alone in its directory, so its operations have one order. Rules that a remainder must keep:
//!
//! - O1 names: the directory is as it was after some prefix of the task's operations on names. The prefix contains every
//!   operation that a completed sync covers and none that had not begun. (So a rename is atomic.)
//! - O2 sync of a file covers the operations that touched its inode; fdatasync its creation and content; sync of a directory
//!   the operations in it; sync all.
//! - O3 content: each sector of a file is a version that the task wrote there, not older than the one that a completed sync
//!   covers; zeros only where none was covered or it was cut off since.
//! - O4 size: between the least and the greatest since the last completed sync of the file.
//! - O5 no sector holds another file's bytes, or what lay on the device before (H16, H18).
//! - O6 garbage only where the device may leave it: in a page that was rewritten in place since its last completed sync.

use super::ops::Op;
use super::stamp::{FileId, Found, Stamp};
use base::SECTORS_PER_BLOCK;
use std::collections::BTreeMap;
use vfs::FileKind;

/// One name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The inode, under the model's own number.
    pub id: FileId,
    /// Its kind.
    pub kind: FileKind,
    /// Permission bits; not kept for symbolic links.
    pub perm: u16,
    /// Where a symbolic link leads.
    pub target: String,
}

/// All names below a task's directory: path to what is there. `""` is the directory itself.
pub type View = BTreeMap<String, Entry>;

/// State after some operations.
#[derive(Clone, Debug)]
pub struct State {
    next_id: FileId,
    /// Names now.
    pub view: View,
    /// Operations on names so far.
    pub count: usize,
    /// The number (from 1) of the last operation on names that touched an inode.
    touched: BTreeMap<FileId, usize>,
    created: BTreeMap<FileId, usize>,
    /// What files hold, removed ones included.
    pub contents: BTreeMap<FileId, Content>,
}

/// Permission bits of new files and directories.
pub const FILE_PERM: u16 = 0o644;
/// See [`FILE_PERM`].
pub const DIR_PERM: u16 = 0o755;

impl State {
    /// Nothing, not even the task's directory. `task` makes inode numbers of different tasks different.
    pub fn new(task: usize) -> State {
        State {
            next_id: ((task as u64 + 1) << 32) + 1,
            view: View::new(),
            count: 0,
            touched: BTreeMap::new(),
            created: BTreeMap::new(),
            contents: BTreeMap::new(),
        }
    }

    /// Whether `op` is possible now.
    pub fn allows(&self, op: &Op) -> bool {
        let free = |path: &str| !self.view.contains_key(path) && self.is_dir(parent(path));
        match op {
            Op::Create(path) | Op::Symlink { to: path, .. } => free(path),
            Op::Mkdir(path) => free(path) || (path.is_empty() && self.view.is_empty()),
            Op::Write { path, .. }
            | Op::Truncate { path, .. }
            | Op::Fsync(path)
            | Op::Fdatasync(path)
            | Op::Hold(path) => self.is_file(path),
            Op::Link { from, to } => self.is_file(from) && free(to),
            Op::Unlink(path) => self.view.contains_key(path) && !self.is_dir(path),
            Op::Rmdir(path) => !path.is_empty() && self.is_dir(path) && self.is_empty(path),
            Op::Chmod { path, .. } => self.is_file(path) || self.is_dir(path),
            Op::SyncDir(path) => self.is_dir(path),
            Op::Rename { from, to } => self.allows_rename(from, to),
            Op::Sync | Op::Pause(_) => true,
        }
    }

    fn allows_rename(&self, from: &str, to: &str) -> bool {
        let (Some(source), true) = (self.view.get(from), self.is_dir(parent(to))) else {
            return false;
        };
        if from.is_empty() || to.is_empty() || from == to || to.starts_with(&format!("{from}/")) {
            return false;
        }
        match self.view.get(to) {
            None => true,
            Some(target) if target.id == source.id => false,
            Some(target) if source.kind == FileKind::Dir => {
                target.kind == FileKind::Dir && self.is_empty(to)
            }
            Some(target) => target.kind != FileKind::Dir,
        }
    }

    fn kind(&self, path: &str) -> Option<FileKind> {
        self.view.get(path).map(|e| e.kind)
    }
    fn is_file(&self, path: &str) -> bool {
        self.kind(path) == Some(FileKind::File)
    }
    fn is_dir(&self, path: &str) -> bool {
        self.kind(path) == Some(FileKind::Dir)
    }
    fn is_empty(&self, dir: &str) -> bool {
        let inside = format!("{dir}/");
        let next = self.view.range(inside.clone()..).next();
        !next.is_some_and(|(path, _)| path.starts_with(&inside))
    }
    fn id(&self, path: &str) -> FileId {
        self.view.get(path).map_or(0, |e| e.id)
    }

    /// Lets `op`, which must be allowed, begin. Answers the inode that it makes, if it makes one.
    pub fn apply(&mut self, op: &Op) -> Option<FileId> {
        match op {
            Op::Create(path) => Some(self.make(path, FileKind::File, "")),
            Op::Mkdir(path) => Some(self.make(path, FileKind::Dir, "")),
            Op::Symlink { target, to } => Some(self.make(to, FileKind::Symlink, target)),
            Op::Link { from, to } => {
                let entry = self.view[from].clone();
                self.touch(&[entry.id, self.id(parent(to))]);
                self.view.insert(to.clone(), entry);
                None
            }
            Op::Unlink(path) | Op::Rmdir(path) => {
                self.touch(&[self.id(path), self.id(parent(path))]);
                self.view.remove(path);
                None
            }
            Op::Rename { from, to } => {
                self.rename(from, to);
                None
            }
            Op::Chmod { path, perm } => {
                let id = self.id(path);
                self.touch(&[id]);
                let named = self.view.values_mut().filter(|e| e.id == id);
                named.for_each(|e| e.perm = *perm);
                None
            }
            Op::Write { path, from, len } => {
                self.content(path).write(*from, *len);
                None
            }
            Op::Truncate { path, size } => {
                self.content(path).resize(*size);
                None
            }
            _ => None,
        }
    }

    fn content(&mut self, path: &str) -> &mut Content {
        let id = self.id(path);
        self.contents.entry(id).or_default()
    }

    fn touch(&mut self, ids: &[FileId]) {
        self.count += 1;
        for id in ids {
            self.touched.insert(*id, self.count);
        }
    }

    fn make(&mut self, path: &str, kind: FileKind, target: &str) -> FileId {
        let id = self.next_id;
        self.next_id += 1;
        self.touch(&[id, self.id(parent(path))]);
        self.created.insert(id, self.count);
        let perm = match kind {
            FileKind::File => FILE_PERM,
            FileKind::Dir => DIR_PERM,
            _ => 0,
        };
        if kind == FileKind::File {
            self.contents.insert(id, Content::default());
        }
        let target = target.into();
        let entry = Entry {
            id,
            kind,
            perm,
            target,
        };
        self.view.insert(path.into(), entry);
        id
    }

    fn rename(&mut self, from: &str, to: &str) {
        let ids = [
            self.id(from),
            self.id(to),
            self.id(parent(from)),
            self.id(parent(to)),
        ];
        self.touch(&ids);
        let inside = format!("{from}/");
        let moves = |path: &String| path == from || path.starts_with(&inside);
        let moving: Vec<String> = self.view.keys().filter(|p| moves(p)).cloned().collect();
        for path in moving {
            if let Some(entry) = self.view.remove(&path) {
                self.view
                    .insert(format!("{to}{}", &path[from.len()..]), entry);
            }
        }
    }

    /// A sync has completed. Answers how many operations on names are now promised.
    pub fn acknowledge(&mut self, op: &Op) -> usize {
        match op {
            Op::Fsync(path) => {
                let id = self.id(path);
                self.content(path).acknowledge();
                self.touched.get(&id).copied().unwrap_or(0)
            }
            Op::Fdatasync(path) => {
                let id = self.id(path);
                self.content(path).acknowledge();
                self.created.get(&id).copied().unwrap_or(0)
            }
            Op::SyncDir(path) => self.touched.get(&self.id(path)).copied().unwrap_or(0),
            Op::Sync => {
                let ids: Vec<FileId> = self.view.values().map(|e| e.id).collect();
                for id in ids {
                    if let Some(content) = self.contents.get_mut(&id) {
                        content.acknowledge();
                    }
                }
                self.count
            }
            _ => 0,
        }
    }
}

/// The directory that holds `path`.
pub fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..at])
}

/// What a file may hold.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// Size now, sectors.
    pub size: u64,
    /// The version of each sector now; 0: zeros.
    newest: Vec<u64>,
    /// The highest version of each sector ever.
    highest: Vec<u64>,
    size_min: u64,
    size_max: u64,
    acked: Option<Acked>,
    /// How often each page was made dirty: ever, and since the last sync.
    dirtied: BTreeMap<u64, (u32, u32)>,
}

#[derive(Clone, Debug)]
struct Acked {
    newest: Vec<u64>,
    highest: Vec<u64>,
}

fn at(list: &[u64], sector: u64) -> u64 {
    list.get(sector as usize).copied().unwrap_or(0)
}

impl Content {
    fn write(&mut self, from: u64, len: u64) {
        let end = (from + len) as usize;
        if self.newest.len() < end {
            self.newest.resize(end, 0);
            self.highest.resize(end, 0);
        }
        for s in from as usize..end {
            self.highest[s] += 1;
            self.newest[s] = self.highest[s];
        }
        for page in from / SECTORS_PER_BLOCK..(from + len).div_ceil(SECTORS_PER_BLOCK) {
            self.dirty(page);
        }
        if from > self.size {
            self.dirty(self.size / SECTORS_PER_BLOCK);
        }
        self.size = self.size.max(from + len);
        self.size_max = self.size_max.max(self.size);
    }

    fn resize(&mut self, size: u64) {
        self.dirty(self.size / SECTORS_PER_BLOCK);
        self.dirty(size / SECTORS_PER_BLOCK);
        let keep = self.newest.len().min(size as usize);
        self.newest[keep..].fill(0);
        self.size = size;
        self.size_min = self.size_min.min(size);
        self.size_max = self.size_max.max(size);
    }

    fn dirty(&mut self, page: u64) {
        let (ever, since) = self.dirtied.entry(page).or_default();
        *ever += 1;
        *since += 1;
    }

    fn acknowledge(&mut self) {
        (self.size_min, self.size_max) = (self.size, self.size);
        self.acked = Some(Acked {
            newest: self.newest.clone(),
            highest: self.highest.clone(),
        });
        self.dirtied.values_mut().for_each(|(_, since)| *since = 0);
    }

    /// The stamps that the write that began last puts into sectors `from..from + len`.
    pub fn stamps(&self, file: FileId, from: u64, len: u64) -> Vec<u8> {
        let stamp = |sector| Stamp {
            file,
            sector,
            version: at(&self.newest, sector),
        };
        (from..from + len)
            .flat_map(|s| super::stamp::sector(stamp(s)))
            .collect()
    }

    /// O4.
    ///
    /// # Errors
    /// What is wrong.
    pub fn judge_size(&self, bytes: u64) -> Result<(), String> {
        let sector = base::SECTOR_BYTES as u64;
        let (least, most) = match &self.acked {
            Some(_) => (self.size_min * sector, self.size_max * sector),
            None => (0, self.size_max * sector),
        };
        if bytes < least || bytes > most || !bytes.is_multiple_of(sector) {
            return Err(format!("O4: size {bytes}, promised {least} to {most}"));
        }
        Ok(())
    }

    /// O3, O5 and O6 for one sector. `garbles`: the device may leave garbage of a write in place.
    ///
    /// # Errors
    /// What is wrong.
    pub fn judge_sector(
        &self,
        file: FileId,
        sector: u64,
        found: Found,
        garbles: bool,
    ) -> Result<(), String> {
        let (promised, before) = match &self.acked {
            Some(acked) => (at(&acked.newest, sector), at(&acked.highest, sector)),
            None => (0, 0),
        };
        let cut_off = self.acked.is_none() || sector >= self.size_min;
        let floor = if promised > 0 { promised } else { before + 1 };
        match found {
            Found::Zeros if promised == 0 || cut_off => Ok(()),
            Found::Zeros => Err(format!(
                "O3: sector {sector} is zero, version {promised} was synced"
            )),
            Found::Stamp(s) if s.file != file || s.sector != sector => Err(format!(
                "O5: sector {sector} holds sector {} of file {:#x}, version {}",
                s.sector, s.file, s.version
            )),
            Found::Stamp(s) if s.version < floor || s.version > at(&self.highest, sector) => {
                Err(format!(
                    "O3: sector {sector} has version {}, synced {promised} ({before} before it), newest {}",
                    s.version,
                    at(&self.highest, sector)
                ))
            }
            Found::Stamp(_) => Ok(()),
            Found::Garbage => {
                let page = self.dirtied.get(&(sector / SECTORS_PER_BLOCK));
                if garbles && page.is_some_and(|&(ever, since)| since > 0 && ever > 1) {
                    return Ok(());
                }
                Err(format!("O6: sector {sector} is garbage"))
            }
        }
    }

    /// True if `found` is what the task wrote last.
    pub fn is_newest(&self, sector: u64, found: Found) -> bool {
        match (at(&self.newest, sector), found) {
            (0, Found::Zeros) => true,
            (version, Found::Stamp(s)) => s.version == version,
            _ => false,
        }
    }
}
