//! What journaling costs, taken from the log: the characterisation of the eMMC paper (III.C).
//!
//! ```text
//! Layout::read(device before the mount)     where the log and the fixed metadata lie
//! Tap: queue -> device                      every write and flush with its times; what went to the log with its bytes
//! LogReader(Tap) -> Transaction*            descriptor, revoke, commit and coalition blocks, checked
//! Images -> modified bytes                  each logged block against its previous image
//! ```
//!
//! The reader knows the byte formats of `ondisk` and the writes that passed, and nothing of the
//! journal's own state, so that its counts are a check of the journal's.
//!
//! - X1: a transaction is read when all its blocks have passed, whatever the order of the commands
//!   that brought them.
//! - X2: every checksum that the log carries is checked; blocks that only deltas describe are put
//!   together and must have the checksum that the log foretells.
//! - X3: the modified bytes of a block are those in which its new image differs from its previous
//!   logged one or, where it is logged for the first time, from what its home held at the mount
//!   (the superblock, which a mount writes in place: from what that write left).

mod commit_time;
mod images;
mod layout;
mod listing;
mod log;
mod session;
mod tap;
mod traffic;
mod transaction;

pub use commit_time::{Paths, Waiting, Written};
pub use images::{Change, Images};
pub use layout::{Layout, Role};
pub use listing::log_listing;
pub use log::LogReader;
pub use session::{Commit, Session};
pub use tap::{Command, Kind, Span, Tap};
pub use traffic::{Bytes as Distribution, RoleSum, Traffic, traffic};
pub use transaction::{Logged, Part, Transaction};

#[cfg(test)]
mod tests;

use thiserror::Error;

/// Why a log or a file system cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// A structure is damaged.
    #[error("{0}")]
    Corrupt(#[from] ondisk::Corrupt),
    /// The structures are sound but contradict each other.
    #[error("log block {at}: {what}")]
    Log {
        /// Number of the block in the log, counted from its superblock.
        at: u32,
        /// What is wrong.
        what: String,
    },
    /// There is no log, or none that this reader knows.
    #[error("{0}")]
    Layout(String),
}
