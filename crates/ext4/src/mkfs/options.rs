//! The options of a new volume, and the errors for impossible ones.

use rt::WallTime;

base::words! {
    /// Which set of features a new volume gets.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub enum Kind {
        /// `mke2fs -t ext4` (1.47): extents, flexible groups, 64-bit descriptors, checksums.
        #[default]
        Ext4 => "ext4",
        /// `mke2fs -t ext3`: block maps, descriptors of 32 bytes, bitmaps and tables of each group
        /// at its start, all of them initialised, no checksum anywhere; a log without features.
        Ext3 => "ext3",
    }
}

/// Largest cluster that Varve makes (`mke2fs -C` goes on to 256 MiB).
pub const CLUSTER_BYTES_MAX: u32 = 1 << 20;

/// Options of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Features.
    pub kind: Kind,
    /// Bytes of a block: a power of two from 1024 to 65536.
    pub block_bytes: u32,
    /// Bytes of an inode: 128, 256 and so on up to a block, and to 32 KiB. Of 128 bytes, as ext3
    /// had them until 2008, times have whole seconds and end in 2038.
    pub inode_bytes: u32,
    /// Bytes of a cluster, the unit of allocation, as with `mke2fs -O bigalloc -C`: a power of two
    /// above a block, up to 1 MiB (feature `bigalloc`). `None`: blocks are allocated one by one.
    /// The volume then has no resize inode, and its end is cut to a whole cluster.
    pub cluster_bytes: Option<u32>,
    /// Blocks of a group, as with `mke2fs -g`: a multiple of 8 from 256 on; `None`: as many as a
    /// bitmap has bits, and at most 65528. A volume of one group has no backup of its superblock.
    pub blocks_per_group: Option<u32>,
    /// Size of the volume in bytes; what lies beyond the last whole 4 KiB stays unused.
    pub size_bytes: u64,
    /// Label, at most 16 bytes.
    pub label: String,
    /// UUID of volume and journal.
    pub uuid: [u8; 16],
    /// Seed of the directory hashes, as the bytes of a UUID.
    pub hash_seed: [u8; 16],
    /// The journal.
    pub journal: JournalSize,
    /// Blocks of the journal for fast commits.
    pub fast_commits: FastCommitArea,
    /// Directories may compare names without regard to case, as with `mke2fs -O casefold`: feature
    /// `casefold` with encoding `utf8-12.1`, not strict. None does until `chattr +F`.
    pub casefold: bool,
    /// Bytes of volume per inode; `None` is the default of mke2fs (4096 below 512 MiB, 16384, 32768
    /// from 4 TiB on).
    pub inode_ratio: Option<u32>,
    /// Part of the volume that only the super-user may fill, in percent (mke2fs: 5).
    pub reserved_percent: u8,
    /// Time of creation of everything.
    pub time: WallTime,
    /// Owner and group of the root directory.
    pub root_owner: (u32, u32),
}

impl MkfsOptions {
    /// The defaults of mke2fs for an ext4 of this size, in blocks of 4 KiB; UUID, hash seed and
    /// time are the caller's.
    pub fn new(size_bytes: u64, uuid: [u8; 16], hash_seed: [u8; 16], time: WallTime) -> Self {
        MkfsOptions {
            kind: Kind::Ext4,
            block_bytes: base::BLOCK_BYTES as u32,
            inode_bytes: 256,
            cluster_bytes: None,
            blocks_per_group: None,
            size_bytes,
            label: String::new(),
            uuid,
            hash_seed,
            journal: JournalSize::Default,
            fast_commits: FastCommitArea::None,
            casefold: false,
            inode_ratio: None,
            reserved_percent: 5,
            time,
            root_owner: (0, 0),
        }
    }
}

/// Size of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalSize {
    /// As mke2fs chooses by the size of the volume.
    Default,
    /// This many blocks, at least 1024.
    Blocks(u32),
    /// On a device of its own, with this UUID ([`LogDevice`](super::LogDevice)).
    External([u8; 16]),
    /// No journal.
    None,
}

/// Blocks that a journal inside of the volume gets for fast commits, besides its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FastCommitArea {
    /// None. A mount that writes fast commits takes a part of the journal.
    #[default]
    None,
    /// A 64th of the journal, from 16 to 256 blocks. Nothing on the volume tells of them: the first
    /// mount that writes fast commits takes them and sets the feature.
    Room,
    /// As with `mke2fs -O fast_commit` (1.47): the feature `fast_commit` is set, and the superblock
    /// of the log names the number of blocks (`s_num_fc_blks`): a 64th of the journal that is the
    /// default for such a volume, whatever size this one has.
    Feature,
}

/// Why a volume cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MkfsError {
    /// Size.
    #[error("{size_bytes} bytes are too small for a volume with these options: {need}")]
    TooSmall {
        /// Size asked for.
        size_bytes: u64,
        /// What would do.
        need: String,
    },
    /// Size.
    #[error("{size_bytes} bytes are too large: a volume with a resize inode ends below {} TiB", limit_bytes >> 40)]
    TooLarge {
        /// Size asked for.
        size_bytes: u64,
        /// Where block numbers end.
        limit_bytes: u64,
    },
    /// Block size.
    #[error("blocks of {bytes} bytes: choose a power of two from 1024 to 65536")]
    BlockBytes {
        /// Block size asked for.
        bytes: u32,
    },
    /// Group size.
    #[error("groups of {blocks} blocks: choose a multiple of 8 from {least} to {most}")]
    GroupBlocks {
        /// Group size asked for.
        blocks: u32,
        /// Smallest group.
        least: u32,
        /// Largest group of this block size.
        most: u32,
    },
    /// Inode size.
    #[error("inodes of {bytes} bytes: choose a power of two from 128 to {most}")]
    InodeBytes {
        /// Inode size asked for.
        bytes: u32,
        /// A block, or 32 KiB.
        most: u32,
    },
    /// Cluster size.
    #[error(
        "clusters of {bytes} bytes (bigalloc): choose a power of two above a block of {block_bytes} bytes, up to {}",
        CLUSTER_BYTES_MAX
    )]
    ClusterBytes {
        /// Cluster size asked for.
        bytes: u32,
        /// Block size.
        block_bytes: u32,
    },
    /// Clusters.
    #[error("clusters (bigalloc) want an ext4 in blocks of 2048 bytes or more")]
    NoClusters,
    /// Inode ratio.
    #[error("one inode per {ratio} bytes is not possible here: choose {least} or more")]
    InodeRatio {
        /// Bytes per inode asked for.
        ratio: u32,
        /// Smallest possible value.
        least: u32,
    },
    /// Inode ratio.
    #[error(
        "one inode per {ratio} bytes leaves {inodes} inodes in the first group, which holds the {reserved} reserved ones: choose less"
    )]
    TooFewInodes {
        /// Bytes per inode.
        ratio: u32,
        /// Inodes of the first group.
        inodes: u32,
        /// Inodes that mkfs puts there.
        reserved: u32,
    },
    /// Journal size.
    #[error("a journal of {blocks} blocks is not possible here: choose {least} to {most} blocks")]
    Journal {
        /// Blocks asked for.
        blocks: u32,
        /// Smallest journal.
        least: u32,
        /// Largest journal of this volume.
        most: u32,
    },
    /// Label.
    #[error("the label {label:?} has {} bytes; at most 16 fit", label.len())]
    Label {
        /// Label asked for.
        label: String,
    },
    /// Reserved part.
    #[error("{percent} percent cannot be reserved: at most 50")]
    Reserved {
        /// Percent asked for.
        percent: u8,
    },
}
