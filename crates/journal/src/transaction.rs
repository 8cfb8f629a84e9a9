//! The states of a transaction, and what it holds.
//!
//! ```text
//!   (none) --Inner::start--> Running --tasks::lock_transaction--> Locked --tasks::switch--> Flush
//!      Flush --step "log-start"--> Commit --"flush", or "log" behind it--> CommitFlush
//!      CommitFlush --"tail"--> Callback
//!      Callback --tasks::publish--> (finished: its images stand in the checkpoint list)
//!      Locked --tasks::switch, nothing changed--> (none)
//! ```
//!
//! | state | what is true |
//! |---|---|
//! | `Running` | handles join; blocks may change |
//! | `Locked` | no new handle; those that run end; `start` waits |
//! | `Flush` | images are taken, log blocks are allocated, the next transaction may run; ordered data is waited for |
//! | `Commit` | ordered data is complete but for what is held back, and not yet durable; log blocks are composed, and those are written that a flush follows; a flush that goes ahead runs meanwhile |
//! | `CommitFlush` | the flush, if it has not gone ahead; then the record, with all log blocks that were not yet sent |
//! | `Callback` | the transaction is durable; not yet published |
//! | finished | `committed()` has passed it; images wait for their way home |

use crate::track::{Basis, Logged};
use crate::words::WordMap;
use base::{BlockNo, Bytes, Tid, Time};
use block::{Batch, Class};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a journaled block holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Metadata,
    /// File data of `data=journal`.
    Data,
}

impl Kind {
    /// How its image in the log is counted.
    pub fn log_class(self) -> Class {
        match self {
            Kind::Metadata => Class::JournalMetadata,
            Kind::Data => Class::JournalData,
        }
    }
    /// How its home write is counted.
    pub fn home_class(self) -> Class {
        match self {
            Kind::Metadata => Class::Home,
            Kind::Data => Class::Data,
        }
    }
}

/// The part of a transaction that a handle may touch without a lock, because a dropped handle must
/// not lock (rule 11).
#[derive(Default)]
pub(crate) struct Shared {
    /// Handles that run.
    updates: AtomicU32,
    /// Credits handed out and not used.
    credits: AtomicU32,
}

impl Shared {
    pub fn join(&self, credits: u32) {
        self.updates.fetch_add(1, Ordering::SeqCst);
        self.credits.fetch_add(credits, Ordering::SeqCst);
    }
    pub fn add_credits(&self, n: u32) {
        self.credits.fetch_add(n, Ordering::SeqCst);
    }
    pub fn use_credits(&self, n: u32) {
        self.credits.fetch_sub(n, Ordering::SeqCst);
    }
    pub fn leave(&self, credits: u32) {
        self.credits.fetch_sub(credits, Ordering::SeqCst);
        self.updates.fetch_sub(1, Ordering::SeqCst);
    }
    pub fn updates(&self) -> u32 {
        self.updates.load(Ordering::SeqCst)
    }
    pub fn credits(&self) -> u32 {
        self.credits.load(Ordering::SeqCst)
    }
}

/// The transaction that handles join.
pub(crate) struct Running {
    pub tid: Tid,
    /// No new handle may join.
    pub locked: bool,
    pub shared: Arc<Shared>,
    pub blocks: BTreeMap<BlockNo, Kind>,
    pub revokes: BTreeSet<BlockNo>,
    /// Blocks freed in it: their older images must not go home once it is durable.
    pub forgotten: BTreeSet<BlockNo>,
    /// Ordered data that the file system has submitted.
    pub ordered: Option<Batch>,
    /// Held data that the record does not vouch for: it rides along with the log
    /// (journal-commit-F7).
    pub led: Option<Batch>,
    pub started: Time,
}

impl Running {
    pub fn new(tid: Tid, now: Time) -> Running {
        Running {
            tid,
            locked: false,
            shared: Arc::new(Shared::default()),
            blocks: BTreeMap::new(),
            revokes: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            ordered: None,
            led: None,
            started: now,
        }
    }
    /// As what it has the block (buffer-U6): neither forgotten nor revoked.
    pub fn kind(&self, block: BlockNo) -> Option<Kind> {
        let kind = self.blocks.get(&block).copied();
        kind.filter(|_| !self.forgotten.contains(&block) && !self.revokes.contains(&block))
    }
    /// Nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.revokes.is_empty() && self.ordered.is_none()
    }
    /// Images that the transaction has or may still get.
    pub fn images(&self) -> u32 {
        self.blocks.len() as u32 + self.shared.credits()
    }
}

/// One block of a transaction that is being committed.
pub(crate) struct Image {
    pub block: BlockNo,
    pub kind: Kind,
    pub bytes: Bytes,
    /// What a delta is made from; `None` where every record is a full image.
    pub basis: Option<Basis>,
    /// What was logged, and the words that the transaction changed: known when it is composed.
    pub logged: Logged,
    pub changed: WordMap,
}
