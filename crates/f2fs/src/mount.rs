//! Mounting and unmounting.

use crate::F2fs;
use crate::options::MountOptions;
use block::Queue;
use fscore::FsResult;
use std::sync::Arc;

impl F2fs {
    /// Mounts what is on the device: superblock, the newer valid checkpoint pack, roll-forward, orphans.
    ///
    /// # Errors
    /// No F2FS, or one with features that are not here; damage to both copies; I/O.
    pub fn mount(queue: Arc<Queue>, options: MountOptions) -> FsResult<Arc<F2fs>> {
        let _ = (queue, options);
        todo!("cp")
    }

    /// Stops the tasks, writes a checkpoint with the unmount mark.
    pub(crate) fn unmount_volume(&self) -> FsResult<()> {
        todo!("cp")
    }
}
