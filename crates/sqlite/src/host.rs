//! SQLite's own file layer, for comparison runs on a mounted file system.

use crate::SetupError;
use rusqlite::ffi;
use std::ffi::{c_int, c_ulong};

/// Keeps SQLite's own file layer (`unix`) from all ioctls, for the whole process. On Linux it uses
/// them only on F2FS, to ask for atomic writes (`F2FS_IOC_GET_FEATURES`), which would replace the
/// rollback journal in every mode that has one. Without them a journal is written on F2FS as on
/// every other file system.
///
/// # Errors
/// SQLite has no such file layer, or does not let its system calls be replaced.
pub fn without_atomic_writes() -> Result<(), SetupError> {
    let refused = |code| SetupError::Refused {
        what: "xSetSystemCall(ioctl)",
        code,
    };
    // SAFETY: the structure found is SQLite's own and static. The function put in place of `ioctl`
    // is called with two integers and further arguments that it does not look at, which the C
    // conventions of Linux's architectures allow; the pointer type is the one of no particular
    // function that SQLite asks for.
    let code = unsafe {
        let unix = ffi::sqlite3_vfs_find(c"unix".as_ptr());
        let set = unix.as_ref().and_then(|unix| unix.xSetSystemCall);
        let set = set.ok_or(refused(ffi::SQLITE_NOTFOUND))?;
        let none: unsafe extern "C" fn(c_int, c_ulong) -> c_int = no_ioctl;
        let none = std::mem::transmute::<
            unsafe extern "C" fn(c_int, c_ulong) -> c_int,
            unsafe extern "C" fn(),
        >(none);
        set(unix, c"ioctl".as_ptr(), Some(none))
    };
    match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(refused(code)),
    }
}

unsafe extern "C" fn no_ioctl(_file: c_int, _request: c_ulong) -> c_int {
    -1
}
