//! Redo of a journal for nodes: makes and removes nodes as the records say, whatever was there
//! before.

use crate::F2fs;
use crate::ops::Freeze;
use base::{BLOCK_BYTES, BlockNo, Bytes, SECTORS_PER_BLOCK};
use fscore::FsResult;
use ondisk::f2fs::{BlockAddr, Footer, NODE_COLD, NatEntry, Nid, set_footer};
use std::collections::BTreeSet;

impl F2fs {
    /// Reads those of these nodes that are in use and not in memory, neighbours with one command,
    /// and many commands at once. A node that cannot be read, or is not the one that NAT says, is
    /// left out, because a record that needs it reads it again and is told why.
    ///
    /// # Errors
    /// I/O of the NAT.
    pub(crate) fn redo_nodes_ahead(&self, _: &Freeze<'_>, nids: &BTreeSet<Nid>) -> FsResult<()> {
        let mut wanted = Vec::new();
        for &nid in nids.iter().filter(|&&nid| !self.nodes.has(nid)) {
            let entry = self.nat.get(nid)?;
            if self.geo.is_main(entry.addr) {
                wanted.push((entry.addr, nid, entry.ino));
            }
        }
        wanted.sort_unstable();
        let runs: Vec<_> = wanted
            .chunk_by(|a, b| a.0.checked_add(1) == Some(b.0))
            .collect();
        let place = |run: &&[(BlockAddr, Nid, Nid)]| {
            let sectors = run.len() as u64 * SECTORS_PER_BLOCK;
            (BlockNo(run[0].0.0.into()).lba(), sectors)
        };
        let places: Vec<_> = runs.iter().map(place).collect();
        for (run, read) in runs.into_iter().zip(self.queue.read_many(&places)) {
            let Ok(bytes) = read else { continue };
            for (&(_, nid, ino), block) in run.iter().zip(bytes.chunks_exact(BLOCK_BYTES)) {
                if self.check_node(nid, ino, block).is_ok() {
                    let mut state = self.nodes.state.lock();
                    // Memory of its own: a node that stays keeps no other one.
                    state.insert(nid, Bytes::copy_from_slice(block));
                    self.let_go(&mut state);
                }
            }
        }
        Ok(())
    }

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
