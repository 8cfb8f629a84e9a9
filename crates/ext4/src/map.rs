//! From blocks of a file to blocks of the device: by extents, or by the block maps of ext2 and
//! ext3.

use crate::Ext4;
use crate::extent::Aim;
use crate::inode::Inode;
use crate::tx::Tx;
use base::BlockNo;
use fscore::FsResult;
use ondisk::ext4::Extent;

/// A stretch of a file with one kind of mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Span {
    /// Not mapped: reads as zeros.
    Hole { len: u32 },
    /// Allocated, never written: reads as zeros.
    Unwritten { start: BlockNo, len: u32 },
    /// Data.
    Data { start: BlockNo, len: u32 },
}

impl Span {
    /// Blocks.
    pub fn len(&self) -> u32 {
        match *self {
            Span::Hole { len } | Span::Unwritten { len, .. } | Span::Data { len, .. } => len,
        }
    }

    /// The front of the span, of at most `max` blocks.
    pub fn front(self, max: u32) -> Span {
        let cut = |len: u32| len.min(max);
        match self {
            Span::Hole { len } => Span::Hole { len: cut(len) },
            Span::Unwritten { start, len } => Span::Unwritten {
                start,
                len: cut(len),
            },
            Span::Data { start, len } => Span::Data {
                start,
                len: cut(len),
            },
        }
    }

    fn of(extent: &Extent, lblk: u32, want: u32) -> Span {
        let skip = lblk - extent.logical;
        let len = want.min(extent.len - skip);
        let start = extent.physical.plus(skip.into());
        if extent.unwritten {
            Span::Unwritten { start, len }
        } else {
            Span::Data { start, len }
        }
    }
}

impl Ext4 {
    /// What the blocks from `lblk` on are mapped to; at most `want` of them. Takes the `tree` lock.
    pub(crate) fn lookup_span(&self, inode: &Inode, lblk: u32, want: u32) -> FsResult<Span> {
        let _tree = inode.tree.read();
        self.lookup_locked(inode, lblk, want)
    }

    /// Does what [`Ext4::lookup_span`] does, for a caller that holds the `tree` lock.
    pub(crate) fn lookup_locked(&self, inode: &Inode, lblk: u32, want: u32) -> FsResult<Span> {
        debug_assert!(want > 0, "somebody wants something");
        {
            let core = inode.core();
            if let Some(e) = core.recent
                && e.logical <= lblk
                && u64::from(lblk) < e.logical_end()
            {
                return Ok(Span::of(&e, lblk, want));
            }
            if !core.has_extents() {
                drop(core);
                return self.lookup_block_map(inode, lblk, want);
            }
        }
        let path = self.find_path(inode, Aim::Block(lblk))?;
        let leaf = path.leaf();
        let at = leaf.partition_point(|e| e.logical <= lblk);
        if let Some(e) = at.checked_sub(1).map(|i| leaf[i])
            && u64::from(lblk) < e.logical_end()
        {
            self.check_range(
                e.physical,
                e.len,
                format_args!("extent of inode {}", inode.ino),
            )?;
            inode.core().recent = Some(e);
            return Ok(Span::of(&e, lblk, want));
        }
        let next = leaf.get(at).map(|e| e.logical).or(path.next_leaf());
        let len = next.map_or(want, |n| want.min(n - lblk));
        Ok(Span::Hole { len })
    }

    /// Where the first blocks of an inode should go: files to the second group of the inode's
    /// flexible group, everything else to the first, as in Linux.
    pub(crate) fn inode_goal(&self, inode: &Inode) -> BlockNo {
        let group = (inode.ino.0 - 1) / self.geo.inodes_per_group();
        let flex = self.flex_groups();
        let group = if flex >= 4 {
            let first = group - group % flex;
            let second = first + u32::from(!inode.is_dir());
            if second < self.groups.count() {
                second
            } else {
                first
            }
        } else {
            group
        };
        self.geo.group_first_block(group)
    }

    /// Where the block `lblk` should go, and whether a block there continues an extent.
    pub(crate) fn goal_for(&self, inode: &Inode, lblk: u32) -> FsResult<(BlockNo, bool)> {
        let path = self.find_path(inode, Aim::Block(lblk))?;
        let leaf = path.leaf();
        let at = leaf.partition_point(|e| e.logical <= lblk);
        if let Some(left) = at.checked_sub(1).map(|i| leaf[i]) {
            let goal = left.physical.plus(u64::from(lblk - left.logical));
            return Ok((goal, left.logical_end() == u64::from(lblk)));
        }
        if let Some(right) = leaf.get(at) {
            let goal = right
                .physical
                .0
                .saturating_sub((right.logical - lblk).into());
            return Ok((BlockNo(goal), false));
        }
        Ok((self.inode_goal(inode), false))
    }

    /// Frees data blocks of an inode with a block map.
    pub(crate) fn free_data(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        start: BlockNo,
        len: u32,
    ) -> FsResult<()> {
        self.forget_data(tx, inode, start, len)?;
        self.free_clusters(tx, start, len)
    }

    /// Before data blocks are freed: revokes those whose images may stand in the log.
    pub(crate) fn forget_data(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        start: BlockNo,
        len: u32,
    ) -> FsResult<()> {
        self.check_range(start, len, format_args!("extent of inode {}", inode.ino))?;
        if self.logs_data(inode) {
            for n in 0..len {
                tx.forget(start.plus(n.into()))?;
            }
            return Ok(());
        }
        self.revoke_logged(tx, start, len)
    }

    /// True if freeing these blocks of an inode may revoke images in the log.
    pub(crate) fn may_revoke(&self, inode: &Inode, start: BlockNo, len: u32) -> bool {
        self.logs_data(inode) || self.journal.data_in_log(start, len).is_some()
    }

    /// True if the blocks of an inode pass through the journal: directories, long symlinks, and
    /// files with data=journal.
    pub(crate) fn logs_data(&self, inode: &Inode) -> bool {
        use crate::options::DataMode;
        use ondisk::ext4::InodeFlags;
        let core = inode.core();
        !core.disk.is_regular()
            || self.options.data == DataMode::Journal
            || core.disk.flags().has(InodeFlags::JOURNAL_DATA)
    }
}
