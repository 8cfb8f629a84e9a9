//! The extent cache of a file: its largest run of neighbouring blocks, which the inode keeps on the
//! device (with a journal it does not), and some recent ones.
//!
//! - E1 what is cached here agrees with the address slots: every function that changes a slot tells
//!   the cache, which forgets or learns the blocks.
//!
//! As in Linux, the inode loses the run kept on the device when its blocks have been overwritten
//! out of place piece by piece until no run of 64 blocks is left.

use ondisk::f2fs::{BlockAddr, Extent, Nid};

/// Runs remembered besides the largest.
const RECENT: usize = 8;
/// A largest run below this is given up when a part of it moves (`F2FS_MIN_EXTENT_LEN`).
const LEN_MIN: u32 = 64;

/// The direct node (or inode) that was found last: the pages whose slots it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastNode {
    pub first: u64,
    pub end: u64,
    pub nid: Nid,
}

/// What the `tree` lock of an inode guards. Functions that read or change a mapping take it as
/// their token.
#[derive(Default, Debug)]
pub(crate) struct Tree {
    largest: Extent,
    /// No run is kept any more.
    given_up: bool,
    recent: Vec<Extent>,
    /// The oldest of `recent`.
    next: usize,
    pub(super) last: Option<LastNode>,
    /// Number of the last flight with nodes of this inode that an fsync wrote.
    pub(crate) chained: u64,
    /// A direct node that checkpoint or chain knew was freed below an indirect one. No inode block
    /// tells roll-forward so.
    pub(crate) cut_below: bool,
}

impl Tree {
    /// The extent cache of an inode that has this largest run.
    pub fn new(largest: Extent) -> Tree {
        Tree {
            largest,
            ..Tree::default()
        }
    }

    /// The largest run.
    pub fn largest(&self) -> Extent {
        self.largest
    }

    /// The block of page `index`, and how many behind it are neighbours.
    pub fn find(&self, index: u64) -> Option<(BlockAddr, u64)> {
        let inside = |e: &Extent| {
            let skip = index.checked_sub(u64::from(e.fofs))?;
            let left = u64::from(e.len).checked_sub(skip).filter(|&n| n > 0)?;
            Some((e.addr.checked_add(skip as u32)?, left))
        };
        inside(&self.largest).or_else(|| self.recent.iter().find_map(inside))
    }

    /// Adds a run that was read from the slots.
    pub fn learn(&mut self, index: u64, addr: BlockAddr, len: u64) {
        let (Ok(fofs), Ok(len)) = (u32::try_from(index), u32::try_from(len)) else {
            return;
        };
        if len < 2 {
            return;
        }
        let extent = Extent { fofs, addr, len };
        if self.recent.len() < RECENT {
            self.recent.push(extent);
        } else {
            self.recent[self.next] = extent;
            self.next = (self.next + 1) % RECENT;
        }
    }

    /// Page `index` lies at `addr` now, or nowhere (no block). True if the largest run changed, so
    /// that the inode has to record it.
    pub fn moved(&mut self, index: u64, addr: BlockAddr) -> bool {
        let before = self.largest;
        let cut = self.forget(index, index + 1);
        if addr.is_data()
            && let Ok(fofs) = u32::try_from(index)
        {
            self.extend(fofs, addr);
            if cut && before.len < LEN_MIN && self.largest.len < LEN_MIN {
                self.largest = Extent::default();
                self.given_up = true;
            }
        }
        self.largest != before
    }

    /// Pages of `from..to` have other slots now. True if the largest run was among them.
    pub fn forget(&mut self, from: u64, to: u64) -> bool {
        self.recent
            .retain(|e| u64::from(e.fofs) >= to || u64::from(e.fofs) + u64::from(e.len) <= from);
        self.next = 0;
        let (start, end) = range(&self.largest);
        if self.largest.len == 0 || start >= to || end <= from {
            return false;
        }
        // The longer of what is left in front and behind.
        let front = from.saturating_sub(start);
        let behind = end.saturating_sub(to);
        let skip = to - start.min(to);
        self.largest = match self.largest.addr.checked_add(skip as u32) {
            Some(addr) if behind > front => Extent {
                fofs: to as u32,
                addr,
                len: behind as u32,
            },
            _ if front > 0 => Extent {
                len: front as u32,
                ..self.largest
            },
            _ => Extent::default(),
        };
        true
    }

    /// A page joins the runs that end in front of it or begin behind it.
    fn extend(&mut self, fofs: u32, addr: BlockAddr) {
        let one = Extent { fofs, addr, len: 1 };
        let mut grown = one;
        for extent in self.recent.iter_mut() {
            if let Some(joined) = join(extent, &one) {
                *extent = joined;
                grown = if joined.len > grown.len {
                    joined
                } else {
                    grown
                };
            }
        }
        if self.given_up {
            return;
        }
        if let Some(joined) = join(&self.largest, &one) {
            self.largest = joined;
        } else if grown.len > self.largest.len {
            self.largest = grown;
        }
        if grown.len == 1 {
            // The start of a run of its own, perhaps.
            self.learn_one(one);
        }
    }

    fn learn_one(&mut self, one: Extent) {
        if self.recent.len() < RECENT {
            self.recent.push(one);
        } else {
            self.recent[self.next] = one;
            self.next = (self.next + 1) % RECENT;
        }
    }
}

fn range(e: &Extent) -> (u64, u64) {
    let start = u64::from(e.fofs);
    (start, start + u64::from(e.len))
}

/// One page in front of a run or behind it.
fn join(run: &Extent, one: &Extent) -> Option<Extent> {
    let behind = run.len > 0
        && run.fofs.checked_add(run.len) == Some(one.fofs)
        && run.addr.checked_add(run.len) == Some(one.addr);
    if behind {
        return Some(Extent {
            len: run.len + 1,
            ..*run
        });
    }
    let before = run.len > 0
        && one.fofs.checked_add(1) == Some(run.fofs)
        && one.addr.checked_add(1) == Some(run.addr);
    before.then(|| Extent {
        fofs: one.fofs,
        addr: one.addr,
        len: run.len + 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use std::collections::BTreeMap;

    /// E1 against a plain table.
    #[test]
    fn the_cache_says_what_the_slots_say() {
        for seed in 0..40 {
            let mut rng = Rng::named(seed, "extents");
            let mut tree = Tree::default();
            let mut slots: BTreeMap<u64, u32> = BTreeMap::new();
            let mut next = 1000;
            for _ in 0..400 {
                let at = rng.below(60);
                match rng.below(10) {
                    0 => {
                        let to = at + 1 + rng.below(20);
                        slots.retain(|i, _| !(at..to).contains(i));
                        tree.forget(at, to);
                    }
                    1 => {
                        slots.remove(&at);
                        tree.moved(at, BlockAddr::NULL);
                    }
                    _ => {
                        for index in at..at + 1 + rng.below(8) {
                            slots.insert(index, next);
                            let before = tree.largest();
                            let told = tree.moved(index, BlockAddr(next));
                            assert_eq!(told, tree.largest() != before, "E1");
                            next += 1;
                        }
                        next += rng.below(2) as u32;
                    }
                }
                for index in 0..100 {
                    if let Some((addr, len)) = tree.find(index) {
                        for n in 0..len {
                            let slot = slots.get(&(index + n)).copied();
                            assert_eq!(
                                slot,
                                Some(addr.0 + n as u32),
                                "E1: seed {seed}, page {index}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_appended_file_is_one_run_and_small_rewrites_give_it_up() {
        let mut tree = Tree::default();
        for n in 0..100 {
            assert!(tree.moved(n, BlockAddr(500 + n as u32)), "it grew");
        }
        assert_eq!(tree.find(20), Some((BlockAddr(520), 80)));
        let mut small = Tree::default();
        for n in 0..10 {
            small.moved(n, BlockAddr(500 + n as u32));
        }
        assert!(small.moved(3, BlockAddr(900)));
        assert_eq!(small.largest().len, 0);
        assert!(!small.moved(4, BlockAddr(901)), "given up for good");
    }

    #[test]
    fn numbers_at_their_ends_do_not_overflow() {
        let mut tree = Tree::new(Extent {
            fofs: u32::MAX,
            addr: BlockAddr(u32::MAX - 3),
            len: u32::MAX,
        });
        assert!(
            tree.find(u64::from(u32::MAX) + 9).is_none(),
            "no such block"
        );
        tree.moved(u64::MAX - 1, BlockAddr(7));
        tree.moved(5, BlockAddr(u32::MAX - 2));
        tree.moved(6, BlockAddr(u32::MAX - 1));
        tree.forget(0, u64::MAX);
        assert_eq!(tree.largest().len, 0);
    }
}
