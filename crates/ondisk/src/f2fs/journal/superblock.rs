//! The superblock of the journal: two copies, blocks 0 and 1 of its region, written in turn; of two
//! sound ones the later counts.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic: `F2JS` |
//! | 4 | 2 | version: 3; 2 in rings without INODE_DEL, 1 without DATA_SUM, too |
//! | 6 | 2 | flags: bit 0, the ring was left empty; bits 8 to 15, kind of checksum: 1, crc32c |
//! | 8 | 8 | generation: rises with each write; its lowest bit is the copy |
//! | 16 | 16 | UUID, as in the description in the F2FS superblock |
//! | 32 | 4 | bytes of a block: 4096 |
//! | 36 | 4 | blocks of the ring, these two not counted |
//! | 40 | 4 | tail: ring index of the first block of the tail epoch |
//! | 44 | 4 | 0 |
//! | 48 | 8 | tail epoch: the oldest that may not be applied |
//! | 56 | 8 | version of a checkpoint that contains all epochs before it |
//! | 64 | 8 | incarnation: life of the ring, in each of its blocks; never 0 |
//! | 72 | 8 | an epoch that was written; there may be later ones |
//! | 80 | 4 | blocks that a transaction of this life has at most; 0: that is not known |
//! | 4092 | 4 | crc32c (from all ones, not inverted at the end) over the bytes before |
//!
//! The tail is where the search begins; which epochs are applied is said by the checkpoint alone
//! (`Checkpoint::applied`).

use super::EPOCH_MAX;
use super::place::{RING_AT, RING_MIN_BLOCKS};
use crate::Corrupt;
use crate::f2fs::BLOCK_BYTES;
use base::bytes::{get_le16, get_le32, get_le64, put_le16, put_le32, put_le64};
use base::checksum::crc32c;

/// `F2JS`.
const MAGIC: u32 = u32::from_le_bytes(*b"F2JS");
const CLEAN: u16 = 1;
const CRC32C: u16 = 1 << 8;
const CRC_AT: usize = BLOCK_BYTES - 4;
const WHAT: &str = "journal superblock of f2fs";

base::words! {
    /// What transactions of a ring may say. A program that does not know the version must not
    /// recover the ring, so it takes both superblocks for damaged.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
    #[repr(u16)]
    pub enum JournalVersion {
        /// The data that a transaction maps was durable before it was sent.
        Ordered = 1 => "1",
        /// The last transaction may be there without its data, which its DATA_SUMs tell.
        Summed = 2 => "2",
        /// Inodes that an epoch frees may stand together (INODE_DEL).
        #[default]
        Together = 3 => "3",
    }
}

/// A superblock of the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalSuper {
    /// What transactions of this life of the ring may say.
    pub version: JournalVersion,
    /// The ring was left empty: unmounted, everything applied.
    pub clean: bool,
    /// Rises with each write.
    pub generation: u64,
    /// UUID of the journal.
    pub uuid: [u8; 16],
    /// Blocks of the ring.
    pub ring_blocks: u32,
    /// Ring index where the tail epoch begins, or will.
    pub tail: u32,
    /// The oldest epoch that may not be applied.
    pub tail_epoch: u64,
    /// Version of a checkpoint that contains all epochs before the tail epoch.
    pub checkpoint_version: u64,
    /// Life of the ring.
    pub incarnation: u64,
    /// An epoch that was written; there may be later ones.
    pub head_epoch: u64,
    /// Blocks that a transaction of this life has at most; 0: that is not known.
    pub transaction_max: u32,
}

impl JournalSuper {
    /// Which of the two copies this one is: 0 or 1, also its block in the region.
    pub const fn copy(&self) -> usize {
        (self.generation & 1) as usize
    }

    /// Reads a copy.
    ///
    /// # Errors
    /// Magic number or checksum is wrong, or a number is impossible.
    pub fn parse(block: &[u8]) -> Result<JournalSuper, Corrupt> {
        let b = Corrupt::need(WHAT, block, BLOCK_BYTES)?;
        if get_le32(b, 0) != MAGIC {
            return Err(Corrupt::magic(WHAT, get_le32(b, 0), MAGIC));
        }
        Corrupt::check(WHAT, get_le32(b, CRC_AT), crc32c(!0, &b[..CRC_AT]))?;
        let bad = |field, value: u64, reason| Err(Corrupt::field(WHAT, field, value, reason));
        let code = get_le16(b, 4);
        let mut known = JournalVersion::ALL.iter().copied();
        let Some(version) = known.find(|version| *version as u16 == code) else {
            let reason = "is a version that is not known here";
            return bad("version", code.into(), reason);
        };
        let flags = get_le16(b, 6);
        if flags & !CLEAN != CRC32C {
            return bad(
                "flags",
                flags.into(),
                "a flag or checksum that is not known",
            );
        }
        if get_le32(b, 32) != BLOCK_BYTES as u32 {
            return bad("block_size", get_le32(b, 32).into(), "is not 4096");
        }
        let out = JournalSuper {
            version,
            clean: flags & CLEAN != 0,
            generation: get_le64(b, 8),
            uuid: std::array::from_fn(|n| b[16 + n]),
            ring_blocks: get_le32(b, 36),
            tail: get_le32(b, 40),
            tail_epoch: get_le64(b, 48),
            checkpoint_version: get_le64(b, 56),
            incarnation: get_le64(b, 64),
            head_epoch: get_le64(b, 72),
            transaction_max: get_le32(b, 80),
        };
        if out.ring_blocks < RING_MIN_BLOCKS - RING_AT {
            return bad("ring_blocks", out.ring_blocks.into(), "is at least 14");
        }
        if out.tail >= out.ring_blocks {
            return bad("tail", out.tail.into(), "lies behind the ring");
        }
        // The tail epoch of an empty ring is one behind its last.
        if !(1..=EPOCH_MAX + 1).contains(&out.tail_epoch) {
            return bad("tail_epoch", out.tail_epoch, "epochs go from 1 to 2^62");
        }
        if out.head_epoch > EPOCH_MAX {
            return bad("head_epoch", out.head_epoch, "epochs go from 1 to 2^62");
        }
        if out.transaction_max > out.ring_blocks {
            let reason = "is more than the ring has";
            return bad("transaction_max", out.transaction_max.into(), reason);
        }
        if out.incarnation == 0 {
            return bad("incarnation", 0, "is never 0");
        }
        Ok(out)
    }

    /// The later of two copies, the first two blocks of the region; the other one is not needed any
    /// more.
    ///
    /// # Errors
    /// Neither copy is sound: what is wrong with each.
    pub fn choose(first: &[u8], second: &[u8]) -> Result<JournalSuper, Box<[Corrupt; 2]>> {
        match (Self::parse(first), Self::parse(second)) {
            (Ok(a), Ok(b)) if b.generation > a.generation => Ok(b),
            (Ok(a), _) => Ok(a),
            (_, Ok(b)) => Ok(b),
            (Err(a), Err(b)) => Err(Box::new([a, b])),
        }
    }

    /// The block.
    pub fn encode(&self) -> Vec<u8> {
        let mut b = vec![0; BLOCK_BYTES];
        put_le32(&mut b, 0, MAGIC);
        put_le16(&mut b, 4, self.version as u16);
        put_le16(&mut b, 6, CRC32C | if self.clean { CLEAN } else { 0 });
        put_le64(&mut b, 8, self.generation);
        b[16..32].copy_from_slice(&self.uuid);
        put_le32(&mut b, 32, BLOCK_BYTES as u32);
        put_le32(&mut b, 36, self.ring_blocks);
        put_le32(&mut b, 40, self.tail);
        put_le64(&mut b, 48, self.tail_epoch);
        put_le64(&mut b, 56, self.checkpoint_version);
        put_le64(&mut b, 64, self.incarnation);
        put_le64(&mut b, 72, self.head_epoch);
        put_le32(&mut b, 80, self.transaction_max);
        let crc = crc32c(!0, &b[..CRC_AT]);
        put_le32(&mut b, CRC_AT, crc);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn supers()(version in 0usize..3, clean in any::<bool>(), generation in any::<u64>(), uuid in any::<[u8; 16]>(), ring_blocks in 14u32.., tail in any::<u32>(),
            numbers in any::<[u64; 4]>()) -> JournalSuper
        {
            JournalSuper {
                version: JournalVersion::ALL[version],
                clean, generation, uuid, ring_blocks, tail: tail % ring_blocks, tail_epoch: numbers[0] % EPOCH_MAX + 1, checkpoint_version: numbers[1],
                incarnation: numbers[2].max(1), head_epoch: numbers[3] % EPOCH_MAX, transaction_max: (numbers[0] >> 32) as u32 % ring_blocks,
            }
        }
    }

    proptest! {
        #[test]
        fn round_trip_and_every_flip(sb in supers(), at in 0usize..BLOCK_BYTES, bit in 0u8..8) {
            let mut block = sb.encode();
            prop_assert_eq!(JournalSuper::parse(&block), Ok(sb));
            block[at] ^= 1 << bit;
            prop_assert!(JournalSuper::parse(&block).is_err());
            prop_assert_eq!(JournalSuper::choose(&block, &sb.encode()), Ok(sb));
            prop_assert_eq!(JournalSuper::choose(&sb.encode(), &block), Ok(sb));
            prop_assert!(JournalSuper::choose(&block, &block).is_err());
        }

        #[test]
        fn garbage(block in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(JournalSuper::parse(&block).is_err());
        }
    }

    #[test]
    fn the_later_copy_counts() {
        let old = JournalSuper {
            generation: 6,
            ring_blocks: 14,
            tail_epoch: 1,
            incarnation: 1,
            ..JournalSuper::default()
        };
        let new = JournalSuper {
            generation: 7,
            ..old
        };
        assert_eq!((old.copy(), new.copy()), (0, 1));
        assert_eq!(JournalSuper::choose(&old.encode(), &new.encode()), Ok(new));
        assert_eq!(JournalSuper::choose(&new.encode(), &old.encode()), Ok(new));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = JournalSuper {
            ring_blocks: 14,
            tail: 13,
            tail_epoch: 1,
            incarnation: 1,
            ..JournalSuper::default()
        };
        assert_eq!(JournalSuper::parse(&good.encode()), Ok(good));
        let bad = [
            JournalSuper {
                ring_blocks: 13,
                tail: 0,
                ..good
            },
            JournalSuper { tail: 14, ..good },
            JournalSuper {
                tail_epoch: 0,
                ..good
            },
            JournalSuper {
                tail_epoch: EPOCH_MAX + 2,
                ..good
            },
            JournalSuper {
                head_epoch: EPOCH_MAX + 1,
                ..good
            },
            JournalSuper {
                incarnation: 0,
                ..good
            },
        ];
        for sb in bad {
            assert!(JournalSuper::parse(&sb.encode()).is_err(), "{sb:?}");
        }
        for (at, value) in [(4, 4), (4, 0), (6, 2), (7, 0), (7, 2), (33, 0)] {
            let mut block = good.encode();
            block[at] = value;
            let crc = crc32c(!0, &block[..CRC_AT]);
            put_le32(&mut block, CRC_AT, crc);
            assert!(JournalSuper::parse(&block).is_err(), "{value} at {at}");
        }
    }
}
