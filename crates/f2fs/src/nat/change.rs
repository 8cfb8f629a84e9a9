//! How operations change the table. The epoch that a change belongs to is picked here, before
//! anything changes.

use super::FreedNode;
use crate::F2fs;
use crate::journal::Tx;
use crate::ops::Op;
use fscore::FsResult;
use ondisk::f2fs::{BlockAddr, Nid};

impl F2fs {
    /// The node is at `addr` now (NULL: freed, its version rises; NEW: it exists in memory only).
    /// Answers its version.
    pub(crate) fn nat_set(&self, op: &Op<'_>, nid: Nid, ino: Nid, addr: BlockAddr) -> FsResult<u8> {
        let tx = op.tx().filter(|_| addr == BlockAddr::NEW);
        self.nat.set(nid, ino, addr, tx.map(Tx::epoch))
    }

    /// Frees a node number together with the block that its entry names (home-T6).
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn nat_free(&self, op: &Op<'_>, nid: Nid) -> FsResult<FreedNode> {
        self.nat.free(nid, &self.segs, op.tx().map(Tx::epoch))
    }

    /// Takes a free node number. It is not free any more; [`Nat::give_back`](super::Nat::give_back)
    /// gives it back if no node comes of it.
    ///
    /// # Errors
    /// ENOSPC if there is none.
    pub(crate) fn nid_take(&self, _op: &Op<'_>) -> FsResult<Nid> {
        self.nat.take()
    }
}
