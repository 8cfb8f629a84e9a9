//! What recovery gave, as a program sees it: the names, attributes and bytes of a mounted volume.

use super::model::Xattrs;
use base::Ino;
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::{Errno, FileKind, FsError, FsResult, OpenFlags, Vfs};

/// One name that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundEntry {
    /// Kind of the inode.
    pub kind: FileKind,
    /// Inode number and generation.
    pub ident: (Ino, u32),
    /// Permission bits.
    pub perm: u16,
    /// Number of links; a directory has 2 and one for each directory in it.
    pub nlink: u32,
    /// Where a symbolic link leads; empty for all others.
    pub target: String,
    /// Size in bytes.
    pub size: u64,
    /// Extended attributes, if they were asked for.
    pub xattrs: Xattrs,
}

/// All names below the directory of a task, by their paths in it.
pub type FoundView = BTreeMap<String, FoundEntry>;

/// Where a judge finds what is left of the directories of tasks.
pub trait Finder {
    /// The names below `root`, as [`names`] says.
    ///
    /// # Errors
    /// What cannot be read, in words.
    fn names(&self, root: &str, with_xattrs: bool) -> Result<FoundView, String>;
    /// All bytes of a file.
    ///
    /// # Errors
    /// What cannot be read, in words.
    fn bytes(&self, path: &str) -> Result<Vec<u8>, String>;
}

impl Finder for Arc<Vfs> {
    fn names(&self, root: &str, with_xattrs: bool) -> Result<FoundView, String> {
        names(self, root, with_xattrs).map_err(|e| e.to_string())
    }

    fn bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        read_file(self, path).map_err(|e| e.to_string())
    }
}

/// More names than any task makes. A tree with more is a circle.
const ENTRIES_MAX: usize = 10_000;
/// More bytes than any file of a task has.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads the names below `root`; there are none if it does not exist. Extended attributes are read
/// only `with_xattrs`.
///
/// # Errors
/// Something cannot be read, or there are more names than any task makes.
pub fn names(vfs: &Arc<Vfs>, root: &str, with_xattrs: bool) -> FsResult<FoundView> {
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
        let xattrs = match attr.kind {
            FileKind::File | FileKind::Dir if with_xattrs => xattrs(vfs, &full)?,
            _ => Xattrs::new(),
        };
        let entry = FoundEntry {
            kind: attr.kind,
            ident: (attr.ino, attr.generation),
            perm: attr.perm,
            nlink: attr.nlink,
            target,
            size: attr.size,
            xattrs,
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

/// Reads extended attributes. One outside of `user.` was not set by a task; it keeps its whole name
/// and so fits no state.
fn xattrs(vfs: &Arc<Vfs>, path: &str) -> FsResult<Xattrs> {
    let mut found = Xattrs::new();
    for name in vfs.llistxattr(path)? {
        let value = vfs.lgetxattr(path, &name)?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let short = name.strip_prefix("user.").map(String::from);
        found.insert(short.unwrap_or(name), value);
    }
    Ok(found)
}

/// Reads all bytes of a file.
///
/// # Errors
/// The file cannot be read, or is larger than any that a task makes.
pub fn read_file(vfs: &Arc<Vfs>, path: &str) -> FsResult<Vec<u8>> {
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
