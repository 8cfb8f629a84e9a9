//! Device controllers as sans-IO models: raw flash, eMMC, and NVMe (or UFS) over an FTL, and a
//! plain cached medium.
//!
//! Start with [`Profile::builtin`], then [`Profile::build`], which makes an [`AnyModel`], a
//! [`blockdev::Model`]. A power cut is modelled by ownership: `power_off` consumes the model and
//! yields [`Media`], from which `build` makes the device after the cut.

mod any;
mod cache;
pub mod emmc;
mod firmware;
pub mod nvme;
pub mod plain;
mod profile;
pub mod raw;
mod span;
mod state;
mod usage;

/// The translation layer in counting mode, for crates that must not depend on `ftl` themselves: no
/// data, no time, no power cuts.
pub mod counting {
    pub use ftl::nand::{Geometry, Pairing};
    pub use ftl::{Config, Counting, FtlError, FtlStats, Housekeeping, Policy, Wear};
}

pub use any::{AnyModel, Media};
pub use firmware::FlashMedia;
pub use ftl::nand::{Cause, Operation, Span};
pub use profile::{
    CellArea, CellAreas, Description, DieTimes, EnergyProfile, Profile, ProfileError, Recovering,
    SlcProfile,
};
pub use state::{STATE_VERSION, SavedDevice, StateError};
