//! Stack overflow of a task: a SIGSEGV handler on the alternate stack that prints the task's name.
//!
//! std's own handler knows only the guards of its threads, so without this an overflow is a bare
//! signal. Any other fault goes to the handler that was installed before.

use crate::world::core;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

/// Bytes of the alternate stack made for a thread that has none.
const ALT_STACK: usize = 64 * 1024;
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Makes overflows on this OS thread's tasks readable.
pub(crate) fn install() {
    PREVIOUS.get_or_init(|| {
        let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: both structs are valid; zero is a valid `sigaction`. The handler is
        // async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handler as extern "C" fn(_, _, _) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(libc::SIGSEGV, &action, previous.as_mut_ptr());
            previous.assume_init()
        }
    });
    give_alt_stack();
}

/// std gives its own threads an alternate stack; threads made by C have none.
fn give_alt_stack() {
    thread_local! {
        static DONE: Cell<bool> = const { Cell::new(false) };
    }
    if DONE.replace(true) {
        return;
    }
    // SAFETY: queries, then sets, this thread's alternate stack; the new one is never freed.
    unsafe {
        let mut old: libc::stack_t = MaybeUninit::zeroed().assume_init();
        if libc::sigaltstack(ptr::null(), &mut old) == 0 && old.ss_flags & libc::SS_DISABLE != 0 {
            let memory: &'static mut [u8] = Box::leak(vec![0u8; ALT_STACK].into_boxed_slice());
            let new = libc::stack_t {
                ss_sp: memory.as_mut_ptr().cast(),
                ss_flags: 0,
                ss_size: ALT_STACK,
            };
            libc::sigaltstack(&new, ptr::null_mut());
        }
    }
}

extern "C" fn handler(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`.
    let addr = unsafe { (*info).si_addr() } as usize;
    if let Some(core) = core().filter(|c| c.has_task())
        && core.task().stack.guards(addr)
    {
        let task = core.task();
        write(b"\nrt: stack overflow in simulated task `");
        write(task.name.as_bytes());
        write(b"`, stack of ");
        write_number(task.stack.usable() / 1024);
        write(b" KiB, virtual time ");
        write_number(core.now.get() as usize);
        write(b" ns\n");
        // SAFETY: always allowed.
        unsafe { libc::abort() };
    }
    chain(signal, info, context);
}

fn chain(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(previous) = PREVIOUS.get() else {
        return;
    };
    // SAFETY: the previous handler is called as the kernel would, by its own flags; with the
    // default action restored, returning repeats the fault and ends the process as if we had not
    // been here.
    unsafe {
        match previous.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::sigaction(signal, previous, ptr::null_mut());
            }
            f if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                let f: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(f);
                f(signal, info, context);
            }
            f => {
                let f: extern "C" fn(libc::c_int) = std::mem::transmute(f);
                f(signal);
            }
        }
    }
}

fn write(bytes: &[u8]) {
    // SAFETY: a plain write of a valid buffer to standard error.
    unsafe { libc::write(2, bytes.as_ptr().cast(), bytes.len()) };
}

fn write_number(mut n: usize) {
    let mut digits = [0u8; 20];
    let mut i = digits.len();
    loop {
        i -= 1;
        digits[i] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    write(&digits[i..]);
}
