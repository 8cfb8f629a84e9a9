//! The task that commits what nobody asks for.

use super::CommitReason;
use crate::F2fs;
use base::Nanos;

impl F2fs {
    /// Commits the running epoch each `interval`, if something was logged.
    pub(crate) fn commit_task(&self, interval: Nanos) {
        while self.pause(interval) {
            // A failure has latched the mount: then there is nothing left to do.
            if self.commit_all(CommitReason::Timer).is_err() {
                return;
            }
        }
    }
}
