//! Removes the end of a file, in steps that each leave a whole tree.

use super::path::{Aim, Path};
use crate::Ext4;
use crate::inode::Inode;
use crate::tx::Tx;
use fscore::FsResult;
use ondisk::ext4::{Extent, ExtentEntries, ExtentNode};

/// Blocks that one step may change: bitmaps and descriptors of data in up to two groups, the inode,
/// revoke records, the leaf, and for each level a node with the bitmap and the descriptor of its
/// freeing.
pub(crate) const STEP_CREDITS: u32 = 12 + 4 * (super::DEPTH_MAX as u32 + 1);

/// Most blocks of journaled data that one step frees: each needs a revoke record.
pub(super) const LOGGED_MAX: u32 = 256;

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing is mapped from there on.
    Done,
    /// There may be more.
    More,
}

impl Ext4 {
    /// Removes the last extent if it reaches beyond logical block `from`, or its part beyond. The
    /// inode is put by the caller before the handle can be restarted.
    pub(crate) fn remove_last(&self, tx: &mut Tx<'_>, inode: &Inode, from: u64) -> FsResult<Step> {
        let _tree = inode.tree.write();
        inode.core().recent = None;
        let mut path = self.find_path(inode, Aim::Last)?;
        let mut leaf = path.leaf().to_vec();
        let Some(mut last) = leaf.pop() else {
            return Ok(Step::Done);
        };
        if last.logical_end() <= from {
            return Ok(Step::Done);
        }
        let mut keep = from.saturating_sub(last.logical.into()) as u32;
        let whole = (last.physical.plus(keep.into()), last.len - keep);
        if self.may_revoke(inode, whole.0, whole.1) {
            keep = keep.max(last.len.saturating_sub(LOGGED_MAX));
        }
        // A step stays within the last two groups that the extent touches, because with small
        // groups one extent could span dozens of them.
        keep = keep.max(self.before_last_groups(&last));
        let freed = last.len - keep;
        let start = last.physical.plus(keep.into());
        tx.note_blocks(
            inode,
            last.logical_end() - u64::from(freed)..last.logical_end(),
        );
        let logical = last.logical_end() - u64::from(freed);
        let clusters = self.free_mapped(tx, inode, logical, (start, freed))?;
        self.add_clusters(inode, -i64::from(clusters))?;
        if keep > 0 {
            last.len = keep;
            leaf.push(last);
        }
        let leaf_level = path.levels.len() - 1;
        if leaf.is_empty() && leaf_level > 0 {
            self.drop_leaf(tx, inode, &mut path)?;
        } else {
            self.rewrite(tx, inode, &mut path, leaf_level, ExtentEntries::Leaf(leaf))?;
        }
        Ok(Step::More)
    }

    /// Blocks of an extent that lie before the last two groups that it touches.
    fn before_last_groups(&self, extent: &Extent) -> u32 {
        let last = extent.physical.plus(u64::from(extent.len) - 1);
        let Some((group, _)) = self.geo.block_place(last) else {
            // The extent lies outside the volume: freeing it reports that.
            return 0;
        };
        let first = self.geo.group_first_block(group.saturating_sub(1));
        first.0.saturating_sub(extent.physical.0) as u32
    }

    /// The leaf has become empty: it is freed, and so is every node above that has no other child
    /// (extent-E2).
    pub(super) fn drop_leaf(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        path: &mut Path,
    ) -> FsResult<()> {
        for level in (1..path.levels.len()).rev() {
            let block = path.levels[level]
                .place
                .expect("only the root is in the inode");
            tx.forget(block)?;
            self.free_clusters(tx, block, 1)?;
            self.add_clusters(inode, -1)?;
            let parent = &path.levels[level - 1];
            let ExtentEntries::Index(index) = &parent.node.entries else {
                unreachable!("an inner node holds index records")
            };
            let mut index = index.clone();
            index.remove(parent.at);
            if !index.is_empty() {
                return self.rewrite(tx, inode, path, level - 1, ExtentEntries::Index(index));
            }
        }
        self.write_node(tx, inode, None, &ExtentNode::inline_root())
    }
}
