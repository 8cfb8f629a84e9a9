//! Counters and times of a journal: what it committed, wrote home and waited for.

use crate::commit::Composed;
use crate::track::Logged;
use base::Nanos;
use block::Class;
use std::collections::BTreeMap;

/// Figures since the journal was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Handles finished.
    pub handles: u64,
    /// Transactions committed.
    pub transactions: u64,
    /// Blocks logged, in full or as deltas, all transactions.
    pub blocks_logged: u64,
    /// Of them as full images.
    pub fulls_logged: u64,
    /// Of them as the bytes that their transaction changed.
    pub deltas_logged: u64,
    /// Of them as every byte that may differ from home.
    pub cumulatives_logged: u64,
    /// Blocks that a transaction touched and left as they were before, and that were not logged
    /// (coalition).
    pub blocks_unchanged: u64,
    /// Coalition parts logged.
    pub parts_logged: u64,
    /// Bytes of the records in them.
    pub record_bytes: u64,
    /// Coalitions of more than one log block: several parts, or full images beside them.
    pub coalitions_long: u64,
    /// Revoke records logged.
    pub revokes_logged: u64,
    /// Fast commits written.
    pub fast_commits: u64,
    /// Log blocks of these fast commits.
    pub fast_blocks: u64,
    /// Of the fast commits, those of more than one block.
    pub fast_long: u64,
    /// Bytes of these blocks, without the zeros at the end of each.
    pub fast_bytes: u64,
    /// Fast commits that were not written, because a change could not be expressed or the area was
    /// full: the transaction was committed in full instead.
    pub fast_refused: u64,
    /// Largest transaction, log blocks.
    pub transaction_blocks_max: u32,
    /// Blocks written home.
    pub blocks_home: u64,
    /// Time in which they were written.
    pub homing: Nanos,
    /// Of the blocks that came home, those that were remapped instead of written (`home=remap`);
    /// not counted in `blocks_home`.
    pub blocks_remapped: u64,
    /// REMAP commands for them.
    pub remap_commands: u64,
    /// Blocks whose REMAP the device has refused, and which were written instead.
    pub remaps_refused: u64,
    /// Of the remapped blocks, those that the device has copied because it could not share a page.
    pub remaps_copied: u64,
    /// Times the tail moved on the medium.
    pub tail_updates: u64,
    /// Flush steps skipped because the device cache held nothing.
    pub flushes_skipped: u64,
    /// Commits by plan: `flush-end`, `flush-ahead`, or `direct`: ahead, and nothing needed a flush.
    pub plans: BTreeMap<&'static str, u64>,
    /// Choices of `order=adaptive`, by what was chosen (`data-direct`, `data-cached`, `log-ahead`,
    /// `log-end`) and why: `only` way, `cheapest`, `held` by hysteresis, `tried` to learn its cost.
    pub choices: BTreeMap<(&'static str, &'static str), u64>,
    /// Time waited, by cause: `transaction-locked` (the switch of transactions),
    /// `transaction-full`, `log-space`, `commit`, `updates`. Besides, `logging` is the time that
    /// handles spend on admission and on the lock of the state, hand-over included; `locking` is
    /// equal to it, because all of that time is spent under that lock or waiting for it.
    pub waits: BTreeMap<&'static str, Nanos>,
    /// Time in each step of the commit plan.
    pub steps: BTreeMap<&'static str, Nanos>,
}

impl Stats {
    pub(crate) fn composed(&mut self, composed: &Composed) {
        let parts = composed.blocks.iter();
        let parts = parts.filter(|(c, _)| *c == Class::Coalition).count() as u64;
        self.parts_logged += parts;
        let records = composed.blocks.iter();
        let records = records.filter(|(c, _)| *c != Class::JournalCommit).count();
        self.coalitions_long += u64::from(parts > 0 && records > 1);
        self.record_bytes += composed.record_bytes;
    }
    pub(crate) fn logged(&mut self, logged: Logged) {
        let counter = match logged {
            Logged::Unchanged => {
                self.blocks_unchanged += 1;
                return;
            }
            Logged::Full => &mut self.fulls_logged,
            Logged::Delta => &mut self.deltas_logged,
            Logged::Cumulative => &mut self.cumulatives_logged,
        };
        *counter += 1;
        self.blocks_logged += 1;
    }
    pub(crate) fn chose(&mut self, what: &'static str, why: &'static str) {
        *self.choices.entry((what, why)).or_default() += 1;
    }
    /// Books time that a handle spent under the lock of the state, or waiting for it.
    pub(crate) fn booked(&mut self, span: Nanos) {
        self.waited("logging", span);
        self.waited("locking", span);
    }
    pub(crate) fn waited(&mut self, cause: &'static str, span: Nanos) {
        *self.waits.entry(cause).or_default() += span;
    }
}
