//! Counting mode: the map, the block table and the policies of the real FTL, without data, tags,
//! log or chips.
//!
//! [`Counting`] takes the same [`Config`] and [`Geometry`] as [`crate::Ftl`] and makes the same
//! decisions in the same order, because both ask one table of blocks (`blocks`): victims, free
//! blocks, static levelling, pace of collection, the reserve (ftl-I6) and the gate that keeps a
//! block from being opened while a copy of its units is in a row buffer (ftl-I2). So for the same
//! sequence of writes it programs data and erases as often; a test compares the two. It needs 8
//! bytes per slot: 512 GiB in units of 4 KiB fit in 1.2 GB.
//!
//! It leaves out everything that needs the medium: checkpoints and log (so a TRIM is durable at
//! once), failing blocks, ordered groups, REMAP, scrubbing, the padding of word lines (`pairs`),
//! and what recovery leaves behind.

use crate::blocks::{Blocks, ORDINARY, SLC};
use crate::config::NONE;
use crate::core::streams::{CAUSES, FOLD, GC, HOST, JOURNAL, STREAMS, lanes, pool_for};
use crate::types::{FtlError, FtlStats};
use crate::wear::Wear;
use crate::{Config, Layout, RESERVE};
use nand::{Cause, Geometry};

/// The row that a stream is filling.
#[derive(Clone, Copy, Debug)]
struct Row {
    block: u32,
    /// Its first slot.
    first: u32,
}

/// Where units of one kind are appended.
#[derive(Clone, Debug)]
struct Frontier {
    lanes: Vec<Option<u32>>,
    turn: usize,
    row: Option<Row>,
    /// For each slot used in the row: the number of the operation that brought its unit.
    accepts: Vec<u64>,
}

impl Frontier {
    /// The place of a slot in the row that is being filled.
    fn buffered(&self, ppn: u32) -> Option<usize> {
        let slot = ppn.wrapping_sub(self.row?.first) as usize;
        (slot < self.accepts.len()).then_some(slot)
    }
}

/// An FTL that counts operations without carrying them out.
#[derive(Clone, Debug)]
pub struct Counting {
    config: Config,
    layout: Layout,
    geometry: Geometry,
    l2p: Vec<u32>,
    p2l: Vec<u32>,
    blocks: Blocks,
    streams: [Frontier; STREAMS],
    accepted: u64,
    mapped: u64,
    stats: FtlStats,
}

impl Counting {
    /// An empty device.
    ///
    /// # Errors
    /// The numbers do not make a device; in words.
    pub fn new(config: Config, geometry: Geometry) -> Result<Counting, FtlError> {
        let layout = Layout::new(&config, &geometry).map_err(FtlError::Config)?;
        let frontier = |lanes: usize| Frontier {
            lanes: vec![None; lanes],
            turn: 0,
            row: None,
            accepts: Vec::with_capacity(layout.slots_per_row as usize),
        };
        Ok(Counting {
            l2p: vec![NONE; layout.units as usize],
            p2l: vec![NONE; (layout.blocks * layout.slots_per_block) as usize],
            blocks: Blocks::new(
                layout,
                config.housekeeping,
                (geometry.dies(), config.lanes),
                |_| false,
            ),
            streams: lanes(&config).map(frontier),
            accepted: 0,
            mapped: 0,
            stats: FtlStats::default(),
            config,
            layout,
            geometry,
        })
    }
    /// Sizes and addresses.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// The host writes a unit.
    ///
    /// # Errors
    /// Out of range, or nothing is left to collect.
    pub fn write(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.write_to(HOST, lpn)
    }
    /// The host writes a unit that holds a control block of a journal.
    ///
    /// # Errors
    /// As [`Counting::write`].
    pub fn write_control(&mut self, lpn: u32) -> Result<(), FtlError> {
        if !self.config.housekeeping.journal_stream {
            return self.write(lpn);
        }
        self.stats.journal_unit();
        self.write_to(JOURNAL, lpn)
    }
    fn write_to(&mut self, stream: usize, lpn: u32) -> Result<(), FtlError> {
        self.in_range(lpn)?;
        self.background_step()?;
        self.stats.host_unit();
        self.put(stream, lpn)
    }
    /// The host writes a unit of zeros.
    ///
    /// # Errors
    /// As [`Counting::write`].
    pub fn write_zeros(&mut self, lpn: u32) -> Result<(), FtlError> {
        if !self.config.housekeeping.zero_units {
            return self.write(lpn);
        }
        self.in_range(lpn)?;
        self.background_step()?;
        self.stats.zero_unit();
        self.trim(lpn)
    }
    /// The host forgets a unit.
    ///
    /// # Errors
    /// Out of range.
    pub fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.in_range(lpn)?;
        let old = std::mem::replace(&mut self.l2p[lpn as usize], NONE);
        if old != NONE {
            self.accepted += 1;
            self.mapped -= 1;
            self.invalidate(old);
        }
        Ok(())
    }
    /// True if a unit was written and not trimmed since: a read of it reads the chips, unless it is
    /// in a row buffer.
    ///
    /// # Errors
    /// Out of range.
    pub fn read(&mut self, lpn: u32) -> Result<bool, FtlError> {
        self.in_range(lpn)?;
        let ppn = self.l2p[lpn as usize];
        let held = ppn != NONE;
        if held && self.streams.iter().all(|s| s.buffered(ppn).is_none()) {
            self.stats.reads += u64::from(self.layout.pages_per_row);
        }
        Ok(held)
    }
    /// The host flushes: its rows are programmed, full or not.
    ///
    /// # Errors
    /// Nothing is left to collect.
    pub fn flush(&mut self) -> Result<(), FtlError> {
        self.issue(JOURNAL);
        self.issue(HOST);
        Ok(())
    }
    /// Programs every row, full or not, as a checkpoint of the real FTL does first.
    pub fn drain(&mut self) {
        [GC, FOLD, JOURNAL, HOST]
            .into_iter()
            .for_each(|s| self.issue(s));
    }
    /// Counters since the device was made.
    pub fn stats(&self) -> FtlStats {
        FtlStats {
            programs: self.stats.by_cause.total(),
            ..self.stats
        }
    }
    /// Units that are mapped.
    pub fn mapped_units(&self) -> u64 {
        self.mapped
    }
    /// Slots that can hold no unit at present: those of free blocks, those not programmed yet in
    /// open ones, and those already collected from a victim.
    pub fn idle_slots(&self) -> u64 {
        let open = self.streams.iter().flat_map(|s| s.lanes.iter().flatten());
        let left = open.map(|b| {
            let rows = self.layout.rows_in(*b) - self.blocks.get(*b).filled;
            u64::from(rows * self.layout.slots_per_row)
        });
        self.blocks.idle_slots() + left.sum::<u64>()
    }
    /// Erase counts, their spread, and a projection of the lifetime.
    pub fn wear_report(&self) -> Wear {
        let bytes = u64::from(self.geometry.pages_per_block) * u64::from(self.geometry.page_bytes);
        let amplification = self.stats.amplification();
        Wear::of(
            self.blocks.erases(),
            bytes,
            self.geometry.endurance,
            amplification,
        )
    }
    /// Bytes of memory that the maps and tables take.
    pub fn memory_bytes(&self) -> u64 {
        let maps = (self.l2p.capacity() + self.p2l.capacity()) * size_of::<u32>();
        maps as u64 + self.blocks.memory_bytes()
    }

    /// Bytes of memory that the maps and tables of such a device take, without making it.
    ///
    /// # Errors
    /// As [`Counting::new`].
    pub fn memory_needed(config: &Config, geometry: &Geometry) -> Result<u64, FtlError> {
        let layout = Layout::new(config, geometry).map_err(FtlError::Config)?;
        let (blocks, slots) = (u64::from(layout.blocks), u64::from(layout.slots_per_block));
        let maps = (u64::from(layout.units) + blocks * slots) * size_of::<u32>() as u64;
        Ok(maps + Blocks::memory_needed(&layout))
    }
    fn in_range(&self, lpn: u32) -> Result<(), FtlError> {
        match lpn < self.layout.units {
            true => Ok(()),
            false => Err(FtlError::OutOfRange(lpn.into())),
        }
    }
    fn background_step(&mut self) -> Result<(), FtlError> {
        self.blocks.begin_levelling(&mut self.stats);
        if !self.blocks.collection_due(self.config.low_water()) {
            return Ok(());
        }
        let Some(block) = self.pick_victim(ORDINARY) else {
            return Ok(());
        };
        self.collect(ORDINARY, self.blocks.pace(block))
    }
    fn pick_victim(&mut self, pool: usize) -> Option<u32> {
        self.blocks
            .pick_victim(pool, false, self.accepted, &mut self.stats)
    }
    /// The cause that programming the current row of a stream is counted for.
    fn cause(&self, stream: usize) -> Cause {
        match stream {
            GC if self.blocks.is_levelling() => Cause::Wear,
            _ => CAUSES[stream],
        }
    }
    fn collect(&mut self, pool: usize, budget: u32) -> Result<(), FtlError> {
        let (to, per_row) = (
            if pool == SLC { FOLD } else { GC },
            self.layout.slots_per_row,
        );
        let cause = self.cause(to);
        let mut copied = 0;
        while copied < budget
            && let Some((block, row)) = self.blocks.round(pool).first().copied()
        {
            let first = self.layout.ppn(block, row, 0);
            for ppn in first..first + per_row {
                if self.p2l[ppn as usize] != NONE {
                    self.copy(to, block, ppn)?;
                    copied += 1;
                }
            }
            self.blocks.moved_row(pool, block);
        }
        self.stats.copied(cause, copied);
        Ok(())
    }
    /// Moves a valid unit of the victim `block`, as [`Counting::put`] would; the unit's old slot is
    /// known.
    fn copy(&mut self, to: usize, block: u32, old: u32) -> Result<(), FtlError> {
        if self.streams[to].row.is_none() {
            self.open_row(to)?;
        }
        self.accepted += 1;
        let s = &mut self.streams[to];
        let row = s.row.expect("opened above");
        let ppn = row.first + s.accepts.len() as u32;
        s.accepts.push(self.accepted);
        let full = s.accepts.len() as u32 == self.layout.slots_per_row;
        let lpn = std::mem::replace(&mut self.p2l[old as usize], NONE);
        self.p2l[ppn as usize] = lpn;
        self.l2p[lpn as usize] = ppn;
        self.blocks.gain(row.block);
        self.blocks.lose(block, self.accepted);
        if full {
            self.issue(to);
        }
        Ok(())
    }
    fn put(&mut self, stream: usize, lpn: u32) -> Result<(), FtlError> {
        if self.streams[stream].row.is_none() {
            self.open_row(stream)?;
        }
        self.accepted += 1;
        let mut accept = self.accepted;
        let s = &mut self.streams[stream];
        let row = s.row.expect("opened above");
        let ppn = row.first + s.accepts.len() as u32;
        // The number is lowered below if the unit replaces one that is in a buffer.
        s.accepts.push(accept);
        self.blocks.gain(row.block);
        self.p2l[ppn as usize] = lpn;
        let old = std::mem::replace(&mut self.l2p[lpn as usize], ppn);
        if old == NONE {
            self.mapped += 1;
        } else {
            for s in &self.streams {
                if let Some(slot) = s.buffered(old) {
                    accept = accept.min(s.accepts[slot]);
                }
            }
            let last = self.streams[stream].accepts.last_mut();
            *last.expect("pushed above") = accept;
            self.invalidate(old);
        }
        if self.streams[stream].accepts.len() as u32 == self.layout.slots_per_row {
            self.issue(stream);
        }
        Ok(())
    }
    fn open_row(&mut self, stream: usize) -> Result<(), FtlError> {
        let lane = self.streams[stream].turn;
        let block = match self.streams[stream].lanes[lane] {
            Some(block) => block,
            None => self.open_block(stream, lane)?,
        };
        let first = self.layout.ppn(block, self.blocks.get(block).filled, 0);
        let s = &mut self.streams[stream];
        s.lanes[lane] = Some(block);
        s.turn = if lane + 1 == s.lanes.len() {
            0
        } else {
            lane + 1
        };
        s.row = Some(Row { block, first });
        s.accepts.clear();
        Ok(())
    }
    fn issue(&mut self, stream: usize) {
        let s = &mut self.streams[stream];
        let used = s.accepts.len() as u32;
        if used == 0 {
            return;
        }
        let Some(row) = s.row.take() else { return };
        s.accepts.clear();
        let cause = self.cause(stream);
        self.stats.program(cause, self.layout.pages_per_row.into());
        self.stats.pad(self.layout.slots_per_row - used);
        if self.blocks.fill_row(row.block) {
            let lanes = self.streams[stream].lanes.iter_mut();
            lanes
                .filter(|l| **l == Some(row.block))
                .for_each(|l| *l = None);
            self.blocks.close(row.block, self.accepted);
        }
    }
    fn invalidate(&mut self, ppn: u32) {
        let block = ppn / self.layout.slots_per_block;
        self.p2l[ppn as usize] = NONE;
        self.blocks.lose(block, self.accepted);
    }
    fn open_block(&mut self, stream: usize, lane: usize) -> Result<u32, FtlError> {
        let pool = pool_for(&self.config, stream);
        let mut drained = false;
        loop {
            match (stream, pool) {
                (HOST, SLC) => self.make_room(SLC, 0)?,
                (GC, _) => {}
                _ => self.make_room(ORDINARY, RESERVE)?,
            }
            let durable = self.durable_before();
            let chosen = self.blocks.choose(pool, stream == GC, lane as u32, durable);
            let Some(block) = chosen else {
                if std::mem::replace(&mut drained, true) {
                    return Err(FtlError::ReadOnly("no free block is left".into()));
                }
                // Every free block waits for a copy that is still in a buffer (ftl-I2).
                self.drain();
                continue;
            };
            self.blocks.take(block);
            self.blocks.open(block);
            self.stats.erases += 1;
            return Ok(block);
        }
    }
    /// Collects, or folds, until more than `keep` blocks of a pool are free (ftl-I6).
    fn make_room(&mut self, pool: usize, keep: u32) -> Result<(), FtlError> {
        while self.blocks.free(pool) <= keep {
            if self.pick_victim(pool).is_none() {
                return Err(FtlError::ReadOnly("nothing is left to collect".into()));
            }
            self.collect(pool, u32::MAX)?;
        }
        Ok(())
    }
    /// Operations with a number below this are programmed.
    fn durable_before(&self) -> u64 {
        let waiting = self.streams.iter().filter(|s| s.row.is_some());
        let waiting = waiting.flat_map(|s| s.accepts.iter().copied());
        waiting.min().unwrap_or(u64::MAX)
    }
    /// Asserts every invariant that can be checked on one state. Slow: looks at every slot.
    ///
    /// # Panics
    /// With the number of the invariant that does not hold.
    pub fn check(&self) {
        let mut valid = vec![0; self.layout.blocks as usize];
        for (lpn, &ppn) in (0u32..).zip(&self.l2p).filter(|(_, p)| **p != NONE) {
            assert_eq!(
                self.p2l[ppn as usize], lpn,
                "ftl-I1: P2L does not answer L2P"
            );
            valid[(ppn / self.layout.slots_per_block) as usize] += 1;
        }
        let owned = self.p2l.iter().filter(|l| **l != NONE).count();
        assert_eq!(
            owned as u64, self.mapped,
            "ftl-I1: a slot has an owner that left it"
        );
        self.blocks.check(&valid);
    }
}
