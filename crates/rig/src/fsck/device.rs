//! Checks the file system on any device of the real world.
//!
//! What [`fsck`](super::fsck) does with an image file, it does in a simulation, so that a report
//! depends on nothing but the image. A device of the caller's belongs to the real world and cannot
//! be used from a simulation, so recovery runs there, with the clock of the host.

use super::Finding;
use super::{Checked, FsckError, Outcome, Size, check_beside, described, f2fs_options, head_of};
use super::{outcome_of, read_device, recover_ext, recover_f2fs, refusal};
use crate::overlay::Overlay;
use crate::{AnyFs, Fs, kind_of_head};
use base::SECTOR_BYTES;
use block::Queue;
use blockdev::BlockDevice;
use std::sync::Arc;
use vfs::FsError;

/// Checks the volume on `device`. With `write` recovery changes the device, otherwise memory only.
/// `limit` is the number of findings to keep.
///
/// # Errors
/// The device refuses a request in the midst of recovery.
pub fn fsck_device(
    device: &Arc<dyn BlockDevice>,
    write: bool,
    limit: usize,
) -> Result<Checked, FsckError> {
    let size = Size::of(device.caps().sectors * SECTOR_BYTES as u64);
    let kind = kind_of_head(&head_of(&**device)).unwrap_or(Fs::Ext4);
    let look = |device: &dyn BlockDevice| {
        check_beside(kind, &|block| read_device(device, block), None, size, limit)
    };
    let mut checked = Checked {
        kind,
        recovered: false,
        written: false,
        mended: false,
        refused: None,
        lines: Vec::new(),
        orphans_left: None,
        report: look(&**device),
    };
    if !checked.report.needs_recovery {
        if kind == Fs::F2fs && checked.report.is_clean() {
            checked.report.findings.extend(mount_refusal(device)?);
        }
        return Ok(checked);
    }
    let recovered: Arc<dyn BlockDevice> = match write {
        true => device.clone(),
        false => Arc::new(Overlay::new(device.clone())),
    };
    let outcome = settled(match kind {
        Fs::Ext4 | Fs::Ext3 => recover_ext(&(recovered.clone(), None), described),
        Fs::F2fs => recover_f2fs(&recovered, described),
    })?;
    if outcome.mounted.is_some() || outcome.log.is_some() {
        checked.recovered = true;
        checked.written = write;
        checked.mended = checked.report.torn_superblock;
    }
    checked.orphans_left = outcome.orphans_left.or(outcome.refused.clone());
    checked.refused = outcome.refused;
    checked.lines = outcome.mounted.unwrap_or_default();
    let before = std::mem::replace(&mut checked.report, look(&*recovered));
    if !write {
        checked.report.keep_from(before);
    }
    Ok(checked)
}

/// What no mount accepts is not clean.
fn mount_refusal(device: &Arc<dyn BlockDevice>) -> Result<Option<Finding>, FsckError> {
    let above: Arc<dyn BlockDevice> = Arc::new(Overlay::new(device.clone()));
    let mounted = AnyFs::mount(Queue::new(above), f2fs_options(true));
    let outcome = settled(outcome_of(mounted, |_| ()))?;
    Ok(outcome.refused.map(Finding::refused))
}

/// Whether the volume was recovered or refused; an error of the device is neither.
fn settled<R>(outcome: Result<Outcome<R>, FsError>) -> Result<Outcome<R>, FsckError> {
    match outcome {
        Ok(outcome) => Ok(outcome),
        Err(FsError::Io { what, .. }) => Err(FsckError::Recovery(what)),
        Err(e) => Ok(refusal(e.to_string())),
    }
}
