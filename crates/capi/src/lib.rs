//! The C interface: `libvarve.so`, `libvarve.a` and `varve.h`, which is made of these files.
//!
//! Rules:
//!
//! - No panic crosses into C: each function runs in [`error::guarded`], which answers -EIO and the
//!   text of the panic.
//! - A handle is a box that the caller owns until the call that ends it. A null handle is -EINVAL.
//! - No state of the process and none of the thread: the reason of a failure goes where the caller
//!   says.

#![allow(non_camel_case_types)] // C sees these names as they are.
#![allow(clippy::missing_safety_doc)] // The header's head says what all functions demand.

mod callbacks;
mod check;
mod dir;
mod disk;
mod error;
mod file;
mod names;
mod text;
mod volume;

pub use callbacks::varve_device;
pub use check::varve_check;
pub use dir::{varve_dir, varve_dirent};
pub use disk::varve_disk;
pub use error::varve_error;
pub use file::{varve_attr, varve_file};
pub use volume::{varve_atomic_unit, varve_space, varve_volume};

/// The version of this interface. It changes when a program has to be compiled anew.
pub const VARVE_ABI_VERSION: u32 = 1;

/// The version of the interface of the library that runs.
#[unsafe(no_mangle)]
pub extern "C" fn varve_abi_version() -> u32 {
    VARVE_ABI_VERSION
}
