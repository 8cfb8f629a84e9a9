//! Core and persistence operations, each with the operations that make what it needs (phase 4 of
//! ACE: dependencies).

use super::bound::{AceBound, Core, Points};
use crate::content::Content;
use crate::model::{State, parent};
use crate::ops::Op;
use crate::subject::text::UNIT;
use vfs::FileKind;

/// Bytes in units of the model.
const fn units(bytes: u64) -> u64 {
    bytes / UNIT
}

const PAGE: u64 = units(4096);
/// Bytes that a file has which is overwritten or cut: at least two pages.
const FILLED: u64 = 2 * PAGE;
/// Less than a page, so that neither end of a range is at the end of a page.
const PART: u64 = units(1536);

/// Operations that belong together: dependencies, then those that need them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fragment {
    pub ops: Vec<Op>,
    /// How many of them only make what the others need.
    pub needed: usize,
    /// The names of the bound that they name, in order.
    pub used: Vec<&'static str>,
    /// It renames a directory.
    pub moves_dir: bool,
}

/// Collects operations that are possible one after the other.
struct Build {
    state: State,
    ops: Vec<Op>,
}

impl Build {
    fn kind(&self, path: &str) -> Option<FileKind> {
        self.state.view.get(path).map(|e| e.kind)
    }

    /// Adds `op` if it is possible.
    fn step(&mut self, op: Op) -> Option<()> {
        self.state.allows(&op).then(|| {
            self.state.apply(&op);
            self.ops.push(op);
        })
    }

    /// Makes the directory if it does not exist.
    fn dir(&mut self, path: &str) -> Option<()> {
        match self.kind(path) {
            Some(FileKind::Dir) => Some(()),
            _ => self.step(Op::Mkdir(path.into())),
        }
    }

    /// Makes the file if it does not exist.
    fn file(&mut self, path: &str) -> Option<()> {
        self.dir(parent(path))?;
        match self.kind(path) {
            Some(FileKind::File) => Some(()),
            Some(FileKind::Symlink) => {
                self.step(Op::Unlink(path.into()))?;
                self.step(Op::Create(path.into()))
            }
            _ => self.step(Op::Create(path.into())),
        }
    }

    /// Makes the directory of `path`, whose name must be free.
    fn free(&mut self, path: &str) -> Option<()> {
        self.dir(parent(path))?;
        match self.kind(path) {
            None => Some(()),
            Some(FileKind::Dir) => self.step(Op::Rmdir(path.into())),
            Some(_) => self.step(Op::Unlink(path.into())),
        }
    }

    fn size(&self, path: &str) -> u64 {
        let entry = self.state.view.get(path);
        let content = entry.and_then(|e| self.state.contents.get(&e.id));
        content.map_or(0, Content::size)
    }

    /// Makes the file if it does not exist, and gives it content if it has too little.
    fn filled(&mut self, path: &str) -> Option<()> {
        self.file(path)?;
        match self.size(path) {
            size if size >= FILLED => Some(()),
            size => self.step(write(path, size, FILLED - size)),
        }
    }
}

fn write(path: &str, offset: u64, len: u64) -> Op {
    let path = path.into();
    Op::Write { path, offset, len }
}

fn truncate(path: &str, size: u64) -> Op {
    let path = path.into();
    Op::Truncate { path, size }
}

/// Makes a fragment: `needs` adds what must be there, `op` gives the operation that follows.
fn fragment(
    state: &State,
    used: &[&'static str],
    needs: impl FnOnce(&mut Build) -> Option<()>,
    op: impl FnOnce(&Build) -> Op,
) -> Option<Fragment> {
    let mut build = Build {
        state: state.clone(),
        ops: Vec::new(),
    };
    needs(&mut build)?;
    let needed = build.ops.len();
    let op = op(&build);
    let moves_dir =
        matches!(&op, Op::Rename { from, .. } if build.kind(from) == Some(FileKind::Dir));
    build.step(op)?;
    Some(Fragment {
        ops: build.ops,
        needed,
        used: used.to_vec(),
        moves_dir,
    })
}

/// All forms of a core operation that are possible in a state.
pub(super) fn ways(core: Core, bound: &AceBound, state: &State) -> Vec<Fragment> {
    let files = bound.files.iter().copied();
    let dirs = bound.dirs.iter().copied();
    let ways: Vec<Option<Fragment>> = match core {
        Core::Creat => files
            .map(|f| fragment(state, &[f], |b| b.free(f), |_| Op::Create(f.into())))
            .collect(),
        Core::Mkdir => dirs
            .map(|d| fragment(state, &[d], |b| b.free(d), |_| Op::Mkdir(d.into())))
            .collect(),
        Core::Write => files.flat_map(|f| writes(f, bound, state)).collect(),
        Core::Mmapwrite => files
            .map(|f| fragment(state, &[f], |b| b.filled(f), |_| write(f, PAGE, PAGE)))
            .collect(),
        Core::Link => pairs(bound)
            .map(|(from, to)| {
                let needs = |b: &mut Build| b.file(from).and_then(|()| b.free(to));
                fragment(state, &[from, to], needs, |_| Op::Link {
                    from: from.into(),
                    to: to.into(),
                })
            })
            .collect(),
        Core::Symlink => files
            .map(|f| {
                fragment(
                    state,
                    &[f],
                    |b| b.free(f),
                    |_| Op::Symlink {
                        target: "target".into(),
                        to: f.into(),
                    },
                )
            })
            .collect(),
        Core::Rename => renames(bound, state),
        Core::Unlink => files
            .map(|f| fragment(state, &[f], |b| b.file(f), |_| Op::Unlink(f.into())))
            .collect(),
        Core::Rmdir => dirs
            .map(|d| fragment(state, &[d], |b| b.dir(d), |_| Op::Rmdir(d.into())))
            .collect(),
        Core::Truncate => files.flat_map(|f| truncates(f, bound, state)).collect(),
        Core::Falloc => files.flat_map(|f| fallocs(f, bound, state)).collect(),
        Core::Setxattr => {
            let small = files.chain(dirs).map(|p| set_xattr(state, p, bound, SMALL));
            let large = bound.files.iter().filter(|_| bound.variants);
            let large = large.map(|p| set_xattr(state, p, bound, LARGE));
            small.chain(large).collect()
        }
        Core::Removexattr => files
            .chain(dirs)
            .map(|p| remove_xattr(state, p, bound))
            .collect(),
    };
    ways.into_iter().flatten().collect()
}

/// Two different files.
fn pairs(bound: &AceBound) -> impl Iterator<Item = (&'static str, &'static str)> {
    let files = bound.files;
    let pairs = files.iter().flat_map(|a| files.iter().map(|b| (*a, *b)));
    pairs.filter(|(a, b)| a != b)
}

/// Appends; with all variants it also writes over the start, middle and end, and beyond a hole.
fn writes(f: &'static str, bound: &AceBound, state: &State) -> Vec<Option<Fragment>> {
    let append = fragment(state, &[f], |b| b.file(f), |b| write(f, b.size(f), PAGE));
    let mut ways = vec![append];
    if bound.variants {
        let over =
            |op: &dyn Fn(u64) -> Op| fragment(state, &[f], |b| b.filled(f), |b| op(b.size(f)));
        ways.push(over(&|_| write(f, 0, PART)));
        ways.push(over(&|_| write(f, PAGE - PART / 2, PART)));
        ways.push(over(&|size| write(f, size - PART / 2, PART)));
        ways.push(over(&|size| write(f, size + PAGE, PART)));
    }
    ways
}

/// Truncates to a part of a page; with all variants also to nothing, and to more than the file has.
fn truncates(f: &'static str, bound: &AceBound, state: &State) -> Vec<Option<Fragment>> {
    let to = |size: &dyn Fn(u64) -> u64| {
        fragment(
            state,
            &[f],
            |b| b.filled(f),
            |b| truncate(f, size(b.size(f))),
        )
    };
    let mut ways = vec![to(&|size| size - PAGE - PART)];
    if bound.variants {
        ways.push(to(&|_| 0));
        ways.push(to(&|size| size + PAGE + PART));
    }
    ways
}

/// Allocates beyond the end, keeping the size; with all variants also growing it, and in a hole.
fn fallocs(f: &'static str, bound: &AceBound, state: &State) -> Vec<Option<Fragment>> {
    let falloc = |offset: u64, keep_size: bool| Op::Fallocate {
        path: f.into(),
        offset,
        len: FILLED,
        keep_size,
    };
    let filled = |b: &mut Build| b.filled(f);
    let mut ways = vec![fragment(state, &[f], filled, |b| falloc(b.size(f), true))];
    if bound.variants {
        ways.push(fragment(state, &[f], filled, |b| falloc(b.size(f), false)));
        let hole = |b: &mut Build| {
            b.filled(f)?;
            b.step(truncate(f, b.size(f) + 2 * FILLED))
        };
        let inside = |b: &Build| falloc(b.size(f) - FILLED - PAGE, true);
        ways.push(fragment(state, &[f], hole, inside));
    }
    ways
}

/// Bytes of a value that fits into an inode, and of one that does not fit.
const SMALL: usize = 8;
const LARGE: usize = 1000;
const XATTR: &str = "x";

fn named(b: &mut Build, path: &str, bound: &AceBound) -> Option<()> {
    match bound.dirs.contains(&path) {
        true => b.dir(path),
        false => b.file(path),
    }
}

fn xattr(path: &str, bytes: usize) -> Op {
    Op::SetXattr {
        path: path.into(),
        name: XATTR.into(),
        value: vec![b'v'; bytes],
    }
}

fn set_xattr(
    state: &State,
    path: &'static str,
    bound: &AceBound,
    bytes: usize,
) -> Option<Fragment> {
    let needs = |b: &mut Build| named(b, path, bound);
    fragment(state, &[path], needs, |_| xattr(path, bytes))
}

fn remove_xattr(state: &State, path: &'static str, bound: &AceBound) -> Option<Fragment> {
    let remove = || Op::RemoveXattr {
        path: path.into(),
        name: XATTR.into(),
    };
    let needs = |b: &mut Build| {
        named(b, path, bound)?;
        match b.state.allows(&remove()) {
            true => Some(()),
            false => b.step(xattr(path, SMALL)),
        }
    };
    fragment(state, &[path], needs, |_| remove())
}

fn renames(bound: &AceBound, state: &State) -> Vec<Option<Fragment>> {
    let op = |from: &str, to: &str| Op::Rename {
        from: from.into(),
        to: to.into(),
    };
    let mut ways = Vec::new();
    for (from, to) in pairs(bound) {
        let used = [from, to];
        let free = |b: &mut Build| b.file(from).and_then(|()| b.free(to));
        ways.push(fragment(state, &used, free, |_| op(from, to)));
        let over = |b: &mut Build| b.file(from).and_then(|()| b.file(to));
        ways.push(fragment(state, &used, over, |_| op(from, to)));
    }
    for from in bound.dirs {
        for to in bound.dirs.iter().filter(|to| *to != from) {
            let used = [*from, *to];
            let free = |b: &mut Build| b.dir(from).and_then(|()| b.free(to));
            ways.push(fragment(state, &used, free, |_| op(from, to)));
            if bound.variants {
                let over = |b: &mut Build| b.dir(from).and_then(|()| b.dir(to));
                ways.push(fragment(state, &used, over, |_| op(from, to)));
            }
        }
    }
    ways
}

/// All persistence operations that may stand at a point. `names` are those that operations named,
/// the newest last.
pub(super) fn persistence(
    points: &Points,
    bound: &AceBound,
    state: &State,
    names: &[&'static str],
) -> Vec<Fragment> {
    let mut ways = Vec::new();
    if points.none {
        ways.push(Some(Fragment {
            ops: Vec::new(),
            needed: 0,
            used: Vec::new(),
            moves_dir: false,
        }));
    }
    let is_dir = |name: &&'static str| bound.dirs.contains(name);
    let (dirs, files): (Vec<_>, Vec<_>) = names.iter().copied().partition(is_dir);
    for &file in &files {
        if points.fsync {
            ways.push(fsync(state, file));
        }
        if points.fdatasync {
            let needs = |b: &mut Build| b.file(file);
            ways.push(fragment(state, &[file], needs, |_| {
                Op::Fdatasync(file.into())
            }));
        }
        if points.sibling {
            let beside = |f: &&&'static str| **f != file && parent(f) == parent(file);
            ways.extend(bound.files.iter().filter(beside).map(|f| fsync(state, f)));
        }
    }
    if points.fsync {
        ways.extend(dirs.iter().map(|dir| sync_dir(state, dir, &[dir])));
    }
    if points.parent {
        for name in names {
            let above = parent(name);
            let used = bound.dirs.iter().copied().find(|dir| *dir == above);
            ways.push(sync_dir(state, above, used.as_slice()));
        }
    }
    if points.sync {
        ways.push(fragment(state, &[], |_| Some(()), |_| Op::Sync));
    }
    let mut found: Vec<Fragment> = Vec::new();
    for way in ways.into_iter().flatten() {
        if !found.iter().any(|f| f.ops == way.ops) {
            found.push(way);
        }
    }
    found
}

fn fsync(state: &State, file: &'static str) -> Option<Fragment> {
    fragment(state, &[file], |b| b.file(file), |_| Op::Fsync(file.into()))
}

fn sync_dir(state: &State, dir: &str, used: &[&'static str]) -> Option<Fragment> {
    fragment(state, used, |b| b.dir(dir), |_| Op::SyncDir(dir.into()))
}
