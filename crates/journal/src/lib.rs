//! Transactions, schemes, checkpoint and recovery of a JBD2-compatible journal.
//!
//! A file system changes metadata blocks inside [`Handle`]s. The blocks of all handles that run
//! together form one transaction; its commit writes their images to the log by a plan
//! ([`plan_of`]), and only then may they go home.
//!
//! ```text
//!  handle        transaction                         log                     home
//!  start ------> RUNNING
//!  write ------> current content of a buffer
//!  finish        LOCKED -> images taken ----------->  descriptor, images
//!                                                     flush, commit record
//!                FINISHED: images wait --------------------------------->    checkpoint, write-back
//!                                                     tail moves on  <-----  flush
//! ```
//!
//! A log is opened with [`open`]: the answer says whether it must be recovered first, and only a
//! [`CleanLog`] can be started. With preset [`Preset::None`] handles work as
//! always, but there is no log below them ([`Journal::without_log`]).
//!
//! The log may lie on a device of its own: `devices.rs` says which rules hold then.
//!
//! Rules of the crate:
//! - No task waits for log space or for a commit with the state locked; every wait loop tests the
//!   abort latch.
//! - The first failure is latched: from then on everything but reading answers
//!   [`JournalError::Aborted`] with it.
//! - Lock order: checkpoint -> superblock -> state. A running handle takes no lock but `state`; one
//!   that starts may take all of them, to make room in the log.

mod adapt;
mod buffer;
mod checkpoint;
mod choices;
mod commit;
mod devices;
mod error;
mod fast;
mod handle;
mod home;
mod home_remap;
mod inner;
mod journal;
mod log_super;
mod logged_data;
mod options;
mod place;
mod recover;
mod ring;
mod scheme;
mod space;
mod state;
mod stats;
mod tasks;
mod track;
mod transaction;
mod turn;
mod words;

#[cfg(test)]
mod tests;

pub use adapt::{DataNeed, DataPath, Syncing};
pub use block::RemapMode;
pub use buffer::Checked;
pub use choices::{ChoiceError, Choices, scheme_text};
pub use commit::{Action, Ending, Phase, Step, Wait, ending_of, plan_of};
pub use error::{Failure, JournalError};
pub use fast::FastStart;
pub use handle::Handle;
pub use journal::Journal;
pub use options::Options;
pub use place::{LogBlock, LogPlace};
pub use recover::{
    CleanLog, DirtyLog, FastArea, Foreseen, Opened, RecoveryReport, RecoverySpans, open, open_on,
};
pub use scheme::{BugIn, CommitBlock, FastBug, FullFirst, Home, Order, Preset, Record, Scheme};
pub use stats::Stats;

/// Parts of a commit, for the bench `cost`.
#[doc(hidden)]
pub mod measured {
    use base::Bytes;

    /// Bytes of the delta record of a block that was `old` and is `new`, with these stores (offset,
    /// length) in between.
    pub fn delta(old: &Bytes, new: &Bytes, stores: &[(usize, usize)]) -> usize {
        let mut marked = crate::words::WordMap::NONE;
        stores.iter().for_each(|&(at, len)| marked.mark(at, len));
        crate::commit::delta_bytes(old, new, &marked)
    }
}
