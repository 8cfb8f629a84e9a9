//! Makes room for an operation before it begins. Here, and nowhere else, it waits for room in the
//! ring, in an epoch, and in memory for records (for dirty nodes it waits by [`F2fs::held_up`]).
//!
//! - V1 an operation that waits here is in no epoch, and commit and apply neither take a lock that
//!   it may hold (a gate at most) nor ask for room themselves: so they always come to an end;
//! - V2 the running epoch stays below a quarter of the ring (with `records=pages` judged by the
//!   blocks that it touches, pages-J6), plus what operations log that had already passed this
//!   check: so its commit fits, if need be after an apply. If these operations log more than a tiny
//!   ring holds, the epoch is committed by a pack (f2fs-commit-K8);
//! - V3 no operation waits for a checkpoint, and none waits for a switch unless that is asked for
//!   ([`locked`](super::locked)). Every wait has a cause and is counted ([`Waits`]); cleaning
//!   counts its own.
//!
//! Waiting is the last resort. First, operations ring for the background tasks that commit and
//! apply ([`bell`](crate::bell)) and go on; a full epoch is closed by the next operation. Then
//! operations slow down ([`pace`](super::pace)). An operation waits only when as many epochs are on
//! their way as there may be, or when the records that are not applied fill the memory: it then
//! commits or applies itself, or together with the task that does. A ring without room holds up the
//! commit, which applies; it holds up operations only when the greatest number of epochs waits for
//! that commit, because the next epoch is in memory. (Without background tasks or with
//! `switch=wait` an operation also waits for the commit of a full epoch, and for a ring of which
//! little is free.)

use crate::F2fs;
use crate::journal::{CommitReason, Epoch, Journal, WaitCause, Waits};
use crate::ops::Cause;
use base::Nanos;
use fscore::FsResult;
use rt::Mutex;
use std::collections::BTreeMap;

/// With a task in the background and `switch=wait`: free percent of the ring below which operations
/// wait for an apply.
const HARD_PERCENT: u64 = 5;
/// Bytes of records that are committed and not applied; twice as many where a task applies in the
/// background.
pub(crate) const MEMORY_MAX: u64 = 64 << 20;
/// Rounds after which an operation goes on: others fill what it makes free.
const ROUNDS: u32 = 8;

/// Waits of operations so far.
pub(crate) struct Reserve {
    waits: Mutex<BTreeMap<WaitCause, Waits>>,
}

impl Reserve {
    pub fn new() -> Reserve {
        Reserve {
            waits: Mutex::named("f2fs journal waits", BTreeMap::new()),
        }
    }

    /// A wait has ended (V3).
    pub(super) fn note(&self, cause: WaitCause, waited: Nanos) {
        let mut waits = self.waits.lock();
        let sum = waits.entry(cause).or_default();
        sum.waits += 1;
        sum.waited += waited;
        sum.waited_max = sum.waited_max.max(waited);
    }

    /// By cause.
    pub fn waits(&self) -> BTreeMap<WaitCause, Waits> {
        self.waits.lock().clone()
    }
}

impl Journal {
    /// What is committed should go home: less of the ring is free than `jlow` says, or the records
    /// fill the memory.
    pub(crate) fn is_apply_due(&self) -> bool {
        let (free, all) = self.plane.room();
        let low = u64::from(self.options.low_percent);
        free * 100 < all * low || self.plane.kept() > MEMORY_MAX
    }

    /// What the next operation has to wait for, if anything.
    fn short(&self, timers: bool) -> Option<WaitCause> {
        // A task commits what the next operation closes (V2).
        let goes_on = timers && self.options.ideas.planes;
        if self.plane.is_full() && !goes_on {
            return Some(WaitCause::Epoch);
        }
        if self.plane.is_crowded() {
            return Some(WaitCause::Epochs);
        }
        let (free, all) = self.plane.room();
        let percent = match (timers, goes_on) {
            (_, true) => 0,
            (true, false) => HARD_PERCENT,
            (false, false) => u64::from(self.options.low_percent),
        };
        if free * 100 < all * percent {
            return Some(WaitCause::Ring);
        }
        let memory = MEMORY_MAX * if timers { 2 } else { 1 };
        (self.plane.kept() > memory).then_some(WaitCause::Memory)
    }
}

impl F2fs {
    /// Before an operation that logs: room in the running epoch, the ring and the memory. The
    /// caller is in no epoch, and holds a gate at most (V1).
    ///
    /// # Errors
    /// The mount is latched, or becomes so.
    pub(crate) fn wait_for_room(&self, journal: &Journal) -> FsResult<()> {
        let timers = self.options.timers;
        for _ in 0..ROUNDS {
            let Some(cause) = journal.short(timers) else {
                break;
            };
            let start = rt::now();
            let done = self.make_room(journal, cause);
            journal.reserve.note(cause, rt::now() - start);
            if !done? {
                break;
            }
        }
        Ok(())
    }

    /// False if nothing came of it.
    fn make_room(&self, journal: &Journal, cause: WaitCause) -> FsResult<bool> {
        match cause {
            WaitCause::Epoch => {
                self.commit_for(journal.plane.running(), CommitReason::Cap)?;
                Ok(true)
            }
            WaitCause::Epochs => {
                let oldest = Epoch(journal.last_committed().0 + 1);
                self.commit_for(oldest, CommitReason::Cap)?;
                Ok(true)
            }
            WaitCause::Ring | WaitCause::Memory => {
                let before = journal.applied();
                self.apply(Cause::Ring)?;
                Ok(journal.applied() > before)
            }
            WaitCause::Pace => Ok(false),
        }
    }
}
