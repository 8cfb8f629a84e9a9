//! Extended attributes.

use super::{Caller, Server};
use vfs::{Errno, FsError, XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX, XattrMode};

/// Only the superuser sees names that begin so.
const TRUSTED: &[u8] = b"trusted.";

fn check_name(name: &[u8]) -> Result<(), FsError> {
    match name.is_empty() || name.len() > XATTR_NAME_BYTES_MAX {
        true => Err(Errno::Range.into()),
        false => Ok(()),
    }
}

impl Server {
    /// Sets an extended attribute.
    ///
    /// # Errors
    /// Those of `setxattr(2)`.
    pub fn setxattr(
        &self,
        number: u64,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), Errno> {
        let ino = self.ino(number);
        self.run(|| {
            check_name(name)?;
            if value.len() > XATTR_VALUE_BYTES_MAX {
                return Err(Errno::TooBig.into());
            }
            self.vfs.fs().setxattr(ino, name, value, mode)?;
            self.note_xattr(ino, name);
            Ok(())
        })
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// Those of `getxattr(2)`.
    pub fn getxattr(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.run(|| {
            check_name(name)?;
            self.vfs.fs().getxattr(self.ino(number), name)
        })
    }

    /// Names of the extended attributes that the caller may see, each with a NUL behind it.
    ///
    /// # Errors
    /// Those of `listxattr(2)`.
    pub fn listxattr(&self, caller: Caller, number: u64) -> Result<Vec<u8>, Errno> {
        let mut names = self.run(|| self.vfs.fs().listxattr(self.ino(number)))?;
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

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// Those of `removexattr(2)`.
    pub fn removexattr(&self, number: u64, name: &[u8]) -> Result<(), Errno> {
        self.run(|| {
            check_name(name)?;
            self.vfs.fs().removexattr(self.ino(number), name)
        })
    }
}
