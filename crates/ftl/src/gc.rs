//! Garbage collection: empties a victim (see `victim`) in bounded steps.

use crate::config::{NONE, RESERVE};
use crate::core::{Entry, FOLD, Ftl, FtlError, GC};
use crate::owners::Owner;
use crate::slc::{ORDINARY, SLC};
use crate::tag::{GroupMark, Kind};
use crate::wear::LEVEL_PACE;
use base::{Mutant, Time, fill};

/// Units to copy per unit that the host writes, so that a victim with `valid` valid slots is empty
/// before the blocks run out. Shared with [`crate::counting`].
pub(crate) fn pace(valid: u32, slots: u32, levelling: bool) -> u32 {
    match levelling {
        true => LEVEL_PACE,
        false => valid.div_ceil((slots - valid).max(1)) + 1,
    }
}

impl Ftl {
    /// Does the bounded step that a host write pays for: enough copies of the current victim to
    /// keep pace with the writes.
    pub(crate) fn background_step(&mut self, now: Time) -> Result<(), FtlError> {
        self.begin_levelling();
        let low = self.config.low_water();
        let pool = &self.pools[ORDINARY];
        if pool.free > low && pool.failing == 0 && !self.is_levelling() {
            return Ok(());
        }
        let Some((block, _)) = self.pick_victim(ORDINARY) else {
            return Ok(());
        };
        let valid = self.blocks[block as usize].valid;
        let budget = pace(valid, self.layout.slots_per_block, self.is_levelling());
        self.collect(now, ORDINARY, budget)
    }
    /// How urgently free blocks are needed: 0 not at all, 1 soon, 2 host writes pay for collection,
    /// 3 they stop for it.
    pub fn need(&self) -> u8 {
        self.ordinary_need().max(self.slc_need())
    }
    fn ordinary_need(&self) -> u8 {
        let low = self.config.low_water();
        match self.pools[ORDINARY].free {
            free if free > 2 * low - RESERVE => 0,
            free if free > low => 1,
            free if free > RESERVE + 1 => 2,
            _ => 3,
        }
    }
    /// Copies up to `units` units out of a victim while the device is idle. Answers when the chips
    /// have finished that, or `None` if there is no need or nothing to gain.
    ///
    /// # Errors
    /// The device became read-only.
    pub fn collect_idle(&mut self, now: Time, units: u32) -> Result<Option<Time>, FtlError> {
        if self.ordinary_need() == 0 || self.read_only.is_some() {
            return Ok(None);
        }
        let Some((block, _)) = self.pick_victim(ORDINARY) else {
            return Ok(None);
        };
        // A nearly full victim costs a block of copies and gains almost nothing.
        let gain = self.layout.slots_per_block - self.blocks[block as usize].valid;
        if gain * 16 < self.layout.slots_per_block && self.ordinary_need() < 3 {
            return Ok(None);
        }
        self.collect(now, ORDINARY, units)?;
        Ok(Some(self.nand.all_free().max(now)))
    }
    /// Empties one victim of a pool, in one go; `false` if there is none.
    pub(crate) fn collect_victim(&mut self, now: Time, pool: usize) -> Result<bool, FtlError> {
        if self.pick_victim(pool).is_none() {
            return Ok(false);
        }
        self.collect(now, pool, u32::MAX)?;
        Ok(true)
    }
    /// The current victim, or the next one: failing blocks first, then the choice of the policy
    /// (ftl-I7). In the SLC area every full block may be a victim, because its copies take fewer
    /// cells.
    pub(crate) fn pick_victim(&mut self, pool: usize) -> Option<(u32, u32)> {
        if self.pools[pool].victim.is_none() {
            let (slots, now) = (self.layout.slots_per_block, self.accepted);
            let next = match self.failing_block(pool) {
                Some(block) => Some(block),
                // Cuts have left too few blocks to move full ones, so first come the blocks that
                // recovery closed with little in them.
                None if pool == SLC || self.cuts_took_reserve() => {
                    self.victims.fewest_valid(pool, NONE, &self.blocks)
                }
                None => self.victims.choose(pool, slots, &self.blocks, now),
            };
            if let Some(block) = next.filter(|_| pool == ORDINARY) {
                self.stats
                    .note_victim(self.blocks[block as usize].valid, slots);
            }
            self.pools[pool].levelling = false;
            self.pools[pool].victim = next.map(|block| (block, 0));
        }
        self.pools[pool].victim
    }
    /// True if the reserve (ftl-I6) is not whole although the cold stream has no block open: each
    /// cut during collection closes a block for good.
    fn cuts_took_reserve(&self) -> bool {
        self.pools[ORDINARY].free < RESERVE && self.streams[GC].lanes[0].is_none()
    }
    /// True for a block that is being emptied; such a block leaves its list when it is released.
    pub(crate) fn is_victim(&self, block: u32) -> bool {
        let mut victims = self.pools.iter().filter_map(|p| p.victim);
        victims.any(|(victim, _)| victim == block)
    }
    /// The closed block with the fewest valid slots among those in which a program failed.
    fn failing_block(&self, pool: usize) -> Option<u32> {
        if self.pools[pool].failing == 0 {
            return None;
        }
        let block = |b: u32| &self.blocks[b as usize];
        let failing = self.victims.closed(pool).filter(|b| block(*b).failing);
        failing.min_by_key(|b| (block(*b).valid, block(*b).erases, *b))
    }
    /// Copies up to `budget` units of the victim; the block is released when its last valid slot
    /// has moved.
    pub(crate) fn collect(&mut self, now: Time, pool: usize, budget: u32) -> Result<(), FtlError> {
        let Some((block, mut slot)) = self.pools[pool].victim else {
            return Ok(());
        };
        let mut copied = 0;
        let end = self.layout.slots_in(block);
        let to = if pool == SLC { FOLD } else { GC };
        while slot < end && copied < budget && self.pools[pool].victim.is_some() {
            let row = slot / self.layout.slots_per_row;
            let next = (row + 1) * self.layout.slots_per_row;
            let first = self.layout.ppn(block, row, 0);
            let live: Vec<u32> = (first..first + self.layout.slots_per_row)
                .filter(|p| *self.p2l.get(*p as usize) != NONE)
                .collect();
            // A copy must not show a part of a batch that is only in memory (remap-I13).
            if live.iter().any(|p| self.has_unlogged_owner(*p)) {
                self.write_log(now)?;
            }
            if !live.is_empty() {
                let read = self.charge_row_read(now, block, row, live.len());
                for ppn in live {
                    self.copy(now, read, ppn, to)?;
                    copied += 1;
                }
            }
            slot = next;
            if let Some(victim) = &mut self.pools[pool].victim {
                victim.1 = slot;
            }
        }
        if slot >= end && self.pools[pool].victim.is_some_and(|(v, _)| v == block) {
            assert_eq!(
                self.blocks[block as usize].valid, 0,
                "ftl-I1: a collected block has valid slots left"
            );
            self.pools[pool].victim = None;
        }
        Ok(())
    }
    /// Moves one valid slot into a stream of copies; its owners' versions travel with it (ftl-I4).
    pub(crate) fn copy(
        &mut self,
        now: Time,
        read: Time,
        ppn: u32,
        to: usize,
    ) -> Result<(), FtlError> {
        let mut owners = self.owners_of(ppn);
        if owners.is_empty() {
            return Ok(());
        }
        let Some((tag, data)) = self.fetch(ppn).filter(|(tag, _)| tag.kind != Kind::Pad) else {
            return self.copy_lost(now.max(read), owners, to);
        };
        // hazards-R4
        let shared = owners.len() > 1 || owners[0].lpn != tag.lpn;
        if shared && self.mutant(Mutant::CollectByTag) {
            for owner in owners.iter().filter(|o| o.lpn != tag.lpn) {
                self.leave(owner.lpn);
                self.l2p.set(owner.lpn as usize, NONE);
            }
            owners.retain(|o| o.lpn == tag.lpn);
            if owners.is_empty() {
                return Ok(());
            }
        }
        let owner = Ftl::preferred(&owners, tag.lpn);
        let entry = Entry {
            lpn: owner.lpn,
            data,
            lost: tag.kind == Kind::Lost,
            birth: Some(owner.version),
            accept: 0,
            host: false,
            // group-I11: the copy keeps the unit's place, if the group is still open when it is
            // programmed.
            member: match tag.mark {
                GroupMark::Member(index) => Some((tag.group, index)),
                _ => None,
            },
        };
        // remap-I13: a tag that shows a part of a batch is programmed when all of the batch is on
        // flash.
        let from = match shared {
            true => now.max(read).max(self.log.batch_end),
            false => now.max(read),
        };
        self.count_copy(to);
        self.put_shared(from, to, entry, ppn)
    }
    /// Copies a slot whose page decayed: the copy is marked as lost, so that reads of its units
    /// fail.
    fn copy_lost(&mut self, now: Time, owners: Vec<Owner>, to: usize) -> Result<(), FtlError> {
        for owner in owners {
            let entry = Entry {
                lpn: owner.lpn,
                data: fill::zeros(self.layout.unit_bytes as usize),
                lost: true,
                birth: None,
                accept: 0,
                host: false,
                member: None,
            };
            self.count_copy(to);
            self.put(now, to, entry)?;
        }
        Ok(())
    }
    fn count_copy(&mut self, to: usize) {
        match to {
            FOLD => self.stats.fold_units += 1,
            _ if self.is_levelling() => self.stats.wear_units += 1,
            _ => self.stats.gc_units += 1,
        }
    }
    /// Puts a copy of the slot `from` for the owner in the entry; the slot's other owners follow.
    pub(crate) fn put_shared(
        &mut self,
        now: Time,
        to: usize,
        entry: Entry,
        from: u32,
    ) -> Result<(), FtlError> {
        let lpn = entry.lpn;
        let owners = self.owners_of(from);
        let Some(tagged) = owners.iter().find(|o| o.lpn == lpn).copied() else {
            return Ok(());
        };
        self.put(now, to, entry)?;
        if let Some(row) = &mut self.streams[to].row {
            row.ready = row.ready.max(now);
        }
        if owners.len() > 1 {
            let slot = *self.l2p.get(lpn as usize);
            self.follow(from, slot, tagged);
        }
        Ok(())
    }
}
