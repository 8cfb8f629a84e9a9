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

impl crate::F2fs {
    /// Reads the chain of nodes behind the last checkpoint and takes in what fsync promised; all of it stays in memory, for the
    /// checkpoint that the caller writes. `None` if there is no such node.
    pub(crate) fn recover(
        &self,
        freeze: &crate::ops::Freeze<'_>,
    ) -> fscore::FsResult<Option<RecoveryReport>> {
        let _ = freeze;
        todo!("node")
    }
}
