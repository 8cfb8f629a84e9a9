//! Short names for tests of modes and ACLs.

use base::Ino;
use fscore::{Creds, FileKind, FileSystem, FsResult, SetAttr};

/// The super-user with the usual umask.
pub const ROOT: Creds = Creds {
    uid: 0,
    gid: 0,
    umask: 0o022,
};
/// The attribute of the ACL that decides.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute of the ACL that new inodes get.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";
/// The id of an entry that is for no named user or group.
pub const NOBODY: u32 = u32::MAX;

/// An ACL of these tags, permissions and ids in the form of system calls.
pub fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut out = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        out.extend(tag.to_le_bytes());
        out.extend(perm.to_le_bytes());
        out.extend(id.to_le_bytes());
    }
    out
}

/// An ACL with a named user, and a mask.
pub fn named_acl(perm: u16, mask: u16) -> Vec<u8> {
    acl(&[
        (1, 7, NOBODY),
        (2, perm, 1000),
        (4, 5, NOBODY),
        (0x10, mask, NOBODY),
        (0x20, 1, NOBODY),
    ])
}

/// Makes a file with these permissions, as far as the umask or a default ACL leaves them.
///
/// # Panics
/// If it cannot.
pub fn file(fs: &dyn FileSystem, dir: Ino, name: &str, perm: u16) -> Ino {
    let made = fs.create(dir, name.as_bytes(), FileKind::File, perm, 0, ROOT);
    made.expect("create").ino
}

/// Sets permissions.
///
/// # Errors
/// Those of `setattr`.
pub fn chmod(fs: &dyn FileSystem, ino: Ino, perm: u16) -> FsResult<()> {
    let set = SetAttr {
        perm: Some(perm),
        ..SetAttr::default()
    };
    fs.setattr(ino, &set).map(drop)
}
