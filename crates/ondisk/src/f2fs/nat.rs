//! Blocks of the node address table: 455 entries of 9 bytes, entry `i` of block `b` describes nid
//! `455 b + i`.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | u8 | `version` | raised when the nid is given away again |
//! | 1 | le32 | `ino` | inode that the node belongs to; 0 = free |
//! | 5 | le32 | `block_addr` | where the node lies; 0 = free |
//!
//! Every block exists twice; the version bitmap of the checkpoint says which copy counts.

use super::{BlockAddr, Nid};
use base::bytes::{get_le32, put_le32};

/// Bytes of an entry.
pub const NAT_ENTRY_BYTES: usize = 9;
/// Entries of a block.
pub const NAT_PER_BLOCK: usize = 455;

/// Where a node lies and which inode it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NatEntry {
    /// Version of the nid; summaries of data blocks repeat it.
    pub version: u8,
    /// Inode that the node belongs to.
    pub ino: Nid,
    /// Where the node lies; [`BlockAddr::NULL`] if the nid is free.
    pub addr: BlockAddr,
}

impl NatEntry {
    /// Decodes an entry; bytes that are missing count as 0.
    pub fn parse(raw: &[u8]) -> NatEntry {
        match raw.get(..NAT_ENTRY_BYTES) {
            Some(raw) => NatEntry {
                version: raw[0],
                ino: Nid(get_le32(raw, 1)),
                addr: BlockAddr(get_le32(raw, 5)),
            },
            None => NatEntry::default(),
        }
    }
    /// Its bytes.
    pub fn encode(self) -> [u8; NAT_ENTRY_BYTES] {
        let mut raw = [self.version, 0, 0, 0, 0, 0, 0, 0, 0];
        put_le32(&mut raw, 1, self.ino.0);
        put_le32(&mut raw, 5, self.addr.0);
        raw
    }
    /// Entry `index` of a NAT block; the empty entry if there is no such one.
    pub fn get(block: &[u8], index: usize) -> NatEntry {
        if index >= NAT_PER_BLOCK {
            return NatEntry::default();
        }
        NatEntry::parse(block.get(index * NAT_ENTRY_BYTES..).unwrap_or_default())
    }
    /// Writes entry `index` of a NAT block.
    ///
    /// # Panics
    /// `index` is not below [`NAT_PER_BLOCK`] or the block is too short.
    pub fn put(self, block: &mut [u8], index: usize) {
        assert!(index < NAT_PER_BLOCK, "a NAT block has 455 entries");
        let at = index * NAT_ENTRY_BYTES;
        block[at..at + NAT_ENTRY_BYTES].copy_from_slice(&self.encode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let mut block = vec![0; 4096];
        let entry = NatEntry {
            version: 9,
            ino: Nid(0x0102_0304),
            addr: BlockAddr(0x0506_0708),
        };
        entry.put(&mut block, 454);
        assert_eq!(block[454 * 9..455 * 9], [9, 4, 3, 2, 1, 8, 7, 6, 5]);
        assert_eq!(NatEntry::get(&block, 454), entry);
        assert_eq!(NatEntry::get(&block, 453), NatEntry::default());
        assert_eq!(NatEntry::get(&block, 455), NatEntry::default());
        assert_eq!(NatEntry::get(&block[..100], 454), NatEntry::default());
    }
}
