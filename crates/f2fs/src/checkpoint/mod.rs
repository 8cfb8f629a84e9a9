//! Checkpoints: a state between operations becomes the one that a mount finds.

use crate::F2fs;
use crate::ops::{Cause, Freeze};
use fscore::FsResult;

/// State of checkpointing.
pub(crate) struct Checkpointer {}

impl Checkpointer {
    /// Damage was seen: the next pack says that fsck is due.
    pub fn need_fsck(&self) {
        todo!("cp")
    }
    /// Version of the checkpoint that node blocks written now belong to, with its checksum in the upper half: what footers carry.
    pub fn footer_version(&self) -> u64 {
        todo!("cp")
    }
}

impl F2fs {
    /// Writes a checkpoint. The caller holds no lock.
    pub(crate) fn checkpoint(&self, cause: Cause) -> FsResult<()> {
        let _ = cause;
        todo!("cp")
    }

    /// The same for who holds the freeze already (cleaning, recovery).
    pub(crate) fn checkpoint_frozen(&self, freeze: &Freeze<'_>) -> FsResult<()> {
        let _ = freeze;
        todo!("cp")
    }

    /// Writes a checkpoint if a trigger says so. The caller holds no lock.
    pub(crate) fn checkpoint_if_due(&self) -> FsResult<()> {
        todo!("cp")
    }
}
