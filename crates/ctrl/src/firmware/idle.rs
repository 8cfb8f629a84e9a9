//! Work that a controller does while no command waits: folding of the SLC area, scrubbing, and
//! garbage collection where background operations are on.

use super::Firmware;
use base::{Nanos, Time};
use ftl::FtlError;

/// Background work begins when no command has come for this long.
const IDLE_BEFORE_WORK: Nanos = Nanos(1_000_000);

impl Firmware {
    /// Notes that a command is under way until `end`, so that no background work begins before. A
    /// write does this by its arrival.
    pub fn busy_until(&mut self, end: Time) {
        self.idle_from = self.idle_from.max(end);
    }
    /// Folds the SLC area and collects garbage in the time since the last write, one stripe or one
    /// row at a time, each when the chips have finished the one before. A command that comes
    /// meanwhile waits only for the current one.
    pub(super) fn idle_work(&mut self, now: Time) {
        while self.auto_bkops || self.ftl.has_slc() || self.ftl.scrub_backlog() > 0 {
            let begin = self.path_free.max(self.last_arrival).max(self.idle_from);
            if begin + IDLE_BEFORE_WORK > now {
                break;
            }
            match self.idle_step(begin + IDLE_BEFORE_WORK) {
                Ok(Some(end)) => self.idle_from = end,
                // An error makes the FTL read-only; the next command that needs it reports that.
                Ok(None) | Err(_) => break,
            }
        }
    }
    fn idle_step(&mut self, at: Time) -> Result<Option<Time>, FtlError> {
        if self.ftl.can_fold() {
            // Folding may program the row that is being filled, so that row is closed first, and
            // its units count as on their way.
            if self.staged > 0 {
                return self.sync(at).map(Some);
            }
            return self.ftl.fold_idle(at, self.stripe());
        }
        if self.ftl.scrub_backlog() > 0 {
            // Scrubbing may program that row as well.
            if self.staged > 0 {
                return self.sync(at).map(Some);
            }
            if let Some(end) = self.ftl.scrub_idle(at, 1)? {
                return Ok(Some(end));
            }
        }
        if self.auto_bkops && self.staged == 0 {
            return self.ftl.collect_idle(at, self.ftl.layout().slots_per_row);
        }
        Ok(None)
    }
    /// Units of a row on each lane.
    fn stripe(&self) -> u32 {
        self.ftl.layout().slots_per_row * self.ftl.lanes()
    }
    /// Does background operations that the host asks for, until they are no longer needed or
    /// nothing can be gained. Answers when they end.
    pub fn bkops(&mut self, start: Time) -> Result<Time, FtlError> {
        let mut end = start.max(self.path_free);
        // The loop is bounded, because a card that is full of valid data gains nothing however long
        // it copies.
        for _ in 0..self.ftl.layout().slots_per_block * 8 {
            let done = match self.ftl.fold_idle(end, self.stripe())? {
                Some(done) => Some(done),
                None => self
                    .ftl
                    .collect_idle(end, self.ftl.layout().slots_per_row)?,
            };
            match done {
                Some(done) => end = done,
                None => break,
            }
        }
        self.path_free = self.path_free.max(end);
        Ok(end)
    }
    /// Empties the SLC area except for blocks that are being filled: a loaded image lies in
    /// ordinary cells.
    pub(super) fn fold_all(&mut self) -> Result<(), FtlError> {
        while self.ftl.fold_idle(Time(0), u32::MAX)?.is_some() {}
        Ok(())
    }
}
