//! Extended attributes: in a block of their own or behind the extra fields of the inode.
//!
//! | header of a block | size | field | | entry | size | field |
//! |---|---|---|---|---|---|---|
//! | 0x00 | le32 | `h_magic` 0xEA020000 | | 0x00 | u8 | `e_name_len` |
//! | 0x04 | le32 | `h_refcount` | | 0x01 | u8 | `e_name_index` |
//! | 0x08 | le32 | `h_blocks` (1) | | 0x02 | le16 | `e_value_offs` |
//! | 0x0C | le32 | `h_hash` | | 0x04 | le32 | `e_value_inum` |
//! | 0x10 | le32 | `h_checksum` | | 0x08 | le32 | `e_value_size` |
//! | 0x14 | 12 | reserved | | 0x0C | le32 | `e_hash` |
//! | 0x20 | | entries | | 0x10 | | name, padded to 4 bytes |
//!
//! In an inode the header is the magic number alone. Four zero bytes end the entries. Offsets of
//! values count from the start of the block, in an inode from its first entry. Values lie behind
//! the entries, padded with zeros to 4 bytes; the last one ends with the area. In a block the
//! entries are sorted by prefix, length of the name, name, and each has the hash of its name and
//! value; the hash of the block is made of these and helps to find a block that can be shared. In
//! an inode the hash is 0.

use super::{FsSeed, Inode};
use crate::Corrupt;
use base::bytes::{get_le16, get_le32, put_le16, put_le32};
use base::checksum::crc32c;
use base::{BlockNo, Ino};

const WHAT: &str = "extended attributes";
const MAGIC: u32 = 0xEA02_0000;
const BLOCK_HEADER_BYTES: usize = 32;
const CHECKSUM_AT: usize = 0x10;
const ENTRY_BYTES: usize = 16;
/// The four zero bytes behind the last entry.
const END_BYTES: usize = 4;
/// Entries and values are padded to a multiple of this.
const PAD: usize = 4;

/// One attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct XattrEntry {
    /// Prefix of the name: 1 `user.`, 2 and 3 POSIX ACLs, 4 `trusted.`, 6 `security.`, 7 `system.`,
    /// ...
    pub name_index: u8,
    /// Name without the prefix.
    pub name: Vec<u8>,
    /// Value; empty if it lies in an inode of its own.
    pub value: Vec<u8>,
    /// Inode that holds the value, with feature `ea_inode`.
    pub value_ino: Option<Ino>,
}

impl XattrEntry {
    fn record_bytes(&self) -> usize {
        (ENTRY_BYTES + self.name.len()).next_multiple_of(PAD)
    }
    fn value_bytes(&self) -> usize {
        self.value.len().next_multiple_of(PAD)
    }
    /// Whether it has this prefix and name.
    pub fn is(&self, name_index: u8, name: &[u8]) -> bool {
        self.name_index == name_index && self.name == name
    }
    /// Hash of name and value (`e_hash`). Name bytes count as unsigned, as in Linux since 6.2 on
    /// every machine.
    fn hash(&self) -> u32 {
        let name = (self.name.iter()).fold(0u32, |h, &c| h.rotate_left(5) ^ u32::from(c));
        self.value.chunks(PAD).fold(name, |h, word| {
            let mut le = [0; PAD];
            le[..word.len()].copy_from_slice(word);
            h.rotate_left(16) ^ u32::from_le_bytes(le)
        })
    }
    /// The order of the entries in a block.
    fn order(&self) -> (u8, usize, &[u8]) {
        (self.name_index, self.name.len(), &self.name)
    }
}

/// Bytes that these attributes take, the end of the list included, headers not.
pub fn xattr_bytes(entries: &[XattrEntry]) -> usize {
    let each = |e: &XattrEntry| e.record_bytes() + e.value_bytes();
    END_BYTES + entries.iter().map(each).sum::<usize>()
}

/// A block of attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XattrBlock {
    /// Inodes that share the block.
    pub references: u32,
    /// Hash over all attributes.
    pub hash: u32,
    /// The attributes.
    pub entries: Vec<XattrEntry>,
}

impl XattrBlock {
    /// Reads a block. Checksum: [`verify_checksum`](Self::verify_checksum).
    ///
    /// # Errors
    /// No magic number, more than one block, or an entry or value outside the block.
    pub fn parse(block: &[u8]) -> Result<XattrBlock, Corrupt> {
        Corrupt::need(WHAT, block, BLOCK_HEADER_BYTES)?;
        let magic = get_le32(block, 0);
        if magic != MAGIC {
            return Err(Corrupt::magic(WHAT, magic, MAGIC));
        }
        let blocks = get_le32(block, 8);
        if blocks != 1 {
            let reason = "attributes have one block";
            return Err(Corrupt::field(WHAT, "h_blocks", blocks.into(), reason));
        }
        Ok(XattrBlock {
            references: get_le32(block, 4),
            hash: get_le32(block, 12),
            entries: entries(&block[BLOCK_HEADER_BYTES..], block)?,
        })
    }

    /// Bytes that a block of `block_bytes` has for attributes, as [`xattr_bytes`] counts.
    pub const fn room(block_bytes: usize) -> usize {
        block_bytes - BLOCK_HEADER_BYTES
    }

    /// A block with these attributes, sorted and hashed, that `references` inodes share. Checksum:
    /// [`update_checksum`](Self::update_checksum).
    ///
    /// # Panics
    /// If they do not fit ([`room`](Self::room)), a name has more than 255 bytes, or a value lies
    /// in an inode of its own.
    pub fn compose(mut list: Vec<XattrEntry>, references: u32, block_bytes: usize) -> Vec<u8> {
        list.sort_by(|a, b| a.order().cmp(&b.order()));
        let mut block = vec![0; block_bytes];
        let hashes: Vec<u32> = list.iter().map(XattrEntry::hash).collect();
        store(&list, &hashes, BLOCK_HEADER_BYTES, &mut block);
        // An entry with hash 0 keeps the block from being shared.
        let hash = match hashes.contains(&0) {
            true => 0,
            false => hashes.iter().fold(0u32, |h, e| h.rotate_left(16) ^ e),
        };
        for (at, value) in [(0, MAGIC), (4, references), (8, 1), (12, hash)] {
            put_le32(&mut block, at, value);
        }
        block
    }

    fn computed_checksum(seed: FsSeed, at: BlockNo, block: &[u8]) -> u32 {
        let crc = crc32c(crc32c(seed.0, &at.0.to_le_bytes()), &block[..CHECKSUM_AT]);
        crc32c(crc32c(crc, &[0; 4]), &block[CHECKSUM_AT + 4..])
    }
    /// Stores the checksum of the block that lies at `at`.
    ///
    /// # Panics
    /// If `block` is shorter than a header.
    pub fn update_checksum(seed: FsSeed, at: BlockNo, block: &mut [u8]) {
        let crc = Self::computed_checksum(seed, at, block);
        put_le32(block, CHECKSUM_AT, crc);
    }
    /// Checks the checksum of the block that lies at `at`.
    ///
    /// # Errors
    /// The stored checksum is another one, or the block is too short.
    pub fn verify_checksum(seed: FsSeed, at: BlockNo, block: &[u8]) -> Result<(), Corrupt> {
        Corrupt::need(WHAT, block, BLOCK_HEADER_BYTES)?;
        let stored = get_le32(block, CHECKSUM_AT);
        Corrupt::check(WHAT, stored, Self::computed_checksum(seed, at, block))
            .map_err(|e| e.at_block(at))
    }
}

/// The attributes inside an inode; none if it has no such area or no magic number there.
///
/// # Errors
/// An entry or value outside the inode.
pub fn inode_xattrs(inode: &Inode) -> Result<Vec<XattrEntry>, Corrupt> {
    let area = inode.xattr_area();
    if area.len() < 4 || get_le32(area, 0) != MAGIC {
        return Ok(Vec::new());
    }
    entries(&area[4..], &area[4..])
}

/// Bytes that an inode has for attributes, as [`xattr_bytes`] counts; 0 if it has no such area.
pub fn inode_xattr_room(inode: &Inode) -> usize {
    inode.xattr_area().len().saturating_sub(4)
}

/// Replaces the attributes inside an inode.
///
/// # Panics
/// If they do not fit ([`inode_xattr_room`]), a name has more than 255 bytes, or a value lies in an
/// inode of its own.
pub fn set_inode_xattrs(inode: &mut Inode, list: &[XattrEntry]) {
    let area = inode.xattr_area_mut();
    area.fill(0);
    if list.is_empty() {
        return;
    }
    put_le32(area, 0, MAGIC);
    store(list, &vec![0; list.len()], 0, &mut area[4..]);
}

/// Writes entries from `at` on and their values from the end of `buf` downwards. `buf` holds zeros.
fn store(list: &[XattrEntry], hashes: &[u32], mut at: usize, buf: &mut [u8]) {
    assert!(
        at + xattr_bytes(list) <= buf.len(),
        "the caller has made sure that the attributes fit"
    );
    let mut end = buf.len();
    for (e, &hash) in list.iter().zip(hashes) {
        assert_eq!(e.value_ino, None, "values in inodes are not written");
        end -= e.value_bytes();
        buf[end..end + e.value.len()].copy_from_slice(&e.value);
        let record = &mut buf[at..at + e.record_bytes()];
        record[0] = u8::try_from(e.name.len()).expect("a name has at most 255 bytes");
        record[1] = e.name_index;
        put_le16(record, 2, if e.value.is_empty() { 0 } else { end as u16 });
        put_le32(record, 8, e.value.len() as u32);
        put_le32(record, 12, hash);
        record[ENTRY_BYTES..ENTRY_BYTES + e.name.len()].copy_from_slice(&e.name);
        at += e.record_bytes();
    }
}

/// One entry before its value is looked at.
struct Record<'a> {
    head: &'a [u8],
    name: &'a [u8],
}

fn entries(list: &[u8], values: &[u8]) -> Result<Vec<XattrEntry>, Corrupt> {
    let mut records = Vec::new();
    let mut rest = list;
    // Each turn takes at least 16 bytes off `rest`.
    while Corrupt::need(WHAT, rest, END_BYTES)? != [0; END_BYTES] {
        let head = Corrupt::need(WHAT, rest, ENTRY_BYTES)?;
        let name_len = usize::from(head[0]);
        let bytes = (ENTRY_BYTES + name_len).next_multiple_of(PAD);
        let name = &Corrupt::need(WHAT, rest, bytes)?[ENTRY_BYTES..ENTRY_BYTES + name_len];
        records.push(Record { head, name });
        rest = &rest[bytes..];
    }
    // Values lie behind the list.
    let first = values.len() - rest.len() + END_BYTES;
    records.iter().map(|r| r.entry(first, values)).collect()
}

impl Record<'_> {
    fn entry(&self, first: usize, values: &[u8]) -> Result<XattrEntry, Corrupt> {
        let head = self.head;
        let at = usize::from(get_le16(head, 2));
        let (ino, len) = (get_le32(head, 4), get_le32(head, 8));
        let value = if ino != 0 || len == 0 {
            Vec::new()
        } else {
            let bytes = values.get(at..).filter(|_| at >= first);
            let bytes = bytes.filter(|b| (len as usize).next_multiple_of(PAD) <= b.len());
            let outside = || {
                let reason = "the value lies outside the room for values";
                Corrupt::field(WHAT, "e_value_offs", at as u64, reason)
            };
            bytes.ok_or_else(outside)?[..len as usize].to_vec()
        };
        Ok(XattrEntry {
            name_index: head[1],
            name: self.name.to_vec(),
            value,
            value_ino: (ino != 0).then_some(Ino(ino)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attribute_in_an_inode() {
        // debugfs -w -R "ea_set f user.k val": name index 1, value at the end of the 256-byte
        // inode.
        let mut inode = Inode::blank(256, 32).bytes().to_vec();
        put_le32(&mut inode, 160, MAGIC);
        inode[164..166].copy_from_slice(&[1, 1]);
        put_le16(&mut inode, 166, 92 - 4);
        put_le32(&mut inode, 172, 3);
        inode[180] = b'k';
        inode[252..255].copy_from_slice(b"val");
        let inode = Inode::parse(&inode, 256).expect("valid");
        let list = inode_xattrs(&inode).expect("valid");
        assert_eq!(list.len(), 1);
        assert_eq!(
            (list[0].name_index, &list[0].name[..], &list[0].value[..]),
            (1, &b"k"[..], &b"val"[..])
        );
        let mut bad = inode.bytes().to_vec();
        put_le32(&mut bad, 172, 5);
        assert!(inode_xattrs(&Inode::parse(&bad, 256).expect("valid")).is_err());
    }

    fn entry(name_index: u8, name: &[u8], value: &[u8]) -> XattrEntry {
        XattrEntry {
            name_index,
            name: name.to_vec(),
            value: value.to_vec(),
            value_ino: None,
        }
    }

    #[test]
    fn a_block_is_sorted_as_linux_sorts_it() {
        let list = vec![
            entry(6, b"a", b"1"),
            entry(1, b"bb", b""),
            entry(1, b"z", b"22222"),
            entry(2, b"", b"acl"),
            entry(1, b"ba", b"3"),
        ];
        let block = XattrBlock::compose(list, 7, 4096);
        let parsed = XattrBlock::parse(&block).expect("valid");
        let names = parsed.entries.iter().map(|e| (e.name_index, &e.name[..]));
        let expected: [(u8, &[u8]); 5] = [(1, b"z"), (1, b"ba"), (1, b"bb"), (2, b""), (6, b"a")];
        assert!(names.eq(expected));
        assert_eq!(parsed.references, 7);
        assert_ne!(parsed.hash, 0);
    }

    #[test]
    fn values_may_not_lie_in_the_list_nor_pass_the_end() {
        let good = XattrBlock::compose(vec![entry(1, b"k", b"value")], 1, 4096);
        for (at, value) in [(34, 48), (34, 4092), (40, 9), (8, 2)] {
            let mut bad = good.clone();
            put_le16(&mut bad, at, value);
            assert!(XattrBlock::parse(&bad).is_err(), "{value} at {at}");
        }
    }

    fn any_entries() -> impl Strategy<Value = Vec<XattrEntry>> {
        let bytes = |max| proptest::collection::vec(any::<u8>(), 0..max);
        let one = (1u8..8, bytes(20), bytes(40)).prop_map(|(i, n, v)| entry(i, &n, &v));
        proptest::collection::vec(one, 0..8)
    }

    proptest! {
        #[test]
        fn what_is_stored_is_read(mut list in any_entries()) {
            let block = XattrBlock::compose(list.clone(), 1, 1024);
            let mut found = XattrBlock::parse(&block).expect("valid").entries;
            let mut inode = Inode::blank(256 + 512, 32);
            if xattr_bytes(&list) <= inode_xattr_room(&inode) {
                set_inode_xattrs(&mut inode, &list);
                prop_assert_eq!(&inode_xattrs(&inode).expect("valid"), &list);
            }
            list.sort();
            found.sort();
            prop_assert_eq!(found, list);
        }

        #[test]
        fn random_bytes_never_panic(mut block in proptest::collection::vec(any::<u8>(), 0..300)) {
            if block.len() > 12 {
                put_le32(&mut block, 0, MAGIC);
                put_le32(&mut block, 8, 1);
            }
            let _ = XattrBlock::parse(&block);
            let _ = XattrBlock::verify_checksum(FsSeed(1), BlockNo(1), &block);
        }
    }
}
