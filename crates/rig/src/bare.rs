//! Mounts a file system on any device, without a profile: for crash tests on devices whose promises
//! a test chooses.

use crate::{AnyFs, Config, MountOptions, RigError};
use base::{BlockNo, Bytes};
use block::Queue;
use blockdev::{BlockDevice, Scheduler};
use std::sync::Arc;
use vfs::{Vfs, WritebackPolicy};

/// Commands of a scheduler's at the device at once, as an eMMC without command queue takes.
const COMMANDS: usize = 2;

/// A mounted file system on any device. Dropping it is a crash; [`Mounted::unmount`] ends it
/// cleanly.
pub struct Mounted {
    /// The file system.
    pub fs: AnyFs,
    /// Paths and open files.
    pub vfs: Arc<Vfs>,
}

impl Mounted {
    /// Mounts the file system on `device`, recovering the journal if need be.
    ///
    /// # Errors
    /// The device or the file system refuses.
    pub fn on(
        device: Arc<dyn BlockDevice>,
        options: MountOptions,
        policy: WritebackPolicy,
    ) -> Result<Mounted, RigError> {
        Mounted::scheduled(device, Scheduler::None, options, policy)
    }

    /// Mounts like [`Mounted::on`], with an I/O scheduler in front of the device that has two
    /// commands there at once, so that most of what is sent waits.
    ///
    /// # Errors
    /// As [`Mounted::on`].
    pub fn scheduled(
        device: Arc<dyn BlockDevice>,
        scheduler: Scheduler,
        options: MountOptions,
        policy: WritebackPolicy,
    ) -> Result<Mounted, RigError> {
        let queue = Queue::scheduled(device, scheduler, COMMANDS).map_err(RigError::Scheduler)?;
        let fs = AnyFs::mount(queue, options)?;
        let vfs = Vfs::with_policy(fs.seam(), policy)?;
        Ok(Mounted { fs, vfs })
    }

    /// Unmounts.
    ///
    /// # Errors
    /// The unmount fails.
    pub fn unmount(self) -> Result<(), RigError> {
        Ok(self.vfs.unmount()?)
    }
}

/// A fresh file system as blocks.
#[derive(Clone, Debug)]
pub struct FreshVolume {
    /// Blocks that are not zero, in order, 4 KiB each.
    pub blocks: Vec<(BlockNo, Bytes)>,
    /// Ranges (first block, number of blocks) that read as zeros except where `blocks` has content.
    /// The content of all other blocks does not matter.
    pub zeroed: Vec<(BlockNo, u64)>,
}

impl Config {
    /// The blocks that a new file system of this configuration consists of.
    ///
    /// # Errors
    /// A size that is not possible.
    pub fn fresh_volume(&self) -> Result<FreshVolume, RigError> {
        self.fresh()
    }
}
