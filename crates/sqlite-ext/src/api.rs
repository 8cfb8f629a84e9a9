//! The functions of the SQLite that loaded us (sqlite-ext-E1). SQLite passes them as a table,
//! `sqlite3_api_routines` of `sqlite3ext.h`, to whose end it has only ever added.

use sqlite_vfs::ffi::sqlite3_vfs;
use std::ffi::{CStr, c_char, c_int, c_void};

/// The oldest SQLite that knows `SQLITE_OK_LOAD_PERMANENTLY`: 3.14.
pub const OLDEST: c_int = 3_014_000;

/// The first SQLite that tells the keys of a URI: 3.31.
const KEYS_SINCE: c_int = 3_031_000;

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
    gap_245: [usize; 47],
    /// In the table since [`KEYS_SINCE`].
    pub uri_key: unsafe extern "C" fn(*const c_char, c_int) -> *const c_char,
}

/// Checks the version of the SQLite whose table this is.
///
/// # Safety
/// `routines` is null, or a table whose `libversion_number` can be called.
unsafe fn version(routines: *const sqlite3_api_routines) -> Result<(), String> {
    if routines.is_null() {
        return Err(
            "SQLite passed no table of its functions; load the extension with `.load`, \
                    sqlite3_load_extension or a function built on it"
                .into(),
        );
    }
    // SAFETY: the caller's promise; the function is in the table since SQLite 3.3.
    match unsafe { ((*routines).libversion_number)() } {
        version if version < OLDEST => {
            let (major, minor) = (version / 1_000_000, version / 1000 % 1000);
            let needs = "the extension needs 3.14 or newer";
            Err(format!("this is SQLite {major}.{minor}; {needs}"))
        }
        _ => Ok(()),
    }
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
        // SAFETY: the caller's promise; from this version on all functions are in the table.
        unsafe {
            version(routines)?;
            Ok(Api(&*routines))
        }
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

    /// The keys of the parameters of the URI by which a database was opened; none if this SQLite
    /// cannot tell them.
    ///
    /// # Safety
    /// `name` was passed to xOpen for a main database.
    pub unsafe fn uri_keys(self, name: *const c_char) -> Vec<Vec<u8>> {
        // SAFETY: the caller's promise; the function is looked at if it is in the table, and its
        // answer is null behind the last key, or a text that lives as long as `name`.
        unsafe {
            if (self.0.libversion_number)() < KEYS_SINCE {
                return Vec::new();
            }
            let key = |n| {
                let key = (self.0.uri_key)(name, n);
                (!key.is_null()).then(|| CStr::from_ptr(key).to_bytes().to_vec())
            };
            (0..).map_while(key).collect()
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
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::mem::offset_of;
    use std::process::Command;

    macro_rules! places {
        ($($name:ident)*) => {
            [$((stringify!($name), offset_of!(sqlite3_api_routines, $name))),*]
        };
    }

    #[test]
    fn functions_stand_where_the_header_of_sqlite_has_them() {
        let ours = places!(libversion_number result_null result_text vfs_find vfs_register
            create_function_v2 uri_boolean uri_parameter auto_extension malloc64 uri_key);
        let mut program = String::from("#include <sqlite3ext.h>\n#include <stddef.h>\n");
        // The header has a macro for each function; `log` is `xLog` in no version.
        for (name, place) in ours.iter().chain(&places!(log)) {
            writeln!(program, "#undef sqlite3_{name}").unwrap();
            let offset = format!("offsetof(struct sqlite3_api_routines, {name})");
            writeln!(program, "_Static_assert({offset} == {place}, \"{name}\");").unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("places.c");
        std::fs::write(&source, program).unwrap();
        let out = Command::new("cc")
            .arg("-fsyntax-only")
            .arg(source)
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
    }

    #[test]
    fn an_sqlite_that_is_too_old_is_refused() {
        unsafe extern "C" fn old() -> c_int {
            3_008_011
        }
        // SAFETY: only the version is looked at; all other words of the table stay unused.
        let mut table: Box<std::mem::MaybeUninit<sqlite3_api_routines>> = Box::new_zeroed();
        // SAFETY: a field of a box; the refusal comes before any other one is read.
        let refused = unsafe {
            (&raw mut (*table.as_mut_ptr()).libversion_number).write(old);
            version(table.as_ptr())
        };
        assert!(
            refused
                .unwrap_err()
                .contains("this is SQLite 3.8; the extension needs 3.14")
        );
        // SAFETY: null is allowed.
        let refused = unsafe { version(std::ptr::null()) };
        assert!(refused.unwrap_err().contains("no table of its functions"));
    }
}
