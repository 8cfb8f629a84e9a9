//! The entry points. SQLite looks for `sqlite3_extension_init` first, then for a name made of the
//! letters of the file: `sqlite3_varve_init` for `varve.so`.

use crate::api::{Api, sqlite3, sqlite3_api_routines};
use crate::{images, said, table};
use rt::Mutex;
use sqlite_vfs::ffi;
use std::ffi::{CString, c_char, c_int};

/// Two connections may load at once; the second finds what the first has registered.
static LOADING: Mutex<()> = Mutex::named("sqlite-ext loading", ());

unsafe extern "C" {
    /// C's: calls a function at the end of the process.
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// The entry point that SQLite tries first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    db: *mut sqlite3,
    message: *mut *mut c_char,
    routines: *const sqlite3_api_routines,
) -> c_int {
    // SAFETY: what SQLite passes.
    unsafe { load(db, message, routines) }
}

/// The entry point by the name of `varve.so`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_varve_init(
    db: *mut sqlite3,
    message: *mut *mut c_char,
    routines: *const sqlite3_api_routines,
) -> c_int {
    // SAFETY: what SQLite passes.
    unsafe { load(db, message, routines) }
}

/// The entry point by the name of `libvarve_sqlite3.so`, as cargo builds it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_varvesqlite_init(
    db: *mut sqlite3,
    message: *mut *mut c_char,
    routines: *const sqlite3_api_routines,
) -> c_int {
    // SAFETY: what SQLite passes.
    unsafe { load(db, message, routines) }
}

/// Registers the VFS, and the function `varve_error` with this connection and all later ones.
///
/// # Safety
/// As SQLite calls the entry point of an extension: `message` is null or a place for a text.
unsafe fn load(
    db: *mut sqlite3,
    message: *mut *mut c_char,
    routines: *const sqlite3_api_routines,
) -> c_int {
    // SAFETY: the caller's promise.
    let loaded = rt::foreign(|| unsafe { try_load(db, routines) });
    let text = match loaded {
        Ok(Ok(())) => return ffi::SQLITE_OK_LOAD_PERMANENTLY,
        Ok(Err(text)) => text,
        Err(_) => "a fault in the extension".into(),
    };
    // SAFETY: as above. A table that cannot be used has no memory for the text.
    unsafe {
        if let (Ok(api), Some(message)) = (Api::new(routines), message.as_mut())
            && let Ok(text) = CString::new(format!("varve: {text}"))
        {
            *message = api.allocated(&text);
        }
    }
    ffi::SQLITE_ERROR
}

/// # Safety
/// As [`load`].
unsafe fn try_load(db: *mut sqlite3, routines: *const sqlite3_api_routines) -> Result<(), String> {
    let refused = |what: &str, code| match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(format!("SQLite refused {what} with code {code}")),
    };
    // SAFETY: what SQLite passes, and functions of its table as it documents them.
    unsafe {
        let api = Api::new(routines)?;
        let functions = api.routines();
        let loading = LOADING.lock();
        let there = (functions.vfs_find)(table::NAME.as_ptr());
        if !there.is_null() && !table::is_ours(there) {
            return Err("another VFS named `varve` is registered".into());
        }
        let is_new = there.is_null();
        if is_new {
            let below = (functions.vfs_find)(std::ptr::null());
            if below.is_null() {
                return Err("this SQLite has no default VFS to take time from".into());
            }
            let vfs = table::make(api, below);
            refused("the VFS", (functions.vfs_register)(vfs, 0))?;
            let each = (functions.auto_extension)(Some(std::mem::transmute::<
                unsafe extern "C" fn(
                    *mut sqlite3,
                    *mut *mut c_char,
                    *const sqlite3_api_routines,
                ) -> c_int,
                unsafe extern "C" fn(),
            >(each_connection)));
            refused("the function of all connections", each)?;
            // SQLite keeps the extension loaded, so the function stays where it is. Without memory
            // for it a process has to close its connections, as SQLite asks anyway.
            atexit(images::sync_all);
        }
        drop(loading);
        match said::give_function(db, api) {
            // The connection has it, and is using it or another one: a statement loads us again.
            ffi::SQLITE_BUSY if !is_new => Ok(()),
            code => refused("the function varve_error", code),
        }
    }
}

/// What SQLite calls for each new connection. A connection without the function is better than
/// none, so nothing here fails.
unsafe extern "C" fn each_connection(
    db: *mut sqlite3,
    _message: *mut *mut c_char,
    routines: *const sqlite3_api_routines,
) -> c_int {
    let given = rt::foreign(|| {
        // SAFETY: what SQLite passes.
        unsafe { Api::new(routines).map(|api| said::give_function(db, api)) }
    });
    drop(given);
    ffi::SQLITE_OK
}
