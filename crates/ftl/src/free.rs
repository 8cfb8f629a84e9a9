//! The free blocks, by pool, die and wear: dynamic wear levelling.
//!
//! Hot data goes into the least worn free block, cold data into the most worn one, so that blocks
//! take turns at being erased often (dynamic wear levelling). Data that is never overwritten is
//! moved by `wear`.

use std::collections::BTreeSet;

/// Free blocks. Shared by the real FTL and [`crate::counting`].
#[derive(Clone, Debug)]
pub(crate) struct FreeBlocks {
    dies: u32,
    /// (erases, block), per pool and die.
    sets: Vec<BTreeSet<(u32, u32)>>,
}

impl FreeBlocks {
    pub fn new(dies: u32) -> FreeBlocks {
        FreeBlocks {
            dies,
            sets: vec![BTreeSet::new(); 2 * dies as usize],
        }
    }
    fn set(&mut self, pool: usize, block: u32) -> &mut BTreeSet<(u32, u32)> {
        &mut self.sets[pool * self.dies as usize + (block % self.dies) as usize]
    }
    fn pool(&self, pool: usize) -> &[BTreeSet<(u32, u32)>] {
        let dies = self.dies as usize;
        &self.sets[pool * dies..(pool + 1) * dies]
    }
    /// A block has become free.
    pub fn insert(&mut self, pool: usize, block: u32, erases: u32) {
        let new = self.set(pool, block).insert((erases, block));
        assert!(new, "ftl-I8: block {block} becomes free twice");
    }
    /// A free block is taken.
    pub fn take(&mut self, pool: usize, block: u32, erases: u32) {
        let was = self.set(pool, block).remove(&(erases, block));
        assert!(was, "ftl-I8: block {block} is taken and is not free");
    }
    /// Free blocks of a pool.
    pub fn count(&self, pool: usize) -> u32 {
        self.pool(pool).iter().map(|s| s.len() as u32).sum()
    }
    /// The least worn `ready` block, of the lane's own die if there is one; among equals the lowest
    /// number.
    pub fn for_hot(&self, pool: usize, lane: u32, ready: impl Fn(u32) -> bool) -> Option<u32> {
        let first = |s: &BTreeSet<(u32, u32)>| s.iter().find(|(_, b)| ready(*b)).copied();
        let sets = self.pool(pool);
        let own = first(&sets[(lane % self.dies) as usize]);
        own.or_else(|| sets.iter().filter_map(first).min())
            .map(|(_, b)| b)
    }
    /// The most worn `ready` block of any die; among equals the lowest number.
    pub fn for_cold(&self, pool: usize, ready: impl Fn(u32) -> bool) -> Option<u32> {
        let sets = self.pool(pool).iter();
        let most = |s: &BTreeSet<(u32, u32)>| {
            let (erases, _) = *s.iter().rev().find(|(_, b)| ready(*b))?;
            s.range((erases, 0)..).find(|(_, b)| ready(*b)).copied()
        };
        sets.filter_map(most)
            .min_by_key(|(erases, b)| (u32::MAX - erases, *b))
            .map(|(_, b)| b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    #[test]
    fn choices_are_those_of_a_search_through_all() {
        let mut rng = Rng::named(1, "free");
        for _ in 0..300 {
            let dies = 1 + rng.below(4) as u32;
            let mut free = FreeBlocks::new(dies);
            let mut all = Vec::new();
            for block in 0..30 {
                if rng.one_in(2) {
                    continue;
                }
                let erases = rng.below(4) as u32;
                free.insert(1, block, erases);
                all.push((erases, block));
            }
            let blocked = rng.below(30) as u32;
            let ready = |b: u32| !b.is_multiple_of(7) && b != blocked;
            let lane = rng.below(8) as u32;
            let usable = || all.iter().filter(|(_, b)| ready(*b));
            let hot = usable().min_by_key(|(e, b)| (b % dies != lane % dies, *e, *b));
            assert_eq!(free.for_hot(1, lane, ready), hot.map(|(_, b)| *b));
            let cold = usable().min_by_key(|(e, b)| (u32::MAX - e, *b));
            assert_eq!(free.for_cold(1, ready), cold.map(|(_, b)| *b));
            assert_eq!(free.for_hot(0, lane, ready), None, "the other pool");
            if let Some((e, b)) = all.first() {
                free.take(1, *b, *e);
                assert_eq!(free.count(1) as usize, all.len() - 1);
            }
        }
    }
}
