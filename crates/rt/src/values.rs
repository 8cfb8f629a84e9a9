//! The values that a task has set (`local.rs`), and places for the next ones.

use std::any::Any;
use std::rc::Rc;

/// What a task has set, the innermost last.
pub(crate) struct Values {
    set: Vec<Rc<dyn Any>>,
    /// Places of values that have gone, for the next ones of their types (local-V3).
    spare: Vec<Rc<dyn Any>>,
}

/// Types of values whose places are kept; there are fewer that are set often.
const SPARE_MAX: usize = 4;

impl Values {
    pub(crate) const fn new() -> Values {
        Values {
            set: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Sets a value, inside of those before.
    pub(crate) fn push<T: 'static>(&mut self, value: T) {
        let place = self.spare.iter().position(|place| place.is::<T>());
        let mut place = place.map(|at| self.spare.swap_remove(at));
        let free = place.as_mut().and_then(Rc::get_mut);
        match free.and_then(|place| place.downcast_mut::<T>()) {
            Some(there) => *there = value,
            // It is read still, or there is none.
            None => place = Some(Rc::new(value)),
        }
        self.set.extend(place);
    }

    /// The innermost value goes: what is answered is to be dropped without the borrow.
    pub(crate) fn pop<T>(&mut self) -> Option<Rc<dyn Any>> {
        let gone = self.set.pop()?;
        if std::mem::needs_drop::<T>() || self.spare.len() >= SPARE_MAX {
            return Some(gone);
        }
        self.spare.push(gone);
        None
    }

    /// The innermost value of a type.
    pub(crate) fn find<T: 'static>(&self) -> Option<Rc<T>> {
        let mut inner = self.set.iter().rev();
        inner.find_map(|value| Rc::clone(value).downcast::<T>().ok())
    }
}
