//! Looks at nodes; reads those that are not in memory, and refuses what is not the node that NAT
//! says (nodes-D1, nodes-D2).

use super::cache::State;
use crate::F2fs;
use crate::fault;
use crate::locks::lock;
use base::{BlockNo, BlockSize, Bytes};
use fscore::{FsError, FsResult};
use ondisk::f2fs::{BlockAddr, Nid, NodeKind, footer, verify_inode_checksum};
use rt::MutexGuard;

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

    /// The table, with this node in it.
    pub(super) fn node_state(&self, nid: Nid) -> FsResult<MutexGuard<'_, State>> {
        loop {
            let state = lock(&self.nodes.state);
            if state.contains(nid) {
                return Ok(state);
            }
            drop(state);
            self.load_node(nid)?;
        }
    }

    /// Reads a node from the device, or waits for the task that is reading it (nodes-D1).
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
    pub(super) fn let_go(&self, state: &mut State) {
        if state.len() > self.nodes.limit {
            state.evict(self.nodes.limit, self.flights.is_empty());
        }
    }

    /// A node block as the device has it (nodes-D2).
    fn read_node(&self, nid: Nid) -> FsResult<Bytes> {
        if nid == Nid(0) || nid.0 >= self.geo.max_nid {
            let max = self.geo.max_nid;
            return Err(FsError::corrupt(format!(
                "node {nid}: there are 1 to {max}"
            )));
        }
        let entry = self.nat.get(nid)?;
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

    /// What of a node block does not fit its place (nodes-D2).
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
