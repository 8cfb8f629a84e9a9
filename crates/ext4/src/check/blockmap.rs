//! Checks block maps of ext2 and ext3.

use super::mapping::Walker;
use base::bytes::get_le32;
use ondisk::ext4::{BLOCK_MAP_DIRECT, BLOCK_MAP_SLOTS};

/// Walks the map in the block area of the inode.
pub(super) fn walk(walker: &mut Walker<'_, '_>, area: &[u8]) {
    let mut logical = 0;
    for slot in 0..BLOCK_MAP_SLOTS {
        let levels = (slot + 1).saturating_sub(BLOCK_MAP_DIRECT as usize) as u32;
        pointer(walker, get_le32(area, slot * 4).into(), levels, logical);
        logical += walker.volume.pointers().pow(levels);
    }
}

/// At most three levels deep.
fn pointer(walker: &mut Walker<'_, '_>, block: u64, levels: u32, logical: u64) {
    if block == 0 {
        return;
    }
    if levels == 0 {
        return walker.data(logical, block, 1, true);
    }
    let Some(bytes) = walker.node(block) else {
        return;
    };
    let pointers = walker.volume.pointers();
    let each = pointers.pow(levels - 1);
    for n in 0..pointers {
        let below = get_le32(&bytes, n as usize * 4).into();
        pointer(walker, below, levels - 1, logical + n * each);
    }
}
