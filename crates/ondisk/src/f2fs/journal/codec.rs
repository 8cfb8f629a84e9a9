//! The bytes of records: a header of 4 bytes, a body, zeros up to a multiple of 4.
//!
//! Header: type u8, flags u8, bytes of the record le16. Integers are little-endian; `-` is zero.
//!
//! | # | record | flags | body |
//! |---|---|---|---|
//! | 1 | INODE_NEW | | mask 4, name length 1, - 3, fields, name |
//! | 2 | INODE_ATTR | | mask 4, fields |
//! | 3 | DENT_SET | | block 4, slot 2, type 1, name length 1, hash 4, ino 4, name |
//! | 4 | DENT_CLR | | block 4, slot 2, slots 1, - 1 |
//! | 5 | DENT_INO | | block 4, slot 2, type 1, - 1, ino 4 |
//! | 6 | MAP_RUN | 1 directory | nid 4, slot 2, count 2, address 4 |
//! | 7 | NODE_NEW | 1 cold | nid 4, offset in the tree 4, version 1, - 3 |
//! | 8 | NODE_PTR | | parent 4, slot 2, - 2, child 4 |
//! | 9 | NODE_DEL | | nid 4, version 1, - 3 |
//! | 10 | BLK_RUN | 1 valid | address 4, count 2, log 1, - 1 |
//! | 11 | BLK_MASK | 1 valid | segment 4, log 1, - 3, mask 64 |
//! | 12 | SUM_RUN | | address 4, count 2, version 1, - 1, nid 4, slot 2, - 2 |
//! | 13 | BYTES | what it is | nid 4, offset 2, length 2, bytes |
//! | 14, 15 | ORPHAN_ADD, ORPHAN_DEL | | |
//! | 16 | TRUNC | | page 8 |
//! | 17 | QUOTA | kind | id 4, bytes 8, inodes 8 |
//! | 18 | HEAD | | segment 4, next block 2, log 1, how 1 |
//! | 19 | PAGE | what block: 0 node, 1 directory, 2 NAT, 3 SIT | number 4, page 4, bytes 4096 |
//! | 20 | DATA_SUM | | address 4, blocks 4, checksum 4 of each |
//! | 21 | INODE_DEL | | first nid 4, count 2, version 1, - 1 |
//!
//! Each record has one form: bytes that decode to a record are those that it encodes to. Decoding
//! checks what the format promises (lengths, ranges of a node block, kinds), not whether a record
//! fits the volume: the code that redoes it checks that.

use super::records::Records;
use super::{Block, Content, PageKind, Record, Sums, attr};
use crate::Corrupt;
use crate::f2fs::{
    ADDRS_PER_BLOCK, AllocType, BLOCK_BYTES, BLOCKS_PER_SEG, BlockAddr, FileType, Log,
    NAME_BYTES_MAX, Nid, SegNo, VALID_MAP_BYTES,
};
use base::bytes::{get_le16, get_le32, get_le64, is_zero, put_le16};

/// Bytes of a record's header.
pub const RECORD_HEADER_BYTES: usize = 4;
/// Most bytes of a record: [`Record::Bytes`] of a whole directory block.
pub const RECORD_BYTES_MAX: usize = RECORD_HEADER_BYTES + 8 + 4 + BLOCK_BYTES;

pub(super) const WHAT: &str = "record of the journal";
const FLAG: u8 = 1;

impl Record<'_> {
    /// Appends the record.
    ///
    /// # Panics
    /// It breaks a bound that [`Record`] states.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&[self.code(), self.flags(), 0, 0]);
        self.encode_body(out);
        out.resize(at + (out.len() - at).next_multiple_of(4), 0);
        let len = out.len() - at;
        assert!(len <= RECORD_BYTES_MAX, "a record has a bound");
        put_le16(out, at + 2, len as u16);
        debug_assert_eq!(Records::new(&out[at..]).next(), Some(Ok(*self)));
    }

    /// Bytes that [`encode`](Self::encode) appends.
    pub fn encoded_bytes(&self) -> usize {
        let body = match self {
            Record::InodeNew { fields, name, .. } => 8 + fields.len() + name.len(),
            Record::InodeAttr { fields, .. } => 4 + fields.len(),
            Record::DentSet { name, .. } => 16 + name.len(),
            Record::DentClear { .. }
            | Record::NodeDel { .. }
            | Record::InodeDel { .. }
            | Record::BlockRun { .. }
            | Record::Trunc { .. }
            | Record::Head { .. } => 8,
            Record::DentIno { .. }
            | Record::MapRun { .. }
            | Record::NodeNew { .. }
            | Record::NodePtr { .. } => 12,
            Record::BlockMask { .. } => 8 + VALID_MAP_BYTES,
            Record::SumRun { .. } => 16,
            Record::Bytes { bytes, .. } => 8 + bytes.len(),
            Record::OrphanAdd | Record::OrphanDel => 0,
            Record::Quota { .. } => 20,
            Record::Page { .. } => 8 + BLOCK_BYTES,
            Record::DataSum { sums, .. } => 8 + 4 * sums.count(),
        };
        RECORD_HEADER_BYTES + body.next_multiple_of(4)
    }

    fn flags(&self) -> u8 {
        match *self {
            Record::MapRun { dir, .. } => u8::from(dir),
            Record::NodeNew { cold, .. } => u8::from(cold),
            Record::BlockRun { alloc, .. } | Record::BlockMask { alloc, .. } => u8::from(alloc),
            Record::Bytes { content, .. } => content as u8,
            Record::Quota { kind, .. } => kind,
            Record::Page { what, .. } => what as u8,
            _ => 0,
        }
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match *self {
            Record::InodeNew { mask, fields, name } => {
                assert!(mask & attr::NAME == 0, "the name stands by itself");
                assert!(name.len() <= NAME_BYTES_MAX, "a name has at most 255 bytes");
                p32(out, mask);
                out.extend_from_slice(&[name.len() as u8, 0, 0, 0]);
                put_fields(out, mask, fields);
                out.extend_from_slice(name);
            }
            Record::InodeAttr { mask, fields } => {
                p32(out, mask);
                put_fields(out, mask, fields);
            }
            Record::DentSet { .. } | Record::DentClear { .. } | Record::DentIno { .. } => {
                self.encode_dent(out);
            }
            Record::MapRun {
                nid,
                slot,
                count,
                addr,
                ..
            } => {
                p32(out, nid.0);
                p16(out, slot);
                p16(out, count);
                p32(out, addr.0);
            }
            Record::NodeNew { .. }
            | Record::NodePtr { .. }
            | Record::NodeDel { .. }
            | Record::InodeDel { .. } => self.encode_node(out),
            Record::BlockRun { .. } | Record::BlockMask { .. } | Record::SumRun { .. } => {
                self.encode_blocks(out);
            }
            Record::Bytes { nid, at, bytes, .. } => {
                p32(out, nid.0);
                p16(out, at);
                p16(out, bytes.len() as u16);
                out.extend_from_slice(bytes);
            }
            Record::OrphanAdd | Record::OrphanDel => {}
            Record::Trunc { from } => out.extend_from_slice(&from.to_le_bytes()),
            Record::Quota {
                id, space, inodes, ..
            } => {
                p32(out, id);
                out.extend_from_slice(&space.to_le_bytes());
                out.extend_from_slice(&inodes.to_le_bytes());
            }
            Record::Head {
                log,
                alloc,
                seg,
                next,
            } => {
                p32(out, seg.0);
                p16(out, next);
                out.extend_from_slice(&[log.index() as u8, alloc as u8]);
            }
            Record::DataSum { addr, sums } => sums.encode(addr, out),
            Record::Page {
                what,
                number,
                page,
                block,
            } => {
                let fits = page == 0 || what == PageKind::Dentries;
                assert!(fits, "only a directory has pages");
                p32(out, number);
                p32(out, page);
                out.extend_from_slice(block.0);
            }
        }
    }

    fn encode_dent(&self, out: &mut Vec<u8>) {
        match *self {
            Record::DentSet {
                block,
                slot,
                hash,
                ino,
                kind,
                name,
            } => {
                let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
                assert!(fits, "the name of an entry has 1 to 255 bytes");
                p32(out, block);
                p16(out, slot);
                out.extend_from_slice(&[kind.code(), name.len() as u8]);
                p32(out, hash);
                p32(out, ino.0);
                out.extend_from_slice(name);
            }
            Record::DentClear { block, slot, slots } => {
                p32(out, block);
                p16(out, slot);
                out.extend_from_slice(&[slots, 0]);
            }
            Record::DentIno {
                block,
                slot,
                kind,
                ino,
            } => {
                p32(out, block);
                p16(out, slot);
                out.extend_from_slice(&[kind.code(), 0]);
                p32(out, ino.0);
            }
            _ => {}
        }
    }

    fn encode_node(&self, out: &mut Vec<u8>) {
        match *self {
            Record::NodeNew {
                nid, ofs, version, ..
            } => {
                p32(out, nid.0);
                p32(out, ofs);
                out.extend_from_slice(&[version, 0, 0, 0]);
            }
            Record::NodePtr {
                parent,
                slot,
                child,
            } => {
                p32(out, parent.0);
                p16(out, slot);
                p16(out, 0);
                p32(out, child.0);
            }
            Record::NodeDel { nid, version } => {
                p32(out, nid.0);
                out.extend_from_slice(&[version, 0, 0, 0]);
            }
            Record::InodeDel {
                first,
                count,
                version,
            } => {
                assert!(is_run(first, count), "inodes that are freed have numbers");
                p32(out, first.0);
                p16(out, count);
                out.extend_from_slice(&[version, 0]);
            }
            _ => {}
        }
    }

    fn encode_blocks(&self, out: &mut Vec<u8>) {
        match *self {
            Record::BlockRun {
                addr, count, log, ..
            } => {
                p32(out, addr.0);
                p16(out, count);
                out.extend_from_slice(&[log.index() as u8, 0]);
            }
            Record::BlockMask { seg, log, mask, .. } => {
                p32(out, seg.0);
                out.extend_from_slice(&[log.index() as u8, 0, 0, 0]);
                out.extend_from_slice(mask);
            }
            Record::SumRun {
                addr,
                count,
                version,
                nid,
                slot,
            } => {
                p32(out, addr.0);
                p16(out, count);
                out.extend_from_slice(&[version, 0]);
                p32(out, nid.0);
                p16(out, slot);
                p16(out, 0);
            }
            _ => {}
        }
    }
}

fn p16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}
fn p32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}
/// At least one number, and one behind the last of them.
fn is_run(first: Nid, count: u16) -> bool {
    count > 0 && first.0.checked_add(count.into()).is_some()
}
fn put_fields(out: &mut Vec<u8>, mask: u32, fields: &[u8]) {
    let packed = attr::packed_bytes(mask, fields) == Some(fields.len());
    assert!(
        packed,
        "the fields of an inode are packed as their mask says"
    );
    out.extend_from_slice(fields);
}

/// One record: header, body.
pub(super) struct Body<'a> {
    code: u8,
    flags: u8,
    body: &'a [u8],
}

impl<'a> Body<'a> {
    /// `record` is at least as long as a header.
    pub fn new(record: &'a [u8]) -> Body<'a> {
        let (code, flags) = (record[0], record[1]);
        Body {
            code,
            flags,
            body: &record[RECORD_HEADER_BYTES..],
        }
    }

    pub fn record(&self) -> Result<Record<'a>, Corrupt> {
        match self.code {
            1 | 2 => self.inode(),
            3..=5 => self.dent(),
            6 => self.map_run(),
            7..=9 => self.node(),
            10..=12 => self.blocks(),
            13 => self.content(),
            14..=18 => self.other(),
            19 => self.page(),
            20 => {
                self.no_flags()?;
                let (addr, sums) = Sums::decode(self.body)?;
                Ok(Record::DataSum { addr, sums })
            }
            21 => self.inode_del(),
            code => Err(bad("type", code, "is no type of record")),
        }
    }

    /// The body, which has this many bytes.
    fn fixed(&self, bytes: usize) -> Result<&'a [u8], Corrupt> {
        if self.body.len() != bytes {
            let reason = "is not the length of a record of this type";
            return Err(bad("length", self.body.len() as u32, reason));
        }
        Ok(self.body)
    }
    /// At least `bytes` bytes of body.
    fn least(&self, bytes: usize) -> Result<&'a [u8], Corrupt> {
        Corrupt::need(WHAT, self.body, bytes)?;
        Ok(self.body)
    }
    /// The part of the body from `at` on, `len` bytes; what is behind is padding.
    fn tail(&self, at: usize, len: usize) -> Result<&'a [u8], Corrupt> {
        let rest = self.body.get(at..).unwrap_or_default();
        let own = Corrupt::need(WHAT, rest, len)?;
        if rest.len() != len.next_multiple_of(4) {
            let reason = "leaves more behind the record than padding";
            return Err(bad("length", self.body.len() as u32, reason));
        }
        zero(&rest[len..])?;
        Ok(own)
    }
    fn no_flags(&self) -> Result<(), Corrupt> {
        self.flag(0).map(|_| ())
    }
    /// The flag of a type that knows one (or, `known` 0, none).
    fn flag(&self, known: u8) -> Result<bool, Corrupt> {
        if self.flags & !known != 0 {
            return Err(bad("flags", self.flags, "a flag that this type lacks"));
        }
        Ok(self.flags != 0)
    }

    fn inode(&self) -> Result<Record<'a>, Corrupt> {
        self.no_flags()?;
        let new = self.code == 1;
        let at = if new { 8 } else { 4 };
        let b = self.least(at)?;
        let mask = get_le32(b, 0);
        let Some(len) = attr::packed_bytes(mask, &b[at..]) else {
            return Err(bad("mask", mask, "says another length than there is"));
        };
        if !new {
            let fields = self.tail(at, len)?;
            return Ok(Record::InodeAttr { mask, fields });
        }
        if mask & attr::NAME != 0 {
            return Err(bad("mask", mask, "the name of a new inode stands alone"));
        }
        zero(&b[5..8])?;
        let both = self.tail(at, len + usize::from(b[4]))?;
        let (fields, name) = both.split_at(len);
        Ok(Record::InodeNew { mask, fields, name })
    }

    fn dent(&self) -> Result<Record<'a>, Corrupt> {
        self.no_flags()?;
        let b = self.least(8)?;
        let (block, slot) = (get_le32(b, 0), get_le16(b, 4));
        if self.code == 4 {
            let b = self.fixed(8)?;
            zero(&b[7..])?;
            let slots = b[6];
            return Ok(Record::DentClear { block, slot, slots });
        }
        let kind = FileType::from_code(b[6]);
        if kind.code() != b[6] {
            return Err(bad("file_type", b[6], "is no type of file"));
        }
        if self.code == 5 {
            let b = self.fixed(12)?;
            zero(&b[7..8])?;
            let ino = Nid(get_le32(b, 8));
            return Ok(Record::DentIno {
                block,
                slot,
                kind,
                ino,
            });
        }
        let b = self.least(16)?;
        let name = self.tail(16, b[7].into())?;
        if name.is_empty() {
            return Err(bad("name_len", 0u8, "an entry has a name"));
        }
        Ok(Record::DentSet {
            block,
            slot,
            hash: get_le32(b, 8),
            ino: Nid(get_le32(b, 12)),
            kind,
            name,
        })
    }

    fn map_run(&self) -> Result<Record<'a>, Corrupt> {
        let dir = self.flag(FLAG)?;
        let b = self.fixed(12)?;
        let (slot, count) = (get_le16(b, 4), get_le16(b, 6));
        if count == 0 || u32::from(slot) + u32::from(count) > ADDRS_PER_BLOCK {
            return Err(bad("count", count, "leaves the slots of a node"));
        }
        let addr = BlockAddr(get_le32(b, 8));
        if addr.is_data() && dir {
            let reason = "a directory block is placed by apply alone";
            return Err(bad("addr", addr.0, reason));
        }
        check_run(addr, count, !addr.is_data())?;
        Ok(Record::MapRun {
            nid: Nid(get_le32(b, 0)),
            slot,
            count,
            addr,
            dir,
        })
    }

    fn node(&self) -> Result<Record<'a>, Corrupt> {
        if self.code == 7 {
            let cold = self.flag(FLAG)?;
            let b = self.fixed(12)?;
            zero(&b[9..])?;
            return Ok(Record::NodeNew {
                nid: Nid(get_le32(b, 0)),
                ofs: get_le32(b, 4),
                cold,
                version: b[8],
            });
        }
        self.no_flags()?;
        if self.code == 9 {
            let b = self.fixed(8)?;
            zero(&b[5..])?;
            let (nid, version) = (Nid(get_le32(b, 0)), b[4]);
            return Ok(Record::NodeDel { nid, version });
        }
        let b = self.fixed(12)?;
        zero(&b[6..8])?;
        let slot = get_le16(b, 4);
        if u32::from(slot) >= ADDRS_PER_BLOCK {
            return Err(bad("slot", slot, "lies behind the words of a node"));
        }
        Ok(Record::NodePtr {
            parent: Nid(get_le32(b, 0)),
            slot,
            child: Nid(get_le32(b, 8)),
        })
    }

    fn inode_del(&self) -> Result<Record<'a>, Corrupt> {
        self.no_flags()?;
        let b = self.fixed(8)?;
        zero(&b[7..])?;
        let (first, count, version) = (Nid(get_le32(b, 0)), get_le16(b, 4), b[6]);
        if !is_run(first, count) {
            return Err(bad("count", count, "is none, or leads behind all numbers"));
        }
        Ok(Record::InodeDel {
            first,
            count,
            version,
        })
    }

    fn blocks(&self) -> Result<Record<'a>, Corrupt> {
        if self.code == 12 {
            return self.sum_run();
        }
        let alloc = self.flag(FLAG)?;
        if self.code == 10 {
            let b = self.fixed(8)?;
            zero(&b[7..])?;
            let (addr, count) = (BlockAddr(get_le32(b, 0)), get_le16(b, 4));
            check_run(addr, count, false)?;
            return Ok(Record::BlockRun {
                addr,
                count,
                alloc,
                log: log(b[6])?,
            });
        }
        let b = self.fixed(8 + VALID_MAP_BYTES)?;
        zero(&b[5..8])?;
        let Some(mask) = b.last_chunk() else {
            return Err(bad("length", b.len() as u32, "a mask has 64 bytes"));
        };
        Ok(Record::BlockMask {
            seg: SegNo(get_le32(b, 0)),
            alloc,
            log: log(b[4])?,
            mask,
        })
    }

    fn sum_run(&self) -> Result<Record<'a>, Corrupt> {
        self.no_flags()?;
        let b = self.fixed(16)?;
        zero(&b[7..8])?;
        zero(&b[14..])?;
        let (addr, count, slot) = (BlockAddr(get_le32(b, 0)), get_le16(b, 4), get_le16(b, 12));
        check_run(addr, count, false)?;
        if u32::from(slot) + u32::from(count) > ADDRS_PER_BLOCK {
            return Err(bad("count", count, "leaves the slots of a node"));
        }
        Ok(Record::SumRun {
            addr,
            count,
            version: b[6],
            nid: Nid(get_le32(b, 8)),
            slot,
        })
    }

    fn content(&self) -> Result<Record<'a>, Corrupt> {
        let Some(content) = Content::from_code(self.flags) else {
            return Err(bad("flags", self.flags, "is no kind of content"));
        };
        let b = self.least(8)?;
        let (at, len) = (get_le16(b, 4), get_le16(b, 6));
        let bytes = self.tail(8, len.into())?;
        let front = if content == Content::Dentries { 4 } else { 0 };
        if bytes.len() <= front || usize::from(at) + bytes.len() - front > BLOCK_BYTES {
            return Err(bad("len", len, "leaves the block, or is nothing"));
        }
        Ok(Record::Bytes {
            content,
            nid: Nid(get_le32(b, 0)),
            at,
            bytes,
        })
    }

    fn page(&self) -> Result<Record<'a>, Corrupt> {
        let Some(what) = PageKind::from_code(self.flags) else {
            return Err(bad("flags", self.flags, "is no kind of block"));
        };
        let b = self.fixed(8 + BLOCK_BYTES)?;
        if what != PageKind::Dentries {
            zero(&b[4..8])?;
        }
        let Some(block) = b.last_chunk() else {
            return Err(bad("length", b.len() as u32, "a block has 4096 bytes"));
        };
        Ok(Record::Page {
            what,
            number: get_le32(b, 0),
            page: get_le32(b, 4),
            block: Block(block),
        })
    }

    fn other(&self) -> Result<Record<'a>, Corrupt> {
        if self.code == 17 {
            let b = self.fixed(20)?;
            if self.flags > 2 {
                return Err(bad("flags", self.flags, "is no kind of quota"));
            }
            return Ok(Record::Quota {
                kind: self.flags,
                id: get_le32(b, 0),
                space: get_le64(b, 4) as i64,
                inodes: get_le64(b, 12) as i64,
            });
        }
        self.no_flags()?;
        match self.code {
            14 => self.fixed(0).map(|_| Record::OrphanAdd),
            15 => self.fixed(0).map(|_| Record::OrphanDel),
            16 => self.fixed(8).map(|b| Record::Trunc {
                from: get_le64(b, 0),
            }),
            _ => self.head(),
        }
    }

    fn head(&self) -> Result<Record<'a>, Corrupt> {
        let b = self.fixed(8)?;
        let next = get_le16(b, 4);
        if u32::from(next) > BLOCKS_PER_SEG {
            return Err(bad("next", next, "lies behind the segment"));
        }
        let alloc = match b[7] {
            0 => AllocType::Lfs,
            1 => AllocType::Ssr,
            how => return Err(bad("alloc", how, "is no way to allocate")),
        };
        Ok(Record::Head {
            log: log(b[6])?,
            alloc,
            seg: SegNo(get_le32(b, 0)),
            next,
        })
    }
}

fn bad(field: &'static str, value: impl Into<u32>, reason: &'static str) -> Corrupt {
    Corrupt::field(WHAT, field, value.into().into(), reason)
}
fn zero(pad: &[u8]) -> Result<(), Corrupt> {
    match is_zero(pad) {
        true => Ok(()),
        false => Err(bad("padding", u32::from(pad[0]), "is zero")),
    }
}
fn log(code: u8) -> Result<Log, Corrupt> {
    Log::from_index(code.into()).ok_or_else(|| bad("log", code, "is no log"))
}
/// A run of at least one block inside the addresses; or, where `same`, one word that names none.
fn check_run(addr: BlockAddr, count: u16, same: bool) -> Result<(), Corrupt> {
    let last = count.checked_sub(1).map(u32::from);
    if same && last.is_some() {
        return Ok(());
    }
    let ends = last.and_then(|last| addr.checked_add(last)).is_some();
    match addr.is_data() && ends {
        true => Ok(()),
        false => Err(bad("count", count, "is no run of blocks")),
    }
}
