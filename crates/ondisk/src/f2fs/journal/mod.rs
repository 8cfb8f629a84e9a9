//! The journal of F2FSJ on the device: a region after the volume, made of two superblocks and a
//! ring of transactions, each a descriptor block, blocks of records, and a commit block.
//!
//! The superblock of the volume describes the [region](JournalArea); the
//! [superblocks](JournalSuper) of the journal say where the ring begins and which of its lives this
//! is. A [`Transaction`] holds all [records](Record) of one epoch, in [groups](Group) by inode. The
//! checkpoint of the volume says which epochs the volume already contains.
//!
//! Nothing here does I/O, and any bytes that are parsed may be hostile.

mod applied;
pub mod attr;
mod codec;
mod described;
mod fault;
mod group;
mod header;
mod listing;
mod place;
mod record;
#[cfg(test)]
mod record_tests;
mod records;
#[cfg(test)]
mod ring_fuzz;
mod show;
mod sums;
mod superblock;
mod transaction;
#[cfg(test)]
mod transaction_tests;

pub use applied::APPLIED_AT;
pub use codec::{RECORD_BYTES_MAX, RECORD_HEADER_BYTES};
pub use described::JOURNAL_AT;
pub use fault::{Fault, FaultKind, Part};
pub use group::{GROUP_HEADER_BYTES, GROUP_RECORDS_MAX, Group, Groups, count_records, put_group};
pub use header::{
    BLOCK_HEADER_BYTES, BlockHeader, BlockKind, EPOCH_MAX, HeaderFault, RECORDS_PER_BLOCK_BYTES,
};
pub use listing::{Found, What, list_ring};
pub use place::{JournalArea, RING_AT, RING_MIN_BLOCKS, RingArea};
pub use record::{Block, Content, PageKind, Record};
pub use records::Records;
pub use sums::{DATA_SUMS_MAX, Sums};
pub use superblock::{JournalSuper, JournalVersion};
pub use transaction::{
    Assembly, COMPACT_BYTES, Commit, Descriptor, Transaction, TransactionFlags, transaction_blocks,
};
