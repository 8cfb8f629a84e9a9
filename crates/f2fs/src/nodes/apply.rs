//! The interface of the node cache for apply. An entry's stamp (the last epoch that logged a change
//! of it) and its bytes change together under the lock of the table; here both are read together
//! under that lock.

use super::Nodes;
use crate::F2fs;
use crate::journal::Epoch;
use base::Bytes;
use fscore::FsResult;
use ondisk::f2fs::{BlockAddr, Log, Nid, addr_slot0, set_addr};

impl Nodes {
    /// The node, if it is in memory and no epoch behind `target` has changed it (apply-A1).
    pub(crate) fn unchanged_since(&self, nid: Nid, target: Epoch) -> Option<Bytes> {
        let mut state = self.state.lock();
        let entry = state.get(nid).filter(|entry| entry.last <= target)?;
        Some(entry.bytes().clone())
    }

    /// The log of a node in memory.
    pub(crate) fn log_of(&self, nid: Nid) -> Option<Log> {
        self.state.lock().get(nid).map(|entry| entry.log)
    }

    /// All epochs up to `target` are applied, and live names the new places (apply-A8): nodes that
    /// no later one has changed are clean.
    pub(crate) fn applied(&self, target: Epoch) {
        let mut state = self.state.lock();
        state.clean_upto(target);
        state.applied = target;
    }
}

impl F2fs {
    /// A directory slot names a new place (apply-A7): no change of an operation, so nothing is
    /// logged and the stamp stays. The tree of the directory is locked.
    pub(crate) fn retarget_slot(&self, nid: Nid, slot: u16, to: BlockAddr) -> FsResult<()> {
        let mut state = self.node_state(nid)?;
        let entry = state.get_dirty(nid).expect("made sure of");
        entry.modify(|block| {
            let at = addr_slot0(block) + usize::from(slot);
            set_addr(block, at, to);
        });
        Ok(())
    }

    /// A node that is to be written elsewhere although nothing has changed it. It stays in memory
    /// until then, so that its old place is not read meanwhile.
    pub(crate) fn keep_node(&self, nid: Nid) -> FsResult<()> {
        self.node_state(nid)?.get_dirty(nid);
        Ok(())
    }
}
