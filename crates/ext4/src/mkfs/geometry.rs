//! Computes the sizes and counts of a new volume, by the rules of mke2fs.

use super::options::CLUSTER_BYTES_MAX;
use super::{FastCommitArea, JournalSize, Kind, MkfsError, MkfsOptions};
use base::{BLOCK_BYTES, BlockSize};
use ondisk::ext4::{INODE_BYTES_OLD, INODE_EXTRA_BYTES_DEFAULT};

/// Groups whose bitmaps and tables lie together (feature `flex_bg`), and its logarithm.
pub(super) const FLEX_GROUPS: u32 = 1 << LOG_FLEX_GROUPS;
pub(super) const LOG_FLEX_GROUPS: u8 = 4;
/// First inode that is not reserved; `lost+found` gets it.
pub(super) const FIRST_INO: u32 = 11;
/// Size of a new `lost+found`, as far as direct blocks reach, and its least number of blocks.
const LOST_FOUND_BYTES: u32 = 16 << 10;
const LOST_FOUND_BLOCKS_MIN: u32 = 2;
/// The largest inode: the superblock has 16 bits for its size.
const INODE_BYTES_MAX: u32 = 32 << 10;

/// Blocks and inodes of a group are counted in so many numbers, whatever its bitmaps could hold.
const GROUP_BITS: u64 = 1 << 16;
/// Smallest group that can be asked for.
const GROUP_BLOCKS_MIN: u32 = 256;
/// Blocks a last group must offer beyond its own metadata, or it is left out.
const LAST_GROUP_SPARE: u64 = 50;
/// Smallest and largest journal.
const JOURNAL_MIN: u32 = 1024;
const JOURNAL_MAX: u32 = 10_240_000;
/// Below this number of blocks mke2fs makes no journal.
const BLOCKS_MIN_WITH_JOURNAL: u64 = 2048;
const MIB: u64 = 1 << 20;

/// The numbers of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Features.
    pub kind: Kind,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of an inode.
    pub inode_bytes: u32,
    /// Blocks of a cluster (feature `bigalloc`); 1 without.
    pub cluster_blocks: u32,
    /// Blocks.
    pub blocks: u64,
    /// Blocks of every group but the last.
    pub blocks_per_group: u32,
    /// Block groups.
    pub groups: u32,
    /// Inodes in a group.
    pub inodes_per_group: u32,
    /// Blocks of the inode table of a group.
    pub table_blocks: u32,
    /// Blocks of the group descriptors.
    pub desc_blocks: u32,
    /// Blocks kept behind them for more descriptors.
    pub reserved_desc_blocks: u32,
    /// Blocks for the super-user.
    pub reserved_blocks: u64,
    /// Blocks of the journal inside of the volume; 0 is none.
    pub journal_blocks: u32,
    /// Those of `journal_blocks` that the superblock of the log names as the area of fast commits.
    pub fast_commit_blocks: u32,
}

impl Geometry {
    /// Checks the options and computes the numbers.
    ///
    /// # Errors
    /// An option is impossible.
    pub fn new(options: &MkfsOptions) -> Result<Geometry, MkfsError> {
        if options.label.len() > 16 {
            return Err(MkfsError::Label {
                label: options.label.clone(),
            });
        }
        if options.reserved_percent > 50 {
            return Err(MkfsError::Reserved {
                percent: options.reserved_percent,
            });
        }
        if BlockSize::new(options.block_bytes).is_none() {
            return Err(MkfsError::BlockBytes {
                bytes: options.block_bytes,
            });
        }
        let bytes = options.inode_bytes;
        let most = options.block_bytes.min(INODE_BYTES_MAX);
        let possible = INODE_BYTES_OLD as u32..=most;
        if !bytes.is_power_of_two() || !possible.contains(&bytes) {
            return Err(MkfsError::InodeBytes { bytes, most });
        }
        let cluster_blocks = u64::from(cluster_blocks(options)?);
        // Devices hold whole blocks of 4 KiB; mke2fs rounds to whole pages as well.
        let block_bytes = u64::from(options.block_bytes);
        let unit = block_bytes.max(BLOCK_BYTES as u64);
        let asked = options.size_bytes / unit * (unit / block_bytes);
        let asked = asked / cluster_blocks * cluster_blocks;
        if asked > u64::from(u32::MAX) {
            return Err(MkfsError::TooLarge {
                size_bytes: options.size_bytes,
                limit_bytes: block_bytes << 32,
            });
        }
        let ratio = options
            .inode_ratio
            .unwrap_or_else(|| default_inode_ratio(asked * block_bytes).max(options.block_bytes));
        // There is at most one inode per cluster.
        let ratio = match cluster_blocks {
            1 => ratio,
            n => ratio.max(options.block_bytes * n as u32),
        };
        let mut g = Geometry::with_groups(options, asked, ratio)?;
        g.journal_blocks = g.journal(options)?;
        if g.journal_blocks > 0 {
            let room = match options.fast_commits {
                FastCommitArea::None => 0,
                FastCommitArea::Room => (g.journal_blocks / 64).clamp(16, 256),
                FastCommitArea::Feature => default_journal_blocks(g.blocks) / 64,
            };
            g.journal_blocks += room;
            if options.fast_commits == FastCommitArea::Feature {
                g.fast_commit_blocks = room;
            }
        }
        Ok(g)
    }

    /// Cuts `asked` blocks into groups.
    ///
    /// A last group that could hold little more than its own metadata is left out. If the inodes
    /// then do not fit the other groups, groups are made smaller by eight blocks at a time until
    /// the last one is large enough.
    fn with_groups(options: &MkfsOptions, asked: u64, ratio: u32) -> Result<Geometry, MkfsError> {
        // With more bytes per inode than one block has, the bitmap of a full group would not hold
        // its inodes.
        let least = options.block_bytes;
        if ratio < least {
            return Err(MkfsError::InodeRatio { ratio, least });
        }
        let reserved = asked * u64::from(options.reserved_percent) / 100;
        let block_bytes = u64::from(options.block_bytes);
        let inodes = (asked * block_bytes / u64::from(ratio)).max(FIRST_INO as u64 + 1);
        let unit = cluster_blocks(options)?;
        let (least, most) = (
            GROUP_BLOCKS_MIN * unit,
            blocks_per_group_max(options.block_bytes) * unit,
        );
        let per_group = options.blocks_per_group.unwrap_or(most);
        if !(least..=most).contains(&per_group) || !per_group.is_multiple_of(8 * unit) {
            return Err(MkfsError::GroupBlocks {
                blocks: per_group,
                least,
                most,
            });
        }
        let (mut g, mut own) = Self::cut(options, asked, per_group, inodes);
        g.reserved_blocks = reserved;
        loop {
            if g.groups == 0 {
                return Err(too_small(options, "the first group has no block".into()));
            }
            let rest = (g.blocks - g.first_block()) % u64::from(g.blocks_per_group);
            let wanted = own + LAST_GROUP_SPARE.max(2 * u64::from(unit));
            if u64::from(g.inodes_per_group) > g.bits_per_block() {
                let reserved = g.reserved_blocks;
                (g, own) = Self::cut(options, asked, g.blocks_per_group - 8 * unit, inodes);
                g.reserved_blocks = reserved;
            } else if rest == 0 || rest >= wanted {
                break;
            } else if g.groups == 1 {
                let need = (wanted + g.first_block()) * block_bytes;
                return Err(too_small(options, format!("at least {need} bytes")));
            } else {
                (g, own) = Self::cut(options, g.blocks - rest, g.blocks_per_group, inodes);
                g.reserved_blocks = reserved * g.blocks / asked;
            }
        }
        if g.inodes_per_group < FIRST_INO {
            return Err(MkfsError::TooFewInodes {
                ratio,
                inodes: g.inodes_per_group,
                reserved: FIRST_INO,
            });
        }
        if u64::from(g.groups) * u64::from(g.inodes_per_group) > u64::from(u32::MAX) {
            return Err(MkfsError::InodeRatio {
                ratio,
                least: 2 * least,
            });
        }
        Ok(g)
    }

    /// Cuts the volume into groups of one size, whether or not the result is possible. Answers the
    /// numbers and the metadata blocks of the last group.
    fn cut(
        options: &MkfsOptions,
        blocks: u64,
        blocks_per_group: u32,
        inodes: u64,
    ) -> (Geometry, u64) {
        let mut g = Geometry {
            kind: options.kind,
            block_bytes: options.block_bytes,
            inode_bytes: options.inode_bytes,
            cluster_blocks: cluster_blocks(options).unwrap_or(1),
            blocks,
            blocks_per_group,
            groups: 0,
            inodes_per_group: 0,
            table_blocks: 0,
            desc_blocks: 0,
            reserved_desc_blocks: 0,
            reserved_blocks: 0,
            journal_blocks: 0,
            fast_commit_blocks: 0,
        };
        let in_groups = blocks.saturating_sub(g.first_block());
        g.groups = in_groups.div_ceil(u64::from(blocks_per_group)) as u32;
        let per_block = u64::from(g.block_bytes / g.inode_bytes);
        let per_group = inodes.div_ceil(u64::from(g.groups.max(1)));
        // Inodes that a bitmap does not hold make groups smaller; others are not made.
        let per_group = match per_group > g.bits_per_block() {
            true => per_group,
            false => per_group.min(GROUP_BITS - per_block),
        };
        // Whole table blocks, then whole bytes of the bitmap.
        let per_group = (per_group.next_multiple_of(per_block) & !7).max(8);
        g.inodes_per_group = per_group as u32;
        g.table_blocks = per_group.div_ceil(per_block) as u32;
        g.desc_blocks = g.groups.div_ceil(g.descs_per_block());
        g.reserved_desc_blocks = g.descs_to_grow();
        let last = g.groups.saturating_sub(1);
        let own = u64::from(g.own_blocks(last)) + 2 + u64::from(g.table_blocks);
        (g, own)
    }

    /// Blocks of reserved descriptors: room for a volume 1024 times as large, but below 2^32
    /// blocks. One indirect block lists them.
    fn descs_to_grow(&self) -> u32 {
        if self.has_clusters() {
            return 0;
        }
        let most = (self.blocks * 1024).min(u64::from(u32::MAX));
        let most = most.saturating_sub(self.first_block());
        let groups = most.div_ceil(self.blocks_per_group.into()) as u32;
        groups
            .div_ceil(self.descs_per_block())
            .saturating_sub(self.desc_blocks)
            .min(self.pointers_per_block())
    }

    fn journal(&self, options: &MkfsOptions) -> Result<u32, MkfsError> {
        let too_small = || {
            let need = BLOCKS_MIN_WITH_JOURNAL * u64::from(self.block_bytes);
            too_small(
                options,
                format!("a journal wants {need} bytes; choose no journal below"),
            )
        };
        match options.journal {
            JournalSize::None | JournalSize::External(_) => Ok(0),
            _ if self.blocks < BLOCKS_MIN_WITH_JOURNAL => Err(too_small()),
            JournalSize::Default => Ok(default_journal_blocks(self.blocks)),
            JournalSize::Blocks(blocks) => {
                let most = (self.free_before_files() / 2).min(JOURNAL_MAX.into()) as u32;
                if (JOURNAL_MIN..=most).contains(&blocks) {
                    return Ok(blocks);
                }
                Err(MkfsError::Journal {
                    blocks,
                    least: JOURNAL_MIN,
                    most: most.max(JOURNAL_MIN),
                })
            }
        }
    }

    /// Blocks of the volume that are not metadata of a group.
    fn free_before_files(&self) -> u64 {
        let own: u64 = (0..self.groups)
            .map(|g| u64::from(self.own_blocks(g)))
            .sum();
        let tables = u64::from(self.groups) * u64::from(2 + self.table_blocks);
        self.blocks.saturating_sub(own + tables)
    }

    /// Blocks of all groups' metadata and of the journal: what `df` does not count
    /// (`s_overhead_clusters`); without clusters.
    pub fn overhead(&self) -> u64 {
        self.blocks - self.free_before_files() + self.first_block() + u64::from(self.journal_blocks)
    }
    /// The block of the superblock, where group 0 begins: blocks of 1 KiB leave the first one to a
    /// boot loader.
    pub fn first_block(&self) -> u64 {
        u64::from(self.block_bytes == 1024)
    }
    /// True with feature `bigalloc`.
    pub fn has_clusters(&self) -> bool {
        self.cluster_blocks > 1
    }
    /// As many blocks, up to a whole cluster.
    pub(super) fn whole_clusters(&self, blocks: u64) -> u64 {
        blocks.next_multiple_of(self.cluster_blocks.into())
    }
    /// Bytes of the fields that an inode has behind the first 128.
    pub(super) fn extra_bytes(&self) -> u16 {
        match self.inode_bytes as usize {
            INODE_BYTES_OLD => 0,
            _ => INODE_EXTRA_BYTES_DEFAULT,
        }
    }
    /// Bytes of a group descriptor.
    pub(super) fn desc_bytes(&self) -> u32 {
        match self.kind {
            Kind::Ext4 => 64,
            Kind::Ext3 => 32,
        }
    }
    fn descs_per_block(&self) -> u32 {
        self.block_bytes / self.desc_bytes()
    }
    /// Bits of a bitmap, which is one block. Groups of volumes with blocks of more than 4 KiB have
    /// fewer blocks and inodes.
    pub(super) fn bits_per_block(&self) -> u64 {
        u64::from(self.block_bytes) * 8
    }
    /// Pointers in an indirect block.
    pub(super) fn pointers_per_block(&self) -> u32 {
        self.block_bytes / 4
    }
    /// Blocks of `lost+found`.
    pub(super) fn lost_found_blocks(&self) -> u32 {
        let blocks = LOST_FOUND_BYTES / self.block_bytes;
        blocks.clamp(LOST_FOUND_BLOCKS_MIN, ondisk::ext4::BLOCK_MAP_DIRECT)
    }
    /// An empty block.
    pub(super) fn empty(&self) -> Vec<u8> {
        vec![0; self.block_bytes as usize]
    }
    /// Inodes of the volume.
    pub fn inodes(&self) -> u32 {
        self.groups * self.inodes_per_group
    }
    /// First block of a group.
    pub fn group_start(&self, group: u32) -> u64 {
        self.first_block() + u64::from(group) * u64::from(self.blocks_per_group)
    }
    /// Blocks of a group.
    pub fn group_blocks(&self, group: u32) -> u64 {
        (self.blocks - self.group_start(group)).min(self.blocks_per_group.into())
    }
    /// True if a group begins with a copy of superblock and descriptors (feature `sparse_super`).
    pub fn has_superblock(&self, group: u32) -> bool {
        group <= 1 || [3, 5, 7].iter().any(|&base| is_power_of(group, base))
    }
    /// Blocks at the start of a group for superblock and descriptors.
    pub fn own_blocks(&self, group: u32) -> u32 {
        if self.has_superblock(group) {
            1 + self.desc_blocks + self.reserved_desc_blocks
        } else {
            0
        }
    }
    /// Groups other than the first that hold a copy of superblock and descriptors.
    pub fn backup_groups(&self) -> impl Iterator<Item = u32> {
        (1..self.groups).filter(|&g| self.has_superblock(g))
    }
}

/// Blocks of a cluster.
fn cluster_blocks(options: &MkfsOptions) -> Result<u32, MkfsError> {
    let Some(bytes) = options.cluster_bytes else {
        return Ok(1);
    };
    let block_bytes = options.block_bytes;
    let possible = block_bytes + 1..=CLUSTER_BYTES_MAX;
    if !bytes.is_power_of_two() || !possible.contains(&bytes) {
        return Err(MkfsError::ClusterBytes { bytes, block_bytes });
    }
    // With blocks of 1 KiB the superblock lies in the middle of the first cluster.
    match options.kind == Kind::Ext4 && block_bytes >= 2048 {
        true => Ok(bytes / block_bytes),
        false => Err(MkfsError::NoClusters),
    }
}

/// Most blocks of a group: as many as a bitmap has bits, and less than 2^16.
pub(crate) fn blocks_per_group_max(block_bytes: u32) -> u32 {
    (block_bytes * 8).min(GROUP_BITS as u32 - 8)
}

/// Shapes in which a backup of the superblock is looked for where nothing else tells where it lies:
/// sizes of blocks, each with sizes of groups in blocks. Of either the common one comes first: 4
/// KiB, and as many blocks as there can be, then the powers of two below.
pub(crate) fn common_shapes() -> impl Iterator<Item = (BlockSize, u32)> {
    let mut sizes = BlockSize::ALL;
    sizes.sort_by_key(|size| *size != BlockSize::KIB4);
    sizes.into_iter().flat_map(|size| {
        let most = blocks_per_group_max(size.bytes() as u32);
        let powers = (GROUP_BLOCKS_MIN.ilog2()..u32::BITS).map(|log| 1 << log);
        let smaller = powers.take_while(move |n| *n < most).collect::<Vec<u32>>();
        let all = std::iter::once(most).chain(smaller.into_iter().rev());
        all.map(move |blocks| (size, blocks))
    })
}

fn is_power_of(mut n: u32, base: u32) -> bool {
    while n > 1 && n.is_multiple_of(base) {
        n /= base;
    }
    n == 1
}

fn too_small(options: &MkfsOptions, need: String) -> MkfsError {
    MkfsError::TooSmall {
        size_bytes: options.size_bytes,
        need,
    }
}

/// Bytes per inode by the `fs_types` of mke2fs.conf that apply to a size in bytes.
fn default_inode_ratio(bytes: u64) -> u32 {
    match bytes {
        n if n < 3 * MIB => 8192,
        n if n < 512 * MIB => 4096,
        n if n < (4 << 20) * MIB => 16384,
        _ => 32768,
    }
}

/// Blocks of the journal by the size of the volume.
fn default_journal_blocks(blocks: u64) -> u32 {
    const STEPS: [(u64, u32); 8] = [
        (32 << 10, 1 << 10),
        (256 << 10, 4 << 10),
        (512 << 10, 8 << 10),
        (4096 << 10, 16 << 10),
        (8192 << 10, 32 << 10),
        (16384 << 10, 64 << 10),
        (32768 << 10, 128 << 10),
        (u64::MAX, 256 << 10),
    ];
    let step = STEPS.iter().find(|(below, _)| blocks < *below);
    step.expect("the last step has no upper end").1
}
