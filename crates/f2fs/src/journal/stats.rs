//! Statistics of the journal: what it did, and what that cost.

use super::{ApplyStats, PagesLogged, PlaneStats};
use crate::F2fs;
use crate::ops::Cause;
use base::Nanos;
use std::collections::BTreeMap;

base::words! {
    /// Why an epoch was committed.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub enum CommitReason {
        /// fsync, fdatasync, the end of an atomic write.
        Fsync => "fsync",
        /// The interval (`commit=`) has passed.
        Timer => "timer",
        /// The epoch has as many bytes as one may have.
        Cap => "cap",
        /// `sync`, `syncfs`.
        Sync => "sync",
        /// The ring or the memory has no room: committed epochs can be applied.
        Ring => "ring",
        /// Blocks or node numbers are short: freed ones can be reused after a commit.
        Space => "space",
        /// Unmount, FIFREEZE, FITRIM: all changes have to go home.
        Settle => "settle",
    }
}

base::words! {
    /// A part of a commit.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub enum CommitPhase {
        /// Closing the epoch.
        Switch => "switch",
        /// Waiting until the operations in it have ended.
        Drain => "drain",
        /// Waiting until the data that it maps has been written.
        Data => "data",
        /// Gathering its records and composing blocks of them.
        Aggregate => "aggregate",
        /// Waiting until the ring has room.
        Ring => "ring",
        /// The device flush that covers the data.
        Flush => "flush",
        /// Writing the transaction.
        Write => "write",
    }
}

base::words! {
    /// What an operation waited for.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub enum WaitCause {
        /// The running epoch has as many bytes as it may have: the operation waited for its commit.
        Epoch => "epoch-full",
        /// As many epochs are on their way as there may be: it waited for the commit of the oldest.
        Epochs => "epochs",
        /// The ring is short: it waited for an apply.
        Ring => "ring",
        /// Committed records fill the memory: it waited for an apply.
        Memory => "memory",
        /// No condition: the operation paused, so that commits and applies can follow
        /// ([`pace`](super::ring::pace)).
        Pace => "pace",
    }
}

/// Waits for one cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Waits {
    /// How many.
    pub waits: u64,
    /// All together.
    pub waited: Nanos,
    /// The longest.
    pub waited_max: Nanos,
}

/// What the journal did and cost since the mount.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct JournalStats {
    /// Epochs committed, by the reason of the leader.
    pub by_reason: BTreeMap<CommitReason, u64>,
    /// Records in the committed epochs.
    pub records: u64,
    /// Inodes that these records belong to, summed over all commits.
    pub groups: u64,
    /// Bytes of groups and records.
    pub bytes: u64,
    /// Blocks written into the ring.
    pub blocks: u64,
    /// With `records=pages`: whole blocks in transactions, and the records that they replace.
    pub pages: PagesLogged,
    /// Commits that fit into one block.
    pub compact: u64,
    /// Commits of epochs that are larger than the ring, which a pack committed.
    pub by_pack: u64,
    /// Device flushes that commits waited for, so that mapped data was durable before the
    /// transaction.
    pub data_flushes: u64,
    /// Commits whose transaction was sent while its data was under way: one flush followed both.
    pub one_round: u64,
    /// Commits whose data another flush had already covered, or that mapped none.
    pub data_flushes_saved: u64,
    /// Time of all commits by phase.
    pub time: BTreeMap<CommitPhase, Nanos>,
    /// The longest commit.
    pub longest: Nanos,
    /// Commits by the number of callers that waited for them, rounded down to a power of two.
    pub group_sizes: BTreeMap<u64, u64>,
    /// Blocks of the ring.
    pub ring_blocks: u32,
    /// Blocks of the ring that recovery needs now.
    pub ring_used: u32,
    /// The most blocks of the ring that recovery ever needed.
    pub ring_used_max: u32,
    /// The last committed epoch.
    pub committed: u64,
    /// The last applied one.
    pub applied: u64,
    /// Epochs and their lists.
    pub plane: PlaneStats,
    /// Applies.
    pub apply: ApplyStats,
    /// What operations waited for (never for a checkpoint). Cleaning counts its own.
    pub waits: BTreeMap<WaitCause, Waits>,
    /// Operations that waited until an epoch was closed: only with `switch=wait`.
    pub switch_waits: Waits,
    /// Virtual time that operations spent on logging: taking part in an epoch, comparing and
    /// encoding, lists and their locks; without the waits before an operation begins. It is not
    /// measured in the real world, because reading the clock would cost as much.
    pub logging: Nanos,
    /// The part of [`logging`](Self::logging) spent in and waiting for the locks of lists and of
    /// the epoch's books, hand-over included.
    pub locking: Nanos,
    /// Times that another task held such a lock, and how long it was waited for (in `locking`,
    /// too).
    pub lock_waits: Waits,
}

impl F2fs {
    /// What the journal did and cost since the mount; `None` without one.
    pub fn journal_stats(&self) -> Option<JournalStats> {
        let journal = self.journal.as_ref()?;
        let mut stats = journal.stats();
        stats.plane = journal.plane.stats();
        stats.apply = self.applies();
        stats.waits = journal.reserve.waits();
        let (logging, locking, (waits, waited, waited_max)) = journal.plane.lock_sums();
        (stats.logging, stats.locking) = (logging, locking);
        stats.lock_waits = Waits {
            waits,
            waited,
            waited_max,
        };
        if let Some(met) = self.ops.stats().get(&Cause::Switch) {
            stats.switch_waits = Waits {
                waits: met.waiters,
                waited: met.waited,
                waited_max: met.waited_max,
            };
        }
        Some(stats)
    }
}

impl F2fs {
    /// Restarts the search for the largest epoch: epochs before this call are not part of the
    /// measurement.
    pub fn restart_journal_maxima(&self) {
        if let Some(journal) = &self.journal {
            journal.plane.restart_maxima();
        }
    }
}

impl JournalStats {
    /// Epochs committed.
    pub fn commits(&self) -> u64 {
        self.by_reason.values().sum()
    }

    /// A commit was made for so many callers.
    fn note_group(&mut self, callers: u64) {
        let class = 1 << callers.max(1).ilog2();
        *self.group_sizes.entry(class).or_default() += 1;
    }
}

/// What one commit did and cost.
pub(super) struct Figures {
    /// Its parts.
    pub spans: Vec<(CommitPhase, Nanos)>,
    /// From its start to its end.
    pub took: Nanos,
    /// A flush covered its data.
    pub flushed: bool,
    /// One flush followed data and transaction.
    pub one_round: bool,
    pub groups: u64,
    pub records: u64,
    pub bytes: u64,
    /// Of the ring: none if a pack was the commit.
    pub blocks: u32,
    /// Whole blocks in it.
    pub pages: PagesLogged,
}

impl Figures {
    /// Adds them up, for a commit that lets so many callers go.
    pub fn add_to(&self, stats: &mut JournalStats, why: CommitReason, callers: u64) {
        *stats.by_reason.entry(why).or_default() += 1;
        stats.records += self.records;
        stats.groups += self.groups;
        stats.bytes += self.bytes;
        stats.blocks += u64::from(self.blocks);
        stats.pages.add(&self.pages);
        stats.compact += u64::from(self.blocks == 1);
        stats.by_pack += u64::from(self.blocks == 0);
        stats.data_flushes += u64::from(self.flushed);
        stats.one_round += u64::from(self.one_round);
        stats.data_flushes_saved += u64::from(!self.flushed && !self.one_round);
        for &(phase, span) in &self.spans {
            *stats.time.entry(phase).or_default() += span;
        }
        stats.longest = stats.longest.max(self.took);
        stats.note_group(callers);
    }
}
