//! The parts of a volume that do not change: superblock, group descriptors, and the zone of fixed
//! places.

use super::finding::{Finding, Findings, Kind};
use super::groups;
use fscore::check::Reader;
use ondisk::Folding;
use ondisk::ext4::{FsSeed, GroupDesc, GroupFlags, Incompat, RoCompat, Superblock};

/// A volume whose superblock and descriptors can be used.
pub(super) struct Volume<'a> {
    pub reader: &'a Reader<'a>,
    pub sb: Superblock,
    /// The checksum seed; `None` without `metadata_csum`.
    pub seed: Option<FsSeed>,
    pub descs: Vec<GroupDesc>,
    pub zone: Zone,
    /// How names fold; `None` without feature `casefold`.
    pub folding: Option<Folding>,
}

impl<'a> Volume<'a> {
    /// Reads the descriptors; `None` if their places are of no use.
    pub fn load(
        reader: &'a Reader<'a>,
        sb: Superblock,
        found: &mut Findings,
    ) -> Option<Volume<'a>> {
        let descs = groups::load(reader, &sb, found)?;
        let zone = Zone::of(&sb, &descs, found);
        let seed = sb.has_metadata_checksums().then(|| sb.seed());
        let folds = sb.incompat().has(Incompat::CASEFOLD);
        Some(Volume {
            folding: Folding::new(sb.name_encoding()).filter(|_| folds),
            reader,
            sb,
            seed,
            descs,
            zone,
        })
    }

    /// Flags of a group; without checksums of descriptors no group is ever uninitialised.
    pub fn flags(&self, group: u32) -> GroupFlags {
        let ro = self.sb.ro_compat();
        if ro.has(RoCompat::GDT_CSUM) || ro.has(RoCompat::METADATA_CSUM) {
            self.descs[group as usize].flags()
        } else {
            GroupFlags::NONE
        }
    }

    /// Inodes at the end of the table of a group that were never used.
    pub fn unused_inodes(&self, group: u32) -> u32 {
        let ro = self.sb.ro_compat();
        if ro.has(RoCompat::GDT_CSUM) || ro.has(RoCompat::METADATA_CSUM) {
            self.descs[group as usize].unused_inodes()
        } else {
            0
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.sb.block_bytes() as usize
    }

    /// Bits of a bitmap.
    pub fn bits(&self) -> u32 {
        self.sb.block_bytes() * 8
    }

    /// Blocks in a cluster, which is what a bit of a block bitmap stands for; mostly 1.
    pub fn cluster(&self) -> u64 {
        self.sb.cluster_blocks().into()
    }

    /// Bytes of so many clusters.
    pub fn cluster_bytes(&self, clusters: u64) -> u64 {
        clusters * self.cluster() * u64::from(self.sb.block_bytes())
    }

    /// Sectors of so many clusters.
    pub fn sectors(&self, clusters: u64) -> u64 {
        self.cluster_bytes(clusters) / base::SECTOR_BYTES as u64
    }

    /// Pointers in a block.
    pub fn pointers(&self) -> u64 {
        u64::from(self.sb.block_bytes() / 4)
    }

    /// True if the range lies inside the volume.
    pub fn inside(&self, start: u64, len: u64) -> bool {
        start > u64::from(self.sb.first_data_block())
            && start
                .checked_add(len)
                .is_some_and(|end| end <= self.sb.blocks_count())
    }
}

/// Blocks with a fixed place: superblocks, descriptors and what is reserved for more of them,
/// bitmaps, inode tables.
pub(super) struct Zone {
    /// (first, one past the last), ascending, apart from each other.
    ranges: Vec<(u64, u64)>,
}

impl Zone {
    fn of(sb: &Superblock, descs: &[GroupDesc], found: &mut Findings) -> Zone {
        let mut all = Vec::with_capacity(4 * descs.len());
        for (group, desc) in (0..).zip(descs) {
            let first = sb.group_first_block(group).0;
            let table = desc.inode_table().0;
            let head = groups::head_blocks(sb, group);
            all.push((first, first + head, group, "head"));
            let (blocks, inodes) = (desc.block_bitmap().0, desc.inode_bitmap().0);
            all.push((blocks, blocks + 1, group, "block bitmap"));
            all.push((inodes, inodes + 1, group, "inode bitmap"));
            all.push((table, table + sb.inode_table_blocks(), group, "inode table"));
        }
        all.retain(|(first, end, ..)| first < end);
        all.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let mut widest = (0, "");
        for (first, end, group, what) in all {
            match ranges.last_mut() {
                Some(last) if first < last.1 => {
                    let (other, theirs) = widest;
                    let what = format!("{what} lies on the {theirs} of group {other}");
                    found.add(
                        Finding::new(Kind::GroupPlace, what)
                            .group(group)
                            .block(first),
                    );
                    last.1 = last.1.max(end);
                }
                Some(last) if first == last.1 => last.1 = end,
                _ => ranges.push((first, end)),
            }
            widest = (group, what);
        }
        Zone { ranges }
    }

    /// The ranges, ascending.
    pub fn ranges(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let at = self.ranges.partition_point(|&(_, end)| end <= from);
        self.ranges[at..]
            .iter()
            .take_while(move |&&(first, _)| first < to)
            .map(move |&(first, end)| (first.max(from), end.min(to)))
    }

    /// True if the range touches the zone.
    pub fn touches(&self, start: u64, len: u64) -> bool {
        self.ranges(start, start + len).next().is_some()
    }

    /// Its blocks.
    pub fn blocks(&self) -> u64 {
        self.ranges.iter().map(|(first, end)| end - first).sum()
    }
}
