//! The part of SQLite's C interface that a VFS is made of: structures and numbers that SQLite has
//! promised not to change (<https://www.sqlite.org/c3ref/vfs.html>). Nothing here is a function, so
//! this crate links no SQLite, and what is built on it works with the one that loads it.
//!
//! The crate `varve-sqlite` compares all of it with the bindings of `libsqlite3-sys`.

#![allow(non_camel_case_types, non_snake_case)] // SQLite's own names.
#![allow(missing_docs)] // SQLite documents them.

use std::ffi::{c_char, c_int, c_void};

/// An open file as SQLite sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sqlite3_file {
    pub pMethods: *const sqlite3_io_methods,
}

/// The functions of an open file, version 3.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sqlite3_io_methods {
    pub iVersion: c_int,
    pub xClose: Option<unsafe extern "C" fn(*mut sqlite3_file) -> c_int>,
    pub xRead: Option<unsafe extern "C" fn(*mut sqlite3_file, *mut c_void, c_int, i64) -> c_int>,
    pub xWrite: Option<unsafe extern "C" fn(*mut sqlite3_file, *const c_void, c_int, i64) -> c_int>,
    pub xTruncate: Option<unsafe extern "C" fn(*mut sqlite3_file, i64) -> c_int>,
    pub xSync: Option<unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int>,
    pub xFileSize: Option<unsafe extern "C" fn(*mut sqlite3_file, *mut i64) -> c_int>,
    pub xLock: Option<unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int>,
    pub xUnlock: Option<unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int>,
    pub xCheckReservedLock: Option<unsafe extern "C" fn(*mut sqlite3_file, *mut c_int) -> c_int>,
    pub xFileControl: Option<unsafe extern "C" fn(*mut sqlite3_file, c_int, *mut c_void) -> c_int>,
    pub xSectorSize: Option<unsafe extern "C" fn(*mut sqlite3_file) -> c_int>,
    pub xDeviceCharacteristics: Option<unsafe extern "C" fn(*mut sqlite3_file) -> c_int>,
    pub xShmMap: Option<
        unsafe extern "C" fn(*mut sqlite3_file, c_int, c_int, c_int, *mut *mut c_void) -> c_int,
    >,
    pub xShmLock: Option<unsafe extern "C" fn(*mut sqlite3_file, c_int, c_int, c_int) -> c_int>,
    pub xShmBarrier: Option<unsafe extern "C" fn(*mut sqlite3_file)>,
    pub xShmUnmap: Option<unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int>,
    pub xFetch:
        Option<unsafe extern "C" fn(*mut sqlite3_file, i64, c_int, *mut *mut c_void) -> c_int>,
    pub xUnfetch: Option<unsafe extern "C" fn(*mut sqlite3_file, i64, *mut c_void) -> c_int>,
}

/// A VFS, version 3.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct sqlite3_vfs {
    pub iVersion: c_int,
    pub szOsFile: c_int,
    pub mxPathname: c_int,
    pub pNext: *mut sqlite3_vfs,
    pub zName: *const c_char,
    pub pAppData: *mut c_void,
    pub xOpen: Option<
        unsafe extern "C" fn(
            *mut sqlite3_vfs,
            *const c_char,
            *mut sqlite3_file,
            c_int,
            *mut c_int,
        ) -> c_int,
    >,
    pub xDelete: Option<unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char, c_int) -> c_int>,
    pub xAccess:
        Option<unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char, c_int, *mut c_int) -> c_int>,
    pub xFullPathname:
        Option<unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char, c_int, *mut c_char) -> c_int>,
    pub xDlOpen: Option<unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char) -> *mut c_void>,
    pub xDlError: Option<unsafe extern "C" fn(*mut sqlite3_vfs, c_int, *mut c_char)>,
    pub xDlSym: Option<
        unsafe extern "C" fn(
            *mut sqlite3_vfs,
            *mut c_void,
            *const c_char,
        ) -> Option<unsafe extern "C" fn()>,
    >,
    pub xDlClose: Option<unsafe extern "C" fn(*mut sqlite3_vfs, *mut c_void)>,
    pub xRandomness: Option<unsafe extern "C" fn(*mut sqlite3_vfs, c_int, *mut c_char) -> c_int>,
    pub xSleep: Option<unsafe extern "C" fn(*mut sqlite3_vfs, c_int) -> c_int>,
    pub xCurrentTime: Option<unsafe extern "C" fn(*mut sqlite3_vfs, *mut f64) -> c_int>,
    pub xGetLastError: Option<unsafe extern "C" fn(*mut sqlite3_vfs, c_int, *mut c_char) -> c_int>,
    pub xCurrentTimeInt64: Option<unsafe extern "C" fn(*mut sqlite3_vfs, *mut i64) -> c_int>,
    pub xSetSystemCall: Option<
        unsafe extern "C" fn(
            *mut sqlite3_vfs,
            *const c_char,
            Option<unsafe extern "C" fn()>,
        ) -> c_int,
    >,
    pub xGetSystemCall: Option<
        unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char) -> Option<unsafe extern "C" fn()>,
    >,
    pub xNextSystemCall:
        Option<unsafe extern "C" fn(*mut sqlite3_vfs, *const c_char) -> *const c_char>,
}

/// Declares the numbers, and a list of all of them for the comparison.
macro_rules! numbers {
    ($($name:ident = $value:literal,)*) => {
        $(pub const $name: c_int = $value;)*
        /// Each number of this module with its name.
        pub const NUMBERS: &[(&str, c_int)] = &[$((stringify!($name), $value)),*];
    };
}

numbers! {
    SQLITE_ACCESS_EXISTS = 0,
    SQLITE_BUSY = 5,
    SQLITE_CANTOPEN = 14,
    SQLITE_ERROR = 1,
    SQLITE_FCNTL_BEGIN_ATOMIC_WRITE = 31,
    SQLITE_FCNTL_CHUNK_SIZE = 6,
    SQLITE_FCNTL_COMMIT_ATOMIC_WRITE = 32,
    SQLITE_FCNTL_EXTERNAL_READER = 40,
    SQLITE_FCNTL_HAS_MOVED = 20,
    SQLITE_FCNTL_LAST_ERRNO = 4,
    SQLITE_FCNTL_LOCKSTATE = 1,
    SQLITE_FCNTL_PERSIST_WAL = 10,
    SQLITE_FCNTL_POWERSAFE_OVERWRITE = 13,
    SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE = 33,
    SQLITE_FCNTL_SIZE_HINT = 5,
    SQLITE_FCNTL_SYNC = 21,
    SQLITE_FCNTL_TEMPFILENAME = 16,
    SQLITE_FCNTL_VFSNAME = 12,
    SQLITE_FULL = 13,
    SQLITE_IOCAP_BATCH_ATOMIC = 16384,
    SQLITE_IOCAP_POWERSAFE_OVERWRITE = 4096,
    SQLITE_IOCAP_SUBPAGE_READ = 32768,
    SQLITE_IOERR = 10,
    SQLITE_IOERR_ACCESS = 3338,
    SQLITE_IOERR_CLOSE = 4106,
    SQLITE_IOERR_COMMIT_ATOMIC = 7690,
    SQLITE_IOERR_CORRUPTFS = 8458,
    SQLITE_IOERR_DELETE = 2570,
    SQLITE_IOERR_DELETE_NOENT = 5898,
    SQLITE_IOERR_DIR_FSYNC = 1290,
    SQLITE_IOERR_FSTAT = 1802,
    SQLITE_IOERR_FSYNC = 1034,
    SQLITE_IOERR_READ = 266,
    SQLITE_IOERR_SHMLOCK = 5130,
    SQLITE_IOERR_SHMMAP = 5386,
    SQLITE_IOERR_SHORT_READ = 522,
    SQLITE_IOERR_TRUNCATE = 1546,
    SQLITE_IOERR_WRITE = 778,
    SQLITE_NOMEM = 7,
    SQLITE_NOTFOUND = 12,
    SQLITE_OK = 0,
    SQLITE_OK_LOAD_PERMANENTLY = 256,
    SQLITE_OPEN_CREATE = 4,
    SQLITE_OPEN_DELETEONCLOSE = 8,
    SQLITE_OPEN_EXCLUSIVE = 16,
    SQLITE_OPEN_MAIN_DB = 256,
    SQLITE_OPEN_MAIN_JOURNAL = 2048,
    SQLITE_OPEN_READONLY = 1,
    SQLITE_OPEN_READWRITE = 2,
    SQLITE_OPEN_SUPER_JOURNAL = 16384,
    SQLITE_OPEN_URI = 64,
    SQLITE_OPEN_WAL = 524288,
    SQLITE_READONLY = 8,
    SQLITE_SHM_EXCLUSIVE = 8,
    SQLITE_SHM_UNLOCK = 1,
    SQLITE_UTF8 = 1,
}
