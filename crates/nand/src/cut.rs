//! What a power cut leaves at the fault levels L2 and L3 (the table at the head of the crate).
//!
//! The shares are those of the literature as far as it has any: Tseng et al., DAC 2011 (interrupted
//! programs corrupt pages programmed before; interrupted erases make later programs unreliable;
//! error rates are not monotone in the time), Cai et al., HPCA 2017 (half-programmed cells),
//! linux-mtd on unstable bits (pages read well at first and fail later).

use crate::media::{Block, Frail, Slot};
use crate::power::Effect;
use crate::{BlockId, Cell, FaultLevel, Media, Nand, Page, PageAddr};
use base::{Bytes, Rng};
use std::sync::Arc;

/// Power-ups that an unstable page of an interrupted program survives: it can be read at the next
/// mount, but not at the one after.
const ONE_MOUNT: u8 = 2;

impl Nand {
    /// Leaves what remains of an operation of which the part `done` had passed.
    pub(crate) fn tear_hard(&mut self, effect: Effect, done: f64, mut rng: Rng) {
        match effect {
            Effect::Program { at, old, frail, .. } => {
                // A cut this early may leave the page as it was.
                let lucky = rng.one_in(2);
                match done < 0.05 && lucky {
                    true => self.media.restore(at, old, frail),
                    false => self.tear_program(at, done, lucky, &mut rng),
                }
            }
            Effect::Erase { block, old } => {
                if done < 0.05 && rng.one_in(2) {
                    self.media.blocks.set(block.0 as usize, old);
                } else {
                    self.tear_erase(block, old, &mut rng);
                }
            }
            Effect::Sense { .. } => {}
        }
    }
    fn tear_program(&mut self, at: PageAddr, done: f64, lucky: bool, rng: &mut Rng) {
        let l3 = self.cells.level >= FaultLevel::L3;
        // The pages of one operation draw the same numbers, so that a word line is torn as a whole.
        let draw = rng.below(100);
        let (sub, reads) = (rng.below(8), rng.below(48) as u32);
        if done >= 0.95 && (l3 || lucky) {
            // The page is complete; at L3 one in ten is marginal.
            if l3 && draw < 10 {
                self.spoil(at, 1 + reads % 8, ONE_MOUNT);
            }
            return;
        }
        let new = match self.peek(at) {
            Cell::Written(page) => Some(page.clone()),
            _ => None,
        };
        match (new, draw) {
            (Some(page), 0..70) => {
                let cell = match sub {
                    0..4 => Cell::Torn,
                    7 if l3 => Cell::Written(Arc::new(spare_torn(&page, rng))),
                    _ => Cell::SpareOnly(page),
                };
                self.media.set_cell(at, cell);
            }
            (Some(_), 70..95) => self.spoil(at, 1 + reads % 4, ONE_MOUNT),
            (Some(_), _) => self.spoil(at, 16 + reads, ONE_MOUNT),
            (None, _) => self.media.set_cell(at, Cell::Torn),
        }
        if l3 && self.slc_of(at.block).is_none() {
            self.endanger(at, rng);
        }
    }
    /// Draws the fate of the earlier pages of a torn page's word line: well, unstable or lost.
    fn endanger(&mut self, at: PageAddr, rng: &mut Rng) {
        let g = self.media.geometry;
        let Some(page) = g.pairing.lower_of(at.page, g.pages_per_block) else {
            return;
        };
        let lower = PageAddr { page, ..at };
        if matches!(self.peek(lower), Cell::Erased) {
            return;
        }
        match rng.below(4) {
            0 | 1 => {}
            2 => self.spoil(lower, 1 + rng.below(8) as u32, ONE_MOUNT),
            _ => self.media.set_cell(lower, Cell::Torn),
        }
    }
    fn tear_erase(&mut self, block: BlockId, old: Slot, rng: &mut Rng) {
        let old = old
            .0
            .map_or_else(|| Block::blank(&self.media.geometry), |b| (*b).clone());
        let mut mixed = Block {
            wear: old.wear + 1,
            weak: true,
            frail: Default::default(),
            ..old
        };
        let looks_complete = rng.one_in(3);
        let mut unstable = Vec::new();
        for (cell, page) in mixed.cells.iter_mut().zip(0..) {
            let was = std::mem::take(cell);
            if looks_complete {
                continue;
            }
            *cell = match (was, rng.below(5)) {
                (Cell::Erased, _) | (_, 0) => Cell::Erased,
                (_, 1) => Cell::Torn,
                (Cell::Written(page), 2) => Cell::SpareOnly(page),
                (was, 3) => {
                    unstable.push((page, 1 + rng.below(4) as u32));
                    was
                }
                (was, _) => was,
            };
        }
        self.media
            .blocks
            .set(block.0 as usize, Slot(Some(Arc::new(mixed))));
        for (page, reads) in unstable {
            self.spoil(PageAddr { block, page }, reads, ONE_MOUNT);
        }
    }
    /// In one cut of four the voltage sank before the power was off: then the last one or two
    /// programs that seemed complete are marginal. They can be read a number of times, over any
    /// number of power-ups.
    pub(crate) fn brown_out(&mut self, last: &[PageAddr], mut rng: Rng) {
        if !rng.one_in(4) {
            return;
        }
        for at in last.iter().take(1 + rng.below(2) as usize) {
            let reads = 24 + rng.below(40) as u32;
            if rng.one_in(2) {
                self.spoil(*at, reads, Frail::FOREVER);
            }
        }
    }
    /// What becomes of a program in a weak block that reports success; `None`: the page cannot be
    /// read.
    pub(crate) fn weak_program(&self, at: PageAddr) -> Option<Frail> {
        let block = self.media.block(at.block)?;
        if !block.weak || self.cells.level == FaultLevel::L1 {
            return None;
        }
        let place = u64::from(at.block.0) << 32 | u64::from(at.page) ^ u64::from(block.wear) << 12;
        let draw = base::collections::mix(self.cells.seed ^ base::collections::mix(place + 1));
        (draw & 3 == 0).then_some(Frail {
            reads: (draw >> 8) as u32 % 8,
            power_ups: ONE_MOUNT,
        })
    }
    /// Makes a page that reads well unreadable after a while.
    fn spoil(&mut self, at: PageAddr, reads: u32, power_ups: u8) {
        if matches!(self.peek(at), Cell::Written(_)) {
            self.media.weaken(at, Frail { reads, power_ups });
        }
    }
}

impl Media {
    pub(crate) fn set_cell(&mut self, at: PageAddr, cell: Cell) {
        self.block_mut(at.block).cells[at.page as usize] = cell;
    }
    /// Gives a page its content of before, which reads well as long as it did then.
    pub(crate) fn restore(&mut self, at: PageAddr, old: Cell, frail: Option<Frail>) {
        self.set_cell(at, old);
        match frail {
            Some(frail) => self.weaken(at, frail),
            None => drop(self.block_mut(at.block).frail.remove(&at.page)),
        }
    }
    /// Makes a page read well `reads` more times, over any number of power-ups, for tests of the
    /// layers above.
    pub fn make_unstable(&mut self, at: PageAddr, reads: u32) {
        self.weaken(
            at,
            Frail {
                reads,
                power_ups: Frail::FOREVER,
            },
        );
    }
    /// Loses the data of a page and keeps its spare area, for tests of the layers above.
    pub fn lose_data(&mut self, at: PageAddr) {
        if let Cell::Written(page) = self.cell(at) {
            self.set_cell(at, Cell::SpareOnly(page));
        }
    }
}

/// A page with the data of `page` and garbage in the spare area.
fn spare_torn(page: &Page, rng: &mut Rng) -> Page {
    let mut spare = page.spare().to_vec();
    spare.iter_mut().for_each(|b| *b &= rng.below(256) as u8);
    Page::new(page.data(), Bytes::from(spare))
}
