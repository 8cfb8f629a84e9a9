//! The hash index of a large directory ("htree"): a root in file block 0, nodes below it, leaves
//! that are ordinary directory blocks.
//!
//! | root | size | field | | node | size | field |
//! |---|---|---|---|---|---|---|
//! | 0x00 | 12 | entry `.` | | 0x00 | 8 | unused entry that fills the block |
//! | 0x0C | 12 | entry `..` that fills the block | | | | |
//! | 0x18 | le32 | reserved, 0 | | | | |
//! | 0x1C | u8 | `hash_version` | | | | |
//! | 0x1D | u8 | `info_length` (8) | | | | |
//! | 0x1E | u8 | `indirect_levels` | | | | |
//! | 0x1F | u8 | `unused_flags` | | | | |
//! | 0x20 | le16 | `limit` | | 0x08 | le16 | `limit` |
//! | 0x22 | le16 | `count` | | 0x0A | le16 | `count` |
//! | 0x24 | le32 | block of the first record | | 0x0C | le32 | block of the first record |
//! | 0x28 | 8 each | le32 hash, le32 block | | 0x10 | 8 each | le32 hash, le32 block |
//!
//! Record `n` leads to the names whose hash is at least its own and below the next one's; the first
//! record has no hash (it counts as 0). Bit 0 of a hash says that names with the *same* hash began
//! in the block before. With `metadata_csum` le32 reserved and le32 CRC32C follow the last possible
//! record.

use super::InodeSeed;
use crate::Corrupt;
use base::bytes::{get_le16, get_le32, put_le16, put_le32};
use base::checksum::crc32c;

const WHAT: &str = "directory index";
const ROOT_RECORDS_AT: usize = 0x20;
const NODE_RECORDS_AT: usize = 0x08;
const RECORD_BYTES: usize = 8;
const TAIL_BYTES: usize = 8;
const INFO_BYTES: u8 = 8;
const BLOCK_MASK: u32 = 0x0FFF_FFFF;

/// A record of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DxEntry {
    /// Smallest hash below it; of the first record 0. Bit 0: a collision goes over the block
    /// boundary.
    pub hash: u32,
    /// File block it leads to.
    pub block: u32,
}

/// What only the root holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DxRootInfo {
    /// Number of the hash (see [`HashVersion`](super::HashVersion)), without the choice of signed
    /// or unsigned characters.
    pub hash_version: u8,
    /// Levels of nodes between root and leaves.
    pub levels: u8,
    /// Flags; unused, kept.
    pub flags: u8,
}

/// The shape of a block of the index whose records have been checked and still lie in the block: a
/// lookup reads few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DxShape {
    /// Of the root only.
    pub root: Option<DxRootInfo>,
    /// Records that fit.
    pub limit: u16,
    /// Records, at least one.
    pub count: u16,
}

/// A block of the index, the root or a node, taken apart to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DxBlock {
    /// Of the root only.
    pub root: Option<DxRootInfo>,
    /// Records that fit.
    pub limit: u16,
    /// Records, at least one, in order of their hash.
    pub entries: Vec<DxEntry>,
}

impl DxBlock {
    /// Records that fit a root or node in a block.
    pub const fn capacity(is_root: bool, block_bytes: usize, checksums: bool) -> u16 {
        let head = if is_root {
            ROOT_RECORDS_AT
        } else {
            NODE_RECORDS_AT
        };
        let tail = if checksums { TAIL_BYTES } else { 0 };
        ((block_bytes - head - tail) / RECORD_BYTES) as u16
    }

    /// Reads file block 0 of an indexed directory.
    ///
    /// # Errors
    /// As [`DxShape::of_root`].
    pub fn parse_root(block: &[u8], checksums: bool) -> Result<DxBlock, Corrupt> {
        DxShape::of_root(block, checksums).map(|shape| shape.records(block))
    }

    /// Reads a node.
    ///
    /// # Errors
    /// As [`DxShape::of_node`].
    pub fn parse_node(block: &[u8], checksums: bool) -> Result<DxBlock, Corrupt> {
        DxShape::of_node(block, checksums).map(|shape| shape.records(block))
    }

    /// Writes the block. Of a root the entries `.` and `..` (bytes 0 to 24) stay as they are and
    /// must be there already; of a node the unused entry at its head is written too. Bytes behind
    /// the last record stay.
    ///
    /// # Panics
    /// If there is no record, or more than `limit`.
    pub fn encode(&self, block: &mut [u8]) {
        let count = self.entries.len();
        assert!(
            (1..=usize::from(self.limit)).contains(&count),
            "an index has 1 to limit records"
        );
        if let Some(root) = self.root {
            put_le32(block, 0x18, 0);
            let info = [root.hash_version, INFO_BYTES, root.levels, root.flags];
            block[0x1C..0x20].copy_from_slice(&info);
        } else {
            block[..NODE_RECORDS_AT].fill(0);
            super::set_dir_rec_len(block, 0, block.len());
        }
        let at = records_at(self.root.is_some());
        for (n, entry) in self.entries.iter().enumerate() {
            let r = &mut block[at + n * RECORD_BYTES..];
            put_le32(r, 0, entry.hash);
            put_le32(r, 4, entry.block);
        }
        put_le16(block, at, self.limit);
        put_le16(block, at + 2, count as u16);
    }

    /// Stores the checksum of an encoded block.
    ///
    /// # Panics
    /// If limit or count in the block are impossible.
    pub fn update_checksum(seed: InodeSeed, is_root: bool, block: &mut [u8]) {
        let (tail, crc) = computed(seed, is_root, block).expect("an encoded index is well-formed");
        put_le32(block, tail + 4, crc);
    }

    /// Checks the checksum.
    ///
    /// # Errors
    /// The stored one is another one, or limit or count are impossible.
    pub fn verify_checksum(seed: InodeSeed, is_root: bool, block: &[u8]) -> Result<(), Corrupt> {
        let (tail, crc) = computed(seed, is_root, block)?;
        Corrupt::check(WHAT, get_le32(block, tail + 4), crc)
    }
}

impl DxShape {
    /// Checks file block 0 of an indexed directory.
    ///
    /// # Errors
    /// A field has an impossible value, or records are missing or out of order.
    pub fn of_root(block: &[u8], checksums: bool) -> Result<DxShape, Corrupt> {
        Corrupt::need(WHAT, block, ROOT_RECORDS_AT + RECORD_BYTES + TAIL_BYTES)?;
        let bad = |field, value: u8, reason| Corrupt::field(WHAT, field, value.into(), reason);
        if block[0x1D] != INFO_BYTES {
            return Err(bad("info_length", block[0x1D], "must be 8"));
        }
        if block[0x1E] > 3 {
            return Err(bad(
                "indirect_levels",
                block[0x1E],
                "more than any feature allows",
            ));
        }
        let root = DxRootInfo {
            hash_version: block[0x1C],
            levels: block[0x1E],
            flags: block[0x1F],
        };
        Self::checked(block, Some(root), checksums)
    }

    /// Checks a node.
    ///
    /// # Errors
    /// Records are missing or out of order.
    pub fn of_node(block: &[u8], checksums: bool) -> Result<DxShape, Corrupt> {
        Corrupt::need(WHAT, block, NODE_RECORDS_AT + RECORD_BYTES + TAIL_BYTES)?;
        Self::checked(block, None, checksums)
    }

    fn checked(
        block: &[u8],
        root: Option<DxRootInfo>,
        checksums: bool,
    ) -> Result<DxShape, Corrupt> {
        let at = records_at(root.is_some());
        let (limit, count) = (get_le16(block, at), get_le16(block, at + 2));
        if limit != DxBlock::capacity(root.is_some(), block.len(), checksums) {
            let reason = "not the number of records that fit the block";
            return Err(Corrupt::field(WHAT, "limit", limit.into(), reason));
        }
        if count == 0 || count > limit {
            let reason = "must be at least 1 and at most the limit";
            return Err(Corrupt::field(WHAT, "count", count.into(), reason));
        }
        let shape = DxShape { root, limit, count };
        let mut before = 0;
        for n in 0..shape.len() {
            let DxEntry { hash, .. } = shape.entry(block, n);
            if hash < before {
                let reason = "records must be in order of their hash";
                return Err(Corrupt::field(WHAT, "hash", hash.into(), reason));
            }
            before = hash;
        }
        Ok(shape)
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.count.into()
    }

    /// False: there is a first record.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Record `n` of the block that was checked.
    ///
    /// # Panics
    /// If there is none.
    pub fn entry(&self, block: &[u8], n: usize) -> DxEntry {
        assert!(n < self.len(), "record {n} of {}", self.count);
        let r = &block[records_at(self.root.is_some()) + n * RECORD_BYTES..];
        DxEntry {
            hash: if n == 0 { 0 } else { get_le32(r, 0) },
            block: get_le32(r, 4) & BLOCK_MASK,
        }
    }

    /// The record of the block that was checked which leads to `hash`: the last one whose own hash
    /// is not larger.
    pub fn find(&self, block: &[u8], hash: u32) -> usize {
        let (mut below, mut above) = (0, self.len());
        // Record `below` is not larger, record `above` is, or is none.
        while above - below > 1 {
            let middle = below.midpoint(above);
            match self.entry(block, middle).hash <= hash {
                true => below = middle,
                false => above = middle,
            }
        }
        below
    }

    /// All records of the block that was checked.
    pub fn records(&self, block: &[u8]) -> DxBlock {
        DxBlock {
            root: self.root,
            limit: self.limit,
            entries: (0..self.len()).map(|n| self.entry(block, n)).collect(),
        }
    }
}

const fn records_at(is_root: bool) -> usize {
    if is_root {
        ROOT_RECORDS_AT
    } else {
        NODE_RECORDS_AT
    }
}

/// Offset of the tail and the checksum: over everything up to the last record in use, the reserved
/// word and a zero.
fn computed(seed: InodeSeed, is_root: bool, block: &[u8]) -> Result<(usize, u32), Corrupt> {
    let at = records_at(is_root);
    Corrupt::need(WHAT, block, at + 4)?;
    let (limit, count) = (get_le16(block, at), get_le16(block, at + 2));
    let tail = at + usize::from(limit) * RECORD_BYTES;
    let end = at + usize::from(count) * RECORD_BYTES;
    if count > limit || tail + TAIL_BYTES > block.len() {
        let reason = "records and checksum do not fit the block";
        return Err(Corrupt::field(WHAT, "limit", limit.into(), reason));
    }
    let crc = crc32c(seed.crc(&block[..end]), &block[tail..tail + 4]);
    Ok((tail, crc32c(crc, &[0; 4])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(n: u32) -> Vec<DxEntry> {
        (0..n)
            .map(|n| DxEntry {
                hash: n * 100,
                block: n + 1,
            })
            .collect()
    }

    #[test]
    fn capacities() {
        assert_eq!(DxBlock::capacity(true, 4096, true), 507);
        assert_eq!(DxBlock::capacity(false, 4096, true), 510);
        assert_eq!(DxBlock::capacity(true, 4096, false), 508);
    }

    #[test]
    fn root_and_node_survive() {
        for is_root in [true, false] {
            let info = DxRootInfo {
                hash_version: 1,
                levels: 1,
                flags: 0,
            };
            let limit = DxBlock::capacity(is_root, 1024, true);
            let dx = DxBlock {
                root: is_root.then_some(info),
                limit,
                entries: entries(limit.into()),
            };
            let mut block = vec![0; 1024];
            dx.encode(&mut block);
            DxBlock::update_checksum(InodeSeed(4), is_root, &mut block);
            DxBlock::verify_checksum(InodeSeed(4), is_root, &block).expect("fits");
            let parse = if is_root {
                DxBlock::parse_root
            } else {
                DxBlock::parse_node
            };
            assert_eq!(parse(&block, true), Ok(dx));
            assert!(
                parse(&block, false).is_err(),
                "the limit depends on the checksum"
            );
            block[50] ^= 1;
            assert!(DxBlock::verify_checksum(InodeSeed(4), is_root, &block).is_err());
        }
    }

    #[test]
    fn find_takes_the_last_record_not_above() {
        let limit = DxBlock::capacity(false, 1024, true);
        let mut block = vec![0; 1024];
        let node = |entries| DxBlock {
            root: None,
            limit,
            entries,
        };
        node(entries(4)).encode(&mut block);
        let shape = DxShape::of_node(&block, true).expect("whole");
        let found = [0, 99, 100, 101, 300, u32::MAX].map(|h| shape.find(&block, h));
        assert_eq!(found, [0, 0, 1, 1, 3, 3]);
        node(entries(1)).encode(&mut block);
        let shape = DxShape::of_node(&block, true).expect("whole");
        assert_eq!([0, 7].map(|h| shape.find(&block, h)), [0, 0]);
    }

    #[test]
    fn records_out_of_order_are_refused() {
        let mut block = vec![0; 1024];
        let mut records = entries(4);
        records[2].hash = 50;
        let limit = DxBlock::capacity(false, 1024, true);
        let node = DxBlock {
            root: None,
            limit,
            entries: records,
        };
        node.encode(&mut block);
        assert!(DxShape::of_node(&block, true).is_err());
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut block in proptest::collection::vec(any::<u8>(), 0..300), count in 0u16..40) {
            for (is_root, at) in [(true, ROOT_RECORDS_AT), (false, NODE_RECORDS_AT)] {
                let _ = DxBlock::verify_checksum(InodeSeed(4), is_root, &block);
                if block.len() >= 48 {
                    block[0x1D..0x1F].copy_from_slice(&[8, 1]);
                    let limit = DxBlock::capacity(is_root, block.len(), true);
                    put_le16(&mut block, at, limit);
                    put_le16(&mut block, at + 2, count);
                }
                let _ = DxBlock::verify_checksum(InodeSeed(4), is_root, &block);
                let dx = if is_root { DxShape::of_root } else { DxShape::of_node };
                if let Ok(dx) = dx(&block, true) {
                    prop_assert!(dx.find(&block, u32::from(count)) < dx.records(&block).entries.len());
                }
            }
        }
    }
}
