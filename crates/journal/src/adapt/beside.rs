//! The data of all fsyncs that run at the same time: one flush would serve them all.

use super::{DataNeed, DataPath};
use std::sync::atomic::{AtomicU64, Ordering};

/// Data of fsyncs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Beside {
    /// How many there are.
    pub callers: u64,
    /// Pages, 4 KiB each.
    pub blocks: u64,
    /// Runs of neighbours among them.
    pub runs: u64,
}

/// Fsyncs after which a time ends, at the latest.
const TIME: u64 = 16;

/// The fsyncs that are under way, and those of this time and of the one before. A time ends when
/// none is under way, too. It all helps to estimate costs and promises nothing.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    under_way: AtomicU64,
    this: Time,
    before: Time,
}

/// The fsyncs of one time.
#[derive(Debug, Default)]
struct Time {
    /// Most that were under way at once.
    most: AtomicU64,
    /// How many had data, and their sums.
    entered: AtomicU64,
    blocks: AtomicU64,
    runs: AtomicU64,
}

impl Time {
    fn load(&self) -> [u64; 4] {
        self.all().map(|a| a.load(Ordering::Relaxed))
    }
    fn all(&self) -> [&AtomicU64; 4] {
        [&self.most, &self.entered, &self.blocks, &self.runs]
    }
}

impl Syncs {
    /// Counts an fsync until the answer is dropped.
    pub fn enter(&self, need: DataNeed) -> Syncing<'_> {
        let counts = need.blocks > 0;
        if counts {
            let now = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
            if self.this.entered.load(Ordering::Relaxed) >= TIME {
                self.end_time();
            }
            self.this.most.fetch_max(now, Ordering::Relaxed);
            self.this.entered.fetch_add(1, Ordering::Relaxed);
            self.this.blocks.fetch_add(need.blocks, Ordering::Relaxed);
            self.this.runs.fetch_add(need.runs, Ordering::Relaxed);
        }
        Syncing {
            path: DataPath::Cached,
            syncs: counts.then_some(self),
        }
    }

    fn leave(&self) {
        if self.under_way.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.end_time();
        }
    }

    fn end_time(&self) {
        for (before, this) in self.before.all().into_iter().zip(self.this.all()) {
            before.store(this.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// What else runs at the same time as one of them: as many as lately, for callers that one
    /// commit answered come again one after the other, and each with what one had in the mean.
    pub fn beside(&self) -> Beside {
        let [this, before] = [self.this.load(), self.before.load()];
        let others = this[0].max(before[0]).saturating_sub(1);
        let mean = |n: usize| (this[n] + before[n]).div_ceil((this[1] + before[1]).max(1));
        Beside {
            callers: others,
            blocks: others * mean(2),
            runs: others * mean(3),
        }
    }
}

/// An fsync whose data is on its way: to be dropped when the fsync ends.
#[derive(Debug)]
#[must_use]
pub struct Syncing<'a> {
    /// How its data should go to the device.
    pub path: DataPath,
    syncs: Option<&'a Syncs>,
}

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        self.syncs.into_iter().for_each(Syncs::leave);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(blocks: u64) -> DataNeed {
        DataNeed {
            blocks,
            runs: blocks.min(1),
            commits: true,
            flush_anyway: false,
        }
    }

    #[test]
    fn those_that_ran_at_the_same_time_are_expected_again_and_once_only() {
        let syncs = Syncs::default();
        let beside = |blocks, callers| Beside {
            callers,
            blocks,
            runs: callers,
        };
        let all = [need(3), need(1), need(2)].map(|n| syncs.enter(n));
        assert_eq!(syncs.beside(), beside(4, 2));
        drop(all);
        let first = syncs.enter(need(2));
        assert_eq!(syncs.beside(), beside(4, 2), "they come again");
        drop(first);
        let _alone = syncs.enter(need(3));
        assert_eq!(syncs.beside(), beside(0, 0), "they did not");
        let _without_data = syncs.enter(need(0));
        assert_eq!(syncs.beside(), beside(0, 0));
    }

    #[test]
    fn one_caller_has_nothing_beside_it_whatever_it_wrote_before() {
        let syncs = Syncs::default();
        for blocks in [1, 160, 1, 3, 1] {
            let _now = syncs.enter(need(blocks));
            assert_eq!(syncs.beside(), Beside::default());
        }
    }

    #[test]
    fn callers_that_are_gone_are_forgotten_though_others_go_on() {
        let syncs = Syncs::default();
        drop((0..8).map(|_| syncs.enter(need(1))).collect::<Vec<_>>());
        let mut last = syncs.enter(need(1));
        for _ in 0..2 * TIME {
            // The next one begins before the last one ends.
            let next = syncs.enter(need(1));
            drop(std::mem::replace(&mut last, next));
        }
        assert_eq!(
            syncs.beside(),
            Beside {
                callers: 1,
                blocks: 1,
                runs: 1
            }
        );
    }
}
