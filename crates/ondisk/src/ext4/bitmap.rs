//! Checksums of the block and inode bitmaps. They are stored in the group descriptor.
//!
//! A bitmap is one block; bit `n` is bit `n % 8` of byte `n / 8`. Bits beyond the end of the group
//! are set. The checksum covers the bytes that describe a whole group, not the padding after them.

use super::{FsSeed, GroupDesc, Superblock};
use crate::Corrupt;
use base::checksum::crc32c;

/// CRC32C of a block bitmap.
///
/// # Panics
/// If the bitmap is shorter than a group of this volume needs.
pub fn block_bitmap_checksum(sb: &Superblock, bitmap: &[u8]) -> u32 {
    let FsSeed(seed) = sb.seed();
    crc32c(seed, &bitmap[..sb.clusters_per_group() as usize / 8])
}

/// CRC32C of an inode bitmap.
///
/// # Panics
/// If the bitmap is shorter than a group of this volume needs.
pub fn inode_bitmap_checksum(sb: &Superblock, bitmap: &[u8]) -> u32 {
    let FsSeed(seed) = sb.seed();
    crc32c(seed, &bitmap[..sb.inodes_per_group() as usize / 8])
}

/// The checksum of one of the two bitmaps, stored in or compared with a descriptor. Volumes without
/// `metadata_csum` have none: storing does nothing, every bitmap passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitmapChecksum {
    /// Of the block bitmap.
    Block,
    /// Of the inode bitmap.
    Inode,
}

impl BitmapChecksum {
    fn compute(self, sb: &Superblock, bitmap: &[u8]) -> u32 {
        match self {
            BitmapChecksum::Block => block_bitmap_checksum(sb, bitmap),
            BitmapChecksum::Inode => inode_bitmap_checksum(sb, bitmap),
        }
    }

    /// Stores the checksum of `bitmap` in its descriptor. The checksum of the descriptor itself is
    /// not touched.
    pub fn update(self, sb: &Superblock, desc: &mut GroupDesc, bitmap: &[u8]) {
        if !sb.has_metadata_checksums() {
            return;
        }
        let crc = self.compute(sb, bitmap);
        match self {
            BitmapChecksum::Block => desc.set_block_bitmap_checksum(crc),
            BitmapChecksum::Inode => desc.set_inode_bitmap_checksum(crc),
        }
    }

    /// Compares `bitmap` with its descriptor.
    ///
    /// # Errors
    /// The stored checksum is another one; the error names the group and the block.
    pub fn verify(
        self,
        sb: &Superblock,
        group: u32,
        desc: &GroupDesc,
        bitmap: &[u8],
    ) -> Result<(), Corrupt> {
        if !sb.has_metadata_checksums() {
            return Ok(());
        }
        let (what, stored, block) = match self {
            BitmapChecksum::Block => (
                "block bitmap",
                desc.block_bitmap_checksum(),
                desc.block_bitmap(),
            ),
            BitmapChecksum::Inode => (
                "inode bitmap",
                desc.inode_bitmap_checksum(),
                desc.inode_bitmap(),
            ),
        };
        let computed = self.compute(sb, bitmap) & desc.checksum_mask();
        Corrupt::check(what, stored, computed).map_err(|e| e.at_group(group).at_block(block))
    }
}
