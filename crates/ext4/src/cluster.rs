//! Clusters of files (feature `bigalloc`): which blocks of a cluster a file has, and when the
//! cluster is taken and given back.
//!
//! A bit of a block bitmap stands for a cluster, but the extents of a file count blocks, so a file
//! may map some blocks of a cluster and leave holes beside them. The bitmap knows nothing of that:
//! whether a cluster is in use has to be read from the tree of the one file that has it.
//!
//! Invariants:
//! - C1 (place): a block lies at the same place of its cluster as in the file: its number in the
//!   file and its number on the device agree modulo the blocks of a cluster. An extent that does
//!   not is damage (`cluster-place` of the checker);
//! - C2 (sharing): the blocks of a cluster of the file lie in one cluster of the device. So a hole
//!   beside a mapped block of the same cluster gets its block there, and nothing is allocated; only
//!   where no block of the cluster is mapped is a cluster of the device taken;
//! - C3 (last): a cluster is freed in the handle that unmaps the last of its blocks, and not
//!   before. What else is mapped in it is read from the tree, under the `tree` lock, outside of the
//!   range that goes;
//! - C4 (same place): a block that was unmapped, and whose cluster stays, may be mapped again
//!   before the transaction that unmapped it commits. hazards-H18 forbids that for free blocks,
//!   because a cut brings the old mapping back over the content of another file or of another
//!   place. Here it is the same place of the same file by C1 and C2: a cut shows at that place what
//!   was there or what was written since, as after a write over old content. Ranges that move
//!   within a file (collapse, insert) are whole clusters, so that a block keeps its cluster's
//!   company. A cut that brings the old places back after such a move shows content that was
//!   written since then at its old place in the file, with clusters as without;
//! - C5 (newest content): the log may have images of such a block. They are revoked when the
//!   cluster is freed, with those of all of its blocks, and not before. Until then the block stays
//!   among those that the log holds (logged_data-L1), so what is written there is logged again,
//!   and read through the log (small-S2). To replay an older image is no harm: the file has no
//!   block there, or a newer image follows. A revoke at once would let a direct write meet a home
//!   write of the old image that is on its way. Blocks of directories and of symbolic links are
//!   revoked one by one, because none of those is mapped again;
//! - C6 (fast commits): the ranges of a fast commit are blocks, and their replay takes and frees
//!   blocks, whatever else lies in the cluster. So none is written, and none is replayed;
//! - C7 (moves): the blocks of a cluster move within a file in one transaction. Extents move one by
//!   one, and a transaction may end between any two of them, so where several extents lie in one
//!   cluster all are moved in one handle, which has the credits and the tree nodes of all from the
//!   start. Where they are too many for one handle the file cannot be shifted (EOPNOTSUPP).

use crate::Ext4;
use crate::extent::{CUT_CREDITS, DEPTH_MAX, SHIFT_CREDITS};
use crate::inode::Inode;
use crate::tx::Tx;
use base::{BlockNo, Mutant};
use fscore::{Errno, FsError, FsResult};
use ondisk::ext4::{Extent, Incompat, RoCompat, Superblock};
use std::ops::Range;

/// Blocks of a cluster on a volume that is written.
const CLUSTER_BLOCKS_MAX: u64 = 1024;

/// Credits of a handle that are not for the moves: what the range itself costs that is cut out.
const MOVE_REST: u32 = CUT_CREDITS + 1;

/// What it takes to move extents of a file in one handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtOnce {
    /// Steps that may split a leaf. Extents are put behind one another, so a split leaf takes half
    /// of what it can hold, 42 extents at least, before another one is due; the first extent may be
    /// cut in two.
    pub splits: u32,
    pub credits: u32,
}

impl AtOnce {
    /// For so many extents in so many leaves, each of which may be emptied and freed.
    fn of(extents: u32, leaves: u32) -> AtOnce {
        let splits = extents.div_ceil(32) + 2;
        AtOnce {
            splits,
            credits: splits * SHIFT_CREDITS + leaves * (4 + DEPTH_MAX as u32),
        }
    }
}

/// Blocks for the front of a hole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub start: BlockNo,
    /// Blocks.
    pub len: u32,
    /// Clusters that were allocated for them.
    pub clusters: u32,
}

/// Refuses volumes with clusters that cannot be written.
///
/// # Errors
/// `Incompatible`, with the reason.
pub(crate) fn check(sb: &Superblock) -> FsResult<()> {
    if !sb.ro_compat().has(RoCompat::BIGALLOC) {
        return Ok(());
    }
    let unit = u64::from(sb.cluster_blocks());
    let why = match sb.incompat().has(Incompat::EXTENTS) {
        false => "without feature extents",
        true if !sb.blocks_count().is_multiple_of(unit) => "on a volume that ends within a cluster",
        true if sb.first_data_block() != 0 => "on a volume whose clusters do not begin at block 0",
        // A cluster is revoked in one handle (C5).
        true if unit > CLUSTER_BLOCKS_MAX => "in clusters of more than 1024 blocks",
        true => return Ok(()),
    };
    let what = format!("feature bigalloc {why} cannot be written; mount read-only (option `ro`)");
    Err(FsError::incompatible(what))
}

impl Ext4 {
    /// Blocks of so many clusters.
    pub(crate) fn cluster_len(&self, clusters: u32) -> u64 {
        u64::from(clusters) * u64::from(self.geo.cluster_blocks())
    }

    /// True if a cluster has more than one block.
    pub(crate) fn has_clusters(&self) -> bool {
        self.geo.cluster_blocks() > 1
    }

    /// The first block of the cluster that a block of the device lies in.
    pub(crate) fn cluster_of(&self, block: BlockNo) -> BlockNo {
        BlockNo(block.0 - block.0 % u64::from(self.geo.cluster_blocks()))
    }

    /// Finds blocks for the front of a hole of `len` blocks at `lblk`: beside what is mapped in the
    /// same cluster (C2), or newly allocated. The `tree` lock is held.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed; damage; errors of the journal.
    pub(crate) fn place_hole(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        lblk: u32,
        len: u32,
    ) -> FsResult<Placed> {
        let unit = self.geo.cluster_blocks();
        if let Some((start, room)) = self.place_beside(inode, lblk)? {
            let len = len.min(room);
            return Ok(Placed {
                start,
                len,
                clusters: 0,
            });
        }
        let skip = lblk % unit;
        let end = self.end_of_new(inode, lblk, len)?;
        let want = (end.div_ceil(unit.into()) - u64::from(lblk / unit)) as u32;
        let (goal, continues) = self.goal_for(inode, lblk - skip)?;
        let goal = (self.cluster_of(goal), continues);
        let got = self.alloc_data(tx, inode, lblk - skip, want, goal)?;
        let room = self.cluster_len(got.len) - u64::from(skip);
        Ok(Placed {
            start: got.start.plus(skip.into()),
            len: room.min(end - u64::from(lblk)) as u32,
            clusters: got.len,
        })
    }

    /// Where the new part of a hole ends: before its last cluster, if blocks of that are mapped
    /// behind the hole. No block of the first cluster is mapped.
    fn end_of_new(&self, inode: &Inode, lblk: u32, len: u32) -> FsResult<u64> {
        let unit = u64::from(self.geo.cluster_blocks());
        let end = u64::from(lblk) + u64::from(len);
        let last = end - end % unit;
        if last == end || last <= lblk.into() {
            return Ok(end);
        }
        let mapped = self.mapped_in(inode, end..last + unit)?;
        Ok(if mapped.is_some() { last } else { end })
    }

    /// The block for `lblk`, which is a hole, if another block of its cluster is mapped (C2), and
    /// how many blocks there are from it to the end of the cluster. The `tree` lock is held.
    pub(crate) fn place_beside(
        &self,
        inode: &Inode,
        lblk: u32,
    ) -> FsResult<Option<(BlockNo, u32)>> {
        let unit = self.geo.cluster_blocks();
        let skip = lblk % unit;
        let first = u64::from(lblk - skip);
        if unit == 1 {
            return Ok(None);
        }
        let Some(e) = self.mapped_in(inode, first..first + u64::from(unit))? else {
            return Ok(None);
        };
        let inside = first.max(e.logical.into());
        let start = self.cluster_of(e.physical.plus(inside - u64::from(e.logical)));
        self.check_range(start, unit, format_args!("extent of inode {}", inode.ino))?;
        Ok(Some((start.plus(skip.into()), unit - skip)))
    }

    /// What it takes to move all that lies at or behind block `from`, which begins a cluster, in
    /// one handle, if that has to be (C7); `None`: each extent may be moved for itself. `wb` is
    /// held.
    ///
    /// # Errors
    /// EOPNOTSUPP: no handle may be so large.
    pub(crate) fn moved_at_once(&self, inode: &Inode, from: u64) -> FsResult<Option<AtOnce>> {
        let unit = u64::from(self.geo.cluster_blocks());
        if unit == 1 {
            return Ok(None);
        }
        let most = match self.has_log() {
            true => self.journal.credits_max() - MOVE_REST,
            false => u32::MAX,
        };
        let _tree = inode.tree.read();
        let (mut next, mut shares) = (from, false);
        let (mut extents, mut leaves) = (0, 1);
        while let Some((path, at)) = self.first_extent(inode, next)? {
            let extent = path.leaf()[at];
            let first = from.max(extent.logical.into());
            shares |= extents > 0 && (next - 1) / unit == first / unit;
            extents += 1;
            leaves += u32::from(at == 0);
            if shares && AtOnce::of(extents, leaves).credits > most {
                return Err(Errno::NotSup.into());
            }
            next = extent.logical_end();
        }
        Ok(shares.then(|| AtOnce::of(extents, leaves)))
    }

    /// Refuses a block that is mapped by a pointer.
    pub(crate) fn check_no_pointers(&self, inode: &Inode) -> FsResult<()> {
        match self.has_clusters() {
            false => Ok(()),
            true => Err(FsError::corrupt(format!(
                "inode {}: mapped by blocks on a volume with clusters",
                inode.ino
            ))),
        }
    }

    /// The first extent that maps any of the blocks `range` of a file; C1 holds for it.
    fn mapped_in(&self, inode: &Inode, range: Range<u64>) -> FsResult<Option<Extent>> {
        let Some((path, at)) = self.first_extent(inode, range.start)? else {
            return Ok(None);
        };
        let extent = path.leaf()[at];
        if u64::from(extent.logical) >= range.end {
            return Ok(None);
        }
        self.check_place(inode, extent.logical.into(), extent.physical)?;
        Ok(Some(extent))
    }

    /// Refuses a block that lies at another place of its cluster than in the file (C1).
    fn check_place(&self, inode: &Inode, logical: u64, physical: BlockNo) -> FsResult<()> {
        let unit = u64::from(self.geo.cluster_blocks());
        match logical % unit == physical.0 % unit {
            true => Ok(()),
            false => Err(FsError::corrupt(format!(
                "extent of inode {}: block {logical} of the file is block {physical}, at another place of its cluster",
                inode.ino
            ))),
        }
    }

    /// Frees data that is mapped by one extent, `len` blocks from block `logical` of the file on:
    /// the clusters in which nothing else is mapped (C3). Answers how many clusters that were. The
    /// `tree` lock is held.
    ///
    /// # Errors
    /// Damage; errors of the journal.
    pub(crate) fn free_mapped(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        logical: u64,
        (start, len): (BlockNo, u32),
    ) -> FsResult<u32> {
        let unit = u64::from(self.geo.cluster_blocks());
        if unit == 1 {
            self.free_data(tx, inode, start, len)?;
            return Ok(len);
        }
        let is_regular = inode.core().disk.is_regular();
        if !is_regular {
            self.forget_data(tx, inode, start, len)?;
        }
        self.check_place(inode, logical, start)?;
        let end = logical + u64::from(len);
        let head = logical - logical % unit..logical;
        let tail = end..end.next_multiple_of(unit);
        let alone = rt::mutant(Mutant::ClusterFreedEarly);
        let stays = |beside: Range<u64>| -> FsResult<bool> {
            Ok(!alone && !beside.is_empty() && self.mapped_in(inode, beside)?.is_some())
        };
        let from = match stays(head.clone())? {
            true => logical.next_multiple_of(unit),
            false => head.start,
        };
        let to = match stays(tail.clone())? {
            true => end - end % unit,
            false => tail.end,
        };
        let clusters = (to.saturating_sub(from) / unit) as u32;
        if clusters > 0 {
            // `from` may lie before the range, in its first cluster, or behind its front.
            let first = BlockNo((start.0 + from) - logical);
            if is_regular {
                // C5.
                self.revoke_logged(tx, first, self.cluster_len(clusters) as u32)?;
            }
            self.free_clusters(tx, first, clusters)?;
        }
        Ok(clusters)
    }
}
