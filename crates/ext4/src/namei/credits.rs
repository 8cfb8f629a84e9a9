//! How many blocks a handle may change.
//!
//! | part | blocks |
//! |---|---|
//! | new block of a directory or symbolic link | block bitmap, descriptor; extent or pointer blocks on the path; for each level, and a new one, such a block with bitmap and descriptor |
//! | new inode | inode bitmap, block bitmap of its group (first use), descriptor, table ([`CREDITS_NEW_INODE`]) |
//! | name added | [`dir::insert_blocks`], [`dir::insert_appends`] new blocks, the directory's inode |
//! | ACLs of a new inode | [`xattr::CREDITS`](crate::xattr), both in one block |
//! | name taken or replaced | a leaf, the directory's inode |
//! | `..` changed | block 0 of the directory that moved |
//! | orphan | its inode; a block of the orphan file or, when that is full, superblock and neighbour in the list ([`ORPHAN_CREDITS`]) |
//!
//! A log that has no room for the [largest](largest_credits) handle of its volume is refused at
//! mount.

use crate::extent::{CUT_CREDITS, DEPTH_MAX, SHIFT_CREDITS, STEP_CREDITS};
use crate::file::{MAP_CREDITS, ORPHAN_CREDITS, SMALL_PAGES_MAX};
use crate::inode::{CREDITS_EVICT, CREDITS_NEW_INODE};
use crate::xattr::CREDITS as ACL_CREDITS;
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

/// Pointer blocks on the path to a block of a directory, at most: directories end before the tree
/// of three levels.
const MAP_LEVELS: u32 = 2;

/// A new block of an inode whose extent tree has `depth` levels below its root. The deepest tree
/// gets no further level.
const fn append(depth: u32) -> u32 {
    let deepest = DEPTH_MAX as u32;
    match depth < deepest {
        true => 2 + depth + 3 * (depth + 1),
        false => 2 + deepest + 3 * deepest,
    }
}

/// A new inode with at most one block.
pub(super) const NEW_INODE: u32 = CREDITS_NEW_INODE + 1 + append(0);

/// Credits for adding a name to a directory whose extent tree has `depth` levels below its root,
/// and whose hash-tree index may have up to `levels` levels below its own root.
const fn add_name(levels: u8, depth: u32) -> u32 {
    let mut credits = dir::insert_blocks(levels) + INODE;
    let mut n = 0;
    while n < dir::insert_appends(levels) {
        // The first of the new blocks may make the tree deeper for the next.
        credits += append(depth + n);
        n += 1;
    }
    credits
}

/// Blocks that the largest handle of an operation on names or space may change, at any depth of
/// extent trees, in directories whose index has up to `levels` levels below its root;
/// `data=journal` apart.
pub(crate) const fn largest_credits(levels: u8) -> u32 {
    let add = add_name(levels, DEPTH_MAX as u32);
    let all = [
        // A directory with ACLs; a file without a name.
        NEW_INODE + add + ACL_CREDITS,
        NEW_INODE + DROP_LINK + ACL_CREDITS,
        // A link to such a file.
        add + DROP_LINK,
        // Renames that leave a whiteout, to a new name and over an old one.
        add + TAKE_NAME + INODE + PARENT_ENTRY + NEW_INODE,
        2 * TAKE_NAME + INODE + PARENT_ENTRY + DROP_LINK + NEW_INODE,
        // Ranges: freed, cut out, shifted, mapped with their content in the log.
        STEP_CREDITS + ORPHAN_CREDITS,
        CREDITS_EVICT,
        CUT_CREDITS + 1,
        SHIFT_CREDITS + 1,
        MAP_CREDITS + SMALL_PAGES_MAX,
    ];
    let (mut largest, mut n) = (0, 0);
    while n < all.len() {
        if all[n] > largest {
            largest = all[n];
        }
        n += 1;
    }
    largest
}

impl Ext4 {
    /// Adding a name to `dir`.
    pub(super) fn add_name_credits(&self, dir: &Inode) -> FsResult<u32> {
        let depth = self.tree_depth(dir)?;
        // The directory may get its first block, and need more at once.
        let leaves = if dir.is_inline() { append(0) } else { 0 };
        Ok(add_name(self.index_levels_max(), depth) + leaves)
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
    fn the_largest_handle_depends_on_the_levels_of_an_index() {
        assert_eq!((largest_credits(1), largest_credits(2)), (69, 93));
        // The smallest log has 1024 blocks, of which a transaction may take a quarter.
        assert!(largest_credits(2).max(crate::file::JOURNALED_CREDITS) < 200);
    }

    #[test]
    fn no_depth_needs_more_than_the_deepest() {
        for levels in [1, 2] {
            let most = add_name(levels, DEPTH_MAX.into());
            assert!((0..=u32::from(u16::MAX)).all(|depth| add_name(levels, depth) <= most));
            // What a directory needs in addition when its content leaves the inode; its tree is
            // flat then.
            assert!(add_name(levels, 0) + append(0) <= most);
        }
    }

    #[test]
    fn pointer_blocks_of_the_largest_directory() {
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
