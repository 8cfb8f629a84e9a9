//! Arithmetic on the geometry of a checked [`Superblock`]: groups, descriptors, inode places.

use super::{Compat, Incompat, RoCompat, Superblock};
use base::{BlockNo, Ino};

/// Where an inode lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodePlace {
    /// Its block group.
    pub group: u32,
    /// Its number inside the group: its bit in the inode bitmap.
    pub index: u32,
    /// Block inside the inode table of the group.
    pub table_block: u64,
    /// Byte offset in that block.
    pub offset: usize,
}

impl Superblock {
    /// Number of block groups.
    pub fn groups_count(&self) -> u32 {
        let blocks = self.blocks_count() - u64::from(self.first_data_block());
        blocks.div_ceil(u64::from(self.blocks_per_group())) as u32
    }
    /// First block of a group.
    pub fn group_first_block(&self, group: u32) -> BlockNo {
        let start = u64::from(group) * u64::from(self.blocks_per_group());
        BlockNo(start + u64::from(self.first_data_block()))
    }
    /// Blocks in a group: the last one may be shorter.
    pub fn group_blocks(&self, group: u32) -> u32 {
        let left = self
            .blocks_count()
            .saturating_sub(self.group_first_block(group).0);
        left.min(u64::from(self.blocks_per_group())) as u32
    }
    /// Group and bit of a block; `None` if it lies outside the volume.
    pub fn block_place(&self, block: BlockNo) -> Option<(u32, u32)> {
        let at = block.0.checked_sub(u64::from(self.first_data_block()))?;
        let per_group = u64::from(self.blocks_per_group());
        (block.0 < self.blocks_count()).then(|| ((at / per_group) as u32, (at % per_group) as u32))
    }
    /// Place of an inode; `None` if there is no such inode.
    pub fn inode_place(&self, ino: Ino) -> Option<InodePlace> {
        if ino.0 == 0 || ino.0 > self.inodes_count() {
            return None;
        }
        let (group, index) = (
            (ino.0 - 1) / self.inodes_per_group(),
            (ino.0 - 1) % self.inodes_per_group(),
        );
        let byte = u64::from(index) * self.inode_bytes() as u64;
        let block = u64::from(self.block_bytes());
        Some(InodePlace {
            group,
            index,
            table_block: byte / block,
            offset: (byte % block) as usize,
        })
    }
    /// Blocks of the inode table of a group.
    pub fn inode_table_blocks(&self) -> u64 {
        let bytes = u64::from(self.inodes_per_group()) * self.inode_bytes() as u64;
        bytes.div_ceil(u64::from(self.block_bytes()))
    }
    /// Group descriptors in a block.
    pub fn descs_per_block(&self) -> u32 {
        self.block_bytes() / self.desc_bytes() as u32
    }
    /// Blocks that all group descriptors fill.
    pub fn desc_blocks(&self) -> u32 {
        self.groups_count().div_ceil(self.descs_per_block())
    }
    /// Block and byte offset of the primary copy of a group's descriptor.
    pub fn desc_place(&self, group: u32) -> (BlockNo, usize) {
        let nr = group / self.descs_per_block();
        let offset = (group % self.descs_per_block()) as usize * self.desc_bytes();
        if !self.incompat().has(Incompat::META_BG) || nr < self.first_meta_group() {
            return (self.superblock_place(0).plus(1 + u64::from(nr)), offset);
        }
        let first = nr * self.descs_per_block();
        let skip = u64::from(self.has_superblock(first));
        (self.superblock_place(first).plus(skip), offset)
    }
    /// Where the superblock of a group lies that has one: at its start. With `bigalloc` and blocks
    /// of 1 KiB the first group begins with the boot block all the same, and its superblock is the
    /// second one.
    pub fn superblock_place(&self, group: u32) -> BlockNo {
        let behind_boot = group == 0 && self.first_data_block() == 0 && self.block_bytes() == 1024;
        self.group_first_block(group).plus(u64::from(behind_boot))
    }
    /// Blocks in a cluster: what one bit of a block bitmap stands for; 1 without `bigalloc`.
    pub fn cluster_blocks(&self) -> u32 {
        match self.ro_compat().has(RoCompat::BIGALLOC) {
            true => 1 << (self.log_cluster_size() - self.log_block_size()),
            false => 1,
        }
    }
    /// Group and bit of the cluster that a block lies in; `None` outside the volume.
    pub fn cluster_place(&self, block: BlockNo) -> Option<(u32, u32)> {
        let (group, at) = self.block_place(block)?;
        Some((group, at / self.cluster_blocks()))
    }
    /// First block of the cluster of a bit of a group.
    pub fn cluster_start(&self, group: u32, bit: u32) -> BlockNo {
        let skip = u64::from(bit) * u64::from(self.cluster_blocks());
        self.group_first_block(group).plus(skip)
    }
    /// Clusters in a group: the last one may be shorter, and the last cluster incomplete.
    pub fn group_clusters(&self, group: u32) -> u32 {
        self.group_blocks(group).div_ceil(self.cluster_blocks())
    }
    /// True if a group begins with a superblock or a backup of it.
    pub fn has_superblock(&self, group: u32) -> bool {
        if group == 0 {
            return true;
        }
        if self.compat().has(Compat::SPARSE_SUPER2) {
            return self.backup_groups().contains(&group);
        }
        if group == 1 || !self.ro_compat().has(RoCompat::SPARSE_SUPER) {
            return true;
        }
        [3, 5, 7].iter().any(|&base| is_power_of(group, base))
    }
}

fn is_power_of(mut n: u32, base: u32) -> bool {
    while n > 1 && n.is_multiple_of(base) {
        n /= base;
    }
    n == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four_gib() -> Superblock {
        let mut sb = Superblock::blank();
        sb.set_revision(1);
        sb.set_incompat(Incompat::WIDE_BLOCKS);
        sb.set_ro_compat(RoCompat::SPARSE_SUPER);
        sb.set_desc_size(64);
        sb.set_log_block_size(2);
        sb.set_inode_bytes(256);
        sb.set_blocks_count(1_048_576 + 100);
        sb.set_blocks_per_group(32768);
        sb.set_inodes_per_group(8192);
        sb.set_inodes_count(33 * 8192);
        sb
    }

    #[test]
    fn places() {
        let sb = four_gib();
        assert_eq!(
            (sb.groups_count(), sb.group_blocks(0), sb.group_blocks(32)),
            (33, 32768, 100)
        );
        assert_eq!(sb.block_place(BlockNo(32768 * 2 + 5)), Some((2, 5)));
        assert_eq!(sb.block_place(BlockNo(sb.blocks_count())), None);
        let place = sb.inode_place(Ino(8193 + 17)).expect("exists");
        assert_eq!(
            (place.group, place.index, place.table_block, place.offset),
            (1, 17, 1, 256)
        );
        assert_eq!(
            (sb.inode_place(Ino(0)), sb.inode_place(Ino(33 * 8192 + 1))),
            (None, None)
        );
        assert_eq!(
            (
                sb.inode_table_blocks(),
                sb.descs_per_block(),
                sb.desc_blocks()
            ),
            (512, 64, 1)
        );
        assert_eq!(sb.desc_place(3), (BlockNo(1), 192));
    }

    /// A bitmap of 64 KiB has more bits than short descriptors count.
    #[test]
    fn groups_of_large_blocks_end_before_their_bitmaps() {
        let parses = |blocks: u32, inodes: u32| {
            let mut sb = four_gib();
            sb.set_log_block_size(6);
            sb.set_log_cluster_size(6);
            sb.set_blocks_count(70_000);
            sb.set_blocks_per_group(blocks);
            sb.set_clusters_per_group(blocks);
            sb.set_inodes_per_group(inodes);
            sb.set_inodes_count(2 * inodes);
            sb.set_first_ino(Ino(11));
            let mut bytes = vec![0; crate::ext4::SUPERBLOCK_BYTES];
            sb.encode(&mut bytes);
            Superblock::parse_torn(&bytes).map(|_| ())
        };
        assert_eq!(parses(65_528, 65_280), Ok(()));
        assert!(parses(65_536, 65_280).is_err());
        assert!(parses(65_528, 65_536).is_err());
    }

    #[test]
    fn sparse_groups() {
        let sb = four_gib();
        let with: Vec<u32> = (0..130).filter(|&g| sb.has_superblock(g)).collect();
        assert_eq!(with, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    }

    #[test]
    fn with_clusters_and_short_blocks_the_first_superblock_lies_behind_the_boot_block() {
        let mut sb = four_gib();
        sb.set_log_block_size(0);
        sb.set_log_cluster_size(4);
        sb.set_ro_compat(RoCompat::SPARSE_SUPER | RoCompat::BIGALLOC);
        sb.set_blocks_per_group(131_072);
        assert_eq!(sb.superblock_place(0), BlockNo(1));
        assert_eq!(sb.desc_place(1), (BlockNo(2), 64));
        assert_eq!(sb.superblock_place(1), BlockNo(131_072));
        assert_eq!((sb.cluster_blocks(), sb.group_clusters(0)), (16, 8192));
        assert_eq!(sb.cluster_place(BlockNo(131_072 + 47)), Some((1, 2)));
        assert_eq!(sb.cluster_start(1, 2), BlockNo(131_072 + 32));
        sb.set_log_block_size(2);
        assert_eq!(sb.superblock_place(0), BlockNo(0));
    }
}
