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
//! - L2 a pause ends by itself: no task has to wake it, and it is never longer than [`PAUSE_MAX`];
//! - L3 the pause begins at zero and grows steadily: an operation is not slower by much than the
//!   one before it;
//! - L4 the pause enforces no bound. At a bound operations wait, whatever they paused before
//!   (reserve-V2, [`F2fs::held_up`]);
//! - L5 write-back does not pause: it runs in no caller's time that is measured, and a caller that
//!   waits for write-back waits for all of it;
//! - L6 without background tasks there is nothing to pause for;
//! - L7 with `switch=wait` epochs on their way cause no pause: there an operation waits for the
//!   commit of a full epoch, as with JBD2.

use super::{Journal, WaitCause};
use crate::F2fs;
use base::Nanos;

/// The longest pause.
const PAUSE_MAX: Nanos = Nanos::from_micros(500);
/// A load from which on operations pause.
const PAUSES_FROM: u64 = FULL / 2;
const FULL: u64 = 1000;

/// How full something is, in thousandths of the bound at which operations wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Load(u64);

impl Load {
    /// So much of a bound.
    pub fn of(part: u64, bound: u64) -> Load {
        Load(part.saturating_mul(FULL) / bound.max(1))
    }

    /// The tasks in the background should have begun.
    pub fn is_half(self) -> bool {
        self.0 > PAUSES_FROM
    }

    /// What an operation pauses (L2, L3): with the square of what lies above a half.
    pub fn pause(self) -> Nanos {
        let (over, all) = (
            self.0.min(FULL).saturating_sub(PAUSES_FROM),
            FULL - PAUSES_FROM,
        );
        Nanos(PAUSE_MAX.0 * over * over / (all * all))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_begin_at_nothing_and_grow_to_their_bound() {
        let pauses: Vec<u64> = (0..=1200).map(|n| Load(n).pause().0).collect();
        assert!(pauses[..=500].iter().all(|&p| p == 0), "L3");
        assert!(pauses.is_sorted(), "L3");
        let step = pauses.windows(2).map(|two| two[1] - two[0]).max();
        assert!(step < Some(PAUSE_MAX.0 / 100), "L3: {step:?}");
        assert!(pauses[1000..].iter().all(|&p| p == PAUSE_MAX.0), "L2");
        assert_eq!(Load(750).pause().0, PAUSE_MAX.0 / 4);
        assert_eq!(Load::of(3, 0), Load(3000), "a bound of nothing is passed");
        assert_eq!(Load::of(u64::MAX, 7).pause(), PAUSE_MAX);
        assert!(!Load(500).is_half() && Load(501).is_half());
    }
}
