//! Statistics of checkpoints: how many there were and why, what they wrote, and how long they took.

use crate::ops::Cause;
use base::Nanos;
use std::collections::BTreeMap;

base::words! {
    /// A part of a checkpoint.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub enum Phase {
        /// Directory blocks are written while operations run.
        Ahead => "ahead",
        /// Waiting until the operations inside have ended.
        Freeze => "freeze",
        /// Directory blocks and nodes are submitted.
        Nodes => "nodes",
        /// Waiting until these writes have completed.
        Land => "land",
        /// NAT, SIT, summaries and the pack except for its last block are written.
        Pack => "pack",
        /// The device flush.
        Flush => "flush",
        /// The last block of the pack is written.
        Commit => "commit",
    }
}

/// What checkpoints did and cost since the mount.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CheckpointStats {
    /// Packs written, by cause.
    pub by_cause: BTreeMap<Cause, u64>,
    /// Checkpoints that wrote nothing, because nothing had changed.
    pub unnecessary: u64,
    /// Node blocks written by checkpoints.
    pub node_blocks: u64,
    /// NAT blocks.
    pub nat_blocks: u64,
    /// NAT entries that went into the journal.
    pub nat_journal_entries: u64,
    /// Blocks of packs.
    pub pack_blocks: u64,
    /// Packs with compact summaries.
    pub compact: u64,
    /// Time by phase.
    pub time: BTreeMap<Phase, Nanos>,
    /// Longest time from freeze to end.
    pub longest: Nanos,
}

impl CheckpointStats {
    /// Packs written.
    pub fn packs(&self) -> u64 {
        self.by_cause.values().sum()
    }
}
