//! New inodes with their first name: create, mkdir, symlink.

use super::{check_alive, credits};
use crate::dir::Vacancy;
use crate::fast_record::Named;
use crate::tx::Tx;
use crate::xattr::acl_credits;
use crate::{Ext4, Inode, dir};
use base::Ino;
use fscore::acl::NewAcls;
use fscore::{Attr, Creds, FileKind, FsError, FsResult, NewContent, NewInode};
use std::sync::Arc;

impl Ext4 {
    /// Makes an inode called `name`.
    pub(crate) fn make(
        &self,
        dir: Ino,
        name: &[u8],
        new: NewInode,
        content: NewContent<'_>,
    ) -> FsResult<Attr> {
        self.check_writable()?;
        self.prune_inodes();
        let dir = self.directory(dir)?;
        let _gate = dir.gate.write();
        let mut place = Some(self.check_new_name(&dir, name)?);
        if new.kind.is_dir() {
            self.check_subdirs(&dir)?;
        }
        dir.check_not_immutable()?;
        let (new, acls) = new.inherit(self.default_acl(&dir)?);
        rt::charge(match new.kind.is_dir() {
            true => base::cost::ext4::MKDIR,
            false => base::cost::ext4::CREATE,
        });
        let inode = self.with_room(|| {
            let credits = credits::NEW_INODE + self.add_name_credits(&dir)? + acl_credits(&acls);
            self.transact(credits, |tx| {
                let inode = self.make_nameless(tx, &dir, new, &acls)?;
                let inode = self.make_in(tx, &dir, (place.take(), name), inode, content)?;
                if acls.is_empty() && self.can_tell_new(&inode)? {
                    tx.tell_name(Named::Create, (&dir, &inode, name));
                }
                Ok(inode)
            })
        })?;
        self.attr_of(&inode)
    }

    /// Makes a file without a name, which is an orphan and pinned.
    pub(crate) fn op_tmpfile(&self, dir: Ino, perm: u16, creds: Creds) -> FsResult<Attr> {
        self.check_writable()?;
        self.prune_inodes();
        let dir = self.directory(dir)?;
        let _gate = dir.gate.write();
        check_alive(&dir)?;
        dir.check_not_immutable()?;
        let new = NewInode::plain(FileKind::File, perm, creds);
        let (new, acls) = new.inherit(self.default_acl(&dir)?);
        rt::charge(base::cost::ext4::CREATE);
        let inode = self.with_room(|| {
            let credits = credits::NEW_INODE + credits::DROP_LINK + acl_credits(&acls);
            self.transact(credits, |tx| {
                let inode = self.make_nameless(tx, &dir, new, &acls)?;
                {
                    let mut core = inode.core();
                    core.disk.set_links(0);
                    core.pins = 1;
                    core.linkable = true;
                }
                self.orphan_add(tx, &inode)?;
                self.put_inode(tx, &inode)?;
                Ok(inode)
            })
        })?;
        self.attr_of(&inode)
    }

    /// A new inode with its ACLs.
    fn make_nameless(
        &self,
        tx: &mut Tx<'_>,
        dir: &Inode,
        new: NewInode,
        acls: &NewAcls,
    ) -> FsResult<Arc<Inode>> {
        check_alive(dir)?;
        let inode = self.new_inode(tx, dir, new)?;
        match self.store_new_acls(tx, &inode, acls) {
            Ok(()) => Ok(inode),
            Err(e) => self.unmake(tx, &inode, e),
        }
    }

    fn make_in(
        &self,
        tx: &mut Tx<'_>,
        dir: &Inode,
        (place, name): (Option<Vacancy>, &[u8]),
        inode: Arc<Inode>,
        content: NewContent<'_>,
    ) -> FsResult<Arc<Inode>> {
        let kind = inode.kind()?;
        if let Err(e) = self.add_entry(tx, dir, place, (name, inode.ino, kind)) {
            return self.unmake(tx, &inode, e);
        }
        if let Err(e) = self.fill_new(tx, dir, &inode, content) {
            if matches!(e, FsError::Posix(_)) {
                dir::remove(&mut self.edit_dir(dir, tx), name)?;
            }
            return self.unmake(tx, &inode, e);
        }
        if kind.is_dir() {
            self.subdir_came(dir);
        }
        dir.core().touch(true);
        self.put_inode(tx, dir)?;
        Ok(inode)
    }

    /// Adds an entry, at a place that is known or anywhere.
    pub(super) fn add_entry(
        &self,
        tx: &mut Tx<'_>,
        dir: &Inode,
        place: Option<Vacancy>,
        (name, ino, kind): (&[u8], Ino, FileKind),
    ) -> FsResult<()> {
        let mut edit = self.edit_dir(dir, tx);
        match place {
            Some(place) => dir::insert_at(&mut edit, place, name, ino, kind),
            None => dir::insert(&mut edit, name, ino, kind),
        }
    }

    /// A POSIX error leaves nothing of the new inode behind (namei-D3).
    pub(super) fn unmake(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        why: FsError,
    ) -> FsResult<Arc<Inode>> {
        if matches!(why, FsError::Posix(_)) {
            self.drop_xattr_block(tx, inode)?;
            self.discard_new_inode(tx, inode)?;
        }
        Err(why)
    }

    fn fill_new(
        &self,
        tx: &mut Tx<'_>,
        dir: &Inode,
        inode: &Inode,
        content: NewContent<'_>,
    ) -> FsResult<()> {
        match content {
            NewContent::Nothing => Ok(()),
            NewContent::Dots if self.new_inline_dir(tx, inode, dir.ino)? => Ok(()),
            NewContent::Dots => self.append_first_block(tx, inode, dir.ino),
            NewContent::Target(target) => self.store_target(tx, inode, target),
        }
    }
}
