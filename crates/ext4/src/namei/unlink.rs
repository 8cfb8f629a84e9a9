//! Adding names to, and removing names from, inodes that exist: link, unlink, rmdir.

use super::links::LINKS_MAX;
use super::{credits, lock_gates};
use crate::dir::{Entry, Probe};
use crate::fast_record::Named;
use crate::tx::Tx;
use crate::{Ext4, Inode, dir};
use base::Ino;
use fscore::shell::names;
use fscore::{Attr, Errno, FsResult};
use std::sync::Arc;

impl Ext4 {
    pub(crate) fn op_link(&self, ino: Ino, dir: Ino, name: &[u8]) -> FsResult<Attr> {
        self.check_writable()?;
        let inode = self.inode(ino)?;
        let dir = self.directory(dir)?;
        let kind = inode.kind()?;
        if kind.is_dir() {
            return Err(Errno::Perm.into());
        }
        let _gates = lock_gates(&[&dir, &inode]);
        let mut place = Some(self.check_new_name(&dir, name)?);
        dir.check_not_immutable()?;
        inode.check_not_guarded()?;
        self.check_project(&inode, &dir)?;
        let nameless = {
            let core = inode.core();
            match core.disk.links() {
                0 if !core.linkable => return Err(Errno::NoEnt.into()),
                LINKS_MAX.. => return Err(Errno::MLink.into()),
                links => links == 0,
            }
        };
        self.with_room(|| {
            let own = match nameless {
                true => credits::DROP_LINK,
                false => credits::INODE,
            };
            let credits = self.add_name_credits(&dir)? + own;
            self.transact(credits, |tx| {
                self.add_entry(tx, &dir, place.take(), (name, ino, kind))?;
                {
                    let mut core = inode.core();
                    let links = core.disk.links();
                    core.disk.set_links(links + 1);
                    core.touch(false);
                }
                if nameless {
                    self.orphan_del(tx, &inode)?;
                    let mut core = inode.core();
                    core.linkable = false;
                    core.born_in = Some(dir.ino);
                }
                self.put_inode(tx, &inode)?;
                dir.core().touch(true);
                if !nameless {
                    tx.tell_name(Named::Link, (&dir, &inode, name));
                }
                self.put_inode(tx, &dir)
            })
        })?;
        self.attr_of(&inode)
    }

    pub(crate) fn op_unlink(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.check_writable()?;
        let dir = self.directory(dir)?;
        let victim = self.with_victim(&dir, name, |victim, entry| {
            if victim.is_dir() {
                return Err(Errno::IsDir.into());
            }
            dir.check_not_guarded()?;
            victim.check_not_guarded()?;
            rt::charge(base::cost::ext4::UNLINK);
            self.transact(credits::TAKE_NAME + credits::DROP_LINK, |tx| {
                dir::remove_entry(&mut self.edit_dir(&dir, tx), entry)?;
                dir.core().touch(true);
                self.put_inode(tx, &dir)?;
                tx.tell_name(Named::Unlink, (&dir, victim, name));
                self.drop_link(tx, victim)
            })
        })?;
        self.evict_if_unused(&victim)
    }

    pub(crate) fn op_rmdir(&self, dir: Ino, name: &[u8]) -> FsResult<()> {
        self.check_writable()?;
        names::check_removed_dir(name)?;
        let dir = self.directory(dir)?;
        let victim = self.with_victim(&dir, name, |victim, entry| {
            if !victim.is_dir() {
                return Err(Errno::NotDir.into());
            }
            dir.check_not_guarded()?;
            victim.check_not_guarded()?;
            self.check_empty(victim)?;
            rt::charge(base::cost::ext4::RMDIR);
            self.transact(credits::TAKE_NAME + credits::DROP_LINK, |tx| {
                dir::remove_entry(&mut self.edit_dir(&dir, tx), entry)?;
                self.subdir_went(&dir);
                dir.core().touch(true);
                self.put_inode(tx, &dir)?;
                self.drop_dir(tx, victim)
            })
        })?;
        self.evict_if_unused(&victim)
    }

    /// Calls `f` with the inode that `name` leads to and the entry, while the gates of both
    /// directory and inode are held (namei-D1).
    fn with_victim(
        &self,
        dir: &Arc<Inode>,
        name: &[u8],
        f: impl FnOnce(&Arc<Inode>, Entry) -> FsResult<()>,
    ) -> FsResult<Arc<Inode>> {
        loop {
            let (Probe::Taken(mut entry), Some(victim)) = self.peek(dir, name)? else {
                return Err(Errno::NoEnt.into());
            };
            let gates = lock_gates(&[dir, &victim]);
            let view = self.view_dir(dir);
            let mut still = entry.is_current(&view)?;
            if !still && let Some(now) = dir::find(&view, name)? {
                still = now.found().ino == victim.ino;
                entry = now;
            }
            if still {
                debug_assert!(
                    !names::is_dot(name) || victim.is_dir(),
                    "dots are directories"
                );
                f(&victim, entry)?;
                drop(gates);
                return Ok(victim);
            }
            // Another task has changed the name in between; so some task makes progress in each
            // turn of this loop.
        }
    }

    /// ENOTEMPTY unless the directory holds `.` and `..` alone.
    pub(crate) fn check_empty(&self, dir: &Inode) -> FsResult<()> {
        match dir::is_empty(&self.view_dir(dir))? {
            true => Ok(()),
            false => Err(Errno::NotEmpty.into()),
        }
    }

    /// Counts a lost name of an inode that is no directory (namei-D2).
    pub(super) fn drop_link(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let links = {
            let mut core = inode.core();
            // More names than links is damage, but no reason to keep the name.
            let links = core.disk.links().saturating_sub(1);
            core.disk.set_links(links);
            core.touch(false);
            links
        };
        if links == 0 {
            self.orphan_add(tx, inode)?;
        }
        self.put_inode(tx, inode)
    }

    /// Ends an empty directory that has lost its name (namei-D2).
    pub(super) fn drop_dir(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        {
            let mut core = inode.core();
            core.disk.set_links(0);
            core.touch(false);
        }
        self.orphan_add(tx, inode)?;
        self.put_inode(tx, inode)
    }
}
