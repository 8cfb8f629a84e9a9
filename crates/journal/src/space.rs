//! How many log blocks a transaction needs, and whether one more handle fits.
//!
//! - S1: the running transaction with all credits handed out always fits into the free part of the
//!   ring. So a commit never waits for log space, and checkpoints never wait for a commit that
//!   waits for them.
//! - S2: room for one more revoke record is always reserved: one revoke block from the start and
//!   another one whenever the last is full, or the bytes of a record in a coalition.
//! - S3: for a coalition the worst case is reserved: every image in full, and its parts. A delta
//!   takes less of a part than the image that it saves. Blocks that composing does not need are
//!   given back (journal-commit-K3).

use crate::Record;
use ondisk::jbd2::Format;

/// Smallest ring that is accepted, blocks.
pub(crate) const RING_MIN: u32 = 8;

/// Bytes of a coalition part that may be lost to records: its header, the head of a record that is
/// split, and a rest that is too small for a piece of a record.
const PART_REST: u32 = 48 + 64;
/// Bytes of the record of a full image.
const FULL_RECORD: u32 = 16;

/// The limits of one log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    record: Record,
    tags_per_descriptor: u32,
    revokes_per_block: u32,
    /// Bytes that a coalition part holds at least before another one begins.
    part_filled: u32,
    /// Log blocks that one transaction may need at most: a quarter of the ring, as in Linux.
    pub transaction_max: u32,
}

/// The answer to a request for credits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// There is room.
    Granted,
    /// The transaction would grow too large: commit it first.
    TransactionFull,
    /// The log has no room: move its tail first.
    LogFull,
    /// More credits than any transaction can hold.
    NeverFits,
}

impl Limits {
    pub fn new(format: &Format, ring_len: u32, record: Record) -> Limits {
        assert!(ring_len >= RING_MIN, "S1: a ring holds one transaction");
        Limits {
            record,
            tags_per_descriptor: format.tags_per_descriptor() as u32,
            revokes_per_block: format.revokes_per_block() as u32,
            part_filled: format.block_bytes as u32 - PART_REST,
            transaction_max: (ring_len / 4).max(RING_MIN),
        }
    }

    /// Log blocks of a transaction with these numbers of images and revoke records, at most.
    pub fn log_blocks(&self, images: u32, revokes: u32) -> u32 {
        if let Record::Coalition { commit_block } = self.record {
            let bytes = images * FULL_RECORD + revokes * 9 + 12;
            return images
                + 1
                + bytes / self.part_filled
                + u32::from(commit_block != crate::CommitBlock::Never);
        }
        images
            + images.div_ceil(self.tags_per_descriptor)
            + revokes.div_ceil(self.revokes_per_block)
            + 1
    }

    /// Log blocks to reserve for a transaction with these numbers (S2).
    pub fn reserve(&self, images: u32, revokes: u32) -> u32 {
        self.log_blocks(images, revokes + 1)
    }

    /// Most credits that one handle can have.
    pub fn credits_max(&self) -> u32 {
        let fits = |n: &u32| self.reserve(*n, 0) <= self.transaction_max;
        (0..=self.transaction_max).rev().find(fits).unwrap_or(0)
    }

    /// Blocks of the smallest ring in which a handle can have so many credits.
    pub fn ring_for(&self, credits: u32) -> u32 {
        4 * self.reserve(credits, 0)
    }

    /// Whether a handle of `credits` may join a transaction of `images` (credits handed out
    /// included) and `revokes`.
    pub fn admit(&self, images: u32, revokes: u32, credits: u32, free: u32) -> Admission {
        if credits > self.transaction_max || self.reserve(credits, 0) > self.transaction_max {
            return Admission::NeverFits;
        }
        let need = self.reserve(images + credits, revokes);
        if need > self.transaction_max && (images > 0 || revokes > 0) {
            Admission::TransactionFull
        } else if need > free {
            Admission::LogFull
        } else {
            Admission::Granted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::jbd2::{JournalCompat, JournalIncompat};

    fn limits(ring: u32) -> Limits {
        let incompat = JournalIncompat::WIDE_BLOCKS | JournalIncompat::CHECKSUM_V3;
        let format = Format::new(4096, JournalCompat::NONE, incompat, &[0; 16]);
        Limits::new(&format, ring, Record::Full)
    }

    fn coalition(ring: u32) -> Limits {
        Limits {
            record: Record::Coalition {
                commit_block: crate::CommitBlock::Always,
            },
            ..limits(ring)
        }
    }

    #[test]
    fn counts_descriptors_and_revoke_blocks() {
        let l = limits(4096);
        assert_eq!(l.log_blocks(0, 0), 1);
        assert_eq!(l.log_blocks(1, 0), 3);
        assert_eq!(l.log_blocks(253, 0), 253 + 1 + 1);
        assert_eq!(l.log_blocks(254, 510), 254 + 2 + 2 + 1);
    }

    /// S3: the worst case of a coalition is reserved.
    #[test]
    fn counts_parts() {
        let l = coalition(4096);
        assert_eq!(l.log_blocks(0, 0), 2);
        assert_eq!(l.log_blocks(1, 0), 3);
        assert_eq!(l.log_blocks(249, 0), 249 + 2 + 1);
        assert_eq!(l.log_blocks(0, 900), 1 + 2 + 1);
    }

    #[test]
    fn largest_handle_fits_an_empty_log() {
        let rings = [8, 15, 63, 1023, 4095];
        for l in rings.map(limits).into_iter().chain(rings.map(coalition)) {
            let ring = l.transaction_max;
            assert!(l.credits_max() >= 1);
            assert_eq!(l.admit(0, 0, l.credits_max(), ring), Admission::Granted);
            assert_eq!(
                l.admit(0, 0, l.credits_max() + 1, ring),
                Admission::NeverFits
            );
            assert_eq!(
                l.admit(1, 0, l.credits_max(), ring),
                Admission::TransactionFull
            );
        }
        assert_eq!(limits(1023).admit(1, 0, 20, 20), Admission::LogFull);
        for make in [limits, coalition] {
            let least = make(8).ring_for(40);
            assert!(make(least).credits_max() >= 40 && make(least - 1).credits_max() < 40);
        }
    }
}
