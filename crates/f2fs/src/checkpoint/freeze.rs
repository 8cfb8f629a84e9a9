//! Freezing, thawing and trimming a volume (the ioctls FIFREEZE, FITHAW, FITRIM) as library calls.

use crate::F2fs;
use crate::ops::Cause;
use base::BLOCK_BYTES;
use fscore::{Errno, FsResult};
use std::sync::Arc;

/// What a freeze on behalf of a user has come to.
#[derive(Clone, Default, Debug)]
pub(super) enum Hold {
    /// No freeze.
    #[default]
    None,
    /// A freeze was asked for, and operations have not ended yet.
    Wanted,
    /// The volume is frozen.
    Frozen,
    /// The freeze is to end.
    Thawing,
}

impl F2fs {
    /// Writes a checkpoint and keeps every change out until [`thaw`](Self::thaw), so that the
    /// device can be copied meanwhile (FIFREEZE). Data in the page cache is not part of the
    /// checkpoint: sync first.
    ///
    /// # Errors
    /// EBUSY if it is frozen already; EAGAIN if the host starts no thread; as `sync`.
    pub fn freeze(self: &Arc<Self>) -> FsResult<()> {
        self.check_writable()?;
        {
            let mut state = self.cp.state.lock();
            if !matches!(state.hold, Hold::None) {
                return Err(Errno::Busy.into());
            }
            state.hold = Hold::Wanted;
        }
        if let Err(e) = self.start_task("f2fs-frozen", F2fs::hold_frozen) {
            self.cp.state.lock().hold = Hold::None;
            return Err(e);
        }
        let mut state = self.cp.state.lock();
        while matches!(state.hold, Hold::Wanted) {
            self.cp.wake.wait(&mut state);
        }
        match state.frozen.take() {
            Some(failed) => Err(failed),
            None => Ok(()),
        }
    }

    /// Holds the freeze from one call to the other.
    fn hold_frozen(&self) {
        self.frozen(Cause::FsFreeze, |freeze| {
            let written = self.checkpoint_frozen(freeze);
            let mut state = self.cp.state.lock();
            match written {
                Ok(()) => {
                    state.hold = Hold::Frozen;
                    self.cp.wake.notify_all();
                    while !matches!(state.hold, Hold::Thawing) && !state.stopping && rt::powered() {
                        // A power cut ends all waits that may be aborted.
                        if self.cp.wake.wait_powered(&mut state).is_err() {
                            break;
                        }
                    }
                }
                Err(e) => state.frozen = Some(e),
            }
            state.hold = Hold::None;
        });
        self.cp.wake.notify_all();
    }

    /// Lets changes in again (FITHAW).
    ///
    /// # Errors
    /// EINVAL if it is not frozen.
    pub fn thaw(&self) -> FsResult<()> {
        let mut state = self.cp.state.lock();
        if !matches!(state.hold, Hold::Frozen) {
            return Err(Errno::Inval.into());
        }
        state.hold = Hold::Thawing;
        self.cp.wake.notify_all();
        while matches!(state.hold, Hold::Thawing) {
            self.cp.wake.wait(&mut state);
        }
        Ok(())
    }

    /// Discards free space in the bytes `start..start + len` of the volume, in runs of at least
    /// `min` bytes (FITRIM), after a checkpoint; answers how many bytes.
    ///
    /// # Errors
    /// EOPNOTSUPP if the device cannot; EINVAL beyond the volume; as `sync`.
    pub fn trim(&self, start: u64, len: u64, min: u64) -> FsResult<u64> {
        self.check_writable()?;
        if !self.queue.caps().discard {
            return Err(Errno::NotSup.into());
        }
        let block = BLOCK_BYTES as u64;
        if start / block >= self.geo.block_count || len < block {
            return Err(Errno::Inval.into());
        }
        let from = start.div_ceil(block);
        let to = (start.saturating_add(len) / block).min(self.geo.block_count);
        let min = min.div_ceil(block).min(u64::from(u32::MAX)) as u32;
        if self.cp.is_disabled() {
            return Err(Errno::Busy.into());
        }
        self.checkpoint(Cause::Trim)?;
        let blocks = self.discard_free(from, to, min)?;
        Ok(blocks * block)
    }
}
