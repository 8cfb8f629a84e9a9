//! The device seams.
//!
//! 1. [`BlockDevice`]: blocking, under `block`. RAM, files and the stackable wrappers implement it.
//! 2. [`Model`]: sans-IO, called with the current time, answers with a completion time. `ctrl` implements it.
//! 3. `Modelled`: the only adapter from 2 to 1.
//!
//! A device states its promises in one value, [`Caps`]; the block layer, the journal and the crash explorer all read
//! that same value.

mod caps;
mod device;
mod error;
mod model;
mod request;

pub use caps::{Caps, PackOrder};
pub use device::{BlockDevice, Ticket};
pub use error::{DevError, DevErrorKind};
pub use model::{Completion, DeviceStats, FlashStats, Model};
pub use request::{Class, Op, Piece, Reply, Request};
