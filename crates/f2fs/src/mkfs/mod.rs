//! Makes an F2FS volume: the layout of mkfs.f2fs 1.15 for the same size and options, in the same
//! places with the same bytes.
//!
//! Three steps, the first two pure:
//! 1. [`Layout`] decides numbers: areas, sections, what is kept back, where the logs begin
//!    (`layout.rs`).
//! 2. [`plan`] fills in bytes (`image.rs`). The plan lists the blocks that are not zero, and the
//!    ranges that must read as zeros.
//! 3. [`Plan::write`] puts the plan on a device.
//!
//! Nothing but the options enters the plan: equal options give equal bytes. With the UUID, time and
//! checkpoint version of a volume made by mkfs.f2fs the plan equals that volume except for the two
//! version strings (a test compares them). One difference remains: if there are blocks behind the
//! last whole zone, mkfs.f2fs counts them among those that users can fill, and this code does not.
//!
//! - K1: the superblock's numbers pass [`Geometry::new`](ondisk::f2fs::Geometry::new), the
//!   checkpoint's [`Checkpoint::check`](ondisk::f2fs::Checkpoint::check), before a plan exists.
//! - K2: both superblocks are written last, after a flush: before that, the device holds no F2FS
//!   volume, unless the superblocks of an older one are not wiped yet.
//! - K3: the first block of the warm node log reads as zeros, so roll-forward finds no node of an
//!   older volume there.

mod image;
mod layout;
mod options;
#[cfg(test)]
mod tests;
mod write;

pub use layout::Layout;
pub use options::{
    COLD_EXTENSIONS, HOT_EXTENSIONS, JournalSize, MkfsError, Options, RING_ADVISED_BYTES, RING_AT,
    RING_MIN_BLOCKS,
};
pub use write::{DeviceContent, Plan};

/// Plans a volume.
///
/// # Errors
/// An option is impossible, or the size is too small or too large; the message says what would do.
pub fn plan(options: &Options) -> Result<Plan, MkfsError> {
    options.check()?;
    let layout = Layout::new(options)?;
    Ok(image::build(options, &layout))
}
