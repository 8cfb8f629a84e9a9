//! Inserting extents, and converting unwritten ones to written ones and back.

use super::DEPTH_MAX;
use super::node::first_key;
use super::path::{Aim, Path};
use crate::Ext4;
use crate::inode::Inode;
use crate::space::Right;
use crate::tx::Tx;
use base::BlockNo;
use fscore::{Errno, FsError, FsResult};
use ondisk::ext4::{
    EXTENT_LEN_MAX, EXTENT_UNWRITTEN_LEN_MAX, Extent, ExtentEntries, ExtentIndex, ExtentNode,
};

/// The maximum of tree blocks that one insertion allocates: one per level, and one for a new level.
pub(crate) const INSERT_NODES_MAX: u32 = DEPTH_MAX as u32 + 1;

impl Ext4 {
    /// Maps a range that is a hole. The inode is put by the caller; its block count grows by the
    /// tree blocks used, not by the data.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed.
    pub(crate) fn insert_extent(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        new: Extent,
    ) -> FsResult<()> {
        inode.core().recent = None;
        tx.note_blocks(inode, new.logical.into()..new.logical_end());
        let mut path = self.find_path(inode, Aim::Block(new.logical))?;
        let mut leaf = path.leaf().to_vec();
        let at = leaf.partition_point(|e| e.logical <= new.logical);
        let left_end = at.checked_sub(1).map_or(0, |l| leaf[l].logical_end());
        let right = leaf.get(at).map(|e| e.logical).or(path.next_leaf());
        let fits = left_end <= new.logical.into()
            && right.is_none_or(|r| new.logical_end() <= u64::from(r));
        if !fits {
            return Err(FsError::corrupt(format!(
                "extent tree of inode {}: blocks {}..{} are mapped already",
                inode.ino,
                new.logical,
                new.logical_end()
            )));
        }
        let appends = at == leaf.len() && path.is_rightmost();
        leaf.insert(at, new);
        merge_around(&mut leaf, at);
        self.store_leaf(tx, inode, &mut path, leaf, appends)
    }

    /// Turns `len` blocks from `lblk` on, which lie in one unwritten extent, into written ones.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed.
    pub(crate) fn convert_written(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        lblk: u32,
        len: u32,
    ) -> FsResult<()> {
        tx.by(Right::Owed, |tx| self.convert(tx, inode, lblk, len, false))
    }

    /// Turns `len` blocks (at most [`EXTENT_UNWRITTEN_LEN_MAX`]) from `lblk` on, which lie in one
    /// written extent, into unwritten ones.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed.
    pub(crate) fn convert_unwritten(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        lblk: u32,
        len: u32,
    ) -> FsResult<()> {
        tx.by(Right::Owed, |tx| self.convert(tx, inode, lblk, len, true))
    }

    fn convert(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        lblk: u32,
        len: u32,
        unwritten: bool,
    ) -> FsResult<()> {
        inode.core().recent = None;
        let end = u64::from(lblk) + u64::from(len);
        tx.note_blocks(inode, lblk.into()..end);
        let mut path = self.find_path(inode, Aim::Block(lblk))?;
        let mut leaf = path.leaf().to_vec();
        let at = leaf.partition_point(|e| e.logical <= lblk).wrapping_sub(1);
        let old = leaf.get(at).copied();
        let old = old.filter(|e| e.unwritten != unwritten && end <= e.logical_end());
        let Some(old) = old else {
            return Err(FsError::corrupt(format!(
                "extent tree of inode {}: blocks {lblk}..{end} are not one {} extent",
                inode.ino,
                if unwritten { "written" } else { "unwritten" }
            )));
        };
        let before = lblk - old.logical;
        let after = (old.logical_end() - end) as u32;
        let part = |skip: u32, len: u32, unwritten| Extent {
            logical: old.logical + skip,
            len,
            physical: old.physical.plus(skip.into()),
            unwritten,
        };
        let pieces = [
            part(0, before, !unwritten),
            part(before, len, unwritten),
            part(before + len, after, !unwritten),
        ];
        leaf.splice(at..=at, pieces.into_iter().filter(|e| e.len > 0));
        merge_around(&mut leaf, at + usize::from(before > 0));
        // A conversion may add one more record than `insert_extent` does; a split leaves room for
        // both.
        self.store_leaf(tx, inode, &mut path, leaf, false)
    }

    /// Stores the records of the leaf at the end of `path`, splitting nodes as needed.
    pub(super) fn store_leaf(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        path: &mut Path,
        leaf: Vec<Extent>,
        appends: bool,
    ) -> FsResult<()> {
        let mut fresh = self.alloc_nodes(tx, inode, path, leaf.len())?;
        let mut entries = ExtentEntries::Leaf(leaf);
        let mut level = path.levels.len() - 1;
        loop {
            let carried = self.store_level(tx, inode, path, level, entries, appends, &mut fresh)?;
            let Some(carried) = carried else {
                assert!(fresh.is_empty(), "extent-E3: every new tree block is used");
                return Ok(());
            };
            // A new node stands to the right of this one: its parent gets one more record.
            level -= 1;
            let parent = &path.levels[level];
            let ExtentEntries::Index(index) = &parent.node.entries else {
                unreachable!("an inner node holds index records")
            };
            let mut index = index.clone();
            index.insert(parent.at + 1, carried);
            entries = ExtentEntries::Index(index);
        }
    }

    /// Stores one node. Answers the index record of the node that was split off, if any.
    #[allow(clippy::too_many_arguments)]
    fn store_level(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        path: &mut Path,
        level: usize,
        entries: ExtentEntries,
        appends: bool,
        fresh: &mut Vec<BlockNo>,
    ) -> FsResult<Option<ExtentIndex>> {
        let max = usize::from(path.levels[level].node.max);
        if entries.len() <= max {
            self.rewrite(tx, inode, path, level, entries)?;
            return Ok(None);
        }
        let block = fresh
            .pop()
            .expect("extent-E3: tree blocks are allocated first");
        if level == 0 {
            self.grow(tx, inode, path, entries, block)?;
            return Ok(None);
        }
        let keep = if appends { max } else { entries.len() / 2 };
        let (left, right) = split(entries, keep);
        let record = ExtentIndex {
            logical: first_key(&right).expect("both halves have records"),
            child: block,
        };
        let old = &path.levels[level].node;
        let node = ExtentNode {
            entries: right,
            ..old.clone()
        };
        self.create_node(tx, inode, block, &node)?;
        self.rewrite(tx, inode, path, level, left)?;
        Ok(Some(record))
    }

    /// Stores records that fit their node, and corrects the index records above (extent-E1).
    pub(super) fn rewrite(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        path: &mut Path,
        level: usize,
        entries: ExtentEntries,
    ) -> FsResult<()> {
        let key = first_key(&entries);
        let here = &mut path.levels[level];
        here.node.entries = entries;
        self.write_node(tx, inode, here.place, &here.node)?;
        let Some(key) = key else {
            return Ok(());
        };
        for above in (0..level).rev() {
            let parent = &mut path.levels[above];
            let at = parent.at;
            let ExtentEntries::Index(index) = &mut parent.node.entries else {
                unreachable!("an inner node holds index records")
            };
            if index[at].logical == key {
                return Ok(());
            }
            index[at].logical = key;
            self.write_node(tx, inode, parent.place, &parent.node)?;
            if at > 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The root is full: its records move to a block, and the root points to that.
    fn grow(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        path: &mut Path,
        entries: ExtentEntries,
        block: BlockNo,
    ) -> FsResult<()> {
        let root = &mut path.levels[0];
        let logical = first_key(&entries).expect("an overfull root has records");
        let child = ExtentNode {
            depth: root.node.depth,
            max: ExtentNode::block_max(self.block_size.bytes()),
            generation: 0,
            entries,
        };
        self.create_node(tx, inode, block, &child)?;
        root.node.depth += 1;
        root.node.entries = ExtentEntries::Index(vec![ExtentIndex {
            logical,
            child: block,
        }]);
        self.write_node(tx, inode, None, &root.node)
    }

    /// Allocates the tree blocks that storing `records` records in the leaf will need (extent-E3).
    fn alloc_nodes(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        path: &Path,
        records: usize,
    ) -> FsResult<Vec<BlockNo>> {
        let mut needed = 0;
        let mut records = records;
        for level in path.levels.iter().rev() {
            if records <= usize::from(level.node.max) {
                break;
            }
            needed += 1;
            records = level_len_above(path, needed) + 1;
        }
        if needed == path.levels.len() && path.depth() >= DEPTH_MAX {
            return Err(Errno::FBig.into());
        }
        let goal = path.leaf().first().map(|e| e.physical);
        let goal = goal.unwrap_or_else(|| self.inode_goal(inode));
        let mut fresh = Vec::new();
        for _ in 0..needed {
            match self.alloc_clusters(tx, goal, 1, false) {
                Ok(got) => fresh.push(got.start),
                Err(e) => {
                    for block in fresh {
                        self.free_clusters(tx, block, 1)?;
                    }
                    return Err(e);
                }
            }
        }
        if needed > 0 {
            self.add_clusters(inode, needed as i64)?;
        }
        Ok(fresh)
    }
}

/// Records of the node `up` levels above the leaf; 0 above the root.
fn level_len_above(path: &Path, up: usize) -> usize {
    let n = path.levels.len();
    if up < n {
        path.levels[n - 1 - up].node.entries.len()
    } else {
        0
    }
}

fn split(entries: ExtentEntries, keep: usize) -> (ExtentEntries, ExtentEntries) {
    match entries {
        ExtentEntries::Leaf(mut v) => {
            let right = v.split_off(keep);
            (ExtentEntries::Leaf(v), ExtentEntries::Leaf(right))
        }
        ExtentEntries::Index(mut v) => {
            let right = v.split_off(keep);
            (ExtentEntries::Index(v), ExtentEntries::Index(right))
        }
    }
}

/// Joins the extent at `at` with its neighbours where they continue each other.
fn merge_around(leaf: &mut Vec<Extent>, at: usize) {
    if at + 1 < leaf.len() && joins(&leaf[at], &leaf[at + 1]) {
        leaf[at].len += leaf[at + 1].len;
        leaf.remove(at + 1);
    }
    if at > 0 && joins(&leaf[at - 1], &leaf[at]) {
        leaf[at - 1].len += leaf[at].len;
        leaf.remove(at);
    }
}

fn joins(a: &Extent, b: &Extent) -> bool {
    let most = if a.unwritten {
        EXTENT_UNWRITTEN_LEN_MAX
    } else {
        EXTENT_LEN_MAX
    };
    a.unwritten == b.unwritten
        && a.logical_end() == u64::from(b.logical)
        && a.physical.plus(a.len.into()) == b.physical
        && a.len + b.len <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(logical: u32, len: u32, physical: u64, unwritten: bool) -> Extent {
        Extent {
            logical,
            len,
            physical: BlockNo(physical),
            unwritten,
        }
    }

    #[test]
    fn neighbours_join_only_if_they_continue_each_other() {
        let mut leaf = vec![
            extent(0, 4, 100, false),
            extent(4, 2, 104, false),
            extent(6, 3, 106, false),
        ];
        merge_around(&mut leaf, 1);
        assert_eq!(leaf, [extent(0, 9, 100, false)]);
        for other in [
            extent(9, 1, 109, true),
            extent(10, 1, 109, false),
            extent(9, 1, 110, false),
        ] {
            assert!(!joins(&leaf[0], &other), "{other:?}");
        }
        assert!(!joins(
            &extent(0, 32768, 0, false),
            &extent(32768, 1, 32768, false)
        ));
        assert!(!joins(
            &extent(0, 32767, 0, true),
            &extent(32767, 1, 32767, true)
        ));
    }
}
