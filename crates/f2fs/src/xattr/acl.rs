//! Keeps POSIX ACLs and modes in step: what new inodes inherit from their directory, and what
//! `chmod` and a new access ACL change.
//!
//! Access itself is checked by the caller (the kernel, for a mount with `default_permissions`).

use super::put;
use crate::F2fs;
use crate::inode::Inode;
use crate::ops::Op;
use fscore::acl::{ACCESS, Acl, DEFAULT, NewAcls};
use fscore::{Errno, FsResult, XattrMode, XattrName};
use ondisk::f2fs::{XattrBuf, XattrIndex};

/// Inherited ACLs take at most this part of what one operation may log: the inode, its name and a
/// block of its directory go with them.
const OP_PARTS: usize = 8;

impl F2fs {
    /// The ACL that new inodes in `dir` inherit. The gate of `dir` is held.
    pub(crate) fn default_acl(&self, dir: &Inode) -> FsResult<Option<Acl>> {
        acl_in(&self.load_xattrs(dir)?, dir, DEFAULT)
    }

    /// Gives a new inode its ACLs.
    ///
    /// # Errors
    /// ENOSPC, with none of them stored; also if the ring of a journal is too small for them.
    pub(crate) fn store_new_acls(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        acls: &NewAcls,
    ) -> FsResult<()> {
        if acls.is_empty() {
            return Ok(());
        }
        let mut list = self.load_xattrs(inode)?;
        for (name, acl) in acls.iter() {
            put(&mut list, name, &acl.to_disk(), XattrMode::Any)?;
        }
        if list.bytes() > self.op_max() / OP_PARTS {
            return Err(Errno::NoSpc.into());
        }
        self.store_xattrs(op, inode, &list, None)
    }

    /// The attributes of an inode with an access ACL after its permission bits become those of
    /// `perm` (Linux `posix_acl_chmod`); `None` without one. The gate is held.
    pub(crate) fn chmod_xattrs(&self, inode: &Inode, perm: u16) -> FsResult<Option<XattrBuf>> {
        let mut list = self.load_xattrs(inode)?;
        let Some(acl) = acl_in(&list, inode, ACCESS)? else {
            return Ok(None);
        };
        let acl = acl.with_mode(perm & 0o777);
        put(&mut list, ACCESS, &acl.to_disk(), XattrMode::Any)?;
        Ok(Some(list))
    }

    /// Stores them.
    pub(crate) fn store_chmod(&self, op: &Op<'_>, inode: &Inode, list: &XattrBuf) -> FsResult<()> {
        self.store_xattrs(op, inode, list, None)
    }

    /// Stores an access ACL, or drops it if the mode says as much, and sets the permission bits to
    /// it (Linux `posix_acl_update_mode`).
    pub(super) fn set_access_acl(&self, inode: &Inode, acl: &Acl, mode: XattrMode) -> FsResult<()> {
        self.change_xattrs(inode, |list| {
            match acl.is_mode() {
                // Nothing to drop is no error.
                true => drop(list.remove(XattrIndex(ACCESS.index), ACCESS.rest)),
                false => put(list, ACCESS, &acl.to_disk(), mode)?,
            }
            Ok(Some(acl.mode()))
        })
    }
}

/// The ACL of this name in the attributes of `inode`.
fn acl_in(list: &XattrBuf, inode: &Inode, name: XattrName<'_>) -> FsResult<Option<Acl>> {
    let Some(value) = list.get(XattrIndex(name.index), name.rest) else {
        return Ok(None);
    };
    Acl::of_inode(inode.ino, value).map(Some)
}
