//! How many blocks a handle may change.
//!
//! | part | blocks |
//! |---|---|
//! | new block of a directory or symbolic link | block bitmap, descriptor; extent or pointer blocks on the path; for each level, and a new one, such a block with bitmap and descriptor |
//! | new inode | inode bitmap, block bitmap of its group (first use), descriptor, table ([`CREDITS_NEW_INODE`]) |
//! | name added | [`dir::insert_blocks`], [`dir::insert_appends`] new blocks, the directory's inode |
//! | name taken or replaced | a leaf, the directory's inode |
//! | `..` changed | block 0 of the directory that moved |
//! | orphan | its inode, superblock, and the neighbour in the list ([`ORPHAN_CREDITS`]) |

use crate::file::ORPHAN_CREDITS;
use crate::inode::CREDITS_NEW_INODE;
use crate::{Ext4, Inode, dir, fault};
use fscore::FsResult;
use ondisk::ext4::ExtentNode;

/// A leaf and the directory's inode.
pub(super) const TAKE_NAME: u32 = 2;
/// An inode of which only fields change.
pub(super) const INODE: u32 = 1;
/// The block with `..`.
pub(super) const PARENT_ENTRY: u32 = 1;
/// An inode that loses a name, maybe its last one.
pub(super) const DROP_LINK: u32 = INODE + ORPHAN_CREDITS;

/// What the largest handle of an operation on names or space may change, at any depth of trees; `data=journal` apart.
pub(crate) const LARGEST_CREDITS: u32 = 112;

/// Pointer blocks on the path to a block of a directory, at most: directories end before the tree of three levels.
const MAP_LEVELS: u32 = 2;

/// A new block of an inode whose extent tree has `depth` levels below its root.
const fn append(depth: u32) -> u32 {
    2 + depth + 3 * (depth + 1)
}

/// A new inode with at most one block.
pub(super) const NEW_INODE: u32 = CREDITS_NEW_INODE + 1 + append(0);

impl Ext4 {
    /// Adding a name to `dir`.
    pub(super) fn add_name_credits(&self, dir: &Inode) -> FsResult<u32> {
        let depth = self.tree_depth(dir)?;
        // The first of the new blocks may make the tree deeper for the next.
        let levels = self.index_levels_max();
        let appends: u32 = (0..dir::insert_appends(levels))
            .map(|n| append(depth + n))
            .sum();
        // It may get its first block, and need more at once.
        let leaves = if dir.is_inline() { append(0) } else { 0 };
        Ok(dir::insert_blocks(levels) + appends + INODE + leaves)
    }

    fn tree_depth(&self, inode: &Inode) -> FsResult<u32> {
        let core = inode.core();
        if core.is_inline() {
            return Ok(0);
        }
        if !core.has_extents() {
            return Ok(MAP_LEVELS);
        }
        let root = ExtentNode::parse(core.disk.block_area());
        root.map(|root| root.depth.into())
            .map_err(|why| fault::corrupt(why.at_inode(inode.ino)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_handle_fits_the_smallest_journal() {
        let deepest = u32::from(crate::extent::DEPTH_MAX);
        let appends: u32 = (0..dir::insert_appends(2))
            .map(|n| append(deepest + n))
            .sum();
        let add = dir::insert_blocks(2) + appends + INODE;
        let rename = add + TAKE_NAME + INODE + PARENT_ENTRY + DROP_LINK;
        let step = crate::extent::STEP_CREDITS + ORPHAN_CREDITS;
        let map = 4 + 4 * crate::extent::INSERT_NODES_MAX;
        let largest = rename.max(add + NEW_INODE).max(step).max(map);
        assert!(largest <= LARGEST_CREDITS);
        // 1024 blocks, of which a transaction may take a quarter.
        assert!(LARGEST_CREDITS.max(crate::file::JOURNALED_CREDITS) < 200);
        let largest_dir = (1u64 << 31).div_ceil(base::BLOCK_BYTES as u64) as u32;
        let path = ondisk::ext4::BlockPath::to(largest_dir, base::BLOCK_BYTES as u32);
        let levels = path.expect("reachable").indexes().len();
        assert_eq!(levels as u32, MAP_LEVELS);
        assert_eq!(
            append(0),
            5,
            "bitmap and descriptor, twice, and the first extent block"
        );
    }
}
