//! The task that commits what nobody asks for.

use super::CommitReason;
use crate::F2fs;
use base::Nanos;

/// How often the task looks whether the running epoch is half full.
const LOOK: Nanos = Nanos::from_millis(100);

impl F2fs {
    /// Commits the running epoch each `interval`, if something was logged, or when it is half full.
    pub(crate) fn commit_task(&self, interval: Nanos) {
        let mut last = rt::now();
        while self.pause(LOOK.min(interval)) {
            let full = self
                .journal
                .as_ref()
                .is_some_and(|j| j.plane.is_half_full());
            if !full && rt::now() - last < interval {
                continue;
            }
            last = rt::now();
            // A failure has latched the mount: then there is nothing left to do.
            if self.commit_all(CommitReason::Timer).is_err() {
                return;
            }
        }
    }
}
