//! Rename: move, replace, exchange.
//!
//! `vfs` checks whether a directory would come to lie below itself, because it holds a lock against
//! other renames between directories; here only the nearest cases are refused.

use super::{check_alive, credits, lock_gates, same};
use crate::dir::{Probe, Vacancy};
use crate::fast_record::Named;
use crate::tx::Tx;
use crate::{Ext4, Inode, dir};
use base::Ino;
use fscore::shell::names;
use fscore::{Creds, Errno, FileKind, FsResult, NewInode, RenameMode};
use std::sync::Arc;

/// One end of a rename: the directory, the name, and what the name stands for.
struct End<'a> {
    dir: Arc<Inode>,
    name: &'a [u8],
    inode: Option<Arc<Inode>>,
}

/// A name with the inode behind it, looked up again under all gates.
#[derive(Clone, Copy)]
struct Known<'a> {
    dir: &'a Inode,
    name: &'a [u8],
    inode: &'a Inode,
    kind: FileKind,
}

impl<'a> End<'a> {
    fn known(&'a self) -> FsResult<Option<Known<'a>>> {
        let Some(inode) = &self.inode else {
            return Ok(None);
        };
        Ok(Some(Known {
            dir: &self.dir,
            name: self.name,
            inode,
            kind: inode.kind()?,
        }))
    }
}

impl Ext4 {
    pub(crate) fn op_rename(
        &self,
        from_dir: Ino,
        from_name: &[u8],
        to_dir: Ino,
        to_name: &[u8],
        mode: RenameMode,
    ) -> FsResult<()> {
        self.check_writable()?;
        names::check_renamed(from_name, to_name)?;
        let mut from = End {
            dir: self.directory(from_dir)?,
            name: from_name,
            inode: None,
        };
        let mut to = End {
            dir: self.directory(to_dir)?,
            name: to_name,
            inode: None,
        };
        loop {
            let (mut old, mut new);
            (old, from.inode) = self.peek(&from.dir, from_name)?;
            (new, to.inode) = self.peek(&to.dir, to_name)?;
            let mut inodes: Vec<&Inode> = vec![&from.dir, &to.dir];
            inodes.extend(from.inode.iter().chain(&to.inode).map(|inode| &**inode));
            let gates = lock_gates(&inodes);
            if self.still_leads(&from, &mut old)? && self.still_leads(&to, &mut new)? {
                // With their content in hand the journal would have to copy the blocks, so only
                // the place of the new name is kept.
                drop(old);
                let place = match new {
                    Probe::Free(place) => Some(place),
                    Probe::Taken(entry) => {
                        drop(entry);
                        None
                    }
                };
                self.rename_locked(&from, (&to, place), mode)?;
                drop(gates);
                break;
            }
        }
        match &to.inode {
            Some(target) => self.evict_if_unused(target),
            None => Ok(()),
        }
    }

    /// True if the name of `end` leads to the same inode as when `probe` was found, before the
    /// gates were taken. Brings `probe` up to date.
    fn still_leads(&self, end: &End<'_>, probe: &mut Probe) -> FsResult<bool> {
        if probe.is_current(&self.view_dir(&end.dir))? {
            return Ok(true);
        }
        let inode;
        (*probe, inode) = self.search_name(&end.dir, end.name)?;
        Ok(same(inode.as_ref(), end.inode.as_ref()))
    }

    /// Renames while all gates are held and the names lead to the inodes of `from` and `to`.
    fn rename_locked(
        &self,
        from: &End<'_>,
        (to, place): (&End<'_>, Option<Vacancy>),
        mode: RenameMode,
    ) -> FsResult<()> {
        rt::charge(base::cost::ext4::RENAME);
        let source = from.known()?.ok_or(Errno::NoEnt)?;
        if source.inode.ino == to.dir.ino {
            return Err(Errno::Inval.into());
        }
        source.dir.check_not_guarded()?;
        source.inode.check_not_guarded()?;
        self.check_project(source.inode, &to.dir)?;
        let Some(target) = to.known()? else {
            if mode == RenameMode::Exchange {
                return Err(Errno::NoEnt.into());
            }
            check_alive(&to.dir)?;
            to.dir.check_not_immutable()?;
            self.check_arrival(source, &to.dir)?;
            return self.move_name(source, &to.dir, (place, to.name), mode.whiteout());
        };
        if mode.keeps_target() {
            return Err(Errno::Exist.into());
        }
        to.dir.check_not_guarded()?;
        target.inode.check_not_guarded()?;
        match mode {
            _ if source.inode.ino == target.inode.ino => Ok(()),
            RenameMode::Exchange => {
                self.check_project(target.inode, source.dir)?;
                self.exchange(source, target)
            }
            _ => self.replace(source, target, mode.whiteout()),
        }
    }

    /// Checks that the directory `to` can count one more subdirectory, if one arrives.
    fn check_arrival(&self, source: Known<'_>, to: &Inode) -> FsResult<()> {
        match source.kind.is_dir() && source.dir.ino != to.ino {
            true => self.check_subdirs(to),
            false => Ok(()),
        }
    }

    fn move_name(
        &self,
        source: Known<'_>,
        to: &Inode,
        (mut place, name): (Option<Vacancy>, &[u8]),
        whiteout: Option<Creds>,
    ) -> FsResult<()> {
        self.with_room(|| {
            let add = self.add_name_credits(to)?;
            let credits = add + credits::TAKE_NAME + credits::INODE + credits::PARENT_ENTRY;
            self.transact(credits + whiteout_credits(whiteout), |tx| {
                let whiteout = self.make_whiteout(tx, source.dir, whiteout)?;
                let new = (name, source.inode.ino, source.kind);
                if let Err(e) = self.add_entry(tx, to, place.take(), new) {
                    return match whiteout {
                        Some(whiteout) => self.unmake(tx, &whiteout, e).map(drop),
                        None => Err(e),
                    };
                }
                if whiteout.is_none() && !source.kind.is_dir() {
                    tx.tell_name(Named::Link, (to, source.inode, name));
                    tx.tell_name(Named::Unlink, (source.dir, source.inode, source.name));
                }
                self.leave(tx, source, to, whiteout.as_deref())
            })
        })
    }

    fn replace(
        &self,
        source: Known<'_>,
        target: Known<'_>,
        whiteout: Option<Creds>,
    ) -> FsResult<()> {
        match (source.kind.is_dir(), target.kind.is_dir()) {
            (true, false) => return Err(Errno::NotDir.into()),
            (false, true) => return Err(Errno::IsDir.into()),
            (true, true) if target.inode.ino == source.dir.ino => {
                return Err(Errno::NotEmpty.into());
            }
            (true, true) => self.check_empty(target.inode)?,
            (false, false) => {}
        }
        let names = 2 * credits::TAKE_NAME + credits::INODE + credits::PARENT_ENTRY;
        let credits = names + credits::DROP_LINK + whiteout_credits(whiteout);
        self.transact(credits, |tx| {
            let whiteout = self.make_whiteout(tx, source.dir, whiteout)?;
            let mut to = self.edit_dir(target.dir, tx);
            dir::replace(&mut to, target.name, source.inode.ino, source.kind)?;
            if target.kind.is_dir() {
                self.subdir_went(target.dir);
                self.drop_dir(tx, target.inode)?;
            } else {
                self.drop_link(tx, target.inode)?;
            }
            if whiteout.is_none() && !source.kind.is_dir() {
                tx.tell_name(Named::Unlink, (target.dir, target.inode, target.name));
                tx.tell_name(Named::Link, (target.dir, source.inode, target.name));
                tx.tell_name(Named::Unlink, (source.dir, source.inode, source.name));
            }
            self.leave(tx, source, target.dir, whiteout.as_deref())
        })
    }

    fn make_whiteout(
        &self,
        tx: &mut Tx<'_>,
        dir: &Inode,
        creds: Option<Creds>,
    ) -> FsResult<Option<Arc<Inode>>> {
        creds
            .map(|creds| self.new_inode(tx, dir, NewInode::whiteout(creds)))
            .transpose()
    }

    /// Removes the source's old name after it got its new one in `to`, or gives the old name to
    /// `whiteout`.
    fn leave(
        &self,
        tx: &mut Tx<'_>,
        source: Known<'_>,
        to: &Inode,
        whiteout: Option<&Inode>,
    ) -> FsResult<()> {
        let mut from = self.edit_dir(source.dir, tx);
        match whiteout {
            Some(new) => dir::replace(&mut from, source.name, new.ino, FileKind::Char)?,
            None => dir::remove(&mut from, source.name)?,
        };
        self.arrive(tx, source, to)?;
        for dir in [source.dir, to] {
            dir.core().touch(true);
            self.put_inode(tx, dir)?;
        }
        Ok(())
    }

    /// Adjusts `..` and link counts after the source got a name in `to`.
    fn arrive(&self, tx: &mut Tx<'_>, source: Known<'_>, to: &Inode) -> FsResult<()> {
        if source.kind.is_dir() && source.dir.ino != to.ino {
            dir::set_parent(&mut self.edit_dir(source.inode, tx), to.ino)?;
            self.subdir_went(source.dir);
            self.subdir_came(to);
        }
        {
            let mut core = source.inode.core();
            core.touch(false);
            // An fsync of the renamed inode commits the rename, as in Linux, even within one tick
            // of the clock.
            core.sync_tid = tx.tid();
            if core.born_in.is_some() {
                core.born_in = Some(to.ino);
            }
        }
        self.put_inode(tx, source.inode)
    }

    fn exchange(&self, a: Known<'_>, b: Known<'_>) -> FsResult<()> {
        if b.inode.ino == a.dir.ino {
            return Err(Errno::Inval.into());
        }
        if a.kind.is_dir() != b.kind.is_dir() {
            self.check_arrival(a, b.dir)?;
            self.check_arrival(b, a.dir)?;
        }
        let each = credits::TAKE_NAME + credits::INODE + credits::PARENT_ENTRY;
        self.transact(2 * each, |tx| {
            dir::replace(&mut self.edit_dir(a.dir, tx), a.name, b.inode.ino, b.kind)?;
            dir::replace(&mut self.edit_dir(b.dir, tx), b.name, a.inode.ino, a.kind)?;
            self.arrive(tx, a, b.dir)?;
            self.arrive(tx, b, a.dir)?;
            for dir in [a.dir, b.dir] {
                dir.core().touch(true);
                self.put_inode(tx, dir)?;
            }
            Ok(())
        })
    }
}

/// Blocks that making a whiteout may change.
fn whiteout_credits(creds: Option<Creds>) -> u32 {
    creds.map_or(0, |_| credits::NEW_INODE)
}
