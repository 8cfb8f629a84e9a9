//! Blocks of the segment information table: 55 entries of 74 bytes, entry `i` of block `b`
//! describes segment `55 b + i`.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | le16 | `vblocks` | low 10 bits: valid blocks; high 6 bits: log that wrote the segment |
//! | 2 | 64 | `valid_map` | valid blocks, highest bit of a byte first |
//! | 66 | le64 | `mtime` | age: mean time of modification, seconds of the volume's clock |
//!
//! Every block exists twice; the version bitmap of the checkpoint says which copy counts.

use super::bits;
use base::bytes::{get_le16, get_le64, put_le16, put_le64};

/// Bytes of an entry.
pub const SIT_ENTRY_BYTES: usize = 74;
/// Entries of a block.
pub const SIT_PER_BLOCK: usize = 55;
/// Bytes of a valid map: one bit for each of 512 blocks.
pub const VALID_MAP_BYTES: usize = 64;

/// What is known of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SitEntry {
    /// Valid blocks, 0 to 512 in a sound entry (10 bits); must be the bits set in `map`.
    pub valid: u16,
    /// Log that wrote the segment (6 bits), see [`Log::from_index`](super::Log::from_index).
    pub kind: u8,
    /// Valid blocks, highest bit of a byte first; see [`bits::test_bit`].
    pub map: [u8; VALID_MAP_BYTES],
    /// Mean time of modification, seconds of the volume's clock
    /// ([`Checkpoint::elapsed_time`](super::Checkpoint::elapsed_time)).
    pub mtime: u64,
}

impl Default for SitEntry {
    fn default() -> SitEntry {
        SitEntry {
            valid: 0,
            kind: 0,
            map: [0; VALID_MAP_BYTES],
            mtime: 0,
        }
    }
}

impl SitEntry {
    /// Decodes an entry; the empty entry if bytes are missing.
    pub fn from_bytes(raw: &[u8]) -> SitEntry {
        let Some(raw) = raw.get(..SIT_ENTRY_BYTES) else {
            return SitEntry::default();
        };
        let word = get_le16(raw, 0);
        let mut map = [0; VALID_MAP_BYTES];
        map.copy_from_slice(&raw[2..66]);
        SitEntry {
            valid: word & 0x3FF,
            kind: (word >> 10) as u8,
            map,
            mtime: get_le64(raw, 66),
        }
    }
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; SIT_ENTRY_BYTES] {
        let mut raw = [0; SIT_ENTRY_BYTES];
        put_le16(&mut raw, 0, self.valid & 0x3FF | u16::from(self.kind) << 10);
        raw[2..66].copy_from_slice(&self.map);
        put_le64(&mut raw, 66, self.mtime);
        raw
    }
    /// Entry `index` of a SIT block; the empty entry if there is no such one.
    pub fn parse(block: &[u8], index: usize) -> SitEntry {
        if index >= SIT_PER_BLOCK {
            return SitEntry::default();
        }
        SitEntry::from_bytes(block.get(index * SIT_ENTRY_BYTES..).unwrap_or_default())
    }
    /// Writes entry `index` of a SIT block.
    ///
    /// # Panics
    /// `index` is not below [`SIT_PER_BLOCK`] or the block is too short.
    pub fn encode(&self, block: &mut [u8], index: usize) {
        assert!(index < SIT_PER_BLOCK, "a SIT block has 55 entries");
        let at = index * SIT_ENTRY_BYTES;
        block[at..at + SIT_ENTRY_BYTES].copy_from_slice(&self.to_bytes());
    }
    /// True if block `offset` of the segment is valid.
    pub fn is_valid(&self, offset: u32) -> bool {
        bits::test_bit(&self.map, offset as usize)
    }
    /// Bits set in the map; in a sound entry the same as `valid`.
    pub fn count(&self) -> u16 {
        bits::count_bits(&self.map) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let mut block = vec![0; 4096];
        let mut entry = SitEntry {
            valid: 2,
            kind: 5,
            map: [0; 64],
            mtime: 77,
        };
        bits::set_bit(&mut entry.map, 0);
        bits::set_bit(&mut entry.map, 511);
        entry.encode(&mut block, 54);
        assert_eq!(block[54 * 74..54 * 74 + 3], [2, 5 << 2, 0x80]);
        assert_eq!(SitEntry::parse(&block, 54), entry);
        assert_eq!(entry.count(), 2);
        assert!(entry.is_valid(511) && !entry.is_valid(1) && !entry.is_valid(512));
        assert_eq!(SitEntry::parse(&block, 55), SitEntry::default());
        assert_eq!(SitEntry::parse(&block[..80], 1), SitEntry::default());
    }
}
