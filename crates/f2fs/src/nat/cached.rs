//! Which entries Linux would hold in memory: its operations look at the triggers of checkpoints
//! only while these are many ([`Triggers::cached_nat_max`](crate::Triggers::cached_nat_max)).
//!
//! Here whole blocks of the table are cached, so that nothing but the number of the entries is
//! needed, and the order in which Linux lets go of them. An entry comes with the first look at a
//! number or the first change, and goes with the checkpoint that has its number as free, or as one
//! of the oldest clean ones when they are too many.

use base::Map;
use std::collections::VecDeque;

/// Entries that are let go at a time, those of a block (Linux `NAT_ENTRY_PER_BLOCK`).
const LET_GO: usize = 455;
/// Entries that one call looks at for that: it comes with operations, and most may be dirty.
const LOOK_AT: usize = 4 * LET_GO;

#[derive(Default)]
pub(super) struct Cached {
    /// A bit for each number.
    held: Vec<u64>,
    count: u64,
    /// Those that are held, and some that were, oldest first.
    order: VecDeque<u32>,
}

impl Cached {
    /// Number of entries.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes in memory.
    pub fn memory(&self) -> usize {
        8 * self.held.len() + 4 * self.order.len()
    }

    /// The entry of a number is in memory from now on.
    pub fn note(&mut self, nid: u32) {
        let (word, bit) = (nid as usize / 64, 1 << (nid % 64));
        if self.held.len() <= word {
            self.held.resize(word + 1, 0);
        }
        if self.held[word] & bit == 0 {
            self.held[word] |= bit;
            self.count += 1;
            self.order.push_back(nid);
        }
    }

    /// It is not any more.
    pub fn forget(&mut self, nid: u32) {
        let (word, bit) = (nid as usize / 64, 1 << (nid % 64));
        if self.held.get(word).is_some_and(|held| held & bit != 0) {
            self.held[word] &= !bit;
            self.count -= 1;
        }
        // Numbers that are freed and taken again stand in the order more than once.
        if self.order.len() > 64 + 2 * self.count as usize {
            let held = &self.held;
            self.order
                .retain(|nid| held[*nid as usize / 64] >> (nid % 64) & 1 != 0);
        }
    }

    /// Lets go of some of the oldest entries that are not `dirty`.
    pub fn let_go<T>(&mut self, dirty: &Map<u32, T>) {
        let mut gone = 0;
        for _ in 0..self.order.len().min(LOOK_AT) {
            if gone == LET_GO {
                break;
            }
            let Some(nid) = self.order.pop_front() else {
                break;
            };
            match dirty.contains_key(&nid) {
                true => self.order.push_back(nid),
                false => {
                    let before = self.count;
                    self.forget(nid);
                    gone += usize::from(self.count < before);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_once_and_clean_ones_are_let_go() {
        let mut cached = Cached::default();
        for nid in (0..1000).chain(500..1500) {
            cached.note(nid);
        }
        assert_eq!(cached.count(), 1500);
        for nid in 1400..1600 {
            cached.forget(nid);
        }
        assert_eq!(cached.count(), 1400);
        let dirty: Map<u32, ()> = (0..1200).map(|nid| (nid, ())).collect();
        cached.let_go(&dirty);
        assert_eq!(cached.count(), 1200, "200 of them are clean");
        cached.let_go(&Map::<u32, ()>::default());
        assert_eq!(cached.count(), 1200 - LET_GO as u64);
        for _ in 0..3 {
            cached.let_go(&Map::<u32, ()>::default());
        }
        assert_eq!(cached.count(), 0, "none is forgotten in the order");
        for _ in 0..100 {
            (0..1000).for_each(|nid| cached.note(nid));
            (0..1000).for_each(|nid| cached.forget(nid));
        }
        assert!(cached.memory() < 64 * 1024, "{} bytes", cached.memory());
    }
}
