//! `checkpoint=disable`: no packs are written, so a cut or an unmount brings back the state in
//! which checkpoints were disabled.
//!
//! - B1 while checkpoints are off, no block that the last checkpoint knows as valid is reused
//!   (f2fs-checkpoint-C3 as always), and no more space is given out than there are blocks that it
//!   knows as free: [`limit_space`](crate::F2fs::limit_space).

use super::Checkpointer;
use crate::F2fs;
use crate::ops::Cause;
use fscore::{Errno, FsResult};
use ondisk::f2fs::{BLOCKS_PER_SEG, CpFlags};

/// Segments kept for logs to change into.
const SEGMENTS_KEPT: u32 = 6;

impl Checkpointer {
    /// The last pack says that checkpoints are switched off.
    pub fn is_marked_disabled(&self) -> bool {
        self.state.lock().cp.flags().has(CpFlags::DISABLED)
    }
}

impl F2fs {
    /// Switches checkpoints off: writes one with the mark for that, and then no more. From now on a
    /// cut or an unmount brings back the present state.
    ///
    /// # Errors
    /// EAGAIN if too few blocks are free to go on without reuse; I/O.
    pub fn disable_checkpoints(&self) -> FsResult<()> {
        self.check_writable()?;
        if self.cp.is_disabled() {
            return Ok(());
        }
        let set = |disabling| {
            let mut state = self.cp.state.lock();
            state.disabling = disabling;
            state.forced |= disabling;
        };
        set(true);
        let written = self.checkpoint(Cause::Sync);
        if written.is_err() {
            set(false);
            return written;
        }
        let room = self.segs.free().saturating_sub(SEGMENTS_KEPT);
        if room == 0 {
            set(false);
            self.cp.force();
            self.checkpoint(Cause::Sync)?;
            return Err(Errno::Again.into());
        }
        self.cp.state.lock().disabled = true;
        self.segs.set_checkpoints_off(true);
        self.limit_space();
        Ok(())
    }

    /// Switches checkpoints on again: writes one that contains all changes made since.
    ///
    /// # Errors
    /// As `sync`.
    pub fn enable_checkpoints(&self) -> FsResult<()> {
        self.check_writable()?;
        if !self.cp.is_disabled() {
            return Ok(());
        }
        {
            let mut state = self.cp.state.lock();
            state.disabled = false;
            state.disabling = false;
            state.forced = true;
        }
        self.segs.set_checkpoints_off(false);
        self.space.limit_blocks(self.cp.user_blocks());
        self.checkpoint(Cause::Enable)
    }

    /// At mount: the pack says that checkpoints are off, the options that they are on.
    pub(crate) fn mark_enabled(&self) -> FsResult<()> {
        self.cp.force();
        self.checkpoint(Cause::Enable)
    }

    /// B1 while checkpoints are off: too few free segments, and operations that change anything
    /// fail.
    ///
    /// # Errors
    /// ENOSPC.
    pub(crate) fn room_without_checkpoints(&self) -> FsResult<()> {
        if self.segs.free() < SEGMENTS_KEPT {
            return Err(Errno::NoSpc.into());
        }
        self.limit_space();
        Ok(())
    }

    /// B1: gives out what is free now, and no more. What users free meanwhile is not free before
    /// the next checkpoint.
    pub(crate) fn limit_space(&self) {
        let usage = self.space.usage().blocks;
        let reserved = usage.saturating_sub(self.segs.valid_blocks());
        let free = self.segs.free().saturating_sub(SEGMENTS_KEPT) * BLOCKS_PER_SEG;
        let limit = (usage + u64::from(free)).saturating_sub(reserved);
        self.space.limit_blocks(limit.min(self.cp.user_blocks()));
    }
}
