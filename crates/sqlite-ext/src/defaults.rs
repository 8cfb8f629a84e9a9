//! What the VFS leaves to SQLite's default one: temporary files, loading, time, sleep, randomness.
//! Each function is called with the VFS that it belongs to.

use sqlite_vfs::ffi::{self, sqlite3_file, sqlite3_vfs};
use std::ffi::{c_char, c_int, c_void};

/// Julian day numbers are counted in days by one call and in milliseconds by the other.
const MS_PER_DAY: f64 = 86_400_000.0;

/// The default VFS below ours.
///
/// # Safety
/// `vfs` is one that [`crate::table`] made.
unsafe fn below(vfs: *mut sqlite3_vfs) -> *mut sqlite3_vfs {
    // SAFETY: the caller's promise.
    unsafe { crate::table::data(vfs) }.below
}

/// Opens a temporary file, which has no name and belongs to no image.
///
/// # Safety
/// As xOpen of the default VFS.
pub unsafe fn open_temporary(
    vfs: *mut sqlite3_vfs,
    out: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise; a file has room for those of both (see `table`).
    unsafe {
        let below = below(vfs);
        match (*below).xOpen {
            Some(open) => open(below, std::ptr::null(), out, flags, out_flags),
            None => ffi::SQLITE_CANTOPEN,
        }
    }
}

pub unsafe extern "C" fn dl_open(vfs: *mut sqlite3_vfs, name: *const c_char) -> *mut c_void {
    // SAFETY: SQLite passes our VFS, and what the call of the default VFS takes.
    unsafe {
        let below = below(vfs);
        (*below)
            .xDlOpen
            .map_or(std::ptr::null_mut(), |f| f(below, name))
    }
}

pub unsafe extern "C" fn dl_error(vfs: *mut sqlite3_vfs, room: c_int, out: *mut c_char) {
    // SAFETY: as above.
    unsafe {
        let below = below(vfs);
        if let Some(f) = (*below).xDlError {
            f(below, room, out);
        }
    }
}

pub unsafe extern "C" fn dl_sym(
    vfs: *mut sqlite3_vfs,
    library: *mut c_void,
    name: *const c_char,
) -> Option<unsafe extern "C" fn()> {
    // SAFETY: as above.
    unsafe {
        let below = below(vfs);
        (*below).xDlSym.and_then(|f| f(below, library, name))
    }
}

pub unsafe extern "C" fn dl_close(vfs: *mut sqlite3_vfs, library: *mut c_void) {
    // SAFETY: as above.
    unsafe {
        let below = below(vfs);
        if let Some(f) = (*below).xDlClose {
            f(below, library);
        }
    }
}

pub unsafe extern "C" fn randomness(
    vfs: *mut sqlite3_vfs,
    bytes: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        let below = below(vfs);
        (*below).xRandomness.map_or(0, |f| f(below, bytes, out))
    }
}

pub unsafe extern "C" fn sleep(vfs: *mut sqlite3_vfs, micros: c_int) -> c_int {
    // SAFETY: as above.
    unsafe {
        let below = below(vfs);
        (*below).xSleep.map_or(0, |f| f(below, micros))
    }
}

pub unsafe extern "C" fn current_time(vfs: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: as above.
    unsafe {
        let below = below(vfs);
        (*below)
            .xCurrentTime
            .map_or(ffi::SQLITE_ERROR, |f| f(below, out))
    }
}

pub unsafe extern "C" fn current_time_int64(vfs: *mut sqlite3_vfs, out: *mut i64) -> c_int {
    // SAFETY: as above; the call is there from version 2 of the structure on.
    unsafe {
        let below = below(vfs);
        if (*below).iVersion >= 2
            && let Some(f) = (*below).xCurrentTimeInt64
        {
            return f(below, out);
        }
        let mut days = 0.0;
        let code = current_time(vfs, &raw mut days);
        *out = (days * MS_PER_DAY) as i64;
        code
    }
}
