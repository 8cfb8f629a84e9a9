//! JBD2, the journal of ext4: all structures big-endian.
//!
//! A log is a ring of blocks. The first block holds the [`Superblock`]; a transaction is
//! `revoke*, (descriptor, logged block...)*, commit`. Every control block starts with a [`Header`];
//! logged blocks are verbatim copies, except that a copy which begins with the magic number is
//! [escaped](escape).
//!
//! Which of the four tag layouts and which checksums are in use follows from the feature bits of
//! the superblock; a [`Format`] holds that decision together with the checksum seed.
//!
//! Source: kernel documentation `filesystems/ext4/journal.rst`, checked against logs made by
//! debugfs 1.47 and Linux.

mod coalition;
mod commit;
mod crc32_be;
mod descriptor;
mod escape;
mod features;
mod format;
#[cfg(test)]
mod golden;
mod header;
mod revoke;
mod superblock;

pub use coalition::{
    COALITION_HEADER_BYTES, CoalitionEnd, CoalitionPart, CoalitionRecord, CoalitionWriter, Segment,
    TransactionCrc, full_image_checksum, post_image_checksum, record_bytes, transaction_checksum,
};
pub use commit::Commit;
pub use crc32_be::crc32_be;
pub use descriptor::{DescriptorReader, DescriptorWriter, Tag};
pub use escape::{escape, needs_escape, unescape};
pub use features::{JournalCompat, JournalIncompat, JournalRoCompat};
pub use format::{ChecksumMode, Format};
pub use header::{BlockKind, HEADER_BYTES, Header, MAGIC};
pub use revoke::Revoke;
pub use superblock::{CHECKSUM_CRC32C, SUPERBLOCK_BYTES, Superblock};
