//! The coalition block: the modified bytes of many metadata blocks in one log block (eMMC paper,
//! IV.A "journal coalition").
//!
//! It is our own extension of the log, announced by
//! [`JournalIncompat::COALITION`](super::JournalIncompat::COALITION); no other program reads it. A
//! transaction in this form consists of, in log order,
//!
//! ```text
//! part 0 .. part P-1, full image 1 .. full image n [, commit block]
//! ```
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0x00 | 12 | header | type 6, transaction number |
//! | 0x0C | u8 | version | 1 |
//! | 0x0D | u8 | flags | 1 FIRST, 2 LAST, 4 SELF_COMMIT (LAST only), 8 HAS_FULL, 16 HAS_REVOKE (records of this part) |
//! | 0x0E | be16 | part | number of this part, from 0 |
//! | 0x10 | be16 | parts | number of parts |
//! | 0x12 | be16 | records | number of records in this part |
//! | 0x14 | be32 | used | bytes in use, these 48 included |
//! | 0x18 | be64 | seconds | commit time since 1970 (LAST only, else 0) |
//! | 0x20 | be32 | nanoseconds | (LAST only) |
//! | 0x24 | be32 | images | full images behind the LAST part (LAST only) |
//! | 0x28 | be32 | transaction checksum | (LAST only) see [`transaction_checksum`] |
//! | 0x2C | be32 | block checksum | CRC32C of the block with this field zero, from the seed of the journal's UUID |
//! | 0x30 | | records | each padded with zeros to 4 bytes; none crosses a block |
//!
//! A record begins with `u8 kind, u8 flags, be16 bytes` (the whole record with its padding) and
//! `be64 home`:
//!
//! | kind | then | flags |
//! |---|---|---|
//! | 1 DELTA | be16 n, be16 0, be32 CRC32C of the home block after the transaction, n x {be16 offset, be16 length}, bytes | 1 CUMULATIVE |
//! | 2 FULL | be32 CRC32C of the image as it stands in the log; the image is the next one behind the parts | 1 ESCAPED |
//! | 3 REVOKE | be64 block numbers; `home` is their number | |
//!
//! All logs have these checksums, also a log without JBD2 checksums (hazards-H14).

mod part;
mod writer;

#[cfg(test)]
mod tests;

pub use part::{CoalitionEnd, CoalitionPart};
pub use writer::CoalitionWriter;

use super::Format;
use base::bytes::put_be32;
use base::checksum::crc32c;
use base::{BlockNo, Bytes, Tid};

const WHAT: &str = "coalition block";
const VERSION: u8 = 1;

/// Bytes before the first record.
pub const COALITION_HEADER_BYTES: usize = 0x30;
/// Bytes that all kinds of records begin with.
const PREFIX_BYTES: usize = 12;
/// Bytes of a delta record before its segments.
const DELTA_BYTES: usize = PREFIX_BYTES + 8;
/// Bytes of one entry of the segment table.
const SEGMENT_BYTES: usize = 4;
/// Bytes of a full record.
const FULL_BYTES: usize = PREFIX_BYTES + 4;

const KIND_DELTA: u8 = 1;
const KIND_FULL: u8 = 2;
const KIND_REVOKE: u8 = 3;
const RECORD_FLAG: u8 = 1;

const FLAG_FIRST: u8 = 1;
const FLAG_LAST: u8 = 2;
const FLAG_SELF_COMMIT: u8 = 4;
const FLAG_HAS_FULL: u8 = 8;
const FLAG_HAS_REVOKE: u8 = 16;

const TRANSACTION_CHECKSUM_AT: usize = 0x28;
const BLOCK_CHECKSUM_AT: usize = 0x2C;

/// Modified bytes of a block, in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where the run begins in the block, bytes.
    pub offset: u16,
    /// What stands there after the transaction; never empty.
    pub bytes: Bytes,
}

/// What a transaction says about blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoalitionRecord {
    /// Bytes of a block that changed.
    Delta {
        /// Its home.
        block: BlockNo,
        /// The complete difference to what home held when it was last written, not only that of
        /// this transaction.
        cumulative: bool,
        /// [`post_image_checksum`] of the block after this transaction.
        post_crc: u32,
        /// Sorted and disjoint.
        segments: Vec<Segment>,
    },
    /// A block whose image stands behind the parts.
    Full {
        /// Its home.
        block: BlockNo,
        /// The image is [escaped](super::escape).
        escaped: bool,
        /// [`full_image_checksum`] of the image as it stands in the log.
        crc: u32,
    },
    /// Blocks whose records of this and of earlier transactions are void.
    Revoke {
        /// Their homes.
        blocks: Vec<BlockNo>,
    },
}

/// Bytes of a delta record with these segments, if it fits one part.
pub fn record_bytes(segments: &[Segment]) -> usize {
    let bytes: usize = segments.iter().map(|s| SEGMENT_BYTES + s.bytes.len()).sum();
    (DELTA_BYTES + bytes).next_multiple_of(4)
}

/// CRC32C of a home block, as a delta record stores it: from the seed of the journal.
pub fn post_image_checksum(format: &Format, home: &[u8]) -> u32 {
    crc32c(format.seed, home)
}

/// CRC32C of a full image as it stands in the log (escaped if it must be): from the seed and the
/// transaction number.
pub fn full_image_checksum(format: &Format, tid: Tid, logged: &[u8]) -> u32 {
    crc32c(crc32c(format.seed, &tid.0.to_be_bytes()), logged)
}

/// The checksum that tells a complete transaction: a CRC32C from seed and transaction number over
/// the CRC32C of every part (be32, both checksum fields zero), then over every full image as it
/// stands in the log.
pub fn transaction_checksum<'a>(
    format: &Format,
    tid: Tid,
    parts: impl IntoIterator<Item = &'a [u8]>,
    images: impl IntoIterator<Item = &'a [u8]>,
) -> u32 {
    let mut crc = TransactionCrc::new(format, tid);
    parts.into_iter().for_each(|part| crc.part(part));
    images.into_iter().for_each(|image| crc.image(image));
    crc.value()
}

/// [`transaction_checksum`] in the making: for a reader that sees one block at a time.
#[derive(Clone, Copy, Debug)]
pub struct TransactionCrc {
    format: Format,
    crc: u32,
}

impl TransactionCrc {
    /// Nothing read yet.
    pub fn new(format: &Format, tid: Tid) -> TransactionCrc {
        let crc = crc32c(format.seed, &tid.0.to_be_bytes());
        let format = *format;
        TransactionCrc { format, crc }
    }
    /// Adds the next part, a whole block.
    pub fn part(&mut self, part: &[u8]) {
        let bare = bare_checksum(&self.format, part);
        self.crc = crc32c(self.crc, &bare.to_be_bytes());
    }
    /// Adds the next full image, behind all parts.
    pub fn image(&mut self, logged: &[u8]) {
        self.crc = crc32c(self.crc, logged);
    }
    /// The checksum over what was added.
    pub fn value(&self) -> u32 {
        self.crc
    }
}

/// CRC32C of a part with both checksum fields zero.
fn bare_checksum(format: &Format, part: &[u8]) -> u32 {
    let crc = crc32c(format.seed, &part[..TRANSACTION_CHECKSUM_AT]);
    crc32c(crc32c(crc, &[0; 8]), &part[BLOCK_CHECKSUM_AT + 4..])
}

/// Fills the block checksum of a part.
fn seal(format: &Format, part: &mut [u8]) {
    let crc = format.crc_without(part, BLOCK_CHECKSUM_AT);
    put_be32(part, BLOCK_CHECKSUM_AT, crc);
}
