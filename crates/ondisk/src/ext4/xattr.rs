//! Extended attributes, for reading: in a block of their own or behind the extra fields of the inode.
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
//! In an inode the header is the magic number alone. Four zero bytes end the entries. Offsets of values count from the
//! start of the block, in an inode from its first entry.

use super::{FsSeed, Inode};
use crate::Corrupt;
use base::bytes::{get_le16, get_le32, put_le32};
use base::checksum::crc32c;
use base::{BlockNo, Ino};

const WHAT: &str = "extended attributes";
const MAGIC: u32 = 0xEA02_0000;
const BLOCK_HEADER_BYTES: usize = 32;
const CHECKSUM_AT: usize = 0x10;
const ENTRY_BYTES: usize = 16;

/// One attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XattrEntry {
    /// Prefix of the name: 1 `user.`, 2 and 3 POSIX ACLs, 4 `trusted.`, 6 `security.`, 7 `system.`, ...
    pub name_index: u8,
    /// Name without the prefix.
    pub name: Vec<u8>,
    /// Value; empty if it lies in an inode of its own.
    pub value: Vec<u8>,
    /// Inode that holds the value, with feature `ea_inode`.
    pub value_ino: Option<Ino>,
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
    /// No magic number, or an entry or value outside the block.
    pub fn parse(block: &[u8]) -> Result<XattrBlock, Corrupt> {
        Corrupt::need(WHAT, block, BLOCK_HEADER_BYTES)?;
        let magic = get_le32(block, 0);
        if magic != MAGIC {
            return Err(Corrupt::magic(WHAT, magic, MAGIC));
        }
        Ok(XattrBlock {
            references: get_le32(block, 4),
            hash: get_le32(block, 12),
            entries: entries(&block[BLOCK_HEADER_BYTES..], block)?,
        })
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

fn entries(mut list: &[u8], values: &[u8]) -> Result<Vec<XattrEntry>, Corrupt> {
    let mut out = Vec::new();
    // Each turn takes at least 16 bytes off `list`.
    loop {
        if Corrupt::need(WHAT, list, 4)? == [0; 4] {
            return Ok(out);
        }
        let head = Corrupt::need(WHAT, list, ENTRY_BYTES)?;
        let name_len = usize::from(head[0]);
        let bytes = (ENTRY_BYTES + name_len).next_multiple_of(4);
        let name = Corrupt::need(WHAT, list, bytes)?[ENTRY_BYTES..ENTRY_BYTES + name_len].to_vec();
        let (at, ino, len) = (get_le16(head, 2), get_le32(head, 4), get_le32(head, 8));
        let value = if ino != 0 {
            Vec::new()
        } else {
            let end = usize::from(at).checked_add(len as usize);
            let range = end.and_then(|end| values.get(usize::from(at)..end));
            let outside = || {
                Corrupt::field(
                    WHAT,
                    "e_value_size",
                    len.into(),
                    "value lies outside its block",
                )
            };
            range.ok_or_else(outside)?.to_vec()
        };
        let value_ino = (ino != 0).then_some(Ino(ino));
        out.push(XattrEntry {
            name_index: head[1],
            name,
            value,
            value_ino,
        });
        list = &list[bytes..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::bytes::put_le16;
    use proptest::prelude::*;

    #[test]
    fn attribute_in_an_inode() {
        // debugfs -w -R "ea_set f user.k val": name index 1, value at the end of the 256-byte inode.
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

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut block in proptest::collection::vec(any::<u8>(), 0..300)) {
            if block.len() > 4 {
                put_le32(&mut block, 0, MAGIC);
            }
            let _ = XattrBlock::parse(&block);
            let _ = XattrBlock::verify_checksum(FsSeed(1), BlockNo(1), &block);
        }
    }
}
