//! Makes an ext4 or ext3 volume: the default features of mke2fs 1.47, in the same places with the
//! same bytes.
//!
//! Three steps, the first two pure:
//! 1. [`Geometry`] decides numbers: groups, inodes, reserved blocks, journal (`geometry.rs`).
//! 2. [`plan`] decides places (`layout.rs`, first fit in the order of mke2fs) and fills in bytes
//!    (`image.rs`). The plan lists the blocks that are not zero, and the ranges that must read as
//!    zeros.
//! 3. [`Plan::write`] puts the plan on a device.
//!
//! Nothing comes from outside but the options: equal options give equal bytes. With the UUID, the
//! hash seed and the time of a volume of mke2fs the plan is equal to that volume except for the
//! count of KiB written (a test compares them).
//!
//! - I1: every block of the volume has at most one owner.
//! - I2: the free counts of descriptors and superblock are computed from the same set of taken
//!   blocks as the bitmaps.
//! - I3: at each moment of [`Plan::write`] the device holds the old ext4 volume or the new one, and
//!   that one whole, or none. Whoever does not find the primary superblock looks for a backup, so
//!   backups count as well: the old superblocks are removed first, then a flush; the new backups
//!   are written after a flush of all else, and the new primary superblock after another.

mod geometry;
mod image;
mod layout;
mod log_device;
mod options;
mod pointers;
mod resize;
mod space;
#[cfg(test)]
mod tests;
mod write;

pub use geometry::Geometry;
pub(crate) use geometry::common_shapes;
pub use log_device::LogDevice;
pub use options::{CLUSTER_BYTES_MAX, FastCommitArea, JournalSize, Kind, MkfsError, MkfsOptions};
pub use write::{DeviceContent, Plan};

/// Plans a volume.
///
/// # Errors
/// An option is impossible, or the size is too small or too large; the message says what would do.
pub fn plan(options: &MkfsOptions) -> Result<Plan, MkfsError> {
    let geometry = Geometry::new(options)?;
    let layout = layout::Layout::new(&geometry)?;
    Ok(image::build(options, &geometry, &layout))
}
