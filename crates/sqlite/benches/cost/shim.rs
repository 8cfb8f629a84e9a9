//! A VFS of SQLite that passes every call on to the default one and takes the time of those that
//! do I/O, so that the rest of the time is SQLite's own.

use libsqlite3_sys as ffi;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::time::Instant;

/// Name of the VFS.
pub const NAME: &CStr = c"timed";
/// Calls by which the price of taking the time is found.
const EMPTY_CALLS: u64 = 200_000;

std::thread_local! {
    /// Nanoseconds inside of the VFS, calls, and reads among them.
    static INSIDE: Cell<(u64, u64, u64)> = const { Cell::new((0, 0, 0)) };
}

/// Makes the VFS known to SQLite. Answers SQLite's code where it refuses.
pub fn register() -> Result<(), c_int> {
    // SAFETY: SQLite is initialised before its default VFS is asked for; the structure is complete
    // and lives for ever.
    let code = unsafe {
        ffi::sqlite3_initialize();
        let real = ffi::sqlite3_vfs_find(std::ptr::null());
        let ours = ffi::sqlite3_vfs {
            szOsFile: (*real).szOsFile + HEAD as c_int,
            pNext: null_mut(),
            zName: NAME.as_ptr(),
            xOpen: Some(x_open),
            xDelete: Some(x_delete),
            xAccess: Some(x_access),
            ..*real
        };
        ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 0)
    };
    match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(code),
    }
}

/// Nanoseconds that `work` takes outside of the VFS.
pub fn own_nanos(work: impl FnOnce()) -> f64 {
    let (clock, before) = (clock_nanos(), INSIDE.get());
    let start = Instant::now();
    work();
    let whole = start.elapsed().as_nanos() as f64;
    let after = INSIDE.get();
    let inside = (after.0 - before.0) as f64;
    whole - inside - clock * (after.1 - before.1) as f64
}

/// Reads so far.
pub fn reads() -> u64 {
    INSIDE.get().2
}

/// What taking the time of a call adds outside of it, nanoseconds.
fn clock_nanos() -> f64 {
    let before = INSIDE.get();
    let start = Instant::now();
    (0..EMPTY_CALLS).for_each(|_| timed(|| ()));
    let whole = start.elapsed().as_nanos() as f64;
    let inside = (INSIDE.get().0 - before.0) as f64;
    (whole - inside) / EMPTY_CALLS as f64
}

fn timed<R>(call: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = call();
    let took = start.elapsed().as_nanos() as u64;
    let (nanos, calls, reads) = INSIDE.get();
    INSIDE.set((nanos + took, calls + 1, reads));
    result
}

/// Bytes before the file of the default VFS.
const HEAD: usize = size_of::<ffi::sqlite3_file>();

/// The file of the default VFS, which lies behind ours.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: `szOsFile` has room for both.
    unsafe { file.byte_add(HEAD) }
}

unsafe fn default_vfs() -> *mut ffi::sqlite3_vfs {
    // SAFETY: a function of SQLite's interface.
    unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) }
}

unsafe extern "C" fn x_open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    out: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite's arguments are passed on; `out` has room for both files.
    timed(|| unsafe {
        let vfs = default_vfs();
        let open = (*vfs).xOpen.expect("a VFS opens files");
        let code = open(vfs, name, real(out), flags, out_flags);
        let opened = !(*real(out)).pMethods.is_null();
        (*out).pMethods = if opened { &METHODS } else { std::ptr::null() };
        code
    })
}

unsafe extern "C" fn x_delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, dir: c_int) -> c_int {
    // SAFETY: SQLite's arguments are passed on.
    timed(|| unsafe {
        let vfs = default_vfs();
        (*vfs).xDelete.expect("a VFS deletes files")(vfs, name, dir)
    })
}

unsafe extern "C" fn x_access(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite's arguments are passed on.
    timed(|| unsafe {
        let vfs = default_vfs();
        (*vfs).xAccess.expect("a VFS looks for files")(vfs, name, flags, out)
    })
}

/// Methods of a file that pass a call on and take its time.
macro_rules! pass {
    ($($ours:ident is $theirs:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(unsafe extern "C" fn $ours(
            file: *mut ffi::sqlite3_file $(, $arg: $kind)*
        ) -> $answer {
            // SAFETY: SQLite's arguments are passed on, for a file that is open.
            timed(|| unsafe {
                let file = real(file);
                let call = (*(*file).pMethods).$theirs;
                call.expect("a method of the default VFS")(file $(, $arg)*)
            })
        })*
    };
}

pass! {
    x_close is xClose() -> c_int;
    x_write is xWrite(data: *const c_void, len: c_int, at: i64) -> c_int;
    x_truncate is xTruncate(size: i64) -> c_int;
    x_sync is xSync(flags: c_int) -> c_int;
    x_file_size is xFileSize(out: *mut i64) -> c_int;
    x_lock is xLock(level: c_int) -> c_int;
    x_unlock is xUnlock(level: c_int) -> c_int;
    x_check_reserved_lock is xCheckReservedLock(out: *mut c_int) -> c_int;
    x_file_control is xFileControl(op: c_int, arg: *mut c_void) -> c_int;
    x_sector_size is xSectorSize() -> c_int;
    x_device_characteristics is xDeviceCharacteristics() -> c_int;
    x_shm_map is xShmMap(region: c_int, bytes: c_int, extend: c_int, out: *mut *mut c_void) -> c_int;
    x_shm_lock is xShmLock(slot: c_int, n: c_int, flags: c_int) -> c_int;
    x_shm_barrier is xShmBarrier() -> ();
    x_shm_unmap is xShmUnmap(delete: c_int) -> c_int;
}

unsafe extern "C" fn x_read(
    file: *mut ffi::sqlite3_file,
    out: *mut c_void,
    len: c_int,
    at: i64,
) -> c_int {
    let (nanos, calls, reads) = INSIDE.get();
    INSIDE.set((nanos, calls, reads + 1));
    // SAFETY: as in `pass`.
    timed(|| unsafe {
        let file = real(file);
        (*(*file).pMethods).xRead.expect("a VFS reads")(file, out, len, at)
    })
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(x_close),
    xRead: Some(x_read),
    xWrite: Some(x_write),
    xTruncate: Some(x_truncate),
    xSync: Some(x_sync),
    xFileSize: Some(x_file_size),
    xLock: Some(x_lock),
    xUnlock: Some(x_unlock),
    xCheckReservedLock: Some(x_check_reserved_lock),
    xFileControl: Some(x_file_control),
    xSectorSize: Some(x_sector_size),
    xDeviceCharacteristics: Some(x_device_characteristics),
    xShmMap: Some(x_shm_map),
    xShmLock: Some(x_shm_lock),
    xShmBarrier: Some(x_shm_barrier),
    xShmUnmap: Some(x_shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
