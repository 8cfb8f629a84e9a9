//! Roll-forward recovery: node blocks with fsync marks that were written after the last checkpoint.

/// What roll-forward did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RecoveryReport {
    /// Node blocks read along the chain.
    pub nodes_read: u64,
    /// Inodes of which fsynced state came back.
    pub inodes: u64,
    /// Names that came back with them.
    pub names: u64,
    /// Data blocks that came back.
    pub blocks: u64,
}
