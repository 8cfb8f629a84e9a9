//! The background task that applies when memory, ring or dirty counts fill up, before an operation
//! has to ask for it, and when nothing was committed for a while.
//!
//! It sleeps until its bell rings, or until what is committed has been left alone for the time that
//! the journal's options name. No work waits for it longer than until the next commit:
//!
//! - W1 an apply is due because of what operations and commits add: blocks of the ring, bytes of
//!   records (a commit), dirty nodes and directory pages, freed blocks (an operation, which logs
//!   what it changes). The next operation looks before it begins, and the commit of its epoch when
//!   it has ended; each of them rings if an apply is due. Such a commit comes, because the task
//!   that commits does so each interval if anything was logged;
//! - W2 if nothing else happens, what is committed goes home. The first commit behind an apply that
//!   has left nothing rings, so that the task knows from when on to count; later ones move the time
//!   at which it counts as idle, and need not ring.
//!
//! A ring while the task applies is not lost (bell-B1): the task looks once more behind an apply to
//! which something was added. It looks once for a ring, because what an apply cannot remove is no
//! reason to begin the next one at once. A task that overslept all of this would still look each
//! [`LOOK`].

use crate::F2fs;
use crate::bell::LOOK;
use crate::journal::Journal;
use crate::ops::Cause;
use base::Nanos;

impl F2fs {
    /// Applies what is committed whenever a threshold is passed, or nothing was committed for
    /// `idle`, until the volume is unmounted.
    pub(crate) fn apply_task(&self, idle: Nanos) {
        let Some(journal) = &self.journal else {
            return;
        };
        while self.pause_or(
            journal.until_idle(idle).unwrap_or(LOOK),
            &journal.apply_bell,
        ) {
            let done = match self.apply_due(journal) {
                Some(cause @ Cause::Ring) => self.apply(cause),
                Some(cause) => self.apply_all(cause),
                None if journal.until_idle(idle) == Some(Nanos(0)) => self.apply(Cause::Background),
                None => Ok(()),
            };
            // A failure has latched the mount: then there is nothing left to do.
            if done.is_err() {
                return;
            }
        }
    }

    /// Behind a commit: tells the task what there is to do by now (W1, W2).
    pub(crate) fn ring_behind_commit(&self, journal: &Journal) {
        let is_first = || journal.committed.lock().len() == 1;
        if self.options.timers && (is_first() || self.apply_due(journal).is_some()) {
            self.ring(&journal.apply_bell);
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

impl Journal {
    /// How long it takes until the last commit lies `idle` back; `None` if everything is applied.
    fn until_idle(&self, idle: Nanos) -> Option<Nanos> {
        let log = self.log.lock();
        let is_left = log.ring.tail_epoch() <= log.ring.newest();
        let age = rt::now() - log.opened;
        is_left.then(|| Nanos(idle.0.saturating_sub(age.0)))
    }
}
