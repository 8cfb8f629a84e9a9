//! Software that knows F2FS but not this journal would take a volume after a cut for one that was
//! rolled back to its last checkpoint, and write to it. The guard keeps such software away while
//! the ring may hold committed epochs.
//!
//! | guard | Linux from 5.14 on | before | `fsck.f2fs` |
//! |---|---|---|---|
//! | `ro-bit`: feature 0x4000 | mounts read-only, shows the last checkpoint | ignores it | ignores it |
//! | `magic`: there is no magic number of F2FS | does not take it for F2FS | same | same |
//! | `none` | mounts, rolls back | same | same |
//!
//! Invariants:
//! - superblock-U1: the copies of the superblock change one at a time, the backup first, each
//!   durable before the next one begins;
//! - W1 the guard is durable in both copies before a mount sends anything to the ring;
//! - W2 the guard is taken off once a pack with the unmount mark is durable that contains every
//!   epoch ever committed;
//! - W3 a cut on the way leaves the copies different: then the next mount writes both, whatever the
//!   first one says.

use crate::F2fs;
use crate::journal::Guard;
use fscore::FsResult;
use ondisk::f2fs::{Features, Superblock};

/// Whether the superblock is guarded in this way.
fn is_as(sb: &Superblock, guard: Guard) -> bool {
    let ro = sb.features().has(Features::RO);
    (ro, sb.is_hidden()) == (guard == Guard::RoBit, guard == Guard::Magic)
}

fn change(sb: &mut Superblock, guard: Guard) {
    let features = sb.features().without(Features::RO);
    sb.set_features(match guard {
        Guard::RoBit => features | Features::RO,
        Guard::Magic | Guard::None => features,
    });
    sb.hide(guard == Guard::Magic);
}

/// True if a guard is up. Volumes with room for a journal are made by us, without the feature; so
/// it is ours.
pub(crate) fn is_up(sb: &Superblock) -> bool {
    matches!(sb.journal(), Ok(Some(_))) && !is_as(sb, Guard::None)
}

impl F2fs {
    /// W1, W3: what a mount for writing does when everything is recovered: the guard that its
    /// options ask for, and no other. `differ`: the copies do.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn guard(&self, differ: bool) -> FsResult<()> {
        if self.options.read_only || !matches!(self.sb.lock().journal(), Ok(Some(_))) {
            return Ok(());
        }
        let wanted = self
            .journal
            .as_ref()
            .map_or(Guard::None, |j| j.options.guard);
        if differ || !is_as(&self.sb.lock(), wanted) {
            self.change_superblock(|sb| change(sb, wanted))?;
        }
        Ok(())
    }

    /// W2: the last step of an unmount in which all went well.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn unguard(&self) -> FsResult<()> {
        if self.check_writable().is_ok() && is_up(&self.sb.lock()) {
            self.change_superblock(|sb| change(sb, Guard::None))?;
        }
        Ok(())
    }
}
