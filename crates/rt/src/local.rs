//! Values that belong to the running task: facts about everything that it does inside one call, and
//! that no other task sees.
//!
//! - V1 a value is seen only by the task that set it: other tasks do not see it, nor do tasks that
//!   this one starts;
//! - V2 the value goes when the call ends, also by a panic; the value before it is seen again;
//! - V3 the memory of a value without a destructor serves the next value of its type (`values.rs`),
//!   because each request of a front door sets some. It does not while somebody holds the value
//!   that has gone.

use crate::task::Locals;
use crate::values::Values;
use crate::world::core;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

thread_local! {
    /// Those of a thread in the real world: there a task is a thread.
    static LOCALS: Locals = const { RefCell::new(Values::new()) };
}

fn with_locals<R>(f: impl FnOnce(&mut Values) -> R) -> R {
    match core() {
        Some(core) => f(&mut core.task().locals.borrow_mut()),
        None => LOCALS.with_borrow_mut(f),
    }
}

/// Runs `f`, inside of which [`local`] answers `value` to the running task (V1). Calls nest; the
/// innermost value of a type counts.
pub fn with_local<T: 'static, R>(value: T, f: impl FnOnce() -> R) -> R {
    struct Leave<T>(PhantomData<T>);
    impl<T> Drop for Leave<T> {
        fn drop(&mut self) {
            // Whatever it is, its destructor runs without the borrow.
            drop(with_locals(Values::pop::<T>));
        }
    }
    with_locals(|locals| locals.push(value));
    let _leave = Leave::<T>(PhantomData);
    f()
}

/// The innermost value of type `T` that the running task has set by [`with_local`]; `None` without
/// one.
pub fn local<T: 'static>() -> Option<Rc<T>> {
    with_locals(|locals| locals.find())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place<T: 'static>() -> *const T {
        Rc::as_ptr(&local::<T>().expect("it is set"))
    }

    /// V3.
    #[test]
    fn the_place_of_a_value_is_used_again_unless_it_is_held() {
        let first = with_local(1u32, place::<u32>);
        let (held, second) = with_local(2u32, || (local::<u32>(), place::<u32>()));
        assert_eq!(first, second);
        let third = with_local(3u32, || {
            assert_eq!(local::<u32>().as_deref(), Some(&3));
            place::<u32>()
        });
        assert!(third != first && held.as_deref() == Some(&2));
        // One in the other has a place of its own.
        with_local(4u32, || {
            let outer = place::<u32>();
            with_local(5u32, || assert_ne!(place::<u32>(), outer));
            assert_eq!(local::<u32>().as_deref(), Some(&4));
        });
        assert_eq!(local::<u32>(), None);
    }

    /// V2: a value with a destructor does not wait for the next one.
    #[test]
    fn a_value_with_a_destructor_goes_at_once() {
        let value = Rc::new(());
        with_local(Rc::clone(&value), || {
            assert_eq!(Rc::strong_count(&value), 2)
        });
        assert_eq!(Rc::strong_count(&value), 1);
    }
}
