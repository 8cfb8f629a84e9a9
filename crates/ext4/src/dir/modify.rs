//! Removing entries of a directory, and pointing entries and `..` to other inodes.

use super::lookup::{Entry, Found, find};
use super::{DirIo, DirRead, corrupt, is_dot, lookup};
use base::Ino;
use fscore::{Errno, FileKind, FsError, FsResult};

/// Removes the entry called `name` (not `.` or `..`) and answers what it pointed to.
///
/// # Errors
/// ENOENT; I/O errors; `Corrupt`.
pub fn remove(io: &mut dyn DirIo, name: &[u8]) -> FsResult<Found> {
    if is_dot(name) {
        return Err(Errno::Inval.into());
    }
    let entry = find(io, name)?.ok_or(Errno::NoEnt)?;
    let found = entry.found();
    remove_entry(io, entry)?;
    Ok(found)
}

/// Removes an entry (not `.` or `..`) that is current.
///
/// # Errors
/// Errors of the journal.
pub fn remove_entry(io: &mut dyn DirIo, entry: Entry) -> FsResult<()> {
    debug_assert!(
        matches!(entry.is_current(io), Ok(true) | Err(_)),
        "the entry is current"
    );
    entry.leaf.remove(io, entry.spot)
}

/// Points the entry called `name` to another inode; answers what it pointed to.
///
/// # Errors
/// ENOENT; I/O errors; `Corrupt`.
pub fn replace(io: &mut dyn DirIo, name: &[u8], ino: Ino, kind: FileKind) -> FsResult<Found> {
    let Entry { leaf, spot } = find(io, name)?.ok_or(Errno::NoEnt)?;
    leaf.set_target(io, spot, ino, kind)?;
    Ok(Found {
        ino: spot.ino,
        kind: spot.kind,
    })
}

/// The inode that `..` points to.
///
/// # Errors
/// I/O errors; `Corrupt`.
pub fn parent(io: &dyn DirRead) -> FsResult<Ino> {
    let found = lookup(io, b"..")?;
    found.map(|found| found.ino).ok_or_else(|| no_dotdot(io))
}

/// Points `..` to another directory.
///
/// # Errors
/// I/O errors; `Corrupt`.
pub fn set_parent(io: &mut dyn DirIo, parent: Ino) -> FsResult<()> {
    let Entry { leaf, spot } = find(io, b"..")?.ok_or_else(|| no_dotdot(io))?;
    leaf.set_target(io, spot, parent, FileKind::Dir)
}

fn no_dotdot(io: &dyn DirRead) -> FsError {
    corrupt(io.facts(), 0, "no entry \"..\"")
}
