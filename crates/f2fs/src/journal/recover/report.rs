//! What recovery did, as a mount tells it.

use base::Nanos;

/// What recovery made of the journal.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct JournalRecovery {
    /// Letter of the case, as in the table (`docs/design/f2fsj-recovery.md`).
    pub case: char,
    /// What, where, what to do.
    pub message: String,
    /// Epoch that the pack had.
    pub applied: u64,
    /// Last epoch of the chain; the applied one if there was nothing to redo.
    pub end: u64,
    /// Epochs redone.
    pub epochs: u64,
    /// Groups of records redone: an inode in an epoch.
    pub groups: u64,
    /// Records redone.
    pub records: u64,
    /// Nodes that were made.
    pub nodes_new: u64,
    /// Nodes that were freed.
    pub nodes_freed: u64,
    /// Changes of nodes by records.
    pub node_changes: u64,
    /// Changes of directory pages by records.
    pub dir_changes: u64,
    /// Data blocks that became valid, or free.
    pub blocks: u64,
    /// Nodes written before the checkpoint, to bound memory.
    pub spilled: u64,
    /// Epochs that stay in the ring and go home later; 0: a checkpoint ended the recovery, or there
    /// was nothing to redo.
    pub kept: u64,
    /// Blocks of the ring that were read while it was judged.
    pub ring_read: u64,
    /// The chain did not begin where the journal superblock said.
    pub searched: bool,
    /// The counts differ from what the last transaction says: fsck is due.
    pub miscounted: bool,
    /// Truncations that go on after the mount.
    pub truncations: u64,
    /// The result is in memory only, because the mount is read-only.
    pub pending: bool,
    /// Time until the case was known.
    pub scan: Nanos,
    /// Time of the redo.
    pub redo: Nanos,
    /// Time of what ended recovery: a flush where the ring goes on; else a checkpoint and the new
    /// life of the ring.
    pub publish: Nanos,
}
