//! Named random streams: a stream is a function of (seed, name) only, so one more draw in one place
//! never shifts the numbers of another.

use crate::collections::{fingerprint, mix};
use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A random stream.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The stream called `name` under `seed`.
    pub fn named(seed: u64, name: &str) -> Rng {
        Rng(Xoshiro256PlusPlus::seed_from_u64(
            mix(seed) ^ fingerprint(name.as_bytes()),
        ))
    }
    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// A number below `bound`, without modulo bias.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "below(0) has no answer");
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let x = self.next_u64();
            if x < limit {
                return x % bound;
            }
        }
    }
    /// True with probability 1/`n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    /// Fills `buf` with random bytes.
    pub fn fill(&mut self, buf: &mut [u8]) {
        self.0.fill_bytes(buf);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_seed_and_name_only() {
        let draw = |seed, name: &str| Rng::named(seed, name).next_u64();
        assert_eq!(draw(1, "workload"), draw(1, "workload"));
        assert_ne!(draw(1, "workload"), draw(2, "workload"));
        assert_ne!(draw(1, "workload"), draw(1, "device"));
    }

    #[test]
    fn below_stays_below() {
        let mut r = Rng::named(7, "t");
        assert!((0..1000).all(|_| r.below(3) < 3));
    }
}
