//! Writes dirty nodes: each gets an address in the log of its kind, a footer that names the next
//! block of the log, and a new entry in NAT.
//!
//! Nodes that a checkpoint writes carry no fsync mark, and of those that an fsync writes only the
//! last one does, so that roll-forward takes all of them or none (sync-Y2).

use super::cache::log_of;
use crate::F2fs;
use crate::ops::Op;
use base::cost::f2fs as cost;
use base::{BlockNo, Mutant};
use block::{Class, Plug, WriteMark};

use fscore::{FsError, FsResult};
use ondisk::f2fs::{
    NODE_DENTRY, NODE_FSYNC, Nid, Summary, footer, set_footer, update_inode_checksum,
};

/// How the last node of an fsync is written, the one with the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Last {
    /// The last node is sent together with the others.
    Together,
    /// The last node is sent when the others are durable; it is non-volatile at completion.
    Alone,
}

/// Marks of a node for roll-forward.
#[derive(Clone, Copy, Default)]
struct Marks {
    fsync: bool,
    dentry: bool,
}

impl F2fs {
    /// Submits all dirty nodes to the logs, without marks: first indirect ones, then those of
    /// directories, then those of files. Their writes are added to `self.flights`. Answers how
    /// many.
    pub(crate) fn write_nodes(&self, op: &Op<'_>) -> FsResult<u64> {
        let _writer = self.nodes.writer.lock();
        let nids = self.nodes.state.lock().all_dirty();
        self.fly(op, &nids, None, |_| (Marks::default(), false))?;
        Ok(nids.len() as u64)
    }

    /// Submits nodes of an fsync of inode `ino`: its direct and xattr nodes, with `inode_block` its
    /// own block behind them. The last one has the mark. With [`Last::Alone`] `before_last` is
    /// called when the others are under way. Answers how many.
    pub(crate) fn write_fsync_nodes(
        &self,
        op: &Op<'_>,
        ino: Nid,
        inode_block: bool,
        last: Last,
        before_last: impl FnOnce() -> FsResult<()>,
    ) -> FsResult<u64> {
        let history = self.nat.history(ino)?;
        let named = history.checkpointed || history.inode_fsynced;
        let dentry = !named && !rt::mutant(Mutant::F2fsNoDentryMark);
        let writer = self.nodes.writer.lock();
        let nids = self.fsync_set(ino, inode_block);
        let Some(&final_node) = nids.last() else {
            return Ok(0);
        };
        let marks = |nid: Nid| Marks {
            fsync: nid == final_node && !rt::mutant(Mutant::F2fsNoFsyncMark),
            dentry: nid == ino && dentry,
        };
        match last {
            Last::Together => self.fly(op, &nids, Some(ino), |nid| (marks(nid), false))?,
            Last::Alone => {
                let (_, others) = nids.split_last().expect("one at least");
                self.fly(op, others, Some(ino), |nid| (marks(nid), false))?;
                drop(writer);
                before_last()?;
                let _writer = self.nodes.writer.lock();
                self.fly(op, &[final_node], Some(ino), |nid| (marks(nid), true))?;
            }
        }
        Ok(nids.len() as u64)
    }

    /// The nodes that an fsync writes, by number, the inode block last. Indirect ones are none of
    /// them: roll-forward makes them anew.
    fn fsync_set(&self, ino: Nid, inode_block: bool) -> Vec<Nid> {
        let mut state = self.nodes.state.lock();
        let mut nids = state.dirty_of(ino);
        nids.retain(|&nid| {
            let entry = state.get(nid).expect("f2fs-cache-C1: listed");
            log_of(&footer(entry.bytes())) != ondisk::f2fs::Log::ColdNode
        });
        if inode_block && state.is_dirty(ino) {
            nids.push(ino);
        }
        nids
    }

    /// Allocates, completes and submits; the writer's lock is held (nodes-D3).
    fn fly(
        &self,
        op: &Op<'_>,
        nids: &[Nid],
        of: Option<Nid>,
        marks: impl Fn(Nid) -> (Marks, bool),
    ) -> FsResult<()> {
        let (Some(&first), Some(&end)) = (nids.iter().min(), nids.iter().max()) else {
            return Ok(());
        };
        rt::charge_each(cost::META_BLOCK, nids.len() as u64);
        let flight = self.nodes.state.lock().board();
        let mut plug = self.queue.plug();
        let mut result = Ok(());
        for &nid in nids {
            let (marks, fua) = marks(nid);
            result = self.place_node(op, nid, flight, marks, fua, &mut plug);
            if result.is_err() {
                break;
            }
        }
        let pages = u64::from(first.0)..u64::from(end.0) + 1;
        self.flights.add(pages, plug.submit());
        self.nodes.state.lock().depart(of);
        if let Err(e) = &result {
            self.fail(e);
        }
        result
    }

    fn place_node(
        &self,
        op: &Op<'_>,
        nid: Nid,
        flight: u64,
        marks: Marks,
        fua: bool,
        plug: &mut Plug,
    ) -> FsResult<()> {
        let Some((log, ino)) = self.nodes.state.lock().place_of_dirty(nid) else {
            // Another task has written it since it was listed.
            return Ok(());
        };
        let old = self.nat.get(nid)?;
        let version = self.cp.footer_version();
        let owner = Summary {
            nid,
            version: 0,
            ofs_in_node: 0,
        };
        let placed = self.allocate(op, log, old.addr, owner)?;
        let taken = self.nodes.state.lock().take(nid, flight, |block| {
            let mut footer = footer(block);
            footer.cp_ver = version;
            footer.next = placed.next;
            footer.set(NODE_FSYNC, marks.fsync);
            footer.set(NODE_DENTRY, marks.dentry);
            set_footer(block, &footer);
            update_inode_checksum(block, self.features, self.inode_seed);
        });
        self.nat_set(op, nid, ino, placed.addr)?;
        self.nat.written(ino, nid == ino, marks.fsync);
        let block =
            taken.expect("nodes-D3: only the holder of the writer's lock makes a node clean");
        let lba = BlockNo(placed.addr.into()).lba();
        match fua {
            true => plug.write_fua(lba, Class::Node, block),
            false => plug.write(lba, Class::Node, block),
        }
        Ok(())
    }

    /// Waits for all node and directory blocks whose writes are under way. A failure latches the
    /// mount, whichever caller meets it (a checkpoint must not be written after it, and an fsync
    /// behind it in the chain must not be acknowledged). Answers the mark that a flush has to
    /// cover, and the number of the last flight that it covers.
    ///
    /// # Errors
    /// A write failed, now or before.
    pub(crate) fn land_nodes(&self) -> FsResult<(WriteMark, u64)> {
        let flight = {
            // nodes-D3: what has an address is in flight.
            let _writer = self.nodes.writer.lock();
            self.nodes.state.lock().flight
        };
        let mark = self.flights.land(|_, result| {
            if let Err(e) = result {
                self.fail(e);
            }
        })?;
        match self.failed() {
            Some(first) => Err(FsError::Aborted { first }),
            None => Ok((mark, flight)),
        }
    }

    /// A flush has covered all flights up to this one.
    pub(crate) fn nodes_durable(&self, flight: u64) {
        let mut state = self.nodes.state.lock();
        state.durable = state.durable.max(flight);
    }

    /// True if flights up to this one are known to be durable.
    pub(crate) fn are_nodes_durable(&self, flight: u64) -> bool {
        self.nodes.state.lock().durable >= flight
    }

    /// Number of the last flight so far.
    pub(crate) fn node_flight(&self) -> u64 {
        self.nodes.state.lock().flight
    }
}
