//! Builds a whole stack from one configuration value: device model, block queue, file system, `vfs`.
//!
//! ```text
//! Config --format--> AnyModel --Stack::mount--> Stack { device, queue, fs, vfs } --unmount--> AnyModel --write_image--> file
//! ```

mod config;
mod error;
mod image;
mod scheme;
mod stack;

pub use blockdev::{
    Adversary, BlockDevice, Class, Clock, DeviceStats, FlashStats, Model, Modelled,
};
pub use config::{Config, Data, Fs};
pub use ctrl::{AnyModel, Description, Media, Profile};
pub use error::RigError;
pub use ext4::DataMode;
pub use image::{load_image, write_image};
pub use journal::{Preset, Stats as JournalStats};
pub use scheme::Scheme;
pub use stack::Stack;
