//! Keeps POSIX ACLs and modes in step: what new inodes take over from their directory, and what
//! `chmod` and a new access ACL change.
//!
//! Whether a user may do something is not checked here but by the caller (the kernel of a mount
//! with `default_permissions`).

use super::place::Change;
use super::{CREDITS, Found};
use crate::Ext4;
use crate::inode::Inode;
use crate::tx::Tx;
use base::BlockNo;
use fscore::acl::{ACCESS, Acl, DEFAULT, NewAcls};
use fscore::{FsResult, XattrMode, XattrName as Name};

/// Blocks that storing the ACLs of a new inode may change. Two ACLs need no more than one, because
/// the second one replaces the block that the first one was given.
pub(crate) fn acl_credits(acls: &NewAcls) -> u32 {
    match acls.is_empty() {
        true => 0,
        false => CREDITS,
    }
}

impl Ext4 {
    /// The ACL that new inodes in `dir` take over. The gate of `dir` is held.
    pub(crate) fn default_acl(&self, dir: &Inode) -> FsResult<Option<Acl>> {
        self.find_acl(dir, DEFAULT)
    }

    /// Gives a new inode its ACLs.
    ///
    /// # Errors
    /// ENOSPC, with nothing of this ACL stored.
    pub(crate) fn store_new_acls(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        acls: &NewAcls,
    ) -> FsResult<()> {
        for (name, acl) in acls.iter() {
            let change = Change::set(name, acl.to_disk(), XattrMode::Any);
            self.change_xattr_in(tx, inode, &change)?;
        }
        Ok(())
    }

    /// True if an inode has an access ACL, which a `chmod` has to follow. The gate is held.
    pub(crate) fn has_access_acl(&self, inode: &Inode) -> FsResult<bool> {
        self.find_acl(inode, ACCESS).map(|acl| acl.is_some())
    }

    /// Brings the access ACL in step with a mode that was just set (Linux `posix_acl_chmod`), in a
    /// handle of [`CREDITS`] more blocks.
    pub(crate) fn chmod_acl(&self, tx: &mut Tx<'_>, inode: &Inode, perm: u16) -> FsResult<()> {
        let Some(acl) = self.find_acl(inode, ACCESS)? else {
            return Ok(());
        };
        let acl = acl.with_mode(perm & 0o777);
        let change = Change::set(ACCESS, acl.to_disk(), XattrMode::Any);
        self.change_xattr_in(tx, inode, &change)
    }

    /// Stores an access ACL, or drops it if the mode can express it, and sets the permission bits
    /// to match it (Linux `posix_acl_update_mode`).
    pub(super) fn set_access_acl(&self, inode: &Inode, acl: &Acl, mode: XattrMode) -> FsResult<()> {
        let change = match acl.is_mode() {
            true => Change::remove(ACCESS),
            false => Change::set(ACCESS, acl.to_disk(), mode),
        };
        self.with_xattrs(inode, |tx| {
            // If there is no ACL to drop, that is no error.
            if !acl.is_mode() || self.has_access_acl(inode)? {
                self.change_xattr_in(tx, inode, &change)?;
            }
            let mut core = inode.core();
            let bits = core.disk.mode() & !0o777 | acl.mode();
            core.disk.set_mode(bits);
            core.touch(false);
            drop(core);
            self.put_inode(tx, inode)
        })
    }

    fn find_acl(&self, inode: &Inode, name: Name<'_>) -> FsResult<Option<Acl>> {
        {
            let core = inode.core();
            let none = core.disk.xattr_block() == BlockNo(0)
                && base::bytes::is_zero(core.disk.xattr_area());
            if none {
                return Ok(None);
            }
        }
        let _blocks = self.xattr_blocks.read();
        let Found { lists, .. } = self.find_xattrs(inode)?;
        let Some(entry) = lists.find(name) else {
            return Ok(None);
        };
        Acl::of_inode(inode.ino, &entry.value).map(Some)
    }
}
