//! Which completed writes a flush covers.
//!
//! A flush makes durable what completed before it *started*. An fsync that joins a flush which began before its last data
//! write completed would acknowledge data that still sits in the cache (hazard H17). So the queue numbers completions
//! and flush starts:
//!
//! - B1 `completed` counts cached writes whose completion the host has seen;
//! - B2 a flush remembers `completed` at its start; when it succeeds, `durable` rises to that number, never further;
//! - B3 a failed flush covers nothing.

/// "All cached writes that had completed at some moment."
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WriteMark(pub(crate) u64);

/// The numbers behind B1 to B3.
#[derive(Debug, Default)]
pub(crate) struct Durability {
    completed: u64,
    in_flight: u64,
    /// Value of `completed` at the start of the newest flush.
    last_start: u64,
    durable: u64,
    /// Starts of the flushes under way.
    flushing: Vec<u64>,
}

impl Durability {
    pub fn mark(&self) -> WriteMark {
        WriteMark(self.completed)
    }
    pub fn is_durable(&self, mark: WriteMark) -> bool {
        self.durable >= mark.0
    }
    /// A flush is under way that covers `mark`.
    pub fn is_flushing(&self, mark: WriteMark) -> bool {
        self.flushing.iter().any(|&start| start >= mark.0)
    }
    pub fn cache_dirty(&self) -> bool {
        self.in_flight > 0 || self.completed > self.last_start || self.completed > self.durable
    }
    pub fn submitted(&mut self, writes: u64) {
        self.in_flight += writes;
    }
    /// Counts failed writes too: part of them may sit in the cache.
    pub fn completed(&mut self, writes: u64) {
        assert!(
            self.in_flight >= writes,
            "B1: more cached writes completed than were submitted"
        );
        self.in_flight -= writes;
        self.completed += writes;
    }
    pub fn flush_started(&mut self) -> WriteMark {
        self.last_start = self.completed;
        self.flushing.push(self.completed);
        WriteMark(self.completed)
    }
    pub fn flush_ended(&mut self, start: WriteMark, ok: bool) {
        let at = self.flushing.iter().position(|&s| s == start.0);
        self.flushing
            .swap_remove(at.expect("B2: a flush ends that has started"));
        if ok {
            self.durable = self.durable.max(start.0);
        }
    }
}
