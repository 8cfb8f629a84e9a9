//! Free blocks: chooses which one to open, erases it, and retires failing ones.

use crate::config::RESERVE;
use crate::core::{Ftl, FtlError, GC, HOST, State};
use crate::free::FreeBlocks;
use crate::slc::{ORDINARY, Pool, SLC};
use crate::victim::Victims;
use base::{Mutant, Time};
use nand::BlockId;

impl Ftl {
    /// Opens a block for a lane of a stream. It is erased now (ftl-I8); the least worn one is taken
    /// for the host, the most worn one for cold data.
    pub(crate) fn open_block(
        &mut self,
        now: Time,
        stream: usize,
        lane: usize,
    ) -> Result<u32, FtlError> {
        let mut drained = false;
        loop {
            match (stream, self.pool_for(stream)) {
                (HOST, SLC) => self.make_slc_room(now)?,
                (GC, _) => {}
                _ => self.make_room(now)?,
            }
            let pool = self.pool_for(stream);
            let Some(block) = self.choose(stream, lane as u32) else {
                if self.pools[pool].free == 0 {
                    return Err(self.end_of_life("no free block is left"));
                }
                // Every free block waits for evidence that is still in a buffer (ftl-I2).
                if std::mem::replace(&mut drained, true) {
                    return Err(
                        self.end_of_life("every free block waits for a unit whose program failed")
                    );
                }
                self.drain(now)?;
                if stream != GC && !self.failed.is_empty() {
                    self.empty_buffers(now)?;
                    self.write_log(now)?;
                }
                continue;
            };
            let start = self.erase_from(now, block);
            self.pools[pool].free -= 1;
            self.free
                .take(pool, block, self.blocks[block as usize].erases);
            self.nand.because(crate::streams::CAUSES[stream]);
            let erased = crate::program::broken_rules_panic(self.nand.erase(start, BlockId(block)));
            let info = &mut self.blocks[block as usize];
            if erased.is_err() {
                info.state = State::Bad;
                self.nand.mark_bad(BlockId(block));
                self.check_life();
                if let Some(why) = &self.read_only {
                    return Err(FtlError::ReadOnly(why.clone()));
                }
                continue;
            }
            if pool == ORDINARY {
                self.levelling.erased();
            }
            info.state = State::Open;
            info.erases += 1;
            info.filled = 0;
            self.opened += 1;
            self.forget_scrub(block);
            return Ok(block);
        }
    }
    /// The free block to open next, of the lane's own die if that has one.
    fn choose(&self, stream: usize, lane: u32) -> Option<u32> {
        let durable = self.durable_before();
        let ready = |b: u32| self.blocks[b as usize].freed_at < durable;
        let pool = self.pool_for(stream);
        match stream {
            GC => self.free.for_cold(pool, ready),
            _ => self.free.for_hot(pool, lane, ready),
        }
    }
    /// Operations with a number below the answer are on flash, or were superseded there.
    pub(crate) fn durable_before(&self) -> u64 {
        let rows = self.pending_rows();
        let rows = rows.filter_map(|r| r.entries.iter().map(|e| e.accept).min());
        let trims = self.log.pending.iter().map(|(_, accept)| *accept);
        let batches = self.log.batches.iter().map(|b| b.accept);
        let records = batches.chain(self.log.owners.values().copied());
        let wait = !(records.clone().next().is_some() && self.mutant(Mutant::EraseBeforeOwners));
        let records = records.filter(|_| wait);
        let pairs = self.pairs.iter().map(|open| open.accept);
        rows.chain(trims)
            .chain(records)
            .chain(pairs)
            .min()
            .unwrap_or(u64::MAX)
    }
    /// Programs everything that is buffered.
    pub(crate) fn drain(&mut self, now: Time) -> Result<(), FtlError> {
        self.issue_all(now)?;
        self.close_pairs(now, true)?;
        self.write_log(now)
    }
    /// Takes a full block off its lane.
    pub(crate) fn close(&mut self, stream: usize, block: u32) {
        self.leave_lane(stream, block);
        self.close_block(block);
    }
    /// Takes a block off its lane, so that nothing more is appended to it.
    pub(crate) fn leave_lane(&mut self, stream: usize, block: u32) {
        for lane in &mut self.streams[stream].lanes {
            if *lane == Some(block) {
                *lane = None;
            }
        }
        self.forget_pairs(block);
    }
    /// Closes a block, so that collection may take it from now on.
    pub(crate) fn close_block(&mut self, block: u32) {
        let pool = self.pool_of(block);
        let info = &mut self.blocks[block as usize];
        info.state = State::Closed;
        match info.valid {
            0 => self.release(block),
            valid => self.victims.insert(pool, block, valid, self.accepted),
        }
    }
    /// Frees a block without valid slots; it will be erased when it is opened. A failing block is
    /// retired instead.
    pub(crate) fn release(&mut self, block: u32) {
        let which = self.pool_of(block);
        let pool = &mut self.pools[which];
        self.victims.remove(block);
        let info = &mut self.blocks[block as usize];
        info.freed_at = self.accepted;
        if pool.victim.is_some_and(|(victim, _)| victim == block) {
            pool.victim = None;
        }
        if info.failing {
            info.state = State::Bad;
            pool.failing -= 1;
        } else {
            info.state = State::Free;
            pool.free += 1;
            self.free.insert(which, block, info.erases);
        }
    }
    /// Counts the blocks of the pools anew; there is no victim then.
    pub(crate) fn count_pools(&mut self) {
        let (own, slots) = (self.config.housekeeping, self.layout.slots_per_block);
        self.pools = [Pool::default(); 2];
        self.free = FreeBlocks::new(self.nand.geometry().dies());
        self.victims = Victims::new(own.policy, own.seed, self.layout.blocks, slots);
        for block in 0..self.layout.blocks {
            let pool = self.pool_of(block);
            let info = &self.blocks[block as usize];
            self.pools[pool].free += u32::from(info.state == State::Free);
            self.pools[pool].failing += u32::from(info.failing);
            match info.state {
                State::Free => self.free.insert(pool, block, info.erases),
                State::Closed => self.victims.insert(pool, block, info.valid, 0),
                _ => {}
            }
        }
    }
    /// Collects until host or folding may take an ordinary block (ftl-I6).
    fn make_room(&mut self, now: Time) -> Result<(), FtlError> {
        while self.pools[ORDINARY].free <= RESERVE {
            self.rescue(now)?;
            self.checkpoint_if_due(now)?;
            if !self.collect_victim(now, ORDINARY)? {
                return Err(self.end_of_life("nothing is left to collect"));
            }
        }
        Ok(())
    }
    /// Ordinary blocks that take data.
    pub(crate) fn good_blocks(&self) -> u32 {
        let usable = |(i, b): &(usize, &crate::core::BlockInfo)| {
            let fit = !matches!(b.state, State::Bad | State::Meta) && !b.failing;
            fit && !self.layout.is_slc(*i as u32)
        };
        self.blocks.iter().enumerate().filter(usable).count() as u32
    }
    /// Makes the device read-only when the good blocks cannot carry the exported capacity any more.
    pub(crate) fn check_life(&mut self) {
        self.check_slc_life();
        let good = self.good_blocks();
        let floor = self.layout.data_blocks_needed(&self.config);
        if good < floor {
            self.end_of_life(&format!(
                "worn out: {good} good blocks are left, {floor} are needed"
            ));
        }
    }
    /// Makes the device read-only; the first reason stays.
    pub(crate) fn end_of_life(&mut self, why: &str) -> FtlError {
        FtlError::ReadOnly(
            self.read_only
                .get_or_insert_with(|| why.to_string())
                .clone(),
        )
    }
}
