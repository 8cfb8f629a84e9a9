//! Splits runs of sectors at 4 KiB blocks.

use base::{Lba, SECTOR_BYTES, SECTORS_PER_BLOCK};
use std::ops::Range;

/// The part of a run of sectors inside one 4 KiB block.
pub(crate) struct Part {
    /// Number of the block.
    pub block: u64,
    /// Range of bytes inside the block.
    pub bytes: Range<usize>,
}

/// The parts of a run of sectors, in order.
pub(crate) fn parts(lba: Lba, sectors: u64) -> impl Iterator<Item = Part> {
    let end = lba.0 + sectors;
    let blocks = lba.0 / SECTORS_PER_BLOCK..end.div_ceil(SECTORS_PER_BLOCK);
    blocks.map(move |block| {
        let first = block * SECTORS_PER_BLOCK;
        let from = lba.0.saturating_sub(first) as usize * SECTOR_BYTES;
        let to = (end - first).min(SECTORS_PER_BLOCK) as usize * SECTOR_BYTES;
        Part {
            block,
            bytes: from..to,
        }
    })
}
