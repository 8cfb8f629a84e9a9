//! A shadow of a file system: a tree in memory, and random operations that are done on both and
//! have to agree. Each file system's tests of names use it, and judge the image that remains by
//! their own checkers.

mod race;
mod tree;

pub use race::race;
pub use tree::{Entry, Tree, read_tree};

use base::{Ino, Rng};
use fscore::{Creds, Errno, FileKind, FileSystem, FsResult, RenameMode};
use std::collections::BTreeMap;

/// Lengths of targets that are drawn, bytes: on both sides of those at which file systems keep a
/// target elsewhere, up to the longest.
const TARGET_BYTES: [usize; 9] = [1, 59, 60, 61, 300, 3400, 3488, 3489, 4095];

#[derive(Clone, Debug)]
struct Node {
    kind: FileKind,
    links: u32,
    target: Vec<u8>,
    names: BTreeMap<Vec<u8>, Ino>,
    parent: Ino,
}

/// The tree that the file system should hold, by the file system's inode numbers.
#[derive(Clone, Debug)]
pub struct Shadow {
    nodes: BTreeMap<Ino, Node>,
    root: Ino,
}

/// How operations are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Number of different names.
    pub names: u64,
    /// Most directories.
    pub dirs: usize,
    /// Bytes of the longest name.
    pub longest: u64,
    /// Bytes of the longest target of a symbolic link that takes no block; `None` where an option
    /// decides that.
    pub fast_target: Option<usize>,
    /// Sectors of what a longer target takes.
    pub target_sectors: u64,
}

impl Shadow {
    /// The shadow of what the file system holds at the start; there only directories may have
    /// several links.
    ///
    /// # Panics
    /// As [`read_tree`].
    pub fn new(fs: &dyn FileSystem) -> Shadow {
        let root = fs.root();
        let mut shadow = Shadow {
            nodes: BTreeMap::from([(root, node(FileKind::Dir, root))]),
            root,
        };
        for (path, entry) in read_tree(fs, 100) {
            let names = path.split(|&b| b == b'/').filter(|name| !name.is_empty());
            let mut dir = root;
            for name in names {
                match shadow.get(dir, name) {
                    Some(below) => dir = below,
                    None => shadow.add(dir, name, entry.ino, entry.kind),
                }
            }
        }
        shadow
    }

    fn add(&mut self, dir: Ino, name: &[u8], ino: Ino, kind: FileKind) {
        self.nodes.entry(ino).or_insert_with(|| Node {
            links: 0,
            ..node(kind, dir)
        });
        self.put(dir, name, ino);
        self.nodes.get_mut(&ino).expect("there").links += if kind == FileKind::Dir { 2 } else { 1 };
        if kind == FileKind::Dir {
            self.nodes.get_mut(&dir).expect("there").links += 1;
        }
    }
    fn put(&mut self, dir: Ino, name: &[u8], ino: Ino) {
        self.nodes
            .get_mut(&dir)
            .expect("there")
            .names
            .insert(name.to_vec(), ino);
    }
    fn get(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        self.nodes[&dir].names.get(name).copied()
    }
    fn is_dir(&self, ino: Ino) -> bool {
        self.nodes[&ino].kind == FileKind::Dir
    }
    fn is_above(&self, above: Ino, mut dir: Ino) -> bool {
        while dir != above && dir != self.root {
            dir = self.nodes[&dir].parent;
        }
        dir == above
    }
    fn take(&mut self, dir: Ino, name: &[u8]) {
        let ino = self
            .nodes
            .get_mut(&dir)
            .expect("there")
            .names
            .remove(name)
            .expect("there");
        if self.is_dir(ino) {
            self.nodes.get_mut(&dir).expect("there").links -= 1;
            self.nodes.remove(&ino);
        } else {
            let node = self.nodes.get_mut(&ino).expect("there");
            node.links -= 1;
            if node.links == 0 {
                self.nodes.remove(&ino);
            }
        }
    }
    fn reparent(&mut self, ino: Ino, from: Ino, to: Ino) {
        if self.is_dir(ino) {
            self.nodes.get_mut(&from).expect("there").links -= 1;
            self.nodes.get_mut(&to).expect("there").links += 1;
            self.nodes.get_mut(&ino).expect("there").parent = to;
        }
    }

    /// The tree by paths, in the form of [`read_tree`].
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        self.tree_below(self.root, &mut b"/".to_vec(), &mut tree);
        tree
    }
    fn tree_below(&self, ino: Ino, path: &mut Vec<u8>, tree: &mut Tree) {
        let node = &self.nodes[&ino];
        let (kind, links, target) = (node.kind, node.links, node.target.clone());
        tree.insert(
            path.clone(),
            Entry {
                ino,
                kind,
                links,
                target,
            },
        );
        for (name, below) in &node.names {
            let len = path.len();
            path.extend_from_slice(name);
            path.push(b'/');
            self.tree_below(*below, path, tree);
            path.truncate(len);
        }
    }

    fn dirs(&self) -> Vec<Ino> {
        self.nodes
            .keys()
            .copied()
            .filter(|&ino| self.is_dir(ino))
            .collect()
    }

    /// Does one random operation on both.
    ///
    /// # Panics
    /// The answers differ.
    pub fn step(&mut self, fs: &dyn FileSystem, rng: &mut Rng, mix: Mix) {
        let dirs = self.dirs();
        let mut dir = || dirs[rng.below(dirs.len() as u64) as usize];
        let (a, b) = (dir(), dir());
        let (x, y) = (name(rng, mix), name(rng, mix));
        match rng.below(20) {
            0..=5 => self.create(fs, rng, a, &x),
            6 | 7 if dirs.len() < mix.dirs => self.mkdir(fs, a, &x),
            6..=8 => self.symlink(fs, rng, mix, a, &x),
            9 => self.link(fs, rng, a, &x),
            10..=12 => self.unlink(fs, a, &x),
            13 => self.rmdir(fs, a, &x),
            14 => assert_eq!(fs.lookup(a, &x).ok(), self.get(a, &x)),
            15 | 16 => self.rename(fs, (a, &x), (a, &y), RenameMode::Replace),
            17 => self.rename(fs, (a, &x), (b, &y), RenameMode::NoReplace),
            18 => self.rename(fs, (a, &x), (b, &y), RenameMode::Exchange),
            _ => self.rename(fs, (a, &x), (b, &y), RenameMode::Replace),
        }
    }

    fn check_new(&self, dir: Ino, name: &[u8]) -> Result<(), Errno> {
        self.get(dir, name).map_or(Ok(()), |_| Err(Errno::Exist))
    }

    /// Makes a file, FIFO, device or socket on both.
    ///
    /// # Panics
    /// The answers differ.
    pub fn create(&mut self, fs: &dyn FileSystem, rng: &mut Rng, dir: Ino, name: &[u8]) {
        let kinds = [
            FileKind::File,
            FileKind::File,
            FileKind::Fifo,
            FileKind::Char,
            FileKind::Socket,
        ];
        let kind = kinds[rng.below(5) as usize];
        let rdev = if kind == FileKind::Char { 0x0103 } else { 0 };
        let made = fs.create(dir, name, kind, 0o644, rdev, Creds::default());
        if let Some(attr) = agree(made, self.check_new(dir, name)) {
            assert_eq!((attr.kind, attr.rdev, attr.nlink), (kind, rdev, 1));
            self.add(dir, name, attr.ino, kind);
        }
    }

    /// Makes a directory on both.
    ///
    /// # Panics
    /// The answers differ.
    pub fn mkdir(&mut self, fs: &dyn FileSystem, dir: Ino, name: &[u8]) {
        let made = fs.mkdir(dir, name, 0o755, Creds::default());
        if let Some(attr) = agree(made, self.check_new(dir, name)) {
            assert_eq!((attr.kind, attr.nlink), (FileKind::Dir, 2));
            self.add(dir, name, attr.ino, FileKind::Dir);
        }
    }

    fn symlink(&mut self, fs: &dyn FileSystem, rng: &mut Rng, mix: Mix, dir: Ino, name: &[u8]) {
        let len = TARGET_BYTES[rng.below(TARGET_BYTES.len() as u64) as usize];
        let target = vec![b'a' + rng.below(26) as u8; len];
        let made = fs.symlink(dir, name, &target, Creds::default());
        if let Some(attr) = agree(made, self.check_new(dir, name)) {
            assert_eq!(attr.size, len as u64);
            match mix.fast_target {
                Some(fast) => assert_eq!(
                    attr.sectors,
                    if len <= fast { 0 } else { mix.target_sectors }
                ),
                None => assert!([0, mix.target_sectors].contains(&attr.sectors), "{attr:?}"),
            }
            self.add(dir, name, attr.ino, FileKind::Symlink);
            self.nodes.get_mut(&attr.ino).expect("there").target = target;
        }
    }

    fn link(&mut self, fs: &dyn FileSystem, rng: &mut Rng, dir: Ino, name: &[u8]) {
        let all: Vec<Ino> = self.nodes.keys().copied().collect();
        let ino = all[rng.below(all.len() as u64) as usize];
        let expected = if self.is_dir(ino) {
            Err(Errno::Perm)
        } else {
            self.check_new(dir, name)
        };
        if agree(fs.link(ino, dir, name), expected).is_some() {
            let kind = self.nodes[&ino].kind;
            self.add(dir, name, ino, kind);
        }
    }

    /// Removes a name on both.
    ///
    /// # Panics
    /// The answers differ.
    pub fn unlink(&mut self, fs: &dyn FileSystem, dir: Ino, name: &[u8]) {
        let expected = match self.get(dir, name) {
            None => Err(Errno::NoEnt),
            Some(ino) if self.is_dir(ino) => Err(Errno::IsDir),
            Some(_) => Ok(()),
        };
        if agree(fs.unlink(dir, name), expected).is_some() {
            self.take(dir, name);
        }
    }

    fn check_rmdir(&self, ino: Ino) -> Result<(), Errno> {
        match &self.nodes[&ino] {
            node if node.kind != FileKind::Dir => Err(Errno::NotDir),
            node if !node.names.is_empty() => Err(Errno::NotEmpty),
            _ => Ok(()),
        }
    }

    /// Removes a directory on both.
    ///
    /// # Panics
    /// The answers differ.
    pub fn rmdir(&mut self, fs: &dyn FileSystem, dir: Ino, name: &[u8]) {
        let expected = self
            .get(dir, name)
            .ok_or(Errno::NoEnt)
            .and_then(|ino| self.check_rmdir(ino));
        if agree(fs.rmdir(dir, name), expected).is_some() {
            self.take(dir, name);
        }
    }

    fn check_rename(&self, source: Ino, to: (Ino, &[u8]), mode: RenameMode) -> Result<(), Errno> {
        let Some(target) = self.get(to.0, to.1) else {
            return if mode == RenameMode::Exchange {
                Err(Errno::NoEnt)
            } else {
                Ok(())
            };
        };
        match (mode, self.is_dir(source), self.is_dir(target)) {
            (RenameMode::NoReplace, ..) => Err(Errno::Exist),
            (RenameMode::Exchange, ..) => Ok(()),
            _ if source == target => Ok(()),
            (_, true, false) => Err(Errno::NotDir),
            (_, false, true) => Err(Errno::IsDir),
            (_, true, true) => self.check_rmdir(target),
            (_, false, false) => Ok(()),
        }
    }

    /// Renames on both, unless that would put a directory into itself.
    ///
    /// # Panics
    /// The answers differ.
    pub fn rename(
        &mut self,
        fs: &dyn FileSystem,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
    ) {
        let (source, target) = (self.get(from.0, from.1), self.get(to.0, to.1));
        // The caller of a file system has to keep directories out of themselves.
        let loops = |ino: Option<Ino>, dir| {
            ino.is_some_and(|ino| self.is_dir(ino) && self.is_above(ino, dir))
        };
        if loops(source, to.0) || mode == RenameMode::Exchange && loops(target, from.0) {
            return;
        }
        let expected = source
            .ok_or(Errno::NoEnt)
            .and_then(|source| self.check_rename(source, to, mode));
        let done = agree(fs.rename(from.0, from.1, to.0, to.1, mode), expected);
        let (Some(()), Some(source)) = (done, source) else {
            return;
        };
        match target {
            Some(target) if target == source => {}
            Some(target) if mode == RenameMode::Exchange => {
                self.put(from.0, from.1, target);
                self.put(to.0, to.1, source);
                self.reparent(source, from.0, to.0);
                self.reparent(target, to.0, from.0);
            }
            _ => {
                if target.is_some() {
                    self.take(to.0, to.1);
                }
                self.nodes
                    .get_mut(&from.0)
                    .expect("there")
                    .names
                    .remove(from.1);
                self.put(to.0, to.1, source);
                self.reparent(source, from.0, to.0);
            }
        }
    }
}

fn node(kind: FileKind, parent: Ino) -> Node {
    let links = if kind == FileKind::Dir { 2 } else { 0 };
    Node {
        kind,
        links,
        target: Vec::new(),
        names: BTreeMap::new(),
        parent,
    }
}

/// The file system's answer if it is a success, once it agrees with what was expected.
#[track_caller]
fn agree<T: std::fmt::Debug>(got: FsResult<T>, expected: Result<(), Errno>) -> Option<T> {
    match (got, expected) {
        (Ok(value), Ok(())) => Some(value),
        (Err(fscore::FsError::Posix(e)), Err(errno)) if e == errno => None,
        (got, expected) => panic!("the file system says {got:?}, expected {expected:?}"),
    }
}

/// A random name of letters, digits and a few bytes above 127.
fn name(rng: &mut Rng, mix: Mix) -> Vec<u8> {
    let number = rng.below(mix.names);
    let mut name = format!("{number:x}").into_bytes();
    let wanted = number.wrapping_mul(0x9E37_79B9) % mix.longest + 1;
    while (name.len() as u64) < wanted {
        name.push(if name.len() % 3 == 0 {
            0xC3
        } else {
            b'g' + (number % 19) as u8
        });
    }
    name
}
