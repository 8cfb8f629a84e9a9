//! The model's extended attributes: any number of any size, with the errors of Linux.

use super::inode::Inode;
use fscore::{Errno, FileKind, FsResult, XattrMode};

const PREFIXES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
const ACLS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

impl Inode {
    /// Checks a name for this inode.
    ///
    /// # Errors
    /// EOPNOTSUPP, EINVAL for the name; `on_user` for `user.` on an inode that cannot have it.
    fn check_xattr_name(&self, name: &[u8], on_user: Errno) -> FsResult<()> {
        let kind = self.kind();
        if ACLS.contains(&name) {
            return match kind {
                FileKind::Symlink => Err(Errno::NotSup.into()),
                _ => Ok(()),
            };
        }
        let prefix = PREFIXES.iter().find(|p| name.starts_with(p));
        let prefix = prefix.ok_or(Errno::NotSup)?;
        if name.len() == prefix.len() {
            return Err(Errno::Inval.into());
        }
        let user = name.starts_with(PREFIXES[0]);
        if user && !matches!(kind, FileKind::File | FileKind::Dir) {
            return Err(on_user.into());
        }
        Ok(())
    }
    pub(super) fn set_xattr(&mut self, name: &[u8], value: &[u8], mode: XattrMode) -> FsResult<()> {
        self.check_xattr_name(name, Errno::Perm)?;
        match (mode, self.xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(Errno::Exist.into()),
            (XattrMode::Replace, false) => return Err(Errno::NoData.into()),
            _ => {}
        }
        self.xattrs.insert(name.to_vec(), value.to_vec());
        self.touch_inode();
        Ok(())
    }
    pub(super) fn xattr(&self, name: &[u8]) -> FsResult<Vec<u8>> {
        self.check_xattr_name(name, Errno::NoData)?;
        let value = self.xattrs.get(name);
        Ok(value.ok_or(Errno::NoData)?.clone())
    }
    pub(super) fn remove_xattr(&mut self, name: &[u8]) -> FsResult<()> {
        self.check_xattr_name(name, Errno::Perm)?;
        self.xattrs.remove(name).ok_or(Errno::NoData)?;
        self.touch_inode();
        Ok(())
    }
}
