//! The bytes of a directory block: the one place of `dir` that knows offsets.
//!
//! A record is `inode, rec_len, name_len, file_type, name` (4, 2, 1, 1 bytes). A leaf with checksums ends in a 12-byte tail
//! that looks like an unused record of type 0xDE. The root of a hash tree is a block with the records `.` and `..`, the
//! latter long enough to hide the index; an interior node hides behind one unused record of the block's length.

use super::{DirFacts, Item};
use base::bytes::{get_le16, get_le32, put_le16, put_le32};
use base::checksum::crc32c;
use base::{BLOCK_BYTES, Ino};
use fscore::FileKind;

const RECORD_HEAD: usize = 8;
const TAIL: usize = BLOCK_BYTES - 12;
const TAIL_TYPE: u8 = 0xDE;
const ROOT_INFO: usize = 24;
const ROOT_PAIRS: usize = 32;
const NODE_PAIRS: usize = 8;
const PAIR: usize = 8;
const BLOCK_MASK: u32 = 0x0FFF_FFFF;

/// Hash function of a directory, signedness included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashKind {
    /// The hash of ext3's first trees, signed characters.
    Legacy,
    /// Half MD4, signed characters.
    HalfMd4,
    /// TEA, signed characters.
    Tea,
    /// Legacy, unsigned characters.
    LegacyUnsigned,
    /// Half MD4, unsigned characters.
    HalfMd4Unsigned,
    /// TEA, unsigned characters.
    TeaUnsigned,
}

impl HashKind {
    /// The hash of a version as a root or the superblock names it; signedness comes from the superblock's flags.
    pub fn of_version(version: u8, unsigned: bool) -> Option<HashKind> {
        Some(match (version, unsigned) {
            (0, false) => HashKind::Legacy,
            (1, false) => HashKind::HalfMd4,
            (2, false) => HashKind::Tea,
            (0, true) => HashKind::LegacyUnsigned,
            (1, true) => HashKind::HalfMd4Unsigned,
            (2, true) => HashKind::TeaUnsigned,
            _ => return None,
        })
    }
    fn version(self) -> u8 {
        match self {
            HashKind::Legacy | HashKind::LegacyUnsigned => 0,
            HashKind::HalfMd4 | HashKind::HalfMd4Unsigned => 1,
            HashKind::Tea | HashKind::TeaUnsigned => 2,
        }
    }
    /// True if characters above 127 count as positive.
    pub fn is_unsigned(self) -> bool {
        matches!(self, HashKind::LegacyUnsigned | HashKind::HalfMd4Unsigned | HashKind::TeaUnsigned)
    }
}

/// The hash of a name in this directory.
pub(super) fn name_hash(facts: &DirFacts, kind: HashKind, name: &[u8]) -> NameHash {
    super::hash::name_hash(kind, facts.hash_seed, name)
}

/// Hash of a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct NameHash {
    /// What the index sorts by; bit 0 is clear.
    pub major: u32,
    /// Tells names of one major hash apart in the order of `readdir`.
    pub minor: u32,
}

/// A record of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record<'a> {
    /// Inode number; 0: unused.
    pub ino: u32,
    pub rec_len: usize,
    pub kind: Option<FileKind>,
    pub name: &'a [u8],
}

impl<'a> Record<'a> {
    /// A new record, as short as possible.
    pub fn new(facts: &DirFacts, item: &Item<'a>) -> Record<'a> {
        let kind = facts.has_file_type.then_some(item.kind);
        Record { ino: item.ino.0, rec_len: record_bytes(item.name.len()), kind, name: item.name }
    }
    pub fn in_use(&self) -> bool {
        self.ino != 0
    }
    /// Bytes that the record needs.
    pub fn bytes(&self) -> usize {
        record_bytes(self.name.len())
    }
}

/// Bytes of a record with a name of this length.
pub(super) fn record_bytes(name_len: usize) -> usize {
    (RECORD_HEAD + name_len).next_multiple_of(4)
}

/// Where the records of a leaf end.
pub(super) fn leaf_limit(facts: &DirFacts) -> usize {
    if facts.csum_seed.is_some() { TAIL } else { BLOCK_BYTES }
}

/// The record at `offset`, with everything checked that can be wrong.
pub(super) fn record<'a>(facts: &DirFacts, block: &'a [u8], offset: usize, limit: usize) -> Result<Record<'a>, String> {
    if offset + record_bytes(1) > limit {
        return Err(format!("no room for a record before byte {limit}"));
    }
    let ino = get_le32(block, offset);
    let rec_len = usize::from(get_le16(block, offset + 4));
    let name_len = usize::from(block[offset + 6]);
    if rec_len < record_bytes(1) || !rec_len.is_multiple_of(4) || offset + rec_len > limit {
        return Err(format!("rec_len {rec_len}"));
    }
    if RECORD_HEAD + name_len > rec_len {
        return Err(format!("name_len {name_len} in a record of {rec_len} bytes"));
    }
    if ino != 0 && name_len == 0 {
        return Err("no name".into());
    }
    let name = &block[offset + RECORD_HEAD..offset + RECORD_HEAD + name_len];
    let kind = if facts.has_file_type { kind_of(block[offset + 7]) } else { None };
    Ok(Record { ino, rec_len, kind, name })
}

const KINDS: [FileKind; 7] = [
    FileKind::File,
    FileKind::Dir,
    FileKind::Char,
    FileKind::Block,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::Symlink,
];

fn kind_of(byte: u8) -> Option<FileKind> {
    usize::from(byte).checked_sub(1).and_then(|n| KINDS.get(n)).copied()
}

fn kind_byte(facts: &DirFacts, kind: Option<FileKind>) -> u8 {
    let place = KINDS.iter().position(|&k| Some(k) == kind);
    place.filter(|_| facts.has_file_type).map_or(0, |n| n as u8 + 1)
}

/// Writes a record.
pub(super) fn put_record(facts: &DirFacts, block: &mut [u8], offset: usize, rec_len: usize, item: &Item<'_>) {
    copy_record(facts, block, offset, rec_len, &Record::new(facts, item));
}

/// Writes a record with this content and another length.
pub(super) fn copy_record(facts: &DirFacts, block: &mut [u8], offset: usize, rec_len: usize, from: &Record<'_>) {
    assert!(from.bytes() <= rec_len && offset + rec_len <= block.len(), "a record fits its room");
    put_le32(block, offset, from.ino);
    set_rec_len(block, offset, rec_len);
    block[offset + 6] = from.name.len() as u8;
    block[offset + 7] = kind_byte(facts, from.kind);
    block[offset + RECORD_HEAD..][..from.name.len()].copy_from_slice(from.name);
}

/// Changes the length of the record at `offset`.
pub(super) fn set_rec_len(block: &mut [u8], offset: usize, rec_len: usize) {
    put_le16(block, offset + 4, u16::try_from(rec_len).expect("a record lies within a block"));
}

/// Points the record at `offset` to another inode.
pub(super) fn set_target(facts: &DirFacts, block: &mut [u8], offset: usize, ino: Ino, kind: FileKind) {
    put_le32(block, offset, ino.0);
    block[offset + 7] = kind_byte(facts, Some(kind));
}

/// A leaf without entries, not sealed.
pub(super) fn empty_leaf(facts: &DirFacts) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    set_rec_len(&mut block, 0, leaf_limit(facts));
    if facts.csum_seed.is_some() {
        set_rec_len(&mut block, TAIL, BLOCK_BYTES - TAIL);
        block[TAIL + 7] = TAIL_TYPE;
    }
    block
}

/// Sets the checksum of a leaf.
pub(super) fn seal_leaf(facts: &DirFacts, block: &mut [u8]) {
    if let Some(seed) = facts.csum_seed {
        let csum = crc32c(seed, &block[..TAIL]);
        put_le32(block, TAIL + 8, csum);
    }
}

/// Checks tail and checksum of a leaf.
pub(super) fn verify_leaf(facts: &DirFacts, block: &[u8]) -> Result<(), String> {
    let Some(seed) = facts.csum_seed else {
        return Ok(());
    };
    let head = (get_le32(block, TAIL), get_le16(block, TAIL + 4), block[TAIL + 6], block[TAIL + 7]);
    if head != (0, (BLOCK_BYTES - TAIL) as u16, 0, TAIL_TYPE) {
        return Err("no checksum tail".into());
    }
    check_sum(get_le32(block, TAIL + 8), crc32c(seed, &block[..TAIL]))
}

fn check_sum(stored: u32, computed: u32) -> Result<(), String> {
    match stored == computed {
        true => Ok(()),
        false => Err(format!("checksum {stored:#010x} instead of {computed:#010x}")),
    }
}

/// An index block's own facts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IndexHead {
    /// Offset of the pairs.
    pub base: usize,
    /// Pairs that fit.
    pub limit: usize,
    count: usize,
    /// Levels of index blocks below; counts in the root only.
    pub levels: u8,
    /// Hash function; counts in the root only.
    pub hash: HashKind,
}

/// One pair of an index: names from `hash` on are in, or below, `block`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IndexPair {
    /// Bit 0 set: names of this hash (without the bit) begin in the block before.
    pub hash: u32,
    pub block: u32,
}

fn pair_limit(facts: &DirFacts, base: usize) -> usize {
    let tail = if facts.csum_seed.is_some() { PAIR } else { 0 };
    (BLOCK_BYTES - base - tail) / PAIR
}

/// True if the block has the shape of an interior node.
pub(super) fn looks_like_node(block: &[u8]) -> bool {
    get_le32(block, 0) == 0 && usize::from(get_le16(block, 4)) == BLOCK_BYTES
}

/// Checks an interior node.
pub(super) fn parse_node(facts: &DirFacts, block: &[u8]) -> Result<IndexHead, String> {
    if !looks_like_node(block) {
        return Err("not an index block".into());
    }
    parse_pairs(facts, block, NODE_PAIRS, 0, facts.hash)
}

/// Checks a root.
pub(super) fn parse_root(facts: &DirFacts, block: &[u8]) -> Result<IndexHead, String> {
    let dot = record(facts, block, 0, BLOCK_BYTES).map_err(|why| format!("entry \".\": {why}"))?;
    if dot.name != b"." || dot.rec_len != record_bytes(1) {
        return Err("index root does not begin with \".\"".into());
    }
    let dotdot = record(facts, block, 12, BLOCK_BYTES).map_err(|why| format!("entry \"..\": {why}"))?;
    if dotdot.name != b".." || dotdot.rec_len != BLOCK_BYTES - 12 {
        return Err("index root without \"..\" over the rest of the block".into());
    }
    let (reserved, version, length) = (get_le32(block, ROOT_INFO), block[ROOT_INFO + 4], block[ROOT_INFO + 5]);
    if reserved != 0 || length != 8 || block[ROOT_INFO + 7] & 1 != 0 {
        return Err(format!("index root of {length} bytes, flags {:#x}", block[ROOT_INFO + 7]));
    }
    let hash = HashKind::of_version(version, facts.hash.is_unsigned());
    let hash = hash.ok_or_else(|| format!("hash version {version}"))?;
    parse_pairs(facts, block, ROOT_PAIRS, block[ROOT_INFO + 6], hash)
}

fn parse_pairs(facts: &DirFacts, block: &[u8], base: usize, levels: u8, hash: HashKind) -> Result<IndexHead, String> {
    let limit = usize::from(get_le16(block, base));
    let count = usize::from(get_le16(block, base + 2));
    let expected = pair_limit(facts, base);
    if limit != expected {
        return Err(format!("index limit {limit} instead of {expected}"));
    }
    if count == 0 || count > limit {
        return Err(format!("index count {count}, limit {limit}"));
    }
    let head = IndexHead { base, limit, count, levels, hash };
    if let Some(seed) = facts.csum_seed {
        check_sum(get_le32(block, base + limit * PAIR + 4), index_csum(seed, block, &head))?;
    }
    Ok(head)
}

/// CRC32C over the pairs in use and what is before them, then the tail with a checksum of zero.
fn index_csum(seed: u32, block: &[u8], head: &IndexHead) -> u32 {
    let tail = head.base + head.limit * PAIR;
    let csum = crc32c(seed, &block[..head.base + head.count * PAIR]);
    crc32c(crc32c(csum, &block[tail..tail + 4]), &[0; 4])
}

/// The pairs in use.
pub(super) fn index_pairs(block: &[u8], head: &IndexHead) -> Vec<IndexPair> {
    let pair = |n: usize| {
        let at = head.base + n * PAIR;
        let hash = if n == 0 { 0 } else { get_le32(block, at) };
        IndexPair { hash, block: get_le32(block, at + 4) & BLOCK_MASK }
    };
    (0..head.count).map(pair).collect()
}

/// Writes pairs, and the levels of a root, and seals.
pub(super) fn put_index(facts: &DirFacts, block: &mut [u8], head: &IndexHead, pairs: &[IndexPair]) {
    for (n, pair) in pairs.iter().enumerate() {
        let at = head.base + n * PAIR;
        put_le32(block, at, pair.hash);
        put_le32(block, at + 4, pair.block);
    }
    put_le16(block, head.base, head.limit as u16);
    put_le16(block, head.base + 2, pairs.len() as u16);
    if head.base == ROOT_PAIRS {
        block[ROOT_INFO + 6] = head.levels;
    }
    let head = IndexHead { count: pairs.len(), ..*head };
    seal_index(facts, block, &head);
}

fn seal_index(facts: &DirFacts, block: &mut [u8], head: &IndexHead) {
    if let Some(seed) = facts.csum_seed {
        let csum = index_csum(seed, block, head);
        put_le32(block, head.base + head.limit * PAIR + 4, csum);
    }
}

/// Sets the checksum of a root of which only `.` or `..` has changed.
pub(super) fn seal_root(facts: &DirFacts, block: &mut [u8]) {
    let limit = usize::from(get_le16(block, ROOT_PAIRS));
    let count = usize::from(get_le16(block, ROOT_PAIRS + 2));
    seal_index(facts, block, &IndexHead { base: ROOT_PAIRS, limit, count, levels: 0, hash: facts.hash });
}

/// A new interior node.
pub(super) fn index_node(facts: &DirFacts, pairs: &[IndexPair]) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    set_rec_len(&mut block, 0, BLOCK_BYTES);
    let limit = pair_limit(facts, NODE_PAIRS);
    let head = IndexHead { base: NODE_PAIRS, limit, count: 0, levels: 0, hash: facts.hash };
    put_index(facts, &mut block, &head, pairs);
    block
}

/// A new root.
pub(super) fn index_root(facts: &DirFacts, dot: &Record<'_>, dotdot: &Record<'_>, pairs: &[IndexPair]) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    copy_record(facts, &mut block, 0, 12, dot);
    copy_record(facts, &mut block, 12, BLOCK_BYTES - 12, dotdot);
    block[ROOT_INFO + 4] = facts.hash.version();
    block[ROOT_INFO + 5] = 8;
    let limit = pair_limit(facts, ROOT_PAIRS);
    let head = IndexHead { base: ROOT_PAIRS, limit, count: 0, levels: 0, hash: facts.hash };
    put_index(facts, &mut block, &head, pairs);
    block
}
