//! Changes, makes and frees nodes under an `Op`. With a journal each change is logged while the
//! table's lock is held, because that lock orders the records of a node.

use super::cache::Entry;
use crate::F2fs;
use crate::journal::capture::{Edit, edit};
use crate::journal::{Epoch, Tx};
use crate::ops::Op;
use base::cost::f2fs as cost;
use base::{BLOCK_BYTES, Bytes, Ino};
use fscore::{FsError, FsResult};
use ondisk::f2fs::journal::Record;
use ondisk::f2fs::{BlockAddr, Footer, NODE_COLD, Nid, footer, set_footer};

impl F2fs {
    /// Changes a node block and makes it dirty; what changes is found by comparing. `change` calls
    /// nothing of the file system and leaves the footer alone.
    pub(crate) fn rewrite_node<R>(
        &self,
        op: &Op<'_>,
        nid: Nid,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> FsResult<R> {
        self.edit_node(op, nid, |edit| edit.by_comparing(change))
    }

    /// Changes a node block and makes it dirty. `change` calls nothing of the file system.
    pub(crate) fn edit_node<R>(
        &self,
        op: &Op<'_>,
        nid: Nid,
        change: impl FnOnce(&mut Edit<'_>) -> R,
    ) -> FsResult<R> {
        let mut state = self.node_state(nid)?;
        rt::charge(cost::NODE_EDIT);
        let entry = state.get_dirty(nid).expect("made sure of");
        let result = match op.tx() {
            Some(tx) => self.edit_logged(tx, entry, change),
            None => entry.modify(|block| change(&mut Edit::unlogged(block, self.features))),
        };
        debug_assert_eq!(
            footer(entry.bytes()).nid,
            nid,
            "nodes-D2: an edit changed the footer"
        );
        Ok(result)
    }

    /// Changes a node block and logs how. The table's lock is held: it orders the records of a
    /// node, and the stamp changes with it.
    fn edit_logged<R>(
        &self,
        tx: &Tx<'_>,
        entry: &mut Entry,
        change: impl FnOnce(&mut Edit<'_>) -> R,
    ) -> R {
        let epoch = tx.epoch();
        let (ino, mut changed) = (entry.ino, false);
        let log = |record: &Record<'_>| {
            changed = true;
            tx.log(ino, record);
        };
        let (result, compared) =
            entry.modify(|block| edit::node(block, self.features, log, change));
        if compared {
            tx.compared();
        }
        if changed {
            // Write-back changes slots of its own in an epoch that may be older than that of the
            // operation beside it (writeback-W2).
            if entry.last < epoch {
                tx.first_touch();
            }
            entry.last = entry.last.max(epoch);
        }
        result
    }

    /// Makes a node block of zeros and footer (node offset `ofs` in inode `ino`, cold mark for
    /// whatever is no directory's), lets `fill` complete it; counts it in `space` and enters it in
    /// NAT as NEW. The inode's own count of blocks is the caller's.
    ///
    /// # Errors
    /// ENOSPC; then the number is still the caller's.
    pub(crate) fn new_node(
        &self,
        op: &Op<'_>,
        nid: Nid,
        ino: Ino,
        ofs: u32,
        cold: bool,
        fill: impl FnOnce(&mut Edit<'_>),
    ) -> FsResult<()> {
        let ino = Nid(ino.0);
        let is_inode = ino == nid;
        self.space.claim_node(op, is_inode)?;
        let version = match self.nat_set(op, nid, ino, BlockAddr::NEW) {
            Ok(version) => version,
            Err(e) => {
                self.space.return_node(op, is_inode);
                return Err(e);
            }
        };
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
        match op.tx() {
            Some(tx) => {
                let owner = Nid(ino.0);
                tx.log(
                    owner,
                    &Record::NodeNew {
                        nid,
                        ofs,
                        cold,
                        version,
                    },
                );
                let log = |record: &Record<'_>| tx.log(owner, record);
                let ((), compared) = edit::node(&mut block, self.features, log, fill);
                if compared {
                    tx.compared();
                }
                tx.first_touch();
            }
            None => fill(&mut Edit::unlogged(&mut block, self.features)),
        }
        state.insert(nid, Bytes::from(block));
        let entry = state.get_dirty(nid).expect("inserted above");
        entry.last = op.tx().map_or(Epoch(0), Tx::epoch);
        self.let_go(&mut state);
        Ok(())
    }

    /// Frees a node: its block, its number, its count.
    pub(crate) fn free_node(&self, op: &Op<'_>, nid: Nid) -> FsResult<()> {
        if self.nat.get(nid)?.addr == BlockAddr::NULL {
            return Err(FsError::corrupt(format!(
                "node {nid} is freed, and is free"
            )));
        }
        self.nodes.state.lock().remove(nid);
        // The node is gone from the cache: an apply of earlier epochs makes its image from home and
        // records.
        let freed = self.nat_free(op, nid)?;
        self.space.return_node(op, freed.was.ino == nid);
        if let Some(tx) = op.tx() {
            let version = freed.is.version;
            match freed.was.ino == nid {
                true => tx.inode_ended(nid, version),
                false => tx.log(freed.was.ino, &Record::NodeDel { nid, version }),
            }
            tx.freed_nid(nid);
        }
        freed.block
    }
}
