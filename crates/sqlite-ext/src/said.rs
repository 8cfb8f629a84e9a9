//! The reason of the last failure. SQLite has codes alone ("unable to open database file"), so the
//! text goes to its error log, and to the SQL function `varve_error()` of every connection.

use crate::api::{Api, sqlite3, sqlite3_context, sqlite3_value};
use rt::Mutex;
use sqlite_vfs::ffi;
use std::ffi::{CString, c_int};

/// The last failure of the process. A failure to open belongs to no connection, so that the next
/// one asks.
static LAST: Mutex<Option<Failure>> = Mutex::named("sqlite-ext last failure", None);

struct Failure {
    errno: c_int,
    text: CString,
    /// How many there were before it.
    before: u64,
}

/// Notes a failure and writes it to SQLite's log.
pub fn say(api: Api, code: c_int, errno: c_int, text: &str) {
    let text: Vec<u8> = text.bytes().filter(|&b| b != 0).collect();
    let text = CString::new(text).expect("the zeros were taken out");
    api.log(code, &text);
    let mut last = LAST.lock();
    let before = last.as_ref().map_or(0, |last| last.before + 1);
    *last = Some(Failure {
        errno,
        text,
        before,
    });
}

/// How many failures there were.
pub fn count() -> u64 {
    LAST.lock().as_ref().map_or(0, |last| last.before + 1)
}

/// Number and text of the last failure, if there were more than `count`. It may be one of another
/// task, as [`last_errno`] may.
pub fn since(count: u64) -> Option<(c_int, Vec<u8>)> {
    let last = LAST.lock();
    let last = last.as_ref().filter(|last| last.before >= count)?;
    Some((last.errno, last.text.to_bytes().to_vec()))
}

/// The number of the last failure, for xGetLastError.
pub fn last_errno() -> c_int {
    LAST.lock().as_ref().map_or(0, |last| last.errno)
}

/// The first SQLite that gave the function: `varve_error` has no other way to its table. A second
/// SQLite in one process, which is rare, has no such function.
static FIRST: Mutex<Option<Api>> = Mutex::named("sqlite-ext first table", None);

/// Gives a connection the function.
///
/// # Safety
/// `db` is an open connection of the SQLite of `api`.
pub unsafe fn give_function(db: *mut sqlite3, api: Api) -> c_int {
    if !FIRST.lock().get_or_insert(api).is_same(api) {
        return ffi::SQLITE_OK;
    }
    // SAFETY: the caller's promise.
    unsafe {
        (api.routines().create_function_v2)(
            db,
            c"varve_error".as_ptr(),
            0,
            ffi::SQLITE_UTF8,
            std::ptr::null_mut(),
            Some(varve_error),
            None,
            None,
            None,
        )
    }
}

/// `varve_error()`: the text of the last failure; NULL if nothing has failed.
unsafe extern "C" fn varve_error(
    context: *mut sqlite3_context,
    _count: c_int,
    _values: *mut *mut sqlite3_value,
) {
    /// SQLite makes a copy of the text (`SQLITE_TRANSIENT`).
    const COPY: isize = -1;
    let answered = rt::foreign(|| {
        let api = (*FIRST.lock()).expect("a function is called after it was given");
        let last = LAST.lock();
        // SAFETY: a call that the SQLite of `FIRST` is making, and a text that is copied.
        unsafe {
            match &*last {
                Some(last) => (api.routines().result_text)(context, last.text.as_ptr(), -1, COPY),
                None => (api.routines().result_null)(context),
            }
        }
    });
    // A panic leaves the answer as it was: NULL.
    drop(answered);
}
