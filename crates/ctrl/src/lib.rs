//! Device controllers as sans-IO models: eMMC over an FTL, and a plain cached medium.
//!
//! Start with [`Profile::builtin`], then [`Profile::build`]; what comes out is an [`AnyModel`], a [`blockdev::Model`].
//! Power loss is ownership: `power_off` consumes the model and yields [`Media`], from which `build` makes the next life.

mod any;
pub mod emmc;
pub mod plain;
mod profile;
mod span;

pub use any::{AnyModel, Media};
pub use ftl::nand::{Cause, Operation, Span};
pub use profile::{Description, Profile, ProfileError, Recovering, SlcProfile};
