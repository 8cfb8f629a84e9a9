//! Roll-forward recovery: brings back what fsyncs made durable after the last checkpoint, from node
//! blocks with fsync marks.
//!
//! The chain begins where the last checkpoint left the log of files' nodes, and each node block
//! names the next one. The blocks that carry that checkpoint's version belong to the chain. Every
//! inode that has a marked node in the chain is brought to the state of its last mark: fields,
//! inline content, attributes, name, addresses. A checkpoint then ends the chain.
//!
//! - V1 a block belongs to the chain if its footer carries version and checksum of the checkpoint
//!   that was mounted (hazards-H34). A block without them, or a torn inode block (its checksum does
//!   not fit), ends the chain. It is damage if the chain leads to a block that the checkpoint has
//!   in use, or back to one that it has visited: so it ends;
//! - V2 (hazards-H35) no block of the chain, and no block named by those of its nodes that come
//!   back, is given to a log before the checkpoint that ends recovery is durable: after a cut
//!   inside recovery the next mount finds the same chain. What recovery does until then lives in
//!   memory;
//! - V3 (hazards-H36) a block that a node of the chain names may belong to another owner only in
//!   the state of the checkpoint. Such an owner's slot, found through the summary, is cleared
//!   first;
//! - V4 (hazards-H34) blocks that an earlier mount wrote behind the end of its chain have this
//!   version, too. So the first fsync of a mount writes a checkpoint
//!   ([`Reason::Life`](crate::Reason::Life)), and no node block gets into the chain in front of
//!   such leftovers;
//! - V5 subtrees: an inode block of the chain names its nodes. A node that it no longer names was
//!   freed with all it led to, and pages behind the end of the file were cut off. What was cut off
//!   elsewhere, below an indirect node, forces a checkpoint when it is synced
//!   ([`Reason::Cut`](crate::Reason::Cut)). Numbers freed since the checkpoint are not in use
//!   again, so another number is another node.
//!
//! Mounted read-only, the volume shows what roll-forward found; nothing is written, and the next
//! mount finds it again.

mod apply;
mod chain;
mod names;
mod report;
mod slots;

pub use report::RecoveryReport;
pub(crate) use slots::first_page;

use crate::F2fs;
use crate::ops::Freeze;
use base::cost::f2fs as cost;
use chain::Plan;
use fscore::{FsError, FsResult};

impl F2fs {
    /// Brings back what was fsynced after the last checkpoint, in memory; the caller writes the
    /// checkpoint. `None`: there was nothing.
    ///
    /// # Errors
    /// Damage to the chain or to what it leads to, with the way around it; I/O.
    pub(crate) fn recover(&self, freeze: &Freeze<'_>) -> FsResult<Option<RecoveryReport>> {
        self.nodes.sync.lock().begin_life(self.cp.footer_version());
        let found = self.recover_chain(freeze);
        found.map_err(|e| match e {
            FsError::Corrupt { what } => FsError::corrupt(format!(
                "roll-forward recovery: {what}; `disable_roll_forward` gives up what was synced after the last checkpoint, \
                 `ro,norecovery` shows the volume without it"
            )),
            other => other,
        })
    }

    fn recover_chain(&self, freeze: &Freeze<'_>) -> FsResult<Option<RecoveryReport>> {
        let chain = self.read_chain()?;
        let plan = Plan::new(self, &chain)?;
        if plan.is_empty() {
            return Ok(None);
        }
        let op = freeze.op();
        self.hold_chain(op, &chain, &plan)?;
        let mut report = RecoveryReport {
            nodes_read: chain.len() as u64,
            pending: self.options.read_only,
            ..RecoveryReport::default()
        };
        self.apply_chain(op, &chain, &plan, &mut report)?;
        rt::charge_each(cost::ROLL_FORWARD_NODE, chain.len() as u64);
        Ok(Some(report))
    }
}
