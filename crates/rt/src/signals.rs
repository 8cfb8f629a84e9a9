//! Signals that ask the process to end. They are noted instead of obeyed, and code that has
//! something to put in order before the end looks for them.
//!
//! Only the first signal is noted. A second one of the same kind ends the process, as it would
//! without this module: a user who asks twice does not want to wait. Signals that the process was
//! told to ignore from outside (`nohup`) stay ignored, and child processes begin with the default
//! again.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

/// Number of the first signal that came; 0: none.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// What a terminal, a supervisor and a session that ends send.
const ENDS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

extern "C" fn note(signal: libc::c_int) {
    // An atomic exchange is among the few things that a handler may do.
    let _ = FIRST.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
}

/// From now on SIGINT, SIGTERM and SIGHUP are noted.
///
/// # Errors
/// The host refuses.
pub fn note_ends() -> io::Result<()> {
    for signal in ENDS {
        // SAFETY: all fields of a `sigaction` may be zero: no handler, an empty mask, no flags.
        let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: a null pointer asks for what is in force, which is written to `old`.
        if unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if old.sa_sigaction == libc::SIG_IGN {
            continue;
        }
        // SAFETY: as above.
        let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
        new.sa_sigaction = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
        new.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
        // SAFETY: the handler only exchanges an atomic, and both structures live beyond the call.
        if unsafe { libc::sigaction(signal, &new, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The number of the first of these signals that came.
pub fn noted() -> Option<i32> {
    match FIRST.load(Ordering::SeqCst) {
        0 => None,
        signal => Some(signal),
    }
}
