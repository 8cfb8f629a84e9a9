//! Chips under power: their operations, the rules for these, and when they end.

use crate::media::Slot;
use crate::power::{Effect, Undo};
use crate::trail::{Cause, Operation, Trail};
use crate::{
    BlockId, Bus, Cell, Cells, Corrected, FaultLevel, Geometry, Media, Page, PageAddr, PageOrder,
    SlcMode, Timing,
};
use base::{Bytes, Nanos, Set, Time};
use std::sync::Arc;
use thiserror::Error;

/// When the array part of an operation runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Begin of the array operation.
    pub start: Time,
    /// End of the operation, bus transfer of a read included.
    pub end: Time,
}

/// A refused or failed operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NandError {
    /// The caller broke a rule; the medium is unchanged.
    #[error("{rule}: block {block}, page {page}")]
    Rule {
        /// The rule, beginning with its number in the crate documentation.
        rule: &'static str,
        /// Erase block.
        block: u32,
        /// Page in the block.
        page: u32,
    },
    /// The chip reports failure: the block is worn out.
    #[error("block {block} reports failure of a program or erase")]
    Failed {
        /// Erase block.
        block: u32,
        /// When the failure is reported.
        at: Time,
    },
}

/// Operations since power-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NandStats {
    /// Page reads.
    pub reads: u64,
    /// Page programs.
    pub programs: u64,
    /// Block erases.
    pub erases: u64,
    /// Programs of a page before the one programmed last in its block, where that is allowed
    /// ([`PageOrder::Warn`]).
    pub backward: u64,
}

/// A powered chip set.
#[derive(Clone)]
pub struct Nand {
    pub(crate) media: Media,
    pub(crate) undo: Undo,
    timing: Timing,
    slc: Vec<SlcMode>,
    pub(crate) cells: Cells,
    die_free: Vec<Time>,
    channels: Vec<Bus>,
    pub(crate) stats: NandStats,
    trail: Trail,
    /// Blocks whose next program fails, for tests.
    failing_program: Set<u32>,
    /// Blocks whose next erase fails, for tests.
    failing_erase: Set<u32>,
}

impl Nand {
    /// Powers the chips up.
    pub fn new(mut media: Media, timing: Timing) -> Nand {
        media.power_up();
        let (dies, channels) = (
            media.geometry.dies() as usize,
            media.geometry.channels as usize,
        );
        Nand {
            media,
            undo: Undo::default(),
            timing,
            slc: Vec::new(),
            cells: Cells::default(),
            die_free: vec![Time(0); dies],
            channels: vec![Bus::default(); channels],
            stats: NandStats::default(),
            trail: Trail::default(),
            failing_program: Set::default(),
            failing_erase: Set::default(),
        }
    }
    /// Shape of the chips.
    pub fn geometry(&self) -> &Geometry {
        &self.media.geometry
    }
    /// Uses some blocks with one bit per cell from now on; a later call adds others. The chips do
    /// not remember this: like the timing it is set at each power-up, before the first operation.
    pub fn set_slc(&mut self, slc: SlcMode) {
        self.slc.push(slc);
    }
    /// Sets how the cells behave; like the timing this is set at each power-up, before the first
    /// operation.
    pub fn set_cells(&mut self, cells: Cells) {
        self.cells = cells;
        self.undo.keep_last = cells.level >= FaultLevel::L3;
    }
    /// How the cells behave.
    pub fn cells(&self) -> &Cells {
        &self.cells
    }
    /// Erases that a block has behind it.
    pub fn wear_of(&self, block: BlockId) -> u32 {
        self.media.wear(block)
    }
    /// Speed of the chips, of blocks used with all bits per cell.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }
    /// The mode of a block that is used with one bit per cell.
    pub(crate) fn slc_of(&self, block: BlockId) -> Option<&SlcMode> {
        self.slc.iter().find(|slc| slc.holds(block))
    }
    fn timing_of(&self, block: BlockId) -> Timing {
        match self.slc_of(block) {
            Some(slc) => Timing {
                read_us: slc.read_us,
                program_us: slc.program_us,
                erase_us: slc.erase_us,
                ..self.timing
            },
            None => self.timing,
        }
    }
    /// Operations since power-up.
    pub fn stats(&self) -> NandStats {
        self.stats
    }
    /// True if the block carries the bad-block mark. Reading marks costs no time (they are read
    /// once at power-up).
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.media.is_bad(block)
    }
    /// Marks a block bad for good. A cut never undoes a mark, because it is one bit that only goes
    /// one way.
    pub fn mark_bad(&mut self, block: BlockId) {
        self.media.mark_bad(block);
        self.undo.mark_bad(block, &self.media.geometry);
    }
    /// Makes the next program in `block` report failure, for tests of the layers above.
    pub fn fail_next_program(&mut self, block: BlockId) {
        self.failing_program.insert(block.0);
    }
    /// Makes the next erase of `block` report failure, for tests of the layers above.
    pub fn fail_next_erase(&mut self, block: BlockId) {
        self.failing_erase.insert(block.0);
    }
    /// With `on`, keeps every program and erase from now on for [`Nand::take_operations`]; else
    /// stops keeping them.
    pub fn keep_operations(&mut self, on: bool) {
        self.trail.keep(on);
    }
    /// The programs and erases since the last call, in the order of issue; empty unless they are
    /// kept. An erase that was refused is not among them.
    pub fn take_operations(&mut self) -> Vec<Operation> {
        self.trail.take()
    }
    /// Sets the cause that the following operations are counted for.
    pub fn because(&mut self, cause: Cause) {
        self.trail.cause = cause;
    }
    /// When the die that holds `block` has finished all its operations.
    pub fn die_free(&self, block: BlockId) -> Time {
        self.die_free[self.media.geometry.die_of(block) as usize]
    }
    /// When all dies have finished all their operations.
    pub fn all_free(&self) -> Time {
        self.die_free.iter().copied().max().unwrap_or(Time(0))
    }
    /// Drops the undo records of what ended by `now`, because no cut before `now` will come.
    pub fn advance(&mut self, now: Time) {
        self.undo.trim(now);
        if self.timing.bus_gaps {
            self.channels.iter_mut().for_each(|c| c.forget(now));
        }
    }
    /// Ends every operation and starts the clock of the dies again at 0, after work that costs no
    /// virtual time.
    pub fn settle(&mut self) {
        self.undo.forget();
        self.die_free.fill(Time(0));
        self.channels.fill(Bus::default());
    }
    /// Restores the counters, after work that is not counted.
    pub fn set_stats(&mut self, stats: NandStats) {
        self.stats = stats;
    }
    /// What a page holds, without reading it: costs no time and changes no counter.
    pub fn peek(&self, at: PageAddr) -> &Cell {
        match self.media.block(at.block) {
            Some(block) => &block.cells[at.page as usize],
            None => &Cell::Erased,
        }
    }
    /// Reads a page of which `bytes` cross the bus. Answers its content and the end of the
    /// transfer.
    pub fn read(&mut self, now: Time, at: PageAddr, bytes: usize) -> (Cell, Time) {
        let (cell, end, _) = self.sense(now, at, bytes);
        (cell, end)
    }
    /// Reads a page as [`Nand::read`] does, and answers what the error correction reports as well.
    pub fn sense(&mut self, now: Time, at: PageAddr, bytes: usize) -> (Cell, Time, Corrected) {
        self.stats.reads += 1;
        let die = self.media.geometry.die_of(at.block) as usize;
        let channel = self.media.geometry.channel_of(die as u32) as usize;
        let start = self.die_free[die].max(now);
        let sensed = start + self.timing_of(at.block).read();
        let transfer = self.timing.transfer(bytes);
        let end = self.take_bus(channel, sensed, transfer) + transfer;
        self.die_free[die] = end;
        let said = match self.cells.errors.is_none() && self.media.frail.is_empty() {
            true => Corrected::CLEAN,
            false => self.disturb(at, Span { start, end }),
        };
        (self.peek(at).clone(), end, said)
    }
    /// Programs a page. `now` is the earliest time at which the transfer may begin.
    ///
    /// # Errors
    /// [`NandError::Rule`] if nand-N1, nand-N2, nand-N3 or nand-N6 is broken or the content does
    /// not fit; [`NandError::Failed`] if the chip fails.
    pub fn program(&mut self, now: Time, at: PageAddr, page: Page) -> Result<Span, NandError> {
        self.check_program(at, &page, 1)?;
        self.stats.programs += 1;
        let moved = self.move_in(now, at.block, &page);
        let span = self.program_span(moved, at.block);
        self.occupy(at.block, span.end);
        self.place(at, page, span)
    }
    /// Transfers a page over the bus to its die; answers when the transfer ends.
    pub(crate) fn move_in(&mut self, now: Time, block: BlockId, page: &Page) -> Time {
        let die = self.media.geometry.die_of(block);
        let channel = self.media.geometry.channel_of(die) as usize;
        let ready = match self.timing.cache_program {
            true => now,
            false => now.max(self.die_free(block)),
        };
        let transfer = self.timing.transfer_in(page.data_len(), page.spare().len());
        self.take_bus(channel, ready, transfer) + transfer
    }
    /// Reserves the bus of a channel for a transfer, not before `ready`; answers when it begins.
    fn take_bus(&mut self, channel: usize, ready: Time, transfer: Nanos) -> Time {
        let channel = &mut self.channels[channel];
        match self.timing.bus_gaps {
            true => channel.reserve(ready, transfer),
            false => channel.append(ready, transfer),
        }
    }
    /// When the die programs a page whose transfer ended at `moved`.
    pub(crate) fn program_span(&self, moved: Time, block: BlockId) -> Span {
        let start = self.die_free(block).max(moved);
        let end = start + self.timing_of(block).program();
        Span { start, end }
    }
    /// Notes that the die of a block works until `end`.
    pub(crate) fn occupy(&mut self, block: BlockId, end: Time) {
        self.die_free[self.media.geometry.die_of(block) as usize] = end;
    }
    /// Puts a page into its cells.
    pub(crate) fn place(
        &mut self,
        at: PageAddr,
        page: Page,
        span: Span,
    ) -> Result<Span, NandError> {
        let failed = self.program_fails(at);
        let born = self.cells.errors.map_or(0, |_| self.absolute(span.start));
        let frail = self.weak_program(at);
        let block = self.media.block_mut(at.block);
        let old = &block.cells[at.page as usize];
        let new = match old {
            _ if failed || block.weak && frail.is_none() => Cell::Torn,
            Cell::Erased => Cell::Written(Arc::new(page)),
            Cell::Written(old) => Cell::Written(Arc::new(anded(old, &page))),
            // A program only clears bits, so what cannot be corrected stays so.
            Cell::SpareOnly(old) => Cell::SpareOnly(Arc::new(anded(old, &page))),
            Cell::Torn => Cell::Torn,
        };
        let (next, times) = (block.next, block.times);
        if next == 0 {
            block.born = born;
        }
        block.times = if at.page + 1 == block.next {
            block.times + 1
        } else {
            1
        };
        block.next = block.next.max(at.page + 1);
        let old = std::mem::replace(&mut block.cells[at.page as usize], new);
        let was_frail = block.frail.get(&at.page).copied();
        if let Some(frail) = frail {
            self.media.weaken(at, frail);
        }
        self.trail.note(span, at.block, Some(at.page));
        self.undo.push(
            span,
            Effect::Program {
                at,
                old,
                frail: was_frail,
                next,
                times,
            },
        );
        match failed {
            true => Err(NandError::Failed {
                block: at.block.0,
                at: span.end,
            }),
            false => Ok(span),
        }
    }
    /// True if this program fails: a test wants it, or the block is worn out and fails in a
    /// program.
    fn program_fails(&mut self, at: PageAddr) -> bool {
        if !self.failing_program.is_empty() && self.failing_program.remove(&at.block.0) {
            return true;
        }
        self.cells.wear.is_some()
            && self
                .cells
                .life(self.rated(at.block), at.block)
                .is_some_and(|(life, here)| here && self.media.wear(at.block) > life)
    }
    /// Erases a block. `now` is the earliest time at which it may begin.
    ///
    /// # Errors
    /// [`NandError::Rule`] if the block is bad; [`NandError::Failed`] if it is worn out (its
    /// content stays).
    pub fn erase(&mut self, now: Time, block: BlockId) -> Result<Span, NandError> {
        self.check_erase(block)?;
        self.stats.erases += 1;
        let span = self.erase_span(now, block);
        self.occupy(block, span.end);
        self.wipe(block, span)
    }
    pub(crate) fn check_erase(&self, block: BlockId) -> Result<(), NandError> {
        if self.media.is_bad(block) {
            return Err(NandError::Rule {
                rule: "nand-N3: a bad block is not erased",
                block: block.0,
                page: 0,
            });
        }
        Ok(())
    }
    /// When the die would erase a block.
    pub(crate) fn erase_span(&self, now: Time, block: BlockId) -> Span {
        let start = self.die_free(block).max(now);
        let end = start + self.timing_of(block).erase();
        Span { start, end }
    }
    /// Sets the cells of a block to ones.
    pub(crate) fn wipe(&mut self, block: BlockId, span: Span) -> Result<Span, NandError> {
        let worn = self.erase_fails(block);
        if worn || !self.failing_erase.is_empty() && self.failing_erase.remove(&block.0) {
            return Err(NandError::Failed {
                block: block.0,
                at: span.end,
            });
        }
        let slot = self.media.blocks.get_mut(block.0 as usize);
        let old = std::mem::take(slot);
        let mut fresh = crate::media::Block::blank(&self.media.geometry);
        fresh.wear = old.0.as_ref().map_or(0, |b| b.wear) + 1;
        *slot = Slot(Some(Arc::new(fresh)));
        self.undo.push(span, Effect::Erase { block, old });
        self.trail.note(span, block, None);
        Ok(span)
    }
    fn erase_fails(&self, block: BlockId) -> bool {
        let wear = self.media.wear(block);
        match self.cells.life(self.rated(block), block) {
            Some((life, in_program)) => !in_program && wear >= life,
            None => {
                let rated = self.rated(block);
                let extra = base::collections::mix(u64::from(block.0) + 1);
                wear >= rated + (extra % (u64::from(rated) / 4 + 1)) as u32
            }
        }
    }
    /// Erases that this block is rated for.
    fn rated(&self, block: BlockId) -> u32 {
        self.slc_of(block)
            .map_or(self.media.geometry.endurance, |slc| slc.endurance)
    }
    /// Pages that one operation programs in this block.
    pub(crate) fn at_once(&self, block: BlockId) -> u32 {
        match self.slc_of(block) {
            Some(_) => 1,
            None => self.media.geometry.pairing.pages_at_once(),
        }
    }
    /// Checks the rules for a program of `at_once` pages from `at` on, of which `page` is one.
    pub(crate) fn check_program(
        &mut self,
        at: PageAddr,
        page: &Page,
        at_once: u32,
    ) -> Result<(), NandError> {
        let broken = |rule| {
            Err(NandError::Rule {
                rule,
                block: at.block.0,
                page: at.page,
            })
        };
        let g = &self.media.geometry;
        let pages = self
            .slc_of(at.block)
            .map_or(g.pages_per_block, |slc| slc.pages);
        if at.block.0 >= g.blocks() || at.page >= pages {
            return broken("nand-N0: no such page");
        }
        if page.data_len() > g.page_bytes as usize || page.spare().len() > g.spare_bytes as usize {
            return broken("nand-N0: the content does not fit");
        }
        if self.at_once(at.block) != at_once {
            return broken("nand-N6: a word line is programmed whole");
        }
        let Some(block) = self.media.block(at.block) else {
            return Ok(());
        };
        if block.bad {
            return broken("nand-N3: a bad block is not programmed");
        }
        if at.page + 1 == block.next {
            return if block.times < g.nop {
                Ok(())
            } else {
                broken("nand-N1: erase before program")
            };
        }
        if at.page >= block.next {
            return Ok(());
        }
        match (self.cells.order, &block.cells[at.page as usize]) {
            (PageOrder::Strict, _) => broken("nand-N2: pages ascend in a block"),
            (PageOrder::Warn, Cell::Erased) => {
                self.stats.backward += 1;
                Ok(())
            }
            (PageOrder::Warn, _) => broken("nand-N1: erase before program"),
        }
    }
}

/// The content after programming `new` over `old`: bits only go from one to zero.
fn anded(old: &Page, new: &Page) -> Page {
    let flat = |pieces: &[Bytes], len: usize| {
        let mut all = pieces.concat();
        all.resize(len, 0xFF);
        all
    };
    let and = |a: Vec<u8>, b: Vec<u8>| -> Bytes {
        a.iter()
            .zip(&b)
            .map(|(x, y)| x & y)
            .collect::<Vec<u8>>()
            .into()
    };
    let len = old.data_len().max(new.data_len());
    let data = and(flat(&old.data(), len), flat(&new.data(), len));
    let len = old.spare().len().max(new.spare().len());
    let spare = |p: &Page| flat(std::slice::from_ref(p.spare()), len);
    Page::new(vec![data], and(spare(old), spare(new)))
}

/// The part of a span that has passed at a time inside it.
pub(crate) fn share_done(span: Span, at: Time) -> f64 {
    let Nanos(done) = at - span.start;
    let Nanos(all) = span.end - span.start;
    done as f64 / all.max(1) as f64
}
