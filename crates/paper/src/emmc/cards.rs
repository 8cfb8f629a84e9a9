//! Cards beside the standard one, for the causes that lie in the card: what a write with the
//! reliable-write bit costs by size, and what a random write costs. Each has a published
//! measurement behind it, or says that it has none.
//!
//! The fields that are changed are those of the timing set `fig8`; `paper-fit` is what it was
//! fitted to be.

use super::plan::DEVICE;

/// A card: the standard one with fields of the set `fig8` changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Card {
    /// Its name in rows.
    pub name: &'static str,
    /// What is changed, and the measurement behind it.
    pub why: &'static str,
    changes: &'static str,
}

impl Card {
    /// The device as a configuration names it.
    pub fn device(&self) -> String {
        match self.changes {
            "" => DEVICE.into(),
            changes => format!("{DEVICE},{changes}"),
        }
    }
}

/// The card of all figures.
pub const STANDARD: Card = Card {
    name: "reliable writes with a slope",
    why: "as the set has it: a reliable write of n KiB takes 0.9 ms + 25 us x n longer than one through the cache. The slope was chosen so that \
          flush-at-end and direct persistence cross at 128 KiB, which the paper does not say",
    changes: "",
};

/// Cards on which a reliable write costs no more for each KiB than what a flush costs for it.
pub const FLAT: [Card; 3] = [
    Card {
        name: "as on a Rock64",
        why: "a write of 4 KiB that has to reach the chips takes 1.1 ms on a Rock64, of 16 KiB 1.06 ms, and 1 MiB goes at 66 MB/s (iozone, direct \
              I/O): 57 us on top of the path to the chips, whatever the size",
        changes: "timing.fig8.reliable_us=57,timing.fig8.reliable_us_per_kib=0",
    },
    Card {
        name: "between them",
        why: "180 us on top, whatever the size: between the two measured ones; write and flush then take 25 % longer than a direct write in the mean below \
              128 KiB, where the paper says 30 %",
        changes: "timing.fig8.reliable_us=180,timing.fig8.reliable_us_per_kib=0",
    },
    Card {
        name: "as on a Pinebook",
        why: "4 KiB take 1.36 ms on a Pinebook, 16 KiB 1.87 ms, and 1 MiB goes at 40 MB/s (iozone, direct I/O): 317 us on top, whatever the size",
        changes: "timing.fig8.reliable_us=317,timing.fig8.reliable_us_per_kib=0",
    },
];

/// A card on which each write through the cache that does not go on where another ended takes as
/// long as on a Rock64.
pub const RANDOM: Card = Card {
    name: "random writes as on a Rock64",
    why: "a random write of 4 KiB takes 1.1 ms on a Rock64 (iozone, direct I/O; 0.139 ms on the module of the XU4's kind): 961 us on top of a \
          cached write",
    changes: "timing.fig8.random_us=961",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emmc::plan::{FIG8, Plan};

    #[test]
    fn every_card_can_be_built() {
        let plan = Plan::new(true, 1, None);
        for card in [STANDARD, RANDOM].into_iter().chain(FLAT) {
            let mut stack = plan.stack("jbd2", FIG8);
            stack.device = card.device();
            stack
                .check()
                .unwrap_or_else(|e| panic!("{}: {e}", card.name));
        }
    }
}
