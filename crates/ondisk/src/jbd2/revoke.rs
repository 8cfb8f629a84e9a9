//! The revoke block: home blocks whose older log images must not be replayed.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0x00 | 12 | header | type 5 |
//! | 0x0C | be32 | `r_count` | bytes in use, these 16 included |
//! | 0x10 | be32 or be64 each | | block numbers; 64 bits with feature 64BIT |
//! | end - 4 | be32 | `r_checksum` | v2/v3: CRC32C of the block with these four bytes zero |

use super::descriptor::{verify_tail, write_tail};
use super::{BlockKind, Format, Header};
use crate::Corrupt;
use base::bytes::{get_be32, get_be64, put_be32, put_be64};
use base::{BlockNo, Tid};

const WHAT: &str = "journal revoke block";
const RECORDS_AT: usize = 16;

/// A revoke block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoke {
    /// The transaction that revokes.
    pub tid: Tid,
    /// The revoked home blocks, at most [`Format::revokes_per_block`].
    pub blocks: Vec<BlockNo>,
}

impl Revoke {
    /// Reads a revoke block. The tail checksum is not looked at; see [`verify`](Self::verify).
    ///
    /// # Errors
    /// Too few bytes, no revoke header, or a byte count outside the block or not a whole number of
    /// records.
    pub fn parse(format: &Format, block: &[u8]) -> Result<Revoke, Corrupt> {
        let block = Corrupt::need(WHAT, block, format.block_bytes)?;
        let tid = Header::expect(block, BlockKind::Revoke, WHAT)?.tid;
        let used = get_be32(block, 12) as usize;
        let record = format.revoke_record_bytes();
        let limit = format.block_bytes - format.tail_bytes();
        if !(RECORDS_AT..=limit).contains(&used) || !(used - RECORDS_AT).is_multiple_of(record) {
            let reason = "must be 16 plus a whole number of records inside the block";
            return Err(Corrupt::field(WHAT, "r_count", used as u64, reason).at_tid(tid));
        }
        let read = |r: &[u8]| {
            BlockNo(if format.wide_blocks {
                get_be64(r, 0)
            } else {
                get_be32(r, 0).into()
            })
        };
        let blocks = block[RECORDS_AT..used]
            .chunks_exact(record)
            .map(read)
            .collect();
        Ok(Revoke { tid, blocks })
    }

    /// Checks the tail checksum of a revoke block; formats without one pass.
    ///
    /// # Errors
    /// Too few bytes, or the stored checksum is another one.
    pub fn verify(format: &Format, block: &[u8]) -> Result<(), Corrupt> {
        verify_tail(
            format,
            Corrupt::need(WHAT, block, format.block_bytes)?,
            WHAT,
        )
    }

    /// Writes the block with its checksum.
    ///
    /// # Panics
    /// If `block` is not one block long, or the records do not fit.
    pub fn encode(&self, format: &Format, block: &mut [u8]) {
        assert_eq!(
            block.len(),
            format.block_bytes,
            "a revoke block is one block"
        );
        assert!(
            self.blocks.len() <= format.revokes_per_block(),
            "revoke records fit their block"
        );
        block.fill(0);
        Header {
            kind: BlockKind::Revoke,
            tid: self.tid,
        }
        .encode(block);
        let record = format.revoke_record_bytes();
        put_be32(block, 12, (RECORDS_AT + self.blocks.len() * record) as u32);
        for (n, home) in self.blocks.iter().enumerate() {
            let at = RECORDS_AT + n * record;
            if format.wide_blocks {
                put_be64(block, at, home.0);
            } else {
                put_be32(block, at, home.0 as u32);
            }
        }
        write_tail(format, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jbd2::{JournalCompat, JournalIncompat};
    use proptest::prelude::*;

    fn format(incompat: u32) -> Format {
        Format::new(
            1024,
            JournalCompat::NONE,
            JournalIncompat(incompat),
            &[7; 16],
        )
    }

    #[test]
    fn full_blocks_survive() {
        for (incompat, fits) in [(1, 252), (3, 126), (0x11, 251), (0x13, 125)] {
            let f = format(incompat);
            assert_eq!(f.revokes_per_block(), fits);
            let r = Revoke {
                tid: Tid(8),
                blocks: (0..fits as u64).map(BlockNo).collect(),
            };
            let mut block = vec![0xAA; 1024];
            r.encode(&f, &mut block);
            assert_eq!(Revoke::parse(&f, &block), Ok(r));
            Revoke::verify(&f, &block).expect("checksum");
            block[20] ^= 4;
            assert_eq!(Revoke::verify(&f, &block).is_err(), f.has_block_checksums());
        }
    }

    #[test]
    fn wrong_count_is_refused() {
        let f = format(0x13);
        for count in [0, 15, 17, 1021, 1024, u32::MAX] {
            let mut block = vec![0; 1024];
            Header {
                kind: BlockKind::Revoke,
                tid: Tid(1),
            }
            .encode(&mut block);
            put_be32(&mut block, 12, count);
            assert!(Revoke::parse(&f, &block).is_err(), "count {count}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(
            mut block in proptest::collection::vec(any::<u8>(), 0..1100),
            incompat in 0u32..0x20,
        ) {
            if block.len() >= 16 {
                Header { kind: BlockKind::Revoke, tid: Tid(1) }.encode(&mut block);
                block[12..14].fill(0);
            }
            let _ = Revoke::parse(&format(incompat), &block);
            let _ = Revoke::verify(&format(incompat), &block);
        }
    }
}
