//! The border to C: the `sqlite3_vfs` named `varve`, one for each SQLite that loads us.

use crate::api::Api;
use crate::images::{self, Home, Refusal};
use crate::name::Name;
use crate::uri::Wish;
use crate::{defaults, said, share, uri};
use sqlite_vfs::ffi::{self, sqlite3_file, sqlite3_vfs};
use sqlite_vfs::{Calls, Ended, Host, Options, RawFile, Request};
use std::ffi::{CStr, c_char, c_int};

/// The name of the VFS.
pub const NAME: &CStr = c"varve";
/// Bytes of the longest full name: a path of the host, the mark, a path of the volume.
const NAME_BYTES: usize = 2 * 4096 + 1;

/// The number of that error on Linux.
const EROFS: c_int = 30;
/// Why a database can only be read. SQLite says so of the first write, and not why.
const READ_ONLY: &str = "its databases can only be read here: it is mounted read-only, because of \
                         `ro` in the options of whoever opened it first, or because it is \
                         write-protected";

/// What belongs to a VFS; it is never freed.
pub struct Data {
    pub api: Api,
    /// The default VFS of the same SQLite.
    pub below: *mut sqlite3_vfs,
}

/// # Safety
/// `vfs` was made by [`make`].
pub unsafe fn data(vfs: *mut sqlite3_vfs) -> &'static Data {
    // SAFETY: `pAppData` is a leaked box, see `make`.
    unsafe { &*(*vfs).pAppData.cast::<Data>() }
}

/// Whether a VFS was made by [`make`].
///
/// # Safety
/// `vfs` is a registered VFS.
pub unsafe fn is_ours(vfs: *mut sqlite3_vfs) -> bool {
    let ours: unsafe extern "C" fn(_, _, _, _, _) -> _ = x_open;
    // SAFETY: the caller's promise.
    unsafe { (*vfs).xOpen }.is_some_and(|open| std::ptr::fn_addr_eq(open, ours))
}

/// A VFS that leaves to `below` what it does not do itself. It lives for ever (sqlite-ext-E2).
///
/// # Safety
/// `below` is the default VFS of the SQLite of `api`.
pub unsafe fn make(api: Api, below: *mut sqlite3_vfs) -> *mut sqlite3_vfs {
    // SAFETY: the caller's promise.
    let file_bytes = unsafe { (*below).szOsFile }.max(size_of::<RawFile>() as c_int);
    let vfs = sqlite3_vfs {
        iVersion: 2,
        szOsFile: file_bytes,
        mxPathname: NAME_BYTES as c_int,
        pNext: std::ptr::null_mut(),
        zName: NAME.as_ptr(),
        pAppData: Box::into_raw(Box::new(Data { api, below })).cast(),
        xOpen: Some(x_open),
        xDelete: Some(x_delete),
        xAccess: Some(x_access),
        xFullPathname: Some(x_full_pathname),
        xDlOpen: Some(defaults::dl_open),
        xDlError: Some(defaults::dl_error),
        xDlSym: Some(defaults::dl_sym),
        xDlClose: Some(defaults::dl_close),
        xRandomness: Some(defaults::randomness),
        xSleep: Some(defaults::sleep),
        xCurrentTime: Some(defaults::current_time),
        xGetLastError: Some(x_get_last_error),
        xCurrentTimeInt64: Some(defaults::current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    };
    Box::into_raw(Box::new(vfs))
}

/// Runs a callback; a failure is noted with its text, and so is a panic (sqlite-S3).
fn guarded(api: Api, broken: c_int, f: impl FnOnce() -> Result<c_int, Refusal>) -> c_int {
    let refusal = match rt::foreign(f) {
        Ok(Ok(code)) => return code,
        Ok(Err(refusal)) => refusal,
        Err(payload) => {
            let said = payload.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| payload.downcast_ref::<&str>().copied());
            let text = format!(
                "a fault in the extension: {}",
                said.unwrap_or("it panicked")
            );
            Refusal {
                code: broken,
                errno: 5,
                text,
                is_in_use: false,
            }
        }
    };
    said::say(api, refusal.code, refusal.errno, &refusal.text);
    refusal.code
}

/// A name that cannot be used.
fn unfit(text: String) -> Refusal {
    Refusal {
        code: ffi::SQLITE_CANTOPEN,
        errno: 22,
        text,
        is_in_use: false,
    }
}

/// # Safety
/// `name` is a C string.
unsafe fn parsed(name: *const c_char) -> Result<Name, Refusal> {
    // SAFETY: the caller's promise.
    Name::parse(unsafe { CStr::from_ptr(name) }.to_bytes()).map_err(unfit)
}

unsafe extern "C" fn x_open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    out: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS, a full name or null, `szOsFile` bytes, and a place for flags
    // or null. With null methods SQLite does not call xClose after a failure.
    unsafe {
        (*out).pMethods = std::ptr::null();
        if name.is_null() {
            return defaults::open_temporary(vfs, out, flags, out_flags);
        }
        let api = data(vfs).api;
        guarded(api, ffi::SQLITE_IOERR, || {
            let place = parsed(name)?;
            let is_main = flags & ffi::SQLITE_OPEN_MAIN_DB != 0;
            let wish = match is_main {
                true => uri::wish(api, name, flags).map_err(unfit)?,
                false => Wish::default(),
            };
            let home = images::acquire(api, &place.image, &wish)?;
            let psow = match is_main {
                true => (api.routines().uri_boolean)(name, c"psow".as_ptr(), psow_default()) != 0,
                false => psow_default() != 0,
            };
            match opened(home, place.path.clone(), flags, psow) {
                Ok((file, came_true, ended)) => {
                    if is_main && is_write_protected(flags, came_true) {
                        let text = format!("{}: {READ_ONLY}", place.image.display());
                        said::say(api, ffi::SQLITE_READONLY, EROFS, &text);
                    }
                    let host = Host {
                        name: NAME,
                        malloc64: api.routines().malloc64,
                    };
                    sqlite_vfs::install(out, file, host, ended);
                    if !out_flags.is_null() {
                        *out_flags = came_true;
                    }
                    Ok(ffi::SQLITE_OK)
                }
                Err(code) => Ok(code),
            }
        })
    }
}

/// Whether a database that was to be written can only be read.
fn is_write_protected(asked: c_int, came_true: c_int) -> bool {
    asked & ffi::SQLITE_OPEN_READWRITE != 0 && came_true & ffi::SQLITE_OPEN_READONLY != 0
}

fn psow_default() -> c_int {
    c_int::from(Options::default().powersafe_overwrite)
}

/// An open file, the flags that came true, and what its end is followed by.
type Opened = (Box<dyn Calls>, c_int, Option<Ended>);

fn opened(home: Home, path: Vec<u8>, flags: c_int, psow: bool) -> Result<Opened, c_int> {
    let mount = match home {
        Home::There(session) => {
            let (file, flags) = share::open(&session, &path, flags, psow)?;
            return Ok((Box::new(file), flags, None));
        }
        Home::Here(mount) => mount,
    };
    let request = Request {
        path: Some(path),
        flags,
        powersafe_overwrite: psow,
    };
    match sqlite_vfs::open(&mount, request) {
        Ok((file, flags)) => {
            images::keep(&mount);
            let ended: Ended = Box::new(move || images::release(&mount));
            Ok((Box::new(file), flags, Some(ended)))
        }
        Err(code) => {
            images::release(&mount);
            Err(code)
        }
    }
}

unsafe extern "C" fn x_delete(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    sync_dir: c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS and a full name.
    unsafe {
        let api = data(vfs).api;
        guarded(api, ffi::SQLITE_IOERR_DELETE, || {
            let place = parsed(name)?;
            images::with(api, &place, |home| match home {
                Home::Here(mount) => sqlite_vfs::delete(mount, &place.path, sync_dir & 1 != 0),
                Home::There(session) => share::delete(session, &place.path, sync_dir & 1 != 0),
            })
        })
    }
}

unsafe extern "C" fn x_access(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS, a full name and a place for the answer.
    unsafe {
        *out = 0;
        let api = data(vfs).api;
        guarded(api, ffi::SQLITE_IOERR_ACCESS, || {
            let place = parsed(name)?;
            images::with(api, &place, |home| {
                let found = match home {
                    Home::Here(mount) => sqlite_vfs::exists(mount, &place.path, flags),
                    Home::There(session) => share::exists(session, &place.path, flags),
                };
                match found {
                    Ok(yes) => {
                        *out = c_int::from(yes);
                        ffi::SQLITE_OK
                    }
                    Err(code) => code,
                }
            })
        })
    }
}

unsafe extern "C" fn x_full_pathname(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes our VFS, a name and `room` bytes for the answer.
    unsafe {
        guarded(data(vfs).api, ffi::SQLITE_CANTOPEN, || {
            let full = parsed(name)?.full().map_err(unfit)?.bytes();
            if !usize::try_from(room).is_ok_and(|room| full.len() < room) {
                let text = format!("a name of {} bytes is too long", full.len());
                return Err(unfit(text));
            }
            let out = out.cast::<u8>();
            out.copy_from_nonoverlapping(full.as_ptr(), full.len());
            out.add(full.len()).write(0);
            Ok(ffi::SQLITE_OK)
        })
    }
}

unsafe extern "C" fn x_get_last_error(
    _vfs: *mut sqlite3_vfs,
    _room: c_int,
    _out: *mut c_char,
) -> c_int {
    rt::foreign(said::last_errno).unwrap_or(0)
}
