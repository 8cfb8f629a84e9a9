//! Node blocks in memory: inodes, direct and indirect nodes, xattr nodes. Read through NAT, changed
//! under an `Op`, written out of place.
//!
//! - D1 a node block in memory is the one that NAT names, or newer; one task at a time reads a
//!   given node, and if the node is freed during the read, the result does not count;
//! - D2 a block that came from the device is accepted only if its footer names the node that was
//!   asked for and the inode that NAT says, and, for an inode block, if the checksum fits;
//! - D3 node blocks of one volume are sent to the device in the order in which their addresses were
//!   allocated: so the chain that roll-forward walks has no hole that a later fsync does not wait
//!   for (see `sync.rs`, sync-Y4).

mod apply;
mod cache;
mod redo;
mod write;

pub(crate) use cache::log_of;
pub(crate) use write::Last;

use crate::F2fs;
use crate::fault;
use crate::journal::capture::Parts;
use crate::journal::{Epoch, Tx, capture};
use crate::locks::lock;
use crate::ops::Op;
use crate::sync::SyncBooks;
use base::cost::f2fs as cost;
use base::{BLOCK_BYTES, BlockNo, BlockSize, Bytes, Ino};
use cache::{Entry, State};
use fscore::{FsError, FsResult};
use ondisk::f2fs::journal::Record;
use ondisk::f2fs::{
    BlockAddr, Footer, NODE_COLD, Nid, NodeKind, footer, set_footer, verify_inode_checksum,
};
use rt::{Condvar, Mutex, MutexGuard};

/// Least bound of the cache, blocks.
const LIMIT_MIN: usize = 256;

/// The cache.
pub(crate) struct Nodes {
    state: Mutex<State>,
    read_ended: Condvar,
    /// D3: held from the allocation of node blocks until their flight is known.
    writer: Mutex<()>,
    limit: usize,
    /// What fsync has to remember.
    pub(crate) sync: Mutex<SyncBooks>,
}

impl Nodes {
    /// An empty cache that lets go of clean blocks beyond `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Nodes {
        Nodes {
            state: Mutex::named("f2fs nodes", State::default()),
            read_ended: Condvar::new(),
            writer: Mutex::named("f2fs node writer", ()),
            limit: (limit_bytes / BLOCK_BYTES).max(LIMIT_MIN),
            sync: Mutex::named("f2fs sync books", SyncBooks::default()),
        }
    }

    /// Dirty node blocks.
    pub fn dirty(&self) -> u64 {
        self.state.lock().dirty()
    }

    /// Node blocks that the cache holds before it lets go of clean ones.
    pub fn room(&self) -> u64 {
        self.limit as u64
    }

    /// Node blocks in memory.
    pub fn len(&self) -> u64 {
        self.state.lock().len() as u64
    }

    /// True if this node has changes that were not written.
    pub fn is_dirty(&self, nid: Nid) -> bool {
        self.state.lock().is_dirty(nid)
    }

    /// True if the inode has dirty nodes besides its inode block.
    pub fn has_dirty_below(&self, ino: Nid) -> bool {
        !self.state.lock().dirty_of(ino).is_empty()
    }
}

impl F2fs {
    /// The content of a node block. Its footer names `nid`, or that is damage; a free number is
    /// damage too.
    pub(crate) fn node(&self, nid: Nid) -> FsResult<Bytes> {
        let mut state = self.node_state(nid)?;
        Ok(state.get(nid).expect("made sure of").bytes().clone())
    }

    /// Looks at a node block without copying it. `look` calls nothing of the file system.
    pub(crate) fn with_node<R>(&self, nid: Nid, look: impl FnOnce(&[u8]) -> R) -> FsResult<R> {
        let mut state = self.node_state(nid)?;
        Ok(look(state.get(nid).expect("made sure of").bytes()))
    }

    /// Changes a node block and makes it dirty. `change` calls nothing of the file system and
    /// leaves the footer alone.
    pub(crate) fn edit_node<R>(
        &self,
        op: &Op<'_>,
        nid: Nid,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> FsResult<R> {
        self.edit_node_in(op, nid, |_| Parts::ALL, change)
    }

    /// The same; `parts` says what of the block `change` may touch, from what it is before.
    pub(crate) fn edit_node_in<R>(
        &self,
        op: &Op<'_>,
        nid: Nid,
        parts: impl FnOnce(&[u8]) -> Parts,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> FsResult<R> {
        let mut state = self.node_state(nid)?;
        rt::charge(cost::NODE_EDIT);
        let entry = state.get_dirty(nid).expect("made sure of");
        let result = match op.tx() {
            Some(tx) => self.edit_logged(tx, entry, parts, change),
            None => entry.modify(change),
        };
        debug_assert_eq!(
            footer(entry.bytes()).nid,
            nid,
            "D2: an edit changed the footer"
        );
        Ok(result)
    }

    /// Changes a node block and logs how. The table's lock is held: it orders the records of a
    /// node, and the stamp changes with it.
    fn edit_logged<R>(
        &self,
        tx: &Tx<'_>,
        entry: &mut Entry,
        parts: impl FnOnce(&[u8]) -> Parts,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        let epoch = tx.epoch();
        let ino = entry.ino;
        let (result, changed) = tx.with_scratch(|before| {
            entry.modify(|block| {
                let parts = parts(block);
                parts.keep(before, block);
                let result = change(block);
                let mut changed = false;
                capture::node(before, block, parts, self.features, &mut |record| {
                    changed = true;
                    tx.log(ino, record);
                });
                (result, changed)
            })
        });
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
        fill: impl FnOnce(&mut [u8]),
    ) -> FsResult<()> {
        let ino = Nid(ino.0);
        let is_inode = ino == nid;
        self.claim_node(op, is_inode)?;
        if let Err(e) = self.nat_set(op, nid, ino, BlockAddr::NEW) {
            self.return_node(op, is_inode);
            return Err(e);
        }
        let version = match op.tx() {
            Some(_) => self.nat_get(nid)?.version,
            None => 0,
        };
        let mut footer = Footer {
            nid,
            ino,
            flags: if cold { NODE_COLD } else { 0 },
            ..Footer::default()
        };
        footer.set_ofs_of_node(ofs);
        let mut block = vec![0; BLOCK_BYTES];
        fill(&mut block);
        set_footer(&mut block, &footer);
        let mut state = self.nodes.state.lock();
        if let Some(tx) = op.tx() {
            tx.with_scratch(|scratch| {
                capture::new_node(scratch, &block, version, self.features, &mut |record| {
                    tx.log(ino, record);
                });
            });
            tx.first_touch();
        }
        state.insert(nid, Bytes::from(block));
        let entry = state.get_dirty(nid).expect("inserted above");
        entry.last = op.tx().map_or(Epoch(0), Tx::epoch);
        self.let_go(&mut state);
        Ok(())
    }

    /// Frees a node: its block, its number, its count.
    pub(crate) fn free_node(&self, op: &Op<'_>, nid: Nid) -> FsResult<()> {
        if self.nat_get(nid)?.addr == BlockAddr::NULL {
            return Err(FsError::corrupt(format!(
                "node {nid} is freed, and is free"
            )));
        }
        self.nodes.state.lock().remove(nid);
        // The node is gone from the cache: an apply of earlier epochs makes its image from home and
        // records.
        let freed = self.nat_free(op, nid)?;
        self.return_node(op, freed.was.ino == nid);
        if let Some(tx) = op.tx() {
            let version = freed.is.version;
            tx.log(freed.was.ino, &Record::NodeDel { nid, version });
            tx.freed_nid(nid);
        }
        freed.block
    }

    /// The table, with this node in it.
    fn node_state(&self, nid: Nid) -> FsResult<MutexGuard<'_, State>> {
        loop {
            let state = lock(&self.nodes.state);
            if state.contains(nid) {
                return Ok(state);
            }
            drop(state);
            self.load_node(nid)?;
        }
    }

    /// Reads a node from the device, or waits for the task that is reading it (D1).
    fn load_node(&self, nid: Nid) -> FsResult<()> {
        let mut state = self.nodes.state.lock();
        let read = loop {
            if state.contains(nid) {
                return Ok(());
            }
            match state.begin_read(nid) {
                Some(read) => break read,
                None => self.nodes.read_ended.wait(&mut state),
            }
        };
        drop(state);
        let result = self.read_node(nid);
        let mut state = self.nodes.state.lock();
        if state.end_read(nid, read)
            && let Ok(block) = &result
        {
            state.insert(nid, block.clone());
            self.let_go(&mut state);
        }
        drop(state);
        self.nodes.read_ended.notify_all();
        result.map(|_| ())
    }

    /// Lets go of what the cache has beyond its bound.
    fn let_go(&self, state: &mut State) {
        if state.len() > self.nodes.limit {
            state.evict(self.nodes.limit, self.flights.is_empty());
        }
    }

    /// A node block as the device has it (D2).
    fn read_node(&self, nid: Nid) -> FsResult<Bytes> {
        if nid == Nid(0) || nid.0 >= self.geo.max_nid {
            let max = self.geo.max_nid;
            return Err(FsError::corrupt(format!(
                "node {nid}: there are 1 to {max}"
            )));
        }
        let entry = self.nat_get(nid)?;
        if entry.addr == BlockAddr::NULL {
            return Err(FsError::corrupt(format!(
                "node {nid} is in use, and free in the NAT"
            )));
        }
        let block = self.read_node_block(entry.addr)?;
        self.check_node(nid, entry.ino, &block).map_err(|why| {
            FsError::corrupt(format!("node {nid} at block {}: {why}", entry.addr))
        })?;
        Ok(block)
    }

    /// A block of the main area, for a node.
    pub(crate) fn read_node_block(&self, addr: BlockAddr) -> FsResult<Bytes> {
        if !self.geo.is_main(addr) {
            return Err(FsError::corrupt(format!(
                "a node at block {addr}, outside the main area"
            )));
        }
        let lba = BlockNo(addr.into()).lba();
        let read = self.queue.read_blocks(lba, 1, BlockSize::KIB4);
        let mut blocks = read.map_err(fault::device("reading a node"))?;
        Ok(blocks.swap_remove(0))
    }

    /// What of a node block does not fit its place (D2).
    pub(crate) fn check_node(&self, nid: Nid, ino: Nid, block: &[u8]) -> Result<(), String> {
        let footer = footer(block);
        if footer.nid != nid {
            return Err(format!("the block says it is node {}", footer.nid));
        }
        if footer.ino != ino {
            let owner = footer.ino;
            return Err(format!(
                "the block belongs to inode {owner}, the NAT says {ino}"
            ));
        }
        if footer.is_inode() != (footer.kind() == NodeKind::Inode) {
            let ofs = footer.ofs_of_node();
            return Err(format!("offset {ofs} in the tree of inode {ino} cannot be"));
        }
        if footer.is_inode() {
            verify_inode_checksum(block, self.features, self.inode_seed)
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}
