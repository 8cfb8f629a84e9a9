//! The result codes of SQLite for errors of the file system.

use crate::ffi;
use std::ffi::c_int;
use vfs::{Errno, FsError};

/// What failed, as far as SQLite's extended codes tell it apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum During {
    /// xRead.
    Read,
    /// xWrite.
    Write,
    /// xTruncate.
    Truncate,
    /// xSync.
    Sync,
    /// The sync of a directory.
    DirSync,
    /// xFileSize.
    Stat,
    /// xDelete.
    Delete,
    /// xAccess.
    Access,
    /// xClose.
    Close,
    /// xOpen.
    Open,
    /// xFullPathname.
    Path,
}

/// The code. A full device is SQLITE_FULL; a structure that contradicts itself is a corrupt file
/// system, which SQLite turns into SQLITE_CORRUPT; everything else is the operation's own
/// SQLITE_IOERR.
pub(crate) fn code(during: During, error: &FsError) -> c_int {
    match (during, error) {
        (During::Write | During::Truncate, e) if e.errno() == Errno::NoSpc => ffi::SQLITE_FULL,
        (During::Delete, FsError::Posix(Errno::NoEnt)) => ffi::SQLITE_IOERR_DELETE_NOENT,
        (During::Read, FsError::Corrupt { .. }) => ffi::SQLITE_IOERR_CORRUPTFS,
        (During::Read, _) => ffi::SQLITE_IOERR_READ,
        (During::Write, _) => ffi::SQLITE_IOERR_WRITE,
        (During::Truncate, _) => ffi::SQLITE_IOERR_TRUNCATE,
        (During::Sync, _) => ffi::SQLITE_IOERR_FSYNC,
        (During::DirSync, _) => ffi::SQLITE_IOERR_DIR_FSYNC,
        (During::Stat, _) => ffi::SQLITE_IOERR_FSTAT,
        (During::Delete, _) => ffi::SQLITE_IOERR_DELETE,
        (During::Access, _) => ffi::SQLITE_IOERR_ACCESS,
        (During::Close, _) => ffi::SQLITE_IOERR_CLOSE,
        (During::Open | During::Path, _) => ffi::SQLITE_CANTOPEN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_errors_stay_apart() {
        let power = FsError::Io {
            what: "write of block 7".into(),
            power_lost: true,
        };
        let corrupt = FsError::corrupt("inode 12: extent beyond the device");
        let table = [
            (
                During::Write,
                FsError::Posix(Errno::NoSpc),
                ffi::SQLITE_FULL,
            ),
            (During::Write, power.clone(), ffi::SQLITE_IOERR_WRITE),
            (During::Sync, power, ffi::SQLITE_IOERR_FSYNC),
            (During::Read, corrupt, ffi::SQLITE_IOERR_CORRUPTFS),
            (
                During::Delete,
                FsError::Posix(Errno::NoEnt),
                ffi::SQLITE_IOERR_DELETE_NOENT,
            ),
        ];
        for (during, error, expected) in table {
            assert_eq!(code(during, &error), expected, "{during:?}: {error}");
        }
    }
}
