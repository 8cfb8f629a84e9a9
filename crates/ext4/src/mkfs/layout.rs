//! Decides where everything of a new volume lies, in the order of mke2fs:
//!
//! 1. Superblock, descriptors and reserved descriptors at the start of group 0 and of each backup
//!    group.
//! 2. For each flexible group: its block bitmaps, inode bitmaps and inode tables, packed at its
//!    start.
//! 3. Root directory, `lost+found`, the double-indirect block of the resize inode, the journal.

use super::geometry::{FLEX_GROUPS, Geometry};
use super::pointers::{PointerMap, map_by_pointers};
use super::space::Space;
use super::{Kind, MkfsError};
use ondisk::ext4::{EXTENT_LEN_MAX, ExtentNode};

/// Where the metadata of a group lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupPlaces {
    pub block_bitmap: u64,
    pub inode_bitmap: u64,
    pub inode_table: u64,
}

/// Where everything lies.
#[derive(Debug)]
pub(super) struct Layout {
    pub space: Space,
    pub groups: Vec<GroupPlaces>,
    pub root: u64,
    pub lost_found: Vec<(u64, u64)>,
    /// The double-indirect block of the resize inode; 0 without one.
    pub resize: u64,
    /// Blocks of what has a fixed place, with their clusters.
    pub fixed: u64,
    /// Runs of the journal, none longer than an extent.
    pub journal: Vec<(u64, u64)>,
    /// Extent node of the journal, if its runs do not fit the inode.
    pub journal_node: Option<u64>,
    /// Block map of the journal of an ext3.
    pub journal_map: Option<PointerMap>,
}

impl Layout {
    /// Finds a place for everything.
    ///
    /// # Errors
    /// Something does not fit.
    pub fn new(g: &Geometry) -> Result<Layout, MkfsError> {
        let mut space = Space::new(g.blocks);
        space.take(0, g.first_block());
        for group in 0..g.groups {
            space.take(g.group_start(group), g.own_blocks(group).into());
        }
        let full = || full(g);
        let mut groups = Vec::new();
        match g.kind {
            Kind::Ext4 => {
                for first in (0..g.groups).step_by(FLEX_GROUPS as usize) {
                    groups.extend(flex_group(g, &mut space, first).ok_or_else(full)?);
                }
            }
            Kind::Ext3 => {
                for group in 0..g.groups {
                    groups.push(plain_group(g, &mut space, group).ok_or_else(full)?);
                }
            }
        }
        // Files begin at a whole cluster, which nothing else has a part of.
        let unit = u64::from(g.cluster_blocks);
        space.fill_clusters(unit);
        let fixed = space.taken_count(0, g.blocks);
        let root = space.take_first(0, unit).ok_or_else(full)?;
        let blocks = u64::from(g.lost_found_blocks());
        let lost_found = space
            .take_runs(0, g.whole_clusters(blocks))
            .ok_or_else(full)?;
        let lost_found = cut_to(lost_found, blocks);
        // mke2fs takes this for the end of the first inode table. In a flexible group of one member
        // it can lie in the room that is left for bitmaps.
        let goal = 3 + u64::from(g.reserved_desc_blocks) + u64::from(g.table_blocks);
        let resize = match g.has_clusters() {
            true => 0,
            false => space.take_first(goal, 1).ok_or_else(full)?,
        };
        let mut layout = Layout {
            space,
            groups,
            root,
            lost_found,
            resize,
            fixed,
            journal: Vec::new(),
            journal_node: None,
            journal_map: None,
        };
        match g.kind {
            _ if g.journal_blocks == 0 => {}
            Kind::Ext4 => layout.place_journal(g).ok_or_else(full)?,
            Kind::Ext3 => layout.map_journal(g).ok_or_else(full)?,
        }
        Ok(layout)
    }

    /// Maps the journal by a block map. It lies behind what is taken at the start of the volume,
    /// with its pointer blocks among its blocks.
    fn map_journal(&mut self, g: &Geometry) -> Option<()> {
        let map = map_by_pointers(&mut self.space, g, g.journal_blocks)?;
        self.journal = map.runs();
        self.journal_map = Some(map);
        Some(())
    }

    fn place_journal(&mut self, g: &Geometry) -> Option<()> {
        let goal = g.group_start(self.journal_group(g));
        let blocks = g.journal_blocks.into();
        let len = g.whole_clusters(blocks);
        let (goal, runs) = match self.space.clone().take_runs(goal, len) {
            Some(runs) => (goal, runs),
            None => (0, self.space.clone().take_runs(0, len)?),
        };
        let extents = split(&cut_to(runs.clone(), blocks));
        if extents.len() <= 4 {
            self.journal = extents;
            runs.iter()
                .for_each(|&(start, len)| self.space.take(start, len));
            return Some(());
        }
        // Too many runs for the inode: their node takes the block before the goal, if that is free,
        // and comes first.
        let unit = u64::from(g.cluster_blocks);
        let before = goal.saturating_sub(unit);
        self.journal_node = Some(self.space.take_first(before, unit)?);
        self.journal = split(&cut_to(self.space.take_runs(goal, len)?, blocks));
        (self.journal.len() <= ExtentNode::block_max(g.block_bytes as usize).into()).then_some(())
    }

    /// The group for the journal: the emptiest near the middle of the volume.
    fn journal_group(&self, g: &Geometry) -> u32 {
        let middle = (g.blocks - g.first_block()) / 2 / u64::from(g.blocks_per_group);
        let middle = middle as u32;
        let free = |group: u32| {
            let start = g.group_start(group);
            g.group_blocks(group) - self.space.taken_count(start, start + g.group_blocks(group))
        };
        let first = if middle > FLEX_GROUPS {
            let flex = middle & !(FLEX_GROUPS - 1);
            (flex..g.groups).find(|&group| free(group) > 0).unwrap_or(0)
        } else {
            middle.saturating_sub(1)
        };
        let last = if middle > FLEX_GROUPS {
            first + 1
        } else {
            middle + 1
        }
        .min(g.groups - 1);
        // The first of equal groups is taken.
        (first..=last)
            .rev()
            .max_by_key(|&group| free(group))
            .unwrap_or(0)
    }
}

/// Packs the metadata of the groups of one flexible group at its start.
fn flex_group(g: &Geometry, space: &mut Space, first: u32) -> Option<Vec<GroupPlaces>> {
    let count = FLEX_GROUPS.min(g.groups - first);
    let start = g.group_start(first);
    // mke2fs leaves room for sixteen bitmaps each where a flexible group has one member only.
    let stride = |of: u64| {
        if count == 1 {
            of + u64::from(FLEX_GROUPS)
        } else {
            start
        }
    };
    let block_bitmaps = space.take_first(start, count.into())?;
    let inode_bitmaps = space.take_first(stride(block_bitmaps), count.into())?;
    let mut next = stride(inode_bitmaps);
    (0..count)
        .map(|n| {
            let inode_table = space.take_first(next, g.table_blocks.into())?;
            next = inode_table + u64::from(g.table_blocks);
            Some(GroupPlaces {
                block_bitmap: block_bitmaps + u64::from(n),
                inode_bitmap: inode_bitmaps + u64::from(n),
                inode_table,
            })
        })
        .collect()
}

/// Puts the metadata of a group behind its copy of superblock and descriptors.
fn plain_group(g: &Geometry, space: &mut Space, group: u32) -> Option<GroupPlaces> {
    let start = g.group_start(group);
    Some(GroupPlaces {
        block_bitmap: space.take_first(start, 1)?,
        inode_bitmap: space.take_first(start, 1)?,
        inode_table: space.take_first(start, g.table_blocks.into())?,
    })
}

/// The first `blocks` blocks of runs.
fn cut_to(runs: Vec<(u64, u64)>, blocks: u64) -> Vec<(u64, u64)> {
    let mut left = blocks;
    let cut = runs.into_iter().map(|(start, len)| {
        let len = len.min(left);
        left -= len;
        (start, len)
    });
    cut.filter(|(_, len)| *len > 0).collect()
}

/// Cuts runs to the length of extents.
fn split(runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let most = u64::from(EXTENT_LEN_MAX);
    let cut = |&(start, len): &(u64, u64)| {
        (0..len)
            .step_by(most as usize)
            .map(move |at| (start + at, (len - at).min(most)))
    };
    runs.iter().flat_map(cut).collect()
}

fn full(g: &Geometry) -> MkfsError {
    let size_bytes = g.blocks * u64::from(g.block_bytes);
    let need = "more room, a smaller journal or fewer inodes".into();
    MkfsError::TooSmall { size_bytes, need }
}
