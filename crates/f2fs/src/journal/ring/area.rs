//! Where the journal lies: behind the last block of the F2FS volume, as its superblock describes.

use crate::fault;
use base::BLOCK_BYTES;
use fscore::{FsError, FsResult};
use ondisk::f2fs::journal::JournalArea;
use ondisk::f2fs::{Geometry, Superblock};

/// The region that the superblock describes, on a device of `device` blocks.
///
/// # Errors
/// Its description is damaged; it lies inside of the file system, or beyond the device.
pub(crate) fn find(sb: &Superblock, geo: &Geometry, device: u64) -> FsResult<Option<JournalArea>> {
    let Some(area) = sb.journal().map_err(fault::corrupt)? else {
        return Ok(None);
    };
    let end = area.start.checked_add(area.blocks.into());
    let too_small = area.ring().is_none();
    let fits = area.start >= geo.block_count && end.is_some_and(|end| end <= device);
    if !fits || too_small {
        return Err(FsError::corrupt(format!(
            "the journal is said to have {} blocks of {BLOCK_BYTES} bytes from block {} on; the file system ends at {}, the device \
             at {device}",
            area.blocks, area.start, geo.block_count
        )));
    }
    Ok(Some(area))
}
