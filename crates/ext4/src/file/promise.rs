//! Promises of blocks to delayed pages: why write-back of accepted data cannot meet ENOSPC.
//!
//! A delayed page holds one block. Besides, the inode holds as many blocks as its tree could need
//! in the worst fragmentation of its delayed pages.
//!
//! Invariants:
//! - B1 a delayed page over a hole becomes one record of the tree at most. With `d` delayed pages,
//!   a tree of depth 0 comes to `d + 4` records at most, in leaves that are at least half full
//!   after a split. In a deeper tree, whose nodes may all be full as Linux leaves them behind an
//!   append, each page may in addition split one node of each level. A page over an unwritten
//!   extent becomes two records more (the extent is split in three), but needs no block for its
//!   content: the one that it holds pays for the second record;
//! - B2 the inode's promise covers the cost of B1 for all its delayed pages, for the tree as it is.
//!   Write-back of some of them takes its cost from the promise, and leaves as much as the others
//!   can still cost, because whatever they cost now they could have cost before;
//! - B3 so only records of delayed pages may be inserted while there are delayed pages. Every other
//!   operation that inserts records (fallocate in every mode) holds `gate` exclusively, so that no
//!   page becomes delayed, and writes the delayed ones back before ([`Ext4::settle_delayed`]);
//! - B4 a promise for more pages is made under the lock of the core, from the root as it lies
//!   there. While write-back changes the tree (`busy`), the root says nothing certain, and the
//!   promise is made for a tree that is deeper by two levels;
//! - B5 no task is refused because of blocks that are only promised for the worst case, or wait for
//!   a commit: those are made free first. Other tasks may take them before the refused task
//!   retries, so it tries again; each time some other task makes progress, and after some rounds
//!   the volume counts as full. That nothing is left to be made free is no proof of a full volume:
//!   another task may have made it free since the refusal. So a refusal is final only if, at that
//!   moment, no other task held blocks that were promised, claimed or pending;
//! - B6 with clusters (`cluster.rs`) the promise for data is one cluster for each cluster of the
//!   file that has a delayed page over a hole, and a page over an unwritten extent holds nothing,
//!   because its cluster is the file's. The handle that maps the first page of a cluster takes the
//!   promise, and the cluster's other delayed pages need none any more: their cluster is the
//!   file's as well. So nothing may free a cluster beside which a page is delayed: what unmaps
//!   blocks writes the delayed pages of the cluster back before (reshape-Z4,
//!   [`Ext4::settle_tail`]). A promise may stand for a cluster that the file has already; all end
//!   with the last delayed page.

use super::writeback::{Way, leave_unpromised};
use crate::Ext4;
use crate::extent::parse_root;
use crate::inode::{Core, Inode, Promise};
use crate::map::Span;
use crate::space::Right;
use base::{BlockSize, Ino, Mutant};
use fscore::{Errno, FsResult};
use ondisk::ext4::{ExtentNode, INLINE_EXTENTS_MAX};
use std::ops::Range;

/// Rounds of retrying, in each of which other tasks may take the freed blocks first (B5).
const ROUNDS_MAX: u32 = 16;

/// Levels by which a tree may grow while a promise is made during write-back of the same file.
const GROWTH: u16 = 2;

/// Records in a leaf after a split, at least.
const fn half(size: BlockSize) -> u64 {
    ExtentNode::block_max(size.bytes()) as u64 / 2
}

/// Extent blocks that `delayed` pages may need (B1).
fn tree_blocks(size: BlockSize, delayed: u64, depth: u16, records: u64) -> u64 {
    if rt::mutant(Mutant::NoTreePromise)
        || delayed == 0
        || (depth == 0 && records + delayed <= INLINE_EXTENTS_MAX.into())
    {
        return 0;
    }
    let split = delayed * u64::from(depth);
    // Index blocks above `n` leaves: fewer than n/half + one per level.
    let leaves = split + (delayed + u64::from(INLINE_EXTENTS_MAX)).div_ceil(half(size));
    leaves + leaves.div_ceil(half(size)) + u64::from(depth) + 1
}

/// Does what [`tree_blocks`] does where each block is a cluster, and where pages over unwritten
/// extents hold nothing (B6): such a page counts twice, because it may become two records. A node
/// is split once before it is half full, so there are as many splits as the tree has nodes, at
/// most.
fn tree_clusters(size: BlockSize, delayed: u64, depth: u16, records: u64) -> u64 {
    if depth == 0 && records + delayed <= INLINE_EXTENTS_MAX.into() {
        return 0;
    }
    let widest = ExtentNode::block_max(size.bytes()).into();
    let mut nodes = records.max(INLINE_EXTENTS_MAX.into());
    let mut split: u64 = 0;
    for _ in 0..depth {
        split += nodes.min(delayed);
        nodes = nodes.saturating_mul(widest);
    }
    split + tree_blocks(size, delayed, 0, records) + u64::from(depth)
}

impl Ext4 {
    /// Blocks of the tree that `delayed` pages of an inode may need, of which `owed` lie over
    /// unwritten extents (B2, B4).
    fn tree_need(&self, ino: Ino, core: &Core, (delayed, owed): (u64, u64)) -> FsResult<u64> {
        if delayed == 0 {
            return Ok(0);
        }
        if !core.has_extents() {
            // A path to each page: a pointer block of its own, and another one above that; a third
            // level for the file.
            return Ok(2 * delayed + 3);
        }
        let root = parse_root(ino, core.disk.block_area())?;
        let depth = root.depth + if core.promise.busy { GROWTH } else { 0 };
        let (size, records) = (self.block_size, root.entries.len() as u64);
        Ok(match self.has_clusters() {
            true => tree_clusters(size, delayed + owed, depth, records),
            false => tree_blocks(size, delayed, depth, records),
        })
    }

    /// Promises a block to each of `pages` more delayed pages; false if there are not enough free
    /// blocks.
    pub(super) fn promise_pages(
        &self,
        inode: &Inode,
        range: Range<u64>,
        right: Right,
    ) -> FsResult<bool> {
        let mut core = inode.core();
        let pages = range.end - range.start;
        let owed = if right == Right::Owed { pages } else { 0 };
        let held = (core.promise.data + pages, core.promise.owed + owed);
        let meta = self.tree_need(inode.ino, &core, held)?;
        let more = meta.saturating_sub(core.promise.meta);
        let new = self.new_clusters(&core, range, right);
        let blocks = match self.has_clusters() {
            true => new.len() as u64,
            false => pages,
        };
        if !self.promise(blocks + more, right) {
            return Ok(false);
        }
        core.promise.clusters.extend(new);
        core.promise.data += pages;
        core.promise.meta += more;
        core.promise.owed += owed;
        Ok(true)
    }

    /// The clusters of delayed pages for which there is no promise yet (B6).
    fn new_clusters(&self, core: &Core, range: Range<u64>, right: Right) -> Vec<u64> {
        let unit = self.cluster_len(1);
        if unit == 1 || right == Right::Owed {
            return Vec::new();
        }
        let all = range.start / unit..range.end.div_ceil(unit);
        all.filter(|c| !core.promise.clusters.contains(c)).collect()
    }

    /// Writes the delayed pages of a file back, before another operation changes its tree (B3).
    /// `gate` is held exclusively.
    pub(super) fn settle_delayed(&self, inode: &Inode) -> FsResult<()> {
        match self.pages.delayed(inode.ino) {
            0 => Ok(()),
            _ if rt::mutant(Mutant::TreeUnsettled) => Ok(()),
            _ => self
                .write_pages(inode, 0..u64::MAX, Way::BACKGROUND)
                .map(drop),
        }
    }

    /// Promises a block to one more delayed page. If there is none, makes room first: delayed pages
    /// are allocated (which frees what was promised for the worst case) and pending frees are
    /// committed.
    pub(super) fn promise_or_make_room(
        &self,
        inode: &Inode,
        page: u64,
        right: Right,
    ) -> FsResult<bool> {
        let promised = self.after_making_room(|| {
            let promised = self.promise_pages(inode, page..page + 1, right)?;
            Ok(promised.then_some(()))
        })?;
        Ok(promised.is_some())
    }

    /// Runs `operation`, and repeats it after making room each time it finds no space (B5).
    pub(crate) fn with_room<T>(&self, mut operation: impl FnMut() -> FsResult<T>) -> FsResult<T> {
        let mut refused = Errno::NoSpc.into();
        let done = self.after_making_room(|| match operation() {
            Err(e) if e.errno() == Errno::NoSpc => {
                refused = e;
                Ok(None)
            }
            other => other.map(Some),
        })?;
        done.ok_or(refused)
    }

    /// Calls `attempt`, making room after each `None`, until it succeeds; answers `None` if there
    /// is no room (B5).
    pub(super) fn after_making_room<T>(
        &self,
        mut attempt: impl FnMut() -> FsResult<Option<T>>,
    ) -> FsResult<Option<T>> {
        for _ in 0..ROUNDS_MAX {
            let before = self.space.refused_early();
            if let Some(done) = attempt()? {
                return Ok(Some(done));
            }
            if !self.make_room()? && self.space.refused_early() == before {
                return Ok(None);
            }
        }
        attempt()
    }

    /// Turns promises and pending frees into free blocks as far as possible. False if there were
    /// neither, so that trying again is in vain.
    pub(crate) fn make_room(&self) -> FsResult<bool> {
        if self.space.promised() + self.space.pending() == 0 {
            return Ok(false);
        }
        for ino in self.pages.dirty_files(None) {
            if self.pages.delayed(ino) == 0 {
                continue;
            }
            if let Some(inode) = self.inodes.get(ino) {
                leave_unpromised(self.write_pages(&inode, 0..u64::MAX, Way::AWAITED))?;
            }
        }
        self.mature_pending()?;
        Ok(true)
    }

    /// Commits the running transaction if that makes freed blocks usable.
    pub(crate) fn mature_pending(&self) -> FsResult<()> {
        self.reap_pending()?;
        if self.space.pending() > 0 {
            self.journal.commit_all().map_err(crate::fault::journal)?;
            self.reap_pending()?;
        }
        Ok(())
    }

    /// Takes over, for a handle that allocates, the promise of `pages` delayed pages over `span`
    /// and all that is promised for the tree. `range` are all pages that the handle may map. `wb`
    /// is held.
    pub(super) fn take_promise(
        &self,
        inode: &Inode,
        span: Span,
        range: Range<u64>,
        pages: u64,
    ) -> Taken {
        let unit = self.cluster_len(1);
        let mut taken = Taken {
            unit,
            first: range.start,
            ..Taken::default()
        };
        if pages == 0 {
            return taken;
        }
        let mut core = inode.core();
        let promise = &mut core.promise;
        let pages = pages.min(promise.data);
        promise.busy = true;
        promise.data -= pages;
        if matches!(span, Span::Unwritten { .. }) {
            promise.owed = promise.owed.saturating_sub(pages);
        }
        promise.owed = promise.owed.min(promise.data);
        taken.blocks = std::mem::take(&mut promise.meta);
        if unit == 1 {
            taken.blocks += pages;
            return taken;
        }
        let all = range.start / unit..range.end.div_ceil(unit);
        taken.clusters = all.filter(|c| promise.clusters.remove(c)).collect();
        taken.blocks += taken.clusters.len() as u64;
        taken
    }

    /// Gives back what the handle did not use: one block for each of `pages` pages over `span` that
    /// are still delayed, or the promises of `clusters` in which nothing was mapped, and what the
    /// tree may need for all delayed pages. The rest of `pool` is released with the handle.
    pub(super) fn return_promise(
        &self,
        inode: &Inode,
        span: Span,
        pool: &mut u64,
        (pages, clusters): (u64, Vec<u64>),
    ) -> FsResult<()> {
        let mut core = inode.core();
        // There are fewer only on a damaged volume, or where pages without a promise took part
        // (file-F1).
        let pages = match self.has_clusters() {
            true => pages,
            false => pages.min(*pool),
        };
        match self.has_clusters() {
            true => keep_clusters(&mut core.promise, pool, clusters),
            false => *pool -= pages,
        }
        core.promise.busy = false;
        core.promise.data += pages;
        if matches!(span, Span::Unwritten { .. }) {
            core.promise.owed += pages;
        }
        if core.promise.data == 0 {
            *pool += std::mem::take(&mut core.promise.clusters).len() as u64;
        }
        let held = (core.promise.data, core.promise.owed);
        let need = self.tree_need(inode.ino, &core, held)?;
        let meta = need.saturating_sub(core.promise.meta).min(*pool);
        *pool -= meta;
        core.promise.meta += meta;
        Ok(())
    }

    /// `pages` delayed pages were dropped: their promise ends.
    pub(crate) fn drop_promise(&self, inode: &Inode, pages: u64) {
        let mut core = inode.core();
        let pages = pages.min(core.promise.data);
        core.promise.data -= pages;
        core.promise.owed = core.promise.owed.min(core.promise.data);
        let mut released = match self.has_clusters() {
            true => 0,
            false => pages,
        };
        if core.promise.data == 0 {
            released += std::mem::take(&mut core.promise.meta);
            released += std::mem::take(&mut core.promise.clusters).len() as u64;
        }
        drop(core);
        self.space.release(released);
    }
}

/// Puts promises of clusters back.
fn keep_clusters(promise: &mut Promise, pool: &mut u64, clusters: Vec<u64>) {
    for cluster in clusters {
        // Another task may have promised the cluster anew meanwhile.
        if *pool > 0 && promise.clusters.insert(cluster) {
            *pool -= 1;
        }
    }
}

/// What a handle took over of a promise.
#[derive(Default, Debug)]
pub(super) struct Taken {
    /// Blocks, or clusters, for data and tree together.
    pub blocks: u64,
    /// Clusters of data among them.
    clusters: Vec<u64>,
    unit: u64,
    first: u64,
}

impl Taken {
    /// The clusters in which nothing was mapped, after pages up to `end` were.
    pub fn rest(self, end: u64) -> Vec<u64> {
        let (first, unit) = (self.first, self.unit);
        let unused = |c: &u64| end == first || *c > (end - 1) / unit;
        self.clusters.into_iter().filter(unused).collect()
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
        let clusters = |delayed, depth| tree_clusters(BlockSize::KIB4, delayed, depth, 2);
        assert_eq!((clusters(2, 0), clusters(3, 0)), (0, 3));
        assert_eq!(clusters(10, 1), 4 + 3 + 1, "there are four leaves at most");
        assert!(clusters(10, 2) >= 4 + 10, "each may split a leaf");
    }
}
