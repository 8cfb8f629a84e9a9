//! The superblock: 1024 bytes at byte offset 1024, with backups at the start of some groups.
//!
//! Fields and their offsets stand in the `fields!` lists below and in the setters next to them.
//! Times are seconds since 1970 with 40 bits (32 low bits in place, 8 high bits in a byte near the
//! end). Counts of blocks have 64 bits in two halves. The last word is the CRC32C of the bytes
//! before it, from `!0`.

use super::{Compat, FsSeed, GROUP_DESC_BYTES_32, GROUP_DESC_BYTES_64, HashVersion};
use super::{INODE_BYTES_OLD, Incompat, RoCompat};
use crate::Corrupt;
use crate::field::{bit_set, fields};
use base::bytes::{get_le16, get_le32, put_le16, put_le32};
use base::checksum::crc32c;
use base::{BlockNo, Ino};

/// Byte offset of the primary superblock on the device.
pub const SUPERBLOCK_AT: u64 = 1024;
/// Bytes of a superblock.
pub const SUPERBLOCK_BYTES: usize = 1024;
/// `s_magic`.
pub const SUPERBLOCK_MAGIC: u16 = 0xEF53;

const WHAT: &str = "ext4 superblock";
const CHECKSUM_AT: usize = 0x3FC;
const CHECKSUM_CRC32C: u8 = 1;
const JOURNAL_BACKUP_WORDS: usize = 17;
/// Blocks and inodes of a group are counted in 16 bits, as short descriptors have them, whatever
/// the bitmap of a volume with large blocks could hold.
const GROUP_BITS: u64 = 1 << 16;

bit_set! {
    /// State of the volume (`s_state`).
    State: u16, "STATE_" {
        /// Unmounted cleanly.
        VALID = 1, "clean";
        /// Damage was noticed.
        ERRORS = 2, "errors";
        /// Orphans are being deleted.
        ORPHANS = 4, "orphans";
    }
}

bit_set! {
    /// Miscellaneous flags (`s_flags`).
    SuperblockFlags: u32, "FLAG_" {
        /// Directory hashes take characters as signed.
        SIGNED_HASH = 1, "signed_directory_hash";
        /// Directory hashes take characters as unsigned.
        UNSIGNED_HASH = 2, "unsigned_directory_hash";
        /// Made for testing.
        TEST = 4, "test_filesystem";
    }
}

/// A superblock; keeps bytes it does not know.
#[derive(Clone, PartialEq, Eq)]
pub struct Superblock {
    pub(super) raw: Box<[u8; SUPERBLOCK_BYTES]>,
}

impl Superblock {
    /// A superblock of zeros with the magic number: for mkfs, which sets every field itself.
    pub fn blank() -> Superblock {
        let mut raw = Box::new([0; SUPERBLOCK_BYTES]);
        put_le16(&mut raw[..], 0x38, SUPERBLOCK_MAGIC);
        Superblock { raw }
    }

    /// Reads and checks a superblock: magic, checksum (with `metadata_csum`), geometry. After that
    /// no computation on the geometry overflows or divides by zero. Whether the features are
    /// supported is the caller's business.
    ///
    /// # Errors
    /// Any of these is wrong.
    pub fn parse(buf: &[u8]) -> Result<Superblock, Corrupt> {
        let sb = Superblock::parse_torn(buf)?;
        sb.check_checksum()?;
        Ok(sb)
    }

    /// Reads a superblock whose sectors may be of different times, because a write of it was cut:
    /// the checksum is not looked at. Only fields that the cut write did not change (geometry,
    /// UUID, place of the journal) can be believed, and only if another structure vouches for them.
    ///
    /// # Errors
    /// Magic or geometry is wrong.
    pub fn parse_torn(buf: &[u8]) -> Result<Superblock, Corrupt> {
        let buf = Corrupt::need(WHAT, buf, SUPERBLOCK_BYTES)?;
        let magic = get_le16(buf, 0x38);
        if magic != SUPERBLOCK_MAGIC {
            return Err(Corrupt::magic(WHAT, magic.into(), SUPERBLOCK_MAGIC.into()));
        }
        let mut raw = Box::new([0; SUPERBLOCK_BYTES]);
        raw.copy_from_slice(buf);
        let sb = Superblock { raw };
        sb.check_geometry()?;
        Ok(sb)
    }

    fn check_checksum(&self) -> Result<(), Corrupt> {
        if !self.has_metadata_checksums() {
            return Ok(());
        }
        if self.checksum_type() != CHECKSUM_CRC32C {
            let kind = self.checksum_type().into();
            return Err(Corrupt::field(
                WHAT,
                "s_checksum_type",
                kind,
                "only 1 (crc32c) is known",
            ));
        }
        let computed = crc32c(!0, &self.raw[..CHECKSUM_AT]);
        Corrupt::check(WHAT, get_le32(&self.raw[..], CHECKSUM_AT), computed)
    }

    fn check_geometry(&self) -> Result<(), Corrupt> {
        self.check_units()?;
        self.check_sizes()?;
        self.check_counts()
    }

    /// Sizes of block, cluster and group.
    fn check_units(&self) -> Result<(), Corrupt> {
        let log = self.log_block_size();
        need(
            log <= 6,
            "s_log_block_size",
            log,
            "blocks have 1 KiB to 64 KiB",
        )?;
        let log_cluster = self.log_cluster_size();
        let has_clusters = self.ro_compat().has(RoCompat::BIGALLOC);
        let possible = !has_clusters || (log <= log_cluster && log_cluster <= 20);
        need(
            possible,
            "s_log_cluster_size",
            log_cluster,
            "no possible cluster size",
        )?;
        let ratio = if has_clusters {
            1u64 << (log_cluster - log)
        } else {
            1
        };

        let bits = u64::from(self.block_bytes()) * 8;
        let blocks = u64::from(self.blocks_per_group());
        let most = bits.min(GROUP_BITS - 8) * ratio;
        let fits = (8..=most).contains(&blocks) && blocks.is_multiple_of(8);
        need(
            fits,
            "s_blocks_per_group",
            blocks,
            "one bitmap block and 16 bits for the free ones describe the group",
        )?;
        let clusters = u64::from(self.clusters_per_group());
        let same = clusters * ratio == blocks;
        need(
            same,
            "s_clusters_per_group",
            clusters,
            "contradicts the blocks per group",
        )?;
        let inodes = u64::from(self.inodes_per_group());
        let fits = (1..=bits.min(GROUP_BITS - 1)).contains(&inodes);
        need(
            fits,
            "s_inodes_per_group",
            inodes,
            "one bitmap block and 16 bits for the free ones describe the group",
        )
    }

    /// Sizes of inode and descriptor.
    fn check_sizes(&self) -> Result<(), Corrupt> {
        let inode = self.inode_bytes();
        let possible = INODE_BYTES_OLD..=self.block_bytes() as usize;
        let ok = inode.is_power_of_two() && possible.contains(&inode);
        need(
            ok,
            "s_inode_size",
            inode as u64,
            "a power of two from 128 to the block size",
        )?;
        let desc = self.desc_size_raw();
        let wide = self.incompat().has(Incompat::WIDE_BLOCKS);
        let ok = !wide || (desc.is_power_of_two() && (64..=1024).contains(&desc));
        need(ok, "s_desc_size", desc, "a power of two from 64 to 1024")?;
        let flex = self.log_groups_per_flex();
        need(flex < 32, "s_log_groups_per_flex", flex, "too many groups")?;
        let reserved = self.reserved_gdt_blocks();
        let fits = u32::from(reserved) <= self.block_bytes() / 4;
        need(
            fits,
            "s_reserved_gdt_blocks",
            reserved,
            "one indirect block lists them",
        )
    }

    /// Counts of blocks, groups and inodes.
    fn check_counts(&self) -> Result<(), Corrupt> {
        let first = self.first_data_block();
        let blocks = self.blocks_count();
        let inside = first <= 1 && u64::from(first) < blocks;
        need(inside, "s_first_data_block", first, "0 or 1")?;
        need(
            blocks < 1 << 48,
            "s_blocks_count",
            blocks,
            "blocks have 48-bit numbers",
        )?;
        let groups = (blocks - u64::from(first)).div_ceil(u64::from(self.blocks_per_group()));
        let total = groups.checked_mul(u64::from(self.inodes_per_group()));
        let listed = u64::from(self.inodes_count());
        need(
            total == Some(listed),
            "s_inodes_count",
            listed,
            "inodes per group times groups",
        )
    }

    fields! { le;
        inodes_count / set_inodes_count: u32, 0x00, "s_inodes_count", "Inodes of the volume";
        free_inodes / set_free_inodes: u32, 0x10, "s_free_inodes_count", "Free inodes";
        first_data_block / set_first_data_block: u32, 0x14, "s_first_data_block", "Block of the superblock: 1 with 1 KiB blocks, else 0";
        log_block_size / set_log_block_size: u32, 0x18, "s_log_block_size", "Block size is 1024 shifted left by this";
        log_cluster_size / set_log_cluster_size: u32, 0x1C, "s_log_cluster_size", "Cluster size, likewise";
        blocks_per_group / set_blocks_per_group: u32, 0x20, "s_blocks_per_group", "Blocks in a group";
        clusters_per_group / set_clusters_per_group: u32, 0x24, "s_clusters_per_group", "Clusters in a group";
        inodes_per_group / set_inodes_per_group: u32, 0x28, "s_inodes_per_group", "Inodes in a group";
        mount_count / set_mount_count: u16, 0x34, "s_mnt_count", "Mounts since the last check";
        max_mount_count / set_max_mount_count: u16, 0x36, "s_max_mnt_count", "Check after so many mounts; 0xFFFF never";
        errors_behavior / set_errors_behavior: u16, 0x3C, "s_errors", "On damage: 1 continue, 2 read-only, 3 panic";
        check_interval / set_check_interval: u32, 0x44, "s_checkinterval", "Check after so many seconds; 0 never";
        creator_os / set_creator_os: u32, 0x48, "s_creator_os", "0 is Linux";
        revision / set_revision: u32, 0x4C, "s_rev_level", "0 original, 1 with features";
        group_of_copy / set_group_of_copy: u16, 0x5A, "s_block_group_nr", "Group in which this copy lies";
        reserved_gdt_blocks / set_reserved_gdt_blocks: u16, 0xCE, "s_reserved_gdt_blocks", "Blocks kept for more group descriptors";
        journal_dev / set_journal_dev: u32, 0xE4, "s_journal_dev", "Device of an external journal";
        journal_backup_type / set_journal_backup_type: u8, 0xFD, "s_jnl_backup_type", "1 if the journal backup is valid";
        desc_size_raw / set_desc_size: u16, 0xFE, "s_desc_size", "Bytes of a group descriptor as stored";
        default_mount_options / set_default_mount_options: u32, 0x100, "s_default_mount_opts", "Mount options; 4 user_xattr, 8 acl";
        first_meta_group / set_first_meta_group: u32, 0x104, "s_first_meta_bg", "First meta group with feature meta_bg";
        min_extra_isize / set_min_extra_isize: u16, 0x15C, "s_min_extra_isize", "Extra bytes every inode has";
        want_extra_isize / set_want_extra_isize: u16, 0x15E, "s_want_extra_isize", "Extra bytes new inodes get";
        raid_stride / set_raid_stride: u16, 0x164, "s_raid_stride", "RAID stride in blocks";
        raid_stripe_width / set_raid_stripe_width: u32, 0x170, "s_raid_stripe_width", "RAID stripe in blocks";
        log_groups_per_flex / set_log_groups_per_flex: u8, 0x174, "s_log_groups_per_flex", "A flexible group has two to this many groups";
        checksum_type / set_checksum_type: u8, 0x175, "s_checksum_type", "1 is CRC32C";
        kbytes_written / set_kbytes_written: u64, 0x178, "s_kbytes_written", "KiB written in all";
        error_count / set_error_count: u32, 0x194, "s_error_count", "Errors noticed";
        first_error_line / set_first_error_line: u32, 0x1C8, "s_first_error_line", "Line of code of the first error";
        first_error_block / set_first_error_block: u64, 0x1A0, "s_first_error_block", "Block of the first error";
        last_error_line / set_last_error_line: u32, 0x1D4, "s_last_error_line", "Line of code of the last error";
        last_error_block / set_last_error_block: u64, 0x1D8, "s_last_error_block", "Block of the last error";
        overhead_clusters / set_overhead_clusters: u32, 0x248, "s_overhead_clusters", "Clusters of metadata; 0 if not recorded";
        checksum_seed_raw / set_checksum_seed: u32, 0x270, "s_checksum_seed", "Checksum seed with feature metadata_csum_seed";
        first_error_code / set_first_error_code: u8, 0x27A, "s_first_error_errcode", "Kind of the first error";
        last_error_code / set_last_error_code: u8, 0x27B, "s_last_error_errcode", "Kind of the last error";
    }

    /// How names are compared with feature `casefold`, for [`Folding::new`](crate::Folding::new)
    /// (`s_encoding`, `s_encoding_flags`).
    pub fn name_encoding(&self) -> [u8; 4] {
        self.raw[0x27C..0x280].try_into().expect("four bytes")
    }
    /// Sets how names are compared.
    pub fn set_name_encoding(&mut self, fields: [u8; 4]) {
        self.raw[0x27C..0x280].copy_from_slice(&fields);
    }

    /// Blocks of the volume (`s_blocks_count_lo/hi`).
    pub fn blocks_count(&self) -> u64 {
        self.wide(0x04, 0x150)
    }
    /// Sets the blocks of the volume.
    pub fn set_blocks_count(&mut self, n: u64) {
        self.set_wide(0x04, 0x150, n);
    }
    /// Blocks only the super-user may allocate (`s_r_blocks_count_lo/hi`).
    pub fn reserved_blocks(&self) -> u64 {
        self.wide(0x08, 0x154)
    }
    /// Sets the reserved blocks.
    pub fn set_reserved_blocks(&mut self, n: u64) {
        self.set_wide(0x08, 0x154, n);
    }
    /// User who may also allocate the reserved blocks (`s_def_resuid`, and its upper half
    /// `s_def_resuid_hi` of Linux 6.18).
    pub fn reserved_uid(&self) -> u32 {
        self.halves(0x50, 0x284)
    }
    /// Group whose members may also allocate the reserved blocks, unless it is 0 (`s_def_resgid`,
    /// `s_def_resgid_hi`).
    pub fn reserved_gid(&self) -> u32 {
        self.halves(0x52, 0x286)
    }
    fn halves(&self, low: usize, high: usize) -> u32 {
        let half = |at| u32::from(get_le16(&self.raw[..], at));
        half(high) << 16 | half(low)
    }
    /// Free blocks (`s_free_blocks_count_lo/hi`). A hint: the group descriptors rule.
    pub fn free_blocks(&self) -> u64 {
        self.wide(0x0C, 0x158)
    }
    /// Sets the free blocks.
    pub fn set_free_blocks(&mut self, n: u64) {
        self.set_wide(0x0C, 0x158, n);
    }
    // The high halves mean something only with feature 64bit.
    fn wide(&self, low: usize, high: usize) -> u64 {
        let low = u64::from(get_le32(&self.raw[..], low));
        if !self.incompat().has(Incompat::WIDE_BLOCKS) {
            return low;
        }
        low | u64::from(get_le32(&self.raw[..], high)) << 32
    }
    fn set_wide(&mut self, low: usize, high: usize, n: u64) {
        put_le32(&mut self.raw[..], low, n as u32);
        if self.incompat().has(Incompat::WIDE_BLOCKS) {
            put_le32(&mut self.raw[..], high, (n >> 32) as u32);
        }
    }

    /// Bytes per block.
    pub fn block_bytes(&self) -> u32 {
        1024 << self.log_block_size().min(6)
    }
    /// Bytes of an inode (`s_inode_size`).
    pub fn inode_bytes(&self) -> usize {
        if self.revision() == 0 {
            INODE_BYTES_OLD
        } else {
            get_le16(&self.raw[..], 0x58).into()
        }
    }
    /// Sets the bytes of an inode.
    pub fn set_inode_bytes(&mut self, bytes: u16) {
        put_le16(&mut self.raw[..], 0x58, bytes);
    }
    /// Bytes of a group descriptor: 32 without feature 64bit.
    pub fn desc_bytes(&self) -> usize {
        if self.incompat().has(Incompat::WIDE_BLOCKS) {
            usize::from(self.desc_size_raw()).max(GROUP_DESC_BYTES_64)
        } else {
            GROUP_DESC_BYTES_32
        }
    }
    /// First inode for ordinary files (`s_first_ino`).
    pub fn first_ino(&self) -> Ino {
        if self.revision() == 0 {
            Ino(11)
        } else {
            Ino(get_le32(&self.raw[..], 0x54))
        }
    }
    /// Sets the first inode for ordinary files.
    pub fn set_first_ino(&mut self, ino: Ino) {
        put_le32(&mut self.raw[..], 0x54, ino.0);
    }
    /// State of the volume (`s_state`).
    pub fn state(&self) -> State {
        State(get_le16(&self.raw[..], 0x3A))
    }
    /// Sets the state.
    pub fn set_state(&mut self, state: State) {
        put_le16(&mut self.raw[..], 0x3A, state.0);
    }
    /// Flags (`s_flags`).
    pub fn flags(&self) -> SuperblockFlags {
        SuperblockFlags(get_le32(&self.raw[..], 0x160))
    }
    /// Sets the flags.
    pub fn set_flags(&mut self, flags: SuperblockFlags) {
        put_le32(&mut self.raw[..], 0x160, flags.0);
    }
    /// Features that may be ignored.
    pub fn compat(&self) -> Compat {
        Compat(get_le32(&self.raw[..], 0x5C))
    }
    /// Sets them.
    pub fn set_compat(&mut self, features: Compat) {
        put_le32(&mut self.raw[..], 0x5C, features.0);
    }
    /// Features that must be known.
    pub fn incompat(&self) -> Incompat {
        Incompat(get_le32(&self.raw[..], 0x60))
    }
    /// Sets them.
    pub fn set_incompat(&mut self, features: Incompat) {
        put_le32(&mut self.raw[..], 0x60, features.0);
    }
    /// Features that must be known to write.
    pub fn ro_compat(&self) -> RoCompat {
        RoCompat(get_le32(&self.raw[..], 0x64))
    }
    /// Sets them.
    pub fn set_ro_compat(&mut self, features: RoCompat) {
        put_le32(&mut self.raw[..], 0x64, features.0);
    }
    /// True with feature `metadata_csum`.
    pub fn has_metadata_checksums(&self) -> bool {
        self.ro_compat().has(RoCompat::METADATA_CSUM)
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.raw[at..at + N]);
        out
    }
    /// UUID of the volume (`s_uuid`).
    pub fn uuid(&self) -> [u8; 16] {
        self.array(0x68)
    }
    /// Sets the UUID.
    pub fn set_uuid(&mut self, uuid: [u8; 16]) {
        self.raw[0x68..0x78].copy_from_slice(&uuid);
    }
    /// Label, without the zeros behind it (`s_volume_name`).
    pub fn label(&self) -> &[u8] {
        until_zero(&self.raw[0x78..0x88])
    }
    /// Sets the label; bytes beyond 16 are cut off.
    pub fn set_label(&mut self, label: &[u8]) {
        set_text(&mut self.raw[0x78..0x88], label);
    }
    /// Where the volume was last mounted (`s_last_mounted`).
    pub fn last_mounted(&self) -> &[u8] {
        until_zero(&self.raw[0x88..0xC8])
    }
    /// Sets where the volume was last mounted; bytes beyond 64 are cut off.
    pub fn set_last_mounted(&mut self, path: &[u8]) {
        set_text(&mut self.raw[0x88..0xC8], path);
    }
    /// UUID of an external journal (`s_journal_uuid`).
    pub fn journal_uuid(&self) -> [u8; 16] {
        self.array(0xD0)
    }
    /// Sets the UUID of the external journal.
    pub fn set_journal_uuid(&mut self, uuid: [u8; 16]) {
        self.raw[0xD0..0xE0].copy_from_slice(&uuid);
    }
    /// Inode of the internal journal (`s_journal_inum`); 0 if there is none.
    pub fn journal_ino(&self) -> Ino {
        Ino(get_le32(&self.raw[..], 0xE0))
    }
    /// Sets the inode of the internal journal.
    pub fn set_journal_ino(&mut self, ino: Ino) {
        put_le32(&mut self.raw[..], 0xE0, ino.0);
    }
    /// Head of the list of orphans (`s_last_orphan`); 0 if it is empty.
    pub fn last_orphan(&self) -> Ino {
        Ino(get_le32(&self.raw[..], 0xE8))
    }
    /// Sets the head of the list of orphans.
    pub fn set_last_orphan(&mut self, ino: Ino) {
        put_le32(&mut self.raw[..], 0xE8, ino.0);
    }
    /// Inode of the orphan file (`s_orphan_file_inum`).
    pub fn orphan_file_ino(&self) -> Ino {
        Ino(get_le32(&self.raw[..], 0x280))
    }
    /// Sets the inode of the orphan file.
    pub fn set_orphan_file_ino(&mut self, ino: Ino) {
        put_le32(&mut self.raw[..], 0x280, ino.0);
    }
    /// Inode of `lost+found` (`s_lpf_ino`); 0 if not recorded.
    pub fn lost_found_ino(&self) -> Ino {
        Ino(get_le32(&self.raw[..], 0x268))
    }
    /// Inode of the first error (`s_first_error_ino`).
    pub fn first_error_ino(&self) -> Ino {
        Ino(get_le32(&self.raw[..], 0x19C))
    }
    /// Inode of the last error (`s_last_error_ino`).
    pub fn last_error_ino(&self) -> Ino {
        Ino(get_le32(&self.raw[..], 0x1D0))
    }
    /// Function that noticed the first error (`s_first_error_func`).
    pub fn first_error_func(&self) -> &[u8] {
        until_zero(&self.raw[0x1A8..0x1C8])
    }
    /// Function that noticed the last error (`s_last_error_func`).
    pub fn last_error_func(&self) -> &[u8] {
        until_zero(&self.raw[0x1E0..0x200])
    }
    /// Groups of the two backups with feature `sparse_super2` (`s_backup_bgs`).
    pub fn backup_groups(&self) -> [u32; 2] {
        [
            get_le32(&self.raw[..], 0x24C),
            get_le32(&self.raw[..], 0x250),
        ]
    }
    /// Copy of the journal inode's block area and size (`s_jnl_blocks`): 15 words of `i_block`,
    /// then size high and low.
    pub fn journal_backup(&self) -> [u32; JOURNAL_BACKUP_WORDS] {
        std::array::from_fn(|n| get_le32(&self.raw[..], 0x10C + 4 * n))
    }
    /// Sets the copy of the journal inode and marks it valid.
    pub fn set_journal_backup(&mut self, words: &[u32; JOURNAL_BACKUP_WORDS]) {
        for (n, &word) in words.iter().enumerate() {
            put_le32(&mut self.raw[..], 0x10C + 4 * n, word);
        }
        self.set_journal_backup_type(1);
    }
    /// Seed of the directory hashes (`s_hash_seed`), four little-endian words.
    pub fn hash_seed(&self) -> [u32; 4] {
        std::array::from_fn(|n| get_le32(&self.raw[..], 0xEC + 4 * n))
    }
    /// Sets the hash seed from the bytes of a UUID.
    pub fn set_hash_seed(&mut self, uuid: [u8; 16]) {
        self.raw[0xEC..0xFC].copy_from_slice(&uuid);
    }
    /// Hash that new directory indexes get (`s_def_hash_version`), as stored; `None` if this crate
    /// does not know it.
    pub fn default_hash(&self) -> Option<HashVersion> {
        HashVersion::from_code(self.raw[0xFC])
    }
    /// Sets the hash of new directory indexes.
    pub fn set_default_hash(&mut self, version: HashVersion) {
        self.raw[0xFC] = version.code();
    }

    /// Where checksums of this volume start.
    pub fn seed(&self) -> FsSeed {
        if self.incompat().has(Incompat::CSUM_SEED) {
            FsSeed(self.checksum_seed_raw())
        } else {
            FsSeed::of_uuid(&self.uuid())
        }
    }

    fn time40(&self, low: usize, high: usize) -> u64 {
        u64::from(get_le32(&self.raw[..], low)) | u64::from(self.raw[high]) << 32
    }
    fn set_time40(&mut self, low: usize, high: usize, secs: u64) {
        put_le32(&mut self.raw[..], low, secs as u32);
        self.raw[high] = (secs >> 32) as u8;
    }
    /// Time of the last mount (`s_mtime`), seconds since 1970.
    pub fn mount_time(&self) -> u64 {
        self.time40(0x2C, 0x275)
    }
    /// Sets the time of the last mount.
    pub fn set_mount_time(&mut self, secs: u64) {
        self.set_time40(0x2C, 0x275, secs);
    }
    /// Time of the last write (`s_wtime`), seconds since 1970.
    pub fn write_time(&self) -> u64 {
        self.time40(0x30, 0x274)
    }
    /// Sets the time of the last write.
    pub fn set_write_time(&mut self, secs: u64) {
        self.set_time40(0x30, 0x274, secs);
    }
    /// Time of the last check (`s_lastcheck`), seconds since 1970.
    pub fn check_time(&self) -> u64 {
        self.time40(0x40, 0x277)
    }
    /// Sets the time of the last check.
    pub fn set_check_time(&mut self, secs: u64) {
        self.set_time40(0x40, 0x277, secs);
    }
    /// Time of mkfs (`s_mkfs_time`), seconds since 1970.
    pub fn mkfs_time(&self) -> u64 {
        self.time40(0x108, 0x276)
    }
    /// Sets the time of mkfs.
    pub fn set_mkfs_time(&mut self, secs: u64) {
        self.set_time40(0x108, 0x276, secs);
    }
    /// Time of the first error (`s_first_error_time`), seconds since 1970.
    pub fn first_error_time(&self) -> u64 {
        self.time40(0x198, 0x278)
    }
    /// Time of the last error (`s_last_error_time`), seconds since 1970.
    pub fn last_error_time(&self) -> u64 {
        self.time40(0x1CC, 0x279)
    }
    /// Notes an error of the volume: counts it and fills the first and last error records
    /// (`s_first_error_*`, `s_last_error_*`). `code` is one of Linux's numbers for them, no errno:
    /// 5 is EFSCORRUPTED.
    pub fn record_error(&mut self, secs: u64, ino: Ino, block: BlockNo, place: &str, code: u8) {
        if self.error_count() == 0 {
            self.set_time40(0x198, 0x278, secs);
            put_le32(&mut self.raw[..], 0x19C, ino.0);
            self.set_first_error_block(block.0);
            set_text(&mut self.raw[0x1A8..0x1C8], place.as_bytes());
            self.set_first_error_code(code);
        }
        self.set_time40(0x1CC, 0x279, secs);
        put_le32(&mut self.raw[..], 0x1D0, ino.0);
        self.set_last_error_block(block.0);
        set_text(&mut self.raw[0x1E0..0x200], place.as_bytes());
        self.set_last_error_code(code);
        self.set_error_count(self.error_count().saturating_add(1));
    }

    /// The raw bytes; the checksum in them is the one last loaded or encoded.
    pub fn bytes(&self) -> &[u8; SUPERBLOCK_BYTES] {
        &self.raw
    }

    /// Brings the checksum up to date and writes the superblock to the first 1024 bytes of `buf`.
    pub fn encode(&mut self, buf: &mut [u8]) {
        if self.has_metadata_checksums() {
            let crc = crc32c(!0, &self.raw[..CHECKSUM_AT]);
            put_le32(&mut self.raw[..], CHECKSUM_AT, crc);
        }
        buf[..SUPERBLOCK_BYTES].copy_from_slice(&self.raw[..]);
    }
}

fn need(
    ok: bool,
    field: &'static str,
    value: impl Into<u64>,
    reason: &'static str,
) -> Result<(), Corrupt> {
    if ok {
        Ok(())
    } else {
        Err(Corrupt::field(WHAT, field, value.into(), reason))
    }
}

fn until_zero(text: &[u8]) -> &[u8] {
    &text[..text.iter().position(|&b| b == 0).unwrap_or(text.len())]
}

fn set_text(field: &mut [u8], text: &[u8]) {
    let len = text.len().min(field.len());
    field.fill(0);
    field[..len].copy_from_slice(&text[..len]);
}

impl std::fmt::Debug for Superblock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Superblock")
            .field("blocks_count", &self.blocks_count())
            .field("block_bytes", &self.block_bytes())
            .field("inodes_count", &self.inodes_count())
            .field("state", &self.state())
            .field("compat", &self.compat())
            .field("incompat", &self.incompat())
            .field("ro_compat", &self.ro_compat())
            .finish_non_exhaustive()
    }
}
