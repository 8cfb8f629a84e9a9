//! Free blocks: choosing, erasing, retiring.

use crate::config::RESERVE;
use crate::core::{Ftl, FtlError, GC, HOST, State};
use base::Time;
use nand::BlockId;

impl Ftl {
    /// Opens a block for a lane of a stream: erased now (I8), lowest wear first for the host, highest for cold data.
    pub(crate) fn open_block(
        &mut self,
        now: Time,
        stream: usize,
        lane: usize,
    ) -> Result<u32, FtlError> {
        let mut drained = false;
        loop {
            if stream == HOST {
                self.make_room(now)?;
            }
            let Some(block) = self.choose(stream, lane as u32) else {
                if self.free == 0 {
                    return Err(self.end_of_life("no free block is left"));
                }
                // Every free block waits for evidence that is still in a buffer (I2).
                if std::mem::replace(&mut drained, true) {
                    return Err(
                        self.end_of_life("every free block waits for a unit whose program failed")
                    );
                }
                self.drain(now)?;
                if stream == HOST && !self.failed.is_empty() {
                    self.empty_buffers(now)?;
                }
                continue;
            };
            let start = now.max(self.evidence_end);
            self.free -= 1;
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
            info.state = State::Open;
            info.erases += 1;
            info.filled = 0;
            self.opened += 1;
            return Ok(block);
        }
    }
    /// The free block to open next: of the lane's own die if there is one.
    fn choose(&self, stream: usize, lane: u32) -> Option<u32> {
        let durable = self.durable_before();
        let dies = self.nand.geometry().dies();
        let candidates = self.blocks.iter().enumerate();
        let ready = candidates.filter(|(_, b)| b.state == State::Free && b.freed_at < durable);
        let key = |(i, b): &(usize, &crate::core::BlockInfo)| {
            let wear = if stream == HOST {
                b.erases
            } else {
                u32::MAX - b.erases
            };
            let elsewhere = stream == HOST && *i as u32 % dies != lane % dies;
            (elsewhere, wear, *i)
        };
        ready.min_by_key(key).map(|(i, _)| i as u32)
    }
    /// Operations with a number below this are on flash or were superseded there.
    pub(crate) fn durable_before(&self) -> u64 {
        let rows = self.pending_rows();
        let rows = rows.filter_map(|r| r.entries.iter().map(|e| e.accept).min());
        let trims = self.log.pending.iter().map(|(_, accept)| *accept);
        rows.chain(trims).min().unwrap_or(u64::MAX)
    }
    /// Programs everything that is buffered.
    pub(crate) fn drain(&mut self, now: Time) -> Result<(), FtlError> {
        self.issue(now, GC)?;
        self.issue(now, HOST)?;
        self.write_log(now)
    }
    /// A full block leaves its lane.
    pub(crate) fn close(&mut self, stream: usize, block: u32) {
        self.leave_lane(stream, block);
        self.close_block(block);
    }
    /// Nothing more is appended to a block.
    pub(crate) fn leave_lane(&mut self, stream: usize, block: u32) {
        for lane in &mut self.streams[stream].lanes {
            if *lane == Some(block) {
                *lane = None;
            }
        }
    }
    /// From now on collection may take the block.
    pub(crate) fn close_block(&mut self, block: u32) {
        self.blocks[block as usize].state = State::Closed;
        if self.blocks[block as usize].valid == 0 {
            self.release(block);
        }
    }
    /// A block without valid slots becomes free, to be erased when it is opened; a failing one is retired.
    pub(crate) fn release(&mut self, block: u32) {
        let info = &mut self.blocks[block as usize];
        info.freed_at = self.accepted;
        if self.victim.is_some_and(|(victim, _)| victim == block) {
            self.victim = None;
        }
        if info.failing {
            info.state = State::Bad;
            self.failing -= 1;
        } else {
            info.state = State::Free;
            self.free += 1;
        }
    }
    /// Collects until the host stream may take a block (I6).
    fn make_room(&mut self, now: Time) -> Result<(), FtlError> {
        while self.free <= RESERVE {
            self.rescue(now)?;
            if !self.collect_victim(now)? {
                return Err(self.end_of_life("nothing is left to collect"));
            }
        }
        Ok(())
    }
    /// Latches read-only mode when the good blocks cannot carry the exported capacity any more.
    pub(crate) fn check_life(&mut self) {
        let usable = |b: &&crate::core::BlockInfo| {
            !matches!(b.state, State::Bad | State::Meta) && !b.failing
        };
        let good = self.blocks.iter().filter(usable).count() as u32;
        let floor = self.layout.data_blocks_needed(&self.config);
        if good < floor {
            self.end_of_life(&format!(
                "worn out: {good} good blocks are left, {floor} are needed"
            ));
        }
    }
    /// Latches read-only mode; the first reason stays.
    pub(crate) fn end_of_life(&mut self, why: &str) -> FtlError {
        FtlError::ReadOnly(
            self.read_only
                .get_or_insert_with(|| why.to_string())
                .clone(),
        )
    }
}
