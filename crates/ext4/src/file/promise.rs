//! Promises of blocks to delayed pages.
//!
//! A delayed page holds one block; the inode holds, besides, what the worst fragmentation of its delayed pages could cost in
//! extent blocks. With `d` delayed pages and a tree of depth 0 the records come to at most `d + 4`, in leaves that are at
//! least half full after a split. In a deeper tree each new record may in addition split a leaf that is full already.

use super::writeback::leave_unpromised;
use crate::Ext4;
use crate::inode::Inode;
use crate::reserve::Right;
use base::BlockSize;
use fscore::FsResult;
use ondisk::ext4::{ExtentNode, INLINE_EXTENTS_MAX};

/// Records in a leaf after a split, at least.
const fn half(size: BlockSize) -> u64 {
    ExtentNode::block_max(size.bytes()) as u64 / 2
}

/// Extent blocks that `delayed` new records may need.
fn tree_blocks(size: BlockSize, delayed: u64, depth: u16, records: u64) -> u64 {
    if delayed == 0 || (depth == 0 && records + delayed <= INLINE_EXTENTS_MAX.into()) {
        return 0;
    }
    let split = if depth == 0 { 0 } else { delayed };
    // Index blocks above `n` leaves: fewer than n/half + one per level.
    let leaves = split + (delayed + u64::from(INLINE_EXTENTS_MAX)).div_ceil(half(size));
    leaves + leaves.div_ceil(half(size)) + u64::from(depth) + 1
}

impl Ext4 {
    fn tree_need(&self, inode: &Inode, delayed: u64) -> FsResult<u64> {
        if delayed == 0 {
            return Ok(0);
        }
        if !inode.core().has_extents() {
            // A path to each page: a pointer block of its own, and another one above that; a third level for the file.
            return Ok(2 * delayed + 3);
        }
        let root = self.read_root(inode)?;
        Ok(tree_blocks(
            self.block_size,
            delayed,
            root.depth,
            root.entries.len() as u64,
        ))
    }

    /// Promises a block to each of `pages` more delayed pages; false if there are not as many.
    pub(super) fn promise_pages(&self, inode: &Inode, pages: u64, right: Right) -> FsResult<bool> {
        let held = inode.core().promise;
        let meta = self.tree_need(inode, held.data + pages)?;
        let more = meta.saturating_sub(held.meta);
        if !self.promise(pages + more, right) {
            return Ok(false);
        }
        let mut core = inode.core();
        core.promise.data += pages;
        core.promise.meta += more;
        Ok(true)
    }

    /// Promises a block to one more delayed page, after making room if there is none: delayed pages are allocated (which frees
    /// what was promised for the worst case) and pending frees are committed.
    pub(super) fn promise_or_make_room(&self, inode: &Inode, right: Right) -> FsResult<bool> {
        if self.promise_pages(inode, 1, right)? {
            return Ok(true);
        }
        self.make_room()?;
        self.promise_pages(inode, 1, right)
    }

    /// Turns promises into free blocks as far as possible.
    pub(crate) fn make_room(&self) -> FsResult<()> {
        for ino in self.pages.dirty_files(None) {
            if self.pages.delayed(ino) == 0 {
                continue;
            }
            if let Some(inode) = self.inodes.get(ino) {
                leave_unpromised(self.write_pages(&inode, 0..u64::MAX))?;
            }
        }
        self.mature_pending()
    }

    /// Commits if that makes freed blocks usable.
    pub(crate) fn mature_pending(&self) -> FsResult<()> {
        self.reap_pending()?;
        if self.space.pending() > 0 {
            self.journal.commit_all().map_err(crate::fault::journal)?;
            self.reap_pending()?;
        }
        Ok(())
    }

    /// Takes over the promise of `pages` delayed pages and all that is promised for the tree, for a handle that allocates.
    /// `wb` is held.
    pub(super) fn take_promise(&self, inode: &Inode, pages: u64) -> u64 {
        if pages == 0 {
            return 0;
        }
        let mut core = inode.core();
        core.promise.data -= pages;
        pages + std::mem::take(&mut core.promise.meta)
    }

    /// Gives back what the handle did not use: one block for each of `pages` pages that are still delayed, and what the tree
    /// may need for all delayed pages. The rest of `pool` is released with the handle.
    pub(super) fn return_promise(&self, inode: &Inode, pool: &mut u64, pages: u64) -> FsResult<()> {
        let data = pages.min(*pool);
        *pool -= data;
        let held = {
            let mut core = inode.core();
            core.promise.data += data;
            core.promise
        };
        let need = self.tree_need(inode, held.data)?;
        let meta = need.saturating_sub(held.meta).min(*pool);
        *pool -= meta;
        inode.core().promise.meta += meta;
        Ok(())
    }

    /// `pages` delayed pages were dropped: their promise ends.
    pub(crate) fn drop_promise(&self, inode: &Inode, pages: u64) {
        let mut core = inode.core();
        core.promise.data -= pages;
        let meta = if core.promise.data == 0 {
            std::mem::take(&mut core.promise.meta)
        } else {
            0
        };
        drop(core);
        self.space.release(pages + meta);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree_blocks(delayed: u64, depth: u16, records: u64) -> u64 {
        super::tree_blocks(BlockSize::KIB4, delayed, depth, records)
    }

    #[test]
    fn worst_cases() {
        assert_eq!(tree_blocks(0, 3, 9), 0);
        assert_eq!(tree_blocks(2, 0, 2), 0, "four records fit the inode");
        assert_eq!(
            tree_blocks(3, 0, 2),
            3,
            "one leaf, one index, one level more"
        );
        assert!(
            tree_blocks(10, 1, 1) >= 10 + 2,
            "each may split a full leaf"
        );
        assert!(tree_blocks(100_000, 0, 0) < 100_000 / 50);
    }
}
