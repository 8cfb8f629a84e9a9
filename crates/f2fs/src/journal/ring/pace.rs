//! Slows operations down before they would have to stop, so that no single operation waits for all
//! that the others have left to commit and to apply.
//!
//! What the background tasks have to work off has a bound at which operations wait for them
//! ([`reserve`](super::reserve), [`F2fs::held_up`]): epochs on their way, dirty nodes, segments
//! that dirty blocks will need. An operation that begins when one of these is more than half full
//! pauses first, the longer the fuller it is. So operations come as fast as the tasks can follow,
//! each of them a little later, as Linux's `balance_dirty_pages` throttles writers.
//!
//! - L1 (reserve-V1) an operation pauses where it would wait for room: in no epoch, and holding a
//!   gate at most. Commit and apply never come here;
//! - L2 a pause ends by itself: no task has to wake it, and it is never longer than a bound
//!   ([`Load::pause`]);
//! - L3 the pause begins at zero and grows steadily: an operation is not slower by much than the
//!   one before it;
//! - L4 the pause enforces no bound. At a bound operations wait, whatever they paused before
//!   (reserve-V2, [`F2fs::held_up`]);
//! - L5 write-back does not pause: it runs in no caller's time that is measured, and a caller that
//!   waits for write-back waits for all of it;
//! - L6 without background tasks there is nothing to pause for;
//! - L7 with `switch=wait` epochs on their way cause no pause: there an operation waits for the
//!   commit of a full epoch, as with JBD2.

use crate::F2fs;
use crate::journal::{Journal, Load, WaitCause};
use base::Nanos;

impl F2fs {
    /// Before an operation that logs, when there is room for it. The caller holds a gate at most
    /// (L1).
    pub(crate) fn pace(&self, journal: &Journal) {
        // L6.
        if !self.options.timers {
            return;
        }
        let pause = self.load(journal).pause();
        if pause > Nanos(0) {
            let start = rt::now();
            rt::sleep(pause);
            journal.reserve.note(WaitCause::Pace, rt::now() - start);
        }
    }

    fn load(&self, journal: &Journal) -> Load {
        // L7.
        let epochs = match journal.options.ideas.planes {
            true => journal.plane.load(),
            false => Load::default(),
        };
        let nodes = Load::of(self.nodes.dirty(), self.dirty_nodes_max());
        epochs.max(nodes).max(self.dirt())
    }
}
