//! Names: create, link, unlink, rename, lookup.
//!
//! Invariants:
//! - R1 gates are taken by ascending inode number, and under them each name is looked up again,
//!   because it may stand for another inode by then;
//! - R2 the `Op` that removes the last link of an inode also frees the inode ([`last_name`]), or
//!   puts it on the list of orphans, so that a mount after a cut frees it;
//! - R3 an operation that fails with a POSIX error changes nothing;
//! - R4 the parent and name that an inode keeps (`i_pino`, `i_name`) are those of one of its names,
//!   or the inode is marked `LOST_PINO`. A name that was given or changed after the inode was made
//!   needs a checkpoint at the next fsync, because roll-forward can add a name but not remove one.

mod last_name;
mod links;
mod make;
mod rename;
mod symlink;
mod unlink;

use crate::F2fs;
use crate::dir::Found;
use crate::inode::{Inode, Use};
use crate::ops::Op;
use base::Ino;
use base::cost::f2fs as cost;
use fscore::shell::names::{self, Gates};
use fscore::{DirEntry, Errno, FsError, FsResult};
use std::sync::Arc;

/// Longest name, bytes.
const NAME_BYTES_MAX: usize = ondisk::f2fs::NAME_BYTES_MAX;

/// What a name stands for.
struct Named {
    inode: Arc<Inode>,
    found: Found,
}

impl F2fs {
    pub(crate) fn op_lookup(&self, dir: Ino, name: &[u8]) -> FsResult<Ino> {
        let dir = self.directory(dir)?;
        dir.check_use(Use::Read)?;
        if name == b"." {
            return Ok(dir.ino);
        }
        let _gate = dir.gate.read();
        let found = self.find(&dir, name)?.ok_or_else(|| {
            // What is there, a kernel has in its cache of names, which `vfs` charges.
            rt::charge(cost::LOOKUP);
            Errno::NoEnt
        })?;
        Ok(found.inode.ino)
    }

    pub(crate) fn op_readdir(&self, dir: Ino, from: u64, max: usize) -> FsResult<Vec<DirEntry>> {
        let dir = self.directory(dir)?;
        dir.check_use(Use::Read)?;
        self.limit_accesses();
        let _gate = dir.gate.read();
        if dir.core().fields.links == 0 {
            // Removed, but open: nothing is in it any more.
            return Ok(Vec::new());
        }
        let found = self.dir_list(&dir, from, max)?;
        rt::charge_each(cost::READDIR_ENTRY, found.len() as u64);
        self.note_access(&dir);
        Ok(found)
    }

    /// The directory with this number.
    fn directory(&self, ino: Ino) -> FsResult<Arc<Inode>> {
        let inode = self.inode(ino)?;
        match inode.is_dir() {
            true => Ok(inode),
            false => Err(Errno::NotDir.into()),
        }
    }

    /// The same, to change names in it.
    fn directory_to_change(&self, ino: Ino) -> FsResult<Arc<Inode>> {
        let dir = self.directory(ino)?;
        dir.check_use(Use::Change)?;
        Ok(dir)
    }

    /// What `name` stands for. The directory's gate is held.
    fn find(&self, dir: &Inode, name: &[u8]) -> FsResult<Option<Named>> {
        let Some(found) = self.dir_find(dir, name)? else {
            return Ok(None);
        };
        match self.inode(found.ino) {
            Ok(inode) => Ok(Some(Named { inode, found })),
            Err(FsError::Posix(Errno::Stale)) => {
                let name = name.escape_ascii();
                Err(FsError::corrupt(format!(
                    "directory inode {}: entry \"{name}\" points to inode {}, which is not in use",
                    dir.ino, found.ino
                )))
            }
            Err(e) => Err(e),
        }
    }

    /// What `name` stands for at this moment. No gate is held.
    fn peek(&self, dir: &Inode, name: &[u8]) -> FsResult<Option<Arc<Inode>>> {
        let _gate = dir.gate.read();
        Ok(self.find(dir, name)?.map(|named| named.inode))
    }

    /// A name can be made here. The gate is held.
    fn check_new_name(&self, dir: &Inode, name: &[u8]) -> FsResult<()> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NameTooLong.into());
        }
        if self.dir_find(dir, name)?.is_some() {
            return Err(Errno::Exist.into());
        }
        check_alive(dir)
    }

    /// Changes names in one `Op`. An error that is no POSIX answer may leave half of it: no
    /// checkpoint may save that.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&Op<'_>) -> FsResult<T>) -> FsResult<T> {
        let answer = self.with_op(change);
        if let Err(e) = &answer
            && !matches!(e, FsError::Posix(_))
        {
            self.fail(e);
        }
        answer
    }

    /// Names in `dir` have changed.
    fn put_dir(&self, op: &Op<'_>, dir: &Inode) -> FsResult<()> {
        {
            let mut core = dir.core();
            core.touch(true);
            core.changed();
        }
        self.put_inode(op, dir)
    }
}

/// The directory has not been removed.
fn check_alive(dir: &Inode) -> FsResult<()> {
    match dir.core().fields.links {
        0 => Err(Errno::NoEnt.into()),
        _ => Ok(()),
    }
}

/// Takes the gates of these inodes, each once (R1).
fn lock_gates<'a>(inodes: &[&'a Inode]) -> Gates<'a> {
    names::lock_gates(inodes.iter().map(|inode| (inode.ino, &inode.gate)))
}
