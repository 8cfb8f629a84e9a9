//! The journal of F2FSJ on the device: a ring of transactions, each a descriptor block, blocks of records, and a commit block.

pub mod attr;
mod codec;
mod group;
mod record;
#[cfg(test)]
mod record_tests;

pub use codec::{RECORD_BYTES_MAX, RECORD_HEADER_BYTES, Records};
pub use group::{GROUP_HEADER_BYTES, GROUP_RECORDS_MAX, Group, Groups, count_records, put_group};
pub use record::{Content, Record};
