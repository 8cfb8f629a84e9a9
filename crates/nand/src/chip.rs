//! Chips under power: operations, their rules, and when they end.

use crate::media::Slot;
use crate::power::{Effect, Undo};
use crate::trail::{Cause, Operation, Trail};
use crate::{BlockId, Cell, Geometry, Media, Page, PageAddr, SlcMode, Timing};
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
}

/// A powered chip set.
#[derive(Clone)]
pub struct Nand {
    pub(crate) media: Media,
    pub(crate) undo: Undo,
    timing: Timing,
    slc: Option<SlcMode>,
    die_free: Vec<Time>,
    channel_free: Vec<Time>,
    stats: NandStats,
    trail: Trail,
    /// Blocks whose next program fails, for tests.
    failing_program: Set<u32>,
    /// Blocks whose next erase fails, for tests.
    failing_erase: Set<u32>,
}

impl Nand {
    /// Powers the chips up.
    pub fn new(media: Media, timing: Timing) -> Nand {
        let (dies, channels) = (
            media.geometry.dies() as usize,
            media.geometry.channels as usize,
        );
        Nand {
            media,
            undo: Undo::default(),
            timing,
            slc: None,
            die_free: vec![Time(0); dies],
            channel_free: vec![Time(0); channels],
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
    /// Uses some blocks with one bit per cell from now on. The chips do not remember it: like the timing it is told at each
    /// power-up, before the first operation.
    pub fn set_slc(&mut self, slc: SlcMode) {
        self.slc = Some(slc);
    }
    /// The mode of a block that is used with one bit per cell.
    fn slc_of(&self, block: BlockId) -> Option<&SlcMode> {
        self.slc.as_ref().filter(|slc| slc.holds(block))
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
    /// True if the block carries the bad-block mark. Reading marks costs no time (they are read once at power-up).
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.media.is_bad(block)
    }
    /// Marks a block bad for good. Never undone by a cut: a mark is one bit that only goes one way.
    pub fn mark_bad(&mut self, block: BlockId) {
        self.media.mark_bad(block);
        self.undo.mark_bad(block);
    }
    /// Makes the next program in `block` report failure: for tests of what lies above.
    pub fn fail_next_program(&mut self, block: BlockId) {
        self.failing_program.insert(block.0);
    }
    /// Makes the next erase of `block` report failure: for tests of what lies above.
    pub fn fail_next_erase(&mut self, block: BlockId) {
        self.failing_erase.insert(block.0);
    }
    /// Keeps every program and erase from now on, until [`Nand::take_operations`]; or stops to.
    pub fn keep_operations(&mut self, on: bool) {
        self.trail.keep(on);
    }
    /// The programs and erases since the last call, in the order of issue; empty unless they are kept. An erase that was
    /// refused is none.
    pub fn take_operations(&mut self) -> Vec<Operation> {
        self.trail.take()
    }
    /// Says why the operations that come are made.
    pub fn because(&mut self, cause: Cause) {
        self.trail.cause = cause;
    }
    /// When the die that holds `block` has nothing more to do.
    pub fn die_free(&self, block: BlockId) -> Time {
        self.die_free[self.media.geometry.die_of(block) as usize]
    }
    /// When all dies have nothing more to do.
    pub fn all_free(&self) -> Time {
        self.die_free.iter().copied().max().unwrap_or(Time(0))
    }
    /// Forgets how to undo what ended by `now`: no cut before `now` will come.
    pub fn advance(&mut self, now: Time) {
        self.undo.trim(now);
    }
    /// Lets every operation be over and starts the clock of the dies again at 0: for work that costs no virtual time.
    pub fn settle(&mut self) {
        self.undo = Undo::default();
        self.die_free.fill(Time(0));
        self.channel_free.fill(Time(0));
    }
    /// Puts back the counters: for work that counts in no figure.
    pub fn set_stats(&mut self, stats: NandStats) {
        self.stats = stats;
    }
    /// What a page holds, without reading it: costs no time, counts in no figure.
    pub fn peek(&self, at: PageAddr) -> &Cell {
        match self.media.block(at.block) {
            Some(block) => &block.cells[at.page as usize],
            None => &Cell::Erased,
        }
    }
    /// Reads a page of which `bytes` cross the bus. Answers with its content and the end of the transfer.
    pub fn read(&mut self, now: Time, at: PageAddr, bytes: usize) -> (Cell, Time) {
        self.stats.reads += 1;
        let die = self.media.geometry.die_of(at.block) as usize;
        let channel = self.media.geometry.channel_of(die as u32) as usize;
        let sensed = self.die_free[die].max(now) + self.timing_of(at.block).read();
        let end = self.channel_free[channel].max(sensed) + self.timing.transfer(bytes);
        self.die_free[die] = end;
        self.channel_free[channel] = end;
        (self.peek(at).clone(), end)
    }
    /// Programs a page. `now` is the earliest time at which the transfer may begin.
    ///
    /// # Errors
    /// [`NandError::Rule`] if N1, N2 or N3 is broken or the content does not fit; [`NandError::Failed`] if the chip fails.
    pub fn program(&mut self, now: Time, at: PageAddr, page: Page) -> Result<Span, NandError> {
        self.check_program(at, &page)?;
        self.stats.programs += 1;
        let die = self.media.geometry.die_of(at.block) as usize;
        let channel = self.media.geometry.channel_of(die as u32) as usize;
        let moved = self.channel_free[channel].max(now)
            + self
                .timing
                .transfer_in(page.data_len(), page.spare().len());
        let start = self.die_free[die].max(moved);
        let end = start + self.timing_of(at.block).program();
        self.channel_free[channel] = moved;
        self.die_free[die] = end;
        let failed = !self.failing_program.is_empty() && self.failing_program.remove(&at.block.0);
        let block = self.media.block_mut(at.block);
        let old = &block.cells[at.page as usize];
        let new = match old {
            _ if failed || block.weak => Cell::Torn,
            Cell::Written(old) => Cell::Written(Arc::new(anded(old, &page))),
            _ => Cell::Written(Arc::new(page)),
        };
        let (next, times) = (block.next, block.times);
        block.times = if at.page + 1 == block.next {
            block.times + 1
        } else {
            1
        };
        block.next = at.page + 1;
        let old = std::mem::replace(&mut block.cells[at.page as usize], new);
        self.trail
            .note(Span { start, end }, at.block, Some(at.page));
        self.undo.push(
            Span { start, end },
            Effect::Program {
                at,
                old,
                next,
                times,
            },
        );
        match failed {
            true => Err(NandError::Failed {
                block: at.block.0,
                at: end,
            }),
            false => Ok(Span { start, end }),
        }
    }
    /// Erases a block. `now` is the earliest time at which it may begin.
    ///
    /// # Errors
    /// [`NandError::Rule`] if the block is bad; [`NandError::Failed`] if it is worn out (its content stays).
    pub fn erase(&mut self, now: Time, block: BlockId) -> Result<Span, NandError> {
        if self.media.is_bad(block) {
            return Err(NandError::Rule {
                rule: "N3: a bad block is not erased",
                block: block.0,
                page: 0,
            });
        }
        self.stats.erases += 1;
        let die = self.media.geometry.die_of(block) as usize;
        let start = self.die_free[die].max(now);
        let end = start + self.timing_of(block).erase();
        self.die_free[die] = end;
        let worn = self.media.wear(block) >= self.life_of(block);
        if worn || !self.failing_erase.is_empty() && self.failing_erase.remove(&block.0) {
            return Err(NandError::Failed {
                block: block.0,
                at: end,
            });
        }
        let slot = self.media.blocks.get_mut(block.0 as usize);
        let old = std::mem::take(slot);
        let mut fresh = crate::media::Block::blank(&self.media.geometry);
        fresh.wear = old.0.as_ref().map_or(0, |b| b.wear) + 1;
        *slot = Slot(Some(Arc::new(fresh)));
        self.undo
            .push(Span { start, end }, Effect::Erase { block, old });
        self.trail.note(Span { start, end }, block, None);
        Ok(Span { start, end })
    }
    /// Erases that this block stands.
    fn life_of(&self, block: BlockId) -> u32 {
        let rated = self
            .slc_of(block)
            .map_or(self.media.geometry.endurance, |slc| slc.endurance);
        rated + (base::collections::mix(u64::from(block.0) + 1) % (u64::from(rated) / 4 + 1)) as u32
    }
    fn check_program(&self, at: PageAddr, page: &Page) -> Result<(), NandError> {
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
            return broken("N0: no such page");
        }
        if page.data_len() > g.page_bytes as usize || page.spare().len() > g.spare_bytes as usize {
            return broken("N0: the content does not fit");
        }
        let Some(block) = self.media.block(at.block) else {
            return Ok(());
        };
        if block.bad {
            return broken("N3: a bad block is not programmed");
        }
        if at.page + 1 == block.next {
            return if block.times < g.nop {
                Ok(())
            } else {
                broken("N1: erase before program")
            };
        }
        if at.page < block.next {
            broken("N2: pages ascend in a block")
        } else {
            Ok(())
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
    let data = and(flat(old.data(), len), flat(new.data(), len));
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
