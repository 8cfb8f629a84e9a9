//! State that SQLite has once per process: mutexes, the random generator, the default VFS, the
//! local time. It is set up once, before SQLite is used (sqlite-S1, sqlite-S2, sqlite-S4).

// This is the set-up of a C library of the process: one-time statics, no call below them waits.
#![allow(clippy::disallowed_types)]

use crate::error::SetupError;
use crate::points;
use libsqlite3_sys as ffi;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Julian day of 1970-01-01T00:00:00Z in milliseconds: 2440587.5 days.
const UNIX_EPOCH_JULIAN_MS: i64 = 210_866_760_000_000;
const MS_PER_DAY: f64 = 86_400_000.0;

static SETUP: OnceLock<Result<Setup, SetupError>> = OnceLock::new();
/// The mutex of the random generator (`SQLITE_MUTEX_STATIC_PRNG`).
static PRNG: AtomicPtr<ffi::sqlite3_mutex> = AtomicPtr::new(std::ptr::null_mut());
/// Requests for randomness outside of simulations.
static REAL_DRAWS: AtomicU64 = AtomicU64::new(0);

std::thread_local! {
    /// How often this OS thread has entered the mutex of the random generator.
    static PRNG_DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Requests for randomness since the registration: a simulation runs on one OS thread, and only
    /// one at a time.
    static DRAWS: Cell<u64> = const { Cell::new(0) };
}

struct Setup {
    /// SQLite's own mutexes.
    mutexes: ffi::sqlite3_mutex_methods,
    /// SQLite's own default VFS.
    host: HostVfs,
}

#[derive(Clone, Copy)]
struct HostVfs(*mut ffi::sqlite3_vfs);

// SAFETY: the structure is a static of SQLite; we read fields that never change.
unsafe impl Send for HostVfs {}
// SAFETY: as above.
unsafe impl Sync for HostVfs {}

fn setup() -> &'static Setup {
    match SETUP.get() {
        Some(Ok(setup)) => setup,
        _ => panic!("sqlite-S1: a callback of SQLite ran before the set-up"),
    }
}

/// Sets SQLite up for both worlds, once per process; later calls do nothing.
/// [`register`](crate::register) does it by itself; call this first where a process uses SQLite in
/// other ways before it registers anything.
///
/// # Errors
/// [`SetupError::InUse`] if SQLite was initialised already: its mutexes cannot be changed then.
pub fn set_up() -> Result<(), SetupError> {
    let done = SETUP.get_or_init(|| {
        let (mutexes, host) = configure()?;
        Ok(Setup { mutexes, host })
    });
    done.as_ref().map_err(Clone::clone)?;
    // Not in the initialiser above: SQLite's mutexes lead to callbacks that read `SETUP`.
    finish()
}

fn check(what: &'static str, code: c_int) -> Result<(), SetupError> {
    match code {
        ffi::SQLITE_OK => Ok(()),
        ffi::SQLITE_MISUSE => Err(SetupError::InUse),
        code => Err(SetupError::Refused { what, code }),
    }
}

fn configure() -> Result<(ffi::sqlite3_mutex_methods, HostVfs), SetupError> {
    // SAFETY: calls of SQLite's interface in the order that its documentation asks for:
    // configuration only while it is not initialised; the methods are valid after one
    // initialisation, which fills in the defaults.
    unsafe {
        let mut mutexes: ffi::sqlite3_mutex_methods = std::mem::zeroed();
        let get = |out: *mut ffi::sqlite3_mutex_methods| {
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMUTEX, out)
        };
        check("sqlite3_config(GETMUTEX)", get(&raw mut mutexes))?;
        check("sqlite3_initialize", ffi::sqlite3_initialize())?;
        let host = HostVfs(ffi::sqlite3_vfs_find(std::ptr::null()));
        check("sqlite3_shutdown", ffi::sqlite3_shutdown())?;
        check("sqlite3_config(GETMUTEX)", get(&raw mut mutexes))?;
        let mut ours = mutexes;
        ours.xMutexAlloc = Some(mutex_alloc);
        ours.xMutexEnter = Some(mutex_enter);
        ours.xMutexTry = Some(mutex_try);
        ours.xMutexLeave = Some(mutex_leave);
        let set = ffi::sqlite3_config(ffi::SQLITE_CONFIG_MUTEX, &raw const ours);
        check("sqlite3_config(MUTEX)", set)?;
        Ok((mutexes, host))
    }
}

/// Initialises SQLite with our mutexes and puts our default VFS before the host's.
fn finish() -> Result<(), SetupError> {
    static DEFAULT: OnceLock<Result<(), SetupError>> = OnceLock::new();
    DEFAULT
        .get_or_init(|| {
            let default = Box::leak(Box::new(default_vfs(setup().host)));
            // SAFETY: the structure is complete and lives for ever; the alternative local time is a
            // function of the type that SQLITE_TESTCTRL_LOCALTIME_FAULT takes with the value 2.
            unsafe {
                check("sqlite3_initialize", ffi::sqlite3_initialize())?;
                let local: unsafe extern "C" fn(*const c_void, *mut c_void) -> c_int = local_time;
                let set = ffi::sqlite3_test_control(ffi::SQLITE_TESTCTRL_LOCALTIME_FAULT, 2, local);
                check("sqlite3_test_control(LOCALTIME_FAULT)", set)?;
                check(
                    "sqlite3_vfs_register",
                    ffi::sqlite3_vfs_register(default, 1),
                )
            }
        })
        .clone()
}

/// The host's VFS with our clock, sleep and randomness. In a simulation it opens no files: those of
/// the host would make the run depend on it.
fn default_vfs(host: HostVfs) -> ffi::sqlite3_vfs {
    // SAFETY: SQLite's static structure.
    let host = unsafe { *host.0 };
    ffi::sqlite3_vfs {
        iVersion: 2,
        pNext: std::ptr::null_mut(),
        zName: c"varve-default".as_ptr(),
        xOpen: Some(default_open),
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xCurrentTimeInt64: Some(current_time_int64),
        ..host
    }
}

/// A structure of which the functions that load extensions are to be taken.
pub(crate) fn loader() -> ffi::sqlite3_vfs {
    // SAFETY: SQLite's static structure.
    unsafe { *setup().host.0 }
}

unsafe extern "C" fn default_open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    out: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: `out` is a file of the host's size, and what SQLite passes is passed on to the host's
    // xOpen, which uses no field of its VFS that ours has not.
    unsafe {
        (*out).pMethods = std::ptr::null();
        if rt::in_simulation() {
            return ffi::SQLITE_CANTOPEN;
        }
        match (*setup().host.0).xOpen {
            Some(open) => open(vfs, name, out, flags, out_flags),
            None => ffi::SQLITE_CANTOPEN,
        }
    }
}

/// Starts the random numbers of this simulation from the beginning.
pub(crate) fn start_stream() {
    DRAWS.set(0);
    // SAFETY: null and 0 reset the generator.
    unsafe { ffi::sqlite3_randomness(0, std::ptr::null_mut()) };
}

/// xRandomness: the next piece of the world's stream. Runs with SQLite's mutex held: no wait, no
/// lock of `rt` (sqlite-S4).
pub(crate) unsafe extern "C" fn randomness(
    _vfs: *mut ffi::sqlite3_vfs,
    bytes: c_int,
    out: *mut c_char,
) -> c_int {
    let len = usize::try_from(bytes).unwrap_or(0);
    // SAFETY: SQLite passes `bytes` bytes for the answer, which may be uninitialised.
    let buf = unsafe {
        out.write_bytes(0, len);
        std::slice::from_raw_parts_mut(out.cast::<u8>(), len)
    };
    let filled = rt::foreign(|| {
        let draw = if rt::in_simulation() {
            let draw = DRAWS.get();
            DRAWS.set(draw + 1);
            draw
        } else {
            REAL_DRAWS.fetch_add(1, Ordering::Relaxed)
        };
        rt::rng(&format!("sqlite-{draw}")).fill(buf);
    });
    if filled.is_ok() { bytes } else { 0 }
}

/// xSleep.
pub(crate) unsafe extern "C" fn sleep(_vfs: *mut ffi::sqlite3_vfs, micros: c_int) -> c_int {
    let span = base::Nanos::from_micros(u64::try_from(micros).unwrap_or(0));
    // A panic here is in the report of the simulation; SQLite takes no error from xSleep.
    let _ = rt::foreign(|| rt::sleep(span));
    micros
}

fn julian_ms() -> i64 {
    let wall = rt::wall();
    UNIX_EPOCH_JULIAN_MS + wall.secs * 1000 + i64::from(wall.nanos / 1_000_000)
}

/// xCurrentTimeInt64: milliseconds of the Julian day number.
pub(crate) unsafe extern "C" fn current_time_int64(
    _vfs: *mut ffi::sqlite3_vfs,
    out: *mut i64,
) -> c_int {
    // SAFETY: a place for the answer.
    unsafe { *out = julian_ms() };
    ffi::SQLITE_OK
}

/// xCurrentTime: the Julian day number.
pub(crate) unsafe extern "C" fn current_time(_vfs: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: a place for the answer.
    unsafe { *out = julian_ms() as f64 / MS_PER_DAY };
    ffi::SQLITE_OK
}

/// Local time is UTC in a simulation, whatever the host's time zone is.
unsafe extern "C" fn local_time(seconds: *const c_void, out: *mut c_void) -> c_int {
    let (seconds, out) = (seconds.cast::<libc::time_t>(), out.cast::<libc::tm>());
    // SAFETY: SQLite passes a time_t and a struct tm; both functions write only to `out`.
    let done = unsafe {
        if rt::in_simulation() {
            libc::gmtime_r(seconds, out)
        } else {
            libc::localtime_r(seconds, out)
        }
    };
    c_int::from(done.is_null())
}

unsafe extern "C" fn mutex_alloc(kind: c_int) -> *mut ffi::sqlite3_mutex {
    let alloc = setup().mutexes.xMutexAlloc;
    // SAFETY: SQLite's own function with SQLite's argument.
    let mutex = alloc.map_or(std::ptr::null_mut(), |alloc| unsafe { alloc(kind) });
    if kind == ffi::SQLITE_MUTEX_STATIC_PRNG {
        PRNG.store(mutex, Ordering::Relaxed);
    }
    mutex
}

fn is_prng(mutex: *mut ffi::sqlite3_mutex) -> bool {
    mutex == PRNG.load(Ordering::Relaxed)
}

/// Enters a mutex. That of the random generator may be entered again by its owner; the outermost
/// entry in a simulation makes the generator ask xRandomness afresh, so that nothing of another
/// simulation is left in it (sqlite-S2).
unsafe extern "C" fn mutex_enter(mutex: *mut ffi::sqlite3_mutex) {
    points::before_mutex();
    let depth = PRNG_DEPTH.get();
    if is_prng(mutex) && depth > 0 {
        return PRNG_DEPTH.set(depth + 1);
    }
    if let Some(enter) = setup().mutexes.xMutexEnter {
        // SAFETY: SQLite's own function with SQLite's argument.
        unsafe { enter(mutex) };
    }
    points::entered();
    if is_prng(mutex) {
        PRNG_DEPTH.set(1);
        if rt::in_simulation() {
            // SAFETY: null and 0 reset the generator; it enters this mutex again.
            unsafe { ffi::sqlite3_randomness(0, std::ptr::null_mut()) };
        }
    }
}

/// Enters a mutex if that needs no wait. SQLite never tries that of the random generator.
unsafe extern "C" fn mutex_try(mutex: *mut ffi::sqlite3_mutex) -> c_int {
    if is_prng(mutex) {
        return ffi::SQLITE_BUSY;
    }
    points::before_mutex();
    let attempt = setup().mutexes.xMutexTry;
    // SAFETY: SQLite's own function with SQLite's argument.
    let done = attempt.map_or(ffi::SQLITE_BUSY, |attempt| unsafe { attempt(mutex) });
    if done == ffi::SQLITE_OK {
        points::entered();
    }
    done
}

unsafe extern "C" fn mutex_leave(mutex: *mut ffi::sqlite3_mutex) {
    if is_prng(mutex) {
        let depth = PRNG_DEPTH.get() - 1;
        PRNG_DEPTH.set(depth);
        if depth > 0 {
            return;
        }
    }
    if let Some(leave) = setup().mutexes.xMutexLeave {
        // SAFETY: SQLite's own function with SQLite's argument.
        unsafe { leave(mutex) };
    }
    points::left();
}
