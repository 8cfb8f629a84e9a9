//! A tree of files in a folder of the host, for judges that are programs.
//!
//! States of one recording differ little, so only what differs from what the folder holds is
//! written. A judge may change what it judges (SQLite rolls a journal back), and the next judge
//! must not see that:
//!
//! - F1: the folder holds what `held` says. Each file has a fixed old time of change and of access,
//!   so [`TreeFolder::put_right`] finds by names, inodes, kinds, modes, sizes and times what a
//!   judge touched, and removes it from both.
//! - F2: tmpfs does not set the time of change when a shared mapping is written. A file can be
//!   mapped only after it was opened, which sets the time of access; so a file whose time of
//!   access alone has changed is compared byte by byte, and where the host keeps no times of
//!   access, every file is.
//! - F3: nothing outside of the folder is changed: names of a tree are single components, and no
//!   symbolic link is followed, whoever made it.
//!
//! A judge that sets times back, opens files with `O_NOATIME` to map them, or changes nothing but
//! extended attributes is not found out. Times are not part of a tree; every file is of 2001.

use crate::state::JudgeError;
use crate::tree::{Kind, Node, NodeId, PAGE, Tree};
use base::Map;
use rt::Mutex;
use rustix::fs::{AtFlags, CWD, FallocateFlags, SeekFrom, Timespec, Timestamps, XattrFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Seconds of the time that every file has.
const THEN: i64 = 1_000_000_000;
/// Most bytes that go to the host at once.
const RUN_BYTES: usize = 1 << 20;

/// What a judge has to know about its folders, in words, each said once.
pub type Notes = Arc<Mutex<BTreeSet<String>>>;

/// A folder that holds one tree after the other.
pub struct TreeFolder {
    home: TempDir,
    root: PathBuf,
    held: BTreeMap<Vec<u8>, Held>,
    /// The tree whose nodes `held` names.
    tree: Tree,
    acked: Option<Vec<String>>,
    is_root: bool,
    reads_show: bool,
    notes: Notes,
}

/// What the host has under a path.
struct Held {
    node: NodeId,
    /// Inode and mode on the host.
    host: (u64, u32),
}

impl TreeFolder {
    /// An empty folder below `place`.
    ///
    /// # Errors
    /// The host refuses.
    pub fn new(place: &Path, notes: Notes) -> Result<TreeFolder, JudgeError> {
        let made = || -> io::Result<TreeFolder> {
            let home = tempfile::Builder::new()
                .prefix("varve-judge-")
                .tempdir_in(place)?;
            let root = home.path().join("tree");
            fs::create_dir(&root)?;
            let reads_show = reads_show(&home.path().join("probe"))?;
            let mut held = BTreeMap::new();
            let host = of_host(&fs::symlink_metadata(&root)?);
            let node = crate::tree::ROOT;
            held.insert(Vec::new(), Held { node, host });
            Ok(TreeFolder {
                root,
                held,
                tree: Tree::default(),
                acked: None,
                is_root: rustix::process::geteuid().is_root(),
                reads_show,
                notes,
                home,
            })
        };
        made().map_err(|e| {
            let place = place.display();
            JudgeError(format!("a folder for states in {place}: {e}"))
        })
    }

    /// Where the tree is.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The file with one acknowledgement a line.
    pub fn acked(&self) -> PathBuf {
        self.home.path().join("acked")
    }

    /// Makes the folder hold this tree, and the file beside it these acknowledgements.
    ///
    /// # Errors
    /// The host refuses, or the tree has a name that no host can have.
    pub fn set(&mut self, tree: &Tree, acknowledged: &[&str]) -> Result<(), JudgeError> {
        let set = self.set_tree(tree);
        let set = set.and_then(|()| self.set_acked(acknowledged));
        set.map_err(|e| {
            let root = self.root.display();
            JudgeError(format!("putting a state into {root}: {e}"))
        })
    }

    fn set_acked(&mut self, acknowledged: &[&str]) -> io::Result<()> {
        let same = |acked: &Vec<String>| acked.iter().map(String::as_str).eq(acknowledged.to_vec());
        if self.acked.as_ref().is_some_and(same) {
            return Ok(());
        }
        let text: String = acknowledged.iter().flat_map(|text| [text, "\n"]).collect();
        // A judge may have removed the file, or put a link to elsewhere in its place (F3).
        let path = self.acked();
        remove(&path)?;
        fs::write(&path, text)?;
        set_then(&path)?;
        self.acked = Some(acknowledged.iter().map(|&text| text.into()).collect());
        Ok(())
    }

    fn set_tree(&mut self, tree: &Tree) -> io::Result<()> {
        let mut want: BTreeMap<Vec<u8>, (NodeId, &Node)> = BTreeMap::new();
        let mut bad_name = false;
        tree.walk(&mut |path, id, node| {
            bad_name |= node.names.keys().any(|name| !is_name(name));
            want.insert(path.to_vec(), (id, node));
        });
        if bad_name {
            return Err(io::Error::other("the tree has a name that is no name (F3)"));
        }
        let mut hosts = self.remove_unwanted(&want)?;
        for (path, &(id, node)) in &want {
            self.bring(path, id, node, &mut hosts)?;
        }
        self.tree = tree.clone();
        Ok(())
    }

    /// Removes what is not in `want`, or is another thing there. What stays is of the wanted kind,
    /// and files that are one inode are one node. Answers a path that holds each file that stays.
    fn remove_unwanted(
        &mut self,
        want: &BTreeMap<Vec<u8>, (NodeId, &Node)>,
    ) -> io::Result<Map<NodeId, Vec<u8>>> {
        let mut hosts: Map<NodeId, Vec<u8>> = Map::default();
        let mut node_of: Map<u64, NodeId> = Map::default();
        let mut stays = |path: &[u8], held: &Held| {
            let old = self.tree.node(held.node);
            let (Some(old), Some((id, new))) = (old, want.get(path)) else {
                return false;
            };
            if old.kind != new.kind || matches!(new.kind, Kind::Special(..)) {
                return false;
            }
            if new.kind != Kind::File {
                return true;
            }
            let inode = held.host.0;
            match (node_of.get(&inode), hosts.contains_key(id)) {
                (None, false) => {
                    node_of.insert(inode, *id);
                    hosts.insert(*id, path.to_vec());
                    true
                }
                (Some(known), _) => known == id,
                (None, true) => false,
            }
        };
        let gone: Vec<Vec<u8>> = (self.held.iter())
            .filter(|(path, held)| !stays(path, held))
            .map(|(path, _)| path.clone())
            .collect();
        // What is in a directory stands behind it.
        for path in gone.iter().rev() {
            remove(&self.host_path(path))?;
            self.held.remove(path);
        }
        Ok(hosts)
    }

    /// Makes one path what it shall be.
    fn bring(
        &mut self,
        path: &[u8],
        id: NodeId,
        node: &Node,
        hosts: &mut Map<NodeId, Vec<u8>>,
    ) -> io::Result<()> {
        let host = self.host_path(path);
        if let Kind::Special(..) = node.kind {
            self.note("devices, pipes and sockets are left out of the judged trees");
            return Ok(());
        }
        let first = node.kind != Kind::File || hosts.get(&id).is_none_or(|first| first == path);
        if let Some(held) = self.held.get(path) {
            let old = self.tree.node(held.node);
            if first && !old.is_some_and(|old| std::ptr::eq(old, node)) {
                let now = held.host;
                self.change(&host, old, node)?;
                let now = match self.attributes(&host, old, node)? {
                    true => of_host(&fs::symlink_metadata(&host)?),
                    false => now,
                };
                self.keep(path, id, now);
            } else {
                // Another name of a file may have been brought to a new mode just now.
                let now = match hosts.get(&id).and_then(|first| self.held.get(first)) {
                    Some(first) if node.kind == Kind::File => first.host,
                    _ => held.host,
                };
                self.keep(path, id, now);
            }
            return Ok(());
        }
        match &node.kind {
            Kind::Dir => fs::create_dir(&host)?,
            Kind::Symlink(target) => std::os::unix::fs::symlink(OsStr::from_bytes(target), &host)?,
            _ => match hosts.get(&id) {
                Some(first) => fs::hard_link(self.host_path(first), &host)?,
                None => {
                    hosts.insert(id, path.to_vec());
                    self.change(&host, None, node)?;
                }
            },
        }
        if first {
            self.attributes(&host, None, node)?;
        }
        self.keep(path, id, of_host(&fs::symlink_metadata(&host)?));
        Ok(())
    }

    fn keep(&mut self, path: &[u8], node: NodeId, host: (u64, u32)) {
        match self.held.get_mut(path) {
            Some(held) => *held = Held { node, host },
            None => drop(self.held.insert(path.to_vec(), Held { node, host })),
        }
    }

    /// Brings the content of a file from that of `old` to that of `node`, and sets its times.
    fn change(&self, host: &Path, old: Option<&Node>, node: &Node) -> io::Result<()> {
        if node.kind != Kind::File {
            return Ok(());
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(old.is_none())
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
            .open(host)?;
        if old.map_or(0, |old| old.size) != node.size {
            file.set_len(node.size)?;
        }
        let empty = BTreeMap::new();
        let before = old.map_or(&empty, |old| &old.pages);
        for &page in before.keys() {
            if !node.pages.contains_key(&page) && page * PAGE < node.size {
                zero(&file, page * PAGE, PAGE.min(node.size - page * PAGE))?;
            }
        }
        let mut run = (0, Vec::new());
        for (&page, bytes) in &node.pages {
            let same = |old: &base::Bytes| old.as_ptr() == bytes.as_ptr() || old == bytes;
            if before.get(&page).is_some_and(same) {
                continue;
            }
            let at = page * PAGE;
            if run.0 + run.1.len() as u64 != at || run.1.len() >= RUN_BYTES {
                file.write_all_at(&run.1, run.0)?;
                run = (at, Vec::new());
            }
            let len = PAGE.min(node.size.saturating_sub(at)) as usize;
            run.1.extend_from_slice(&bytes[..len]);
        }
        file.write_all_at(&run.1, run.0)?;
        set_then(host)
    }

    /// Brings owner, mode and extended attributes from those of `old`; answers whether the mode may
    /// be another one now.
    fn attributes(&self, host: &Path, old: Option<&Node>, node: &Node) -> io::Result<bool> {
        let is_new = |differs: &dyn Fn(&Node) -> bool| old.is_none_or(differs);
        let owner = is_new(&|old| old.owner != node.owner);
        if owner && self.is_root {
            let (user, group) = node.owner;
            std::os::unix::fs::lchown(host, Some(user), Some(group))?;
        } else if owner && node.owner != (euid(), egid()) {
            self.note("owners are kept in the judged trees by root only");
        }
        let no_xattrs = BTreeMap::new();
        let before = old.map_or(&no_xattrs, |old| &old.xattrs);
        if *before != node.xattrs {
            self.xattrs(host, before, &node.xattrs)?;
        }
        // A change of owner takes set-user-ID away.
        let mode = owner || is_new(&|old| old.mode != node.mode) || *before != node.xattrs;
        if mode && !matches!(node.kind, Kind::Symlink(_)) {
            let mine = match node.kind {
                _ if self.is_root => 0,
                Kind::Dir => 0o700,
                _ => 0o600,
            };
            if u32::from(node.mode) & mine != mine {
                self.note("in the judged trees you may read and write whatever is yours");
            }
            fs::set_permissions(host, Permissions::from_mode(u32::from(node.mode) | mine))?;
        }
        Ok(mode)
    }

    fn xattrs(
        &self,
        host: &Path,
        old: &BTreeMap<Vec<u8>, Vec<u8>>,
        new: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> io::Result<()> {
        let user = |name: &[u8]| name.starts_with(b"user.");
        if new.keys().any(|name| !user(name)) {
            self.note("of extended attributes only user.* are kept in the judged trees");
        }
        for name in old.keys().filter(|name| user(name)) {
            if !new.contains_key(name) {
                rustix::fs::lremovexattr(host, OsStr::from_bytes(name)).or_else(refused)?;
            }
        }
        for (name, value) in new.iter().filter(|(name, _)| user(name)) {
            let name = OsStr::from_bytes(name);
            match rustix::fs::lsetxattr(host, name, value, XattrFlags::empty()) {
                Err(e) if refused(e).is_ok() => {
                    self.note("extended attributes are not kept in the judged trees: the host has none there");
                }
                set => set?,
            }
        }
        Ok(())
    }

    fn note(&self, words: &str) {
        let mut notes = self.notes.lock();
        if !notes.contains(words) {
            notes.insert(words.into());
        }
    }

    fn host_path(&self, path: &[u8]) -> PathBuf {
        match path {
            [] => self.root.clone(),
            _ => self.root.join(OsStr::from_bytes(path)),
        }
    }

    /// Finds what a judge has changed, and removes it, so that [`TreeFolder::set`] makes it anew
    /// (F1).
    ///
    /// # Errors
    /// The host refuses.
    pub fn put_right(&mut self) -> Result<(), JudgeError> {
        self.look().map_err(|e| {
            let root = self.root.display();
            JudgeError(format!("looking what the judge left of {root}: {e}"))
        })
    }

    fn look(&mut self) -> io::Result<()> {
        let kept = |meta: Metadata| meta.is_file() && meta.mtime() == THEN;
        if !fs::symlink_metadata(self.acked()).is_ok_and(kept) {
            self.acked = None;
        }
        let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
        let root = match fs::symlink_metadata(&self.root) {
            Ok(meta) => Some(meta),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        let is_whole = match &root {
            Some(meta) => self.is_whole(&[], meta)?,
            None => false,
        };
        if !is_whole {
            // The root itself was changed or removed: everything is made anew.
            if root.is_some() {
                remove(&self.root)?;
            }
            fs::create_dir(&self.root)?;
            self.held.clear();
            let host = of_host(&fs::symlink_metadata(&self.root)?);
            self.tree = Tree::default();
            self.keep(&[], crate::tree::ROOT, host);
            return Ok(());
        }
        let mut open = vec![Vec::new()];
        while let Some(dir) = open.pop() {
            #[allow(clippy::disallowed_methods)] // Everything in it is looked at, in any order.
            let entries = fs::read_dir(self.host_path(&dir))?;
            for entry in entries {
                let entry = entry?;
                let mut path = dir.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(entry.file_name().as_bytes());
                let meta = entry.metadata()?;
                if !self.is_whole(&path, &meta)? {
                    remove(&entry.path())?;
                    continue;
                }
                if meta.is_dir() {
                    open.push(path.clone());
                }
                seen.insert(path);
            }
        }
        seen.insert(Vec::new());
        self.held.retain(|path, _| seen.contains(path));
        Ok(())
    }

    /// Whether what the host has is still what is held there.
    fn is_whole(&self, path: &[u8], meta: &Metadata) -> io::Result<bool> {
        let Some(held) = self.held.get(path) else {
            return Ok(false);
        };
        let Some(node) = self.tree.node(held.node) else {
            return Ok(false);
        };
        if of_host(meta) != held.host {
            return Ok(false);
        }
        match &node.kind {
            Kind::Dir => Ok(meta.is_dir()),
            Kind::Symlink(target) => {
                let now = fs::read_link(self.host_path(path))?;
                Ok(now.as_os_str().as_bytes() == target)
            }
            Kind::Special(..) => Ok(false),
            Kind::File => {
                let kept = meta.is_file()
                    && meta.len() == node.size
                    && (meta.mtime(), meta.mtime_nsec()) == (THEN, 0);
                let untouched = self.reads_show && (meta.atime(), meta.atime_nsec()) == (THEN, 0);
                if !kept || untouched {
                    return Ok(kept);
                }
                // It was read, and perhaps mapped (F2).
                let host = self.host_path(path);
                let same = has_content(&host, node)?;
                if same {
                    set_then(&host)?;
                }
                Ok(same)
            }
        }
    }
}

/// Copies a tree to a folder that is not there yet, for people.
///
/// # Errors
/// The host refuses.
pub fn save(tree: &Tree, to: &Path, place: &Path) -> Result<(), JudgeError> {
    let mut folder = TreeFolder::new(place, Notes::default())?;
    folder.set(tree, &[])?;
    let moved = remove(to).and_then(|()| fs::rename(&folder.root, to));
    moved.map_err(|e| JudgeError(format!("writing {}: {e}", to.display())))
}

fn of_host(meta: &Metadata) -> (u64, u32) {
    (meta.ino(), meta.mode())
}

/// Whether a directory of the host can have this name.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
}

fn euid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn egid() -> u32 {
    rustix::process::getegid().as_raw()
}

fn set_then(host: &Path) -> io::Result<()> {
    let then = Timespec {
        tv_sec: THEN,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: then,
        last_modification: then,
    };
    let set = rustix::fs::utimensat(CWD, host, &times, AtFlags::SYMLINK_NOFOLLOW);
    Ok(set?)
}

/// Whether a file of the host holds the content of a node, of the same size. Holes are passed over:
/// a sparse file may be larger than all memory.
fn has_content(host: &Path, node: &Node) -> io::Result<bool> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(host)?;
    let mut at = 0;
    while at < node.size {
        let data = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(data) => data.min(node.size),
            Err(rustix::io::Errno::NXIO) => node.size,
            Err(e) => return Err(e.into()),
        };
        if !is_hole(node, at, data) {
            return Ok(false);
        }
        at = data;
        if at < node.size {
            let hole = rustix::fs::seek(&file, SeekFrom::Hole(at))?;
            let end = hole.min(node.size).min(at + RUN_BYTES as u64);
            let mut bytes = vec![0; (end - at) as usize];
            file.read_exact_at(&mut bytes, at)?;
            if bytes != node.read(at, end - at) {
                return Ok(false);
            }
            at = end;
        }
    }
    Ok(true)
}

/// Whether a node has nothing but zeros in a range.
fn is_hole(node: &Node, from: u64, to: u64) -> bool {
    let mut pages = node.pages.range(from / PAGE..to.div_ceil(PAGE));
    pages.all(|(&page, _)| {
        let (first, end) = (from.max(page * PAGE), to.min((page + 1) * PAGE));
        base::bytes::is_zero(&node.read(first, end - first))
    })
}

/// Whether reading a file changes its time of access here.
fn reads_show(probe: &Path) -> io::Result<bool> {
    fs::write(probe, b"probe")?;
    set_then(probe)?;
    fs::read(probe)?;
    let shows = fs::symlink_metadata(probe)?.atime() != THEN;
    fs::remove_file(probe)?;
    Ok(shows)
}

/// Makes a range a hole, or zeros where the host has no holes.
fn zero(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, hole, offset, len) {
        Ok(()) => Ok(()),
        Err(_) => file.write_all_at(&vec![0; len as usize], offset),
    }
}

/// Success if the host has no extended attributes there.
fn refused(e: rustix::io::Errno) -> Result<(), rustix::io::Errno> {
    match e {
        rustix::io::Errno::NOTSUP | rustix::io::Errno::PERM | rustix::io::Errno::NODATA => Ok(()),
        e => Err(e),
    }
}

/// Removes whatever is there, with all that is in it. Nothing there is fine.
fn remove(path: &Path) -> io::Result<()> {
    let gone = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match gone {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        gone => gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::ROOT;
    use base::Bytes;

    fn folder() -> (TempDir, TreeFolder) {
        let place = tempfile::tempdir().unwrap();
        let folder = TreeFolder::new(place.path(), Notes::default()).unwrap();
        (place, folder)
    }

    fn with(tree: &mut Tree, dir: NodeId, name: &str, id: u64, kind: Kind, content: &[u8]) {
        let mut node = Node::new(kind, 0o755, (euid(), egid()));
        node.size = content.len() as u64;
        for (n, page) in content.chunks(PAGE as usize).enumerate() {
            let mut page = page.to_vec();
            page.resize(PAGE as usize, 0);
            if !base::bytes::is_zero(&page) {
                node.pages.insert(n as u64, Bytes::from(page));
            }
        }
        tree.insert(NodeId(id), node);
        tree.set_name(dir, name.as_bytes(), Some(NodeId(id)));
    }

    /// A tree with a bit of everything.
    fn some_tree() -> Tree {
        let mut tree = Tree::default();
        tree.edit(ROOT, |root| root.owner = (euid(), egid()));
        with(&mut tree, ROOT, "d", 1, Kind::Dir, b"");
        with(&mut tree, NodeId(1), "f", 2, Kind::File, &[7; 9000]);
        let mut sparse = vec![0; 1 << 20];
        sparse[500_000] = 1;
        with(&mut tree, ROOT, "sparse", 3, Kind::File, &sparse);
        with(&mut tree, ROOT, "l", 4, Kind::Symlink(b"d/f".to_vec()), b"");
        tree.set_name(ROOT, b"twin", Some(NodeId(2)));
        tree.edit(NodeId(3), |node| {
            node.mode = 0o640;
            node.xattrs.insert(b"user.k".to_vec(), b"v".to_vec());
        });
        tree
    }

    /// Reads a folder of the host as a tree.
    fn read_back(root: &Path) -> Tree {
        let mut tree = Tree::default();
        let mut inodes: Map<u64, NodeId> = Map::default();
        let mut open = vec![(root.to_path_buf(), ROOT)];
        let mut next = 1;
        let of = |meta: &Metadata, kind| {
            Node::new(
                kind,
                (meta.mode() & 0o7777) as u16,
                (meta.uid(), meta.gid()),
            )
        };
        let meta = fs::metadata(root).unwrap();
        tree.insert(ROOT, of(&meta, Kind::Dir));
        while let Some((dir, parent)) = open.pop() {
            #[allow(clippy::disallowed_methods)] // The order of names does not matter.
            for entry in fs::read_dir(&dir).unwrap() {
                let entry = entry.unwrap();
                let (meta, name) = (entry.metadata().unwrap(), entry.file_name());
                let id = *inodes.entry(meta.ino()).or_insert_with(|| {
                    next += 1;
                    NodeId(next)
                });
                let mut node = if meta.is_dir() {
                    open.push((entry.path(), id));
                    of(&meta, Kind::Dir)
                } else if meta.is_symlink() {
                    let target = fs::read_link(entry.path()).unwrap();
                    let kind = Kind::Symlink(target.as_os_str().as_bytes().to_vec());
                    let mut node = of(&meta, kind);
                    node.mode = 0o755;
                    node
                } else {
                    let content = fs::read(entry.path()).unwrap();
                    with(&mut tree, parent, "x", id.0, Kind::File, &content);
                    tree.set_name(parent, b"x", None);
                    let mut node = of(&meta, Kind::File);
                    let read = tree.node(id).unwrap();
                    (node.size, node.pages) = (read.size, read.pages.clone());
                    node
                };
                let mut value = [0; 16];
                if let Ok(n) = rustix::fs::lgetxattr(entry.path(), "user.k", &mut value) {
                    node.xattrs.insert(b"user.k".to_vec(), value[..n].to_vec());
                }
                tree.insert(id, node);
                tree.set_name(parent, name.as_bytes(), Some(id));
            }
        }
        tree
    }

    #[track_caller]
    fn holds(folder: &TreeFolder, tree: &Tree) {
        let told = |tree: &Tree| {
            let mut told = Vec::new();
            tree.walk(&mut |path, _, node| {
                let path = String::from_utf8_lossy(path).into_owned();
                let content = base::collections::fingerprint(&node.content());
                let Node {
                    kind,
                    mode,
                    owner,
                    xattrs,
                    size,
                    ..
                } = node;
                told.push(format!(
                    "{path} {kind:?} {mode:o} {owner:?} {xattrs:?} {size} {content}"
                ));
            });
            told
        };
        assert_eq!(told(&read_back(folder.path())), told(tree));
        assert_eq!(read_back(folder.path()).hash(), tree.hash());
    }

    #[test]
    fn f1_the_folder_holds_each_tree_that_it_is_given() {
        let (_place, mut folder) = folder();
        let mut tree = some_tree();
        folder.set(&tree, &[]).unwrap();
        holds(&folder, &tree);
        let blocks = fs::metadata(folder.path().join("sparse")).unwrap().blocks();
        assert!(blocks <= 16, "{blocks} sectors of a sparse file");
        let before = fs::metadata(folder.path().join("twin")).unwrap().ino();

        tree.set_size(NodeId(2), 5000);
        tree.set_size(NodeId(2), 6000);
        tree.zero(NodeId(2), 0, PAGE);
        tree.edit(NodeId(3), |node| {
            node.mode = 0o4711;
            node.xattrs.clear();
        });
        folder.set(&tree, &[]).unwrap();
        holds(&folder, &tree);
        let after = fs::metadata(folder.path().join("twin")).unwrap().ino();
        assert_eq!(before, after, "changed where it is");

        // A link becomes a copy, a directory a file, a file a directory with the same name in it.
        let mut copy = tree.node(NodeId(2)).unwrap().clone();
        copy.mode = 0o600;
        tree.insert(NodeId(20), copy);
        tree.set_name(ROOT, b"twin", Some(NodeId(20)));
        folder.set(&tree, &[]).unwrap();
        holds(&folder, &tree);
        with(&mut tree, ROOT, "d", 21, Kind::File, b"was a directory");
        with(&mut tree, ROOT, "sparse", 22, Kind::Dir, b"");
        tree.set_name(NodeId(22), b"sparse", Some(NodeId(20)));
        folder.set(&tree, &[]).unwrap();
        holds(&folder, &tree);
        let (old, other) = (some_tree(), Tree::default());
        folder.set(&old, &[]).unwrap();
        holds(&folder, &old);
        folder.set(&other, &[]).unwrap();
        assert_eq!(read_back(folder.path()).find(b"d"), None);
    }

    #[test]
    fn f1_what_a_judge_changes_is_put_right() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 10] = [
            ("nothing", |_| ()),
            ("writes", |root| {
                fs::write(root.join("d/f"), [8; 9000]).unwrap()
            }),
            ("cuts off", |root| {
                let file = OpenOptions::new().write(true).open(root.join("twin"));
                file.unwrap().set_len(9).unwrap();
            }),
            ("adds", |root| fs::write(root.join("d/new"), "x").unwrap()),
            ("removes", |root| {
                fs::remove_dir_all(root.join("d")).unwrap()
            }),
            ("renames", |root| {
                fs::rename(root.join("sparse"), root.join("other")).unwrap();
            }),
            ("replaces with a copy", |root| {
                fs::copy(root.join("twin"), root.join("t")).unwrap();
                set_then(&root.join("t")).unwrap();
                fs::rename(root.join("t"), root.join("twin")).unwrap();
            }),
            ("changes a mode", |root| {
                let mode = Permissions::from_mode(0o777);
                fs::set_permissions(root.join("sparse"), mode).unwrap();
            }),
            ("leads a link elsewhere", |root| {
                fs::remove_file(root.join("l")).unwrap();
                std::os::unix::fs::symlink("sparse", root.join("l")).unwrap();
            }),
            ("puts a link in place of a directory", |root| {
                fs::remove_dir_all(root.join("d")).unwrap();
                fs::create_dir_all(root.join("../outside")).unwrap();
                fs::write(root.join("../outside/f"), "mine").unwrap();
                std::os::unix::fs::symlink("../outside", root.join("d")).unwrap();
            }),
        ];
        let (_place, mut folder) = folder();
        let tree = some_tree();
        for (what, change) in changes {
            folder.set(&tree, &[]).unwrap();
            change(&folder.root);
            folder.put_right().unwrap();
            folder.set(&tree, &[]).unwrap();
            assert_eq!(read_back(folder.path()).hash(), tree.hash(), "{what}");
        }
        // F3: what lay outside is as it was.
        let mine = fs::read(folder.root.join("../outside/f")).unwrap();
        assert_eq!(mine, b"mine");
    }

    #[test]
    fn f2_a_write_that_leaves_the_time_of_change_is_found_by_that_of_access() {
        let (_place, mut folder) = folder();
        let tree = some_tree();
        folder.set(&tree, &[]).unwrap();
        // What a shared mapping on tmpfs does: content other than before, the old time of change,
        // a new time of access.
        let path = folder.root.join("d/f");
        fs::write(&path, [9; 9000]).unwrap();
        let time = |tv_sec| Timespec { tv_sec, tv_nsec: 0 };
        let times = Timestamps {
            last_access: time(THEN + 5),
            last_modification: time(THEN),
        };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
        folder.put_right().unwrap();
        folder.set(&tree, &[]).unwrap();
        holds(&folder, &tree);
        // Where times of access are not kept, content decides.
        folder.reads_show = false;
        fs::write(&path, [9; 9000]).unwrap();
        set_then(&path).unwrap();
        folder.put_right().unwrap();
        folder.set(&tree, &[]).unwrap();
        holds(&folder, &tree);
    }

    #[test]
    fn f1_a_tree_that_a_judge_has_removed_is_made_anew() {
        let (_place, mut folder) = folder();
        let tree = some_tree();
        folder.set(&tree, &[]).unwrap();
        fs::remove_dir_all(&folder.root).unwrap();
        folder.put_right().unwrap();
        folder.set(&tree, &[]).unwrap();
        holds(&folder, &tree);
    }

    /// Sparse files may be larger than all memory.
    #[test]
    fn f2_a_huge_file_that_was_read_is_compared_without_its_holes() {
        let (_place, mut folder) = folder();
        let mut tree = some_tree();
        tree.set_size(NodeId(3), 1 << 40);
        folder.set(&tree, &[]).unwrap();
        let path = folder.root.join("sparse");
        let time = |tv_sec| Timespec { tv_sec, tv_nsec: 0 };
        let times = Timestamps {
            last_access: time(THEN + 5),
            last_modification: time(THEN),
        };
        let read = || rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
        let inode = || fs::metadata(&path).unwrap().ino();
        let before = inode();
        read();
        folder.put_right().unwrap();
        folder.set(&tree, &[]).unwrap();
        assert_eq!(inode(), before, "it was not changed");
        // In a hole, and a hole in the place of content.
        for (at, byte) in [(1 << 39, 1), (500_000, 0)] {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            let before = file.metadata().unwrap().ino();
            match byte {
                0 => zero(&file, at / PAGE * PAGE, PAGE).unwrap(),
                byte => file.write_all_at(&[byte], at).unwrap(),
            }
            read();
            folder.put_right().unwrap();
            folder.set(&tree, &[]).unwrap();
            assert_ne!(inode(), before, "the change at {at} was found");
            let mut byte = [9];
            File::open(&path)
                .unwrap()
                .read_exact_at(&mut byte, at)
                .unwrap();
            assert_eq!(byte, [u8::from(at == 500_000)]);
        }
    }

    #[test]
    fn f3_a_name_that_leads_out_of_the_folder_is_refused() {
        for name in ["..", ".", "a/b", "../x", ""] {
            let (_place, mut folder) = folder();
            let mut tree = some_tree();
            tree.set_name(ROOT, name.as_bytes(), Some(NodeId(2)));
            let why = folder.set(&tree, &[]).unwrap_err().to_string();
            assert!(why.contains("no name"), "{name:?}: {why}");
        }
    }

    #[test]
    fn acknowledgements_stand_one_a_line() {
        let (_place, mut folder) = folder();
        let tree = Tree::default();
        for acked in [&["a", "b c"][..], &["a"], &[], &[""], &["", ""]] {
            folder.set(&tree, acked).unwrap();
            let text = fs::read_to_string(folder.acked()).unwrap();
            assert_eq!(text.lines().collect::<Vec<_>>(), acked);
            fs::write(folder.acked(), "rubbish").unwrap();
            folder.put_right().unwrap();
            folder.set(&tree, acked).unwrap();
            assert_eq!(fs::read_to_string(folder.acked()).unwrap(), text);
        }
    }

    #[test]
    fn specials_are_left_out_and_said() {
        let (_place, mut folder) = folder();
        let mut tree = some_tree();
        let pipe = Kind::Special(0o010_000, 0);
        with(&mut tree, ROOT, "pipe", 9, pipe, b"");
        folder.set(&tree, &[]).unwrap();
        assert!(!folder.root.join("pipe").exists());
        folder.put_right().unwrap();
        folder.set(&tree, &[]).unwrap();
        let notes = folder.notes.lock();
        assert!(
            notes.iter().any(|note| note.contains("left out")),
            "{notes:?}"
        );
    }
}
