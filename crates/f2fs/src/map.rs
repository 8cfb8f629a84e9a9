//! The mapping of a file: from page index to address slot, through the inode and its node tree; and the extent cache.

use crate::F2fs;
use crate::inode::Inode;
use crate::ops::Op;
use fscore::FsResult;
use ondisk::f2fs::{BlockAddr, Nid};

/// What the `tree` lock of an inode guards. Functions that read or change a mapping take it as their token.
#[derive(Default)]
pub(crate) struct Tree {}

/// An address slot in a node block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// The inode or direct node.
    pub nid: Nid,
    /// Which slot of it (Linux `ofs_in_node`).
    pub slot: u16,
    /// What it says.
    pub addr: BlockAddr,
}

/// Neighbouring pages of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// The first address: NULL (hole), NEW (reserved: reads as zeros), or a block; blocks of a run are neighbours.
    pub addr: BlockAddr,
    /// Pages.
    pub len: u64,
}

impl F2fs {
    /// What lies at page `index` and behind it, at most `max` (> 0) pages. Damage (an address outside the main area) is an error.
    pub(crate) fn lookup(
        &self,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
        max: u64,
    ) -> FsResult<Run> {
        let _ = (inode, tree, index, max);
        todo!("node")
    }

    /// The slot of page `index`; `None` if no node leads there.
    pub(crate) fn find_slot(
        &self,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
    ) -> FsResult<Option<Slot>> {
        let _ = (inode, tree, index);
        todo!("node")
    }

    /// The same, and makes the nodes that are missing (each counts in `space` and in the inode's blocks).
    ///
    /// # Errors
    /// EFBIG, ENOSPC; then no node was made that leads nowhere.
    pub(crate) fn make_slot(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
    ) -> FsResult<Slot> {
        let _ = (op, inode, tree, index);
        todo!("node")
    }

    /// Changes what a slot says, in its node block and in the extent cache. Neither counts nor frees blocks.
    pub(crate) fn set_slot(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
        slot: &Slot,
        addr: BlockAddr,
    ) -> FsResult<()> {
        let _ = (op, inode, tree, index, slot, addr);
        todo!("node")
    }

    /// Frees all blocks from page `from` on and the nodes that lead to nothing but them; `space` and the inode's blocks are adjusted.
    pub(crate) fn truncate_map(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        from: u64,
    ) -> FsResult<()> {
        let _ = (op, inode, tree, from);
        todo!("node")
    }

    /// Frees the blocks of `from..to` and leaves holes; nodes stay.
    pub(crate) fn punch_map(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        from: u64,
        to: u64,
    ) -> FsResult<()> {
        let _ = (op, inode, tree, from, to);
        todo!("node")
    }
}
