//! Creates inodes with a name: create, mkdir, mknod.

use super::{is_dir, links};
use crate::F2fs;
use crate::dir::{NameIndex, NewEntry, entry_type};
use crate::inode::{Inode, NewInode};
use crate::ops::Op;
use base::Ino;
use base::cost::f2fs as cost;
use fscore::acl::NewAcls;
use fscore::{Attr, Creds, Errno, FileKind, FsError, FsResult};
use ondisk::f2fs::Inline;
use std::sync::Arc;

/// What a new inode holds from the start.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Nothing,
    /// `.` and `..`.
    Dots,
    /// The target of a symbolic link.
    Target(&'a [u8]),
}

impl F2fs {
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
        let new = NewInode {
            kind,
            perm,
            rdev,
            creds,
            name,
        };
        self.make(dir, new, Content::Nothing)
    }

    pub(crate) fn op_mkdir(
        &self,
        dir: Ino,
        name: &[u8],
        perm: u16,
        creds: Creds,
    ) -> FsResult<Attr> {
        let new = NewInode {
            kind: FileKind::Dir,
            perm,
            rdev: 0,
            creds,
            name,
        };
        self.make(dir, new, Content::Dots)
    }

    /// Makes an inode and its first name.
    pub(super) fn make(&self, dir: Ino, new: NewInode<'_>, content: Content<'_>) -> FsResult<Attr> {
        self.check_writable()?;
        let dir = self.directory_to_change(dir)?;
        self.balance()?;
        let _gate = dir.gate.write();
        self.check_new_name(&dir, new.name)?;
        dir.check_not_immutable()?;
        if is_dir(new.kind) {
            links::check_subdirs(&dir)?;
        }
        rt::charge(match is_dir(new.kind) {
            true => cost::MKDIR,
            false => cost::CREATE,
        });
        let (new, acls) = self.with_inherited(&dir, new)?;
        let inode = self.change(|op| self.make_in(op, &dir, new, &acls, content))?;
        self.attr_of(&inode)
    }

    fn make_in(
        &self,
        op: &Op<'_>,
        dir: &Inode,
        new: NewInode<'_>,
        acls: &NewAcls,
        content: Content<'_>,
    ) -> FsResult<Arc<Inode>> {
        let inode = self.new_inode(op, dir, new, |ino, fields, block| match content {
            Content::Nothing => {}
            Content::Dots => {
                if fields.inline.has(Inline::DENTRY) {
                    F2fs::put_inline_dots(fields, block, ino, dir.ino);
                }
            }
            Content::Target(target) => self.put_inline_target(fields, block, target),
        })?;
        let entry = NewEntry {
            name: new.name,
            ino: inode.ino,
            kind: entry_type(new.kind),
        };
        let named = self
            .store_new_acls(op, &inode, acls)
            .and_then(|()| self.fill_new(op, dir, &inode, content))
            .and_then(|()| self.dir_insert(op, dir, entry));
        if let Err(e) = named {
            if matches!(e, FsError::Posix(_)) {
                // namei-R3.
                self.discard_inode(op, &inode)?;
            }
            return Err(e);
        }
        if is_dir(new.kind) {
            links::subdir_came(dir);
        }
        self.put_dir(op, dir)?;
        Ok(inode)
    }

    /// Content that does not fit the inode's block.
    fn fill_new(
        &self,
        op: &Op<'_>,
        dir: &Inode,
        inode: &Inode,
        content: Content<'_>,
    ) -> FsResult<()> {
        match content {
            Content::Nothing => Ok(()),
            Content::Dots => {
                if !inode.core().fields.inline.has(Inline::DENTRY) {
                    self.make_first_page(op, inode, dir.ino)?;
                }
                *inode.names.lock() = Some(Box::new(NameIndex::empty()));
                Ok(())
            }
            Content::Target(target) => self.put_long_target(op, inode, target),
        }
    }
}
