//! New inodes with their first name: create, mkdir, symlink.

use super::{check_alive, credits, is_dir};
use crate::inode::NewKind;
use crate::tx::Tx;
use crate::xattr::acl_credits;
use crate::{Ext4, Inode, dir};
use base::Ino;
use fscore::acl::NewAcls;
use fscore::{Attr, Creds, Errno, FileKind, FsError, FsResult};
use std::sync::Arc;

/// What a new inode contains from the start.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Nothing,
    /// `.` and `..`.
    Dots,
    /// The target of a symbolic link.
    Target(&'a [u8]),
}

impl Ext4 {
    pub(crate) fn op_create(
        &self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u32,
        creds: Creds,
    ) -> FsResult<Attr> {
        if matches!(kind, FileKind::Dir | FileKind::Symlink) {
            return Err(Errno::Inval.into());
        }
        let new = NewKind {
            kind,
            perm,
            rdev,
            creds,
        };
        self.make(dir, name, new, Content::Nothing)
    }

    pub(crate) fn op_mkdir(
        &self,
        dir: Ino,
        name: &[u8],
        perm: u16,
        creds: Creds,
    ) -> FsResult<Attr> {
        let new = NewKind {
            kind: FileKind::Dir,
            perm,
            rdev: 0,
            creds,
        };
        self.make(dir, name, new, Content::Dots)
    }

    /// Makes an inode called `name`.
    pub(super) fn make(
        &self,
        dir: Ino,
        name: &[u8],
        new: NewKind,
        content: Content<'_>,
    ) -> FsResult<Attr> {
        self.check_writable()?;
        self.prune_inodes();
        let dir = self.directory(dir)?;
        let _gate = dir.gate.write();
        self.check_new_name(&dir, name)?;
        if is_dir(new.kind) {
            self.check_subdirs(&dir)?;
        }
        dir.check_not_immutable()?;
        let (new, acls) = self.with_inherited(&dir, new)?;
        rt::charge(match is_dir(new.kind) {
            true => base::cost::ext4::MKDIR,
            false => base::cost::ext4::CREATE,
        });
        let inode = self.with_room(|| {
            let credits = credits::NEW_INODE + self.add_name_credits(&dir)? + acl_credits(&acls);
            self.transact(credits, |tx| {
                let inode = self.make_nameless(tx, &dir, new, &acls)?;
                self.make_in(tx, &dir, name, inode, content)
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
        let new = NewKind {
            kind: FileKind::File,
            perm,
            rdev: 0,
            creds,
        };
        let (new, acls) = self.with_inherited(&dir, new)?;
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

    /// The inode to be made, with the permissions that the ACL of `dir` leaves it, and its ACLs.
    fn with_inherited(&self, dir: &Inode, new: NewKind) -> FsResult<(NewKind, NewAcls)> {
        let (perm, acls) = self.inherit_acls(dir, &new)?;
        let creds = Creds {
            umask: 0,
            ..new.creds
        };
        Ok((NewKind { perm, creds, ..new }, acls))
    }

    /// A new inode with its ACLs.
    fn make_nameless(
        &self,
        tx: &mut Tx<'_>,
        dir: &Inode,
        new: NewKind,
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
        name: &[u8],
        inode: Arc<Inode>,
        content: Content<'_>,
    ) -> FsResult<Arc<Inode>> {
        let kind = inode.kind()?;
        if let Err(e) = dir::insert(&mut self.edit_dir(dir, tx), name, inode.ino, kind) {
            return self.unmake(tx, &inode, e);
        }
        if let Err(e) = self.fill_new(tx, dir, &inode, content) {
            if matches!(e, FsError::Posix(_)) {
                dir::remove(&mut self.edit_dir(dir, tx), name)?;
            }
            return self.unmake(tx, &inode, e);
        }
        if is_dir(kind) {
            self.subdir_came(dir);
        }
        dir.core().touch(true);
        self.put_inode(tx, dir)?;
        Ok(inode)
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
        content: Content<'_>,
    ) -> FsResult<()> {
        match content {
            Content::Nothing => Ok(()),
            Content::Dots if self.new_inline_dir(tx, inode, dir.ino)? => Ok(()),
            Content::Dots => {
                let block = dir::first_block(&self.dir_facts(inode), dir.ino);
                self.append_block(tx, inode, block).map(drop)
            }
            Content::Target(target) => self.store_target(tx, inode, target),
        }
    }
}
