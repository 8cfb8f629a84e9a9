//! When to apply, unasked: a task looks at what fills up.

use crate::F2fs;
use crate::journal::{Epoch, Journal};
use crate::ops::Cause;
use base::Nanos;

/// How often the task looks, if nobody wakes it.
const LOOK: Nanos = Nanos::from_millis(500);
/// Nothing was committed for so long: what is committed goes home.
const IDLE: Nanos = Nanos::from_secs(10);
/// Bytes of records that are committed and not applied.
const MEMORY_MAX: u64 = 64 << 20;

impl F2fs {
    /// Applies what is committed when a threshold says so, until the volume is unmounted.
    pub(crate) fn apply_task(&self) {
        let (mut seen, mut since) = (Epoch(0), rt::now());
        while self.pause(LOOK) {
            let Some(journal) = &self.journal else {
                return;
            };
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
        let (free, all) = journal.ring_room();
        let low = u64::from(journal.options.low_percent);
        let full = u64::from(free) * 100 < u64::from(all) * low;
        if full || journal.bytes_kept() > MEMORY_MAX {
            return Some(Cause::Ring);
        }
        self.overdue(1)
    }
}

impl Journal {
    /// Bytes of records in memory that are committed and not applied.
    fn bytes_kept(&self) -> u64 {
        let committed = self.committed.lock();
        let of = |c: &crate::journal::Committed| -> u64 {
            c.groups.iter().map(|g| g.bytes.len() as u64).sum()
        };
        committed.iter().map(|c| of(c)).sum()
    }
}
