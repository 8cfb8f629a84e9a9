//! POSIX ACLs in step with modes: what new inodes take over from their directory, and what `chmod` and a new access ACL change.
//!
//! Whether somebody may do something is asked by the caller (the kernel of a mount with `default_permissions`).

use super::place::Change;
use super::{CREDITS, Found};
use crate::Ext4;
use crate::inode::{Inode, NewKind};
use crate::tx::Tx;
use base::BlockNo;
use fscore::acl::Acl;
use fscore::{Creds, FileKind, FsError, FsResult, XattrMode, XattrName as Name};

const ACCESS: Name<'static> = Name {
    index: 2,
    rest: b"",
};
const DEFAULT: Name<'static> = Name {
    index: 3,
    rest: b"",
};

/// The ACLs of an inode that is about to be made.
#[derive(Clone, Default, Debug)]
pub(crate) struct NewAcls {
    access: Option<Acl>,
    default: Option<Acl>,
}

impl NewAcls {
    /// Blocks that storing them may change: two need no more than one, as the block that the first one gets is the old block of the second.
    pub fn credits(&self) -> u32 {
        match self.access.is_some() || self.default.is_some() {
            true => CREDITS,
            false => 0,
        }
    }
}

impl Ext4 {
    /// The permission bits of a new inode in `dir`, and its ACLs (Linux `posix_acl_create`). The gate of `dir` is held.
    pub(crate) fn inherit_acls(&self, dir: &Inode, new: &NewKind) -> FsResult<(u16, NewAcls)> {
        let masked = |creds: Creds| Ok((creds.masked(new.perm), NewAcls::default()));
        if new.kind == FileKind::Symlink {
            return Ok((new.perm, NewAcls::default()));
        }
        let Some(default) = self.find_acl(dir, DEFAULT)? else {
            return masked(new.creds);
        };
        let (access, perm) = default.inherited(new.perm);
        let default = (new.kind == FileKind::Dir).then_some(default);
        Ok((perm, NewAcls { access, default }))
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
        for (name, acl) in [(DEFAULT, &acls.default), (ACCESS, &acls.access)] {
            if let Some(acl) = acl {
                let change = Change::set(name, acl.to_disk(), XattrMode::Any);
                self.change_xattr_in(tx, inode, &change)?;
            }
        }
        Ok(())
    }

    /// True if an inode has an access ACL, which a `chmod` has to follow. The gate is held.
    pub(crate) fn has_access_acl(&self, inode: &Inode) -> FsResult<bool> {
        self.find_acl(inode, ACCESS).map(|acl| acl.is_some())
    }

    /// Brings the access ACL in step with a mode that was just set (Linux `posix_acl_chmod`), in a handle of [`CREDITS`] more blocks.
    pub(crate) fn chmod_acl(&self, tx: &mut Tx<'_>, inode: &Inode, perm: u16) -> FsResult<()> {
        let Some(acl) = self.find_acl(inode, ACCESS)? else {
            return Ok(());
        };
        let acl = acl.with_mode(perm & 0o777);
        let change = Change::set(ACCESS, acl.to_disk(), XattrMode::Any);
        self.change_xattr_in(tx, inode, &change)
    }

    /// Stores an access ACL, or drops it if the mode says as much, and sets the permission bits to it (Linux `posix_acl_update_mode`).
    pub(super) fn set_access_acl(&self, inode: &Inode, acl: &Acl, mode: XattrMode) -> FsResult<()> {
        let change = match acl.is_mode() {
            true => Change::remove(ACCESS),
            false => Change::set(ACCESS, acl.to_disk(), mode),
        };
        self.with_xattrs(inode, |tx| {
            // Nothing to drop is no error.
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
        let parsed = Acl::parse_disk(&entry.value);
        parsed.map(Some).map_err(|_| {
            FsError::corrupt(format!(
                "inode {}: its ACL ({} bytes) is none",
                inode.ino,
                entry.value.len()
            ))
        })
    }
}
