//! Which completed writes a flush covers.
//!
//! A flush makes durable what completed before it *started*. An fsync that joins a flush which
//! began before the fsync's last data write completed would acknowledge data that still sits in the
//! cache (hazards-H17). So the queue numbers completions and flush starts:
//!
//! - B1 `completed` counts cached writes, discards and volatile REMAPs whose completion the host
//!   has seen, failed ones included, because a part of them may sit in the cache;
//! - B2 a flush remembers `completed` at its start; when it succeeds, `durable` rises to that
//!   number, never further;
//! - B3 a failed flush covers nothing, and neither does any after it: what the device or the host
//!   had not written by then may be lost, and the host reports such a loss once (fsync of Linux).
//!   Code that relied on that data has to begin anew, with another queue.
//!   that relied on it has to begin anew, with another queue.

use blockdev::DevError;

/// "All cached writes that had completed at some moment." The larger of two marks covers both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WriteMark(pub(crate) u64);

impl WriteMark {
    /// The mark of writes of which none is volatile: it is covered without any flush.
    pub const NONE: WriteMark = WriteMark(0);
}

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
    /// Sectors of all completed cached writes.
    sectors_completed: u64,
    /// `sectors_completed` at the start of the newest flush that has succeeded.
    sectors_durable: u64,
    /// The first flush that failed (B3).
    failed: Option<DevError>,
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
    /// Counts failed writes too: part of them may sit in the cache. Answers the mark that covers
    /// this write.
    pub fn completed(&mut self, sectors: u64) -> WriteMark {
        assert!(
            self.in_flight > 0,
            "B1: more cached writes completed than were submitted"
        );
        self.in_flight -= 1;
        self.completed += 1;
        self.sectors_completed += sectors;
        WriteMark(self.completed)
    }
    /// Sectors written through the cache that no flush has covered: an upper bound of what the
    /// cache holds.
    pub fn dirty_sectors(&self) -> u64 {
        self.sectors_completed - self.sectors_durable
    }
    pub fn flush_started(&mut self) -> FlushStart {
        self.last_start = self.completed;
        self.flushing.push(self.completed);
        FlushStart {
            mark: WriteMark(self.completed),
            sectors: self.sectors_completed,
        }
    }
    /// A flush has ended with `result`; answers what its caller may believe (B3).
    pub fn flush_ended(
        &mut self,
        start: FlushStart,
        result: Result<(), DevError>,
    ) -> Result<(), DevError> {
        let at = self.flushing.iter().position(|&s| s == start.mark.0);
        self.flushing
            .swap_remove(at.expect("B2: a flush ends that has started"));
        if let (Err(e), None) = (&result, &self.failed) {
            self.failed = Some(e.clone());
        }
        if let Some(first) = &self.failed {
            return Err(first.clone());
        }
        self.durable = self.durable.max(start.mark.0);
        self.sectors_durable = self.sectors_durable.max(start.sectors);
        Ok(())
    }
}

/// The marks that a flush covers if it succeeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlushStart {
    pub mark: WriteMark,
    sectors: u64,
}
