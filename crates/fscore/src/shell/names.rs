//! Names and targets that can be given, and the order of locks on inodes.
//!
//! `vfs` lets no name through that is empty or holds `/` or NUL. What else cannot be given depends
//! on the operation, and is refused here before anything is looked up.

use crate::Errno;
use base::Ino;
use rt::{RwLock, RwLockWriteGuard};
use smallvec::SmallVec;

/// True for `.` and `..`, which can be neither given nor taken away.
pub fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Checks the name of a directory to be removed.
///
/// # Errors
/// EINVAL for `.`, ENOTEMPTY for `..`.
pub fn check_removed_dir(name: &[u8]) -> Result<(), Errno> {
    match name {
        b"." => Err(Errno::Inval),
        b".." => Err(Errno::NotEmpty),
        _ => Ok(()),
    }
}

/// Checks both names of a rename.
///
/// # Errors
/// EBUSY for `.` and `..`.
pub fn check_renamed(from: &[u8], to: &[u8]) -> Result<(), Errno> {
    match is_dot(from) || is_dot(to) {
        true => Err(Errno::Busy),
        false => Ok(()),
    }
}

/// Bytes of the longest path, with the NUL behind it (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4096;

/// Checks the target of a new symbolic link, which must be shorter than a block, because a NUL
/// follows it there, and no longer than a path in Linux.
///
/// # Errors
/// ENOENT for an empty one, EINVAL for one with a NUL, ENAMETOOLONG.
pub fn check_target(target: &[u8], block_bytes: usize) -> Result<(), Errno> {
    match target {
        b"" => Err(Errno::NoEnt),
        _ if target.contains(&0) => Err(Errno::Inval),
        _ if target.len() >= block_bytes.min(PATH_BYTES_MAX) => Err(Errno::NameTooLong),
        _ => Ok(()),
    }
}

/// Gates that a rename takes, which takes the most.
const GATES_COMMON: usize = 4;

/// Gates that are held.
pub struct Gates<'a>(SmallVec<[(Ino, RwLockWriteGuard<'a, ()>); GATES_COMMON]>);

impl Gates<'_> {
    /// Lets go of all but that of `ino`.
    pub fn keep(&mut self, ino: Ino) {
        self.0.retain(|(of, _)| *of == ino);
    }
}

/// Locks the gates of inodes exclusively, each once and by ascending inode number, so that two
/// operations on the same inodes never wait for each other.
pub fn lock_gates<'a>(inodes: impl IntoIterator<Item = (Ino, &'a RwLock<()>)>) -> Gates<'a> {
    let mut order: SmallVec<[_; GATES_COMMON]> = inodes.into_iter().collect();
    order.sort_by_key(|(ino, _)| *ino);
    order.dedup_by_key(|(ino, _)| *ino);
    let locked = order.into_iter().map(|(ino, gate)| (ino, gate.write()));
    Gates(locked.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_given() {
        let removed = [&b"."[..], b"..", b"..."].map(check_removed_dir);
        assert_eq!(removed, [Err(Errno::Inval), Err(Errno::NotEmpty), Ok(())]);
        let renamed = [(&b"a"[..], &b".."[..]), (b".", b"b"), (b"a", b"b")];
        let renamed = renamed.map(|(from, to)| check_renamed(from, to).is_err());
        assert_eq!(renamed, [true, true, false]);
        let targets = [&b""[..], b"a\0", b"12345678", b"1234567"].map(|t| check_target(t, 8));
        let refused = [Errno::NoEnt, Errno::Inval, Errno::NameTooLong].map(Err);
        assert_eq!((&targets[..3], targets[3]), (&refused[..], Ok(())));
    }

    #[test]
    fn each_gate_is_locked_once() {
        let (a, b) = (RwLock::new(()), RwLock::new(()));
        let gates = lock_gates([(Ino(7), &a), (Ino(3), &b), (Ino(7), &a)]);
        assert_eq!(gates.0.len(), 2);
    }
}
