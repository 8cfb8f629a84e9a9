//! Atomics for lock-free code: as in std, but each operation is a point where another task may run,
//! in the schedules of a simulation that look for races (all but FIFO). They are for counting and
//! publishing; no task may wait for one (rule: no spinning).

use crate::core::here;
use crate::world::core;
pub use std::sync::atomic::Ordering;

#[inline]
#[track_caller]
fn point() {
    if let Some(core) = core() {
        core.scheduling_point(here());
    }
}

macro_rules! atomic {
    ($name:ident, $int:ty) => {
        /// As in `std::sync::atomic`.
        #[derive(Debug, Default)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// A new atomic.
            pub const fn new(value: $int) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }
            /// Loads the value.
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $int {
                point();
                self.0.load(order)
            }
            /// Stores a value.
            #[track_caller]
            pub fn store(&self, value: $int, order: Ordering) {
                point();
                self.0.store(value, order);
            }
            /// Stores a value and returns the old one.
            #[track_caller]
            pub fn swap(&self, value: $int, order: Ordering) -> $int {
                point();
                self.0.swap(value, order)
            }
            /// Stores `new` if the value is `current`.
            ///
            /// # Errors
            /// The value, if it is another.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }
            /// The value.
            pub fn into_inner(self) -> $int {
                self.0.into_inner()
            }
            /// The value, without an atomic operation.
            pub fn get_mut(&mut self) -> &mut $int {
                self.0.get_mut()
            }
        }
    };
}

macro_rules! arithmetic {
    ($name:ident, $int:ty) => {
        atomic!($name, $int);
        impl $name {
            /// Adds, wrapping; returns the old value.
            #[track_caller]
            pub fn fetch_add(&self, n: $int, order: Ordering) -> $int {
                point();
                self.0.fetch_add(n, order)
            }
            /// Subtracts, wrapping; returns the old value.
            #[track_caller]
            pub fn fetch_sub(&self, n: $int, order: Ordering) -> $int {
                point();
                self.0.fetch_sub(n, order)
            }
            /// Stores the larger one; returns the old value.
            #[track_caller]
            pub fn fetch_max(&self, n: $int, order: Ordering) -> $int {
                point();
                self.0.fetch_max(n, order)
            }
            /// Stores the smaller one; returns the old value.
            #[track_caller]
            pub fn fetch_min(&self, n: $int, order: Ordering) -> $int {
                point();
                self.0.fetch_min(n, order)
            }
        }
    };
}

atomic!(AtomicBool, bool);
arithmetic!(AtomicU32, u32);
arithmetic!(AtomicU64, u64);
arithmetic!(AtomicUsize, usize);
arithmetic!(AtomicI64, i64);
