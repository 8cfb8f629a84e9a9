//! What the card does while no command waits: folding of the SLC area, scrubbing, and garbage collection where background operations are on.

use super::Firmware;
use base::{Nanos, Time};
use ftl::FtlError;

/// Background work begins when nothing has come for so long.
const IDLE_BEFORE_WORK: Nanos = Nanos(1_000_000);

impl Firmware {
    /// A command is under way until `end`: no background work begins before. Writes say so by their arrival.
    pub fn busy_until(&mut self, end: Time) {
        self.idle_from = self.idle_from.max(end);
    }
    /// Folds the SLC area and collects garbage in the time since the last write, a stripe or a row's worth at a time, each when
    /// the chips are done with the one before: a command that comes meanwhile waits for that one.
    pub(super) fn idle_work(&mut self, now: Time) {
        while self.auto_bkops || self.ftl.has_slc() || self.ftl.scrub_backlog() > 0 {
            let begin = self.path_free.max(self.last_arrival).max(self.idle_from);
            if begin + IDLE_BEFORE_WORK > now {
                break;
            }
            match self.idle_step(begin + IDLE_BEFORE_WORK) {
                Ok(Some(end)) => self.idle_from = end,
                // An error latches the FTL as read-only; the next command that needs it reports.
                Ok(None) | Err(_) => break,
            }
        }
    }
    fn idle_step(&mut self, at: Time) -> Result<Option<Time>, FtlError> {
        if self.ftl.can_fold() {
            // Folding may program the row that is being filled: it is closed first, so that its units count as on their way.
            if self.staged > 0 {
                return self.sync(at).map(Some);
            }
            return self.ftl.fold_idle(at, self.stripe());
        }
        if self.ftl.scrub_backlog() > 0 {
            // So does scrubbing.
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
    /// Background operations that the host asks for: until they are no longer needed, or nothing is to be gained. Answers when
    /// they are done.
    pub fn bkops(&mut self, start: Time) -> Result<Time, FtlError> {
        let mut end = start.max(self.path_free);
        // Bounded: a card that is full of valid data gains nothing however long it copies.
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
    /// Empties the SLC area but for blocks that are being filled: an image that was loaded is in ordinary cells.
    pub(super) fn fold_all(&mut self) -> Result<(), FtlError> {
        while self.ftl.fold_idle(Time(0), u32::MAX)?.is_some() {}
        Ok(())
    }
}
