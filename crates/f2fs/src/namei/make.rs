//! Creates inodes with a name: create, mkdir, mknod.

use super::links;
use crate::F2fs;
use crate::dir::{NameIndex, NewEntry, entry_type, put_dots};
use crate::inode::Inode;
use crate::ops::Op;
use base::Ino;
use base::cost::f2fs as cost;
use fscore::acl::NewAcls;
use fscore::{Attr, FsError, FsResult, NewContent, NewInode};
use ondisk::f2fs::journal::Content;
use ondisk::f2fs::{Inline, InodeFields};
use std::sync::Arc;

impl F2fs {
    /// Makes an inode and its first name.
    pub(crate) fn make(
        &self,
        dir: Ino,
        name: &[u8],
        new: NewInode,
        content: NewContent<'_>,
    ) -> FsResult<Attr> {
        self.check_writable()?;
        let dir = self.directory_to_change(dir)?;
        self.balance()?;
        let _gate = dir.gate.write();
        self.check_new_name(&dir, name)?;
        dir.check_not_immutable()?;
        if new.kind.is_dir() {
            links::check_subdirs(&dir)?;
        }
        rt::charge(match new.kind.is_dir() {
            true => cost::MKDIR,
            false => cost::CREATE,
        });
        let (new, acls) = new.inherit(self.default_acl(&dir)?);
        let inode = self.change(|op| self.make_in(op, &dir, name, (new, &acls), content))?;
        self.attr_of(&inode)
    }

    fn make_in(
        &self,
        op: &Op<'_>,
        dir: &Inode,
        name: &[u8],
        (new, acls): (NewInode, &NewAcls),
        content: NewContent<'_>,
    ) -> FsResult<Arc<Inode>> {
        let shape = |fields: &mut InodeFields| match content {
            NewContent::Nothing => {}
            NewContent::Dots => {
                if fields.inline.has(Inline::DENTRY) {
                    fields.size = fields.inline_data_range().len() as u64;
                }
            }
            NewContent::Target(target) => self.shape_link(fields, target),
        };
        let inode = self.new_inode(
            op,
            dir,
            name,
            new,
            shape,
            |ino, fields, edit| match content {
                NewContent::Dots if fields.inline.has(Inline::DENTRY) => {
                    put_dots(edit, &fields.inline_dentry_layout(), ino, dir.ino);
                }
                NewContent::Target(target) if fields.inline.has(Inline::DATA) => {
                    let at = fields.inline_data_range().start;
                    edit.put_bytes(Content::Symlink, at, target);
                }
                _ => {}
            },
        )?;
        let entry = NewEntry {
            name,
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
        if new.kind.is_dir() {
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
        content: NewContent<'_>,
    ) -> FsResult<()> {
        match content {
            NewContent::Nothing => Ok(()),
            NewContent::Dots => {
                if !inode.core().fields.inline.has(Inline::DENTRY) {
                    self.make_first_page(op, inode, dir.ino)?;
                }
                *inode.names.lock() = Some(Box::new(NameIndex::empty()));
                Ok(())
            }
            NewContent::Target(target) => self.put_long_target(op, inode, target),
        }
    }
}
