//! Which bytes of an inode block are attributes: the table behind
//! [`Record::InodeNew`](super::Record::InodeNew) and
//! [`Record::InodeAttr`](super::Record::InodeAttr).
//!
//! | bit | field | offset, bytes | bit | field | offset, bytes |
//! |---|---|---|---|---|---|
//! | 0 | `i_mode` | 0x000, 2 | 13 | `i_xattr_nid` | 0x04C, 4 |
//! | 1 | `i_advise` | 0x002, 1 | 14 | `i_flags` | 0x050, 4 |
//! | 2 | `i_inline` | 0x003, 1 | 15 | `i_pino` | 0x054, 4 |
//! | 3 | `i_uid` | 0x004, 4 | 16 | `i_namelen`, `i_name` | 0x058, 4; 0x05C, 255 |
//! | 4 | `i_gid` | 0x008, 4 | 17 | `i_dir_level` | 0x15B, 1 |
//! | 5 | `i_links` | 0x00C, 4 | 18 | `i_ext` | 0x15C, 12 |
//! | 6 | `i_size` | 0x010, 8 | | with `EXTRA_ATTR`: | |
//! | 7 | `i_blocks` | 0x018, 8 | 19 | `i_extra_isize` | 0x168, 2 |
//! | 8 | `i_atime` | 0x020, 8; 0x038, 4 | 20 | `i_inline_xattr_size` | 0x16A, 2 |
//! | 9 | `i_ctime` | 0x028, 8; 0x03C, 4 | 21 | `i_projid` | 0x16C, 4 |
//! | 10 | `i_mtime` | 0x030, 8; 0x040, 4 | 22 | `i_crtime` | 0x174, 12 |
//! | 11 | `i_generation` | 0x044, 4 | 23 | `i_compr_blocks` | 0x180, 8 |
//! | 12 | `i_current_depth` / `i_gc_failures` | 0x048, 4 | 24 | compress algorithm, cluster, flag | 0x188, 4 |
//!
//! Packed: the fields of the mask in the order of their bits, nothing between them. The name is
//! packed as its length (le32, as it stands in the inode), a byte `n`, and the first `n` bytes of
//! its 255; the bytes after those are zero. The checksum of the inode is not among the attributes,
//! because it follows from the rest. Addresses (`i_addr`) and the numbers of the five nodes
//! (`i_nid`) are no attributes either.
//!
//! An extra attribute counts only where `EXTRA_ATTR` is set and `i_extra_isize` covers it:
//! elsewhere its bytes are addresses.

use crate::Corrupt;
use crate::f2fs::{BLOCK_BYTES, INODE_EXTRA_BYTES_MAX, Inline};
use base::bytes::{get_le16, get_le32, put_le32};

/// `i_mode`.
pub const MODE: u32 = 1;
/// `i_advise`.
pub const ADVISE: u32 = 1 << 1;
/// `i_inline`.
pub const INLINE: u32 = 1 << 2;
/// `i_uid`.
pub const UID: u32 = 1 << 3;
/// `i_gid`.
pub const GID: u32 = 1 << 4;
/// `i_links`.
pub const LINKS: u32 = 1 << 5;
/// `i_size`.
pub const SIZE: u32 = 1 << 6;
/// `i_blocks`.
pub const BLOCKS: u32 = 1 << 7;
/// `i_atime`, `i_atime_nsec`.
pub const ATIME: u32 = 1 << 8;
/// `i_ctime`, `i_ctime_nsec`.
pub const CTIME: u32 = 1 << 9;
/// `i_mtime`, `i_mtime_nsec`.
pub const MTIME: u32 = 1 << 10;
/// `i_generation`.
pub const GENERATION: u32 = 1 << 11;
/// `i_current_depth`; `i_gc_failures` of what is no directory.
pub const DEPTH: u32 = 1 << 12;
/// `i_xattr_nid`.
pub const XATTR_NID: u32 = 1 << 13;
/// `i_flags`.
pub const FLAGS: u32 = 1 << 14;
/// `i_pino`.
pub const PINO: u32 = 1 << 15;
/// `i_namelen` and `i_name`.
pub const NAME: u32 = 1 << 16;
/// `i_dir_level`.
pub const DIR_LEVEL: u32 = 1 << 17;
/// `i_ext`: the largest extent.
pub const EXTENT: u32 = 1 << 18;
/// `i_extra_isize`.
pub const EXTRA_ISIZE: u32 = 1 << 19;
/// `i_inline_xattr_size`.
pub const INLINE_XATTR_SIZE: u32 = 1 << 20;
/// `i_projid`.
pub const PROJID: u32 = 1 << 21;
/// `i_crtime`, `i_crtime_nsec`.
pub const CRTIME: u32 = 1 << 22;
/// `i_compr_blocks`.
pub const COMPR_BLOCKS: u32 = 1 << 23;
/// `i_compress_algorithm`, `i_log_cluster_size`, `i_compress_flag`.
pub const COMPRESS: u32 = 1 << 24;

/// Every bit that has a meaning.
pub const ALL: u32 = (1 << 25) - 1;
/// The three times: an fdatasync does not wait for a change of these alone.
pub const TIMES: u32 = ATIME | CTIME | MTIME;

const WHAT: &str = "inode attributes of the journal";
const NAMELEN_AT: usize = 0x58;
const NAME_AT: usize = 0x5C;
const NAME_AREA: usize = 255;
/// Length and `n` of a packed name.
const NAME_HEADER: usize = 5;
const EXTRA_AT: usize = 0x168;
const _: () = assert!(NAME_AREA == crate::f2fs::NAME_BYTES_MAX);

/// A field, or several that always go together.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its bit in a mask.
    pub bit: u32,
    /// Its name in the kernel's headers.
    pub name: &'static str,
    /// The bytes of the field in the inode block: offset and length of each piece. A length of 0:
    /// no second piece.
    pub pieces: [(usize, usize); 2],
    /// True for extra attributes.
    pub extra: bool,
}

impl Field {
    fn bytes(&self) -> usize {
        self.pieces[0].1 + self.pieces[1].1
    }
    fn end(&self) -> usize {
        self.pieces[0].0 + self.pieces[0].1
    }
}

const fn one(bit: u32, name: &'static str, at: usize, len: usize) -> Field {
    two(bit, name, (at, len), (0, 0))
}
const fn two(bit: u32, name: &'static str, a: (usize, usize), b: (usize, usize)) -> Field {
    Field {
        bit,
        name,
        pieces: [a, b],
        extra: a.0 >= EXTRA_AT,
    }
}

/// All fields, in the order of their bits.
pub const FIELDS: [Field; 25] = [
    one(MODE, "i_mode", 0x00, 2),
    one(ADVISE, "i_advise", 0x02, 1),
    one(INLINE, "i_inline", 0x03, 1),
    one(UID, "i_uid", 0x04, 4),
    one(GID, "i_gid", 0x08, 4),
    one(LINKS, "i_links", 0x0C, 4),
    one(SIZE, "i_size", 0x10, 8),
    one(BLOCKS, "i_blocks", 0x18, 8),
    two(ATIME, "i_atime", (0x20, 8), (0x38, 4)),
    two(CTIME, "i_ctime", (0x28, 8), (0x3C, 4)),
    two(MTIME, "i_mtime", (0x30, 8), (0x40, 4)),
    one(GENERATION, "i_generation", 0x44, 4),
    one(DEPTH, "i_current_depth", 0x48, 4),
    one(XATTR_NID, "i_xattr_nid", 0x4C, 4),
    one(FLAGS, "i_flags", 0x50, 4),
    one(PINO, "i_pino", 0x54, 4),
    two(NAME, "i_name", (NAMELEN_AT, 4), (NAME_AT, NAME_AREA)),
    one(DIR_LEVEL, "i_dir_level", 0x15B, 1),
    one(EXTENT, "i_ext", 0x15C, 12),
    one(EXTRA_ISIZE, "i_extra_isize", 0x168, 2),
    one(INLINE_XATTR_SIZE, "i_inline_xattr_size", 0x16A, 2),
    one(PROJID, "i_projid", 0x16C, 4),
    one(CRTIME, "i_crtime", 0x174, 12),
    one(COMPR_BLOCKS, "i_compr_blocks", 0x180, 8),
    one(COMPRESS, "i_compress_algorithm", 0x188, 4),
];

/// The fields of a mask; bits without a meaning are left out.
pub fn fields(mask: u32) -> impl Iterator<Item = &'static Field> {
    let mut left = mask & ALL;
    std::iter::from_fn(move || {
        let field = FIELDS.get(left.trailing_zeros() as usize)?;
        left &= left - 1;
        Some(field)
    })
}

/// End of the extra attributes of an inode: its attributes lie before, its addresses behind.
/// [`super::super::addr_slot0`] in bytes.
fn extra_end(block: &[u8]) -> usize {
    if !Inline(block[3]).has(Inline::EXTRA_ATTR) {
        return EXTRA_AT;
    }
    EXTRA_AT + usize::from(get_le16(block, EXTRA_AT).min(INODE_EXTRA_BYTES_MAX))
}

/// The fields that an inode has, all bits but those of extra attributes that it lacks.
///
/// # Panics
/// `block` is shorter than 4096 bytes.
pub fn present(block: &[u8]) -> u32 {
    let end = extra_end(&block[..BLOCK_BYTES]);
    let there = FIELDS.iter().filter(|f| !f.extra || f.end() <= end);
    there.fold(0, |mask, f| mask | f.bit)
}

/// The fields of `after` that differ from those bytes of `before` (zeros for a new inode), of which
/// no more than the first [`BYTES`] count.
///
/// # Panics
/// `before` is shorter than that, or `after` shorter than 4096 bytes.
pub fn changed(before: &[u8], after: &[u8]) -> u32 {
    let end = extra_end(&after[..BLOCK_BYTES]);
    let (b, a) = (&before[..BYTES], &after[..BYTES]);
    // Most changes leave most of the inode alone: words first, and the fields near those that
    // differ.
    let words = b.as_chunks::<WORD>().0.iter().zip(a.as_chunks().0);
    let near = words
        .zip(OWNERS)
        .fold(0, |near, ((b, a), owners)| match b == a {
            true => near,
            false => near | owners,
        });
    let differs = |&(at, len): &(usize, usize)| b[at..at + len] != a[at..at + len];
    fields(near)
        .filter(|f| !f.extra || f.end() <= end)
        .filter(|f| f.pieces.iter().any(differs))
        .fold(0, |mask, f| mask | f.bit)
}

/// Bytes compared at once.
const WORD: usize = 8;
/// In whole words: all attributes that an inode may have.
pub const BYTES: usize = (EXTRA_AT + INODE_EXTRA_BYTES_MAX as usize).next_multiple_of(WORD);
/// The bits of the fields that have bytes in a word.
static OWNERS: [u32; BYTES / WORD] = owners();
/// Most bytes of packed fields.
const PACKED_MAX: usize = packed_max();

const fn owners() -> [u32; BYTES / WORD] {
    let mut owners = [0; BYTES / WORD];
    let mut n = 0;
    while n < 2 * FIELDS.len() {
        let field = &FIELDS[n / 2];
        let (from, len) = field.pieces[n % 2];
        let mut at = from;
        while at < from + len {
            owners[at / WORD] |= field.bit;
            at += 1;
        }
        n += 1;
    }
    owners
}

const fn packed_max() -> usize {
    let (mut n, mut bytes) = (0, NAME_HEADER);
    while n < FIELDS.len() {
        bytes += FIELDS[n].pieces[0].1 + FIELDS[n].pieces[1].1;
        n += 1;
    }
    bytes
}

/// Packed fields, without memory of their own.
pub struct Packed {
    bytes: [u8; PACKED_MAX],
    len: usize,
}

impl Packed {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl std::ops::Deref for Packed {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The fields of `mask`, packed.
///
/// # Panics
/// `block` is shorter than 4096 bytes.
pub fn pack(block: &[u8], mask: u32) -> Vec<u8> {
    packed(block, mask).to_vec()
}

/// As [`pack`], without an allocation.
///
/// # Panics
/// As [`pack`].
pub fn packed(block: &[u8], mask: u32) -> Packed {
    let block = &block[..BLOCK_BYTES];
    let mut out = Packed {
        bytes: [0; PACKED_MAX],
        len: 0,
    };
    for field in fields(mask) {
        if field.bit == NAME {
            let area = &block[NAME_AT..NAME_AT + NAME_AREA];
            let used = NAME_AREA - area.iter().rev().take_while(|&&b| b == 0).count();
            out.push(&block[NAMELEN_AT..NAMELEN_AT + 4]);
            out.push(&[used as u8]);
            out.push(&area[..used]);
            continue;
        }
        for (at, len) in field.pieces {
            out.push(&block[at..at + len]);
        }
    }
    out
}

/// Bytes that the fields of `mask` take at the start of `packed`; `None` if there are fewer, or a
/// bit has no meaning.
pub fn packed_bytes(mask: u32, packed: &[u8]) -> Option<usize> {
    if mask & !ALL != 0 {
        return None;
    }
    let mut at = 0;
    for field in fields(mask) {
        at += match field.bit {
            NAME => NAME_HEADER + usize::from(*packed.get(at + NAME_HEADER - 1)?),
            _ => field.bytes(),
        };
    }
    (at <= packed.len()).then_some(at)
}

/// One packed field and its bytes; the walk of [`pack`] backwards.
pub fn split(mask: u32, packed: &[u8]) -> Option<Vec<(&'static Field, &[u8])>> {
    if packed_bytes(mask, packed)? != packed.len() {
        return None;
    }
    let mut rest = packed;
    let take = |field: &'static Field| {
        let len = match field.bit {
            NAME => NAME_HEADER + usize::from(rest[NAME_HEADER - 1]),
            _ => field.bytes(),
        };
        let (own, behind) = rest.split_at(len);
        rest = behind;
        (field, own)
    };
    Some(fields(mask).map(take).collect())
}

/// Writes packed fields into an inode block; bytes of no field in `mask` stay.
///
/// # Errors
/// `packed` has another length than the mask says, a bit has no meaning, or the inode lacks an
/// extra attribute: the block must not be used any more.
///
/// # Panics
/// `block` is shorter than 4096 bytes.
pub fn unpack(block: &mut [u8], mask: u32, packed: &[u8]) -> Result<(), Corrupt> {
    let block = &mut block[..BLOCK_BYTES];
    let Some(parts) = split(mask, packed) else {
        let reason = "does not say how many bytes there are";
        return Err(Corrupt::field(WHAT, "mask", mask.into(), reason));
    };
    for (field, bytes) in parts {
        if field.bit == NAME {
            put_packed_name(block, bytes);
            continue;
        }
        if field.extra && field.bit != EXTRA_ISIZE && field.end() > extra_end(block) {
            let reason = "names an extra attribute that the inode lacks";
            return Err(Corrupt::field(WHAT, "mask", mask.into(), reason));
        }
        let (first, second) = bytes.split_at(field.pieces[0].1);
        for ((at, len), bytes) in field.pieces.into_iter().zip([first, second]) {
            block[at..at + len].copy_from_slice(bytes);
        }
        if field.bit == EXTRA_ISIZE {
            check_extra_isize(block)?;
        }
    }
    Ok(())
}

fn check_extra_isize(block: &[u8]) -> Result<(), Corrupt> {
    let size = get_le16(block, EXTRA_AT);
    if Inline(block[3]).has(Inline::EXTRA_ATTR)
        && size <= INODE_EXTRA_BYTES_MAX
        && size.is_multiple_of(4)
    {
        return Ok(());
    }
    let reason = "needs EXTRA_ATTR, and is a multiple of 4 up to 36";
    Err(Corrupt::field(WHAT, "i_extra_isize", size.into(), reason))
}

fn put_packed_name(block: &mut [u8], packed: &[u8]) {
    let name = &packed[NAME_HEADER..];
    block[NAMELEN_AT..NAMELEN_AT + 4].copy_from_slice(&packed[..4]);
    block[NAME_AT..NAME_AT + name.len()].copy_from_slice(name);
    block[NAME_AT + name.len()..NAME_AT + NAME_AREA].fill(0);
}

/// The name in an inode block; a length beyond 255 counts as 255.
///
/// # Panics
/// `block` is shorter than 4096 bytes.
pub fn name(block: &[u8]) -> &[u8] {
    let len = get_le32(block, NAMELEN_AT).min(NAME_AREA as u32) as usize;
    &block[NAME_AT..NAME_AT + len]
}

/// Writes the name: its length, its bytes, zeros behind.
///
/// # Panics
/// `block` is shorter than 4096 bytes, or the name longer than 255.
pub fn set_name(block: &mut [u8], name: &[u8]) {
    assert!(name.len() <= NAME_AREA, "a name has at most 255 bytes");
    put_le32(block, NAMELEN_AT, name.len() as u32);
    block[NAME_AT..NAME_AT + name.len()].copy_from_slice(name);
    block[NAME_AT + name.len()..NAME_AT + NAME_AREA].fill(0);
}
