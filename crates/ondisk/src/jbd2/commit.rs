//! The commit block: the transaction exists once this block is on the medium.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0x00 | 12 | header | type 2 |
//! | 0x0C | u8 | `h_chksum_type` | v1: 1 = CRC-32; otherwise 0 |
//! | 0x0D | u8 | `h_chksum_size` | v1: 4; otherwise 0 |
//! | 0x10 | be32 x 8 | `h_chksum` | first word: v1 CRC-32 of the transaction; v2/v3 CRC32C of this block with the word zero |
//! | 0x30 | be64 | `h_commit_sec` | seconds since 1970 |
//! | 0x38 | be32 | `h_commit_nsec` | nanoseconds |

use super::{BlockKind, ChecksumMode, Format, Header};
use crate::Corrupt;
use base::Tid;
use base::bytes::{get_be32, get_be64, put_be32, put_be64};

const WHAT: &str = "journal commit block";
const CHECKSUM_AT: usize = 0x10;
/// Checksum type of v1.
const TYPE_CRC32: u8 = 1;

/// A commit block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The transaction it ends.
    pub tid: Tid,
    /// Seconds since 1970.
    pub secs: u64,
    /// Nanoseconds below one second.
    pub nanos: u32,
    /// v1 only: CRC-32 over descriptors and logged blocks ([`crc32_be`](super::crc32_be)). `None`
    /// in a v1 log means that the writer left it out.
    pub transaction_crc: Option<u32>,
}

impl Commit {
    /// Reads a commit block. Its v2/v3 checksum is not looked at; see [`verify`](Self::verify).
    ///
    /// # Errors
    /// Too few bytes, no commit header, or a v1 checksum of unknown type.
    pub fn parse(format: &Format, block: &[u8]) -> Result<Commit, Corrupt> {
        let block = Corrupt::need(WHAT, block, format.block_bytes)?;
        let tid = Header::expect(block, BlockKind::Commit, WHAT)?.tid;
        let (kind, size) = (block[0x0C], block[0x0D]);
        let transaction_crc = match (format.checksum, kind, size) {
            (ChecksumMode::V1, TYPE_CRC32, 4) => Some(get_be32(block, CHECKSUM_AT)),
            (ChecksumMode::V1, 0, 0) if get_be32(block, CHECKSUM_AT) == 0 => None,
            (ChecksumMode::V1, ..) => {
                let value = u64::from(kind) << 8 | u64::from(size);
                let reason = "only CRC-32 of 4 bytes is known";
                return Err(Corrupt::field(WHAT, "h_chksum_type", value, reason).at_tid(tid));
            }
            _ => None,
        };
        Ok(Commit {
            tid,
            secs: get_be64(block, 0x30),
            nanos: get_be32(block, 0x38),
            transaction_crc,
        })
    }

    /// Checks the v2/v3 checksum of a commit block; other formats pass (a v1 checksum needs the
    /// whole transaction: compare [`transaction_crc`](Self::transaction_crc)).
    ///
    /// # Errors
    /// Too few bytes, or the stored checksum is another one.
    pub fn verify(format: &Format, block: &[u8]) -> Result<(), Corrupt> {
        let block = Corrupt::need(WHAT, block, format.block_bytes)?;
        if !format.has_block_checksums() {
            return Ok(());
        }
        let computed = format.crc_without(block, CHECKSUM_AT);
        Corrupt::check(WHAT, get_be32(block, CHECKSUM_AT), computed)
            .map_err(|e| e.at_tid(Tid(get_be32(block, 8))))
    }

    /// Writes the block with its checksum.
    ///
    /// # Panics
    /// If `block` is not one block long.
    pub fn encode(&self, format: &Format, block: &mut [u8]) {
        assert_eq!(
            block.len(),
            format.block_bytes,
            "a commit block is one block"
        );
        block.fill(0);
        Header {
            kind: BlockKind::Commit,
            tid: self.tid,
        }
        .encode(block);
        put_be64(block, 0x30, self.secs);
        put_be32(block, 0x38, self.nanos);
        if let (ChecksumMode::V1, Some(crc)) = (format.checksum, self.transaction_crc) {
            block[0x0C..0x0E].copy_from_slice(&[TYPE_CRC32, 4]);
            put_be32(block, CHECKSUM_AT, crc);
        }
        if format.has_block_checksums() {
            let crc = format.crc_without(block, CHECKSUM_AT);
            put_be32(block, CHECKSUM_AT, crc);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jbd2::{JournalCompat, JournalIncompat};
    use proptest::prelude::*;

    fn format(compat: u32, incompat: u32) -> Format {
        Format::new(
            1024,
            JournalCompat(compat),
            JournalIncompat(incompat),
            &[7; 16],
        )
    }

    proptest! {
        #[test]
        fn survives(tid: u32, secs: u64, nanos in 0u32..1_000_000_000, crc: Option<u32>, i in 0u32..0x20, c in 0u32..2) {
            let f = format(c, i);
            let v1 = f.checksum == ChecksumMode::V1;
            let commit = Commit { tid: Tid(tid), secs, nanos, transaction_crc: crc.filter(|_| v1) };
            let mut block = vec![0xAA; 1024];
            commit.encode(&f, &mut block);
            prop_assert_eq!(Commit::parse(&f, &block), Ok(commit));
            Commit::verify(&f, &block).expect("checksum");
            block[1000] ^= 0x80;
            prop_assert_eq!(Commit::verify(&f, &block).is_err(), f.has_block_checksums());
        }
    }

    #[test]
    fn unknown_v1_checksum_is_refused() {
        let f = format(1, 0);
        let commit = Commit {
            tid: Tid(1),
            secs: 0,
            nanos: 0,
            transaction_crc: Some(1),
        };
        let mut block = vec![0; 1024];
        commit.encode(&f, &mut block);
        block[0x0C] = 2;
        assert!(Commit::parse(&f, &block).is_err());
        assert!(Commit::parse(&f, &block[..60]).is_err());
    }
}
