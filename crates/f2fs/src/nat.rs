//! Node address table: where each node is, which node numbers are free, and what the last checkpoint knew of them.
//!
//! Owner of dirty entries until a checkpoint writes them (to the NAT journal of the hot data log's summary, or to the other copy of
//! their NAT block).

use crate::F2fs;
use crate::ops::Op;
use fscore::FsResult;
use ondisk::f2fs::{BlockAddr, NatEntry, Nid};

/// The table in memory.
pub(crate) struct Nat {}

/// What is known of a node beyond its entry: decides whether an fsync needs a checkpoint, and how it marks nodes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct NodeHistory {
    /// The last checkpoint has its entry.
    pub checkpointed: bool,
    /// Its inode block was written with an fsync mark since then.
    pub inode_fsynced: bool,
    /// The last of its node blocks since then had an fsync mark.
    pub last_fsynced: bool,
}

impl F2fs {
    /// The entry of a node number; reads its NAT block if need be. A free number has address NULL.
    pub(crate) fn nat_get(&self, nid: Nid) -> FsResult<NatEntry> {
        let _ = nid;
        todo!("cp")
    }

    /// The node is at `addr` now (NULL: freed, its version rises; NEW: it exists in memory only).
    pub(crate) fn nat_set(&self, op: &Op<'_>, nid: Nid, ino: Nid, addr: BlockAddr) -> FsResult<()> {
        let _ = (op, nid, ino, addr);
        todo!("cp")
    }

    /// Takes a free node number. It is not free any more; [`nid_return`](Self::nid_return) gives it back if no node comes of it.
    ///
    /// # Errors
    /// ENOSPC if there is none.
    pub(crate) fn nid_take(&self, op: &Op<'_>) -> FsResult<Nid> {
        let _ = op;
        todo!("cp")
    }

    /// No node came of a number that was taken.
    pub(crate) fn nid_return(&self, nid: Nid) {
        let _ = nid;
        todo!("cp")
    }

    /// What is known of a node.
    pub(crate) fn node_history(&self, nid: Nid) -> FsResult<NodeHistory> {
        let _ = nid;
        todo!("cp")
    }

    /// A node block of inode `ino` was written, with an fsync mark or not; `inode_block`: it was the inode itself.
    pub(crate) fn note_node_written(&self, ino: Nid, inode_block: bool, fsync_mark: bool) {
        let _ = (ino, inode_block, fsync_mark);
        todo!("cp")
    }
}
