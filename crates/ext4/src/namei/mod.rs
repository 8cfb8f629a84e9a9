//! Operations on names: lookup, create, mkdir, symlink, link, unlink, rmdir, rename, readdir.
//!
//! Each operation changes the file system inside one handle, so a crash leaves all of it or
//! nothing.
//!
//! Invariants:
//! - D1 the gates of all inodes that an operation changes are held from before the last look at the
//!   names until the handle is finished, taken by ascending inode number. The inode of a name is
//!   first looked up under the directory's gate alone, so it is looked up again once all gates are
//!   held;
//! - D2 an inode whose last name goes is an orphan from the same handle on; it is freed after
//!   handle and gates, unless it is open;
//! - D3 steps that can fail for want of space come before those that cannot, or are undone, before
//!   a POSIX error is answered (tx-T1);
//! - D4 links of a directory: 2 and one per subdirectory; 1 stands for "too many to count" (feature
//!   `dir_nlink`, beyond 65000).
//!
//! Credits of a handle are counted in [`credits`].

mod credits;
mod links;
mod list;
mod make;
mod rename;
mod symlink;
mod unlink;

pub(crate) use credits::largest_credits;

use crate::dir::{Probe, Vacancy};
use crate::{Ext4, Inode, dir};
use base::Ino;
use fscore::shell::names;
use fscore::{Errno, FsError, FsResult};
use ondisk::ext4 as disk;
use std::sync::Arc;

impl Ext4 {
    pub(crate) fn op_lookup(&self, dir: Ino, name: &[u8]) -> FsResult<Ino> {
        let dir = self.directory(dir)?;
        let _gate = dir.gate.read();
        let found = self.find(&dir, name)?.ok_or_else(|| {
            // What is there, a kernel has in its cache of names, which `vfs` charges.
            rt::charge(base::cost::ext4::LOOKUP);
            Errno::NoEnt
        })?;
        Ok(found.ino)
    }

    /// The directory with this number.
    fn directory(&self, ino: Ino) -> FsResult<Arc<Inode>> {
        let inode = self.inode(ino)?;
        match inode.is_dir() {
            true => Ok(inode),
            false => Err(Errno::NotDir.into()),
        }
    }

    /// The inode that `name` leads to. The directory's gate is held.
    fn find(&self, dir: &Inode, name: &[u8]) -> FsResult<Option<Arc<Inode>>> {
        match dir::lookup(&self.view_dir(dir), name)? {
            Some(found) => self.behind(dir, name, found.ino).map(Some),
            None => Ok(None),
        }
    }

    /// The inode that an entry called `name` points to.
    fn behind(&self, dir: &Inode, name: &[u8], ino: Ino) -> FsResult<Arc<Inode>> {
        let bad = |what: &str| {
            let name = name.escape_ascii();
            FsError::corrupt(format!(
                "directory inode {}: entry \"{name}\" points to inode {ino}, {what}",
                dir.ino
            ))
        };
        if ino < self.geo.first_ino() && ino != disk::ROOT_INO {
            return Err(bad("which is reserved"));
        }
        if Some(ino) == self.orphan_file_ino() {
            return Err(bad("the orphan file"));
        }
        match self.inode(ino) {
            Err(FsError::Posix(Errno::Stale)) => Err(bad("which is not in use")),
            other => other,
        }
    }

    /// What a search for `name` finds at this moment, and the inode behind it. No gate is held.
    fn peek(&self, dir: &Inode, name: &[u8]) -> FsResult<(Probe, Option<Arc<Inode>>)> {
        let _gate = dir.gate.read();
        self.search_name(dir, name)
    }

    /// What a search for `name` finds, and the inode behind it. The directory's gate is held.
    fn search_name(&self, dir: &Inode, name: &[u8]) -> FsResult<(Probe, Option<Arc<Inode>>)> {
        let probe = dir::probe(&self.view_dir(dir), name)?;
        let inode = match &probe {
            Probe::Taken(entry) => Some(self.behind(dir, name, entry.found().ino)?),
            Probe::Free(_) => None,
        };
        Ok((probe, inode))
    }

    /// Checks that a name can be made in `dir`, and answers where. The gate is held.
    fn check_new_name(&self, dir: &Inode, name: &[u8]) -> FsResult<Vacancy> {
        match dir::probe(&self.view_dir(dir), name)? {
            Probe::Taken(_) => Err(Errno::Exist.into()),
            Probe::Free(place) => check_alive(dir).map(|()| place),
        }
    }
}

/// Checks that the directory has not been removed.
fn check_alive(dir: &Inode) -> FsResult<()> {
    match dir.core().disk.links() {
        0 => Err(Errno::NoEnt.into()),
        _ => Ok(()),
    }
}

/// Takes the gates of these inodes, each once (D1).
fn lock_gates<'a>(inodes: &[&'a Inode]) -> names::Gates<'a> {
    names::lock_gates(inodes.iter().map(|inode| (inode.ino, &inode.gate)))
}

/// True if both are the same inode, or neither is one.
fn same(a: Option<&Arc<Inode>>, b: Option<&Arc<Inode>>) -> bool {
    a.map(|inode| inode.ino) == b.map(|inode| inode.ino)
}
