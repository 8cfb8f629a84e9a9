//! The journal of F2FSJ on the device: a ring of transactions, each a descriptor block, blocks of records, and a commit block.

mod record;

pub use record::{Content, Record};
