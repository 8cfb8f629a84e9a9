//! Errors: why a mount is not registered, and the result codes of SQLite for errors of the file
//! system.

use libsqlite3_sys as ffi;
use std::ffi::c_int;
use thiserror::Error;
use vfs::{Errno, FsError};

/// Why a mount could not be registered.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SetupError {
    /// SQLite was in use before the first registration of the process.
    #[error(
        "SQLite was initialised before varve-sqlite; call sqlite::set_up before the first use of SQLite in this process"
    )]
    InUse,
    /// SQLite refused.
    #[error("SQLite refused `{what}` with code {code}")]
    Refused {
        /// The call.
        what: &'static str,
        /// Its result code.
        code: i32,
    },
    /// Files are still open at the end of the registration.
    #[error("{files} SQLite files are still open; close all connections before unregistering")]
    FilesOpen {
        /// How many.
        files: usize,
    },
}

/// What failed, as far as SQLite's extended codes tell it apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum During {
    Read,
    Write,
    Truncate,
    Sync,
    DirSync,
    Stat,
    Delete,
    Access,
    Close,
    Open,
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
