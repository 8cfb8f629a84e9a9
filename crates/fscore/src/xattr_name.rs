//! Names of extended attributes: ext4 and F2FS both store the prefix of a name as the same number
//! (ext4 disk layout, "Extended Attributes").

use crate::acl::{self, Acl};
use crate::{Errno, FileKind, FsError, FsResult};

const USER: u8 = 1;
const ACL_ACCESS: u8 = 2;
const ACL_DEFAULT: u8 = 3;
const TRUSTED: u8 = 4;
const SECURITY: u8 = 6;

/// Prefixes that a name follows.
const PREFIXES: [(u8, &[u8]); 3] = [
    (USER, b"user."),
    (TRUSTED, b"trusted."),
    (SECURITY, b"security."),
];
/// Prefixes that are the whole name.
const WHOLE: [(u8, &[u8]); 2] = [
    (ACL_ACCESS, b"system.posix_acl_access"),
    (ACL_DEFAULT, b"system.posix_acl_default"),
];

/// A name as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XattrName<'a> {
    /// Number of the prefix.
    pub index: u8,
    /// What follows the prefix.
    pub rest: &'a [u8],
}

impl XattrName<'_> {
    /// Reads a full name.
    ///
    /// # Errors
    /// EOPNOTSUPP for another name space, EINVAL for a prefix alone.
    pub fn parse(name: &[u8]) -> Result<XattrName<'_>, Errno> {
        if let Some(&(index, _)) = WHOLE.iter().find(|(_, whole)| *whole == name) {
            return Ok(XattrName { index, rest: b"" });
        }
        let stripped = |&(index, prefix): &(u8, &[u8])| {
            let rest = name.strip_prefix(prefix)?;
            Some(XattrName { index, rest })
        };
        let found = PREFIXES.iter().find_map(stripped).ok_or(Errno::NotSup)?;
        match found.rest {
            b"" => Err(Errno::Inval),
            _ => Ok(found),
        }
    }
    /// Whether an inode of this kind can have it set, or taken away.
    ///
    /// # Errors
    /// EPERM for `user.` on anything but files and directories, EOPNOTSUPP for ACLs of symbolic
    /// links.
    pub fn check_change(&self, kind: FileKind) -> Result<(), Errno> {
        match kind {
            _ if self.index == USER && !holds_user_attributes(kind) => Err(Errno::Perm),
            FileKind::Symlink if self.is_acl() => Err(Errno::NotSup),
            _ => Ok(()),
        }
    }
    /// The value as it is stored, if an inode of this kind can have it set: ACLs are translated.
    ///
    /// # Errors
    /// As [`check_change`](Self::check_change); EACCES for a default ACL of anything but a
    /// directory, EINVAL for an ACL that is none.
    pub fn stored(&self, kind: FileKind, value: &[u8]) -> Result<Vec<u8>, Errno> {
        self.check_change(kind)?;
        if self.is_default_acl() && kind != FileKind::Dir {
            return Err(Errno::Access);
        }
        match self.is_acl() {
            true => Ok(Acl::parse(value)?.to_disk()),
            false => Ok(value.to_vec()),
        }
    }
    /// The value as it is handed out.
    ///
    /// # Errors
    /// EINVAL for an ACL that is none.
    pub fn shown(&self, value: &[u8]) -> Result<Vec<u8>, Errno> {
        match self.is_acl() {
            true => acl::from_disk(value),
            false => Ok(value.to_vec()),
        }
    }
    /// The answer to its removal: a missing ACL is the state that was asked for.
    pub fn removed(&self, outcome: FsResult<()>) -> FsResult<()> {
        match outcome {
            Err(FsError::Posix(Errno::NoData)) if self.is_acl() => Ok(()),
            other => other,
        }
    }
    /// Whether an inode of this kind can be asked for it.
    ///
    /// # Errors
    /// ENODATA for `user.` of anything but files and directories, EOPNOTSUPP for ACLs of symbolic
    /// links.
    pub fn check_get(&self, kind: FileKind) -> Result<(), Errno> {
        match self.check_change(kind) {
            Err(Errno::Perm) => Err(Errno::NoData),
            other => other,
        }
    }
    /// One of the two ACLs.
    pub fn is_acl(&self) -> bool {
        matches!(self.index, ACL_ACCESS | ACL_DEFAULT)
    }
    /// The ACL that new inodes take over.
    pub fn is_default_acl(&self) -> bool {
        self.index == ACL_DEFAULT
    }
    /// The ACL that the mode follows.
    pub fn is_access_acl(&self) -> bool {
        self.index == ACL_ACCESS
    }
}

fn holds_user_attributes(kind: FileKind) -> bool {
    matches!(kind, FileKind::File | FileKind::Dir)
}

/// The name with its prefix; `None` if that prefix is not known.
pub fn xattr_full_name(index: u8, rest: &[u8]) -> Option<Vec<u8>> {
    let all = PREFIXES.iter().chain(&WHOLE);
    let &(_, prefix) = all.clone().find(|(known, _)| *known == index)?;
    Some([prefix, rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let parsed =
            |name: &'static str| XattrName::parse(name.as_bytes()).map(|n| (n.index, n.rest));
        assert_eq!(parsed("user.a.b"), Ok((1, &b"a.b"[..])));
        assert_eq!(parsed("trusted.x"), Ok((4, &b"x"[..])));
        assert_eq!(parsed("security.selinux"), Ok((6, &b"selinux"[..])));
        assert_eq!(parsed("system.posix_acl_default"), Ok((3, &b""[..])));
        assert_eq!(parsed("user."), Err(Errno::Inval));
        for other in ["user", "system.", "system.posix_acl_accessx", "os2.x", ""] {
            assert_eq!(parsed(other), Err(Errno::NotSup), "{other}");
        }
    }
}
