//! Requests on extended attributes, ACLs among them.

use super::attrs::CAPABILITY;
use super::remount::REMOUNT_XATTR;
use super::{Caller, PROTOCOL_ROOT, Server};
use base::Ino;
use vfs::{
    Errno, FileKind, FsError, FsResult, OfWrite, SetAttr, XATTR_NAME_BYTES_MAX,
    XATTR_VALUE_BYTES_MAX, XattrMode,
};

/// Only the superuser sees names that begin so.
const TRUSTED: &[u8] = b"trusted.";
const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";
const SET_GID: u16 = 0o2000;

fn check_name(name: &[u8]) -> Result<(), FsError> {
    match name.is_empty() || name.len() > XATTR_NAME_BYTES_MAX {
        true => Err(Errno::Range.into()),
        false => Ok(()),
    }
}

/// The options of a remount, if the name is not that of an attribute but asks for a remount.
fn remount_words(number: u64, name: &[u8]) -> Option<&[u8]> {
    let of_root = number == PROTOCOL_ROOT;
    name.strip_prefix(REMOUNT_XATTR.as_bytes())
        .filter(|_| of_root)
}

impl Server {
    /// ENOSYS if none are shown, after which Linux asks for no attribute of this mount again, and
    /// answers EOPNOTSUPP by itself.
    fn check_shown(&self) -> Result<(), Errno> {
        match self.xattrs {
            true => Ok(()),
            false => Err(Errno::NoSys),
        }
    }

    /// Sets an extended attribute. A new access ACL takes set-group-ID away, unless the caller is
    /// the superuser or in the group of the file; `groups` are the groups that they are in beside
    /// their own.
    ///
    /// # Errors
    /// Those of `setxattr(2)`. EOPNOTSUPP for an ACL if the file system does not obey them, so that
    /// no program relies on it.
    pub fn setxattr(
        &self,
        caller: Caller,
        groups: &dyn Fn() -> Vec<u32>,
        number: u64,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno> {
        self.check_shown()?;
        let ino = self.ino(number);
        self.run_for_room(|| {
            check_name(name)?;
            if value.len() > XATTR_VALUE_BYTES_MAX {
                return Err(Errno::TooBig.into());
            }
            let is_acl = name == ACCESS_ACL || name == DEFAULT_ACL;
            if is_acl && !self.vfs().fs().obeys_acls() {
                return Err(Errno::NotSup.into());
            }
            self.vfs().fs().setxattr(ino, name, value, mode)?;
            self.note_xattr(ino, name);
            match name == ACCESS_ACL {
                true => self.drop_set_gid(caller, groups, ino),
                false => Ok(()),
            }
        })
    }

    /// Takes set-group-ID away from a file of a group that the caller is not in (Linux
    /// `posix_acl_update_mode`).
    fn drop_set_gid(
        &self,
        caller: Caller,
        groups: &dyn Fn() -> Vec<u32>,
        ino: Ino,
    ) -> FsResult<()> {
        let attr = self.vfs().fs().getattr(ino)?;
        let keeps = caller.uid == 0 || caller.gid == attr.gid || attr.perm & SET_GID == 0;
        if keeps || groups().contains(&attr.gid) {
            return Ok(());
        }
        let set = SetAttr {
            perm: Some(attr.perm & !SET_GID),
            ..SetAttr::default()
        };
        self.vfs().fs().setattr(ino, &set).map(drop)
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// Those of `getxattr(2)`.
    pub fn getxattr(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.check_shown()?;
        if let Some(words) = remount_words(number, name) {
            return Ok(self.answer_remount(words));
        }
        self.run(|| {
            check_name(name)?;
            self.vfs().fs().getxattr(self.ino(number), name)
        })
    }

    /// Names of the extended attributes that the caller may see, each with a NUL behind it.
    ///
    /// # Errors
    /// Those of `listxattr(2)`.
    pub fn listxattr(&self, caller: Caller, number: u64) -> Result<Vec<u8>, Errno> {
        self.check_shown()?;
        let mut names = self.run(|| self.vfs().fs().listxattr(self.ino(number)))?;
        if caller.uid != 0 {
            names.retain(|name| !name.starts_with(TRUSTED));
        }
        let mut list = Vec::new();
        for name in names {
            list.extend_from_slice(&name);
            list.push(0);
        }
        Ok(list)
    }

    /// Removes an extended attribute. The kernel asks so for capabilities before a write, too, and
    /// does not say for which of both. So an append takes them from a file of appends, and whoever
    /// may remove them by name does so as well, which Linux refuses; and they are gone where flags
    /// then refuse a change that the kernel asked for them before. An ordinary user's write that
    /// has to take set-user-ID away, too, is refused with both kept.
    ///
    /// # Errors
    /// Those of `removexattr(2)`.
    pub fn removexattr(&self, caller: Caller, number: u64, name: &[u8]) -> Result<(), Errno> {
        self.check_shown()?;
        let ino = self.ino(number);
        self.run_for_room(|| {
            check_name(name)?;
            let remove = || self.vfs().fs().removexattr(ino, name);
            let of_write = name == CAPABILITY
                && self.vfs().fs().getattr(ino)?.kind == FileKind::File
                && (caller.uid == 0 || self.without_privileges(ino)?.is_none());
            match of_write {
                true => OfWrite::scope(remove),
                false => remove(),
            }
        })
    }
}
