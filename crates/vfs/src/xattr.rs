//! Extended attributes by path and by open file. Permissions are not checked, as everywhere in this
//! crate: the caller is the superuser and sees `trusted.`, too.

use crate::file::File;
use crate::mount::Vfs;
use crate::walk::Follow;
use base::cost::host;
use fscore::{Errno, FsResult, XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX, XattrMode};

/// Checks of a name what the system call checks before any file system sees it.
fn check_name(name: &[u8]) -> FsResult<()> {
    if name.is_empty() || name.len() > XATTR_NAME_BYTES_MAX {
        return Err(Errno::Range.into());
    }
    if name.contains(&0) {
        return Err(Errno::Inval.into());
    }
    Ok(())
}

fn check_value(value: &[u8]) -> FsResult<()> {
    if value.len() > XATTR_VALUE_BYTES_MAX {
        return Err(Errno::TooBig.into());
    }
    Ok(())
}

impl Vfs {
    /// Sets an extended attribute; symbolic links are followed.
    ///
    /// # Errors
    /// Those of `setxattr(2)`: ERANGE for an empty name or one above 255 bytes, E2BIG for a value
    /// above 64 KiB, EOPNOTSUPP for an unknown name space, EEXIST, ENODATA, EPERM, ENOSPC; those of
    /// the path walk.
    pub fn setxattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        value: &[u8],
        mode: XattrMode,
    ) -> FsResult<()> {
        self.set_xattr_at(path.as_ref(), Follow::Yes, name.as_ref(), value, mode)
    }
    /// Sets an extended attribute of a symbolic link itself.
    ///
    /// # Errors
    /// As [`setxattr`](Vfs::setxattr).
    pub fn lsetxattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        value: &[u8],
        mode: XattrMode,
    ) -> FsResult<()> {
        self.set_xattr_at(path.as_ref(), Follow::No, name.as_ref(), value, mode)
    }
    /// The value of an extended attribute; symbolic links are followed.
    ///
    /// # Errors
    /// Those of `getxattr(2)`: ENODATA, EOPNOTSUPP, ERANGE for the name; those of the path walk.
    pub fn getxattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> FsResult<Vec<u8>> {
        self.get_xattr_at(path.as_ref(), Follow::Yes, name.as_ref())
    }
    /// The value of an extended attribute of a symbolic link itself.
    ///
    /// # Errors
    /// As [`getxattr`](Vfs::getxattr).
    pub fn lgetxattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> FsResult<Vec<u8>> {
        self.get_xattr_at(path.as_ref(), Follow::No, name.as_ref())
    }
    /// Names of all extended attributes; symbolic links are followed.
    ///
    /// # Errors
    /// Those of `listxattr(2)`; those of the path walk.
    pub fn listxattr(&self, path: impl AsRef<[u8]>) -> FsResult<Vec<Vec<u8>>> {
        self.list_xattr_at(path.as_ref(), Follow::Yes)
    }
    /// Names of all extended attributes of a symbolic link itself.
    ///
    /// # Errors
    /// As [`listxattr`](Vfs::listxattr).
    pub fn llistxattr(&self, path: impl AsRef<[u8]>) -> FsResult<Vec<Vec<u8>>> {
        self.list_xattr_at(path.as_ref(), Follow::No)
    }
    /// Removes an extended attribute; symbolic links are followed.
    ///
    /// # Errors
    /// Those of `removexattr(2)`: ENODATA, EPERM, EOPNOTSUPP; those of the path walk.
    pub fn removexattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> FsResult<()> {
        self.remove_xattr_at(path.as_ref(), Follow::Yes, name.as_ref())
    }
    /// Removes an extended attribute of a symbolic link itself.
    ///
    /// # Errors
    /// As [`removexattr`](Vfs::removexattr).
    pub fn lremovexattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> FsResult<()> {
        self.remove_xattr_at(path.as_ref(), Follow::No, name.as_ref())
    }

    fn set_xattr_at(
        &self,
        path: &[u8],
        follow: Follow,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> FsResult<()> {
        check_name(name)?;
        check_value(value)?;
        self.call(host::CALL, |op| {
            let ino = self.resolve(op, path, follow)?.found()?.ino;
            self.fs.setxattr(ino, name, value, mode)
        })
    }
    fn get_xattr_at(&self, path: &[u8], follow: Follow, name: &[u8]) -> FsResult<Vec<u8>> {
        check_name(name)?;
        self.call(host::CALL, |op| {
            let ino = self.resolve(op, path, follow)?.found()?.ino;
            self.fs.getxattr(ino, name)
        })
    }
    fn list_xattr_at(&self, path: &[u8], follow: Follow) -> FsResult<Vec<Vec<u8>>> {
        self.call(host::CALL, |op| {
            let ino = self.resolve(op, path, follow)?.found()?.ino;
            self.fs.listxattr(ino)
        })
    }
    fn remove_xattr_at(&self, path: &[u8], follow: Follow, name: &[u8]) -> FsResult<()> {
        check_name(name)?;
        self.call(host::CALL, |op| {
            let ino = self.resolve(op, path, follow)?.found()?.ino;
            self.fs.removexattr(ino, name)
        })
    }
}

impl File {
    /// Sets an extended attribute of the open inode.
    ///
    /// # Errors
    /// As [`Vfs::setxattr`].
    pub fn setxattr(&self, name: impl AsRef<[u8]>, value: &[u8], mode: XattrMode) -> FsResult<()> {
        let name = name.as_ref();
        check_name(name)?;
        check_value(value)?;
        rt::charge(host::CALL);
        self.vfs().fs.setxattr(self.ino(), name, value, mode)
    }
    /// The value of an extended attribute.
    ///
    /// # Errors
    /// As [`Vfs::getxattr`].
    pub fn getxattr(&self, name: impl AsRef<[u8]>) -> FsResult<Vec<u8>> {
        check_name(name.as_ref())?;
        rt::charge(host::CALL);
        self.vfs().fs.getxattr(self.ino(), name.as_ref())
    }
    /// Names of all extended attributes.
    ///
    /// # Errors
    /// As [`Vfs::listxattr`].
    pub fn listxattr(&self) -> FsResult<Vec<Vec<u8>>> {
        rt::charge(host::CALL);
        self.vfs().fs.listxattr(self.ino())
    }
    /// Removes an extended attribute.
    ///
    /// # Errors
    /// As [`Vfs::removexattr`].
    pub fn removexattr(&self, name: impl AsRef<[u8]>) -> FsResult<()> {
        check_name(name.as_ref())?;
        rt::charge(host::CALL);
        self.vfs().fs.removexattr(self.ino(), name.as_ref())
    }
}
