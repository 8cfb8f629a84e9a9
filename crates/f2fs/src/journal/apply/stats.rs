//! Statistics of applies: how many there were and why, what they wrote, and how long they took.

use crate::ops::Cause;
use base::Nanos;
use std::collections::BTreeMap;

base::words! {
    /// A part of an apply.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub enum ApplyPhase {
        /// Records are sorted by the blocks that they touch.
        Fold => "fold",
        /// Blocks that have to be patched are read.
        Read => "read",
        /// Images are made and sent, and their writes complete.
        Write => "write",
        /// NAT, SIT, summaries and the pack except for its last block are written.
        Pack => "pack",
        /// The flush before the last block, and that block.
        Commit => "commit",
        /// The live state takes the new places over.
        Publish => "publish",
    }
}

/// What applies did and cost since the mount.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ApplyStats {
    /// Applies, by what asked for them.
    pub by_cause: BTreeMap<Cause, u64>,
    /// Times there was nothing to apply.
    pub unnecessary: u64,
    /// Epochs applied.
    pub epochs: u64,
    /// Records in these epochs.
    pub records: u64,
    /// Nodes and directory pages that no later epoch had touched: the newest image was written.
    pub fast_forwarded: u64,
    /// Nodes and directory pages that were made from home and records.
    pub patched: u64,
    /// Nodes and directory pages that no longer existed: nothing was written.
    pub skipped: u64,
    /// Records that did not have to be redone, thanks to fast-forward.
    pub records_saved: u64,
    /// Node blocks written.
    pub node_blocks: u64,
    /// Directory blocks written.
    pub dentry_blocks: u64,
    /// NAT blocks written.
    pub nat_blocks: u64,
    /// SIT blocks written.
    pub sit_blocks: u64,
    /// Summary blocks written.
    pub ssa_blocks: u64,
    /// Nodes and directory pages that were freed while they were being written.
    pub overtaken: u64,
    /// Blocks released.
    pub released: u64,
    /// Time by phase.
    pub time: BTreeMap<ApplyPhase, Nanos>,
    /// Longest apply.
    pub longest: Nanos,
}

impl ApplyStats {
    /// Applies that wrote a pack.
    pub fn applies(&self) -> u64 {
        self.by_cause.values().sum()
    }
}
