//! What roll-forward did, as a mount tells it.

use crate::journal::JournalRecovery;

/// What roll-forward did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RecoveryReport {
    /// Node blocks read along the chain.
    pub nodes_read: u64,
    /// Inodes whose fsynced state came back.
    pub inodes: u64,
    /// Of these, inodes that the last checkpoint did not know.
    pub inodes_made: u64,
    /// Names that came back with them.
    pub names: u64,
    /// Names of the checkpoint that were removed, because another inode has them now.
    pub names_displaced: u64,
    /// Data blocks that came back.
    pub blocks: u64,
    /// The result is in memory only, because the mount is read-only.
    pub pending: bool,
    /// The outcome of the recovery of F2FSJ's journal; a volume with one has no chain.
    pub journal: Option<JournalRecovery>,
}
