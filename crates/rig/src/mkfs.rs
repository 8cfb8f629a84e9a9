//! Makes a new file system in an image file.

use block::Queue;
use blockdev::{BlockDevice, DevError, HostError, HostFile};
use ext4::mkfs::{DeviceContent, plan};
pub use ext4::mkfs::{
    FastCommitArea, Geometry, JournalSize, Kind, LogDevice, MkfsError, MkfsOptions,
};
pub use f2fs::mkfs::{JournalSize as F2fsJournal, Options as F2fsOptions, plan as f2fs_plan};
use std::sync::Arc;
use thiserror::Error;

/// Why a file system could not be made.
#[derive(Debug, Error)]
pub enum MakeError {
    /// An option is impossible.
    #[error("{0}")]
    Options(#[from] MkfsError),
    /// An option of F2FS is impossible.
    #[error("{0}")]
    F2fs(#[from] f2fs::mkfs::MkfsError),
    /// The host refuses the file.
    #[error("{0}")]
    Host(#[from] HostError),
    /// The host refused a write half way.
    #[error("{0}")]
    Device(#[from] DevError),
}

/// The size of a new F2FS and its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F2fsMade {
    /// Blocks of the volume.
    pub blocks: u64,
    /// Blocks of the region of the journal behind the volume; 0: none.
    pub journal: u32,
}

/// Makes the F2FS that `options` describe in `file`, which has the size they name. `zeros`: as for
/// [`make`]. Answers what was made.
///
/// # Errors
/// An option is impossible, with nothing written; the host refuses the file.
pub fn make_f2fs(
    file: &HostFile,
    options: &F2fsOptions,
    zeros: bool,
) -> Result<F2fsMade, MakeError> {
    make_f2fs_on(Arc::new(file.another()?), options, zeros)
}

/// Makes the F2FS that `options` describe on a device, as [`make_f2fs`] does in a file.
///
/// # Errors
/// As [`make_f2fs`].
pub fn make_f2fs_on(
    device: Arc<dyn BlockDevice>,
    options: &F2fsOptions,
    zeros: bool,
) -> Result<F2fsMade, MakeError> {
    let plan = f2fs::mkfs::plan(options)?;
    let layout = f2fs::mkfs::Layout::new(options)?;
    let queue = Queue::new(device);
    let before = match zeros {
        true => f2fs::mkfs::DeviceContent::Zeros,
        false => f2fs::mkfs::DeviceContent::Unknown,
    };
    plan.write(&queue, before)?;
    Ok(F2fsMade {
        blocks: layout.block_count,
        journal: layout.journal.map_or(0, |(_, blocks)| blocks),
    })
}

/// Makes an external journal in `file`. `zeros`: as for [`make`].
///
/// # Errors
/// As [`make`].
pub fn make_log(file: &HostFile, device: &LogDevice, zeros: bool) -> Result<(), MakeError> {
    let plan = device.plan()?;
    let queue = Queue::new(Arc::new(file.another()?));
    let before = match zeros {
        true => DeviceContent::Zeros,
        false => DeviceContent::Unknown,
    };
    Ok(plan.write(&queue, before)?)
}

/// Makes the file system that `options` describe in `file`, which has the size they name. `zeros`:
/// the file reads as zeros, as a new one does; otherwise the blocks that must be zero are written.
/// Answers the geometry.
///
/// # Errors
/// An option is impossible, with nothing written; the host refuses the file.
pub fn make(file: &HostFile, options: &MkfsOptions, zeros: bool) -> Result<Geometry, MakeError> {
    make_on(Arc::new(file.another()?), options, zeros)
}

/// Makes the file system that `options` describe on a device, as [`make`] does in a file.
///
/// # Errors
/// As [`make`].
pub fn make_on(
    device: Arc<dyn BlockDevice>,
    options: &MkfsOptions,
    zeros: bool,
) -> Result<Geometry, MakeError> {
    let geometry = Geometry::new(options)?;
    let plan = plan(options)?;
    let queue = Queue::new(device);
    let before = match zeros {
        true => DeviceContent::Zeros,
        false => DeviceContent::Unknown,
    };
    plan.write(&queue, before)?;
    Ok(geometry)
}
