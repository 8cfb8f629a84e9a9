//! The layout of tags and the checksums of a log, as the feature bits decide them.
//!
//! | tags | bytes | layout |
//! |---|---|---|
//! | 32-bit blocks, no or v1 checksums | 8 | be32 block, be16 checksum (unused), be16 flags |
//! | 64-bit blocks, no or v1 checksums | 12 | the same, then be32 high half of the block number |
//! | v2 | 10 / 14 | the two above with checksum in use, then 2 unused bytes |
//! | v3 | 16 | be32 block, be32 flags, be32 high half, be32 checksum |

use super::{JournalCompat, JournalIncompat, Superblock};
use base::Tid;
use base::checksum::crc32c;

/// Which checksums a log carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumMode {
    /// None.
    None,
    /// CRC-32 over the whole transaction, in the commit block.
    V1,
    /// CRC32C everywhere, 16 bits of it per tag.
    V2,
    /// CRC32C everywhere, 32 bits per tag.
    V3,
}

/// The layout of a log: derived from its superblock once, then handed to every reader and writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bytes per block.
    pub block_bytes: usize,
    /// Block numbers have 64 bits.
    pub wide_blocks: bool,
    /// Checksums in use.
    pub checksum: ChecksumMode,
    /// CRC32C register that every v2/v3 checksum starts from: `crc32c(!0, uuid of the journal)`.
    pub seed: u32,
}

impl Format {
    /// The format of a log with these properties.
    pub fn new(
        block_bytes: usize,
        compat: JournalCompat,
        incompat: JournalIncompat,
        uuid: &[u8; 16],
    ) -> Format {
        let checksum = if incompat.has(JournalIncompat::CHECKSUM_V3) {
            ChecksumMode::V3
        } else if incompat.has(JournalIncompat::CHECKSUM_V2) {
            ChecksumMode::V2
        } else if compat.has(JournalCompat::CHECKSUM) {
            ChecksumMode::V1
        } else {
            ChecksumMode::None
        };
        Format {
            block_bytes,
            wide_blocks: incompat.has(JournalIncompat::WIDE_BLOCKS),
            checksum,
            seed: crc32c(!0, uuid),
        }
    }

    /// The format that a superblock announces.
    pub fn of(superblock: &Superblock) -> Format {
        Format::new(
            superblock.block_bytes() as usize,
            superblock.compat(),
            superblock.incompat(),
            &superblock.uuid(),
        )
    }

    /// True for v2 and v3: descriptor, revoke and commit blocks carry a CRC32C each.
    pub const fn has_block_checksums(&self) -> bool {
        matches!(self.checksum, ChecksumMode::V2 | ChecksumMode::V3)
    }

    /// Bytes of one tag.
    pub const fn tag_bytes(&self) -> usize {
        let wide = if self.wide_blocks { 4 } else { 0 };
        match self.checksum {
            ChecksumMode::V3 => 16,
            ChecksumMode::V2 => 10 + wide,
            ChecksumMode::V1 | ChecksumMode::None => 8 + wide,
        }
    }

    /// Bytes at the end of descriptor and revoke blocks that hold their checksum.
    pub const fn tail_bytes(&self) -> usize {
        if self.has_block_checksums() { 4 } else { 0 }
    }

    /// Tags that a writer puts into one descriptor: a new descriptor is begun when the space left
    /// is smaller than a tag, a UUID and the tail (as Linux does; the last few bytes stay unused).
    pub const fn tags_per_descriptor(&self) -> usize {
        let keep = self.tag_bytes() + 16 + self.tail_bytes();
        (self.block_bytes - 28 - keep) / self.tag_bytes() + 1
    }

    /// Bytes of one revoke record.
    pub const fn revoke_record_bytes(&self) -> usize {
        if self.wide_blocks { 8 } else { 4 }
    }

    /// Records that fit one revoke block.
    pub const fn revokes_per_block(&self) -> usize {
        (self.block_bytes - 16 - self.tail_bytes()) / self.revoke_record_bytes()
    }

    /// The checksum a tag stores for a logged block: over the transaction number and the bytes *as
    /// they are in the log*, that is after escaping. v2 keeps the low 16 bits, formats without tag
    /// checksums give zero.
    pub fn tag_checksum(&self, tid: Tid, logged: &[u8]) -> u32 {
        let full = || crc32c(crc32c(self.seed, &tid.0.to_be_bytes()), logged);
        match self.checksum {
            ChecksumMode::V3 => full(),
            ChecksumMode::V2 => full() & 0xFFFF,
            ChecksumMode::V1 | ChecksumMode::None => 0,
        }
    }

    /// CRC32C of `block` with the four bytes at `at` taken as zero.
    pub(crate) fn crc_without(&self, block: &[u8], at: usize) -> u32 {
        let crc = crc32c(self.seed, &block[..at]);
        crc32c(crc32c(crc, &[0; 4]), &block[at + 4..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(incompat: u32, block_bytes: usize) -> Format {
        Format::new(
            block_bytes,
            JournalCompat::NONE,
            JournalIncompat(incompat),
            &[0; 16],
        )
    }

    #[test]
    fn tag_sizes_of_the_layouts() {
        let sizes = [0, 2, 8, 0xA, 0x10, 0x12].map(|i| format(i, 4096).tag_bytes());
        assert_eq!(sizes, [8, 12, 10, 14, 16, 16]);
    }

    #[test]
    fn capacities_seen_on_linux() {
        let capacity = |i, b| format(i, b).tags_per_descriptor();
        assert_eq!(
            [capacity(0, 4096), capacity(2, 4096), capacity(0x12, 4096)],
            [506, 337, 253]
        );
        assert_eq!(
            [capacity(0, 1024), capacity(2, 1024), capacity(0x12, 1024)],
            [122, 81, 61]
        );
    }
}
