//! Values that belong to the running task: facts about everything that it does inside one call, and
//! that no other task sees.
//!
//! - V1 a value is seen only by the task that set it: other tasks do not see it, nor do tasks that
//!   this one starts;
//! - V2 the value goes when the call ends, also by a panic; the value before it is seen again.

use crate::task::Locals;
use crate::world::core;
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

thread_local! {
    /// Those of a thread in the real world: there a task is a thread.
    static LOCALS: Locals = const { RefCell::new(Vec::new()) };
}

fn with_locals<R>(f: impl FnOnce(&mut Vec<Rc<dyn Any>>) -> R) -> R {
    match core() {
        Some(core) => f(&mut core.task().locals.borrow_mut()),
        None => LOCALS.with_borrow_mut(f),
    }
}

/// Runs `f`, inside of which [`local`] answers `value` to the running task (V1). Calls nest; the
/// innermost value of a type counts.
pub fn with_local<T: 'static, R>(value: T, f: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            // Whatever it is, its destructor runs without the borrow.
            drop(with_locals(Vec::pop));
        }
    }
    with_locals(|locals| locals.push(Rc::new(value)));
    let _leave = Leave;
    f()
}

/// The innermost value of type `T` that the running task has set by [`with_local`]; `None` without
/// one.
pub fn local<T: 'static>() -> Option<Rc<T>> {
    with_locals(|locals| {
        let mut inner = locals.iter().rev();
        inner.find_map(|value| Rc::clone(value).downcast::<T>().ok())
    })
}
