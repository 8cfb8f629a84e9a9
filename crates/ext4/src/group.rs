//! Block groups in memory: descriptors, bitmaps of the allocator, and their counts.
//!
//! Invariants:
//! - G1 the descriptor in memory is the one in the running content of its block; both change under
//!   the group's lock;
//! - G2 `map`, once loaded, is the block bitmap with the bits of pending frees (hazards-H18) and of
//!   windows set;
//! - G3 `waiting` counts the bits of pending frees, `held` those of windows;
//! - G5 the sums over a flexible group are those of its descriptors, and change with them, so that
//!   placing a directory looks at no group.

use crate::Ext4;
use crate::fault;
use crate::superblock::{block_size, read_block};
use crate::tx::Tx;
use base::{BlockNo, Tid};
use block::Queue;
use fscore::{FsError, FsResult};
use ondisk::ext4::{GroupDesc, GroupFlags, Incompat, Superblock};
use rt::Mutex;
use std::collections::VecDeque;

/// The state of one block group.
pub(crate) struct GroupState {
    pub desc: GroupDesc,
    /// The allocator's bitmap (G2).
    pub map: Option<Box<[u8]>>,
    /// Clusters whose freeing is not committed (G3).
    pub waiting: u32,
    /// Clusters kept free for files to grow into (G3).
    pub held: u32,
}

/// Clusters freed in a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingFree {
    pub tid: Tid,
    pub group: u32,
    pub start: u32,
    pub len: u32,
    /// True if the block is in use again and still to be discarded: a deliberate mistake for tests
    /// (hazards-R14).
    pub late: bool,
}

/// A run of clusters kept free for one file or for small files (`prealloc`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub group: u32,
    /// Bit of the first one in the group.
    pub start: u32,
    pub len: u32,
}

/// Sums over the descriptors of a flexible group, or of all groups.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Sums {
    pub inodes: u64,
    /// Free clusters.
    pub blocks: u64,
    pub dirs: u64,
}

impl Sums {
    fn add(&mut self, desc: &GroupDesc) {
        self.inodes += u64::from(desc.free_inodes());
        self.blocks += u64::from(desc.free_blocks());
        self.dirs += u64::from(desc.used_dirs());
    }

    fn subtract(&mut self, desc: &GroupDesc) {
        self.inodes -= u64::from(desc.free_inodes());
        self.blocks -= u64::from(desc.free_blocks());
        self.dirs -= u64::from(desc.used_dirs());
    }
}

/// The sums that the allocator of inodes goes by (G5).
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct FlexSums {
    pub all: Sums,
    pub each: Vec<Sums>,
}

impl FlexSums {
    /// Of these descriptors, of which `flex` make a flexible group.
    pub fn of<'d>(flex: u32, descs: impl Iterator<Item = &'d GroupDesc>) -> FlexSums {
        let mut sums = FlexSums::default();
        for (group, desc) in (0..).zip(descs) {
            let at = (group / flex) as usize;
            sums.each.resize(at + 1, Sums::default());
            sums.each[at].add(desc);
            sums.all.add(desc);
        }
        sums
    }
}

/// Groups of a flexible group.
fn flex_groups(sb: &Superblock) -> u32 {
    1 << sb.log_groups_per_flex().min(16)
}

/// All groups.
pub(crate) struct Groups {
    list: Vec<Mutex<GroupState>>,
    /// First blocks of the inode tables. Nothing moves a table, so they are read without a lock:
    /// each change of an inode asks for one.
    tables: Vec<BlockNo>,
    /// G5. Locked for a moment, inside the lock of a group or outside.
    pub sums: Mutex<FlexSums>,
    pub pending: Mutex<VecDeque<PendingFree>>,
    /// Ranges that hold superblocks, descriptors, bitmaps and inode tables: (first, one past the
    /// last), ascending.
    system: Vec<(u64, u64)>,
}

impl Groups {
    /// Reads and checks all descriptors.
    pub fn load(queue: &Queue, sb: &Superblock) -> FsResult<Groups> {
        let size = block_size(sb)?;
        let mut list = Vec::new();
        let mut block = None;
        for group in 0..sb.groups_count() {
            let (at, offset) = sb.desc_place(group);
            if block.as_ref().is_none_or(|(n, _)| *n != at) {
                block = Some((at, read_block(queue, size, at)?));
            }
            let (_, bytes) = block.as_ref().expect("read above");
            let desc = GroupDesc::parse(&bytes[offset..], sb.desc_bytes())
                .map_err(|e| fault::corrupt(e.at_group(group).at_block(at)))?;
            desc.verify_checksum(sb, group)
                .map_err(|e| fault::corrupt(e.at_block(at)))?;
            check_desc(sb, group, &desc)?;
            list.push(desc);
        }
        let system = system_zone(sb, &list);
        let sums = FlexSums::of(flex_groups(sb), list.iter());
        let tables = list.iter().map(GroupDesc::inode_table).collect();
        let state = |desc| {
            Mutex::named(
                "group",
                GroupState {
                    desc,
                    map: None,
                    waiting: 0,
                    held: 0,
                },
            )
        };
        Ok(Groups {
            list: list.into_iter().map(state).collect(),
            tables,
            sums: Mutex::named("sums of groups", sums),
            pending: Mutex::named("pending frees", VecDeque::new()),
            system,
        })
    }

    pub fn count(&self) -> u32 {
        self.list.len() as u32
    }

    pub fn get(&self, group: u32) -> &Mutex<GroupState> {
        &self.list[group as usize]
    }

    /// The first block of a group's inode table.
    pub fn inode_table(&self, group: u32) -> BlockNo {
        self.tables[group as usize]
    }

    /// Free clusters and inodes of all groups.
    pub fn free_counts(&self) -> (u64, u64) {
        self.list.iter().fold((0, 0), |(blocks, inodes), group| {
            let desc = &group.lock().desc;
            (
                blocks + u64::from(desc.free_blocks()),
                inodes + u64::from(desc.free_inodes()),
            )
        })
    }

    /// True if the range touches metadata that has a fixed place.
    pub fn is_system(&self, start: BlockNo, len: u64) -> bool {
        let after = self.system.partition_point(|&(_, end)| end <= start.0);
        self.system
            .get(after)
            .is_some_and(|&(first, _)| first < start.0 + len)
    }

    /// Blocks with a fixed place.
    pub fn system_blocks(&self) -> u64 {
        self.system.iter().map(|(first, end)| end - first).sum()
    }
}

fn check_desc(sb: &Superblock, group: u32, desc: &GroupDesc) -> FsResult<()> {
    let places = [
        ("bg_block_bitmap", desc.block_bitmap(), 1),
        ("bg_inode_bitmap", desc.inode_bitmap(), 1),
        (
            "bg_inode_table",
            desc.inode_table(),
            sb.inode_table_blocks(),
        ),
    ];
    let bad = |what: String| {
        Err(FsError::corrupt(format!(
            "group descriptor {group}: {what}"
        )))
    };
    for (field, block, len) in places {
        let end = block.0.checked_add(len);
        let inside = end.is_some_and(|end| end <= sb.blocks_count());
        if block.0 <= u64::from(sb.first_data_block()) || !inside {
            return bad(format!("{field} = {block} lies outside the file system"));
        }
    }
    if head_blocks(sb, group) > sb.group_blocks(group).into() {
        return bad("the group is too small for the descriptors at its start".into());
    }
    if desc.free_blocks() > sb.group_clusters(group) {
        return bad(format!(
            "{} free blocks in a group of {}",
            desc.free_blocks(),
            sb.group_clusters(group)
        ));
    }
    let inodes = sb.inodes_per_group();
    if desc.free_inodes() > inodes || desc.unused_inodes() > inodes {
        return bad(format!(
            "{} free and {} unused inodes in a group of {inodes}",
            desc.free_inodes(),
            desc.unused_inodes()
        ));
    }
    Ok(())
}

/// Blocks at the start of a group that hold the superblock, descriptors and the blocks reserved for
/// more descriptors.
pub(crate) fn head_blocks(sb: &Superblock, group: u32) -> u64 {
    // With clusters and blocks of 1 KiB the boot block lies in the first group.
    let boot = sb.superblock_place(group).0 - sb.group_first_block(group).0;
    let copy = u64::from(sb.has_superblock(group));
    if !sb.incompat().has(Incompat::META_BG) {
        let descs = u64::from(sb.desc_blocks()) + u64::from(sb.reserved_gdt_blocks());
        return boot + copy * (1 + descs);
    }
    // Descriptors of a meta group: one block in its first, second and last group; the descriptors
    // of groups before the first meta group lie behind the copies of the superblock.
    let (meta, nth) = (group / sb.descs_per_block(), group % sb.descs_per_block());
    if meta < sb.first_meta_group() {
        let descs = u64::from(sb.first_meta_group()) + u64::from(sb.reserved_gdt_blocks());
        return boot + copy * (1 + descs);
    }
    boot + copy + u64::from(nth <= 1 || nth == sb.descs_per_block() - 1)
}

fn system_zone(sb: &Superblock, descs: &[GroupDesc]) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    for (group, desc) in (0..).zip(descs) {
        let first = sb.group_first_block(group).0;
        let table = desc.inode_table().0;
        ranges.push((first, first + head_blocks(sb, group)));
        ranges.push((desc.block_bitmap().0, desc.block_bitmap().0 + 1));
        ranges.push((desc.inode_bitmap().0, desc.inode_bitmap().0 + 1));
        ranges.push((table, table + sb.inode_table_blocks()));
    }
    ranges.retain(|(first, end)| first < end);
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (first, end) in ranges {
        match merged.last_mut() {
            Some(last) if first <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((first, end)),
        }
    }
    merged
}

impl Ext4 {
    /// Flags of a group; without checksums of descriptors no group is ever uninitialised.
    pub(crate) fn group_flags(&self, desc: &GroupDesc) -> GroupFlags {
        use ondisk::ext4::RoCompat;
        let ro = self.geo.ro_compat();
        if ro.has(RoCompat::GDT_CSUM) || ro.has(RoCompat::METADATA_CSUM) {
            desc.flags()
        } else {
            GroupFlags::NONE
        }
    }

    /// Copies the totals of free blocks and inodes into the superblock, which has them only lazily.
    pub(crate) fn count_into(&self, sb: &mut Superblock) {
        let (blocks, inodes) = self.groups.free_counts();
        sb.set_free_blocks(blocks * u64::from(self.geo.cluster_blocks()));
        sb.set_free_inodes(inodes as u32);
        sb.set_write_time(rt::wall().secs.max(0) as u64);
    }

    pub(crate) fn flex_groups(&self) -> u32 {
        flex_groups(&self.geo)
    }

    /// Writes what changed in a descriptor since `before`, with its checksum (G1, G5).
    pub(crate) fn put_desc(
        &self,
        tx: &mut Tx<'_>,
        group: u32,
        state: &mut GroupState,
        before: &GroupDesc,
    ) -> FsResult<()> {
        state.desc.update_checksum(&self.geo, group);
        {
            let FlexSums { all, each } = &mut *self.groups.sums.lock();
            for sums in [all, &mut each[(group / self.flex_groups()) as usize]] {
                sums.add(&state.desc);
                sums.subtract(before);
            }
        }
        let (block, offset) = self.geo.desc_place(group);
        tx.update(block, offset, before.bytes(), state.desc.bytes())
    }

    /// The block bitmap of a group whose bitmap was never written: set are the blocks with a fixed
    /// place and the bits beyond the end of the volume.
    pub(crate) fn fresh_block_bitmap(&self, group: u32, desc: &GroupDesc) -> Box<[u8]> {
        let sb = &self.geo;
        let mut map = vec![0; self.block_size.bytes()].into_boxed_slice();
        let clusters = sb.group_clusters(group);
        let head = head_blocks(sb, group).div_ceil(sb.cluster_blocks().into());
        let head = head.min(clusters.into()) as u32;
        crate::bitmap::fill(&mut map, 0, head, true);
        let own = [
            (desc.block_bitmap(), 1),
            (desc.inode_bitmap(), 1),
            (desc.inode_table(), sb.inode_table_blocks()),
        ];
        for (start, len) in own {
            for n in 0..len {
                if let Some((g, bit)) = sb.cluster_place(start.plus(n))
                    && g == group
                {
                    crate::bitmap::fill(&mut map, bit, 1, true);
                }
            }
        }
        let bits = (self.block_size.bytes() * 8) as u32;
        crate::bitmap::fill(&mut map, clusters, bits - clusters, true);
        map
    }
}
