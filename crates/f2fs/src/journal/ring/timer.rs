//! The background task that commits: at regular intervals, and when operations ring because an
//! epoch is half full or closed. So operations become durable, and the next epoch gets room, though
//! no fsync asks for it.

use crate::F2fs;
use crate::journal::{CommitReason, Epoch};
use base::Nanos;

impl F2fs {
    /// Commits the running epoch each `interval`, if something was logged, and when operations
    /// ring: it is half full, or one is closed.
    pub(crate) fn commit_task(&self, interval: Nanos) {
        let Some(journal) = &self.journal else {
            return;
        };
        let mut last = rt::now();
        let until = |last| Nanos(interval.0.saturating_sub((rt::now() - last).0));
        while self.pause_or(until(last), &journal.commit_bell) {
            let closed = Epoch(journal.plane.running().0 - 1);
            let committed = match () {
                () if rt::now() - last >= interval => {
                    last = rt::now();
                    self.commit_all(CommitReason::Timer)
                }
                () if journal.plane.is_half_full() => self.commit_all(CommitReason::Cap),
                () => self.commit_for(closed, CommitReason::Cap),
            };
            // A failure has latched the mount: then there is nothing left to do.
            if committed.is_err() {
                return;
            }
        }
    }
}
