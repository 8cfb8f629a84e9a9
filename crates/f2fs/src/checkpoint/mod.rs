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
    /// The clock of the volume: seconds it was mounted in all (`elapsed_time`); ages of segments count in it.
    pub(crate) fn volume_clock(&self) -> u64 {
        todo!("cp")
    }

    /// True under `checkpoint=disable`: no pack is written, fsync promises nothing.
    pub(crate) fn checkpoint_disabled(&self) -> bool {
        todo!("cp")
    }

    /// True if all that was allocated since the last checkpoint leaves room for roll-forward (Linux `f2fs_space_for_roll_forward`).
    pub(crate) fn room_for_roll_forward(&self) -> bool {
        todo!("cp")
    }

    /// For background tasks: waits so long, or until the volume is unmounted or the power is cut; true: go on.
    pub(crate) fn pause(&self, span: base::Nanos) -> bool {
        let _ = span;
        todo!("cp")
    }

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
