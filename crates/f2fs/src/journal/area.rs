//! Where the journal lies: behind the F2FS, described in its superblock.

use base::BLOCK_BYTES;
use base::bytes::{get_le32, get_le64, put_le32, put_le64};
use fscore::{FsError, FsResult};
use ondisk::f2fs::{Geometry, SUPERBLOCK_AT, Superblock, crc};

/// The region of the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JournalArea {
    /// Its first block.
    pub start: u64,
    /// Blocks, both superblocks of the journal among them.
    pub blocks: u32,
}

const AT: usize = 2816;
const MAGIC: u32 = 0x4A53_3246;

fn sum(bytes: &[u8]) -> u32 {
    crc(!0, &bytes[..16])
}

/// Describes the region in a superblock's block.
pub(crate) fn put(block: &mut [u8], area: &JournalArea) {
    let at = SUPERBLOCK_AT + AT;
    put_le32(block, at, MAGIC);
    put_le32(block, at + 4, area.blocks);
    put_le64(block, at + 8, area.start);
    let crc = sum(&block[at..]);
    put_le32(block, at + 16, crc);
}

fn described(sb: &Superblock) -> Option<JournalArea> {
    let bytes = &sb.bytes()[AT..];
    let sound = get_le32(bytes, 0) == MAGIC && get_le32(bytes, 16) == sum(bytes);
    sound.then(|| JournalArea {
        start: get_le64(bytes, 8),
        blocks: get_le32(bytes, 4),
    })
}

/// The region that the superblock describes, on a device of `device` blocks.
///
/// # Errors
/// It lies inside of the file system, or beyond the device.
pub(crate) fn find(sb: &Superblock, geo: &Geometry, device: u64) -> FsResult<Option<JournalArea>> {
    let Some(area) = described(sb) else {
        return Ok(None);
    };
    let end = area.start.checked_add(area.blocks.into());
    let least = crate::mkfs::RING_AT + crate::mkfs::RING_MIN_BLOCKS;
    let fits = area.start >= geo.block_count && end.is_some_and(|end| end <= device);
    if !fits || area.blocks < least {
        return Err(FsError::corrupt(format!(
            "the journal is said to have {} blocks of {BLOCK_BYTES} bytes from block {} on; the file system ends at {}, the device \
             at {device}",
            area.blocks, area.start, geo.block_count
        )));
    }
    Ok(Some(area))
}
