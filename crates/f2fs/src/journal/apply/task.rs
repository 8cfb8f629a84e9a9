//! The background task that applies when memory, ring or dirty counts fill up, before an operation
//! has to ask for it, and when nothing was committed for a while.

use crate::F2fs;
use crate::journal::{Epoch, Journal};
use crate::ops::Cause;
use base::Nanos;

/// How often the task looks, if no bell wakes it.
const LOOK: Nanos = Nanos::from_millis(500);
/// Nothing was committed for so long: what is committed goes home.
const IDLE: Nanos = Nanos::from_secs(10);

impl F2fs {
    /// Applies what is committed whenever a threshold is passed, until the volume is unmounted.
    pub(crate) fn apply_task(&self) {
        let Some(journal) = &self.journal else {
            return;
        };
        let (mut seen, mut since) = (Epoch(0), rt::now());
        while self.pause_or(LOOK, &journal.apply_bell) {
            let last = journal.last_committed();
            if last != seen {
                (seen, since) = (last, rt::now());
            }
            let idle = rt::now() - since >= IDLE;
            let done = match self.apply_due(journal) {
                Some(cause @ Cause::Ring) => self.apply(cause),
                Some(cause) => self.apply_all(cause),
                None if idle && journal.applied() < last => self.apply(Cause::Background),
                None => Ok(()),
            };
            // A failure has latched the mount: then there is nothing left to do.
            if done.is_err() {
                return;
            }
        }
    }

    /// Why an apply should begin now.
    fn apply_due(&self, journal: &Journal) -> Option<Cause> {
        if journal.is_apply_due() {
            return Some(Cause::Ring);
        }
        self.overdue()
    }
}
