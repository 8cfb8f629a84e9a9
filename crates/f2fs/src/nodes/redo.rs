//! Redo of a journal for nodes: makes and removes nodes as the records say, whatever was there
//! before.

use crate::F2fs;
use crate::ops::Freeze;
use base::{BLOCK_BYTES, Bytes};
use fscore::FsResult;
use ondisk::f2fs::{BlockAddr, Footer, NODE_COLD, NatEntry, Nid, set_footer};

impl F2fs {
    /// Makes an empty node; a node that had the number before gives up its block. True if there was
    /// none.
    pub(crate) fn redo_new_node(
        &self,
        freeze: &Freeze<'_>,
        nid: Nid,
        ino: Nid,
        (ofs, cold): (u32, bool),
        version: u8,
    ) -> FsResult<bool> {
        let old = self.nat.get(nid)?;
        if old.addr.is_data() {
            self.invalidate(freeze.op(), old.addr)?;
        }
        let entry = NatEntry {
            version,
            ino,
            addr: BlockAddr::NEW,
        };
        self.nat.redo(freeze, nid, entry)?;
        let mut footer = Footer {
            nid,
            ino,
            flags: if cold { NODE_COLD } else { 0 },
            ..Footer::default()
        };
        footer.set_ofs_of_node(ofs);
        let mut block = vec![0; BLOCK_BYTES];
        set_footer(&mut block, &footer);
        let mut state = self.nodes.state.lock();
        state.insert(nid, Bytes::from(block));
        state.get_dirty(nid).expect("inserted above");
        self.let_go(&mut state);
        Ok(old.addr == BlockAddr::NULL)
    }

    /// The node is gone, and leaves its block. True if it was there.
    pub(crate) fn redo_free_node(
        &self,
        freeze: &Freeze<'_>,
        nid: Nid,
        version: u8,
    ) -> FsResult<bool> {
        let old = self.nat.get(nid)?;
        self.nodes.state.lock().remove(nid);
        if old.addr.is_data() {
            self.invalidate(freeze.op(), old.addr)?;
        }
        let entry = NatEntry {
            version,
            ino: Nid(0),
            addr: BlockAddr::NULL,
        };
        self.nat.redo(freeze, nid, entry)?;
        Ok(old.addr != BlockAddr::NULL)
    }
}
