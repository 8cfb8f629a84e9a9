//! F2FS: all structures little-endian, all blocks 4096 bytes.
//!
//! Files are trees of *nodes*: an [inode](InodeFields) holds the addresses of its first blocks and the numbers of five further nodes;
//! a node is found by its number through the NAT. Directories are files of [dentry blocks](DentryLayout), found by the
//! [hash](dentry_hash) of the name; small files, directories and attributes live inside the inode.
//!
//! Source: kernel documentation `filesystems/f2fs.rst` and the F2FS paper (FAST'15); checked against images made by
//! f2fs-tools 1.15.

mod checksum;
mod dentry;
mod dir;
mod features;
mod hash;
mod inode;
mod node;
mod path;
mod units;
mod xattr;

pub use checksum::{CRC_SEED, crc, crc_f2fs};
pub use dentry::{
    DENTRIES_PER_BLOCK, DENTRY_SLOT_BYTES, Dentry, DentryIter, DentryLayout, FileType,
    NAME_BYTES_MAX, clear, dentry_slots, find, is_empty, iter, put, room_for, set_target,
};
pub use dir::{MAX_DIR_HASH_DEPTH, bucket_blocks, dir_buckets, first_block, level_blocks};
pub use features::Features;
pub use hash::dentry_hash;
pub use inode::{
    Advise, Extent, INLINE_XATTR_WORDS_DEFAULT, INODE_EXTRA_BYTES_MAX, Inline, InodeFields,
    InodeFlags, InodeName, LINKS_MAX, MODE_BLOCK, MODE_CHAR, MODE_DIR, MODE_FIFO, MODE_REGULAR,
    MODE_SOCKET, MODE_SYMLINK, MODE_TYPE_MASK, Timestamp, addr_slot0, device, inode_checksum,
    set_device, update_inode_checksum, verify_inode_checksum,
};
pub use node::{
    FOOTER_AT, Footer, INODE_NID_SLOT0, NODE_COLD, NODE_DENTRY, NODE_FSYNC, NodeKind,
    XATTR_NODE_OFFSET, addr, footer, nid_slot, node_kind, set_addr, set_footer, set_nid_slot,
};
pub use path::{
    ADDRS_PER_BLOCK, DEF_ADDRS_PER_INODE, NIDS_PER_BLOCK, NodePath, max_file_blocks, node_path,
};
pub use units::{BLOCK_BYTES, BLOCKS_PER_SEG, BlockAddr, Nid, SegNo};
pub use xattr::{
    XATTR_BLOCK_BYTES, XATTR_HEADER_BYTES, XattrBuf, XattrIndex, XattrRef, xattr_entry_bytes,
};
