//! Which writes through the cache go on where an earlier one ended. A card may take longer for one
//! that does not, as for such a write the map has to be brought in or a mapping unit to be copied:
//! published measurements of random and sequential writes differ by more than the bus explains.

use super::Firmware;
use super::path::nanos;
use base::{Lba, Nanos};
use ftl::nand::Operation;
use std::collections::VecDeque;

/// Number of runs of addresses that are followed at once: as many as the lanes of the modelled
/// card. No source tells a number for it; it has to be more than one, because a log grows beside
/// the files that it is about.
const RUNS: usize = 4;

/// Where the last runs of writes ended, the newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs(VecDeque<u64>);

impl Runs {
    /// Takes note of a write; true if it goes on where one of the last runs ended.
    fn continues(&mut self, lba: Lba, sectors: u64) -> bool {
        let known = self.0.iter().position(|end| *end == lba.0);
        match known {
            Some(run) => drop(self.0.remove(run)),
            None if self.0.len() == RUNS => drop(self.0.pop_front()),
            None => {}
        }
        self.0.push_back(lba.0 + sectors);
        known.is_some()
    }
}

impl Firmware {
    /// The die of an operation.
    pub fn die_of(&self, operation: &Operation) -> u32 {
        self.ftl.die_of(operation)
    }
    /// What a write through the cache costs because of its address.
    pub(super) fn jump(&mut self, lba: Lba, sectors: u64) -> Nanos {
        match self.runs.continues(lba, sectors) {
            true => Nanos(0),
            false => nanos(self.timing.random_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_runs_are_followed_and_a_fifth_pushes_the_oldest_out() {
        let mut runs = Runs::default();
        let starts = [0, 1000, 2000, 3000];
        assert!(starts.iter().all(|at| !runs.continues(Lba(*at), 8)));
        assert!(starts.iter().all(|at| runs.continues(Lba(at + 8), 8)));
        assert!(!runs.continues(Lba(4000), 8));
        assert!(!runs.continues(Lba(16), 8), "the oldest is gone");
        assert!(runs.continues(Lba(3016), 16) && runs.continues(Lba(3032), 8));
        assert!(!runs.continues(Lba(3032), 8), "the same place again");
    }
}
