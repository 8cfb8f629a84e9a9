//! Checks of the invariants, for tests.

use super::Ftl;
use super::streams::pool_for;
use crate::config::NONE;
use crate::tag::Kind;
use crate::types::State;
use std::collections::{BTreeMap, BTreeSet};

impl Ftl {
    /// Asserts every invariant that can be checked on one state. Slow: looks at every slot.
    ///
    /// # Panics
    /// With the number of the invariant that does not hold.
    pub fn check(&self) {
        let mut valid = vec![0; self.layout.blocks as usize];
        let mut owners: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (lpn, ppn) in self.map.slots() {
            owners.entry(ppn).or_default().insert(lpn);
            self.check_content(lpn);
        }
        for (ppn, who) in &owners {
            assert!(
                who.contains(&self.map.owner(*ppn)),
                "ftl-I1: P2L does not answer L2P at slot {ppn}"
            );
            valid[self.layout.place(*ppn).0 as usize] += 1;
        }
        self.check_owners(&owners);
        assert_eq!(
            self.map.owned(),
            valid.iter().sum::<u32>() as usize,
            "ftl-I1: a slot has an owner that left it"
        );
        self.blocks.check(&valid);
        for (stream, block) in self.streams.blocks() {
            assert_eq!(
                self.blocks.pool_of(block),
                pool_for(&self.config, stream),
                "slc-I12: block {block} is open for stream {stream}"
            );
            assert_eq!(
                self.blocks.get(block).state,
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
            extra <= self.owners.most(),
            "remap-I16: {extra} owners beyond the first, at most {}",
            self.owners.most()
        );
        for batch in self.log.batches() {
            for pair in batch.pairs.iter().filter(|p| p.slot != NONE) {
                assert!(
                    self.buffered(pair.slot).is_none(),
                    "ftl-I3: a record names slot {}, which is in memory",
                    pair.slot
                );
            }
        }
        for lpn in self.log.owners() {
            assert!(
                self.map.slot_of(lpn).is_some(),
                "ftl-I2: a record for unit {lpn}, which owns nothing"
            );
        }
    }
    /// Checks that the slot of a mapped unit holds a unit of that number, or is unreadable.
    fn check_content(&self, lpn: u32) {
        let ppn = self.map.at(lpn);
        if let Some((tag, _)) = self.fetch(ppn) {
            assert!(
                tag.kind != Kind::Pad || self.buffered(ppn).is_some(),
                "ftl-I1: unit {lpn} points to {tag:?}"
            );
        }
    }
}
