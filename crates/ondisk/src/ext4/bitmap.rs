//! Checksums of the block and inode bitmaps. They are stored in the group descriptor.
//!
//! A bitmap is one block; bit `n` is bit `n % 8` of byte `n / 8`. Bits beyond the end of the group
//! are set. The checksum covers the bytes that describe a whole group, not the padding after them.

use super::{FsSeed, GroupDesc, Superblock};
use crate::Corrupt;
use base::checksum::{crc32c, crc32c_change};

/// The checksum of one of the two bitmaps, stored in or compared with a descriptor. Volumes without
/// `metadata_csum` have none: storing does nothing, every bitmap passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitmapChecksum {
    /// Of the block bitmap.
    Block,
    /// Of the inode bitmap.
    Inode,
}

/// What a change of a bitmap does to the checksum in its descriptor.
#[derive(Clone, Copy, Debug)]
pub struct BitmapChange {
    of: BitmapChecksum,
    crc: u32,
}

impl BitmapChange {
    /// Brings the checksum in the descriptor up to date, if it was right before. That of the
    /// descriptor itself is not touched.
    pub fn apply(self, desc: &mut GroupDesc) {
        // A short descriptor has the low half of the checksum, which changes by the low half.
        match self.of {
            BitmapChecksum::Block => {
                desc.set_block_bitmap_checksum(desc.block_bitmap_checksum() ^ self.crc);
            }
            BitmapChecksum::Inode => {
                desc.set_inode_bitmap_checksum(desc.inode_bitmap_checksum() ^ self.crc);
            }
        }
    }
}

impl BitmapChecksum {
    /// The bytes that the checksum covers.
    fn covered(self, sb: &Superblock) -> usize {
        let bits = match self {
            BitmapChecksum::Block => sb.clusters_per_group(),
            BitmapChecksum::Inode => sb.inodes_per_group(),
        };
        bits as usize / 8
    }

    /// What the checksum of a bitmap changes by where the bytes `old` at `offset` become `new`.
    pub fn change(self, sb: &Superblock, offset: usize, old: &[u8], new: &[u8]) -> BitmapChange {
        let covered = self.covered(sb);
        let len = covered.saturating_sub(offset).min(new.len());
        let after = covered.saturating_sub(offset + len);
        BitmapChange {
            of: self,
            crc: match sb.has_metadata_checksums() {
                true => crc32c_change(&old[..len], &new[..len], after),
                false => 0,
            },
        }
    }

    fn compute(self, sb: &Superblock, bitmap: &[u8]) -> u32 {
        let FsSeed(seed) = sb.seed();
        crc32c(seed, &bitmap[..self.covered(sb)])
    }

    /// Stores the checksum of `bitmap` in its descriptor. The checksum of the descriptor itself is
    /// not touched.
    ///
    /// # Panics
    /// If the bitmap is shorter than a group of this volume needs.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of single bytes, of the covered end and of the padding behind it, in long and in
    /// short descriptors.
    #[test]
    fn a_change_is_that_of_the_whole() {
        let sb = super::super::golden::superblock();
        assert!(sb.has_metadata_checksums());
        for what in [BitmapChecksum::Block, BitmapChecksum::Inode] {
            let covered = what.covered(&sb);
            let old: Vec<u8> = (0..covered + 9).map(|n| (n * 7) as u8).collect();
            for (at, len) in [
                (0, 1),
                (covered - 1, 1),
                (covered - 2, 8),
                (covered, 4),
                (3, 60),
            ] {
                let mut new = old.clone();
                new[at..at + len].iter_mut().for_each(|b| *b ^= 0x81);
                for bytes in [32, 64] {
                    let mut desc = GroupDesc::blank(bytes);
                    what.update(&sb, &mut desc, &old);
                    what.change(&sb, at, &old[at..at + len], &new[at..at + len])
                        .apply(&mut desc);
                    let fits = what.verify(&sb, 0, &desc, &new);
                    assert!(fits.is_ok(), "{what:?} {at} {len} {bytes}");
                }
            }
        }
    }
}
