//! Link, unlink, rmdir.

use super::last_name::Fate;
use super::{Gates, Inode, Named, links, lock_gates};
use crate::F2fs;
use crate::dir::{NewEntry, entry_type};
use base::Ino;
use base::cost::f2fs as cost;
use fscore::shell::names;
use fscore::{Attr, Errno, FsResult, Onlookers};
use ondisk::f2fs::{Advise, LINKS_MAX};
use std::sync::Arc;

impl F2fs {
    pub(crate) fn op_link(&self, ino: Ino, dir: Ino, name: &[u8]) -> FsResult<Attr> {
        self.check_writable()?;
        let inode = self.inode(ino)?;
        let dir = self.directory_to_change(dir)?;
        let kind = inode.kind()?;
        if kind.is_dir() {
            return Err(Errno::Perm.into());
        }
        self.balance()?;
        let _gates = lock_gates(&[&dir, &inode]);
        self.check_new_name(&dir, name)?;
        dir.check_not_immutable()?;
        inode.check_not_guarded()?;
        self.check_project(&inode, &dir)?;
        {
            let core = inode.core();
            match core.fields.links {
                _ if core.gone => return Err(Errno::Stale.into()),
                0 => return Err(Errno::NoEnt.into()),
                LINKS_MAX => return Err(Errno::MLink.into()),
                _ => {}
            }
        }
        self.change(|op| {
            let entry = NewEntry {
                name,
                ino,
                kind: entry_type(kind),
            };
            self.dir_insert(op, &dir, entry)?;
            {
                let mut core = inode.core();
                core.touch(false);
                core.changed();
                // namei-R4.
                core.needs_checkpoint = true;
                core.fields.links += 1;
                core.fields.advise = core.fields.advise | Advise::LOST_PINO;
            }
            self.put_inode(op, &inode)?;
            self.put_dir(op, &dir)
        })?;
        self.attr_of(&inode)
    }

    pub(crate) fn op_unlink(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.unlink_beside(dir, name, Onlookers::NONE).map(drop)
    }

    /// Answers the inode that lost the name.
    pub(crate) fn unlink_beside(
        &self,
        dir: Ino,
        name: &[u8],
        onlookers: Onlookers<'_>,
    ) -> FsResult<Ino> {
        self.check_writable()?;
        let dir = self.directory_to_change(dir)?;
        self.balance()?;
        let victim = self.with_victim(&dir, name, |victim, gates| {
            if victim.inode.is_dir() {
                return Err(Errno::IsDir.into());
            }
            dir.check_not_guarded()?;
            victim.inode.check_not_guarded()?;
            let fate = self.fate(&victim.inode, name, onlookers)?;
            rt::charge(match fate {
                Fate::Kept => cost::UNLINK,
                Fate::Freed => cost::UNLINK_LAST,
            });
            self.take_name_of(&victim.inode, fate, gates, |op| {
                self.dir_remove(op, &dir, &victim.found, name)?;
                self.put_dir(op, &dir)
            })
        })?;
        self.evict_unnamed(&victim)?;
        Ok(victim.ino)
    }

    pub(crate) fn op_rmdir(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.rmdir_beside(dir, name, Onlookers::NONE).map(drop)
    }

    /// Answers the inode that lost the name.
    pub(crate) fn rmdir_beside(
        &self,
        dir: Ino,
        name: &[u8],
        onlookers: Onlookers<'_>,
    ) -> FsResult<Ino> {
        self.check_writable()?;
        names::check_removed_dir(name)?;
        let dir = self.directory_to_change(dir)?;
        self.balance()?;
        let victim = self.with_victim(&dir, name, |victim, gates| {
            if !victim.inode.is_dir() {
                return Err(Errno::NotDir.into());
            }
            dir.check_not_guarded()?;
            victim.inode.check_not_guarded()?;
            self.check_empty(&victim.inode)?;
            let fate = self.fate(&victim.inode, name, onlookers)?;
            rt::charge(cost::RMDIR);
            self.take_name_of(&victim.inode, fate, gates, |op| {
                self.dir_remove(op, &dir, &victim.found, name)?;
                links::subdir_went(&dir);
                self.put_dir(op, &dir)
            })
        })?;
        self.evict_unnamed(&victim)?;
        Ok(victim.ino)
    }

    /// Calls `f` with what `name` stands for, the gates of both held (namei-R1).
    fn with_victim(
        &self,
        dir: &Arc<Inode>,
        name: &[u8],
        f: impl FnOnce(&Named, &mut Gates<'_>) -> FsResult<()>,
    ) -> FsResult<Arc<Inode>> {
        loop {
            let victim = self.peek(dir, name)?.ok_or(Errno::NoEnt)?;
            self.land_before_removal(&victim);
            let mut gates = lock_gates(&[dir, &victim]);
            let found = self.dir_find(dir, name)?;
            if let Some(found) = found.filter(|found| found.ino == victim.ino) {
                debug_assert!(
                    !names::is_dot(name) || victim.is_dir(),
                    "dots are directories"
                );
                let inode = victim.clone();
                f(&Named { inode, found }, &mut gates)?;
                drop(gates);
                return Ok(victim);
            }
            // Another task has changed the name in between, so the loop makes progress for all
            // tasks together.
        }
    }

    /// ENOTEMPTY unless the directory holds `.` and `..` alone.
    pub(crate) fn check_empty(&self, dir: &Inode) -> FsResult<()> {
        match self.dir_is_empty(dir)? {
            true => Ok(()),
            false => Err(Errno::NotEmpty.into()),
        }
    }
}
