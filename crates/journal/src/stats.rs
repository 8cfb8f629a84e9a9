//! What a journal did.

use base::Nanos;
use std::collections::BTreeMap;

/// Figures since the journal was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Handles finished.
    pub handles: u64,
    /// Transactions committed.
    pub transactions: u64,
    /// Images logged, all transactions.
    pub blocks_logged: u64,
    /// Revoke records logged.
    pub revokes_logged: u64,
    /// Largest transaction, log blocks.
    pub transaction_blocks_max: u32,
    /// Blocks written home.
    pub blocks_home: u64,
    /// Times the tail moved on the medium.
    pub tail_updates: u64,
    /// Flush steps skipped because the device cache held nothing.
    pub flushes_skipped: u64,
    /// Time waited, by cause: `transaction-locked`, `transaction-full`, `log-space`, `commit`, `updates`.
    pub waits: BTreeMap<&'static str, Nanos>,
    /// Time in each step of the commit plan.
    pub steps: BTreeMap<&'static str, Nanos>,
}

impl Stats {
    pub(crate) fn waited(&mut self, cause: &'static str, span: Nanos) {
        *self.waits.entry(cause).or_default() += span;
    }
}
