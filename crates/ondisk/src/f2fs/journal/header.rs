//! The header that each block of a transaction begins with.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic: `F2JB` |
//! | 4 | 1 | kind: 1 descriptor, 2 records, 3 commit, 4 compact |
//! | 5 | 1 | flags: 0 |
//! | 6 | 2 | bytes of the header with what the kind adds; records begin there |
//! | 8 | 8 | incarnation: life of the ring |
//! | 16 | 8 | epoch, from 1 to 2^62 |
//! | 24 | 4 | index in the transaction, from 0 |
//! | 28 | 4 | crc32c (from all ones, not inverted at the end) over the block with this field as zero |
//!
//! A block of an earlier lap of the ring has a sound checksum and another epoch; a block of an
//! earlier life of the ring has another incarnation.

use crate::f2fs::BLOCK_BYTES;
use base::bytes::{get_le16, get_le32, get_le64, put_le16, put_le32, put_le64};
use base::checksum::crc32c;

/// Bytes of the header that all kinds have.
pub const BLOCK_HEADER_BYTES: usize = 32;
/// Bytes of records in a block of kind [`BlockKind::Records`].
pub const RECORDS_PER_BLOCK_BYTES: usize = BLOCK_BYTES - BLOCK_HEADER_BYTES;

/// The largest number of an epoch, so that adding one cannot overflow. No volume gets so far;
/// larger numbers are damage.
pub const EPOCH_MAX: u64 = 1 << 62;

/// `F2JB`.
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"F2JB");
const CRC_AT: usize = 28;

base::words! {
    /// The kind of a block of a transaction.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    #[repr(u8)]
    pub enum BlockKind {
        /// The first one (JD): how much follows.
        Descriptor = 1 => "descriptor",
        /// Records.
        Records = 2 => "records",
        /// The last one (JC): the transaction is whole.
        Commit = 3 => "commit",
        /// A whole transaction in one block.
        Compact = 4 => "compact",
    }
}

impl BlockKind {
    /// Bytes of the header before the records.
    pub const fn header_bytes(self) -> usize {
        match self {
            BlockKind::Records => BLOCK_HEADER_BYTES,
            BlockKind::Descriptor | BlockKind::Commit => BLOCK_HEADER_BYTES + 40,
            BlockKind::Compact => BLOCK_HEADER_BYTES + 80,
        }
    }
}

/// A block header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockHeader {
    /// What the block is.
    pub kind: BlockKind,
    /// Life of the ring that it was written in.
    pub incarnation: u64,
    /// Epoch of its transaction.
    pub epoch: u64,
    /// Its place in the transaction, from 0.
    pub index: u32,
}

/// The reason why a block belongs to no transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderFault {
    /// It is shorter than 4096 bytes.
    Short,
    /// Another magic number: never written, or written by another program.
    Magic(u32),
    /// The checksum does not fit: it was being written, or is damaged.
    Checksum {
        /// What is stored.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// The checksum fits, but a field has a value that no known version writes.
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

impl BlockHeader {
    /// Reads the header of a block, and checks the whole block.
    ///
    /// # Errors
    /// It is no sound block of a transaction.
    pub fn parse(block: &[u8]) -> Result<BlockHeader, HeaderFault> {
        let block = block.get(..BLOCK_BYTES).ok_or(HeaderFault::Short)?;
        let magic = get_le32(block, 0);
        if magic != MAGIC {
            return Err(HeaderFault::Magic(magic));
        }
        let (stored, computed) = (get_le32(block, CRC_AT), checksum(block));
        if stored != computed {
            return Err(HeaderFault::Checksum { stored, computed });
        }
        let field = |field, value: u64| HeaderFault::Field { field, value };
        let kind = BlockKind::ALL.into_iter().find(|&k| k as u8 == block[4]);
        let kind = kind.ok_or(field("kind", block[4].into()))?;
        if block[5] != 0 {
            return Err(field("flags", block[5].into()));
        }
        let bytes = get_le16(block, 6);
        if usize::from(bytes) != kind.header_bytes() {
            return Err(field("hdr_len", bytes.into()));
        }
        let epoch = get_le64(block, 16);
        if !(1..=EPOCH_MAX).contains(&epoch) {
            return Err(field("epoch", epoch));
        }
        Ok(BlockHeader {
            kind,
            incarnation: get_le64(block, 8),
            epoch,
            index: get_le32(block, 24),
        })
    }

    /// Writes the header, all but the checksum.
    pub(super) fn put(&self, block: &mut [u8]) {
        put_le32(block, 0, MAGIC);
        (block[4], block[5]) = (self.kind as u8, 0);
        put_le16(block, 6, self.kind.header_bytes() as u16);
        put_le64(block, 8, self.incarnation);
        put_le64(block, 16, self.epoch);
        put_le32(block, 24, self.index);
    }
}

/// Writes the checksum of a block: last.
pub(super) fn seal(block: &mut [u8]) {
    let crc = checksum(block);
    put_le32(block, CRC_AT, crc);
}

fn checksum(block: &[u8]) -> u32 {
    let before = crc32c(crc32c(!0, &block[..CRC_AT]), &[0; 4]);
    crc32c(before, &block[CRC_AT + 4..])
}

impl std::fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HeaderFault::Short => f.write_str("is no whole block"),
            HeaderFault::Magic(found) => {
                write!(f, "has magic number {found:#x}, expected {MAGIC:#x}")
            }
            HeaderFault::Checksum { stored, computed } => write!(
                f,
                "has checksum {stored:#010x}, its bytes give {computed:#010x}"
            ),
            HeaderFault::Field { field, value } => {
                write!(f, "has {field} = {value}, which nobody writes")
            }
        }
    }
}
