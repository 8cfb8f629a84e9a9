//! Splitting a path into components. Paths are bytes, because Linux fixes no encoding for them.

use fscore::{Errno, FsResult};

/// Most bytes of a path, without the terminating NUL (Linux `PATH_MAX` - 1).
pub const PATH_BYTES_MAX: usize = 4095;
/// Most bytes of a component (Linux `NAME_MAX`).
pub const NAME_BYTES_MAX: usize = 255;
/// Most symbolic links that one walk follows (Linux `MAXSYMLINKS`).
pub const SYMLINKS_MAX: u32 = 40;

/// Checks a path as a whole.
///
/// # Errors
/// ENOENT for the empty path, ENAMETOOLONG above [`PATH_BYTES_MAX`], EINVAL for a NUL byte.
pub(crate) fn check(path: &[u8]) -> FsResult<()> {
    if path.is_empty() {
        return Err(Errno::NoEnt.into());
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(Errno::NameTooLong.into());
    }
    if path.contains(&0) {
        return Err(Errno::Inval.into());
    }
    Ok(())
}

/// Checks a name that is given with the inode number of its directory.
///
/// # Errors
/// ENOENT for the empty name, ENAMETOOLONG, EINVAL for `/`, NUL, `.` and `..`.
pub(crate) fn check_name(name: &[u8]) -> FsResult<()> {
    if name.is_empty() {
        return Err(Errno::NoEnt.into());
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Errno::NameTooLong.into());
    }
    if name.iter().any(|b| matches!(b, 0 | b'/')) || name == b"." || name == b".." {
        return Err(Errno::Inval.into());
    }
    Ok(())
}

/// The components of `path`, the last one first, as a stack to pop from.
pub(crate) fn components_reversed(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.rsplit(|&b| b == b'/').filter(|part| !part.is_empty())
}

/// True if the path ends in a slash.
pub(crate) fn ends_in_slash(path: &[u8]) -> bool {
    path.last() == Some(&b'/')
}
