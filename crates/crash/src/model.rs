//! What the directory of a task holds after each of its operations, and what of it is promised.
//!
//! A task works alone in its directory, so its operations have one order and a model without
//! concurrency is exact. Which of the states a remainder may show is said by the rules O1 to O7 of
//! [`rules`](super::rules).

use super::content::Content;
use super::ops::Op;
use super::rules::{Call, Cover, Terms, What};
use super::stamp::FileId;
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::FileKind;

/// One name, and the inode that it names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The inode, by a number of the model.
    pub id: FileId,
    /// Kind of the inode.
    pub kind: FileKind,
    /// Permission bits; a symbolic link has none.
    pub perm: u16,
    /// Where a symbolic link leads.
    pub target: Arc<str>,
    /// Extended attributes of the name space `user`, without its prefix.
    pub xattrs: Arc<Xattrs>,
}

/// Extended attributes: name to value.
pub type Xattrs = BTreeMap<String, Vec<u8>>;

/// All names below the directory of a task, by path; `""` is that directory itself.
pub type View = BTreeMap<String, Entry>;

/// The state after some operations.
#[derive(Clone, Debug)]
pub struct State {
    next_id: FileId,
    /// Number of operations so far, of all kinds.
    pub ops: usize,
    /// The names now.
    pub view: View,
    /// Number of operations on names so far.
    pub count: usize,
    /// The number of the last operation on names that touched each inode; the first has number 1.
    touched: BTreeMap<FileId, usize>,
    /// The number of the last one that touched the attributes of each inode.
    changed: BTreeMap<FileId, usize>,
    created: BTreeMap<FileId, usize>,
    /// Bytes of a page of a file ([`Content::in_pages_of`]).
    page_bytes: u64,
    /// An allocation extends a file in pieces ([`Content::allocate`]).
    pieces: bool,
    /// What files hold, removed ones included.
    pub contents: BTreeMap<FileId, Content>,
}

/// Permission bits of new files.
pub const FILE_PERM: u16 = 0o644;
/// Permission bits of new directories.
pub const DIR_PERM: u16 = 0o755;

impl State {
    /// A state without any name; not even the directory of the task is there. `task` keeps inode
    /// numbers of different tasks apart.
    pub fn new(task: usize) -> State {
        State {
            next_id: ((task as u64 + 1) << 32) + 1,
            ops: 0,
            view: View::new(),
            count: 0,
            touched: BTreeMap::new(),
            changed: BTreeMap::new(),
            created: BTreeMap::new(),
            page_bytes: 0,
            pieces: false,
            contents: BTreeMap::new(),
        }
    }

    /// This state, for files with pages of so many bytes.
    #[must_use]
    pub fn in_pages_of(mut self, bytes: u64) -> State {
        self.page_bytes = bytes;
        self
    }

    /// This state, where an allocation extends a file in `pieces` ([`Content::allocate`]).
    #[must_use]
    pub fn allocating(mut self, pieces: bool) -> State {
        self.pieces = pieces;
        self
    }

    /// Whether `op` is possible in this state.
    pub fn allows(&self, op: &Op) -> bool {
        let free = |path: &str| !self.view.contains_key(path) && self.is_dir(parent(path));
        match op {
            Op::Create(path) | Op::Symlink { to: path, .. } => free(path),
            Op::Mkdir(path) => free(path) || (path.is_empty() && self.view.is_empty()),
            Op::Write { path, len, .. } | Op::Fallocate { path, len, .. } => {
                *len > 0 && self.is_file(path)
            }
            Op::Truncate { path, .. } | Op::Fsync(path) | Op::Fdatasync(path) | Op::Hold(path) => {
                self.is_file(path)
            }
            Op::Link { from, to } => self.is_file(from) && free(to),
            Op::Unlink(path) => self.view.contains_key(path) && !self.is_dir(path),
            Op::Rmdir(path) => !path.is_empty() && self.is_dir(path) && self.is_empty(path),
            Op::Chmod { path, .. } => self.is_file(path) || self.is_dir(path),
            Op::SetXattr { path, .. } => self.is_file(path) || self.is_dir(path),
            Op::RemoveXattr { path, name } => {
                let xattrs = self.view.get(path).map(|e| &e.xattrs);
                xattrs.is_some_and(|x| x.contains_key(name))
            }
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

    /// Does `op`, which [`State::allows`] must allow; answers the inode that it makes, if any.
    pub fn apply(&mut self, op: &Op) -> Option<FileId> {
        self.ops += 1;
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
                self.change(path, |entry| entry.perm = *perm);
                None
            }
            Op::SetXattr { path, name, value } => {
                self.change_xattrs(path, |x| x.insert(name.clone(), value.clone()));
                None
            }
            Op::RemoveXattr { path, name } => {
                self.change_xattrs(path, |x| x.remove(name));
                None
            }
            _ => {
                self.apply_to_content(op);
                None
            }
        }
    }

    fn apply_to_content(&mut self, op: &Op) {
        let (Op::Write { path, .. } | Op::Truncate { path, .. } | Op::Fallocate { path, .. }) = op
        else {
            return;
        };
        let (number, names, id) = (self.ops, self.count, self.id(path));
        let pieces = self.pieces;
        let content = self.content_mut(path);
        match op {
            Op::Write { offset, len, .. } => content.write(id, number, *offset, *len),
            Op::Truncate { size, .. } => content.resize(number, names, *size),
            Op::Fallocate {
                offset,
                len,
                keep_size,
                ..
            } => content.allocate(number, names, offset + len, (*keep_size, pieces)),
            _ => {}
        }
    }

    /// Changes an inode under all its names.
    fn change(&mut self, path: &str, change: impl Fn(&mut Entry)) {
        let id = self.id(path);
        self.count += 1;
        self.changed.insert(id, self.count);
        let named = self.view.values_mut().filter(|e| e.id == id);
        named.for_each(change);
    }

    fn change_xattrs<R>(&mut self, path: &str, change: impl FnOnce(&mut Xattrs) -> R) {
        let mut xattrs = self.view[path].xattrs.clone();
        change(Arc::make_mut(&mut xattrs));
        self.change(path, |entry| entry.xattrs = xattrs.clone());
    }

    /// The content of the file at `path`.
    pub fn content(&self, path: &str) -> Option<&Content> {
        self.contents.get(&self.view.get(path)?.id)
    }

    fn content_mut(&mut self, path: &str) -> &mut Content {
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
            let content = Content::new(self.ops, self.count).in_pages_of(self.page_bytes);
            self.contents.insert(id, content);
        }
        let target = target.into();
        let entry = Entry {
            id,
            kind,
            perm,
            target,
            xattrs: Arc::default(),
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

    /// The task's own sync `op` has completed (O2). Answers how many operations on names are
    /// promised now. Where names come back by roll-forward or by a log of trees, the sync of a file
    /// promises that file alone, so no prefix.
    pub fn acknowledge(&mut self, op: &Op, terms: &Terms) -> usize {
        let alone = terms.roll_forward.is_some() || terms.tree_log;
        let (call, path) = match op {
            Op::Fsync(path) => (Call::Fsync, path.as_str()),
            Op::Fdatasync(path) => (Call::Fdatasync, path.as_str()),
            Op::SyncDir(path) => (Call::SyncDir, path.as_str()),
            Op::Sync => (Call::Sync, ""),
            _ => return 0,
        };
        let (id, now) = (self.id(path), self.ops);
        let is_single = |call| call != Call::SyncDir || terms.tree_log;
        match terms.cover(call, What::Content) {
            Cover::Everything => self.acknowledge_all(now),
            Cover::Inode => self.content_mut(path).acknowledge(now),
            Cover::Making | Cover::Nothing => {}
        }
        let promised = |what, touched: &BTreeMap<FileId, usize>| {
            let by = |map: &BTreeMap<FileId, usize>| map.get(&id).copied().unwrap_or(0);
            match terms.cover(call, what) {
                Cover::Everything => self.count,
                // That of a directory writes a checkpoint, if it does not go to a log of trees.
                Cover::Inode | Cover::Making if alone && is_single(call) => 0,
                Cover::Inode => by(touched),
                Cover::Making => by(&self.created),
                Cover::Nothing => 0,
            }
        };
        let names = promised(What::Names, &self.touched);
        names.max(promised(What::Attributes, &self.changed))
    }

    /// Promises the content of all files up to operation `op`.
    pub fn acknowledge_all(&mut self, op: usize) {
        for content in self.contents.values_mut() {
            content.acknowledge(op);
        }
    }
}

/// The path of the directory that holds `path`.
pub fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..at])
}
