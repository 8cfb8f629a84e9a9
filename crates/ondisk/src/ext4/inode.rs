//! The inode: 128 bytes, or more (mke2fs: 256) with extra fields and room for extended attributes.
//!
//! | offset | size | field | | offset | size | field |
//! |---|---|---|---|---|---|---|
//! | 0x00 | le16 | `i_mode` | | 0x74 | le16 | `i_blocks_high` |
//! | 0x02 | le16 | `i_uid` | | 0x76 | le16 | `i_file_acl_high` |
//! | 0x04 | le32 | `i_size_lo` | | 0x78 | le16 | `i_uid_high` |
//! | 0x08 | le32 | `i_atime` | | 0x7A | le16 | `i_gid_high` |
//! | 0x0C | le32 | `i_ctime` | | 0x7C | le16 | `i_checksum_lo` |
//! | 0x10 | le32 | `i_mtime` | | 0x80 | le16 | `i_extra_isize` |
//! | 0x14 | le32 | `i_dtime` | | 0x82 | le16 | `i_checksum_hi` |
//! | 0x18 | le16 | `i_gid` | | 0x84 | le32 | `i_ctime_extra` |
//! | 0x1A | le16 | `i_links_count` | | 0x88 | le32 | `i_mtime_extra` |
//! | 0x1C | le32 | `i_blocks_lo` | | 0x8C | le32 | `i_atime_extra` |
//! | 0x20 | le32 | `i_flags` | | 0x90 | le32 | `i_crtime` |
//! | 0x24 | le32 | `i_version` | | 0x94 | le32 | `i_crtime_extra` |
//! | 0x28 | 60 | `i_block` | | 0x98 | le32 | `i_version_hi` |
//! | 0x64 | le32 | `i_generation` | | 0x9C | le32 | `i_projid` |
//! | 0x68 | le32 | `i_file_acl_lo` | | 0xA0 | | end of the fields known here |
//! | 0x6C | le32 | `i_size_high` | | 0x80 + `i_extra_isize` | | extended attributes |
//!
//! A field beyond 0x80 exists only if it ends before 0x80 + `i_extra_isize`. The checksum covers
//! inode number, generation and all bytes of the inode with its own two halves zero.

use super::{FsSeed, InodeFlags, Timestamp};
use crate::Corrupt;
use crate::field::fields;
use base::bytes::{get_le16, get_le32, put_le16, put_le32};
use base::{BlockNo, Ino};
use smallvec::SmallVec;

/// Bytes of an inode of revision 0, and the part that every inode has.
pub const INODE_BYTES_OLD: usize = 128;
/// Bytes of an inode as `mke2fs` makes them. Such inodes need no memory of their own.
pub const INODE_BYTES_COMMON: usize = 256;
/// Extra bytes that new inodes get (mke2fs 1.47 and Linux): up to and including the project.
pub const INODE_EXTRA_BYTES_DEFAULT: u16 = 32;
/// Bytes of the block area.
pub const BLOCK_AREA_BYTES: usize = 60;

/// Mask of the file type in a mode.
pub const MODE_TYPE_MASK: u16 = 0xF000;
/// Named pipe.
pub const MODE_FIFO: u16 = 0x1000;
/// Character device.
pub const MODE_CHAR: u16 = 0x2000;
/// Directory.
pub const MODE_DIR: u16 = 0x4000;
/// Block device.
pub const MODE_BLOCK: u16 = 0x6000;
/// Regular file.
pub const MODE_REGULAR: u16 = 0x8000;
/// Symbolic link.
pub const MODE_SYMLINK: u16 = 0xA000;
/// Socket.
pub const MODE_SOCKET: u16 = 0xC000;

const WHAT: &str = "inode";
const BLOCK_AREA_AT: usize = 0x28;
const CHECKSUM_LO_AT: usize = 0x7C;
const CHECKSUM_HI_AT: usize = 0x82;
const _: () = assert!(BLOCK_AREA_AT + BLOCK_AREA_BYTES == 0x64);

/// An inode; keeps bytes it does not know, extended attributes included.
#[derive(Clone, PartialEq, Eq)]
pub struct Inode {
    raw: SmallVec<[u8; INODE_BYTES_COMMON]>,
}

impl Inode {
    /// An inode of zeros with `bytes` bytes and `extra` bytes of extra fields.
    ///
    /// # Panics
    /// If `bytes` is below 128 or the extra fields do not fit.
    pub fn blank(bytes: usize, extra: u16) -> Inode {
        assert!(bytes >= INODE_BYTES_OLD, "an inode has at least 128 bytes");
        let mut raw = SmallVec::from_elem(0, bytes);
        if bytes > INODE_BYTES_OLD {
            assert!(
                usize::from(extra) <= bytes - INODE_BYTES_OLD,
                "extra fields fit the inode"
            );
            put_le16(&mut raw, 0x80, extra);
        }
        Inode { raw }
    }

    /// Reads an inode of `bytes` bytes (`Superblock::inode_bytes`). Checksum:
    /// [`verify_checksum`](Self::verify_checksum).
    ///
    /// # Errors
    /// Too few bytes, or an impossible size of the extra fields.
    pub fn parse(buf: &[u8], bytes: usize) -> Result<Inode, Corrupt> {
        let raw = Corrupt::need(WHAT, buf, bytes.max(INODE_BYTES_OLD))?;
        if bytes > INODE_BYTES_OLD {
            let extra = Corrupt::need(WHAT, raw, 0x82).map(|r| get_le16(r, 0x80))?;
            if usize::from(extra) > bytes - INODE_BYTES_OLD || !extra.is_multiple_of(4) {
                let reason = "must be a multiple of 4 inside the inode";
                return Err(Corrupt::field(WHAT, "i_extra_isize", extra.into(), reason));
            }
        }
        Ok(Inode {
            raw: SmallVec::from_slice(raw),
        })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.raw
    }
    /// Writes the inode to the start of `buf`.
    pub fn encode(&self, buf: &mut [u8]) {
        buf[..self.raw.len()].copy_from_slice(&self.raw);
    }

    fields! { le;
        mode / set_mode: u16, 0x00, "i_mode", "File type and permissions";
        deletion_time / set_deletion_time: u32, 0x14, "i_dtime", "Time of deletion; of an orphan the next orphan";
        links / set_links: u16, 0x1A, "i_links_count", "Hard links; 1 of a directory means many";
        generation / set_generation: u32, 0x64, "i_generation", "Changes when the inode is used again";
    }

    /// File type: the upper four bits of the mode.
    pub fn file_type(&self) -> u16 {
        self.mode() & MODE_TYPE_MASK
    }
    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type() == MODE_DIR
    }
    /// True for a regular file.
    pub fn is_regular(&self) -> bool {
        self.file_type() == MODE_REGULAR
    }
    /// True for a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.file_type() == MODE_SYMLINK
    }
    /// Flags.
    pub fn flags(&self) -> InodeFlags {
        InodeFlags(get_le32(&self.raw, 0x20))
    }
    /// Sets the flags.
    pub fn set_flags(&mut self, flags: InodeFlags) {
        put_le32(&mut self.raw, 0x20, flags.0);
    }
    /// Owner.
    pub fn uid(&self) -> u32 {
        self.split16(0x02, 0x78)
    }
    /// Sets the owner.
    pub fn set_uid(&mut self, uid: u32) {
        self.set_split16(0x02, 0x78, uid);
    }
    /// Group.
    pub fn gid(&self) -> u32 {
        self.split16(0x18, 0x7A)
    }
    /// Sets the group.
    pub fn set_gid(&mut self, gid: u32) {
        self.set_split16(0x18, 0x7A, gid);
    }
    fn split16(&self, low: usize, high: usize) -> u32 {
        u32::from(get_le16(&self.raw, high)) << 16 | u32::from(get_le16(&self.raw, low))
    }
    fn set_split16(&mut self, low: usize, high: usize, n: u32) {
        put_le16(&mut self.raw, low, n as u16);
        put_le16(&mut self.raw, high, (n >> 16) as u16);
    }

    /// Bytes of the file, all 64 bits of them (`i_size_lo`, `i_size_high`).
    pub fn size(&self) -> u64 {
        u64::from(get_le32(&self.raw, 0x6C)) << 32 | u64::from(get_le32(&self.raw, 0x04))
    }
    /// Sets the bytes of the file.
    pub fn set_size(&mut self, bytes: u64) {
        put_le32(&mut self.raw, 0x04, bytes as u32);
        put_le32(&mut self.raw, 0x6C, (bytes >> 32) as u32);
    }

    /// Sectors of 512 bytes that the file occupies, block maps and attributes included. `huge` is
    /// feature `huge_file`: only then the count has 48 bits, and a flag may turn its unit into
    /// blocks.
    pub fn sectors(&self, huge: bool, block_bytes: u32) -> u64 {
        let low = u64::from(get_le32(&self.raw, 0x1C));
        if !huge {
            return low;
        }
        let n = low | u64::from(get_le16(&self.raw, 0x74)) << 32;
        let unit = u64::from(block_bytes / 512);
        if self.flags().has(InodeFlags::HUGE_FILE) {
            n.saturating_mul(unit)
        } else {
            n
        }
    }
    /// Sets the sectors the file occupies, in blocks if sectors do not fit 48 bits. False if the
    /// count cannot be stored.
    #[must_use]
    pub fn set_sectors(&mut self, sectors: u64, huge: bool, block_bytes: u32) -> bool {
        let unit = u64::from(block_bytes / 512);
        let (n, blocks) = match sectors {
            n if n <= u64::from(u32::MAX) => (n, false),
            n if huge && n < 1 << 48 => (n, false),
            n if huge && n / unit < 1 << 48 => (n / unit, true),
            _ => return false,
        };
        put_le32(&mut self.raw, 0x1C, n as u32);
        if huge {
            put_le16(&mut self.raw, 0x74, (n >> 32) as u16);
            let flags = self.flags().without(InodeFlags::HUGE_FILE);
            self.set_flags(if blocks {
                flags | InodeFlags::HUGE_FILE
            } else {
                flags
            });
        }
        true
    }

    /// The block area (`i_block`): extent root, block map, short symlink or device number.
    pub fn block_area(&self) -> &[u8] {
        &self.raw[BLOCK_AREA_AT..BLOCK_AREA_AT + BLOCK_AREA_BYTES]
    }
    /// The block area, to change it.
    pub fn block_area_mut(&mut self) -> &mut [u8] {
        &mut self.raw[BLOCK_AREA_AT..BLOCK_AREA_AT + BLOCK_AREA_BYTES]
    }
    /// Block of extended attributes (`i_file_acl`); 0 if there is none.
    pub fn xattr_block(&self) -> BlockNo {
        let high = u64::from(get_le16(&self.raw, 0x76)) << 32;
        BlockNo(high | u64::from(get_le32(&self.raw, 0x68)))
    }
    /// Sets the block of extended attributes.
    pub fn set_xattr_block(&mut self, block: BlockNo) {
        put_le32(&mut self.raw, 0x68, block.0 as u32);
        put_le16(&mut self.raw, 0x76, (block.0 >> 32) as u16);
    }
    /// Major and minor number of a device file.
    pub fn device(&self) -> (u32, u32) {
        let (old, new) = (get_le32(&self.raw, 0x28), get_le32(&self.raw, 0x2C));
        if old != 0 {
            return ((old >> 8) & 0xFF, old & 0xFF);
        }
        ((new >> 8) & 0xFFF, (new & 0xFF) | ((new >> 12) & 0xF_FF00))
    }
    /// Sets the numbers of a device file: 12 bits major, 20 bits minor; the old form where 8 bits
    /// each suffice.
    pub fn set_device(&mut self, major: u32, minor: u32) {
        let old = major < 256 && minor < 256 && (major, minor) != (0, 0);
        let new = (minor & 0xFF) | (major & 0xFFF) << 8 | (minor & 0xF_FF00) << 12;
        put_le32(
            &mut self.raw,
            0x28,
            if old { major << 8 | minor } else { 0 },
        );
        put_le32(&mut self.raw, 0x2C, if old { 0 } else { new });
    }

    /// Bytes of extra fields (`i_extra_isize`).
    pub fn extra_bytes(&self) -> u16 {
        if self.raw.len() > INODE_BYTES_OLD {
            get_le16(&self.raw, 0x80)
        } else {
            0
        }
    }
    fn has_extra(&self, at: usize, len: usize) -> bool {
        at + len <= INODE_BYTES_OLD + usize::from(self.extra_bytes()) && at + len <= self.raw.len()
    }
    fn extra32(&self, at: usize) -> Option<u32> {
        self.has_extra(at, 4).then(|| get_le32(&self.raw, at))
    }
    fn time(&self, at: usize, extra_at: usize) -> Timestamp {
        Timestamp::decode(get_le32(&self.raw, at), self.extra32(extra_at))
    }
    fn set_time(&mut self, at: usize, extra_at: usize, time: Timestamp) {
        if self.has_extra(extra_at, 4) {
            let (low, extra) = time.encode();
            put_le32(&mut self.raw, at, low);
            put_le32(&mut self.raw, extra_at, extra);
        } else {
            put_le32(&mut self.raw, at, time.encode_old());
        }
    }
    /// Time of the last access.
    pub fn access_time(&self) -> Timestamp {
        self.time(0x08, 0x8C)
    }
    /// Sets the time of the last access.
    pub fn set_access_time(&mut self, time: Timestamp) {
        self.set_time(0x08, 0x8C, time);
    }
    /// Time of the last change of the inode.
    pub fn change_time(&self) -> Timestamp {
        self.time(0x0C, 0x84)
    }
    /// Sets the time of the last change of the inode.
    pub fn set_change_time(&mut self, time: Timestamp) {
        self.set_time(0x0C, 0x84, time);
    }
    /// Time of the last change of the data.
    pub fn modify_time(&self) -> Timestamp {
        self.time(0x10, 0x88)
    }
    /// Sets the time of the last change of the data.
    pub fn set_modify_time(&mut self, time: Timestamp) {
        self.set_time(0x10, 0x88, time);
    }
    /// Time of creation; `None` in inodes without that field.
    pub fn create_time(&self) -> Option<Timestamp> {
        let low = self.extra32(0x90)?;
        Some(Timestamp::decode(low, self.extra32(0x94)))
    }
    /// Sets the time of creation, if the inode has that field.
    pub fn set_create_time(&mut self, time: Timestamp) {
        if self.has_extra(0x90, 4) {
            self.set_time(0x90, 0x94, time);
        }
    }
    /// Change counter (`i_version`, 64 bits where the inode has the upper half).
    pub fn version(&self) -> u64 {
        u64::from(self.extra32(0x98).unwrap_or(0)) << 32 | u64::from(get_le32(&self.raw, 0x24))
    }
    /// Sets the change counter.
    pub fn set_version(&mut self, version: u64) {
        put_le32(&mut self.raw, 0x24, version as u32);
        if self.has_extra(0x98, 4) {
            put_le32(&mut self.raw, 0x98, (version >> 32) as u32);
        }
    }
    /// Project; 0 if the inode has no such field.
    pub fn project(&self) -> u32 {
        self.extra32(0x9C).unwrap_or(0)
    }
    /// Sets the project, if the inode has that field.
    pub fn set_project(&mut self, project: u32) {
        if self.has_extra(0x9C, 4) {
            put_le32(&mut self.raw, 0x9C, project);
        }
    }
    /// The room for extended attributes behind the extra fields; empty in old inodes, and in those
    /// without extra fields (their count would lie in it).
    pub fn xattr_area(&self) -> &[u8] {
        let at = self.xattr_area_at();
        self.raw.get(at..).unwrap_or_default()
    }
    /// The room for extended attributes, to change it.
    pub fn xattr_area_mut(&mut self) -> &mut [u8] {
        let at = self.xattr_area_at();
        self.raw.get_mut(at..).unwrap_or_default()
    }
    fn xattr_area_at(&self) -> usize {
        match usize::from(self.extra_bytes()) {
            0 => self.raw.len(),
            extra => INODE_BYTES_OLD + extra,
        }
    }

    fn computed_checksum(&self, seed: FsSeed, ino: Ino) -> u32 {
        let mut blank = self.clone();
        blank.set_checksum(0);
        seed.inode(ino, self.generation()).crc(&blank.raw)
    }
    fn set_checksum(&mut self, crc: u32) {
        put_le16(&mut self.raw, CHECKSUM_LO_AT, crc as u16);
        if self.has_extra(CHECKSUM_HI_AT, 2) {
            put_le16(&mut self.raw, CHECKSUM_HI_AT, (crc >> 16) as u16);
        }
    }
    /// Stores the checksum (only for volumes with `metadata_csum`; ondisk-I3).
    pub fn update_checksum(&mut self, seed: FsSeed, ino: Ino) {
        self.set_checksum(0);
        self.set_checksum(seed.inode(ino, self.generation()).crc(&self.raw));
    }
    /// Checks the checksum (only for volumes with `metadata_csum`).
    ///
    /// # Errors
    /// The stored one is another one; the error names the inode.
    pub fn verify_checksum(&self, seed: FsSeed, ino: Ino) -> Result<(), Corrupt> {
        let computed = self.computed_checksum(seed, ino);
        let low = u32::from(get_le16(&self.raw, CHECKSUM_LO_AT));
        let (stored, mask) = if self.has_extra(CHECKSUM_HI_AT, 2) {
            (
                low | u32::from(get_le16(&self.raw, CHECKSUM_HI_AT)) << 16,
                u32::MAX,
            )
        } else {
            (low, 0xFFFF)
        };
        Corrupt::check(WHAT, stored, computed & mask).map_err(|e| e.at_inode(ino))
    }
    /// True if every byte is zero: an inode that was never used.
    pub fn is_blank(&self) -> bool {
        base::bytes::is_zero(&self.raw)
    }
}

impl std::fmt::Debug for Inode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inode")
            .field("mode", &format_args!("{:#o}", self.mode()))
            .field("links", &self.links())
            .field("size", &self.size())
            .field("flags", &self.flags())
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEED: FsSeed = FsSeed(0x1234_5678);

    #[test]
    fn setters_reach_every_getter() {
        let time = |secs| Timestamp { secs, nanos: 7 };
        let mut i = Inode::blank(256, 32);
        i.set_mode(MODE_SYMLINK | 0o777);
        i.set_uid(0x1_0002);
        i.set_gid(0x3_0004);
        i.set_size(5 << 33);
        i.set_xattr_block(BlockNo(6 << 34));
        i.set_version(7 << 35);
        i.set_project(8);
        i.set_access_time(time(1));
        i.set_change_time(time(2));
        i.set_modify_time(time(3));
        i.set_create_time(time(4));
        let i = Inode::parse(i.bytes(), 256).expect("valid");
        assert!(i.is_symlink() && !i.is_dir() && !i.is_regular());
        assert_eq!((i.uid(), i.gid(), i.size()), (0x1_0002, 0x3_0004, 5 << 33));
        assert_eq!(
            (i.xattr_block(), i.version(), i.project()),
            (BlockNo(6 << 34), 7 << 35, 8)
        );
        assert_eq!((i.access_time(), i.change_time()), (time(1), time(2)));
        assert_eq!((i.modify_time(), i.create_time()), (time(3), Some(time(4))));
    }

    #[test]
    fn old_inodes_have_no_extra_fields() {
        let mut i = Inode::blank(128, 0);
        i.set_access_time(Timestamp { secs: 9, nanos: 7 });
        i.set_create_time(Timestamp { secs: 9, nanos: 7 });
        i.set_project(5);
        assert_eq!(i.access_time(), Timestamp { secs: 9, nanos: 0 });
        assert_eq!(
            (i.create_time(), i.project(), i.xattr_area()),
            (None, 0, &[][..])
        );
        i.update_checksum(SEED, Ino(12));
        i.verify_checksum(SEED, Ino(12))
            .expect("16 bits of checksum");
        let e = i.verify_checksum(SEED, Ino(13)).expect_err("another inode");
        assert!(
            e.to_string().starts_with("inode of inode 13: checksum"),
            "{e}"
        );
    }

    #[test]
    fn block_counts_by_feature_and_flag() {
        let mut i = Inode::blank(256, 32);
        assert!(i.set_sectors(u64::from(u32::MAX), false, 4096));
        assert!(!i.set_sectors(1 << 32, false, 4096));
        for sectors in [8, 1 << 40, 1 << 50] {
            assert!(i.set_sectors(sectors, true, 4096));
            assert_eq!(i.sectors(true, 4096), sectors);
            assert_eq!(i.flags().has(InodeFlags::HUGE_FILE), sectors == 1 << 50);
        }
        assert!(!i.set_sectors(1 << 52, true, 4096));
    }

    #[test]
    fn device_numbers() {
        for (major, minor) in [
            (8, 1),
            (255, 255),
            (256, 0),
            (4095, 0xF_FFFF),
            (0, 0),
            (1, 256),
        ] {
            let mut i = Inode::blank(256, 32);
            i.set_device(major, minor);
            assert_eq!(i.device(), (major, minor));
        }
    }

    #[test]
    fn attributes_survive_an_edit() {
        let mut raw = Inode::blank(256, 32).bytes().to_vec();
        raw[160..].fill(0x77);
        let mut i = Inode::parse(&raw, 256).expect("valid");
        i.set_size(1);
        i.update_checksum(SEED, Ino(12));
        assert_eq!(i.xattr_area(), &[0x77; 96]);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(
            mut raw in proptest::collection::vec(any::<u8>(), 0..300),
            bytes in prop_oneof![Just(128usize), Just(130), Just(131), Just(256)],
            extra in 0u8..64,
        ) {
            if raw.len() > 0x81 {
                raw[0x80..0x82].copy_from_slice(&[extra * 4, 0]);
            }
            if let Ok(mut i) = Inode::parse(&raw, bytes) {
                let times = (i.access_time(), i.change_time(), i.modify_time(), i.create_time());
                i.set_access_time(times.0);
                i.set_change_time(times.1);
                i.set_modify_time(times.2);
                i.set_create_time(times.3.unwrap_or_default());
                let _ = (i.sectors(true, 4096), i.device(), i.project(), i.version());
                let _ = (crate::ext4::inode_xattrs(&i), i.verify_checksum(SEED, Ino(1)));
                i.update_checksum(SEED, Ino(1));
                prop_assert_eq!(i.verify_checksum(SEED, Ino(1)), Ok(()));
                prop_assert_eq!(Inode::parse(i.bytes(), bytes), Ok(i.clone()));
            }
        }
    }
}
