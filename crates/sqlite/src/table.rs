//! The border to C: `sqlite3_vfs`, one per registration. Each has a slot, which is never freed,
//! because a connection that was never closed still points to it; a slot without open files is used
//! again.

#![allow(clippy::disallowed_types)] // The lists of slots belong to the process, and no call below them waits.

use crate::process;
use libsqlite3_sys as ffi;
use sqlite_vfs::{During, Host, Mount, RawFile, Request};
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of the longest path, with its NUL.
const PATH_BYTES: usize = vfs::PATH_BYTES_MAX + 1;

/// A registered `sqlite3_vfs`.
pub(crate) struct Slot {
    name: CString,
    mount: Mutex<Option<Arc<Mount>>>,
}

/// Slots whose registration has ended and that no open file uses, as addresses of their
/// `sqlite3_vfs`.
static FREE: Mutex<Slots> = Mutex::new(Slots {
    free: Vec::new(),
    made: 0,
});

struct Slots {
    free: Vec<Table>,
    made: u64,
}

/// The `sqlite3_vfs` of a slot; `pAppData` is the slot.
#[derive(Clone, Copy)]
pub(crate) struct Table(*mut ffi::sqlite3_vfs);

// SAFETY: it points to memory that is never freed and that SQLite changes (`pNext`) under its own
// mutex only.
unsafe impl Send for Table {}
// SAFETY: as above; we read immutable fields only.
unsafe impl Sync for Table {}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }
    /// The mount while the registration lasts.
    fn mount(&self) -> Option<Arc<Mount>> {
        lock(&self.mount).clone()
    }
}

impl Table {
    /// Registers a VFS over `mount`, not as the default one. Answers SQLite's code if it refuses.
    pub(crate) fn register(mount: Arc<Mount>) -> Result<Table, c_int> {
        let table = {
            let mut slots = lock(&FREE);
            slots.free.pop().unwrap_or_else(|| {
                slots.made += 1;
                Table::make(slots.made)
            })
        };
        *lock(&table.slot().mount) = Some(mount);
        // SAFETY: the structure is complete and lives for ever.
        let code = unsafe { ffi::sqlite3_vfs_register(table.0, 0) };
        if code == ffi::SQLITE_OK {
            Ok(table)
        } else {
            Err(code)
        }
    }

    /// Ends the registration. With open files left the slot is not used again: they keep their
    /// mount.
    pub(crate) fn unregister(self, mount: &Mount) {
        // SAFETY: it is registered; connections that still use it find it through their own
        // pointer.
        unsafe { ffi::sqlite3_vfs_unregister(self.0) };
        *lock(&self.slot().mount) = None;
        if mount.open_files() == 0 {
            lock(&FREE).free.push(self);
        }
    }

    pub(crate) fn name(self) -> &'static CStr {
        self.slot().name()
    }

    fn slot(self) -> &'static Slot {
        // SAFETY: `pAppData` is a leaked Slot, see `make`.
        unsafe { &*(*self.0).pAppData.cast::<Slot>() }
    }

    fn make(number: u64) -> Table {
        let name = CString::new(format!("varve-{number}")).expect("the name holds no NUL");
        let slot: &'static Slot = Box::leak(Box::new(Slot {
            name,
            mount: Mutex::new(None),
        }));
        let loader = process::loader();
        let table = ffi::sqlite3_vfs {
            iVersion: 2,
            szOsFile: size_of::<RawFile>() as c_int,
            mxPathname: PATH_BYTES as c_int,
            pNext: std::ptr::null_mut(),
            zName: slot.name.as_ptr(),
            pAppData: std::ptr::from_ref(slot).cast_mut().cast(),
            xOpen: Some(x_open),
            xDelete: Some(x_delete),
            xAccess: Some(x_access),
            xFullPathname: Some(x_full_pathname),
            xRandomness: Some(process::randomness),
            xSleep: Some(process::sleep),
            xCurrentTime: Some(process::current_time),
            xGetLastError: Some(x_get_last_error),
            xCurrentTimeInt64: Some(process::current_time_int64),
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
            // Extensions are loaded by the host; these functions do not look at their VFS.
            ..loader
        };
        Table(Box::leak(Box::new(table)))
    }
}

/// Runs a callback on the mount of `vfs`. A panic becomes `broken` (sqlite-S3), an ended
/// registration SQLITE_CANTOPEN.
///
/// # Safety
/// `vfs` is one of ours.
unsafe fn call(
    vfs: *mut ffi::sqlite3_vfs,
    broken: c_int,
    f: impl FnOnce(&'static Slot, &Arc<Mount>) -> c_int,
) -> c_int {
    let slot = Table(vfs).slot();
    let Some(mount) = slot.mount() else {
        return ffi::SQLITE_CANTOPEN;
    };
    match rt::foreign(|| f(slot, &mount)) {
        Ok(code) => code,
        Err(payload) => {
            mount.keep_panic(payload);
            broken
        }
    }
}

/// # Safety
/// `text` is a C string.
unsafe fn bytes(text: *const c_char) -> Vec<u8> {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
}

unsafe extern "C" fn x_open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    out: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS, a name or null, `szOsFile` bytes, and a place for flags or
    // null. With null methods SQLite does not call xClose after a failure.
    unsafe {
        (*out).pMethods = std::ptr::null();
        call(vfs, ffi::SQLITE_IOERR, |slot, mount| {
            let by_default = mount.options().powersafe_overwrite;
            let is_uri = flags & ffi::SQLITE_OPEN_URI != 0 && !name.is_null();
            let request = Request {
                path: (!name.is_null()).then(|| bytes(name)),
                flags,
                powersafe_overwrite: if is_uri {
                    ffi::sqlite3_uri_boolean(name, c"psow".as_ptr(), c_int::from(by_default)) != 0
                } else {
                    by_default
                },
            };
            match sqlite_vfs::open(mount, request) {
                Ok((file, flags)) => {
                    let host = Host {
                        name: slot.name(),
                        malloc64: ffi::sqlite3_malloc64,
                    };
                    sqlite_vfs::install(out.cast(), Box::new(file), host, None);
                    if !out_flags.is_null() {
                        *out_flags = flags;
                    }
                    ffi::SQLITE_OK
                }
                Err(code) => code,
            }
        })
    }
}

unsafe extern "C" fn x_delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_dir: c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS and a name.
    unsafe {
        call(vfs, ffi::SQLITE_IOERR_DELETE, |_, mount| {
            sqlite_vfs::delete(mount, &bytes(name), sync_dir & 1 != 0)
        })
    }
}

unsafe extern "C" fn x_access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our VFS, a name and a place for the answer.
    unsafe {
        *out = 0;
        call(
            vfs,
            ffi::SQLITE_IOERR_ACCESS,
            |_, mount| match sqlite_vfs::exists(mount, &bytes(name), flags) {
                Ok(yes) => {
                    *out = c_int::from(yes);
                    ffi::SQLITE_OK
                }
                Err(code) => code,
            },
        )
    }
}

unsafe extern "C" fn x_full_pathname(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes our VFS, a name and `room` bytes for the answer.
    unsafe {
        call(vfs, ffi::SQLITE_CANTOPEN, |_, mount| {
            let name = bytes(name);
            let full = match sqlite_vfs::full(mount.vfs(), &name) {
                Ok(full) => full,
                Err(error) => return mount.fail(During::Path, &name, &error),
            };
            let fits = usize::try_from(room).is_ok_and(|room| full.path.len() < room);
            if !fits {
                let error = vfs::Errno::NameTooLong.into();
                return mount.fail(During::Path, &name, &error);
            }
            let out = out.cast::<u8>();
            out.copy_from_nonoverlapping(full.path.as_ptr(), full.path.len());
            out.add(full.path.len()).write(0);
            if full.symlinks {
                ffi::SQLITE_OK_SYMLINK
            } else {
                ffi::SQLITE_OK
            }
        })
    }
}

unsafe extern "C" fn x_get_last_error(
    vfs: *mut ffi::sqlite3_vfs,
    _room: c_int,
    _out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes our VFS.
    unsafe { call(vfs, ffi::SQLITE_IOERR, |_, mount| mount.last_errno()) }
}
