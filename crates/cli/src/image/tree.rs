//! Walks through a tree of an image, in the order of names. Each directory is read once, and its
//! inodes are opened by number, so the cost depends neither on the length of a path nor on whether
//! a directory has an index. An entry that cannot be read is reported, and the walk goes on behind
//! it.

use base::plain::shown;
use rig::{Attr, FileKind, FileSystem, FsError, FsResult, Ino};
use std::collections::BTreeSet;

/// Entries that are asked for at once.
const CHUNK: usize = 1024;

/// One file of any kind.
pub struct Node {
    /// Path in the image.
    pub path: Vec<u8>,
    /// What `lstat` tells.
    pub attr: Attr,
    /// Number of directories above the file up to the one where the walk began, that one included:
    /// 1 for the entries of that directory.
    pub depth: usize,
    /// The directory has two entries of this name, and this is the second.
    pub repeated: bool,
}

impl Node {
    /// The last component of its path.
    pub fn name(&self) -> &[u8] {
        name_of(&self.path)
    }
}

/// What a walk meets.
pub enum Met<'a> {
    /// A file of any kind.
    File(&'a Node),
    /// Something at this path that cannot be read.
    Trouble(&'a [u8], FsError),
}

/// How the walk goes on: into the directory that was met, or past it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Into it, if it is one.
    Into,
    /// Past it.
    Past,
}

/// A directory whose entries are being gone through.
struct Level {
    path: Vec<u8>,
    /// Last name first.
    names: Vec<(Vec<u8>, Ino)>,
    last: Option<Vec<u8>>,
}

/// Calls `meet` for everything below `dir`, for a directory before its entries. A directory with
/// two names is met at the first one only, because a walk through an image in which directories
/// lead to each other would not end.
///
/// # Errors
/// Those of `meet`, and no others.
pub fn walk<E>(
    fs: &dyn FileSystem,
    dir: &Node,
    meet: &mut dyn FnMut(Met<'_>) -> Result<Next, E>,
) -> Result<(), E> {
    let mut seen = BTreeSet::from([dir.attr.ino]);
    let mut open = vec![enter(fs, &dir.path, dir.attr.ino, meet)?];
    while let Some(level) = open.last_mut() {
        let Some((name, ino)) = level.names.pop() else {
            open.pop();
            continue;
        };
        let path = join(&level.path, &name);
        let repeated = level.last.as_ref() == Some(&name);
        level.last = Some(name);
        let attr = match fs.getattr(ino) {
            Ok(attr) => attr,
            Err(e) => {
                meet(Met::Trouble(&path, e))?;
                continue;
            }
        };
        if attr.kind == FileKind::Dir && !seen.insert(ino) {
            let why = format!("directory {ino} has another name already");
            meet(Met::Trouble(&path, FsError::corrupt(why)))?;
            continue;
        }
        let depth = open.len();
        let node = Node {
            path,
            attr,
            depth,
            repeated,
        };
        let next = meet(Met::File(&node))?;
        if next == Next::Into && node.attr.kind == FileKind::Dir {
            open.push(enter(fs, &node.path, ino, meet)?);
        }
    }
    Ok(())
}

/// Reads the names of a directory; entries whose name is impossible are reported and left out.
fn enter<E>(
    fs: &dyn FileSystem,
    path: &[u8],
    dir: Ino,
    meet: &mut dyn FnMut(Met<'_>) -> Result<Next, E>,
) -> Result<Level, E> {
    let mut names = Vec::new();
    if let Err(e) = read(fs, dir, &mut names) {
        meet(Met::Trouble(path, e))?;
    }
    // Such a name would lead out of the directory, here and on the host.
    let is_name = |n: &[u8]| !n.is_empty() && !n.contains(&b'/') && !n.contains(&0);
    for (bad, _) in names.iter().filter(|(name, _)| !is_name(name)) {
        let why = format!("the name `{}` cannot be", shown(bad));
        meet(Met::Trouble(path, FsError::corrupt(why)))?;
    }
    names.retain(|(name, _)| is_name(name) && name != b"." && name != b"..");
    // Equal names stay in the order of the directory: the first is the one that a lookup finds.
    names.reverse();
    names.sort_by(|a, b| b.0.cmp(&a.0));
    Ok(Level {
        path: path.to_vec(),
        names,
        last: None,
    })
}

/// Reads names as far as they can be read.
fn read(fs: &dyn FileSystem, dir: Ino, names: &mut Vec<(Vec<u8>, Ino)>) -> FsResult<()> {
    let mut from = 0;
    loop {
        let chunk = match fs.readdir(dir, from, CHUNK) {
            // What lies before the place at fault comes one by one.
            Err(e) => match fs.readdir(dir, from, 1) {
                Ok(chunk) if !chunk.is_empty() => chunk,
                _ => return Err(e),
            },
            Ok(chunk) => chunk,
        };
        let Some(next) = chunk.last().map(|last| last.next) else {
            return Ok(());
        };
        names.extend(chunk.into_iter().map(|entry| (entry.name, entry.ino)));
        if next <= from {
            let why = format!("entry {next} follows on {from}");
            return Err(FsError::corrupt(why));
        }
        from = next;
    }
}

/// `dir/name`.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The last component.
pub fn name_of(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |i| i + 1);
    let path = &path[..end];
    let start = path.iter().rposition(|&b| b == b'/').map_or(0, |i| i + 1);
    &path[start..]
}
