//! The group descriptor: 32 bytes, or 64 (and more) with feature 64bit.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0x00/20 | le32 x 2 | `bg_block_bitmap` | block of the block bitmap |
//! | 0x04/24 | le32 x 2 | `bg_inode_bitmap` | block of the inode bitmap |
//! | 0x08/28 | le32 x 2 | `bg_inode_table` | first block of the inode table |
//! | 0x0C/2C | le16 x 2 | `bg_free_blocks_count` | free blocks (clusters) |
//! | 0x0E/2E | le16 x 2 | `bg_free_inodes_count` | free inodes |
//! | 0x10/30 | le16 x 2 | `bg_used_dirs_count` | directories |
//! | 0x12 | le16 | `bg_flags` | see [`GroupFlags`] |
//! | 0x14/34 | le32 x 2 | `bg_exclude_bitmap` | snapshots, unused |
//! | 0x18/38 | le16 x 2 | `bg_block_bitmap_csum` | CRC32C of the block bitmap |
//! | 0x1A/3A | le16 x 2 | `bg_inode_bitmap_csum` | CRC32C of the inode bitmap |
//! | 0x1C/32 | le16 x 2 | `bg_itable_unused` | inodes at the end of the table never used |
//! | 0x1E | le16 | `bg_checksum` | low half of CRC32C over seed, group number, descriptor; or CRC-16 |

use super::{FsSeed, RoCompat, Superblock};
use crate::Corrupt;
use crate::field::bit_set;
use base::BlockNo;
use base::bytes::{get_le16, get_le32, put_le16, put_le32};
use base::checksum::{crc16, crc32c};

/// Bytes of a descriptor without feature 64bit.
pub const GROUP_DESC_BYTES_32: usize = 32;
/// Bytes of a descriptor with feature 64bit, as mke2fs makes it.
pub const GROUP_DESC_BYTES_64: usize = 64;

const WHAT: &str = "group descriptor";
const CHECKSUM_AT: usize = 0x1E;

bit_set! {
    /// State of a group (`bg_flags`).
    GroupFlags: u16, "BG_" {
        /// The inode bitmap (and, below `itable_unused`, the table) was never written: all inodes
        /// are free.
        INODE_UNINIT = 1, "INODE_UNINIT";
        /// The block bitmap was never written: it follows from the layout.
        BLOCK_UNINIT = 2, "BLOCK_UNINIT";
        /// The inode table is zeroed.
        ITABLE_ZEROED = 4, "ITABLE_ZEROED";
    }
}

/// A group descriptor; keeps bytes it does not know.
#[derive(Clone, PartialEq, Eq)]
pub struct GroupDesc {
    raw: Box<[u8]>,
}

impl GroupDesc {
    /// A descriptor of zeros with `bytes` bytes ([`Superblock::desc_bytes`]).
    ///
    /// # Panics
    /// If `bytes` is below 32.
    pub fn blank(bytes: usize) -> GroupDesc {
        assert!(
            bytes >= GROUP_DESC_BYTES_32,
            "a group descriptor has at least 32 bytes"
        );
        GroupDesc {
            raw: vec![0; bytes].into(),
        }
    }

    /// Reads a descriptor of `bytes` bytes ([`Superblock::desc_bytes`]); any bytes are a
    /// descriptor. Checksum: [`verify_checksum`](Self::verify_checksum).
    ///
    /// # Errors
    /// Too few bytes.
    pub fn parse(buf: &[u8], bytes: usize) -> Result<GroupDesc, Corrupt> {
        let raw = Corrupt::need(WHAT, buf, bytes.max(GROUP_DESC_BYTES_32))?;
        Ok(GroupDesc { raw: raw.into() })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.raw
    }
    /// Writes the descriptor to the start of `buf`.
    pub fn encode(&self, buf: &mut [u8]) {
        buf[..self.raw.len()].copy_from_slice(&self.raw);
    }

    fn is_long(&self) -> bool {
        self.raw.len() >= GROUP_DESC_BYTES_64
    }
    fn wide32(&self, low: usize, high: usize) -> u64 {
        let hi = if self.is_long() {
            get_le32(&self.raw, high)
        } else {
            0
        };
        u64::from(hi) << 32 | u64::from(get_le32(&self.raw, low))
    }
    fn set_wide32(&mut self, low: usize, high: usize, n: u64) {
        put_le32(&mut self.raw, low, n as u32);
        if self.is_long() {
            put_le32(&mut self.raw, high, (n >> 32) as u32);
        }
    }
    fn wide16(&self, low: usize, high: usize) -> u32 {
        let hi = if self.is_long() {
            get_le16(&self.raw, high)
        } else {
            0
        };
        u32::from(hi) << 16 | u32::from(get_le16(&self.raw, low))
    }
    fn set_wide16(&mut self, low: usize, high: usize, n: u32) {
        put_le16(&mut self.raw, low, n as u16);
        if self.is_long() {
            put_le16(&mut self.raw, high, (n >> 16) as u16);
        }
    }

    /// Block of the block bitmap.
    pub fn block_bitmap(&self) -> BlockNo {
        BlockNo(self.wide32(0x00, 0x20))
    }
    /// Sets the block of the block bitmap.
    pub fn set_block_bitmap(&mut self, block: BlockNo) {
        self.set_wide32(0x00, 0x20, block.0);
    }
    /// Block of the inode bitmap.
    pub fn inode_bitmap(&self) -> BlockNo {
        BlockNo(self.wide32(0x04, 0x24))
    }
    /// Sets the block of the inode bitmap.
    pub fn set_inode_bitmap(&mut self, block: BlockNo) {
        self.set_wide32(0x04, 0x24, block.0);
    }
    /// First block of the inode table.
    pub fn inode_table(&self) -> BlockNo {
        BlockNo(self.wide32(0x08, 0x28))
    }
    /// Sets the first block of the inode table.
    pub fn set_inode_table(&mut self, block: BlockNo) {
        self.set_wide32(0x08, 0x28, block.0);
    }
    /// Free blocks.
    pub fn free_blocks(&self) -> u32 {
        self.wide16(0x0C, 0x2C)
    }
    /// Sets the free blocks.
    pub fn set_free_blocks(&mut self, n: u32) {
        self.set_wide16(0x0C, 0x2C, n);
    }
    /// Free inodes.
    pub fn free_inodes(&self) -> u32 {
        self.wide16(0x0E, 0x2E)
    }
    /// Sets the free inodes.
    pub fn set_free_inodes(&mut self, n: u32) {
        self.set_wide16(0x0E, 0x2E, n);
    }
    /// Directories.
    pub fn used_dirs(&self) -> u32 {
        self.wide16(0x10, 0x30)
    }
    /// Sets the directories.
    pub fn set_used_dirs(&mut self, n: u32) {
        self.set_wide16(0x10, 0x30, n);
    }
    /// State of the group.
    pub fn flags(&self) -> GroupFlags {
        GroupFlags(get_le16(&self.raw, 0x12))
    }
    /// Sets the state of the group.
    pub fn set_flags(&mut self, flags: GroupFlags) {
        put_le16(&mut self.raw, 0x12, flags.0);
    }
    /// Inodes at the end of the table that were never used.
    pub fn unused_inodes(&self) -> u32 {
        self.wide16(0x1C, 0x32)
    }
    /// Sets the inodes never used.
    pub fn set_unused_inodes(&mut self, n: u32) {
        self.set_wide16(0x1C, 0x32, n);
    }
    /// Stored checksum of the block bitmap: 32 bits, of a short descriptor the low 16.
    pub fn block_bitmap_checksum(&self) -> u32 {
        self.wide16(0x18, 0x38)
    }
    /// Stores the checksum of the block bitmap.
    pub fn set_block_bitmap_checksum(&mut self, crc: u32) {
        self.set_wide16(0x18, 0x38, crc);
    }
    /// Stored checksum of the inode bitmap: 32 bits, of a short descriptor the low 16.
    pub fn inode_bitmap_checksum(&self) -> u32 {
        self.wide16(0x1A, 0x3A)
    }
    /// Stores the checksum of the inode bitmap.
    pub fn set_inode_bitmap_checksum(&mut self, crc: u32) {
        self.set_wide16(0x1A, 0x3A, crc);
    }
    /// The bits of a bitmap checksum that this descriptor can store.
    pub(super) fn checksum_mask(&self) -> u32 {
        if self.is_long() { u32::MAX } else { 0xFFFF }
    }
    /// Stored checksum of the descriptor.
    pub fn checksum(&self) -> u16 {
        get_le16(&self.raw, CHECKSUM_AT)
    }

    /// What the checksum of this descriptor must be; `None` if the volume has none.
    fn computed_checksum(&self, sb: &Superblock, group: u32) -> Option<u16> {
        let (head, tail) = (&self.raw[..CHECKSUM_AT], &self.raw[CHECKSUM_AT + 2..]);
        if sb.has_metadata_checksums() {
            let FsSeed(seed) = sb.seed();
            let mut start = [0; 4 + CHECKSUM_AT + 2];
            start[..4].copy_from_slice(&group.to_le_bytes());
            start[4..4 + CHECKSUM_AT].copy_from_slice(head);
            return Some(crc32c(crc32c(seed, &start), tail) as u16);
        }
        if sb.ro_compat().has(RoCompat::GDT_CSUM) {
            let crc = crc16(crc16(!0, &sb.uuid()), &group.to_le_bytes());
            return Some(crc16(crc16(crc, head), tail));
        }
        None
    }

    /// Stores the checksum that the features of the volume ask for (`metadata_csum`, `uninit_bg` or
    /// none; ondisk-I3).
    pub fn update_checksum(&mut self, sb: &Superblock, group: u32) {
        if let Some(crc) = self.computed_checksum(sb, group) {
            put_le16(&mut self.raw, CHECKSUM_AT, crc);
        }
    }

    /// Checks the checksum.
    ///
    /// # Errors
    /// The stored one is another one; the error names the group.
    pub fn verify_checksum(&self, sb: &Superblock, group: u32) -> Result<(), Corrupt> {
        let Some(crc) = self.computed_checksum(sb, group) else {
            return Ok(());
        };
        Corrupt::check(WHAT, self.checksum().into(), crc.into()).map_err(|e| e.at_group(group))
    }
}

impl std::fmt::Debug for GroupDesc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupDesc")
            .field("block_bitmap", &self.block_bitmap())
            .field("inode_bitmap", &self.inode_bitmap())
            .field("inode_table", &self.inode_table())
            .field("free_blocks", &self.free_blocks())
            .field("free_inodes", &self.free_inodes())
            .field("used_dirs", &self.used_dirs())
            .field("flags", &self.flags())
            .field("unused_inodes", &self.unused_inodes())
            .finish_non_exhaustive()
    }
}
