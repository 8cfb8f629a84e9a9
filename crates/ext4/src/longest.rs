//! How long a free run can be at most, anywhere on the volume: a search of all groups for a run of
//! that length, which would fail, is left out. On a large volume whose room is in fragments each
//! allocation of an extent would cost such a search.
//!
//! It is a hint for the order of searches alone. If it is too low for a moment, because a run
//! became free during the search that set it, a shorter run is taken although a longer one is
//! there.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bound: in the upper half how often blocks were freed, in the lower half the shortest length,
/// in clusters, that is known to be too long; 0: nothing is known.
#[derive(Debug, Default)]
pub(crate) struct Longest(AtomicU64);

/// When a search began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked(u64);

const LEN: u64 = u32::MAX as u64;

impl Longest {
    /// False if no run is so long.
    pub fn may_be(&self, len: u32) -> bool {
        let too_long = self.0.load(Ordering::Relaxed) & LEN;
        too_long == 0 || u64::from(len) < too_long
    }

    /// Before a search of all groups.
    pub fn ask(&self) -> Asked {
        Asked(self.0.load(Ordering::Relaxed))
    }

    /// The search that began then has found no run of `len`.
    pub fn none_of(&self, len: u32, asked: Asked) {
        let new = asked.0 & !LEN | u64::from(len);
        // Blocks that were freed since may lie side by side.
        let _ = self
            .0
            .compare_exchange(asked.0, new, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Blocks have become free.
    pub fn freed(&self) {
        let next = |old: u64| Some((old & !LEN).wrapping_add(LEN + 1));
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_found_is_not_searched_for_until_something_is_freed() {
        let longest = Longest::default();
        assert!(longest.may_be(u32::MAX));
        let early = longest.ask();
        longest.none_of(100, early);
        assert!(longest.may_be(99) && !longest.may_be(100) && !longest.may_be(32768));
        let asked = longest.ask();
        longest.freed();
        assert!(longest.may_be(100), "it may be there now");
        longest.none_of(50, asked);
        assert!(longest.may_be(50), "a search from before says nothing");
        longest.none_of(50, longest.ask());
        assert!(!longest.may_be(50));
        longest.none_of(100, early);
        assert!(!longest.may_be(50), "nor does it take anything back");
    }
}
