//! Figures of the planes.

use super::Closed;
use base::Nanos;

/// What epochs and their lists did so far.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct PlaneStats {
    /// Epochs that were closed: as many as were opened, less the running one.
    pub switches: u64,
    /// Time that switches took, all together.
    pub switching: Nanos,
    /// Switches that were put off because too many epochs were on their way.
    pub postponed: u64,
    /// Epochs that were drained.
    pub drains: u64,
    /// Of them, with an operation still inside.
    pub drain_waits: u64,
    /// Time that the committer waited for those.
    pub draining: Nanos,
    /// The longest of these waits.
    pub draining_max: Nanos,
    /// Epochs that were collected.
    pub collected: u64,
    /// Lists in them: inodes, once per epoch.
    pub lists: u64,
    /// Most in one epoch.
    pub lists_max: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// Most in one epoch.
    pub bytes_max: u64,
    /// Inodes that logged something which is not committed, now.
    pub inodes_known: u64,
}

impl PlaneStats {
    pub(super) fn switched(&mut self, took: Nanos) {
        assert!(
            took == Nanos(0) || !rt::in_simulation(),
            "P3: a switch waited for {took}"
        );
        self.switches += 1;
        self.switching += took;
    }

    pub(super) fn drained(&mut self, waited: bool, took: Nanos) {
        self.drains += 1;
        if waited {
            self.drain_waits += 1;
            self.draining += took;
            self.draining_max = self.draining_max.max(took);
        }
    }

    pub(super) fn collected(&mut self, closed: &Closed) {
        self.collected += 1;
        let lists = closed.groups.len() as u64;
        self.lists += lists;
        self.lists_max = self.lists_max.max(lists);
        self.records += closed
            .groups
            .iter()
            .map(|g| u64::from(g.records))
            .sum::<u64>();
        self.bytes += closed.bytes;
        self.bytes_max = self.bytes_max.max(closed.bytes);
    }
}
