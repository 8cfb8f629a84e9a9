//! The superblock: 3072 bytes at byte 1024 of block 0, and again of block 1.
//!
//! | offset | field | offset | field |
//! |---|---|---|---|
//! | 0 | magic 0xF2F52010 | 1148 | `extension_count`, 64 names of 8 bytes |
//! | 4 | version, sizes as logarithms | 1664 | `cp_payload` |
//! | 36 | counts of blocks, sections, segments | 1668 | `version`, `init_version`, 256 bytes each |
//! | 72 | first block of each area | 2180 | `feature`, encryption |
//! | 96 | inodes of root, nodes, metadata | 2201 | 8 devices of 68 bytes |
//! | 108 | UUID | 2745 | quota inodes, hot extensions, encoding |
//! | 124 | volume name, 512 UTF-16 units | 2762 | reasons of a stop, errors |
//! | | | 3004 | journal of F2FSJ ([`Superblock::journal`]); 3068: checksum |
//!
//! The fields and their offsets stand in the `fields!` list below.
//! [`Geometry::new`](super::Geometry::new) checks their values; a mounted system changes only
//! version strings, errors, and extensions.

use super::checksum::crc_f2fs;
use super::{BLOCK_BYTES, Features, Nid};
use crate::Corrupt;
use crate::field::fields;
use base::bytes::{get_le16, get_le32, put_le16, put_le32};

/// Byte offset of a superblock in its block.
pub const SUPERBLOCK_AT: usize = 1024;
/// Bytes of a superblock.
pub const SUPERBLOCK_BYTES: usize = 3072;
/// `magic`.
pub const SUPERBLOCK_MAGIC: u32 = 0xF2F5_2010;
/// Stands in place of the magic while no other program may take the volume for an F2FS
/// ([`Superblock::is_hidden`]).
pub const SUPERBLOCK_HIDDEN: u32 = !SUPERBLOCK_MAGIC;
/// Names in the list of extensions, cold and hot together.
pub const EXTENSIONS_MAX: usize = 64;
/// Bytes of a name in that list.
pub const EXTENSION_BYTES: usize = 8;
/// UTF-16 units of the volume name.
pub const LABEL_UNITS: usize = 512;
/// Offset of the checksum, which `checksum_offset` must repeat.
pub const SUPERBLOCK_CHECKSUM_AT: u32 = 3068;

pub(super) const WHAT: &str = "f2fs superblock";
const LABEL_AT: usize = 124;
const EXTENSIONS_AT: usize = 1152;
const VERSION_BYTES: usize = 256;
const STOP_REASONS: usize = 32;
const ERROR_BYTES: usize = 16;

/// A superblock; keeps bytes it does not know.
#[derive(Clone, PartialEq, Eq)]
pub struct Superblock {
    pub(super) raw: Box<[u8; SUPERBLOCK_BYTES]>,
}

impl Superblock {
    /// A superblock of zeros with the magic number: for mkfs, which sets every field itself.
    pub fn blank() -> Superblock {
        let mut raw = Box::new([0; SUPERBLOCK_BYTES]);
        put_le32(&mut raw[..], 0, SUPERBLOCK_MAGIC);
        Superblock { raw }
    }

    /// Reads a superblock from its 3072 bytes: magic (or the one of a [hidden](Self::is_hidden)
    /// volume with a journal), checksum (with feature `sb_checksum`) and the lengths of lists. What
    /// it says of the volume is checked by [`Geometry::new`](super::Geometry::new).
    ///
    /// # Errors
    /// Any of these is wrong.
    pub fn parse(buf: &[u8]) -> Result<Superblock, Corrupt> {
        let buf = Corrupt::need(WHAT, buf, SUPERBLOCK_BYTES)?;
        let magic = get_le32(buf, 0);
        let mut raw = Box::new([0; SUPERBLOCK_BYTES]);
        raw.copy_from_slice(buf);
        let sb = Superblock { raw };
        let hidden = sb.is_hidden() && matches!(sb.journal(), Ok(Some(_)));
        if magic != SUPERBLOCK_MAGIC && !hidden {
            return Err(Corrupt::magic(WHAT, magic, SUPERBLOCK_MAGIC));
        }
        sb.check_checksum()?;
        let listed = u64::from(sb.cold_extension_count()) + u64::from(sb.hot_extension_count());
        if listed > EXTENSIONS_MAX as u64 {
            return Err(Corrupt::field(
                WHAT,
                "extension_count",
                listed,
                "there is room for 64 names",
            ));
        }
        Ok(sb)
    }
    /// Reads the superblock of a block of the device (block 0 or 1).
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn in_block(block: &[u8]) -> Result<Superblock, Corrupt> {
        let block = Corrupt::need(WHAT, block, BLOCK_BYTES)?;
        Superblock::parse(&block[SUPERBLOCK_AT..])
    }

    fn check_checksum(&self) -> Result<(), Corrupt> {
        if !self.features().has(Features::SB_CHKSUM) {
            return Ok(());
        }
        let at = self.checksum_offset();
        if at != SUPERBLOCK_CHECKSUM_AT {
            return Err(Corrupt::field(
                WHAT,
                "checksum_offset",
                at.into(),
                "must be 3068",
            ));
        }
        Corrupt::check(WHAT, self.checksum(), self.computed())
    }
    fn computed(&self) -> u32 {
        crc_f2fs(&self.raw[..SUPERBLOCK_CHECKSUM_AT as usize])
    }

    fields! { le;
        major_version / set_major_version: u16, 4, "major_ver", "Version of the format: 1";
        minor_version / set_minor_version: u16, 6, "minor_ver", "Its minor number";
        log_sector_bytes / set_log_sector_bytes: u32, 8, "log_sectorsize", "Logarithm of the sector size, 9 to 12";
        log_sectors_per_block / set_log_sectors_per_block: u32, 12, "log_sectors_per_block", "Logarithm of the sectors of a block";
        log_block_bytes / set_log_block_bytes: u32, 16, "log_blocksize", "Logarithm of the block size: 12";
        log_blocks_per_seg / set_log_blocks_per_seg: u32, 20, "log_blocks_per_seg", "Logarithm of the blocks of a segment: 9";
        segs_per_sec / set_segs_per_sec: u32, 24, "segs_per_sec", "Segments of a section";
        secs_per_zone / set_secs_per_zone: u32, 28, "secs_per_zone", "Sections of a zone";
        checksum_offset / set_checksum_offset: u32, 32, "checksum_offset", "3068 with feature sb_checksum, else 0";
        block_count / set_block_count: u64, 36, "block_count", "Blocks of the volume";
        section_count / set_section_count: u32, 44, "section_count", "Sections of the main area";
        segment_count / set_segment_count: u32, 48, "segment_count", "Segments of all areas";
        segment_count_cp / set_segment_count_cp: u32, 52, "segment_count_ckpt", "Segments of the checkpoint area";
        segment_count_sit / set_segment_count_sit: u32, 56, "segment_count_sit", "Segments of both copies of the SIT";
        segment_count_nat / set_segment_count_nat: u32, 60, "segment_count_nat", "Segments of both copies of the NAT";
        segment_count_ssa / set_segment_count_ssa: u32, 64, "segment_count_ssa", "Segments of the summary area";
        segment_count_main / set_segment_count_main: u32, 68, "segment_count_main", "Segments of the main area";
        segment0_addr / set_segment0_addr: u32, 72, "segment0_blkaddr", "Block at which the segments begin";
        cp_addr / set_cp_addr: u32, 76, "cp_blkaddr", "First block of the checkpoint area";
        sit_addr / set_sit_addr: u32, 80, "sit_blkaddr", "First block of the SIT";
        nat_addr / set_nat_addr: u32, 84, "nat_blkaddr", "First block of the NAT";
        ssa_addr / set_ssa_addr: u32, 88, "ssa_blkaddr", "First block of the summary area";
        main_addr / set_main_addr: u32, 92, "main_blkaddr", "First block of the main area";
        cold_extension_count / set_cold_extension_count: u32, 1148, "extension_count", "Extensions of cold files in the list";
        cp_payload / set_cp_payload: u32, 1664, "cp_payload", "Blocks of a checkpoint behind its first";
        features_raw / set_features_raw: u32, 2180, "feature", "Features as a number";
        encryption_level / set_encryption_level: u8, 2184, "encryption_level", "Level of the first encryption scheme";
        hot_extension_count / set_hot_extension_count: u8, 2757, "hot_ext_count", "Extensions of hot files in the list, behind the cold ones";
        encoding / set_encoding: u16, 2758, "s_encoding", "Encoding of names with feature casefold";
        encoding_flags / set_encoding_flags: u16, 2760, "s_encoding_flags", "Flags of that encoding";
        checksum / set_checksum: u32, 3068, "crc", "Checksum as stored";
    }

    /// Features.
    pub fn features(&self) -> Features {
        Features(self.features_raw())
    }
    /// Sets the features.
    pub fn set_features(&mut self, features: Features) {
        self.set_features_raw(features.0);
    }
    /// Inode of the root directory (`root_ino`).
    pub fn root_ino(&self) -> Nid {
        Nid(get_le32(&self.raw[..], 96))
    }
    /// Sets `root_ino`.
    pub fn set_root_ino(&mut self, ino: Nid) {
        put_le32(&mut self.raw[..], 96, ino.0);
    }
    /// Inode that stands for the node blocks (`node_ino`).
    pub fn node_ino(&self) -> Nid {
        Nid(get_le32(&self.raw[..], 100))
    }
    /// Sets `node_ino`.
    pub fn set_node_ino(&mut self, ino: Nid) {
        put_le32(&mut self.raw[..], 100, ino.0);
    }
    /// Inode that stands for the metadata areas (`meta_ino`).
    pub fn meta_ino(&self) -> Nid {
        Nid(get_le32(&self.raw[..], 104))
    }
    /// Sets `meta_ino`.
    pub fn set_meta_ino(&mut self, ino: Nid) {
        put_le32(&mut self.raw[..], 104, ino.0);
    }
    /// UUID (`uuid`).
    pub fn uuid(&self) -> [u8; 16] {
        std::array::from_fn(|n| self.raw[108 + n])
    }
    /// Sets the UUID.
    pub fn set_uuid(&mut self, uuid: [u8; 16]) {
        self.raw[108..124].copy_from_slice(&uuid);
    }
    /// Label, up to the first zero (`volume_name`, UTF-16); half pairs become the replacement
    /// character.
    pub fn label(&self) -> String {
        let units = (0..LABEL_UNITS).map(|n| get_le16(&self.raw[..], LABEL_AT + 2 * n));
        char::decode_utf16(units.take_while(|&u| u != 0))
            .map(|c| c.unwrap_or('\u{FFFD}'))
            .collect()
    }
    /// Sets the label; false, and nothing is changed, if it has more than 512 UTF-16 units.
    pub fn set_label(&mut self, label: &str) -> bool {
        if label.encode_utf16().count() > LABEL_UNITS {
            return false;
        }
        self.raw[LABEL_AT..LABEL_AT + 2 * LABEL_UNITS].fill(0);
        for (n, unit) in label.encode_utf16().enumerate() {
            put_le16(&mut self.raw[..], LABEL_AT + 2 * n, unit);
        }
        true
    }

    /// Extensions of files whose data are cold.
    pub fn cold_extensions(&self) -> impl Iterator<Item = &[u8]> {
        let cold = self.cold_extension_count() as usize;
        (0..cold.min(EXTENSIONS_MAX)).map(|n| self.extension(n))
    }
    /// Extensions of files whose data are hot.
    pub fn hot_extensions(&self) -> impl Iterator<Item = &[u8]> {
        let cold = (self.cold_extension_count() as usize).min(EXTENSIONS_MAX);
        let hot = cold + usize::from(self.hot_extension_count());
        (cold..hot.min(EXTENSIONS_MAX)).map(|n| self.extension(n))
    }
    fn extension(&self, n: usize) -> &[u8] {
        let at = EXTENSIONS_AT + n * EXTENSION_BYTES;
        until_zero(&self.raw[at..at + EXTENSION_BYTES])
    }
    /// Sets both lists; false, and nothing is changed, if there are more than 64 names or one is
    /// longer than 7 bytes.
    pub fn set_extensions(&mut self, cold: &[&[u8]], hot: &[&[u8]]) -> bool {
        let fits = |name: &&[u8]| name.len() < EXTENSION_BYTES;
        if cold.len() + hot.len() > EXTENSIONS_MAX || !cold.iter().chain(hot).all(fits) {
            return false;
        }
        let list = &mut self.raw[EXTENSIONS_AT..EXTENSIONS_AT + EXTENSIONS_MAX * EXTENSION_BYTES];
        list.fill(0);
        for (slot, name) in list
            .chunks_exact_mut(EXTENSION_BYTES)
            .zip(cold.iter().chain(hot))
        {
            slot[..name.len()].copy_from_slice(name);
        }
        self.set_cold_extension_count(cold.len() as u32);
        self.set_hot_extension_count(hot.len() as u8);
        true
    }

    /// Kernel that mounted last (`version`).
    pub fn version(&self) -> &[u8] {
        until_zero(&self.raw[1668..1668 + VERSION_BYTES])
    }
    /// Sets it; bytes beyond 255 are cut off.
    pub fn set_version(&mut self, text: &[u8]) {
        set_text(&mut self.raw[1668..1668 + VERSION_BYTES], text);
    }
    /// System that made the volume (`init_version`).
    pub fn init_version(&self) -> &[u8] {
        until_zero(&self.raw[1924..1924 + VERSION_BYTES])
    }
    /// Sets it; bytes beyond 255 are cut off.
    pub fn set_init_version(&mut self, text: &[u8]) {
        set_text(&mut self.raw[1924..1924 + VERSION_BYTES], text);
    }
    /// Salt of the first encryption scheme (`encrypt_pw_salt`).
    pub fn encryption_salt(&self) -> [u8; 16] {
        std::array::from_fn(|n| self.raw[2185 + n])
    }
    /// Path of device `n` of a volume over several devices (`devs`); empty on one device.
    pub fn device_path(&self, n: usize) -> &[u8] {
        match self.raw[2201..2745].chunks_exact(68).nth(n) {
            Some(dev) => until_zero(&dev[..64]),
            None => &[],
        }
    }
    /// Hidden quota files of users, groups and projects (`qf_ino`); 0 where there is none.
    pub fn quota_inos(&self) -> [Nid; 3] {
        std::array::from_fn(|n| Nid(get_le32(&self.raw[..], 2745 + 4 * n)))
    }
    /// Sets the hidden quota files.
    pub fn set_quota_inos(&mut self, inos: [Nid; 3]) {
        for (n, ino) in inos.into_iter().enumerate() {
            put_le32(&mut self.raw[..], 2745 + 4 * n, ino.0);
        }
    }
    /// How often each reason stopped checkpointing (`s_stop_reason`).
    pub fn stop_reasons(&self) -> &[u8] {
        &self.raw[2762..2762 + STOP_REASONS]
    }
    /// Counts a reason; none is counted twice beyond 255. Reasons without a number here are left
    /// out.
    pub fn record_stop(&mut self, reason: usize) {
        if reason < STOP_REASONS {
            let count = &mut self.raw[2762 + reason];
            *count = count.saturating_add(1);
        }
    }
    /// Kinds of damage that were noticed, one bit each, lowest first (`s_errors`).
    pub fn errors(&self) -> &[u8] {
        &self.raw[2794..2794 + ERROR_BYTES]
    }
    /// Notes a kind of damage; true if it is new.
    pub fn record_error(&mut self, kind: usize) -> bool {
        let errors = &mut self.raw[2794..2794 + ERROR_BYTES];
        kind < 8 * ERROR_BYTES && !super::bits::set_bit_le(errors, kind)
    }

    /// The raw bytes; the checksum in them is the one last loaded or encoded.
    pub fn bytes(&self) -> &[u8; SUPERBLOCK_BYTES] {
        &self.raw
    }
    /// Brings the checksum up to date (with feature `sb_checksum`).
    pub fn update_checksum(&mut self) {
        if self.features().has(Features::SB_CHKSUM) {
            self.set_checksum_offset(SUPERBLOCK_CHECKSUM_AT);
            self.set_checksum(self.computed());
        }
    }
    /// Brings the checksum up to date and writes the superblock to its place in a block.
    ///
    /// # Panics
    /// `block` is shorter than a block.
    pub fn encode(&mut self, block: &mut [u8]) {
        self.update_checksum();
        block[SUPERBLOCK_AT..BLOCK_BYTES].copy_from_slice(&self.raw[..]);
    }
}

fn until_zero(text: &[u8]) -> &[u8] {
    &text[..text.iter().position(|&b| b == 0).unwrap_or(text.len())]
}

fn set_text(field: &mut [u8], text: &[u8]) {
    let len = text.len().min(field.len() - 1);
    field.fill(0);
    field[..len].copy_from_slice(&text[..len]);
}

impl std::fmt::Debug for Superblock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Superblock")
            .field("block_count", &self.block_count())
            .field("segment_count_main", &self.segment_count_main())
            .field("features", &self.features())
            .finish_non_exhaustive()
    }
}
