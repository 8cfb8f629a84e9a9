//! How full something is that background tasks have to work off, and how long an operation pauses
//! for it ([`pace`](crate::journal::ring::pace)).

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

    /// What an operation pauses (pace-L2, pace-L3): with the square of what lies above a half.
    pub fn pause(self) -> Nanos {
        let (over, all) = (
            self.0.min(FULL).saturating_sub(PAUSES_FROM),
            FULL - PAUSES_FROM,
        );
        Nanos(PAUSE_MAX.0 * over * over / (all * all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_begin_at_nothing_and_grow_to_their_bound() {
        let pauses: Vec<u64> = (0..=1200).map(|n| Load(n).pause().0).collect();
        assert!(pauses[..=500].iter().all(|&p| p == 0), "pace-L3");
        assert!(pauses.is_sorted(), "pace-L3");
        let step = pauses.windows(2).map(|two| two[1] - two[0]).max();
        assert!(step < Some(PAUSE_MAX.0 / 100), "pace-L3: {step:?}");
        assert!(pauses[1000..].iter().all(|&p| p == PAUSE_MAX.0), "pace-L2");
        assert_eq!(Load(750).pause().0, PAUSE_MAX.0 / 4);
        assert_eq!(Load::of(3, 0), Load(3000), "a bound of nothing is passed");
        assert_eq!(Load::of(u64::MAX, 7).pause(), PAUSE_MAX);
        assert!(!Load(500).is_half() && Load(501).is_half());
    }
}
