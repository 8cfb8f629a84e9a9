//! ext4 (and its ancestors ext2 and ext3): all structures little-endian.
//!
//! A volume is an array of blocks cut into block groups. The [`Superblock`] at byte 1024 gives the
//! geometry; an array of [`GroupDesc`] says where each group keeps its bitmaps and its table of
//! [`Inode`]s. An inode maps its data by an [extent tree](ExtentNode) or by a
//! [block map](BlockPath); a directory is a file of [entries](DirEntries), with an
//! [index by hash](DxBlock) when it is large.
//!
//! With feature `metadata_csum` every structure carries a CRC32C. All of them start from
//! [`FsSeed`]; structures that belong to an inode start from its [`InodeSeed`].
//!
//! Source: kernel documentation `filesystems/ext4/*.rst`; checked against images made by mke2fs and
//! debugfs 1.47.

mod bitmap;
mod block_map;
mod dir;
mod dir_hash;
mod extent;
mod fast_commit;
mod features;
mod geometry;
#[cfg(test)]
mod golden;
mod group;
mod htree;
mod inode;
mod inode_flags;
mod journal_dev;
mod orphan;
mod seed;
mod superblock;
mod time;
mod xattr;

pub use bitmap::{BitmapChange, BitmapChecksum};
pub use block_map::{BLOCK_MAP_DIRECT, BLOCK_MAP_SLOTS, BlockPath};
pub use dir::{
    DIR_ENTRY_MIN_BYTES, DIR_REC_LEN_AT, DIR_TAIL_BYTES, DirEntries, DirEntry, DirHead,
    EncodedDirEntry, FileType, NAME_BYTES_MAX, dir_checksum_with, dir_entry_bytes,
    encode_dir_entry, encode_dir_rec_len, put_dir_entry, put_dir_tail, set_dir_rec_len,
    update_dir_checksum, verify_dir_checksum,
};
pub use dir_hash::{DirHash, HashVersion, dir_hash};
pub use extent::{
    EXTENT_LEN_MAX, EXTENT_UNWRITTEN_LEN_MAX, Extent, ExtentEntries, ExtentIndex, ExtentNode,
    INLINE_EXTENTS_MAX, update_extent_checksum, verify_extent_checksum,
};
pub use fast_commit::{FastCommitName, FastCommitTag, FastCommitWriter, FastCommits};
pub use features::{Compat, Incompat, RoCompat};
pub use geometry::InodePlace;
pub use group::{GROUP_DESC_BYTES_32, GROUP_DESC_BYTES_64, GroupDesc, GroupFlags};
pub use htree::{DxBlock, DxEntry, DxRootInfo, DxShape};
pub use inode::{
    BLOCK_AREA_BYTES, INODE_BYTES_COMMON, INODE_BYTES_OLD, INODE_EXTRA_BYTES_DEFAULT, Inode,
    MODE_BLOCK, MODE_CHAR, MODE_DIR, MODE_FIFO, MODE_REGULAR, MODE_SOCKET, MODE_SYMLINK,
    MODE_TYPE_MASK,
};
pub use inode_flags::InodeFlags;
pub use journal_dev::JournalDevice;
pub use orphan::{OrphanBlock, update_orphan_checksum, verify_orphan_checksum};
pub use seed::{FsSeed, InodeSeed};
pub use superblock::{
    SUPERBLOCK_AT, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC, State, Superblock, SuperblockFlags,
};
pub use time::Timestamp;
pub use xattr::{
    XattrBlock, XattrEntry, inode_xattr_room, inode_xattrs, set_inode_xattrs, xattr_bytes,
};

use base::Ino;

/// The root directory.
pub const ROOT_INO: Ino = Ino(2);
/// The file that owns the reserved group-descriptor blocks.
pub const RESIZE_INO: Ino = Ino(7);
/// The internal journal.
pub const JOURNAL_INO: Ino = Ino(8);
/// First inode that is not reserved, on every volume made by mke2fs; `s_first_ino` rules.
pub const FIRST_INO_DEFAULT: Ino = Ino(11);
