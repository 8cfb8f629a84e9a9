//! The inode: a node block whose first 4072 bytes hold attributes, addresses and node numbers.
//!
//! | offset | size | field | | offset | size | field |
//! |---|---|---|---|---|---|---|
//! | 0x000 | le16 | `i_mode` | | 0x04C | le32 | `i_xattr_nid` |
//! | 0x002 | u8 | `i_advise` | | 0x050 | le32 | `i_flags` |
//! | 0x003 | u8 | `i_inline` | | 0x054 | le32 | `i_pino` |
//! | 0x004 | le32 | `i_uid` | | 0x058 | le32 | `i_namelen` |
//! | 0x008 | le32 | `i_gid` | | 0x05C | 255 | `i_name` |
//! | 0x00C | le32 | `i_links` | | 0x15B | u8 | `i_dir_level` |
//! | 0x010 | le64 | `i_size` | | 0x15C | 3 * le32 | `i_ext`: file offset, address, length |
//! | 0x018 | le64 | `i_blocks`, the inode included | | 0x168 | 923 * le32 | `i_addr` |
//! | 0x020 | le64 | `i_atime` | | 0xFD4 | 5 * le32 | `i_nid` |
//! | 0x028 | le64 | `i_ctime` | | | | with `EXTRA_ATTR`, over the first addresses: |
//! | 0x030 | le64 | `i_mtime` | | 0x168 | le16 | `i_extra_isize` |
//! | 0x038 | le32 | `i_atime_nsec` | | 0x16A | le16 | `i_inline_xattr_size`, in words |
//! | 0x03C | le32 | `i_ctime_nsec` | | 0x16C | le32 | `i_projid` |
//! | 0x040 | le32 | `i_mtime_nsec` | | 0x170 | le32 | `i_inode_checksum` |
//! | 0x044 | le32 | `i_generation` | | 0x174 | le64 | `i_crtime` |
//! | 0x048 | le32 | `i_current_depth` (directory), | | 0x17C | le32 | `i_crtime_nsec` |
//! | | le16 | `i_gc_failures` (other) | | 0x180 | le64 | `i_compr_blocks` |
//! | | | | | 0x188 | u8, u8, le16 | compress algorithm, log of cluster, flag |
//!
//! The words of `i_addr`, from its start: extra attributes (`i_extra_isize` bytes), addresses,
//! inline attributes at the end (200 bytes, or `i_inline_xattr_size` words on volumes with flexible
//! inline attributes). Inline data and inline dentries lie where the addresses would, behind one
//! word that stays 0.
//!
//! The checksum covers inode number, generation and the whole block, footer included, with itself
//! as zero.

use super::node::footer;
use super::path::DEF_ADDRS_PER_INODE;
use super::{BLOCK_BYTES, BlockAddr, DentryLayout, Features, Nid, crc};
use crate::Corrupt;
use crate::field::bit_set;
use base::bytes::{get_le16, get_le32, get_le64, put_le16, put_le32, put_le64};
use std::ops::Range;

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

/// Most links of an inode (`F2FS_LINK_MAX`).
pub const LINKS_MAX: u32 = 0xFFFF_FFFF;
/// Words of inline attributes on volumes where the number is fixed (`DEFAULT_INLINE_XATTR_ADDRS`).
pub const INLINE_XATTR_WORDS_DEFAULT: u16 = 50;
/// Bytes of all extra attributes (`F2FS_TOTAL_EXTRA_ATTR_SIZE`): what Linux gives a new inode.
pub const INODE_EXTRA_BYTES_MAX: u16 = 36;
/// Most words of inline attributes: the room that is left must hold some inline dentries.
const INLINE_XATTR_WORDS_MAX: u16 = DEF_ADDRS_PER_INODE as u16 - INODE_EXTRA_BYTES_MAX / 4 - 1 - 10;

const WHAT: &str = "inode";
const ADDR_AT: usize = 0x168;
const NID_AT: usize = 0xFD4;
const CHECKSUM_AT: usize = 0x170;
const NAME_AT: usize = 0x5C;
const NAME_MAX: usize = super::NAME_BYTES_MAX;
const _: () = assert!(ADDR_AT + 4 * DEF_ADDRS_PER_INODE as usize == NID_AT);
const _: () = assert!(NAME_AT + NAME_MAX == 0x15B);

bit_set! {
    /// Hints and properties of an inode (`i_advise`).
    Advise: u8, "ADVISE_" {
        /// Data is cold, by the extension of the name.
        COLD = 0x1, "cold";
        /// `i_pino` is not the parent: roll-forward cannot make the entry.
        LOST_PINO = 0x2, "lost_pino";
        /// Contents are encrypted.
        ENCRYPT = 0x4, "encrypt";
        /// The name is encrypted.
        ENC_NAME = 0x8, "enc_name";
        /// Blocks beyond the size are kept.
        KEEP_SIZE = 0x10, "keep_size";
        /// Data is hot, by the extension of the name.
        HOT = 0x20, "hot";
        /// fs-verity file.
        VERITY = 0x40, "verity";
        /// Blocks beyond the size wait to be truncated.
        TRUNC = 0x80, "trunc";
    }
}

bit_set! {
    /// What lies inside the inode (`i_inline`).
    Inline: u8, "INLINE_" {
        /// Extended attributes.
        XATTR = 0x1, "inline_xattr";
        /// Data.
        DATA = 0x2, "inline_data";
        /// Directory entries.
        DENTRY = 0x4, "inline_dentry";
        /// The inline data is not all zero.
        DATA_EXIST = 0x8, "data_exist";
        /// Inline entries `.` and `..` exist.
        DOTS = 0x10, "inline_dots";
        /// Extra attributes.
        EXTRA_ATTR = 0x20, "extra_attr";
        /// Garbage collection leaves the file alone.
        PIN_FILE = 0x40, "pin_file";
        /// Saved blocks of a compressed file were released.
        COMPRESS_RELEASED = 0x80, "compress_released";
    }
}

bit_set! {
    /// Flags that `chattr` shows (`i_flags`).
    InodeFlags: u32, "FLAG_" {
        /// Compressed.
        COMPRESS = 0x4, "Compression_Requested";
        /// All writes are synchronous.
        SYNC = 0x8, "Synchronous_Updates";
        /// Must not change.
        IMMUTABLE = 0x10, "Immutable";
        /// Only appends.
        APPEND = 0x20, "Append_Only";
        /// Not in dumps.
        NO_DUMP = 0x40, "No_Dump";
        /// Access times stay.
        NO_ATIME = 0x80, "No_Atime";
        /// Not to be compressed.
        NO_COMPRESS = 0x400, "Dont_Compress";
        /// Directory with an index (kept for tools; no meaning here).
        INDEX = 0x1000, "Indexed_directory";
        /// Directory whose changes are synchronous.
        DIR_SYNC = 0x1_0000, "Synchronous_Directory_Updates";
        /// Children inherit the project.
        PROJECT_INHERIT = 0x2000_0000, "Project_Hierarchy";
        /// Directory whose names ignore case.
        CASEFOLD = 0x4000_0000, "Casefold";
        /// Backed by a device alias.
        DEVICE_ALIAS = 0x8000_0000, "Device_Alias";
    }
}

/// A time: seconds since 1970 and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Seconds since 1970; negative before.
    pub secs: i64,
    /// Nanoseconds below one second.
    pub nanos: u32,
}

impl Timestamp {
    fn get(block: &[u8], secs_at: usize, nanos_at: usize) -> Timestamp {
        Timestamp {
            secs: get_le64(block, secs_at) as i64,
            nanos: get_le32(block, nanos_at).min(999_999_999),
        }
    }
    fn put(self, block: &mut [u8], secs_at: usize, nanos_at: usize) {
        put_le64(block, secs_at, self.secs as u64);
        put_le32(block, nanos_at, self.nanos);
    }
}

/// A run of blocks of a file that lie one after the other (`f2fs_extent`); the largest one is kept
/// in the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Extent {
    /// First block in the file.
    pub fofs: u32,
    /// Address of that block.
    pub addr: BlockAddr,
    /// Number of blocks; 0 if there is none.
    pub len: u32,
}

/// The name an inode was made under: 0 to 255 bytes, without allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InodeName {
    len: u8,
    bytes: [u8; NAME_MAX],
}

impl InodeName {
    /// This name, or `None` if it is longer than 255 bytes.
    pub fn new(name: &[u8]) -> Option<InodeName> {
        let mut out = InodeName {
            len: u8::try_from(name.len()).ok()?,
            bytes: [0; NAME_MAX],
        };
        out.bytes[..name.len()].copy_from_slice(name);
        Some(out)
    }
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Default for InodeName {
    fn default() -> InodeName {
        InodeName {
            len: 0,
            bytes: [0; NAME_MAX],
        }
    }
}

impl std::fmt::Debug for InodeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// Every field of an inode that is not an address.
///
/// Fields that an inode lacks (its `extra_isize` or the volume's features) read as 0 and are not
/// written.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct InodeFields {
    /// File type and permissions.
    pub mode: u16,
    /// Hints.
    pub advise: Advise,
    /// What lies inside the inode.
    pub inline: Inline,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Hard links; of a directory 2 + subdirectories.
    pub links: u32,
    /// Bytes of the file.
    pub size: u64,
    /// Blocks of 4 KiB that the file occupies: data, nodes and the inode itself.
    pub blocks: u64,
    /// Time of the last access.
    pub atime: Timestamp,
    /// Time of the last change of the inode.
    pub ctime: Timestamp,
    /// Time of the last change of the data.
    pub mtime: Timestamp,
    /// Changes when the inode number is used again.
    pub generation: u32,
    /// Of a directory: its hash levels (`i_current_depth`); else in the low 16 bits how often
    /// garbage collection failed to move a pinned file (`i_gc_failures`).
    pub current_depth: u32,
    /// Node of extended attributes; 0 if none.
    pub xattr_nid: Nid,
    /// Flags of `chattr`.
    pub flags: InodeFlags,
    /// Directory that holds the entry, for roll-forward.
    pub pino: Nid,
    /// Name of that entry, for roll-forward.
    pub name: InodeName,
    /// Logarithm of the buckets of a directory's first level.
    pub dir_level: u8,
    /// Largest run of blocks.
    pub ext: Extent,
    /// Direct (2), indirect (2) and double indirect nodes.
    pub nids: [Nid; 5],
    /// Bytes of extra attributes; 0 without [`Inline::EXTRA_ATTR`].
    pub extra_isize: u16,
    /// Words reserved for inline attributes, as in effect: 50 or 0 on volumes without flexible
    /// inline attributes.
    pub inline_xattr_size: u16,
    /// Project.
    pub projid: u32,
    /// Checksum as stored; see [`verify_inode_checksum`].
    pub inode_checksum: u32,
    /// Time of creation.
    pub crtime: Timestamp,
    /// Blocks that compression saved.
    pub compr_blocks: u64,
    /// Compression algorithm.
    pub compress_algorithm: u8,
    /// Logarithm of the blocks of a compressed cluster.
    pub log_cluster_size: u8,
    /// Flags of compression.
    pub compress_flag: u16,
}

impl InodeFields {
    /// Reads an inode.
    ///
    /// # Errors
    /// Too few bytes, or a field that puts other parts of the inode at impossible places.
    pub fn parse(block: &[u8], features: Features) -> Result<InodeFields, Corrupt> {
        let b = Corrupt::need(WHAT, block, BLOCK_BYTES)?;
        let name_len = get_le32(b, 0x58);
        if name_len as usize > NAME_MAX {
            return Err(Corrupt::field(
                WHAT,
                "i_namelen",
                name_len.into(),
                "is at most 255",
            ));
        }
        let mut f = InodeFields {
            mode: get_le16(b, 0),
            advise: Advise(b[2]),
            inline: Inline(b[3]),
            uid: get_le32(b, 4),
            gid: get_le32(b, 8),
            links: get_le32(b, 0x0C),
            size: get_le64(b, 0x10),
            blocks: get_le64(b, 0x18),
            atime: Timestamp::get(b, 0x20, 0x38),
            ctime: Timestamp::get(b, 0x28, 0x3C),
            mtime: Timestamp::get(b, 0x30, 0x40),
            generation: get_le32(b, 0x44),
            current_depth: get_le32(b, 0x48),
            xattr_nid: Nid(get_le32(b, 0x4C)),
            flags: InodeFlags(get_le32(b, 0x50)),
            pino: Nid(get_le32(b, 0x54)),
            name: InodeName::new(&b[NAME_AT..NAME_AT + name_len as usize]).unwrap_or_default(),
            dir_level: b[0x15B],
            ext: Extent {
                fofs: get_le32(b, 0x15C),
                addr: BlockAddr(get_le32(b, 0x160)),
                len: get_le32(b, 0x164),
            },
            nids: std::array::from_fn(|n| Nid(get_le32(b, NID_AT + 4 * n))),
            ..InodeFields::default()
        };
        f.parse_extra(b, features)?;
        f.check_inline()?;
        Ok(f)
    }

    fn parse_extra(&mut self, b: &[u8], features: Features) -> Result<(), Corrupt> {
        if self.inline.has(Inline::EXTRA_ATTR) {
            let n = get_le16(b, ADDR_AT);
            if !features.has(Features::EXTRA_ATTR) {
                let reason = "says that there are extra attributes on a volume without them";
                return Err(Corrupt::field(
                    WHAT,
                    "i_inline",
                    self.inline.0.into(),
                    reason,
                ));
            }
            if !(4..=INODE_EXTRA_BYTES_MAX).contains(&n) || !n.is_multiple_of(4) {
                let reason = "must be a multiple of 4 from 4 to 36";
                return Err(Corrupt::field(WHAT, "i_extra_isize", n.into(), reason));
            }
            self.extra_isize = n;
        }
        self.inline_xattr_size = if features.has(Features::FLEXIBLE_INLINE_XATTR) {
            if self.extra_isize >= 4 {
                get_le16(b, ADDR_AT + 2)
            } else {
                0
            }
        } else if self.inline.has(Inline::XATTR) || self.inline.has(Inline::DENTRY) {
            INLINE_XATTR_WORDS_DEFAULT
        } else {
            0
        };
        let n = self.inline_xattr_size;
        if n > INLINE_XATTR_WORDS_MAX || self.inline.has(Inline::XATTR) && n == 0 {
            let reason = "inline attributes must have 1 to 903 words";
            return Err(Corrupt::field(
                WHAT,
                "i_inline_xattr_size",
                n.into(),
                reason,
            ));
        }
        if self.has_field(features, Features::PRJQUOTA) {
            self.projid = get_le32(b, 0x16C);
        }
        if self.has_field(features, Features::INODE_CHKSUM) {
            self.inode_checksum = get_le32(b, CHECKSUM_AT);
        }
        if self.has_field(features, Features::INODE_CRTIME) {
            self.crtime = Timestamp::get(b, 0x174, 0x17C);
        }
        if self.has_field(features, Features::COMPRESSION) {
            self.compr_blocks = get_le64(b, 0x180);
            (self.compress_algorithm, self.log_cluster_size) = (b[0x188], b[0x189]);
            self.compress_flag = get_le16(b, 0x18A);
        }
        Ok(())
    }

    /// Inline data belongs into files and links, inline dentries into directories.
    fn check_inline(&self) -> Result<(), Corrupt> {
        let fits = match self.file_type() {
            MODE_DIR => !self.inline.has(Inline::DATA),
            MODE_REGULAR | MODE_SYMLINK => !self.inline.has(Inline::DENTRY),
            _ => !self.inline.has(Inline::DATA) && !self.inline.has(Inline::DENTRY),
        };
        if fits {
            return Ok(());
        }
        let reason = "inline contents that do not fit the file type";
        Err(Corrupt::field(
            WHAT,
            "i_inline",
            self.inline.0.into(),
            reason,
        ))
    }

    /// True if the inode has the extra attribute that `feature` stands for.
    fn has_field(&self, features: Features, feature: Features) -> bool {
        let end = match feature {
            Features::PRJQUOTA => 8,
            Features::INODE_CHKSUM => 12,
            Features::INODE_CRTIME => 24,
            _ => INODE_EXTRA_BYTES_MAX,
        };
        features.has(feature) && self.extra_isize >= end
    }

    /// Writes the fields into an inode block; addresses, inline contents and the footer stay.
    /// Checksum: [`update_inode_checksum`].
    ///
    /// # Panics
    /// If `block` is shorter than 4096 bytes.
    pub fn encode_into(&self, block: &mut [u8], features: Features) {
        let b = &mut block[..BLOCK_BYTES];
        put_le16(b, 0, self.mode);
        (b[2], b[3]) = (self.advise.0, self.inline.0);
        put_le32(b, 4, self.uid);
        put_le32(b, 8, self.gid);
        put_le32(b, 0x0C, self.links);
        put_le64(b, 0x10, self.size);
        put_le64(b, 0x18, self.blocks);
        self.atime.put(b, 0x20, 0x38);
        self.ctime.put(b, 0x28, 0x3C);
        self.mtime.put(b, 0x30, 0x40);
        put_le32(b, 0x44, self.generation);
        put_le32(b, 0x48, self.current_depth);
        put_le32(b, 0x4C, self.xattr_nid.0);
        put_le32(b, 0x50, self.flags.0);
        put_le32(b, 0x54, self.pino.0);
        put_le32(b, 0x58, self.name.len.into());
        b[NAME_AT..NAME_AT + NAME_MAX].copy_from_slice(&self.name.bytes);
        b[0x15B] = self.dir_level;
        put_le32(b, 0x15C, self.ext.fofs);
        put_le32(b, 0x160, self.ext.addr.0);
        put_le32(b, 0x164, self.ext.len);
        for (n, nid) in self.nids.iter().enumerate() {
            put_le32(b, NID_AT + 4 * n, nid.0);
        }
        if self.extra_isize != 0 {
            self.encode_extra(b, features);
        }
    }

    fn encode_extra(&self, b: &mut [u8], features: Features) {
        put_le16(b, ADDR_AT, self.extra_isize);
        if features.has(Features::FLEXIBLE_INLINE_XATTR) {
            put_le16(b, ADDR_AT + 2, self.inline_xattr_size);
        }
        if self.has_field(features, Features::PRJQUOTA) {
            put_le32(b, 0x16C, self.projid);
        }
        if self.has_field(features, Features::INODE_CHKSUM) {
            put_le32(b, CHECKSUM_AT, self.inode_checksum);
        }
        if self.has_field(features, Features::INODE_CRTIME) {
            self.crtime.put(b, 0x174, 0x17C);
        }
        if self.has_field(features, Features::COMPRESSION) {
            put_le64(b, 0x180, self.compr_blocks);
            (b[0x188], b[0x189]) = (self.compress_algorithm, self.log_cluster_size);
            put_le16(b, 0x18A, self.compress_flag);
        }
    }

    /// File type: the upper four bits of the mode.
    pub const fn file_type(&self) -> u16 {
        self.mode & MODE_TYPE_MASK
    }
    /// True for a directory.
    pub const fn is_dir(&self) -> bool {
        self.file_type() == MODE_DIR
    }
    /// True for a regular file.
    pub const fn is_regular(&self) -> bool {
        self.file_type() == MODE_REGULAR
    }
    /// True for a symbolic link.
    pub const fn is_symlink(&self) -> bool {
        self.file_type() == MODE_SYMLINK
    }

    /// Addresses that the inode holds (if it holds no inline contents).
    pub const fn addrs_per_inode(&self) -> u32 {
        DEF_ADDRS_PER_INODE - self.extra_isize as u32 / 4 - self.inline_xattr_size as u32
    }
    /// Word of the block that holds the first address.
    pub const fn addr_slot0(&self) -> usize {
        (ADDR_AT + self.extra_isize as usize) / 4
    }
    /// Bytes of the block that hold inline attributes; empty if there are none.
    pub fn inline_xattr_range(&self) -> Range<usize> {
        let words = if self.inline.has(Inline::XATTR) {
            usize::from(self.inline_xattr_size)
        } else {
            0
        };
        NID_AT - 4 * words..NID_AT
    }
    /// Bytes of the block that inline data or dentries may use, whether there are any or not:
    /// `MAX_INLINE_DATA` of them.
    pub const fn inline_data_range(&self) -> Range<usize> {
        // One word stays free.
        4 * (self.addr_slot0() + 1)..NID_AT - 4 * self.inline_xattr_size as usize
    }
    /// The slots of inline dentries, whether there are any or not.
    pub fn inline_dentry_layout(&self) -> DentryLayout {
        DentryLayout::inline(self.inline_data_range())
    }
}

/// Word of a node block that holds its first address: of an inode behind its attributes, of another
/// node 0.
///
/// # Panics
/// If `block` is shorter than 4096 bytes.
pub fn addr_slot0(block: &[u8]) -> usize {
    if !footer(block).is_inode() {
        return 0;
    }
    let extra = if Inline(block[3]).has(Inline::EXTRA_ATTR) {
        get_le16(block, ADDR_AT)
    } else {
        0
    };
    (ADDR_AT + usize::from(extra.min(INODE_EXTRA_BYTES_MAX))) / 4
}

/// The size in an inode block.
///
/// # Panics
/// If `block` is shorter than 24 bytes.
pub fn inode_size(block: &[u8]) -> u64 {
    get_le64(block, 0x10)
}

/// Sets the size in an inode block, and nothing else of it.
///
/// # Panics
/// If `block` is shorter than 24 bytes.
pub fn set_inode_size(block: &mut [u8], size: u64) {
    put_le64(block, 0x10, size);
}

/// An inode block says nothing of its largest run any more.
///
/// # Panics
/// If `block` is shorter than 360 bytes.
pub fn clear_inode_extent(block: &mut [u8]) {
    block[0x15C..ADDR_AT].fill(0);
}

/// Major and minor number of a device file with these fields.
///
/// # Panics
/// If `block` is shorter than 4096 bytes.
pub fn device(block: &[u8], fields: &InodeFields) -> (u32, u32) {
    let at = 4 * fields.addr_slot0();
    let (old, new) = (get_le32(block, at), get_le32(block, at + 4));
    if old != 0 {
        return ((old >> 8) & 0xFF, old & 0xFF);
    }
    ((new >> 8) & 0xFFF, (new & 0xFF) | ((new >> 12) & 0xF_FF00))
}

/// Sets the numbers of a device file: 12 bits major, 20 bits minor; the old form where 8 bits each
/// suffice.
///
/// # Panics
/// If `block` is shorter than 4096 bytes.
pub fn set_device(block: &mut [u8], fields: &InodeFields, major: u32, minor: u32) {
    let at = 4 * fields.addr_slot0();
    let old = major < 256 && minor < 256;
    let new = (minor & 0xFF) | (major & 0xFFF) << 8 | (minor & 0xF_FF00) << 12;
    put_le32(block, at, if old { major << 8 | minor } else { 0 });
    put_le32(block, at + 4, if old { 0 } else { new });
    if !old {
        put_le32(block, at + 8, 0);
    }
}

/// The checksum of an inode block, which includes its footer. `seed` is the CRC of the volume's
/// UUID from all ones.
///
/// # Panics
/// If `block` is shorter than 4096 bytes.
pub fn inode_checksum(block: &[u8], seed: u32) -> u32 {
    let ino = footer(block).ino.0.to_le_bytes();
    let start = crc(crc(seed, &ino), &block[0x44..0x48]);
    let body = crc(start, &block[..CHECKSUM_AT]);
    crc(crc(body, &[0; 4]), &block[CHECKSUM_AT + 4..BLOCK_BYTES])
}

/// True if `block` is an inode that has a checksum. In other nodes addresses or attributes lie
/// where an inode tells that, and where it has the checksum.
fn has_checksum(block: &[u8], features: Features) -> bool {
    features.has(Features::INODE_CHKSUM)
        && footer(block).is_inode()
        && Inline(block[3]).has(Inline::EXTRA_ATTR)
        && get_le16(block, ADDR_AT) >= 12
}

/// Stores the checksum, if the inode has one. To be called last, when the footer is final.
///
/// # Panics
/// If `block` is shorter than 4096 bytes.
pub fn update_inode_checksum(block: &mut [u8], features: Features, seed: u32) {
    if has_checksum(block, features) {
        let sum = inode_checksum(block, seed);
        put_le32(block, CHECKSUM_AT, sum);
    }
}

/// Checks the checksum, if the inode has one.
///
/// # Errors
/// The stored one is another one, or the block is too short.
pub fn verify_inode_checksum(block: &[u8], features: Features, seed: u32) -> Result<(), Corrupt> {
    let block = Corrupt::need(WHAT, block, BLOCK_BYTES)?;
    if !has_checksum(block, features) {
        return Ok(());
    }
    Corrupt::check(
        WHAT,
        get_le32(block, CHECKSUM_AT),
        inode_checksum(block, seed),
    )
    .map_err(|e| e.at_inode(base::Ino(footer(block).ino.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn device_numbers() {
        let mut block = vec![0; BLOCK_BYTES];
        let fields = InodeFields {
            extra_isize: 36,
            ..InodeFields::default()
        };
        for (major, minor) in [
            (0, 0),
            (8, 1),
            (255, 255),
            (256, 0),
            (0, 256),
            (0xFFF, 0xF_FFFF),
        ] {
            set_device(&mut block, &fields, major, minor);
            assert_eq!(device(&block, &fields), (major, minor));
        }
        assert_eq!(get_le32(&block, ADDR_AT + 36), 0, "the new form");
        assert_eq!(get_le32(&block, ADDR_AT + 40), 0xFFFF_FFFF);
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let all = Features::EXTRA_ATTR | Features::FLEXIBLE_INLINE_XATTR;
        let mut good = vec![0; BLOCK_BYTES];
        good[1] = (MODE_REGULAR >> 8) as u8;
        good[3] = (Inline::EXTRA_ATTR | Inline::XATTR).0;
        put_le16(&mut good, ADDR_AT, 36);
        put_le16(&mut good, ADDR_AT + 2, 903);
        let fields = InodeFields::parse(&good, all).expect("the least room");
        assert!(fields.inline_data_range().len() >= 40 && fields.addrs_per_inode() == 11);
        for (at, value) in [
            (ADDR_AT, 40),
            (ADDR_AT, 2),
            (ADDR_AT, 6),
            (ADDR_AT + 2, 904),
            (ADDR_AT + 2, 0),
            (0x58, 256),
        ] {
            let mut bad = good.clone();
            put_le16(&mut bad, at, value);
            assert!(InodeFields::parse(&bad, all).is_err(), "{value} at {at:#x}");
        }
        for (mode, inline) in [
            (MODE_DIR, Inline::DATA),
            (MODE_REGULAR, Inline::DENTRY),
            (MODE_FIFO, Inline::DATA),
        ] {
            let mut bad = vec![0; BLOCK_BYTES];
            put_le16(&mut bad, 0, mode);
            bad[3] = inline.0;
            assert!(InodeFields::parse(&bad, all).is_err(), "{mode:#x} {inline}");
        }
        assert!(InodeFields::parse(&good[..4000], all).is_err());
    }

    proptest! {
        #[test]
        fn hostile_inodes(mut block in proptest::collection::vec(any::<u8>(), BLOCK_BYTES), features in any::<u32>(), tame in any::<bool>()) {
            if tame {
                put_le32(&mut block, 0x58, 17);
                put_le16(&mut block, ADDR_AT, 36);
                put_le16(&mut block, ADDR_AT + 2, 50);
                block[3] &= !(Inline::DATA | Inline::DENTRY).0;
            }
            let features = Features(features);
            let _ = verify_inode_checksum(&block, features, 1);
            let (_, slot0) = (footer(&block), addr_slot0(&block));
            prop_assert!(slot0 < 1018);
            let Ok(fields) = InodeFields::parse(&block, features) else { return Ok(()) };
            prop_assert!(fields.addrs_per_inode() > 0 && fields.inline_data_range().len() >= 40);
            let _ = (fields.inline_dentry_layout(), fields.inline_xattr_range(), device(&block, &fields));
            // What is parsed and encoded is parsed again as the same, whatever lay there before.
            let mut again = vec![0x77; BLOCK_BYTES];
            fields.encode_into(&mut again, features);
            prop_assert_eq!(InodeFields::parse(&again, features).expect("encoded"), fields);
        }
    }
}
