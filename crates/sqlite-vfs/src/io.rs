//! The border to C: `sqlite3_io_methods`. Each callback is an `rt::foreign` (sqlite-S3); the work
//! is done by what is behind [`Calls`].

use crate::calls::Calls;
use crate::control;
use crate::ffi;
use crate::shm;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{Ordering, fence};

/// Our `sqlite3_file`: SQLite allocates it, we put our state behind the pointer.
#[repr(C)]
pub struct RawFile {
    base: ffi::sqlite3_file,
    state: *mut State,
}

/// What a file has to know of the SQLite that opened it.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// The name of the VFS (`SQLITE_FCNTL_VFSNAME`).
    pub name: &'static CStr,
    /// `sqlite3_malloc64`: memory that SQLite frees.
    pub malloc64: unsafe extern "C" fn(u64) -> *mut c_void,
}

/// Called when a file is closed; answers SQLite's code.
pub type Ended = Box<dyn FnOnce() -> c_int>;

/// What the pointer leads to.
struct State {
    file: Box<dyn Calls>,
    host: Host,
    ended: Option<Ended>,
}

/// The functions of our files.
pub static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

/// Turns what SQLite allocated into an open file. `ended` is called after the file was closed.
///
/// # Safety
/// `out` points to `szOsFile` bytes of ours.
pub unsafe fn install(
    out: *mut ffi::sqlite3_file,
    file: Box<dyn Calls>,
    host: Host,
    ended: Option<Ended>,
) {
    let state = Box::into_raw(Box::new(State { file, host, ended }));
    let raw = RawFile {
        base: ffi::sqlite3_file {
            pMethods: &raw const METHODS,
        },
        state,
    };
    // SAFETY: the caller's promise; szOsFile is the size of RawFile.
    unsafe { out.cast::<RawFile>().write(raw) };
}

/// Runs a callback on the state of `file`; a panic becomes SQLITE_IOERR.
///
/// # Safety
/// `file` was made by [`install`] and not closed.
unsafe fn call(file: *mut ffi::sqlite3_file, f: impl FnOnce(&mut State) -> c_int) -> c_int {
    // SAFETY: the caller's promise. A connection is used by one task at a time (sqlite-S5), so this
    // is the only reference.
    let state = unsafe { &mut *(*file.cast::<RawFile>()).state };
    if state.file.is_of_another_process() {
        return ffi::SQLITE_IOERR;
    }
    match rt::foreign(|| f(state)) {
        Ok(code) => code,
        Err(payload) => {
            state.file.keep_panic(payload);
            ffi::SQLITE_IOERR
        }
    }
}

/// What a sector is where the file cannot be asked, bytes.
const SECTOR_BYTES: c_int = 4096;

/// As [`call`], for a property of `file`: an error would be read as one, so `unknown` is answered.
///
/// # Safety
/// As [`call`].
unsafe fn property(
    file: *mut ffi::sqlite3_file,
    unknown: c_int,
    f: impl FnOnce(&mut State) -> c_int,
) -> c_int {
    let mut answer = unknown;
    // SAFETY: the caller's promise.
    unsafe {
        call(file, |state| {
            answer = f(state);
            ffi::SQLITE_OK
        })
    };
    answer
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes an open file once; the box comes from `install`.
    let state = unsafe {
        let raw = &mut *file.cast::<RawFile>();
        raw.base.pMethods = std::ptr::null();
        Box::from_raw(std::mem::replace(&mut raw.state, std::ptr::null_mut()))
    };
    if state.file.is_of_another_process() {
        // The file belongs to the process that opened it, where it goes on.
        std::mem::forget(state);
        return ffi::SQLITE_OK;
    }
    let State { file, ended, .. } = *state;
    // The file is gone after a panic, and so is who would hear of it.
    let closed = rt::foreign(|| file.close()).unwrap_or(ffi::SQLITE_IOERR_CLOSE);
    let ended = ended.map(|ended| rt::foreign(ended).unwrap_or(ffi::SQLITE_IOERR_CLOSE));
    match ended {
        None | Some(ffi::SQLITE_OK) => closed,
        Some(refused) => refused,
    }
}

/// Offset and length as SQLite passes them, or nothing if they are negative.
fn span(amount: c_int, offset: i64) -> Option<(usize, u64)> {
    Some((usize::try_from(amount).ok()?, u64::try_from(offset).ok()?))
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    out: *mut c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    let Some((len, offset)) = span(amount, offset) else {
        return ffi::SQLITE_IOERR_READ;
    };
    // SAFETY: SQLite passes an open file and `amount` bytes that only this call uses.
    unsafe {
        call(file, |state| {
            let buf = std::slice::from_raw_parts_mut(out.cast::<u8>(), len);
            state.file.read(offset, buf)
        })
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    data: *const c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    let Some((len, offset)) = span(amount, offset) else {
        return ffi::SQLITE_IOERR_WRITE;
    };
    // SAFETY: SQLite passes an open file and `amount` bytes that nobody changes meanwhile.
    unsafe {
        call(file, |state| {
            let data = std::slice::from_raw_parts(data.cast::<u8>(), len);
            state.file.write(offset, data)
        })
    }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    let Ok(size) = u64::try_from(size) else {
        return ffi::SQLITE_IOERR_TRUNCATE;
    };
    // SAFETY: an open file.
    unsafe { call(file, |state| state.file.truncate(size)) }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe { call(file, |state| state.file.sync()) }
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, out: *mut i64) -> c_int {
    // SAFETY: an open file and a place for the answer.
    unsafe {
        call(file, |state| match state.file.size() {
            Ok(size) => {
                *out = i64::try_from(size).unwrap_or(i64::MAX);
                ffi::SQLITE_OK
            }
            Err(code) => code,
        })
    }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe { call(file, |state| state.file.lock(level)) }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe { call(file, |state| state.file.unlock(level)) }
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: an open file and a place for the answer.
    unsafe {
        call(file, |state| {
            match state.file.is_reserved() {
                Ok(yes) => *out = c_int::from(yes),
                Err(code) => return code,
            }
            ffi::SQLITE_OK
        })
    }
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    op: c_int,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: an open file, and the argument that belongs to `op`.
    unsafe {
        call(file, |state| {
            control::file_control(&mut *state.file, &state.host, op, arg)
        })
    }
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: an open file.
    unsafe { property(file, SECTOR_BYTES, |state| state.file.sector_bytes()) }
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: an open file.
    unsafe { property(file, 0, |state| state.file.device_characteristics()) }
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: an open file and a place for the answer.
    unsafe {
        *out = std::ptr::null_mut();
        call(file, |state| {
            let (Ok(region), Ok(bytes)) = (usize::try_from(region), usize::try_from(bytes)) else {
                return ffi::SQLITE_IOERR_SHMMAP;
            };
            match state.file.shm_map(region, bytes, extend != 0) {
                Ok(start) => *out = start,
                Err(code) => return code,
            }
            ffi::SQLITE_OK
        })
    }
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: an open file.
    unsafe {
        call(file, |state| match shm::slots(first, count) {
            Some(slots) => state.file.shm_lock(slots, flags),
            None => ffi::SQLITE_IOERR_SHMLOCK,
        })
    }
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    fence(Ordering::SeqCst);
    // SAFETY: an open file.
    unsafe { another_may_run(file) };
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: an open file.
    unsafe {
        call(file, |state| {
            state.file.shm_unmap();
            ffi::SQLITE_OK
        })
    }
}

/// No memory mapping: SQLite reads.
unsafe extern "C" fn fetch(
    file: *mut ffi::sqlite3_file,
    _offset: i64,
    _amount: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: a place for the answer, and an open file.
    unsafe {
        *out = std::ptr::null_mut();
        another_may_run(file)
    }
}

unsafe extern "C" fn unfetch(
    file: *mut ffi::sqlite3_file,
    _offset: i64,
    _page: *mut c_void,
) -> c_int {
    // SAFETY: an open file.
    unsafe { another_may_run(file) }
}

/// A call that has nothing to do here, but lies between accesses to shared memory: in the schedules
/// of a simulation that look for races, another task may run now.
///
/// # Safety
/// `file` was made by [`install`] and not closed.
unsafe fn another_may_run(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(file, |state| {
            state.file.idle();
            ffi::SQLITE_OK
        })
    }
}
