//! The part of SQLite's C interface that `varve-sqlite-vfs` declares itself is that of SQLite.

use libsqlite3_sys as theirs;
use sqlite_vfs::ffi as ours;
use std::mem::{offset_of, size_of};

macro_rules! same_fields {
    ($name:ident: $($field:ident)*) => {
        assert_eq!(size_of::<ours::$name>(), size_of::<theirs::$name>());
        $(assert_eq!(
            offset_of!(ours::$name, $field),
            offset_of!(theirs::$name, $field),
            "{}", stringify!($field)
        );)*
    };
}

#[test]
fn structures_have_the_fields_of_sqlite_at_the_same_places() {
    same_fields!(sqlite3_file: pMethods);
    same_fields!(sqlite3_io_methods: iVersion xClose xRead xWrite xTruncate xSync xFileSize xLock
        xUnlock xCheckReservedLock xFileControl xSectorSize xDeviceCharacteristics xShmMap xShmLock
        xShmBarrier xShmUnmap xFetch xUnfetch);
    same_fields!(sqlite3_vfs: iVersion szOsFile mxPathname pNext zName pAppData xOpen xDelete
        xAccess xFullPathname xDlOpen xDlError xDlSym xDlClose xRandomness xSleep xCurrentTime
        xGetLastError xCurrentTimeInt64 xSetSystemCall xGetSystemCall xNextSystemCall);
}

macro_rules! numbers {
    ($($name:ident)*) => { [$((stringify!($name), theirs::$name)),*] };
}

#[test]
fn numbers_are_those_of_sqlite() {
    let theirs = numbers!(
        SQLITE_ACCESS_EXISTS
        SQLITE_BUSY
        SQLITE_CANTOPEN
        SQLITE_ERROR
        SQLITE_FCNTL_BEGIN_ATOMIC_WRITE
        SQLITE_FCNTL_CHUNK_SIZE
        SQLITE_FCNTL_COMMIT_ATOMIC_WRITE
        SQLITE_FCNTL_EXTERNAL_READER
        SQLITE_FCNTL_HAS_MOVED
        SQLITE_FCNTL_LAST_ERRNO
        SQLITE_FCNTL_LOCKSTATE
        SQLITE_FCNTL_PERSIST_WAL
        SQLITE_FCNTL_POWERSAFE_OVERWRITE
        SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE
        SQLITE_FCNTL_SIZE_HINT
        SQLITE_FCNTL_SYNC
        SQLITE_FCNTL_TEMPFILENAME
        SQLITE_FCNTL_VFSNAME
        SQLITE_FULL
        SQLITE_IOCAP_BATCH_ATOMIC
        SQLITE_IOCAP_POWERSAFE_OVERWRITE
        SQLITE_IOCAP_SUBPAGE_READ
        SQLITE_IOERR
        SQLITE_IOERR_ACCESS
        SQLITE_IOERR_CLOSE
        SQLITE_IOERR_COMMIT_ATOMIC
        SQLITE_IOERR_CORRUPTFS
        SQLITE_IOERR_DELETE
        SQLITE_IOERR_DELETE_NOENT
        SQLITE_IOERR_DIR_FSYNC
        SQLITE_IOERR_FSTAT
        SQLITE_IOERR_FSYNC
        SQLITE_IOERR_READ
        SQLITE_IOERR_SHMLOCK
        SQLITE_IOERR_SHMMAP
        SQLITE_IOERR_SHORT_READ
        SQLITE_IOERR_TRUNCATE
        SQLITE_IOERR_WRITE
        SQLITE_NOMEM
        SQLITE_NOTFOUND
        SQLITE_OK
        SQLITE_OK_LOAD_PERMANENTLY
        SQLITE_OPEN_CREATE
        SQLITE_OPEN_DELETEONCLOSE
        SQLITE_OPEN_EXCLUSIVE
        SQLITE_OPEN_MAIN_DB
        SQLITE_OPEN_MAIN_JOURNAL
        SQLITE_OPEN_READONLY
        SQLITE_OPEN_READWRITE
        SQLITE_OPEN_SUPER_JOURNAL
        SQLITE_OPEN_URI
        SQLITE_OPEN_WAL
        SQLITE_READONLY
        SQLITE_SHM_EXCLUSIVE
        SQLITE_SHM_UNLOCK
        SQLITE_UTF8
    );
    assert_eq!(ours::NUMBERS, theirs);
}
