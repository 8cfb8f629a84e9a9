//! The inode allocator.
//!
//! A file goes to the group of its directory, else to a group near it. Directories are spread as
//! Orlov's allocator does: top-level ones over the volume, deeper ones near their parent unless
//! that part is crowded. The unit of spreading is the flexible group.

use crate::Ext4;
use crate::bitmap;
use crate::fault;
use crate::group::{FlexSums, GroupState, Sums};
use crate::tx::Tx;
use base::{Bytes, Ino};
use fscore::{Errno, FsError, FsResult};
use ondisk::ext4::{BitmapChecksum, GroupFlags};

/// What is known of a new inode when its place is chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    /// Group of the parent directory.
    pub parent: u32,
    pub is_dir: bool,
    /// The parent is the root or marked as the top of a hierarchy.
    pub top_level: bool,
}

/// A new inode number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewInode {
    pub ino: Ino,
}

impl Ext4 {
    /// Marks an inode as used. The caller writes its table entry.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed; damage; errors of the journal.
    pub(crate) fn alloc_ino(&self, tx: &mut Tx<'_>, place: Placement) -> FsResult<NewInode> {
        // The group of the parent comes first for a file, and again where it lies.
        let first = (!place.is_dir).then_some(place.parent);
        for group in first.into_iter().chain(self.group_order(place)) {
            let mut state = self.groups.get(group).lock();
            if state.desc.free_inodes() == 0 {
                continue;
            }
            if let Some(index) = self.find_ino(group, &state)? {
                return self.take_ino(tx, group, &mut state, index, place.is_dir);
            }
        }
        Err(Errno::NoSpc.into())
    }

    /// Groups in the order in which they are tried.
    fn group_order(&self, place: Placement) -> impl Iterator<Item = u32> {
        let groups = self.groups.count();
        let flex = self.flex_groups();
        let start = if place.is_dir {
            self.orlov(place) * flex
        } else {
            place.parent - place.parent % flex
        };
        let near = start..(start + flex).min(groups);
        let rest = (near.end..groups).chain(0..near.start);
        near.chain(rest)
    }

    /// The flexible group for a new directory.
    fn orlov(&self, place: Placement) -> u32 {
        let FlexSums { all, each } = &*self.groups.sums.lock();
        let parent = place.parent / self.flex_groups();
        let count = each.len() as u64;
        let (inodes, blocks) = (all.inodes / count, all.blocks / count);
        let roomy = |s: &Sums| s.inodes > 0 && s.inodes >= inodes && s.blocks >= blocks;
        if place.top_level {
            let best = (0..).zip(each).filter(|(_, s)| roomy(s));
            return best.min_by_key(|(_, s)| s.dirs).map_or(parent, |(n, _)| n);
        }
        // Not top level: the parent's flexible group, unless it is clearly worse than the mean.
        let flex = u64::from(self.flex_groups());
        let slack_inodes = u64::from(self.geo.inodes_per_group()) * flex / 4;
        let slack_blocks = u64::from(self.geo.clusters_per_group()) * flex / 4;
        let fits = |s: &Sums| {
            s.inodes > 0
                && s.inodes >= inodes.saturating_sub(slack_inodes)
                && s.blocks >= blocks.saturating_sub(slack_blocks)
        };
        let n = each.len() as u32;
        let mut order = (0..n).map(|i| (parent + i) % n);
        order.find(|&g| fits(&each[g as usize])).unwrap_or(parent)
    }

    /// The first free inode of a group.
    fn find_ino(&self, group: u32, state: &GroupState) -> FsResult<Option<u32>> {
        let end = self.geo.inodes_per_group();
        // Inodes below the first ordinary one are never given out.
        let first = self.geo.first_ino().0.saturating_sub(1);
        let first = if group == 0 { first } else { 0 };
        if self.group_flags(&state.desc).has(GroupFlags::INODE_UNINIT) {
            return Ok((first < end).then_some(first));
        }
        let bytes = self.inode_bitmap(group, state)?;
        let index = bitmap::next(&bytes, first.min(end), end, false);
        Ok((index < end).then_some(index))
    }

    /// The inode bitmap of a group, with the checksum that its descriptor has.
    fn inode_bitmap(&self, group: u32, state: &GroupState) -> FsResult<Bytes> {
        let verify = |bytes: &[u8]| {
            BitmapChecksum::Inode
                .verify(&self.geo, group, &state.desc, bytes)
                .map_err(fault::corrupt)
        };
        // Nothing else can be in this block, which has a fixed place.
        self.read_meta_checked(state.desc.inode_bitmap(), group.into(), &verify)
    }

    /// Sets or clears the bit of an inode, and brings the checksum in the descriptor up to date.
    fn flip_ino(
        &self,
        tx: &mut Tx<'_>,
        state: &mut GroupState,
        (map, index): (Bytes, u32),
        value: bool,
    ) -> FsResult<()> {
        let byte = index as usize / 8;
        let (old, mut new) = ([map[byte]], [map[byte]]);
        // The extra reference would turn the write into a copy.
        drop(map);
        bitmap::fill(&mut new, index % 8, 1, value);
        tx.write(state.desc.inode_bitmap(), byte, &new)?;
        let change = BitmapChecksum::Inode.change(&self.geo, byte, &old, &new);
        change.apply(&mut state.desc);
        Ok(())
    }

    fn take_ino(
        &self,
        tx: &mut Tx<'_>,
        group: u32,
        state: &mut GroupState,
        index: u32,
        is_dir: bool,
    ) -> FsResult<NewInode> {
        let per_group = self.geo.inodes_per_group();
        let before = state.desc.clone();
        let uninit = self.group_flags(&before).has(GroupFlags::INODE_UNINIT);
        let block = before.inode_bitmap();
        // Allocating an inode also initialises the block bitmap of its group, as in Linux.
        self.init_block_bitmap(tx, group, state)?;
        let before = if uninit { state.desc.clone() } else { before };
        let alone = if uninit {
            let mut map = vec![0; self.block_size.bytes()];
            let bits = (self.block_size.bytes() * 8) as u32;
            bitmap::fill(&mut map, per_group, bits - per_group, true);
            let alone = self.is_alone(&state.desc, &map, index);
            bitmap::fill(&mut map, index, 1, true);
            BitmapChecksum::Inode.update(&self.geo, &mut state.desc, &map);
            tx.create(block, map.into())?;
            alone
        } else {
            let map = self.inode_bitmap(group, state)?;
            let alone = self.is_alone(&state.desc, &map, index);
            self.flip_ino(tx, state, (map, index), true)?;
            alone
        };
        let desc = &mut state.desc;
        desc.set_flags(desc.flags().without(GroupFlags::INODE_UNINIT));
        let used = per_group - desc.unused_inodes();
        if self.has_group_checksums() && used < index + 1 {
            desc.set_unused_inodes(per_group - index - 1);
        }
        let free = desc.free_inodes();
        desc.set_free_inodes(free.checked_sub(1).ok_or_else(|| miscounted(group))?);
        desc.set_used_dirs(desc.used_dirs() + u32::from(is_dir));
        self.put_desc(tx, group, state, &before)?;
        let ino = Ino(group * per_group + index + 1);
        if alone {
            // The block gets new content whatever lies there on the device. This happens under the
            // group's lock, because the next inode of this block must not be written before.
            let table = state.desc.inode_table();
            let table = table.plus(self.inode_place(ino)?.table_block);
            tx.create(table, vec![0; self.block_size.bytes()].into())?;
        }
        Ok(NewInode { ino })
    }

    /// True if the bitmap says that an inode is in use.
    pub(crate) fn is_ino_used(&self, ino: Ino) -> FsResult<bool> {
        let place = self.inode_place(ino)?;
        let state = self.groups.get(place.group).lock();
        if self.group_flags(&state.desc).has(GroupFlags::INODE_UNINIT) {
            return Ok(false);
        }
        let map = self.read_meta(state.desc.inode_bitmap())?;
        Ok(bitmap::get(&map, place.index))
    }

    /// Takes the inode number `ino`, if it is not in use already.
    pub(crate) fn claim_ino(&self, tx: &mut Tx<'_>, ino: Ino, is_dir: bool) -> FsResult<()> {
        if self.is_ino_used(ino)? {
            return Ok(());
        }
        let place = self.inode_place(ino)?;
        let mut state = self.groups.get(place.group).lock();
        self.take_ino(tx, place.group, &mut state, place.index, is_dir)
            .map(drop)
    }

    /// True if, by this bitmap, no inode in the table block that holds `index` is in use.
    fn is_alone(&self, desc: &ondisk::ext4::GroupDesc, map: &[u8], index: u32) -> bool {
        let per_block = (self.block_size.bytes() / self.geo.inode_bytes()) as u32;
        let first = index - index % per_block;
        let end = (first + per_block).min(self.geo.inodes_per_group());
        let used = self.geo.inodes_per_group() - desc.unused_inodes();
        let never_used = self.has_group_checksums() && first >= used;
        never_used || bitmap::next(map, first, end, true) == end
    }

    /// Marks an inode as free.
    ///
    /// # Errors
    /// `Corrupt` if the inode is free already or the bitmap is damaged; errors of the journal.
    pub(crate) fn free_ino(&self, tx: &mut Tx<'_>, ino: Ino, was_dir: bool) -> FsResult<()> {
        let place = self.inode_place(ino)?;
        let (group, index) = (place.group, place.index);
        let mut state = self.groups.get(group).lock();
        let block = state.desc.inode_bitmap();
        let uninit = self.group_flags(&state.desc).has(GroupFlags::INODE_UNINIT);
        let map = match uninit {
            true => None,
            false => Some(self.inode_bitmap(group, &state)?),
        };
        let Some(map) = map.filter(|map| bitmap::get(map, index)) else {
            return Err(FsError::corrupt(format!(
                "inode bitmap of group {group} at block {block}: inode {ino} is to be freed and is free already"
            )));
        };
        let before = state.desc.clone();
        self.flip_ino(tx, &mut state, (map, index), false)?;
        let desc = &mut state.desc;
        if desc.free_inodes() >= self.geo.inodes_per_group() {
            return Err(miscounted(group));
        }
        desc.set_free_inodes(desc.free_inodes() + 1);
        if was_dir {
            let dirs = desc.used_dirs().checked_sub(1);
            desc.set_used_dirs(dirs.ok_or_else(|| miscounted(group))?);
        }
        self.put_desc(tx, group, &mut state, &before)
    }
}

fn miscounted(group: u32) -> FsError {
    FsError::corrupt(format!(
        "group descriptor {group}: inodes or directories miscounted"
    ))
}
