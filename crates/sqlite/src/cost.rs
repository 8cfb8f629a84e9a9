//! Statements and commits of a connection, charged by the table of CPU costs. SQLite tells of them
//! by its hooks for tracing and for commits; pages and locks are charged by `varve-sqlite-vfs`,
//! where they pass.

use base::Nanos;
use base::cost::sqlite;
use libsqlite3_sys as ffi;
use std::ffi::{c_int, c_uint, c_void};

/// Charges what runs on `db` from here on. It takes the place of other hooks of these two kinds.
pub(crate) fn charge(db: &rusqlite::Connection) {
    let none = std::ptr::null_mut();
    // SAFETY: the connection is open; the hooks use none of their arguments.
    unsafe {
        let db = db.handle();
        ffi::sqlite3_trace_v2(db, ffi::SQLITE_TRACE_STMT as c_uint, Some(begins), none);
        ffi::sqlite3_commit_hook(db, Some(commits), none);
    }
}

/// A statement begins to run.
unsafe extern "C" fn begins(_: c_uint, _: *mut c_void, _: *mut c_void, _: *mut c_void) -> c_int {
    spend(sqlite::STATEMENT)
}

/// A transaction is about to be committed; 0 lets it.
unsafe extern "C" fn commits(_: *mut c_void) -> c_int {
    spend(sqlite::COMMIT)
}

fn spend(span: Nanos) -> c_int {
    // A panic here is in the report of the simulation; neither hook has an error to give.
    let _ = rt::foreign(|| rt::charge(span));
    0
}
