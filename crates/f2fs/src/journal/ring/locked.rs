//! Closes an epoch: at once, or, with `switch=wait`, as JBD2 does (T_LOCKED): new operations are
//! kept out until those inside have ended, and then the next epoch opens.
//!
//! The wait is a freeze of all operations
//! ([`Ops::freeze_to_switch`](crate::ops::Ops::freeze_to_switch)) around the ordinary switch. The
//! correctness of a commit does not depend on it: the drain still runs, and finds the epoch empty.
//! So a cut finds what it finds without the wait, by the invariants of [`commit`](super::commit):
//! f2fs-commit-K1 holds because the epoch is drained, f2fs-journal-I4 because an operation has one
//! epoch (picked at its start or later: it holds the gate all the time, so no switch comes
//! between). What remains to be shown is that no task waits for ever:
//! - T1 the leader waits for operations that are inside, and for nothing else: each of them has its
//!   `Op`, so when the leader has the freeze they have ended, and the closed epoch is empty. The
//!   leader holds the freeze for no time: there is no wait between its begin and its end;
//! - T2 no operation inside waits for the leader: room in ring, epoch and memory is waited for
//!   before the `Op` (reserve-V1), fsync and sync wait outside, and apply takes no `Op`;
//! - T3 no operation inside waits for one that is kept out. An operation that enters may hold gates
//!   of inodes and the lock of cleaning (namei-R1: they are taken first, and never inside), and no
//!   other lock. Checkpoints rely on the same order: without a journal each checkpoint is such a
//!   freeze. No task is inside twice (ops-O3);
//! - T4 an operation that finds the epoch full waits for its commit before it enters, and does not
//!   close the epoch from inside (`Plane::before_pick`), because it would then wait for itself;
//! - T5 the leader waits for no other freeze (ops-O4), because the holder of one may wait for a
//!   commit, that is, for the leader (FIFREEZE does). During such a freeze no operation is inside,
//!   or soon none will be, so the epoch is closed without a freeze of its own; the drain waits for
//!   the operations that are left.

use crate::F2fs;
use crate::journal::{Epoch, Journal};

impl F2fs {
    /// Closes the running epoch if anything is in it and a slot is free, and answers the last
    /// closed one. The caller leads the commit.
    pub(super) fn close_running(&self, journal: &Journal) -> Epoch {
        let plane = &journal.plane;
        if plane.ideas.planes || !plane.is_running_used() {
            return plane.switch();
        }
        // T2, T3: those inside end without the leader's help.
        let Some(freeze) = self.ops.freeze_to_switch() else {
            // T5.
            return plane.switch();
        };
        let frozen = rt::now();
        let closed = plane.switch();
        assert!(
            plane.is_drained(closed) || plane.check().is_err(),
            "T1: an operation is in epoch {}, and all of them are kept out",
            closed.0
        );
        assert!(
            rt::now() == frozen || !rt::in_simulation(),
            "T1: operations were kept out for longer than those inside took"
        );
        freeze.end();
        closed
    }
}
