//! The functions of the SQLite that loaded us (sqlite-S8). SQLite passes them as a table,
//! `sqlite3_api_routines` of `sqlite3ext.h`, to whose end it has only ever added.

use sqlite_vfs::ffi::sqlite3_vfs;
use std::ffi::{CStr, c_char, c_int, c_void};

/// The oldest SQLite that knows `SQLITE_OK_LOAD_PERMANENTLY`: 3.14.
pub const OLDEST: c_int = 3_014_000;

/// A connection; only SQLite looks into it.
#[repr(C)]
pub struct sqlite3 {
    _opaque: [u8; 0],
}

/// A call of an SQL function.
#[repr(C)]
pub struct sqlite3_context {
    _opaque: [u8; 0],
}

/// An argument of an SQL function.
#[repr(C)]
pub struct sqlite3_value {
    _opaque: [u8; 0],
}

/// The implementation of an SQL function.
pub type SqlFunction = unsafe extern "C" fn(*mut sqlite3_context, c_int, *mut *mut sqlite3_value);

/// The table, as far as we use it. The gaps are functions that are not used here, one word each;
/// the numbers in the names count the words before a gap's end.
#[repr(C)]
pub struct sqlite3_api_routines {
    gap_67: [usize; 67],
    pub libversion_number: unsafe extern "C" fn() -> c_int,
    gap_84: [usize; 16],
    pub result_null: unsafe extern "C" fn(*mut sqlite3_context),
    pub result_text: unsafe extern "C" fn(*mut sqlite3_context, *const c_char, c_int, isize),
    gap_141: [usize; 55],
    pub vfs_find: unsafe extern "C" fn(*const c_char) -> *mut sqlite3_vfs,
    pub vfs_register: unsafe extern "C" fn(*mut sqlite3_vfs, c_int) -> c_int,
    gap_162: [usize; 19],
    pub create_function_v2: unsafe extern "C" fn(
        *mut sqlite3,
        *const c_char,
        c_int,
        c_int,
        *mut c_void,
        Option<SqlFunction>,
        Option<SqlFunction>,
        Option<unsafe extern "C" fn(*mut sqlite3_context)>,
        Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> c_int,
    gap_167: [usize; 4],
    pub log: unsafe extern "C" fn(c_int, *const c_char, ...),
    gap_187: [usize; 19],
    pub uri_boolean: unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> c_int,
    gap_189: [usize; 1],
    pub uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    gap_192: [usize; 2],
    pub auto_extension: unsafe extern "C" fn(Option<unsafe extern "C" fn()>) -> c_int,
    gap_197: [usize; 4],
    pub malloc64: unsafe extern "C" fn(u64) -> *mut c_void,
}

/// The table of one SQLite. Copies are cheap.
#[derive(Clone, Copy)]
pub struct Api(&'static sqlite3_api_routines);

impl Api {
    /// # Safety
    /// `routines` is null, or what SQLite passes to the entry point of an extension. It points to a
    /// static of the SQLite that passes it.
    ///
    /// # Errors
    /// Why this SQLite cannot be used.
    pub unsafe fn new(routines: *const sqlite3_api_routines) -> Result<Api, String> {
        // SAFETY: the caller's promise. `libversion_number` is in the table since SQLite 3.3, which
        // is older than loading by this entry point.
        let (routines, version) = unsafe {
            let routines = routines.as_ref().ok_or(
                "SQLite passed no table of its functions; load the extension with `.load`, \
                 sqlite3_load_extension or a function built on it",
            )?;
            (routines, (routines.libversion_number)())
        };
        if version < OLDEST {
            let (major, minor) = (version / 1_000_000, version / 1000 % 1000);
            return Err(format!(
                "this is SQLite {major}.{minor}; the extension needs 3.14 or newer"
            ));
        }
        Ok(Api(routines))
    }

    /// Whether both are the table of one SQLite.
    pub fn is_same(self, other: Api) -> bool {
        std::ptr::eq(self.0, other.0)
    }

    pub fn routines(self) -> &'static sqlite3_api_routines {
        self.0
    }

    /// Writes a line to the error log of SQLite (`.log` in its shell).
    pub fn log(self, code: c_int, text: &CStr) {
        // SAFETY: the format has one text.
        unsafe { (self.0.log)(code, c"varve: %s".as_ptr(), text.as_ptr()) };
    }

    /// A parameter of the URI by which a database was opened.
    ///
    /// # Safety
    /// `name` was passed to xOpen for a main database.
    pub unsafe fn uri_parameter(self, name: *const c_char, key: &CStr) -> Option<Vec<u8>> {
        // SAFETY: the caller's promise; the answer is null or a text that lives as long as `name`.
        unsafe {
            let value = (self.0.uri_parameter)(name, key.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes().to_vec())
        }
    }

    /// A copy of `text` in memory that SQLite frees; null if there is none.
    pub fn allocated(self, text: &CStr) -> *mut c_char {
        let bytes = text.to_bytes_with_nul();
        // SAFETY: malloc64 answers null or as many bytes as were asked for.
        unsafe {
            let memory = (self.0.malloc64)(bytes.len() as u64).cast::<u8>();
            if !memory.is_null() {
                memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
            memory.cast()
        }
    }
}

#[cfg(test)]
pub mod places {
    //! Where the functions stand, for a comparison with `sqlite3ext.h`.

    use super::sqlite3_api_routines;
    use std::mem::offset_of;

    /// Names and offsets, bytes.
    pub const ALL: &[(&str, usize)] = &[
        (
            "libversion_number",
            offset_of!(sqlite3_api_routines, libversion_number),
        ),
        ("result_null", offset_of!(sqlite3_api_routines, result_null)),
        ("result_text", offset_of!(sqlite3_api_routines, result_text)),
        ("vfs_find", offset_of!(sqlite3_api_routines, vfs_find)),
        (
            "vfs_register",
            offset_of!(sqlite3_api_routines, vfs_register),
        ),
        (
            "create_function_v2",
            offset_of!(sqlite3_api_routines, create_function_v2),
        ),
        ("log", offset_of!(sqlite3_api_routines, log)),
        ("uri_boolean", offset_of!(sqlite3_api_routines, uri_boolean)),
        (
            "uri_parameter",
            offset_of!(sqlite3_api_routines, uri_parameter),
        ),
        (
            "auto_extension",
            offset_of!(sqlite3_api_routines, auto_extension),
        ),
        ("malloc64", offset_of!(sqlite3_api_routines, malloc64)),
    ];
}
