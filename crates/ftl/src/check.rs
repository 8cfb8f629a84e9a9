//! Checks of the invariants, for tests.

use crate::config::{LOST, NONE};
use crate::core::{Ftl, State};
use crate::slc::{ORDINARY, SLC};
use crate::tag::Kind;
use std::collections::{BTreeMap, BTreeSet};

impl Ftl {
    /// Asserts every invariant that can be checked on one state. Slow: looks at every slot.
    ///
    /// # Panics
    /// With the number of the invariant that does not hold.
    pub fn check(&self) {
        let mut valid = vec![0; self.layout.blocks as usize];
        let mut owners: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (lpn, &ppn) in self.l2p.iter_present().filter(|(_, p)| **p < LOST) {
            owners.entry(ppn).or_default().insert(lpn as u32);
            self.check_content(lpn as u32);
        }
        for (ppn, who) in &owners {
            assert!(
                who.contains(self.p2l.get(*ppn as usize)),
                "ftl-I1: P2L does not answer L2P at slot {ppn}"
            );
            valid[self.layout.place(*ppn).0 as usize] += 1;
        }
        self.check_owners(&owners);
        let owned = self
            .p2l
            .iter_present()
            .filter(|(_, lpn)| **lpn != NONE)
            .count();
        assert_eq!(
            owned,
            valid.iter().sum::<u32>() as usize,
            "ftl-I1: a slot has an owner that left it"
        );
        for (i, info) in self.blocks.iter().enumerate() {
            assert_eq!(
                info.valid, valid[i],
                "ftl-I1: valid count of block {i} ({:?})",
                info.state
            );
            let idle = matches!(info.state, State::Free | State::Bad | State::Meta);
            assert!(
                !idle || info.valid == 0,
                "ftl-I1: block {i} is {:?} and holds data",
                info.state
            );
            assert!(
                info.filled <= self.layout.rows_in(i as u32),
                "ftl-I1: block {i} holds too many rows"
            );
        }
        for pool in [ORDINARY, SLC] {
            self.check_pool(pool);
        }
        for (stream, s) in self.streams.iter().enumerate() {
            for block in s.lanes.iter().flatten() {
                assert_eq!(
                    self.pool_of(*block),
                    self.pool_for(stream),
                    "slc-I12: block {block} is open for stream {stream}"
                );
            }
        }
        let lanes = self.streams.iter().flat_map(|s| s.lanes.iter().flatten());
        for block in lanes {
            assert_eq!(
                self.blocks[*block as usize].state,
                State::Open,
                "ftl-I1: block {block} of a lane is not open"
            );
        }
    }
    /// Checks that the lists of owners agree with L2P.
    fn check_owners(&self, owners: &BTreeMap<u32, BTreeSet<u32>>) {
        let mut extra = 0;
        for (ppn, list) in self.owners.iter() {
            let listed: BTreeSet<u32> = list.iter().map(|o| o.lpn).collect();
            assert_eq!(
                Some(&listed),
                owners.get(&ppn),
                "ftl-I1: the list of owners of slot {ppn}"
            );
            assert_eq!(listed.len(), list.len(), "ftl-I1: twice an owner of {ppn}");
            extra += list.len() as u32 - 1;
        }
        for (ppn, who) in owners {
            assert!(
                who.len() == 1 || self.owners.of(*ppn).is_some(),
                "ftl-I1: slot {ppn} has owners {who:?} and no list"
            );
        }
        assert_eq!(extra, self.owners.extra(), "ftl-I1: count of owners");
        assert!(
            extra <= self.owners.cap.max(self.owners.found),
            "remap-I16: {extra} owners beyond the first, at most {}",
            self.owners.cap
        );
        for batch in &self.log.batches {
            for pair in batch.pairs.iter().filter(|p| p.slot != NONE) {
                assert!(
                    self.buffered(pair.slot).is_none(),
                    "ftl-I3: a record names slot {}, which is in memory",
                    pair.slot
                );
            }
        }
        for lpn in self.log.owners.keys() {
            assert!(
                self.slot_of(*lpn).is_some(),
                "ftl-I2: a record for unit {lpn}, which owns nothing"
            );
        }
    }
    /// Checks the counts of a pool.
    fn check_pool(&self, pool: usize) {
        let blocks = self.blocks.iter().enumerate();
        let mine: Vec<_> = blocks
            .filter(|(i, _)| self.pool_of(*i as u32) == pool)
            .map(|(_, b)| b)
            .collect();
        let free = mine.iter().filter(|b| b.state == State::Free).count();
        assert_eq!(
            free, self.pools[pool].free as usize,
            "ftl-I6: count of free blocks of pool {pool}"
        );
        assert_eq!(
            free as u32,
            self.free.count(pool),
            "ftl-I8: set of free blocks of pool {pool}"
        );
        self.check_lists(pool);
        let failing = mine
            .iter()
            .filter(|b| b.failing && b.state == State::Closed)
            .count();
        assert_eq!(
            failing, self.pools[pool].failing as usize,
            "ftl-I1: count of failing blocks of pool {pool}"
        );
    }
    /// Checks that the lists of closed blocks agree with the block table.
    fn check_lists(&self, pool: usize) {
        let mut listed: Vec<u32> = self.victims.closed(pool).collect();
        listed.sort_unstable();
        let closed = (0u32..)
            .zip(&self.blocks)
            .filter(|(i, b)| b.state == State::Closed && self.pool_of(*i) == pool);
        let closed: Vec<u32> = closed.map(|(i, _)| i).collect();
        assert_eq!(
            listed, closed,
            "ftl-I7: list of closed blocks of pool {pool}"
        );
        for block in closed {
            let listed = self.victims.valid_of(block);
            assert!(
                listed == Some(self.blocks[block as usize].valid) || self.is_victim(block),
                "ftl-I7: block {block} is in bucket {listed:?}"
            );
        }
    }
    /// Checks that the slot of a mapped unit holds a unit of that number, or is unreadable.
    fn check_content(&self, lpn: u32) {
        let ppn = *self.l2p.get(lpn as usize);
        if let Some((tag, _)) = self.fetch(ppn) {
            assert!(
                tag.kind != Kind::Pad || self.buffered(ppn).is_some(),
                "ftl-I1: unit {lpn} points to {tag:?}"
            );
        }
    }
    /// Erases of each block that carries data, for reports and tests of wear levelling.
    pub fn wear(&self) -> Vec<u32> {
        let data = self
            .blocks
            .iter()
            .filter(|b| b.state != State::Meta && b.state != State::Bad);
        data.map(|b| b.erases).collect()
    }
}
