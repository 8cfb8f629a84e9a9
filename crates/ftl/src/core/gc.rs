//! Garbage collection: copies the valid slots of a victim (see `victim`) elsewhere, so that its
//! block becomes free.
//!
//! Host writes and idle work pay for it in bounded steps. A victim is emptied in one go only where
//! the host or folding would otherwise find no block to open (ftl-I6).

use super::owners::Owner;
use super::streams::{Entry, FOLD, GC};
use super::{Ftl, FtlError};
use crate::RESERVE;
use crate::blocks::{ORDINARY, SLC};
use crate::config::NONE;
use crate::tag::{GroupMark, Kind};
use base::{Mutant, Time, fill};

impl Ftl {
    /// Does the bounded step that a host write pays for: enough copies of the current victim to
    /// keep pace with the writes.
    pub(crate) fn background_step(&mut self, now: Time) -> Result<(), FtlError> {
        self.blocks.begin_levelling(&mut self.stats);
        if !self.blocks.collection_due(self.config.low_water()) {
            return Ok(());
        }
        let Some(block) = self.pick_victim(ORDINARY) else {
            return Ok(());
        };
        let budget = self.blocks.pace(block);
        self.collect(now, ORDINARY, budget)
    }
    /// How urgently free blocks are needed: 0 not at all, 1 soon, 2 host writes pay for collection,
    /// 3 they stop for it.
    pub fn need(&self) -> u8 {
        self.ordinary_need().max(self.slc_need())
    }
    fn ordinary_need(&self) -> u8 {
        let low = self.config.low_water();
        match self.blocks.free(ORDINARY) {
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
        if self.ordinary_need() == 0 || self.read_only().is_some() {
            return Ok(None);
        }
        let Some(block) = self.pick_victim(ORDINARY) else {
            return Ok(None);
        };
        // A nearly full victim costs a block of copies and gains almost nothing.
        let gain = self.layout.slots_per_block - self.blocks.get(block).valid;
        if gain * 16 < self.layout.slots_per_block && self.ordinary_need() < 3 {
            return Ok(None);
        }
        self.collect(now, ORDINARY, units)?;
        Ok(Some(self.nand.all_free().max(now)))
    }
    /// Empties the victim of a pool, or those that are emptied together, in one go; `false` if
    /// there is none.
    pub(crate) fn collect_victim(&mut self, now: Time, pool: usize) -> Result<bool, FtlError> {
        if self.pick_victim(pool).is_none() {
            return Ok(false);
        }
        self.collect(now, pool, u32::MAX)?;
        Ok(true)
    }
    /// The current victim, or the next one.
    pub(crate) fn pick_victim(&mut self, pool: usize) -> Option<u32> {
        // Cuts have left too few blocks to move full ones, so first come the blocks that recovery
        // closed with little in them.
        let scarce = self.cuts_took_reserve();
        let now = self.numbers.accepted();
        self.blocks.pick_victim(pool, scarce, now, &mut self.stats)
    }
    /// True if the reserve (ftl-I6) is not whole although the cold stream has no block open: each
    /// cut during collection closes a block for good.
    fn cuts_took_reserve(&self) -> bool {
        let cold = self.streams.blocks().any(|(stream, _)| stream == GC);
        self.blocks.free(ORDINARY) < RESERVE && !cold
    }
    /// Copies up to `budget` units of the victims, in whole rows; a block is released when its last
    /// valid slot has moved.
    pub(crate) fn collect(&mut self, now: Time, pool: usize, budget: u32) -> Result<(), FtlError> {
        let mut copied = 0;
        let to = if pool == SLC { FOLD } else { GC };
        while copied < budget {
            let rows = self.read_round(now, pool, budget - copied)?;
            if rows.is_empty() {
                break;
            }
            for (block, row, read) in rows {
                for ppn in self.map.live(self.layout.row(block, row)) {
                    self.copy(now, read, ppn, to)?;
                    copied += 1;
                }
                self.blocks.moved_row(pool, block);
            }
        }
        Ok(())
    }
    /// Reads a row of each victim, until they hold `most` valid slots; answers with block, row and
    /// when it is read. All are read before the first copy is programmed, because a read of a die
    /// waits for its program: dies that are read and programmed in turn would wait for each other.
    fn read_round(
        &mut self,
        now: Time,
        pool: usize,
        most: u32,
    ) -> Result<Vec<(u32, u32, Time)>, FtlError> {
        let (mut rows, mut slots) = (Vec::new(), 0);
        for (block, row) in self.blocks.round(pool) {
            if slots >= most {
                break;
            }
            let live = self.map.live(self.layout.row(block, row));
            // A copy must not show a part of a batch that is only in memory (remap-I13).
            if live.iter().any(|p| self.has_unlogged_owner(*p)) {
                self.write_log(now)?;
            }
            let read = match live.len() {
                0 => now,
                n => self.charge_read(now, block, row, n),
            };
            slots += live.len() as u32;
            rows.push((block, row, read));
        }
        Ok(rows)
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
                self.map.point(owner.lpn, NONE);
            }
            owners.retain(|o| o.lpn == tag.lpn);
            if owners.is_empty() {
                return Ok(());
            }
        }
        let owner = Ftl::preferred(&owners, tag.lpn);
        let entry = Entry {
            lost: tag.kind == Kind::Lost,
            birth: Some(owner.version),
            host: false,
            // group-I11: the copy keeps the unit's place, if the group is still open when it is
            // programmed.
            member: match tag.mark {
                GroupMark::Member(index) => Some((tag.group, index)),
                _ => None,
            },
            ..Entry::host(owner.lpn, data)
        };
        // remap-I13: a tag that shows a part of a batch is programmed when all of the batch is on
        // flash.
        let from = match shared {
            true => self.log.after_batches(now.max(read)),
            false => now.max(read),
        };
        self.stats.copied(self.cause(to), 1);
        self.put_shared(from, to, entry, ppn)
    }
    /// Copies a slot whose page decayed: the copy is marked as lost, so that reads of its units
    /// fail.
    fn copy_lost(&mut self, now: Time, owners: Vec<Owner>, to: usize) -> Result<(), FtlError> {
        for owner in owners {
            let zeros = fill::zeros(self.layout.unit_bytes as usize);
            let entry = Entry {
                lost: true,
                host: false,
                ..Entry::host(owner.lpn, zeros)
            };
            self.stats.copied(self.cause(to), 1);
            self.put(now, to, entry)?;
        }
        Ok(())
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
        self.streams.delay(to, now);
        if owners.len() > 1 {
            let slot = self.map.at(lpn);
            self.follow(from, slot, tagged);
        }
        Ok(())
    }
}
