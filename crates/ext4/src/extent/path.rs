//! The path from the root of an extent tree to the leaf that maps a block.

use super::node::{bad, first_key};
use crate::Ext4;
use crate::inode::Inode;
use base::BlockNo;
use fscore::FsResult;
use ondisk::ext4::{Extent, ExtentEntries, ExtentNode};
use smallvec::{SmallVec, smallvec};

/// One node of a path.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// Its block; `None` is the root in the inode.
    pub place: Option<BlockNo>,
    pub node: ExtentNode,
    /// The record that the path follows; in the leaf unused.
    pub at: usize,
}

/// A path: the root first, the leaf last. Most trees are the root alone.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub levels: SmallVec<[Level; 1]>,
}

/// Which record the path takes in an index node.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    /// The one that covers this logical block.
    Block(u32),
    /// The last one.
    Last,
}

impl Path {
    /// The extents of the leaf.
    pub fn leaf(&self) -> &[Extent] {
        match &self.levels[self.levels.len() - 1].node.entries {
            ExtentEntries::Leaf(v) => v,
            ExtentEntries::Index(_) => &[],
        }
    }

    /// Depth of the tree.
    pub fn depth(&self) -> u16 {
        self.levels[0].node.depth
    }

    /// The first logical block beyond the leaf that another leaf maps; `None` if this is the last
    /// leaf.
    pub fn next_leaf(&self) -> Option<u32> {
        let inner = &self.levels[..self.levels.len() - 1];
        inner
            .iter()
            .rev()
            .find_map(|level| match &level.node.entries {
                ExtentEntries::Index(v) => v.get(level.at + 1).map(|i| i.logical),
                ExtentEntries::Leaf(_) => None,
            })
    }

    /// True if no leaf comes behind this one.
    pub fn is_rightmost(&self) -> bool {
        self.next_leaf().is_none()
    }
}

impl Ext4 {
    /// The path to the leaf that maps `aim`, or would. The `tree` lock is held.
    pub(crate) fn find_path(&self, inode: &Inode, aim: Aim) -> FsResult<Path> {
        let mut levels: SmallVec<[Level; 1]> = smallvec![Level {
            place: None,
            node: self.read_root(inode)?,
            at: 0,
        }];
        // The loop ends because the depth falls by one in each turn (`read_node` checks it).
        loop {
            let level = levels.last_mut().expect("the root is there");
            let ExtentEntries::Index(index) = &level.node.entries else {
                return Ok(Path { levels });
            };
            level.at = match aim {
                Aim::Block(lblk) => index
                    .partition_point(|i| i.logical <= lblk)
                    .saturating_sub(1),
                Aim::Last => index.len() - 1,
            };
            let record = index[level.at];
            let depth = level.node.depth - 1;
            let node = self.read_node(inode, record.child, depth)?;
            if first_key(&node.entries) != Some(record.logical) {
                let what = format!(
                    "extent-E1: begins not with block {}, as its index says",
                    record.logical
                );
                return Err(bad(inode.ino, record.child, what));
            }
            levels.push(Level {
                place: Some(record.child),
                node,
                at: 0,
            });
        }
    }
}
