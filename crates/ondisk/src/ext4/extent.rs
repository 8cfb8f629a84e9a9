//! The extent tree: nodes of 12-byte records after a 12-byte header, in the inode (4 records) or in
//! a block.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0x00 | le16 | `eh_magic` | 0xF30A |
//! | 0x02 | le16 | `eh_entries` | records in use |
//! | 0x04 | le16 | `eh_max` | records that fit |
//! | 0x06 | le16 | `eh_depth` | 0 = leaf |
//! | 0x08 | le32 | `eh_generation` | unused by Linux |
//!
//! | leaf record | size | field | | index record | size | field |
//! |---|---|---|---|---|---|---|
//! | 0x00 | le32 | `ee_block` | | 0x00 | le32 | `ei_block` |
//! | 0x04 | le16 | `ee_len`, above 32768: unwritten, length minus 32768 | | 0x04 | le32 | `ei_leaf_lo` |
//! | 0x06 | le16 | `ee_start_hi` | | 0x08 | le16 | `ei_leaf_hi` |
//! | 0x08 | le32 | `ee_start_lo` | | 0x0A | le16 | unused |
//!
//! With `metadata_csum` a node in a block is followed by le32 `et_checksum`, right behind the last
//! possible record.

use super::InodeSeed;
use crate::{Corrupt, CorruptKind};
use base::BlockNo;
use base::bytes::{get_le16, get_le32, put_le16, put_le32};

/// Most blocks of a written extent.
pub const EXTENT_LEN_MAX: u32 = 32768;
/// Most blocks of an unwritten extent.
pub const EXTENT_UNWRITTEN_LEN_MAX: u32 = 32767;
/// Records of the root in the inode.
pub const INLINE_EXTENTS_MAX: u16 = 4;

const WHAT: &str = "extent node";
const MAGIC: u16 = 0xF30A;
const RECORD_BYTES: usize = 12;
const HEADER_BYTES: usize = 12;
const DEPTH_MAX: u16 = 5;
const BLOCK_MASK: u64 = (1 << 48) - 1;

/// A run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First block of the file that it maps.
    pub logical: u32,
    /// Blocks, at least 1.
    pub len: u32,
    /// First block on the device.
    pub physical: BlockNo,
    /// Allocated but never written: reads as zeros.
    pub unwritten: bool,
}

impl Extent {
    /// One past the last block of the file that it maps.
    pub fn logical_end(&self) -> u64 {
        u64::from(self.logical) + u64::from(self.len)
    }

    fn decode(r: &[u8]) -> Extent {
        let raw = u32::from(get_le16(r, 4));
        let unwritten = raw > EXTENT_LEN_MAX;
        let high = u64::from(get_le16(r, 6)) << 32;
        Extent {
            logical: get_le32(r, 0),
            len: if unwritten { raw - EXTENT_LEN_MAX } else { raw },
            physical: BlockNo(high | u64::from(get_le32(r, 8))),
            unwritten,
        }
    }
    fn encode(&self, r: &mut [u8]) {
        let most = if self.unwritten {
            EXTENT_UNWRITTEN_LEN_MAX
        } else {
            EXTENT_LEN_MAX
        };
        assert!(
            (1..=most).contains(&self.len),
            "an extent has 1 to {most} blocks"
        );
        let len = if self.unwritten {
            self.len + EXTENT_LEN_MAX
        } else {
            self.len
        };
        put_le32(r, 0, self.logical);
        put_le16(r, 4, len as u16);
        put_le16(r, 6, (self.physical.0 >> 32) as u16);
        put_le32(r, 8, self.physical.0 as u32);
    }
}

/// A pointer to a node one level down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentIndex {
    /// First block of the file that the child covers.
    pub logical: u32,
    /// Block of the child.
    pub child: BlockNo,
}

impl ExtentIndex {
    fn decode(r: &[u8]) -> ExtentIndex {
        let child = u64::from(get_le16(r, 8)) << 32 | u64::from(get_le32(r, 4));
        ExtentIndex {
            logical: get_le32(r, 0),
            child: BlockNo(child),
        }
    }
    fn encode(&self, r: &mut [u8]) {
        put_le32(r, 0, self.logical);
        put_le32(r, 4, self.child.0 as u32);
        put_le16(r, 8, (self.child.0 >> 32) as u16);
        put_le16(r, 10, 0);
    }
}

/// The records of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtentEntries {
    /// Depth 0.
    Leaf(Vec<Extent>),
    /// Depth 1 and more.
    Index(Vec<ExtentIndex>),
}

impl ExtentEntries {
    /// Number of records.
    pub fn len(&self) -> usize {
        match self {
            ExtentEntries::Leaf(v) => v.len(),
            ExtentEntries::Index(v) => v.len(),
        }
    }
    /// True without records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A node of an extent tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentNode {
    /// Levels below this node; 0 is a leaf.
    pub depth: u16,
    /// Records that fit.
    pub max: u16,
    /// Unused by Linux; kept.
    pub generation: u32,
    /// Records, sorted by logical block, without overlap.
    pub entries: ExtentEntries,
}

impl ExtentNode {
    /// An empty leaf for the inode.
    pub fn inline_root() -> ExtentNode {
        ExtentNode {
            depth: 0,
            max: INLINE_EXTENTS_MAX,
            generation: 0,
            entries: ExtentEntries::Leaf(Vec::new()),
        }
    }
    /// Records that fit a node in a block.
    pub const fn block_max(block_bytes: usize) -> u16 {
        // With 64 KiB blocks 5460 records fit; the checksum always finds room in what the division
        // leaves.
        ((block_bytes - HEADER_BYTES) / RECORD_BYTES) as u16
    }

    /// Reads a node from the block area of an inode or from a block. Records are in order and do
    /// not overlap, lengths are not zero, file blocks do not pass 2^32. Whether blocks lie on the
    /// volume is the caller's business.
    ///
    /// # Errors
    /// Any of these is wrong.
    pub fn parse(buf: &[u8]) -> Result<ExtentNode, Corrupt> {
        Corrupt::need(WHAT, buf, HEADER_BYTES)?;
        let magic = get_le16(buf, 0);
        if magic != MAGIC {
            return Err(Corrupt::magic(WHAT, magic.into(), MAGIC.into()));
        }
        let bad = |field, value: u16, reason| Corrupt::field(WHAT, field, value.into(), reason);
        let (count, max, depth) = (get_le16(buf, 2), get_le16(buf, 4), get_le16(buf, 6));
        if max == 0 || HEADER_BYTES + usize::from(max) * RECORD_BYTES > buf.len() {
            return Err(bad("eh_max", max, "more records than fit, or none"));
        }
        if count > max {
            return Err(bad("eh_entries", count, "more records than eh_max"));
        }
        if depth > DEPTH_MAX {
            return Err(bad(
                "eh_depth",
                depth,
                "a tree has at most 5 levels above its leaves",
            ));
        }
        let end = HEADER_BYTES + usize::from(count) * RECORD_BYTES;
        let records = buf[HEADER_BYTES..end].chunks_exact(RECORD_BYTES);
        let entries = if depth == 0 {
            ExtentEntries::Leaf(check_leaf(records.map(Extent::decode).collect())?)
        } else {
            if count == 0 {
                return Err(bad(
                    "eh_entries",
                    count,
                    "an index node has at least one record",
                ));
            }
            ExtentEntries::Index(check_index(records.map(ExtentIndex::decode).collect())?)
        };
        Ok(ExtentNode {
            depth,
            max,
            generation: get_le32(buf, 8),
            entries,
        })
    }

    /// Writes header and records; bytes behind the last record stay as they are.
    ///
    /// # Panics
    /// If there are more records than `max`, `buf` is too short, or the kind of records contradicts
    /// the depth.
    pub fn encode(&self, buf: &mut [u8]) {
        let count = self.entries.len();
        assert!(
            count <= usize::from(self.max),
            "an extent node holds at most eh_max records"
        );
        put_le16(buf, 0, MAGIC);
        put_le16(buf, 2, count as u16);
        put_le16(buf, 4, self.max);
        put_le16(buf, 6, self.depth);
        put_le32(buf, 8, self.generation);
        let slot =
            |n: usize| HEADER_BYTES + n * RECORD_BYTES..HEADER_BYTES + (n + 1) * RECORD_BYTES;
        match &self.entries {
            ExtentEntries::Leaf(v) => {
                assert_eq!(self.depth, 0, "extents are in leaves");
                v.iter()
                    .enumerate()
                    .for_each(|(n, e)| e.encode(&mut buf[slot(n)]));
            }
            ExtentEntries::Index(v) => {
                assert_ne!(self.depth, 0, "index records are above the leaves");
                v.iter()
                    .enumerate()
                    .for_each(|(n, e)| e.encode(&mut buf[slot(n)]));
            }
        }
    }
}

fn check_leaf(extents: Vec<Extent>) -> Result<Vec<Extent>, Corrupt> {
    let mut next = 0;
    for e in &extents {
        if e.len == 0 {
            return Err(Corrupt::field(
                WHAT,
                "ee_len",
                0,
                "an extent has at least one block",
            ));
        }
        if u64::from(e.logical) < next {
            let reason = "extents must be in order and must not overlap";
            return Err(Corrupt::field(WHAT, "ee_block", e.logical.into(), reason));
        }
        next = e.logical_end();
        if next > 1 << 32 {
            let reason = "extent passes the last possible block of a file";
            return Err(Corrupt::field(WHAT, "ee_block", e.logical.into(), reason));
        }
        if e.physical.0 + u64::from(e.len) > BLOCK_MASK {
            let reason = "extent passes the last possible block of a device";
            return Err(Corrupt::field(WHAT, "ee_start", e.physical.0, reason));
        }
    }
    Ok(extents)
}

fn check_index(records: Vec<ExtentIndex>) -> Result<Vec<ExtentIndex>, Corrupt> {
    if let Some(pair) = records.windows(2).find(|p| p[0].logical >= p[1].logical) {
        let reason = "index records must be in order";
        return Err(Corrupt::field(
            WHAT,
            "ei_block",
            pair[1].logical.into(),
            reason,
        ));
    }
    Ok(records)
}

/// Where the checksum of a node in a block lies: behind the last possible record.
fn checksum_at(block: &[u8]) -> Result<usize, Corrupt> {
    Corrupt::need(WHAT, block, HEADER_BYTES)?;
    let at = HEADER_BYTES + usize::from(get_le16(block, 4)) * RECORD_BYTES;
    if at + 4 > block.len() {
        let kind = CorruptKind::TooShort {
            need: at + 4,
            have: block.len(),
        };
        return Err(Corrupt::new(WHAT, kind));
    }
    Ok(at)
}

/// Stores the checksum of an encoded node that fills a block (not for the root in the inode).
///
/// # Panics
/// If there is no room for the checksum behind the records.
pub fn update_extent_checksum(seed: InodeSeed, block: &mut [u8]) {
    let at = checksum_at(block).expect("an encoded extent block leaves room for its checksum");
    let crc = seed.crc(&block[..at]);
    put_le32(block, at, crc);
}

/// Checks the checksum of a node that fills a block.
///
/// # Errors
/// The stored checksum is another one, or there is no room for it.
pub fn verify_extent_checksum(seed: InodeSeed, block: &[u8]) -> Result<(), Corrupt> {
    let at = checksum_at(block)?;
    Corrupt::check(WHAT, get_le32(block, at), seed.crc(&block[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaf(extents: &[(u32, u32, u64, bool)]) -> ExtentNode {
        let entries = extents
            .iter()
            .map(|&(logical, len, physical, unwritten)| Extent {
                logical,
                len,
                physical: BlockNo(physical),
                unwritten,
            })
            .collect();
        ExtentNode {
            entries: ExtentEntries::Leaf(entries),
            ..ExtentNode::inline_root()
        }
    }

    #[test]
    fn journal_inode_of_mke2fs() {
        // i_block of inode 8 of `mke2fs -t ext4 -b 4096` on 128 MiB: 4096 blocks at 16384.
        let mut raw = [0; 60];
        raw[..24].copy_from_slice(&[
            0x0A, 0xF3, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x40, 0, 0,
        ]);
        let node = ExtentNode::parse(&raw).expect("valid");
        assert_eq!(node, leaf(&[(0, 4096, 16384, false)]));
        let mut again = [0; 60];
        node.encode(&mut again);
        assert_eq!(again, raw);
    }

    #[test]
    fn lengths_at_the_edge_between_written_and_unwritten() {
        let node = leaf(&[
            (0, 32768, 9, false),
            (40000, 32767, 1 << 40, true),
            (80000, 1, 5, true),
        ]);
        let mut raw = [0; 60];
        node.encode(&mut raw);
        assert_eq!(get_le16(&raw, 16), 0x8000);
        assert_eq!(get_le16(&raw, 28), 0xFFFF);
        assert_eq!(ExtentNode::parse(&raw), Ok(node));
    }

    #[test]
    fn refuses_disorder() {
        let refused = |node: ExtentNode| {
            let mut raw = [0; 60];
            node.encode(&mut raw);
            ExtentNode::parse(&raw).expect_err("refused").to_string()
        };
        assert!(refused(leaf(&[(5, 2, 1, false), (6, 1, 9, false)])).contains("overlap"));
        assert!(
            refused(leaf(&[(u32::MAX, 2, 1, false)])).contains("last possible block of a file")
        );
        let mut raw = [0; 60];
        leaf(&[(0, 1, 1, false)]).encode(&mut raw);
        for (at, value, name) in [
            (16, 0, "ee_len"),
            (4, 5, "eh_max"),
            (2, 5, "eh_entries"),
            (6, 6, "eh_depth"),
        ] {
            let mut bad = raw;
            put_le16(&mut bad, at, value);
            assert!(
                ExtentNode::parse(&bad)
                    .expect_err("refused")
                    .to_string()
                    .contains(name)
            );
        }
    }

    #[test]
    fn checksum_lies_behind_the_records() {
        assert_eq!(ExtentNode::block_max(4096), 340);
        let entries = (0..340).map(|n| ExtentIndex {
            logical: n * 3,
            child: BlockNo(1 << 33),
        });
        let entries = ExtentEntries::Index(entries.collect());
        let node = ExtentNode {
            depth: 1,
            max: 340,
            generation: 0,
            entries,
        };
        let mut block = vec![0; 4096];
        node.encode(&mut block);
        update_extent_checksum(InodeSeed(7), &mut block);
        assert_eq!(
            get_le32(&block, 4092),
            base::checksum::crc32c(7, &block[..4092])
        );
        verify_extent_checksum(InodeSeed(7), &block).expect("fits");
        assert_eq!(ExtentNode::parse(&block), Ok(node));
        block[100] ^= 1;
        assert!(verify_extent_checksum(InodeSeed(7), &block).is_err());
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut raw in proptest::collection::vec(any::<u8>(), 0..200), depth in 0u8..3) {
            if raw.len() >= 12 {
                let head = [0x0A, 0xF3, raw[2] % 8, 0, raw[4] % 20, 0, depth, 0];
                raw[..8].copy_from_slice(&head);
            }
            let _ = verify_extent_checksum(InodeSeed(1), &raw);
            if let Ok(node) = ExtentNode::parse(&raw) {
                let mut again = raw.clone();
                node.encode(&mut again);
                prop_assert_eq!(ExtentNode::parse(&again), Ok(node));
            }
        }
    }
}
