//! What the caller chooses, and what is wrong with a choice.

use rt::WallTime;

/// Options of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOptions {
    /// Size of the volume in bytes; what lies beyond the last whole 4 KiB block stays unused.
    pub size_bytes: u64,
    /// Label, at most 16 bytes.
    pub label: String,
    /// UUID of volume and journal.
    pub uuid: [u8; 16],
    /// Seed of the directory hashes, as the bytes of a UUID.
    pub hash_seed: [u8; 16],
    /// The journal.
    pub journal: JournalSize,
    /// Bytes of volume per inode; `None` is the default of mke2fs (4096 below 512 MiB, 16384, 32768 from 4 TiB on).
    pub inode_ratio: Option<u32>,
    /// Part of the volume that only the super-user may fill, in percent (mke2fs: 5).
    pub reserved_percent: u8,
    /// Time of creation of everything.
    pub time: WallTime,
    /// Owner and group of the root directory.
    pub root_owner: (u32, u32),
}

impl MkfsOptions {
    /// The defaults of mke2fs for a volume of this size; UUID, hash seed and time are the caller's.
    pub fn new(size_bytes: u64, uuid: [u8; 16], hash_seed: [u8; 16], time: WallTime) -> Self {
        MkfsOptions {
            size_bytes,
            label: String::new(),
            uuid,
            hash_seed,
            journal: JournalSize::Default,
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
    /// So many 4 KiB blocks, at least 1024.
    Blocks(u32),
    /// No journal.
    None,
}

/// Why there is no volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MkfsError {
    /// Size.
    #[error("{size_bytes} bytes are too small for an ext4 volume with these options: {need}")]
    TooSmall {
        /// Size asked for.
        size_bytes: u64,
        /// What would do.
        need: String,
    },
    /// Size.
    #[error("{size_bytes} bytes are too large: a volume with a resize inode ends below 16 TiB")]
    TooLarge {
        /// Size asked for.
        size_bytes: u64,
    },
    /// Inode ratio.
    #[error("one inode per {ratio} bytes is not possible here: choose {least} or more")]
    InodeRatio {
        /// Bytes per inode asked for.
        ratio: u32,
        /// Smallest possible value.
        least: u32,
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
