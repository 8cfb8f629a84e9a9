//! The numbers of a new volume, by the rules of mke2fs.

use super::{JournalSize, MkfsError, MkfsOptions};
use base::BLOCK_BYTES;

/// Most blocks and most inodes per group: as many as one bitmap block has bits.
pub(super) const BITS_PER_BLOCK: u64 = BLOCK_BYTES as u64 * 8;
/// Groups whose bitmaps and tables lie together (feature `flex_bg`), and its logarithm.
pub(super) const FLEX_GROUPS: u32 = 1 << LOG_FLEX_GROUPS;
pub(super) const LOG_FLEX_GROUPS: u8 = 4;
pub(super) const INODE_BYTES: u32 = 256;
pub(super) const DESC_BYTES: u32 = 64;
/// First inode that is not reserved; `lost+found` gets it.
pub(super) const FIRST_INO: u32 = 11;
pub(super) const LOST_FOUND_BLOCKS: u32 = 4;

const INODES_PER_BLOCK: u64 = BLOCK_BYTES as u64 / INODE_BYTES as u64;
const DESCS_PER_BLOCK: u32 = BLOCK_BYTES as u32 / DESC_BYTES;
/// Pointers in an indirect block of the resize inode.
pub(super) const POINTERS_PER_BLOCK: u32 = BLOCK_BYTES as u32 / 4;
/// Blocks a last group must offer beyond its own metadata, or it is left out.
const LAST_GROUP_SPARE: u64 = 50;
/// Smallest and largest journal.
const JOURNAL_MIN: u32 = 1024;
const JOURNAL_MAX: u32 = 10_240_000;
/// Below this number of blocks mke2fs makes no journal.
const BLOCKS_MIN_WITH_JOURNAL: u64 = 2048;
/// With more bytes per inode than one block the bitmap of a full group would not hold its inodes.
const INODE_RATIO_MIN: u32 = BLOCK_BYTES as u32;
const MIB_BLOCKS: u64 = (1 << 20) / BLOCK_BYTES as u64;
const _: () = assert!(BITS_PER_BLOCK * BLOCK_BYTES as u64 == 128 << 20);

/// The numbers of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
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
    /// Blocks of the journal; 0 is none.
    pub journal_blocks: u32,
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
        let asked = options.size_bytes / BLOCK_BYTES as u64;
        if asked > u64::from(u32::MAX) {
            return Err(MkfsError::TooLarge {
                size_bytes: options.size_bytes,
            });
        }
        let ratio = options
            .inode_ratio
            .unwrap_or_else(|| default_inode_ratio(asked));
        let mut g = Geometry::with_groups(options, asked, ratio)?;
        g.journal_blocks = g.journal(options)?;
        Ok(g)
    }

    /// Cuts `asked` blocks into groups.
    ///
    /// A last group that could hold little more than its own metadata is left out. If the inodes then do not fit the other
    /// groups, groups are made smaller by eight blocks at a time until the last one is large enough.
    fn with_groups(options: &MkfsOptions, asked: u64, ratio: u32) -> Result<Geometry, MkfsError> {
        if ratio < INODE_RATIO_MIN {
            return Err(MkfsError::InodeRatio {
                ratio,
                least: INODE_RATIO_MIN,
            });
        }
        let reserved = asked * u64::from(options.reserved_percent) / 100;
        let inodes = (asked * BLOCK_BYTES as u64 / u64::from(ratio)).max(FIRST_INO as u64 + 1);
        let (mut g, mut own) = Self::cut(asked, BITS_PER_BLOCK as u32, inodes);
        g.reserved_blocks = reserved;
        loop {
            if g.groups == 0 {
                return Err(too_small(options, "the first group has no block".into()));
            }
            let rest = g.blocks % u64::from(g.blocks_per_group);
            let wanted = own + LAST_GROUP_SPARE;
            if u64::from(g.inodes_per_group) > BITS_PER_BLOCK {
                let reserved = g.reserved_blocks;
                (g, own) = Self::cut(asked, g.blocks_per_group - 8, inodes);
                g.reserved_blocks = reserved;
            } else if rest == 0 || rest >= wanted {
                break;
            } else if g.groups == 1 {
                let need = wanted * BLOCK_BYTES as u64;
                return Err(too_small(options, format!("at least {need} bytes")));
            } else {
                (g, own) = Self::cut(g.blocks - rest, g.blocks_per_group, inodes);
                g.reserved_blocks = reserved * g.blocks / asked;
            }
        }
        if u64::from(g.groups) * u64::from(g.inodes_per_group) > u64::from(u32::MAX) {
            return Err(MkfsError::InodeRatio {
                ratio,
                least: 2 * INODE_RATIO_MIN,
            });
        }
        Ok(g)
    }

    /// Groups of one size, whether or not the result is possible; and the metadata blocks of the last group.
    fn cut(blocks: u64, blocks_per_group: u32, inodes: u64) -> (Geometry, u64) {
        let groups = blocks.div_ceil(u64::from(blocks_per_group)) as u32;
        let table_blocks = inodes
            .div_ceil(u64::from(groups.max(1)))
            .div_ceil(INODES_PER_BLOCK);
        let desc_blocks = groups.div_ceil(DESCS_PER_BLOCK);
        let g = Geometry {
            blocks,
            blocks_per_group,
            groups,
            inodes_per_group: (table_blocks * INODES_PER_BLOCK) as u32,
            table_blocks: table_blocks as u32,
            desc_blocks,
            reserved_desc_blocks: reserved_desc_blocks(blocks, blocks_per_group, desc_blocks),
            reserved_blocks: 0,
            journal_blocks: 0,
        };
        let last = groups.saturating_sub(1);
        let own = u64::from(g.own_blocks(last)) + 2 + table_blocks;
        (g, own)
    }

    fn journal(&self, options: &MkfsOptions) -> Result<u32, MkfsError> {
        let too_small = || {
            let need = BLOCKS_MIN_WITH_JOURNAL * BLOCK_BYTES as u64;
            too_small(
                options,
                format!("a journal wants {need} bytes; choose no journal below"),
            )
        };
        match options.journal {
            JournalSize::None => Ok(0),
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

    /// Blocks of the volume that belong to no group's metadata.
    fn free_before_files(&self) -> u64 {
        let own: u64 = (0..self.groups)
            .map(|g| u64::from(self.own_blocks(g)))
            .sum();
        let tables = u64::from(self.groups) * u64::from(2 + self.table_blocks);
        self.blocks.saturating_sub(own + tables)
    }

    /// Blocks of all groups' metadata and of the journal: what `df` does not count (`s_overhead_clusters`).
    pub fn overhead(&self) -> u64 {
        self.blocks - self.free_before_files() + u64::from(self.journal_blocks)
    }
    /// Inodes of the volume.
    pub fn inodes(&self) -> u32 {
        self.groups * self.inodes_per_group
    }
    /// First block of a group.
    pub fn group_start(&self, group: u32) -> u64 {
        u64::from(group) * u64::from(self.blocks_per_group)
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
    /// Groups other than the first that hold such a copy.
    pub fn backup_groups(&self) -> impl Iterator<Item = u32> {
        (1..self.groups).filter(|&g| self.has_superblock(g))
    }
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

/// Bytes per inode by the `fs_types` of mke2fs.conf that apply to a size.
fn default_inode_ratio(blocks: u64) -> u32 {
    match blocks {
        n if n < 3 * MIB_BLOCKS => 8192,
        n if n < 512 * MIB_BLOCKS => 4096,
        n if n < (4 << 20) * MIB_BLOCKS => 16384,
        _ => 32768,
    }
}

/// Room for the descriptors of a volume 1024 times as large, but below 2^32 blocks; one indirect block lists it.
fn reserved_desc_blocks(blocks: u64, blocks_per_group: u32, desc_blocks: u32) -> u32 {
    let most = (blocks * 1024).min(u64::from(u32::MAX));
    let groups = most.div_ceil(blocks_per_group.into()) as u32;
    groups
        .div_ceil(DESCS_PER_BLOCK)
        .saturating_sub(desc_blocks)
        .min(POINTERS_PER_BLOCK)
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
