//! Checksums of data blocks in a transaction: the bytes of DATA_SUM.

use super::codec::WHAT;
use crate::Corrupt;
use crate::f2fs::BlockAddr;
use base::bytes::get_le32;
use base::checksum::crc32c;
use std::fmt;

/// Most data blocks of which one transaction has checksums.
pub const DATA_SUMS_MAX: usize = 256;

/// Checksums of blocks: crc32c from all ones over 4096 bytes, little-endian.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sums<'a>(&'a [u8]);

impl<'a> Sums<'a> {
    /// The checksum of a block.
    pub fn of(block: &[u8]) -> u32 {
        crc32c(!0, block)
    }

    /// Those in `bytes`, four bytes each.
    pub fn from_bytes(bytes: &'a [u8]) -> Sums<'a> {
        Sums(bytes)
    }

    /// Appends the body of a [`Record::DataSum`](super::Record::DataSum) of blocks from `addr` on.
    pub(super) fn encode(self, addr: BlockAddr, out: &mut Vec<u8>) {
        let fits = (1..=DATA_SUMS_MAX).contains(&self.count());
        assert!(fits, "a transaction has so many checksums at most");
        out.extend_from_slice(&addr.0.to_le_bytes());
        out.extend_from_slice(&(self.count() as u32).to_le_bytes());
        out.extend_from_slice(self.0);
    }

    /// The first block and the checksums of such a body.
    ///
    /// # Errors
    /// They are none, too many, not as many as it says, or of what is no block.
    pub(super) fn decode(body: &'a [u8]) -> Result<(BlockAddr, Sums<'a>), Corrupt> {
        let b = Corrupt::need(WHAT, body, 8)?;
        let (addr, count) = (BlockAddr(get_le32(b, 0)), get_le32(b, 4));
        let last = count.checked_sub(1).and_then(|last| addr.checked_add(last));
        let bad = |reason| Err(Corrupt::field(WHAT, "count", count.into(), reason));
        if !addr.is_data() || last.is_none() {
            return bad("is no run of blocks");
        }
        if count as usize > DATA_SUMS_MAX {
            return bad("is more than a transaction has");
        }
        if body.len() != 8 + 4 * count as usize {
            return bad("is not the number of checksums");
        }
        Ok((addr, Sums(&body[8..])))
    }

    /// One for each block.
    pub fn iter(self) -> impl Iterator<Item = u32> + 'a {
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        self.0.chunks_exact(4).map(word)
    }

    /// Number of blocks.
    pub fn count(self) -> usize {
        self.0.len() / 4
    }
}

impl fmt::Debug for Sums<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
