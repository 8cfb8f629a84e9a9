//! Panics at borders: the hook that names the task, the boundary to C, and sections that must not
//! wait.

use crate::failure::{Clock, Payload};
use crate::leader::about_to_wait;
use crate::world::core;
use base::Time;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static NO_YIELD: Cell<u32> = const { Cell::new(0) };
}

/// The text of a payload.
pub(crate) fn message_of(payload: &(dyn Any + Send)) -> String {
    match payload.downcast_ref::<&'static str>() {
        Some(s) => (*s).to_string(),
        None => payload
            .downcast_ref::<String>()
            .cloned()
            .unwrap_or_else(|| "a payload without text".into()),
    }
}

/// Installs, once per process, the panic hook that prints task and virtual time and keeps the
/// message.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let Some(core) = core().filter(|c| c.has_task()) else {
                return previous(info);
            };
            let task = core.task();
            let place = info
                .location()
                .map(|l| format!(" at {l}"))
                .unwrap_or_default();
            let message = message_of_hook(info);
            if let Ok(mut note) = task.panic_note.try_borrow_mut() {
                note.get_or_insert(format!("{message}{place}"));
            }
            if !core.cfg.quiet {
                eprintln!(
                    "in simulated task `{}`, virtual time {}:",
                    task.name,
                    Clock(Time(core.now.get()))
                );
                previous(info);
            }
        }));
    });
}

fn message_of_hook(info: &std::panic::PanicHookInfo<'_>) -> String {
    info.payload_as_str()
        .unwrap_or("a payload without text")
        .to_string()
}

/// Runs `f` below frames of C: catches its panic and hands the payload to the caller, who returns
/// an error through the C frames and may resume the panic above them. In a simulation the panic
/// counts as its first failure.
///
/// # Errors
/// The payload of the panic.
pub fn foreign<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    let Some(core) = core() else {
        return catch_unwind(AssertUnwindSafe(f));
    };
    let depth = &core.task().foreign;
    depth.set(depth.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(f));
    depth.set(depth.get() - 1);
    if let Err(payload) = &result {
        let task = core.task();
        let message = task
            .panic_note
            .take()
            .unwrap_or_else(|| message_of(&**payload));
        let (task, time) = (task.name.to_string(), Time(core.now.get()));
        core.fail(crate::Failure::Panic {
            task,
            time,
            message,
            parked_at: None,
        });
    }
    result
}

/// How many [`foreign`] calls are below the caller, in a simulation.
pub fn foreign_depth() -> u32 {
    core().map_or(0, |c| c.task().foreign.get())
}

/// Runs `f`, inside of which nothing may wait: a sleep, a charge, a contended lock panics.
/// In the real world locks are not checked, since whether they are contended is chance.
pub fn no_yield<R>(f: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            add(-1);
        }
    }
    fn add(n: i32) {
        match core() {
            Some(core) => core
                .task()
                .no_yield
                .set(core.task().no_yield.get().wrapping_add_signed(n)),
            None => NO_YIELD.set(NO_YIELD.get().wrapping_add_signed(n)),
        }
    }
    add(1);
    let _leave = Leave;
    f()
}

/// Before a wait in the real world: panics inside of [`no_yield`]; says so to the source of this
/// thread ([`about_to_wait`]).
#[track_caller]
pub(crate) fn may_wait() {
    let site = std::panic::Location::caller();
    assert!(
        NO_YIELD.get() == 0,
        "rt::no_yield: this thread would wait at {site}"
    );
    about_to_wait();
}

/// True if the running task (or thread) unwinds from a panic. Use instead of
/// `std::thread::panicking`.
pub fn unwinding() -> bool {
    match core() {
        Some(core) => core.unwinding(),
        None => std::thread::panicking(),
    }
}

/// True inside of a simulation.
pub fn in_simulation() -> bool {
    core().is_some()
}
