//! F2FS: all structures little-endian, blocks of 4096 bytes, segments of 512 blocks.
//!
//! A [`Superblock`] (two copies) gives the [`Geometry`]: areas at fixed places and, after them, the
//! main area of segments that six [logs](Log) fill. A [`Checkpoint`] pack (two, written in turn)
//! fixes one state: counters, the positions of the logs, and which of the two copies of each NAT
//! and SIT block counts. The NAT ([`NatEntry`]) says where each node lies, the SIT ([`SitEntry`])
//! which blocks of a segment are valid, a [`SummaryBlock`] which node each block belongs to. If few
//! entries of NAT or SIT change, the changes stand in journals in the summaries of the pack.
//!
//! Files are trees of *nodes*: an [inode](InodeFields) holds the addresses of its first blocks and
//! the numbers of five further nodes; a node is found by its number through the NAT. Directories
//! are files of [dentry blocks](DentryLayout), found by the [hash](dentry_hash) of the name; small
//! files, directories and attributes live inside the inode.
//!
//! Source: kernel documentation `filesystems/f2fs.rst`; Lee et al., "F2FS: A New File System for
//! Flash Storage", FAST 2015; checked against images made by f2fs-tools 1.15.

pub mod bits;
mod checkpoint;
mod checksum;
mod compact;
mod dentry;
mod dir;
mod features;
mod geometry;
#[cfg(test)]
mod golden_files;
mod hash;
mod inode;
pub mod journal;
mod log;
mod nat;
mod nat_bits;
mod node;
mod orphan;
mod path;
mod sit;
mod summary;
mod superblock;
mod units;
#[cfg(test)]
mod volume_golden;
#[cfg(test)]
mod volume_tests;
mod xattr;

pub use checkpoint::{AllocType, CP_BITMAP_AT, CP_CHECKSUM_AT, Checkpoint, CpFlags};
pub use checksum::{CRC_SEED, crc, crc_f2fs};
pub use compact::{COMPACT_FIRST, COMPACT_NEXT, CompactSummaries, compact_blocks};
pub use dentry::{
    DENTRIES_PER_BLOCK, DENTRY_SLOT_BYTES, Dentry, DentryIter, DentryLayout, FileType,
    NAME_BYTES_MAX, clear, dentry_slots, find, is_empty, iter, put, room_for, set_target,
};
pub use dir::{MAX_DIR_HASH_DEPTH, bucket_blocks, dir_buckets, first_block, level_blocks};
pub use features::Features;
pub use geometry::Geometry;
pub use hash::{dentry_hash, folded_hash};
pub use inode::{
    Advise, Extent, INLINE_XATTR_WORDS_DEFAULT, INODE_EXTRA_BYTES_MAX, Inline, InodeFields,
    InodeFlags, InodeName, LINKS_MAX, MODE_BLOCK, MODE_CHAR, MODE_DIR, MODE_FIFO, MODE_REGULAR,
    MODE_SOCKET, MODE_SYMLINK, MODE_TYPE_MASK, Timestamp, addr_slot0, clear_inode_extent, device,
    inode_checksum, inode_size, set_device, set_inode_size, update_inode_checksum,
    verify_inode_checksum,
};
pub use log::Log;
pub use nat::{NAT_ENTRY_BYTES, NAT_PER_BLOCK, NatEntry};
pub use nat_bits::NatBits;
pub use node::{
    FOOTER_AT, Footer, INODE_NID_SLOT0, NODE_COLD, NODE_DENTRY, NODE_FSYNC, NodeKind,
    XATTR_NODE_OFFSET, addr, footer, nid_slot, node_kind, set_addr, set_footer, set_nid_slot,
};
pub use orphan::{ORPHANS_PER_BLOCK, OrphanBlock};
pub use path::{
    ADDRS_PER_BLOCK, DEF_ADDRS_PER_INODE, NIDS_PER_BLOCK, NodePath, max_file_blocks, node_path,
};
pub use sit::{SIT_ENTRY_BYTES, SIT_PER_BLOCK, SitEntry, VALID_MAP_BYTES};
pub use summary::{
    JOURNAL_BYTES, NAT_JOURNAL_MAX, SIT_JOURNAL_MAX, SUMMARY_BYTES, SUMMARY_FOOTER_BYTES, Summary,
    SummaryBlock, SummaryKind, journal_count, nat_journal, put_nat_journal, put_sit_journal,
    sit_journal, summary_entry, summary_kind,
};
pub use superblock::{
    EXTENSION_BYTES, EXTENSIONS_MAX, LABEL_UNITS, SUPERBLOCK_AT, SUPERBLOCK_BYTES,
    SUPERBLOCK_CHECKSUM_AT, SUPERBLOCK_HIDDEN, SUPERBLOCK_MAGIC, Superblock,
};
pub use units::{BLOCK_BYTES, BLOCKS_PER_SEG, BlockAddr, Nid, SegNo};
pub use xattr::{
    XATTR_BLOCK_BYTES, XATTR_HEADER_BYTES, XattrBuf, XattrIndex, XattrRef, xattr_entry_bytes,
};
