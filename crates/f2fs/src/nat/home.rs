//! Home: the NAT as the newest durable pack has it, beside the live table that operations change.
//! F2FSJ's apply writes the home table.
//!
//! An entry at home is that of the NAT journal of the pack, or of the NAT block; what operations
//! made of it since (`dirty`) does not count. Live and home differ in what epochs behind the
//! applied one did, and in nothing else.
//!
//! - T5 between its birth and its end a node gets another block only in [`publish`](Nat::publish),
//!   under the lock of the table: the live entry takes the new place if the node that apply wrote
//!   still exists. If that node was freed since, also if its number was then given to another node,
//!   the new place is given up at once. So no address is lost, and none has two owners. Whether the
//!   node still exists is decided by the last epoch in which the number became used or free
//!   (`turns`), never by the entry: the entry of a number that was freed, given out and freed again
//!   reads as at home in between;
//! - T6 a node is freed together with the block that its entry names, under that same lock: so a
//!   publish sees both as freed or neither.

use super::{Nat, NatToWrite, State};
use crate::journal::Epoch;
use crate::segs::Segments;
use base::Map;
use block::Plug;
use fscore::FsResult;
use ondisk::f2fs::{BlockAddr, NAT_PER_BLOCK, NatEntry, Nid};
use rt::MutexGuard;
use std::collections::BTreeMap;

/// What becomes of an entry at home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NatChange {
    /// As it is now.
    pub from: NatEntry,
    /// As the next pack has it.
    pub to: NatEntry,
}

/// A node that was freed.
#[derive(Debug)]
pub(crate) struct FreedNode {
    /// The entry that it had.
    pub was: NatEntry,
    /// The entry of the free number.
    pub is: NatEntry,
    /// Damage: its block was not valid.
    pub block: FsResult<()>,
}

/// A node that apply wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MovedNode {
    pub nid: Nid,
    /// Where it was at home; NULL if it is new there.
    pub from: BlockAddr,
    /// Where it is now.
    pub to: BlockAddr,
}

impl Nat {
    /// Entries at home, in the order of `nids`. Reads the blocks that are missing, many at once.
    ///
    /// # Errors
    /// A number that cannot be; I/O.
    pub fn home(&self, nids: &[Nid]) -> FsResult<Vec<NatEntry>> {
        let mut found: Vec<Option<NatEntry>> = vec![None; nids.len()];
        let mut state = self.state.lock();
        loop {
            let mut missing = Vec::new();
            for (&nid, found) in nids.iter().zip(&mut found) {
                if found.is_none() {
                    self.check(nid)?;
                    let (block, index) = self.geo.nat_block(nid);
                    *found = state.at_home(nid, block, index);
                    if found.is_none() && missing.last() != Some(&block) {
                        missing.push(block);
                    }
                }
            }
            if missing.is_empty() {
                return Ok(found.into_iter().flatten().collect());
            }
            missing.sort_unstable();
            missing.dedup();
            missing.truncate(super::BLOCKS_CACHED / 4);
            state = self.load_blocks(state, &missing)?;
        }
    }

    /// All entries of a NAT block at home (counted in one copy).
    ///
    /// # Errors
    /// I/O.
    pub fn home_block(&self, block: u32) -> FsResult<Vec<NatEntry>> {
        let first = block * NAT_PER_BLOCK as u32;
        let mut state = self.state.lock();
        while !state.blocks.has(block) {
            state = self.load_blocks(state, &[block])?;
        }
        let entries = 0..NAT_PER_BLOCK;
        let found: Vec<NatEntry> = entries
            .filter_map(|n| state.at_home(Nid(first + n as u32), block, n))
            .collect();
        debug_assert_eq!(found.len(), NAT_PER_BLOCK, "the block is in memory");
        Ok(found)
    }

    /// Like [`flush`](Self::flush), for a pack that contains these entries and otherwise what the
    /// last pack had. Nothing changes in memory before [`publish`](Self::publish). One apply at a
    /// time.
    ///
    /// # Errors
    /// Reading blocks of which few entries change.
    pub fn flush_home(
        &self,
        changes: &BTreeMap<Nid, NatChange>,
        plug: &mut Plug,
    ) -> FsResult<NatToWrite> {
        let changed = changes
            .iter()
            .filter(|(_, change)| change.from != change.to);
        let changed: Map<u32, NatEntry> = changed.map(|(&n, c)| (n.0, c.to)).collect();
        self.flush_entries(changed, plug)
    }

    /// The pack that `written` went into is durable, with all epochs up to `target` (T5): it is
    /// home from now on, and live entries name the new places of the nodes that were written.
    /// Blocks that no entry names any more become invalid in the live state. Answers how many of
    /// the nodes were freed meanwhile.
    ///
    /// # Errors
    /// Damage: a block that apply moved was not valid.
    pub fn publish(
        &self,
        written: NatToWrite,
        changes: &BTreeMap<Nid, NatChange>,
        moved: &[MovedNode],
        target: Epoch,
        segs: &Segments,
    ) -> FsResult<u64> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.home_is(written);
        let mut dead = 0;
        for node in moved {
            if state.has_turned_since(node.nid, target) {
                dead += 1;
                segs.invalidate(node.to)?;
                continue;
            }
            let live = state.dirty.get_mut(&node.nid.0);
            debug_assert!(
                live.as_ref().is_none_or(|e| e.addr != BlockAddr::NULL),
                "T5: node {} is free, and no epoch behind {} freed it",
                node.nid,
                target.0
            );
            // Without an entry of its own it is the one at home, which names the new place already.
            if let Some(live) = live {
                live.addr = node.to;
            }
            if node.from.is_data() {
                segs.invalidate(node.from)?;
            }
        }
        for (&nid, change) in changes {
            state.is_home(nid, &change.to, target);
        }
        Ok(dead)
    }

    /// Frees a node in this epoch, if there is a journal: its number and its block (T6).
    ///
    /// # Errors
    /// I/O.
    pub fn free(&self, nid: Nid, segs: &Segments, epoch: Option<Epoch>) -> FsResult<FreedNode> {
        let (mut state, was) = self.entry_of(nid)?;
        rt::charge(base::cost::f2fs::NAT_SET);
        let is = super::freed(was);
        state.put(nid, was, is);
        if let Some(epoch) = epoch {
            state.turns.insert(nid.0, epoch);
        }
        let block = match was.addr.is_data() {
            true => segs.invalidate(was.addr),
            false => Ok(()),
        };
        Ok(FreedNode { was, is, block })
    }

    /// Live entries that differ from home, by number: none when everything is applied.
    pub fn ahead_of_home(&self) -> Vec<(Nid, NatEntry)> {
        let state = self.state.lock();
        let mut all: Vec<_> = state.dirty.iter().map(|(&n, &e)| (Nid(n), e)).collect();
        all.sort_unstable_by_key(|(nid, _)| *nid);
        all
    }

    /// The live entry, and the table under the lock in which it was found.
    pub(super) fn entry_of(&self, nid: Nid) -> FsResult<(MutexGuard<'_, State>, NatEntry)> {
        self.check(nid)?;
        let (block, index) = self.geo.nat_block(nid);
        let mut state = crate::locks::lock(&self.state);
        loop {
            let found = state.overlay(nid.0);
            if let Some(entry) = found.or_else(|| state.at_home(nid, block, index)) {
                if entry.addr != BlockAddr::NULL {
                    state.cached.note(nid.0);
                }
                return Ok((state, entry));
            }
            state = self.load_blocks(state, &[block])?;
        }
    }
}

impl State {
    /// The entry at home, if its block is in memory.
    fn at_home(&mut self, nid: Nid, block: u32, index: usize) -> Option<NatEntry> {
        let in_journal = self.journal.get(&nid.0).copied();
        in_journal.or_else(|| Some(NatEntry::get(self.blocks.get(block)?, index)))
    }

    /// What was written counts now.
    pub(super) fn home_is(&mut self, written: NatToWrite) {
        self.flushes += 1;
        self.bitmap = written.bitmap;
        self.journal = written.journal.iter().map(|&(n, e)| (n.0, e)).collect();
        for (block, bytes) in written.blocks {
            self.blocks.put(block, bytes);
        }
    }

    /// The number became used or free in an epoch behind `target`.
    fn has_turned_since(&self, nid: Nid, target: Epoch) -> bool {
        self.turns.get(&nid.0).is_some_and(|&e| e > target)
    }

    /// Home has this entry now: the live one needs none of its own if it says the same, and will
    /// until the next pack (T5).
    fn is_home(&mut self, nid: Nid, entry: &NatEntry, target: Epoch) {
        if self.has_turned_since(nid, target) {
            return;
        }
        self.turns.remove(&nid.0);
        if self.dirty.get(&nid.0) == Some(entry) {
            self.dirty.remove(&nid.0);
            self.history.remove(&nid.0);
            self.freed -= u32::from(entry.addr == BlockAddr::NULL && self.freed > 0);
        }
    }
}
