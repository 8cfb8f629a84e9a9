//! Paths of callers as the bytes that the file system takes.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The bytes of a path; `a/b` means `/a/b`, because a volume has no current directory.
pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
