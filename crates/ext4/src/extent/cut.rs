//! Takes mappings out of the middle of a file, and moves them to other places in it. Each step
//! leaves a whole tree.

use super::insert::INSERT_NODES_MAX;
use super::path::{Aim, Path};
use super::remove::{LOGGED_MAX, STEP_CREDITS};
use crate::Ext4;
use crate::inode::Inode;
use crate::tx::Tx;
use fscore::{Errno, FsResult};
use ondisk::ext4::Extent;
use std::ops::Range;

/// Blocks that [`Ext4::cut_some`] may change: those of removing a piece, and those of a split of
/// the tree when the piece lies inside an extent.
pub(crate) const CUT_CREDITS: u32 = STEP_CREDITS + 4 * INSERT_NODES_MAX;
/// Blocks that [`Ext4::shift_up`] or [`Ext4::shift_down`] may change: a split where the piece was,
/// another one where it goes, the inode.
pub(crate) const SHIFT_CREDITS: u32 = 2 * (4 + 4 * INSERT_NODES_MAX);
/// Tree blocks that a step may allocate.
const STEP_NODES: u64 = 2 * INSERT_NODES_MAX as u64;

impl Ext4 {
    /// Frees the first mapped piece within the blocks `range`, or the front of it. Answers the
    /// block behind it; `None` if nothing is mapped there. The inode is put by the caller before
    /// the handle can be restarted.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed; damage; errors of the journal.
    pub(crate) fn cut_some(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        range: Range<u64>,
    ) -> FsResult<Option<u64>> {
        let _tree = inode.tree.write();
        inode.core().recent = None;
        let Some((mut path, at)) = self.first_extent(inode, range.start)? else {
            return Ok(None);
        };
        let old = path.leaf()[at];
        let start = range.start.max(old.logical.into());
        let end = range.end.min(old.logical_end());
        if start >= end {
            return Ok(None);
        }
        let skip = (start - u64::from(old.logical)) as u32;
        let mut len = (end - start) as u32;
        let physical = old.physical.plus(skip.into());
        if self.may_revoke(inode, physical, len) {
            len = len.min(LOGGED_MAX);
        }
        if let Some((group, _)) = self.geo.block_place(physical) {
            // A step stays within two groups, because with small groups one extent could span
            // dozens of them.
            let behind = self.geo.group_first_block(group.saturating_add(2));
            len = len.min((behind.0 - physical.0).min(u32::MAX.into()) as u32);
        }
        self.take_out(tx, inode, &mut path, at, skip..skip + len)?;
        let clusters = self.free_mapped(tx, inode, start, (physical, len))?;
        self.add_clusters(inode, -i64::from(clusters))?;
        Ok(Some(start + u64::from(len)))
    }

    /// Moves the first mapping at or behind block `from` by `shift` blocks towards the start of the
    /// file. Answers the block behind it; `None` if there is none. The destination must be a hole.
    /// The inode is put by the caller.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed; damage; errors of the journal.
    pub(crate) fn shift_down(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        from: u64,
        shift: u32,
    ) -> FsResult<Option<u64>> {
        let _tree = inode.tree.write();
        self.promise_step(tx)?;
        let Some((mut path, at)) = self.first_extent(inode, from)? else {
            return Ok(None);
        };
        let old = path.leaf()[at];
        let skip = from.saturating_sub(old.logical.into()) as u32;
        self.take_out(tx, inode, &mut path, at, skip..old.len)?;
        let moved = piece(&old, skip..old.len);
        let logical = moved.logical - shift;
        self.insert_extent(tx, inode, Extent { logical, ..moved })?;
        Ok(Some(old.logical_end()))
    }

    /// Moves the last mapping before block `bound`, as far as it lies at or behind `from`, by
    /// `shift` blocks towards the end of the file. Answers where the mapping began; `None` if there
    /// is none. Otherwise as [`shift_down`](Self::shift_down).
    ///
    /// # Errors
    /// As [`shift_down`](Self::shift_down).
    pub(crate) fn shift_up(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        from: u64,
        bound: u64,
        shift: u32,
    ) -> FsResult<Option<u64>> {
        let _tree = inode.tree.write();
        self.promise_step(tx)?;
        let Some(last) = bound.checked_sub(1).filter(|&last| last >= from) else {
            return Ok(None);
        };
        let mut path = self.find_path(inode, Aim::Block(last.min(u32::MAX.into()) as u32))?;
        let at = path
            .leaf()
            .partition_point(|e| u64::from(e.logical) < bound);
        let Some(at) = at.checked_sub(1) else {
            return Ok(None);
        };
        let old = path.leaf()[at];
        if old.logical_end() <= from {
            return Ok(None);
        }
        let skip = from.saturating_sub(old.logical.into()) as u32;
        self.take_out(tx, inode, &mut path, at, skip..old.len)?;
        let moved = piece(&old, skip..old.len);
        let logical = moved.logical.checked_add(shift).ok_or(Errno::FBig)?;
        self.insert_extent(tx, inode, Extent { logical, ..moved })?;
        Ok(Some(moved.logical.into()))
    }

    /// The last block that is mapped; `None` without any. Takes the `tree` lock.
    pub(crate) fn last_mapped(&self, inode: &Inode) -> FsResult<Option<u64>> {
        let _tree = inode.tree.read();
        let path = self.find_path(inode, Aim::Last)?;
        Ok(path.leaf().last().map(|e| e.logical_end() - 1))
    }

    /// The first extent that ends behind block `from`: its path and its place in the leaf.
    pub(crate) fn first_extent(&self, inode: &Inode, from: u64) -> FsResult<Option<(Path, usize)>> {
        let Ok(lblk) = u32::try_from(from) else {
            return Ok(None);
        };
        let path = self.find_path(inode, Aim::Block(lblk))?;
        let at = path.leaf().partition_point(|e| e.logical_end() <= from);
        if at < path.leaf().len() {
            return Ok(Some((path, at)));
        }
        let Some(next) = path.next_leaf() else {
            return Ok(None);
        };
        let path = self.find_path(inode, Aim::Block(next))?;
        Ok((!path.leaf().is_empty()).then_some((path, 0)))
    }

    /// Takes the blocks `range` (counted from its start) out of the extent at `at` of the leaf.
    /// They stay allocated.
    fn take_out(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        path: &mut Path,
        at: usize,
        range: Range<u32>,
    ) -> FsResult<()> {
        inode.core().recent = None;
        let mut leaf = path.leaf().to_vec();
        let old = leaf[at];
        let rest = [piece(&old, 0..range.start), piece(&old, range.end..old.len)];
        leaf.splice(at..=at, rest.into_iter().filter(|e| e.len > 0));
        if leaf.is_empty() && path.levels.len() > 1 {
            return self.drop_leaf(tx, inode, path);
        }
        self.store_leaf(tx, inode, path, leaf, false)
    }

    /// Promises the tree blocks that the next step may need, because a mapping that was taken out
    /// must be put back at its new place.
    pub(crate) fn promise_step(&self, tx: &mut Tx<'_>) -> FsResult<()> {
        self.promise_steps(tx, 1)
    }

    /// The same for so many steps.
    pub(crate) fn promise_steps(&self, tx: &mut Tx<'_>, steps: u32) -> FsResult<()> {
        let missing = (STEP_NODES * u64::from(steps)).saturating_sub(tx.pool);
        if missing == 0 {
            return Ok(());
        }
        match self.promise(missing, tx.right) {
            true => {
                tx.pool += missing;
                Ok(())
            }
            false => Err(Errno::NoSpc.into()),
        }
    }
}

/// The blocks `range` of an extent, counted from its start.
fn piece(extent: &Extent, range: Range<u32>) -> Extent {
    Extent {
        logical: extent.logical + range.start,
        len: range.end - range.start,
        physical: extent.physical.plus(range.start.into()),
        unwritten: extent.unwritten,
    }
}
