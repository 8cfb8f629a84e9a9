//! Node blocks in memory: inodes, direct and indirect nodes, xattr nodes. Read through NAT, changed
//! under an `Op`, written out of place.
//!
//! - D1 a node block in memory is the one that NAT names, or newer; one task at a time reads a
//!   given node, and if the node is freed during the read, the result does not count;
//! - D2 a block that came from the device is accepted only if its footer names the node that was
//!   asked for and the inode that NAT says, and, for an inode block, if the checksum fits;
//! - D3 node blocks of one volume are sent to the device in the order in which their addresses were
//!   allocated: so the chain that roll-forward walks has no hole that a later fsync does not wait
//!   for (sync-Y4).

mod apply;
mod cache;
mod edit;
mod load;
mod redo;
mod write;

pub(crate) use cache::log_of;
pub(crate) use write::Last;

use crate::sync::SyncBooks;
use base::{BLOCK_BYTES, Time};
use cache::State;
use ondisk::f2fs::Nid;
use rt::{Condvar, Mutex};

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

    /// Since when there are dirty node blocks.
    pub fn dirty_since(&self) -> Option<Time> {
        self.state.lock().dirty_since()
    }

    /// Node blocks that the cache holds before it lets go of clean ones.
    pub fn room(&self) -> u64 {
        self.limit as u64
    }

    /// Node blocks in memory.
    pub fn len(&self) -> u64 {
        self.state.lock().len() as u64
    }

    /// True if this node is in memory.
    pub fn has(&self, nid: Nid) -> bool {
        self.state.lock().contains(nid)
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
