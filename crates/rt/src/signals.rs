//! Signals that ask the process to end. They are noted instead of obeyed, and code that has
//! something to put in order before the end looks for them.
//!
//! Only the first signal is noted. A second one of the same kind ends the process, as it would
//! without this module: a user who asks twice does not want to wait. Who has a shorter way to put
//! things in order notes the second one, too ([`note_two_ends`]); then the third one ends the
//! process. Signals that the process was
//! told to ignore from outside (`nohup`) stay ignored, and child processes begin with the default
//! again.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Number of the first signal that came; 0: none.
static FIRST: AtomicI32 = AtomicI32::new(0);
/// Whether another one came behind it.
static SECOND: AtomicBool = AtomicBool::new(false);

/// What a terminal, a supervisor and a session that ends send.
const ENDS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

extern "C" fn note(signal: libc::c_int) {
    // An atomic exchange is among the few things that a handler may do.
    let first = FIRST.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
    if first.is_err() {
        SECOND.store(true, Ordering::SeqCst);
    }
}

extern "C" fn note_two(signal: libc::c_int) {
    note(signal);
    if SECOND.load(Ordering::SeqCst) {
        // SAFETY: the call is allowed in a handler, and the default is a valid disposition.
        let _ = unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// From now on the first one of SIGINT, SIGTERM and SIGHUP is noted.
///
/// # Errors
/// The host refuses.
pub fn note_ends() -> io::Result<()> {
    handle(note, libc::SA_RESTART | libc::SA_RESETHAND)
}

/// From now on the first two of SIGINT, SIGTERM and SIGHUP are noted.
///
/// # Errors
/// The host refuses.
pub fn note_two_ends() -> io::Result<()> {
    handle(note_two, libc::SA_RESTART)
}

fn handle(handler: extern "C" fn(libc::c_int), flags: libc::c_int) -> io::Result<()> {
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
        new.sa_sigaction = handler as libc::sighandler_t;
        new.sa_flags = flags;
        // SAFETY: the handlers only change atomics and a disposition, and both structures live
        // beyond the call.
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

/// Whether a second one came.
pub fn noted_again() -> bool {
    SECOND.load(Ordering::SeqCst)
}

/// Has the process that `command` starts killed as soon as the thread that starts it ends, in
/// whatever way: a process that is killed puts nothing in order. Start it from a thread that lives
/// as long as it is needed.
pub fn end_with_this_thread(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: what runs between fork and exec makes three system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // A parent that ended before the wish was known sends nothing any more.
            match u32::try_from(libc::getppid()) == Ok(parent) {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        });
    }
}
