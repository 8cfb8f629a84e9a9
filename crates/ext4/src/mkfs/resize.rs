//! The resize inode: it owns the blocks behind the group descriptors, so that descriptors can grow
//! while mounted.
//!
//! It has the block map of a file with a double-indirect block only. Word `n` of that block points
//! to the reserved block of the primary descriptors whose distance from the superblock is `n + 1`
//! (modulo the words of a block); that block in turn, taken as an indirect block, lists its copies
//! in the backup groups.

use super::geometry::Geometry;
use base::bytes::put_le32;

/// Size of the resize inode: everything a double-indirect block reaches.
pub(super) fn resize_bytes(g: &Geometry) -> u64 {
    let p = u64::from(g.pointers_per_block());
    (p * p + p + 12) * u64::from(g.block_bytes)
}

/// Blocks of the resize inode with their bytes; the double-indirect block `top` first.
pub(super) fn resize_blocks(g: &Geometry, top: u64) -> Vec<(u64, Vec<u8>)> {
    let backups: Vec<u32> = g.backup_groups().collect();
    let mut root = g.empty();
    let mut out = Vec::new();
    for n in g.desc_blocks..g.desc_blocks + g.reserved_desc_blocks {
        let block = g.first_block() as u32 + 1 + n;
        put_le32(&mut root, 4 * (n % g.pointers_per_block()) as usize, block);
        let mut list = g.empty();
        for (slot, &group) in backups.iter().enumerate() {
            let copy = g.group_start(group) + 1 + u64::from(n);
            put_le32(
                &mut list,
                4 * slot,
                u32::try_from(copy).expect("volumes end below 2^32"),
            );
        }
        out.push((block.into(), list));
    }
    out.insert(0, (top, root));
    out
}

/// Blocks that the resize inode owns.
pub(super) fn resize_block_count(g: &Geometry) -> u64 {
    1 + u64::from(g.reserved_desc_blocks) * (1 + g.backup_groups().count() as u64)
}
