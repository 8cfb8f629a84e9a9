//! A device profile for a card of one's own: a real file or block device is measured, and the
//! fields of a profile are fitted to what was seen.
//!
//! 1. [`measure()`] sends requests to a [`Bench`] and keeps how long they took ([`Seen`]). There
//!    are two benches: a device behind the blocking seam ([`Real`]), and a model in virtual time
//!    ([`Virtual`]). What other programs measured is read by [`fio`].
//! 2. [`fit()`] looks for the field values with which the model shows the same times. It measures
//!    the model by the very code of the first step, so a field means here what it means in a run.
//! 3. [`text`] writes the profile, with the interval of each fitted field beside it, and the reason
//!    beside each field that cannot be seen from outside.
//!
//! Steps 2 and 3 do no I/O.

mod bench;
mod estimate;
mod ext_csd;
mod fields;
pub mod fio;
mod fit;
mod measure;
mod probe;
mod search;
pub mod text;

pub use bench::{Bench, Real, Virtual};
pub use estimate::Estimate;
pub use ext_csd::{ExtCsd, Register};
pub use fields::{Assumed, Unseen};
pub use fit::{Fit, FitError, Fitted, Given, fit, predict};
pub use measure::{Effort, MeasureError, Seen, Told, measure};
pub use probe::{Plan, Probe, Wanted};
